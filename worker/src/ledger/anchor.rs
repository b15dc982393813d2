//! `ledger.head`: how far the ledger reached when something was last answered on the strength of it.
//!
//! A line that a crash cut off and one that somebody damaged look alike. What tells them apart is this file, which is
//! written after the lines it counts and before any answer that rests on them: what is cut off beyond it stands for
//! nothing, and what is cut off before it is a loss that a person must know of. It is read first, so it is also where a later
//! format of the ledger says that it is one.

use lucia_durable::{FileRules, Format, Loaded, PrivateDir};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use serde::{Deserialize, Serialize};

use super::error::LedgerError;
use crate::files::file;

/// The file's name.
pub(crate) const ANCHOR: &str = "ledger.head";
/// Longest file.
const ANCHOR_MAX: usize = 1024;
/// Its mode.
const MODE: u32 = 0o600;

/// What was answered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Anchor {
    /// Lines of the ledger.
    pub(super) lines: u64,
    /// SHA-256 of the last of them.
    pub(super) head: Digest,
}

impl Anchor {
    /// Nothing was answered on yet.
    pub(super) const NONE: Self = Self { lines: 0, head: Digest::ZERO };

    /// Reads it; a ledger of an older worker has none.
    pub(super) fn read(dir: &PrivateDir) -> Result<Self, LedgerError> {
        let max = u64::try_from(ANCHOR_MAX).unwrap_or(u64::MAX);
        let read = dir.read_as(&file(ANCHOR), max, FileRules::private(), Format::schema(1));
        match read.map_err(LedgerError::AnchorRead)? {
            Loaded::Missing => Ok(Self::NONE),
            Loaded::Found(bytes) => json::from_slice(&bytes, ANCHOR_MAX, JSON_DEPTH_MAX)
                .map_err(|source| LedgerError::AnchorBad { path: dir.path_of(&file(ANCHOR)), source }),
        }
    }

    pub(super) fn write(self, dir: &PrivateDir) -> Result<(), LedgerError> {
        let text = json::to_string(&self).map_err(|_| LedgerError::Entry)?;
        dir.replace(&file(ANCHOR), text.as_bytes(), MODE).map_err(LedgerError::Anchor)
    }
}

//! `orders/roster-mark.json`: which roster was held last, so that no older one is taken after a restart (design.md O3).

use std::path::PathBuf;

use lucia_durable::{FileRules, Loaded, PrivateDir, ReadError, WriteError};
use lucia_proto::json::{self, JsonError};
use lucia_proto::limits::JSON_DEPTH_MAX;
use lucia_proto::roster::RosterMark;
use thiserror::Error;

use super::layout::{LayoutError, name};

/// The file.
const FILE: &str = "roster-mark.json";
const MODE: u32 = 0o600;
/// Longest file: 110 bytes in truth.
const MARK_MAX: usize = 1024;

/// Why the mark cannot be read or written.
#[derive(Debug, Error)]
pub enum RosterMarkError {
    /// It is not a file of ours.
    #[error("the mark of the roster cannot be read")]
    Read(#[source] ReadError),
    /// It is not a mark.
    #[error(
        "{path} is damaged: restore it from a backup, or move it away, then the roster that the worker publishes next is \
         taken whatever its version"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It cannot be written.
    #[error("the mark of the roster cannot be written")]
    Write(#[source] WriteError),
    /// It cannot be put in JSON.
    #[error("the mark of the roster cannot be put in JSON; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// A file name of ours is refused.
    #[error("the file of the roster's mark has no name")]
    Name(#[source] LayoutError),
}

/// The mark, if a roster was ever held.
pub(crate) fn read(dir: &PrivateDir) -> Result<Option<RosterMark>, RosterMarkError> {
    let file = name(FILE).map_err(RosterMarkError::Name)?;
    let max = u64::try_from(MARK_MAX).unwrap_or(u64::MAX);
    match dir.read(&file, max, FileRules::private()).map_err(RosterMarkError::Read)? {
        Loaded::Missing => Ok(None),
        Loaded::Found(bytes) => json::from_slice(&bytes, MARK_MAX, JSON_DEPTH_MAX)
            .map(Some)
            .map_err(|source| RosterMarkError::Damaged { path: dir.path_of(&file), source }),
    }
}

/// Writes it: before the roster counts.
pub(crate) fn write(dir: &PrivateDir, mark: &RosterMark) -> Result<(), RosterMarkError> {
    let text = json::to_string(mark).map_err(RosterMarkError::Json)?;
    let file = name(FILE).map_err(RosterMarkError::Name)?;
    dir.replace(&file, text.as_bytes(), MODE).map_err(RosterMarkError::Write)
}

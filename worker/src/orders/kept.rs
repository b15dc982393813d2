//! `intents.json`: what was ordered before, and what was remembered and is not in the ledger yet.
//!
//! It is stored before an order is carried out, and a crash in between leaves the order in it: the next turn carries it
//! out. Once the ledger has its line it goes; the ledger keeps for good that it was done.

use std::path::PathBuf;

use lucia_durable::{FileRules, Format, Loaded, PrivateDir, ReadError, WriteError};
use lucia_proto::base::bounded::Version;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{JSON_DEPTH_MAX, ORDER_MEMORY_MAX, SIGNED_INTENT_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::{OrderMemory, SignedOrder};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::file;

/// Orders looked at in one turn.
pub const ORDERS_A_TURN: usize = 16;
/// The file's name.
const NAME: &str = "intents.json";
/// Longest file: the memory, and a turn's orders in text within text.
const FILE_MAX: usize = ORDER_MEMORY_MAX + 2 * ORDERS_A_TURN * SIGNED_INTENT_MAX;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrderStore {
    schema_version: Version<1>,
    /// What was ordered before.
    pub memory: OrderMemory,
    /// Orders that were remembered, and whose lines the ledger may not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
}

/// An order that was checked and remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Open {
    /// The order.
    pub signed: SignedOrder,
    /// The owners who signed it.
    pub signers: Vec<OwnerId>,
}

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum KeptError {
    /// It cannot be read.
    #[error("the memory of owners' orders cannot be read")]
    Read(#[source] ReadError),
    /// It is damaged.
    #[error(
        "{path} is damaged; restore it from a backup, or move it away: then every order that was signed before is refused"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It cannot be written.
    #[error("the memory of owners' orders cannot be written")]
    Write(#[source] WriteError),
    /// It cannot be put together.
    #[error("the memory of owners' orders could not be put together; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
}

impl OrderStore {
    /// A memory of nothing, begun now: what was signed before is refused.
    #[must_use]
    pub const fn begin(now: UnixTime) -> Self {
        Self { schema_version: Version, memory: OrderMemory::begin(now), open: Vec::new() }
    }

    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// [`KeptError::Read`], [`KeptError::Damaged`].
    pub fn read(dir: &PrivateDir) -> Result<Option<Self>, KeptError> {
        let max = u64::try_from(FILE_MAX).unwrap_or(u64::MAX);
        match dir.read_as(&file(NAME), max, FileRules::private(), Format::schema(1)).map_err(KeptError::Read)? {
            Loaded::Missing => Ok(None),
            Loaded::Found(bytes) => {
                let kept = json::from_slice(&bytes, FILE_MAX, JSON_DEPTH_MAX);
                kept.map(Some).map_err(|source| KeptError::Damaged { path: dir.path_of(&file(NAME)), source })
            }
        }
    }

    /// Stores the file.
    ///
    /// # Errors
    /// [`KeptError::Write`].
    pub fn store(&self, dir: &PrivateDir) -> Result<(), KeptError> {
        let text = json::to_string(self).map_err(KeptError::Json)?;
        dir.replace(&file(NAME), text.as_bytes(), 0o600).map_err(KeptError::Write)
    }
}

//! `orders/<id>.json`: a file a draft, with its signatures and what became of it (design.md O2).
//!
//! What an owner signed must not be lost in silence: a file that cannot be read stops the start, and says what cures it.

use std::path::PathBuf;
use std::sync::Arc;

use lucia_durable::{DirError, FileName, FileRules, Loaded, PrivateDir, ReadError, WriteError};
use lucia_proto::bounded::Version;
use lucia_proto::host_api::Label;
use lucia_proto::intent::{Draft, DraftError, IntentId, IntentSignature};
use lucia_proto::json::{self, JsonError};
use lucia_proto::limits::{DRAFT_FILE_MAX, DRAFTS_MAX, JSON_DEPTH_MAX};
use lucia_proto::owner_api::Outcome;
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::layout::{LayoutError, name};

const MODE: u32 = 0o600;
/// Entries of the directory that are looked at: every draft, the leftover of a crash beside each, and the mark.
const ENTRIES_MAX: usize = 2 * DRAFTS_MAX + 16;

/// Why drafts cannot be read or written.
#[derive(Debug, Error)]
pub enum DraftsError {
    /// The directory cannot be listed.
    #[error("the directory of orders cannot be listed")]
    Dir(#[source] DirError),
    /// It is not a file of ours.
    #[error("an order cannot be read")]
    Read(#[source] ReadError),
    /// It is no draft.
    #[error("{path} is damaged: restore it from a backup, or move it away, then this order alone is forgotten")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// Nobody could sign what is in it.
    #[error("{path} holds no order: restore it from a backup, or move it away, then this order alone is forgotten")]
    NoOrder {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: DraftError,
    },
    /// It is another order's.
    #[error("{path} holds order {found}; it was renamed or copied: move it away")]
    Other {
        /// The file.
        path: PathBuf,
        /// The order in it.
        found: IntentId,
    },
    /// More files than there can be orders.
    #[error("{path} holds more files than there can be orders; move away what is none")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("an order cannot be written")]
    Write(#[source] WriteError),
    /// It cannot be put in JSON.
    #[error("an order cannot be put in JSON; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// A file name of ours is refused.
    #[error("an order's file has no name")]
    Name(#[source] LayoutError),
}

/// One draft, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DraftRow {
    schema_version: Version<1>,
    /// What is signed.
    pub(crate) draft: Draft,
    /// Signatures under it, each of another owner.
    pub(crate) signatures: Vec<IntentSignature>,
    /// Who handed it in.
    pub(crate) drafted_by: Label,
    /// When.
    pub(crate) at: UnixTime,
    /// When enough had signed; from then on it is an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signed_at: Option<UnixTime>,
    /// What the worker did about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<Outcome>,
    /// What the worker said before the second signature: its file may lie there still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<Outcome>,
    /// What nodes did about it, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) nodes: Vec<Outcome>,
    /// What the controller did about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<Outcome>,
}

impl DraftRow {
    /// A draft that nobody signed yet.
    pub(crate) const fn new(draft: Draft, drafted_by: Label, at: UnixTime) -> Self {
        Self {
            schema_version: Version,
            draft,
            signatures: Vec::new(),
            drafted_by,
            at,
            signed_at: None,
            worker: None,
            former: None,
            nodes: Vec::new(),
            controller: None,
        }
    }
}

/// The files.
#[derive(Debug)]
pub(crate) struct DraftFiles {
    dir: Arc<PrivateDir>,
}

impl DraftFiles {
    pub(crate) const fn new(dir: Arc<PrivateDir>) -> Self {
        Self { dir }
    }

    /// Every draft. One that cannot be read is an error, not a missing one.
    pub(crate) fn load(&self) -> Result<Vec<DraftRow>, DraftsError> {
        self.dir.remove_leftovers(ENTRIES_MAX).map_err(DraftsError::Write)?;
        let listing = self.dir.list(ENTRIES_MAX).map_err(DraftsError::Dir)?;
        let ids: Vec<IntentId> = listing.names.iter().filter_map(id_of).collect();
        if !listing.complete || ids.len() > DRAFTS_MAX {
            return Err(DraftsError::TooMany { path: self.dir.path().to_owned() });
        }
        ids.iter().filter_map(|id| self.read(id).transpose()).collect()
    }

    fn read(&self, id: &IntentId) -> Result<Option<DraftRow>, DraftsError> {
        let file = file_of(id)?;
        let path = || self.dir.path_of(&file);
        let max = u64::try_from(DRAFT_FILE_MAX).unwrap_or(u64::MAX);
        let Loaded::Found(bytes) = self.dir.read(&file, max, FileRules::private()).map_err(DraftsError::Read)? else {
            return Ok(None);
        };
        let row: DraftRow = json::from_slice(&bytes, DRAFT_FILE_MAX, JSON_DEPTH_MAX)
            .map_err(|source| DraftsError::Damaged { path: path(), source })?;
        let found = IntentId::of(&row.draft.intent_json);
        if found != *id {
            return Err(DraftsError::Other { path: path(), found });
        }
        row.draft.read().map_err(|source| DraftsError::NoOrder { path: path(), source })?;
        Ok(Some(row))
    }

    /// Replaces one.
    pub(crate) fn write(&self, id: &IntentId, row: &DraftRow) -> Result<(), DraftsError> {
        let text = json::to_string(row).map_err(DraftsError::Json)?;
        self.dir.replace(&file_of(id)?, text.as_bytes(), MODE).map_err(DraftsError::Write)
    }

    /// Removes one, if it is there.
    pub(crate) fn remove(&self, id: &IntentId) -> Result<(), DraftsError> {
        self.dir.remove(&file_of(id)?).map(drop).map_err(DraftsError::Write)
    }
}

fn file_of(id: &IntentId) -> Result<FileName, DraftsError> {
    name(&format!("{id}.json")).map_err(DraftsError::Name)
}

fn id_of(file: &FileName) -> Option<IntentId> {
    file.as_str().strip_suffix(".json")?.parse().ok()
}

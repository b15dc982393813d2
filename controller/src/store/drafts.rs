//! `orders/<id>.json`: a file a draft, with its signatures and what became of it (design.md O2).
//!
//! What an owner signed must not be lost in silence: a file that cannot be read stops the start, and says what cures it.

use std::path::PathBuf;
use std::sync::Arc;

use lucia_durable::{DirError, FileName, PrivateDir, WriteError};
use lucia_proto::base::bounded::Label;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::limits::{DRAFT_FILE_MAX, DRAFTS_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::{Draft, DraftError, OrderId, OrderSignature};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::json_file::{JsonFile, JsonFileError};

const ORDER: JsonFile = JsonFile { what: "an order", without: "this order alone is forgotten", max: DRAFT_FILE_MAX };
/// Entries of the directory that are looked at: every draft, the leftover of a crash beside each, and the mark.
const ENTRIES_MAX: usize = 2 * DRAFTS_MAX + 16;

/// Why drafts cannot be read or written.
#[derive(Debug, Error)]
pub enum DraftsError {
    /// A file.
    #[error(transparent)]
    File(#[from] JsonFileError),
    /// The directory cannot be listed.
    #[error("the directory of orders cannot be listed")]
    Dir(#[source] DirError),
    /// One cannot be removed.
    #[error("an order cannot be removed")]
    Remove(#[source] WriteError),
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
        found: OrderId,
    },
    /// More files than there can be orders.
    #[error("{path} holds more files than there can be orders; move away what is none")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
}

/// One draft, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DraftRow {
    schema_version: Version<1>,
    /// What is signed.
    pub(crate) draft: Draft,
    /// Signatures under it, each of another owner.
    pub(crate) signatures: Vec<OrderSignature>,
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
        ORDER.clean(&self.dir, ENTRIES_MAX)?;
        let listing = self.dir.list(ENTRIES_MAX).map_err(DraftsError::Dir)?;
        let ids: Vec<OrderId> = listing.names.iter().filter_map(id_of).collect();
        if !listing.complete || ids.len() > DRAFTS_MAX {
            return Err(DraftsError::TooMany { path: self.dir.path().to_owned() });
        }
        ids.iter().filter_map(|id| self.read(id).transpose()).collect()
    }

    fn read(&self, id: &OrderId) -> Result<Option<DraftRow>, DraftsError> {
        let Some(row) = ORDER.read::<DraftRow>(&self.dir, &file_of(id))? else { return Ok(None) };
        let path = || self.dir.path().join(file_of(id));
        let found = OrderId::of(&row.draft.intent_json);
        if found != *id {
            return Err(DraftsError::Other { path: path(), found });
        }
        row.draft.read().map_err(|source| DraftsError::NoOrder { path: path(), source })?;
        Ok(Some(row))
    }

    /// Replaces one.
    pub(crate) fn write(&self, id: &OrderId, row: &DraftRow) -> Result<(), DraftsError> {
        Ok(ORDER.write(&self.dir, &file_of(id), row)?)
    }

    /// Removes one, if it is there.
    pub(crate) fn remove(&self, id: &OrderId) -> Result<(), DraftsError> {
        self.dir.remove(&ORDER.name(&file_of(id))?).map(drop).map_err(DraftsError::Remove)
    }
}

fn file_of(id: &OrderId) -> String {
    format!("{id}.json")
}

fn id_of(file: &FileName) -> Option<OrderId> {
    file.as_str().strip_suffix(".json")?.parse().ok()
}

//! `identities/<id>.json`: what is known of each node, a file each, so that one heartbeat never rewrites another's.

use std::path::PathBuf;

use lucia_durable::{DirError, FileName, FileRules, Format, Loaded, PrivateDir, ReadError, WriteError, crash_point};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json::JsonError;
use lucia_proto::base::limits::DEVICES_MAX;
use lucia_proto::node::enrollment::IdentityRecord;
use thiserror::Error;

use super::layout::{LayoutError, file_of, node_of};

/// Mode of a record.
const MODE: u32 = 0o600;

/// Why a record cannot be read or written.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The directory cannot be listed.
    #[error("the node records cannot be listed")]
    Dir(#[source] DirError),
    /// It is not a file of ours.
    #[error("a node record cannot be read")]
    Read(#[source] ReadError),
    /// It is not a record.
    #[error(
        "{path} is damaged; the node is known by the journal, so move the file away: the node has to be approved anew then"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It is another node's.
    #[error("{path} is the record of node {found}; it was renamed or copied: move it away")]
    Other {
        /// The file.
        path: PathBuf,
        /// The node in it.
        found: NodeId,
    },
    /// More files than there can be nodes.
    #[error("{path} holds more files than there can be nodes")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
    /// It could not be written.
    #[error("a node record cannot be written")]
    Write(#[source] WriteError),
    /// It cannot be put in JSON.
    #[error("a node record cannot be put in JSON; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// A file name of ours is refused.
    #[error("a node record has no name")]
    Name(#[source] LayoutError),
}

/// The directory of records.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PrivateDir,
}

impl Records {
    pub(crate) const fn new(dir: PrivateDir) -> Self {
        Self { dir }
    }

    /// Every record. One that cannot be read is an error, not a missing one.
    pub(crate) fn load(&self) -> Result<Vec<IdentityRecord>, RecordError> {
        self.dir.remove_leftovers(DEVICES_MAX * 2).map_err(RecordError::Write)?;
        let listing = self.dir.list(DEVICES_MAX * 2).map_err(RecordError::Dir)?;
        if !listing.complete {
            return Err(RecordError::TooMany { path: self.dir.path().to_owned() });
        }
        let ids = listing.names.iter().filter_map(node_of);
        ids.filter_map(|id| self.read(&id).transpose()).collect()
    }

    fn read(&self, id: &NodeId) -> Result<Option<IdentityRecord>, RecordError> {
        let name = file_of(id).map_err(RecordError::Name)?;
        let path = || self.dir.path_of(&name);
        let max = u64::try_from(IdentityRecord::MAX).unwrap_or(u64::MAX);
        let read = self.dir.read_as(&name, max, FileRules::private(), Format::schema(1));
        let Loaded::Found(bytes) = read.map_err(RecordError::Read)? else {
            return Ok(None);
        };
        let record =
            IdentityRecord::from_bytes(&bytes).map_err(|source| RecordError::Damaged { path: path(), source })?;
        if record.node_id != *id || record.public_key_fingerprint.node_id() != *id {
            return Err(RecordError::Other { path: path(), found: record.node_id });
        }
        Ok(Some(record))
    }

    /// Replaces one record.
    pub(crate) fn write(&self, record: &IdentityRecord) -> Result<(), RecordError> {
        let (name, bytes) = self.draft(record)?;
        self.dir.replace(&name, &bytes, MODE).map_err(RecordError::Write)
    }

    /// Replaces several records with one wait for the disk; after an error some may be new, so all are to be tried again.
    pub(crate) fn write_all(&self, records: &[IdentityRecord]) -> Result<(), RecordError> {
        let drafts = records.iter().map(|record| self.draft(record)).collect::<Result<Vec<_>, _>>()?;
        self.dir.replace_all(&drafts, MODE).map_err(RecordError::Write)
    }

    fn draft(&self, record: &IdentityRecord) -> Result<(FileName, Vec<u8>), RecordError> {
        let name = file_of(&record.node_id).map_err(RecordError::Name)?;
        let bytes = record.to_bytes().map_err(RecordError::Json)?;
        let died = |crashed| RecordError::Write(WriteError::Crashed { path: self.dir.path_of(&name), crashed });
        crash_point!("controller/record-drafted", self.dir.path()).map_err(died)?;
        Ok((name, bytes))
    }

    /// Removes one record, if it is there.
    pub(crate) fn remove(&self, id: &NodeId) -> Result<(), RecordError> {
        let name = file_of(id).map_err(RecordError::Name)?;
        self.dir.remove(&name).map(drop).map_err(RecordError::Write)
    }
}

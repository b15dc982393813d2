//! The owners' files between this controller and the worker: `owner-requests/`, which is the controller's, and
//! `owner-responses/`, which is the worker's (`lucia_proto::files::owner_queue`).
//!
//! Files are carried here and not judged: what is in one is checked by whoever uses it.

use std::collections::BTreeSet;

use lucia_durable::{DirError, FileName, FileRules, Loaded, Owner, PrivateDir};
use lucia_proto::base::limits::{APPLICATIONS_MAX, DEVICES_MAX, DRAFTS_MAX};
use lucia_proto::files::owner_queue::OwnerFile;

use crate::refusal::Refusal;
use crate::store::layout::{Responses, SHARED_FILE, name};

/// Entries of one directory that are looked at: a question of each node, and every draft.
const ENTRIES_MAX: usize = 2 * (DEVICES_MAX + DRAFTS_MAX + APPLICATIONS_MAX);

/// The two directories. Callers serialise their calls.
#[derive(Debug)]
pub(crate) struct OwnerQueue {
    requests: PrivateDir,
    responses: Responses,
}

impl OwnerQueue {
    pub(crate) const fn new(requests: PrivateDir, responses: Responses) -> Self {
        Self { requests, responses }
    }

    /// Removes what a crash left in the controller's own directory.
    pub(crate) fn clean(&self) -> Result<(), Refusal> {
        self.requests.remove_leftovers(ENTRIES_MAX).map(drop).map_err(Refusal::persistence)
    }

    /// Every request that lies there.
    pub(crate) fn requests(&self) -> Result<BTreeSet<OwnerFile>, Refusal> {
        let listing = self.requests.list(ENTRIES_MAX).map_err(Refusal::persistence)?;
        Ok(listing.names.iter().filter_map(|file| OwnerFile::of_name(file.as_str())).collect())
    }

    /// A request that lies there.
    pub(crate) fn request(&self, file: &OwnerFile, max: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let file = self.file(&file.name())?;
        let rules = FileRules { mode: SHARED_FILE, owner: Owner::Us };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        self.requests.read(&file, max, rules).map(Loaded::found).map_err(Refusal::persistence)
    }

    /// Writes a request.
    pub(crate) fn ask(&self, file: &OwnerFile, bytes: &[u8]) -> Result<(), Refusal> {
        let file = self.file(&file.name())?;
        self.requests.replace(&file, bytes, SHARED_FILE).map_err(Refusal::persistence)
    }

    /// Takes a request back, if it is there.
    pub(crate) fn withdraw(&self, file: &OwnerFile) -> Result<(), Refusal> {
        let file = self.file(&file.name())?;
        self.requests.remove(&file).map(drop).map_err(Refusal::persistence)
    }

    /// The worker's directory now; nothing while an older worker has made none.
    ///
    /// # Errors
    /// It is there and is not to be trusted.
    pub(crate) fn answers(&self) -> Result<Option<Answers<'_>>, DirError> {
        match self.responses.open() {
            Ok(dir) => Ok(Some(Answers { dir, responses: &self.responses })),
            Err(DirError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn file(&self, text: &str) -> Result<FileName, Refusal> {
        name(text).map_err(Refusal::persistence)
    }
}

/// The worker's directory, opened.
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    dir: PrivateDir,
    responses: &'a Responses,
}

impl Answers<'_> {
    /// Which answers lie there.
    pub(crate) fn list(&self) -> BTreeSet<OwnerFile> {
        let names = self.dir.list(ENTRIES_MAX).map(|listing| listing.names).unwrap_or_default();
        names.iter().filter_map(|file| OwnerFile::of_name(file.as_str())).collect()
    }

    /// A file of the worker's own; nothing when it is not there.
    ///
    /// # Errors
    /// Why it is not read, for the log.
    pub(crate) fn read(&self, text: &str, max: usize) -> Result<Option<Vec<u8>>, String> {
        let file = name(text).map_err(|error| error.to_string())?;
        let rules = FileRules { mode: SHARED_FILE, owner: self.responses.owner() };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        self.dir.read(&file, max, rules).map(Loaded::found).map_err(|error| crate::refusal::chain(&error))
    }
}

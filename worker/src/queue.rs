//! The shared directories under the controller's `nodes`, read as what they are: somebody else's (design.md W6).
//!
//! Requests and removals are taken only from directories and regular files of the controller's own user, with one name
//! and no wider a mode than 0640; answers go into a directory that only the worker can write to. Which of many requests
//! is looked at does not depend on what the controller could make up, such as a file's time: whoever was not looked at
//! for longest comes first, and each node has one file.

use std::path::PathBuf;

use lucia_durable::{DirError, DirRules, FileName, FileRules, Loaded, Owner, PrivateDir, ReadError};
use lucia_proto::base::ids::NodeId;
use lucia_proto::node::enrollment::{
    EndpointAnswer, EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, Removal,
};

use crate::config::Config;
use crate::files::{file, id_file};

/// Requests looked at in one turn.
pub const ENTRIES_A_TURN: usize = 128;
/// Entries of a directory looked at; beyond it the controller is broken, and a person is told.
pub(crate) const SCAN_MAX: usize = 65_536;
/// Mode of answers.
pub const ANSWER_MODE: u32 = 0o640;
/// Widest mode of what the controller writes.
const REQUEST_MODE: u32 = 0o640;
/// Mode of a shared directory.
const SHARED_MODE: u32 = 0o2750;
/// Widest mode of the controller's state directory itself, which only leads to the others.
const OUTER_MODE: u32 = 0o2755;

/// The shared directories, open.
#[derive(Debug)]
pub struct Queue {
    /// What the controller asks. It can shut its own two; the worker goes on with what is open.
    requests: Result<PrivateDir, DirError>,
    removals: Result<PrivateDir, DirError>,
    /// Where answers go.
    pub responses: PrivateDir,
    rules: FileRules,
}

/// What lies in the requests directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Nodes with a request, by id.
    pub nodes: Vec<NodeId>,
    /// Whether the endpoint's request is there.
    pub endpoint: bool,
    /// Names that no program of ours writes there, the first [`ENTRIES_A_TURN`] of them.
    pub strange: Vec<FileName>,
    /// Whether all of the directory was seen.
    pub complete: bool,
}

/// Rules for a directory of the controller's that the worker reads.
pub(crate) fn controller_rules(config: &Config) -> DirRules {
    DirRules { mode: SHARED_MODE, owner: Owner::Uid(config.controller_uid), group: Some(config.group) }
}

/// The controller's state directory, which only leads to others: root's, or the controller's where nobody laid it.
///
/// # Errors
/// It is missing or somebody else's.
pub(crate) fn controller_state(config: &Config) -> Result<PrivateDir, DirError> {
    let owner = Owner::RootOr(config.controller_uid);
    PrivateDir::open(&config.controller_state, DirRules { mode: OUTER_MODE, owner, group: None })
}

/// `nodes` in it, which leads to the queues.
///
/// # Errors
/// As [`controller_state`].
pub(crate) fn controller_nodes(config: &Config) -> Result<PrivateDir, DirError> {
    let rules = DirRules { owner: Owner::RootOr(config.controller_uid), ..controller_rules(config) };
    controller_state(config)?.subdir(&file("nodes"), rules)
}

/// Whether the controller's user, which is not ours, can move or replace the directories of the queues.
#[must_use]
pub(crate) fn is_movable(config: &Config) -> bool {
    let apart = config.controller_uid != 0 && config.controller_uid != nix::unistd::geteuid().as_raw();
    let its = DirRules { mode: OUTER_MODE, owner: Owner::Uid(config.controller_uid), group: None };
    let state = || PrivateDir::open(&config.controller_state, its);
    let nodes = || controller_state(config).and_then(|state| state.subdir(&file("nodes"), its));
    apart && (state().is_ok() || nodes().is_ok())
}

/// Rules for a file of the controller's that the worker reads.
pub(crate) fn controller_file(config: &Config) -> FileRules {
    FileRules { mode: REQUEST_MODE, owner: Owner::Uid(config.controller_uid) }
}

impl Queue {
    /// Opens the directories, one inside the other, so that no link on the way leads elsewhere.
    ///
    /// # Errors
    /// One of them is missing or not what it must be; the error names it and the cure.
    pub fn open(config: &Config) -> Result<Self, DirError> {
        let rules = controller_rules(config);
        let nodes = controller_nodes(config)?;
        let responses = file("enrollment-responses");
        let ours = DirRules { owner: Owner::Us, ..rules };
        let responses = match nodes.subdir(&responses, ours) {
            // Where one user runs both programs it can be made here; else the first error says what to do.
            Err(missing @ DirError::Missing { .. }) => nodes.create_subdir(&responses, ours).map_err(|_| missing)?,
            other => other?,
        };
        Ok(Self {
            requests: nodes.subdir(&file("enrollment-requests"), rules),
            removals: nodes.subdir(&file("removals"), rules),
            responses,
            rules: controller_file(config),
        })
    }

    /// The directories in which something may appear.
    pub fn watched(&self) -> impl Iterator<Item = &std::path::Path> {
        [&self.requests, &self.removals].into_iter().flatten().map(PrivateDir::path)
    }

    /// Why one of the controller's own two cannot be used.
    pub fn shut(&self) -> impl Iterator<Item = &DirError> {
        [&self.requests, &self.removals].into_iter().filter_map(|dir| dir.as_ref().err())
    }

    /// What lies in the requests directory.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn scan(&self) -> Result<Scan, DirError> {
        let Ok(requests) = &self.requests else { return Ok(Scan { complete: true, ..Scan::default() }) };
        let listing = requests.list(SCAN_MAX)?;
        let mut scan = Scan { complete: listing.complete, ..Scan::default() };
        for name in listing {
            match node_of(&name) {
                Some(id) => scan.nodes.push(id),
                None if name.as_str() == "endpoint.json" => scan.endpoint = true,
                None if scan.strange.len() < ENTRIES_A_TURN => scan.strange.push(name),
                None => {}
            }
        }
        Ok(scan)
    }

    /// Nodes that the controller says are gone, at most a turn's worth of them.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn removals(&self) -> Result<Vec<NodeId>, DirError> {
        let Ok(removals) = &self.removals else { return Ok(Vec::new()) };
        Ok(removals.list(SCAN_MAX)?.into_iter().filter_map(|name| node_of(&name)).collect())
    }

    /// Whether the removal file of a node is one: it names the node it is called after.
    ///
    /// # Errors
    /// It cannot be read, or is somebody else's.
    pub fn is_removal(&self, id: &NodeId) -> Result<bool, ReadError> {
        let Ok(removals) = &self.removals else { return Ok(false) };
        let bytes = read(removals, &id_file(id), Removal::MAX, self.rules)?;
        Ok(bytes.and_then(|bytes| Removal::from_bytes(&bytes).ok()).is_some_and(|removal| removal.node_id == *id))
    }

    /// The bytes of a node's request; nothing when it went away meanwhile.
    ///
    /// # Errors
    /// It cannot be read, or breaks a rule.
    pub fn request(&self, id: &NodeId) -> Result<Option<Vec<u8>>, ReadError> {
        self.requests.as_ref().map_or(Ok(None), |dir| read(dir, &id_file(id), EnrollmentRequest::MAX, self.rules))
    }

    /// The bytes of the endpoint's request.
    ///
    /// # Errors
    /// As [`Queue::request`].
    pub fn endpoint(&self) -> Result<Option<Vec<u8>>, ReadError> {
        let name = file("endpoint.json");
        self.requests.as_ref().map_or(Ok(None), |dir| read(dir, &name, EndpointRequest::MAX, self.rules))
    }

    /// What a node was last answered. A damaged answer counts as none: it is written anew.
    #[must_use]
    pub fn answer(&self, id: &NodeId) -> Option<EnrollmentAnswerFile> {
        let bytes = self.ours(&id_file(id), EnrollmentAnswerFile::MAX)?;
        EnrollmentAnswerFile::from_bytes(&bytes).ok()
    }

    /// What the endpoint was last answered.
    #[must_use]
    pub fn endpoint_answer(&self) -> Option<EndpointAnswer> {
        EndpointAnswer::from_bytes(&self.ours(&file("endpoint.json"), EndpointAnswer::MAX)?).ok()
    }

    /// Whether a directory lies where an answer would go, which no rename can replace. Only the worker's own user can have
    /// made one; it stands in the way of that one answer.
    #[must_use]
    pub fn is_blocked(&self, name: &FileName) -> bool {
        is_directory(&self.responses, name)
    }

    /// A file of our own in the shared directory.
    pub(crate) fn ours(&self, name: &FileName, max: usize) -> Option<Vec<u8>> {
        read(&self.responses, name, max, FileRules { mode: ANSWER_MODE, owner: Owner::Us }).ok().flatten()
    }
}

/// Directories in the place of answers, the first eight of them.
pub(crate) fn blocked(dir: &PrivateDir) -> Vec<PathBuf> {
    let names = dir.list(SCAN_MAX).into_iter().flatten();
    names.filter(|name| is_directory(dir, name)).map(|name| dir.path_of(&name)).take(8).collect()
}

pub(crate) fn is_directory(dir: &PrivateDir, name: &FileName) -> bool {
    std::fs::symlink_metadata(dir.path_of(name)).is_ok_and(|found| found.is_dir())
}

pub(crate) fn read(
    dir: &PrivateDir,
    name: &FileName,
    max: usize,
    rules: FileRules,
) -> Result<Option<Vec<u8>>, ReadError> {
    dir.read(name, u64::try_from(max).unwrap_or(u64::MAX), rules).map(Loaded::found)
}

/// `<32 lower-case hex digits>.json`.
fn node_of(name: &FileName) -> Option<NodeId> {
    name.as_str().strip_suffix(".json").and_then(|id| id.parse().ok())
}

/// The next `max` of `nodes` (sorted; of orders as well) after the one looked at last, going round.
#[must_use]
pub fn next_after<T: Ord + Clone>(nodes: &[T], last: Option<&T>, max: usize) -> Vec<T> {
    let start = last.map_or(0, |last| nodes.partition_point(|id| id <= last));
    let (before, after) = nodes.split_at_checked(start).unwrap_or((nodes, &[]));
    after.iter().chain(before).take(max).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u8]) -> Vec<NodeId> {
        numbers.iter().map(|number| format!("{number:032x}").parse().unwrap()).collect()
    }

    // spec: QU-6
    #[test]
    fn every_request_gets_its_turn() {
        let nodes = ids(&[1, 2, 3, 4, 5]);
        for (last, max, want) in [
            (None, 2, vec![1, 2]),
            (Some(2), 2, vec![3, 4]),
            (Some(4), 2, vec![5, 1]),
            (Some(5), 9, vec![1, 2, 3, 4, 5]),
            (Some(9), 1, vec![1]),
            (Some(0), 1, vec![1]),
        ] {
            let last = last.map(|last| ids(&[last]).remove(0));
            assert_eq!(next_after(&nodes, last.as_ref(), max), ids(&want), "{last:?}");
        }
        assert_eq!(next_after::<NodeId>(&[], None, 3), []);
    }

    // spec: QU-8
    #[test]
    fn only_two_kinds_of_name_are_requests() {
        for (name, is_node) in [
            ("0123456789abcdef0123456789abcdef.json", true),
            ("0123456789ABCDEF0123456789abcdef.json", false),
            ("0123456789abcdef0123456789abcdef.json.tmp", false),
            ("0123456789abcdef0123456789abcde.json", false),
            ("endpoint.json", false),
            ("enrollment-worker.json", false),
        ] {
            assert_eq!(node_of(&FileName::new(name).unwrap()).is_some(), is_node, "{name}");
        }
    }
}

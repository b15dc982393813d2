//! What the lines of the ledger add up to.

use std::collections::BTreeMap;

use lucia_proto::digest::Digest;
use lucia_proto::ids::NodeId;
use lucia_proto::key::Fingerprint;
use lucia_proto::names::Hostname;
use lucia_proto::time::UnixTime;

use super::{AdmittedBy, Entry, NodeNames};

/// What is known of a node that was ever let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Id, key and name.
    pub names: NodeNames,
    /// When it was let in.
    pub admitted_at: UnixTime,
    /// By whom.
    pub by: AdmittedBy,
    /// When it was removed.
    pub removed_at: Option<UnixTime>,
    /// Serial number and last second of its newest leaf.
    pub leaf: Option<(String, UnixTime)>,
    /// Leaves signed so far.
    pub issued: u64,
}

/// The ledger, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    lines: u64,
    root: Option<Digest>,
    nodes: BTreeMap<NodeId, NodeRecord>,
    names: BTreeMap<Hostname, NodeId>,
    endpoint: Option<(String, UnixTime)>,
}

impl Records {
    /// How many lines it has.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// SHA-256 of the root the fleet began with.
    #[must_use]
    pub fn root(&self) -> Option<Digest> {
        self.root
    }

    /// A node that was ever let in.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&NodeRecord> {
        self.nodes.get(id)
    }

    /// All nodes ever let in, by id.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// Who has a name. A removed node keeps its name: it moves to another key only by an act at the worker.
    #[must_use]
    pub fn owner_of(&self, name: &Hostname) -> Option<&NodeRecord> {
        self.names.get(name).and_then(|id| self.nodes.get(id))
    }

    /// Serial number and last second of the endpoint's newest certificate.
    #[must_use]
    pub fn endpoint(&self) -> Option<&(String, UnixTime)> {
        self.endpoint.as_ref()
    }

    /// Whether a key was removed once, whatever id or name it comes with.
    #[must_use]
    pub fn is_barred(&self, fingerprint: &Fingerprint) -> bool {
        self.node(&fingerprint.node_id()).is_some_and(|node| node.removed_at.is_some())
    }

    /// Adds one entry, unless it contradicts what is known.
    pub(super) fn apply(&mut self, at: UnixTime, entry: &Entry) -> Result<(), &'static str> {
        if (self.lines == 0) != matches!(entry, Entry::Initialised { .. }) {
            return Err("the first line, and no other, begins the fleet");
        }
        match entry {
            Entry::Initialised { root } => self.root = Some(*root),
            Entry::Admitted { node, by } => self.admit(at, node, *by)?,
            Entry::Issued { node, serial, not_after } => {
                let record = self.known(node)?;
                if record.removed_at.is_some() {
                    return Err("a leaf for a removed node");
                }
                record.leaf = Some((serial.clone(), *not_after));
                record.issued += 1;
            }
            Entry::EndpointIssued { serial, not_after } => self.endpoint = Some((serial.clone(), *not_after)),
            Entry::Removed { node } => {
                let record = self.known(node)?;
                record.removed_at.get_or_insert(at);
            }
        }
        self.lines += 1;
        Ok(())
    }

    fn admit(&mut self, at: UnixTime, names: &NodeNames, by: AdmittedBy) -> Result<(), &'static str> {
        if names.fingerprint.node_id() != names.node_id {
            return Err("a node id that is not its key's");
        }
        if self.nodes.contains_key(&names.node_id) || self.names.contains_key(&names.hostname) {
            return Err("a node or a name is let in twice");
        }
        self.names.insert(names.hostname.clone(), names.node_id.clone());
        let record = NodeRecord { names: names.clone(), admitted_at: at, by, removed_at: None, leaf: None, issued: 0 };
        self.nodes.insert(names.node_id.clone(), record);
        Ok(())
    }

    fn known(&mut self, names: &NodeNames) -> Result<&mut NodeRecord, &'static str> {
        match self.nodes.get_mut(&names.node_id) {
            Some(record) if record.names == *names => Ok(record),
            Some(_) => Err("a node changes its key or name"),
            None => Err("a node that was never let in"),
        }
    }
}

#[cfg(test)]
impl Records {
    /// Adds an entry that must fit: for tests of what rests on the ledger.
    pub(crate) fn apply_in_test(&mut self, at: UnixTime, entry: &Entry) {
        self.apply(at, entry).unwrap();
    }
}

//! One line of the ledger: its entry, and its place in the chain.

use lucia_proto::digest::Digest;
use lucia_proto::ids::NodeId;
use lucia_proto::json::{self, JsonError};
use lucia_proto::key::Fingerprint;
use lucia_proto::limits::JSON_DEPTH_MAX;
use lucia_proto::names::Hostname;
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};

/// What let a node in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AdmittedBy {
    /// Somebody with a shell on this host.
    Operator,
    /// The controller's journal, since the settings say that it is enough.
    Journal,
}

/// Which node an entry is about: the three values that belong together for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNames {
    /// Its id.
    pub node_id: NodeId,
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Its name.
    pub hostname: Hostname,
}

/// Something the worker did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The fleet began.
    Initialised {
        /// SHA-256 of its root.
        root: Digest,
    },
    /// A node was let in.
    Admitted {
        /// Which one.
        node: NodeNames,
        /// By whom.
        by: AdmittedBy,
    },
    /// A leaf was signed for a node.
    Issued {
        /// Which one.
        node: NodeNames,
        /// The leaf's serial number, hex.
        serial: String,
        /// The leaf's last second.
        not_after: UnixTime,
    },
    /// A certificate was signed for the controller's endpoint.
    EndpointIssued {
        /// Its serial number, hex.
        serial: String,
        /// Its last second.
        not_after: UnixTime,
    },
    /// A node was removed; its key and name stay barred.
    Removed {
        /// Which one.
        node: NodeNames,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Initialised,
    Admitted,
    Issued,
    EndpointIssued,
    Removed,
}

/// The line as JSON: which fields are there is decided by `kind`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Line {
    seq: u64,
    at: UnixTime,
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hostname: Option<Hostname>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<AdmittedBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<Digest>,
    prev: Digest,
}

impl Line {
    pub(super) fn read(text: &[u8], max: usize) -> Result<Self, JsonError> {
        json::from_slice(text, max, JSON_DEPTH_MAX)
    }

    /// The line with its end.
    pub(super) fn write(seq: u64, at: UnixTime, entry: &Entry, prev: Digest) -> Result<String, JsonError> {
        let kind = match entry {
            Entry::Initialised { .. } => Kind::Initialised,
            Entry::Admitted { .. } => Kind::Admitted,
            Entry::Issued { .. } => Kind::Issued,
            Entry::EndpointIssued { .. } => Kind::EndpointIssued,
            Entry::Removed { .. } => Kind::Removed,
        };
        let mut line = Self {
            seq,
            at,
            kind,
            node_id: None,
            fingerprint: None,
            hostname: None,
            by: None,
            serial: None,
            not_after: None,
            root: None,
            prev,
        };
        if let Entry::Admitted { node, .. } | Entry::Issued { node, .. } | Entry::Removed { node } = entry {
            line.node_id = Some(node.node_id.clone());
            line.fingerprint = Some(node.fingerprint);
            line.hostname = Some(node.hostname.clone());
        }
        match entry {
            Entry::Initialised { root } => line.root = Some(*root),
            Entry::Admitted { by, .. } => line.by = Some(*by),
            Entry::Issued { serial, not_after, .. } | Entry::EndpointIssued { serial, not_after } => {
                line.serial = Some(serial.clone());
                line.not_after = Some(*not_after);
            }
            Entry::Removed { .. } => {}
        }
        json::to_string(&line).map(|text| text + "\n")
    }

    /// The entry, if the line is the next one after `head` and has exactly the fields of its kind.
    pub(super) fn follows(self, number: u64, head: Digest) -> Result<(UnixTime, Entry), &'static str> {
        if self.seq != number {
            return Err("its number is not the next one");
        }
        if self.prev != head {
            return Err("it does not hold the hash of the line before it");
        }
        let node = match (self.node_id, self.fingerprint, self.hostname) {
            (Some(node_id), Some(fingerprint), Some(hostname)) => Some(NodeNames { node_id, fingerprint, hostname }),
            (None, None, None) => None,
            _ => return Err("it names half a node"),
        };
        let entry = match (self.kind, node, self.by, self.serial, self.not_after, self.root) {
            (Kind::Initialised, None, None, None, None, Some(root)) => Entry::Initialised { root },
            (Kind::Admitted, Some(node), Some(by), None, None, None) => Entry::Admitted { node, by },
            (Kind::Issued, Some(node), None, Some(serial), Some(not_after), None) => {
                Entry::Issued { node, serial, not_after }
            }
            (Kind::EndpointIssued, None, None, Some(serial), Some(not_after), None) => {
                Entry::EndpointIssued { serial, not_after }
            }
            (Kind::Removed, Some(node), None, None, None, None) => Entry::Removed { node },
            _ => return Err("its fields are not those of its kind"),
        };
        Ok((self.at, entry))
    }
}

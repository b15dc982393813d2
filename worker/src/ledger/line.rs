//! One line of the ledger: its entry, and its place in the chain.

use std::net::IpAddr;

use lucia_proto::digest::Digest;
use lucia_proto::ids::NodeId;
use lucia_proto::json::{self, JsonError};
use lucia_proto::key::Fingerprint;
use lucia_proto::limits::JSON_DEPTH_MAX;
use lucia_proto::names::Hostname;
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};

/// On whose word a node was let in or barred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
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

/// Where the controller's journal stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its generation.
    pub generation: u64,
    /// Number of its last event.
    pub last_event_id: u64,
    /// The hash chain after that event.
    pub chain_head: Digest,
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
        by: By,
    },
    /// A leaf was signed for a node.
    Issued {
        /// Which one.
        node: NodeNames,
        /// The leaf's serial number, hex.
        serial: String,
        /// The leaf's last second.
        not_after: UnixTime,
        /// Where the node was then, as the journal said.
        address: Option<IpAddr>,
    },
    /// A leaf was signed and not handed out, since its request had run out.
    Orphaned {
        /// Whose.
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
    /// The journal removed a node: it gets nothing more.
    Suspended {
        /// Which one.
        node: NodeNames,
        /// Whether its key is barred only after `confirm-removals`: more were removed this hour than go by themselves.
        held: bool,
    },
    /// A suspended node goes on, by an act at the worker.
    Resumed {
        /// Which one.
        node: NodeNames,
    },
    /// A node's key is barred for ever. Its name stays its own until it is replaced.
    Barred {
        /// Which one.
        node: NodeNames,
        /// By whom.
        by: By,
    },
    /// Nothing is left of a barred node but this ledger: receipt and answer are gone.
    Removed {
        /// Which one.
        node: NodeNames,
    },
    /// A node's name goes to another key, by an act at the worker; its own key is barred.
    Replaced {
        /// Which one.
        node: NodeNames,
        /// Who gets the name, and nothing else of it.
        successor: NodeId,
    },
    /// A node that was gone for longer than `max-lapse` may renew, by an act at the worker.
    LapseReleased {
        /// Which one.
        node: NodeNames,
        /// Serial number of the leaf that lapsed.
        serial: String,
    },
    /// The journal was read.
    JournalSeen(Mark),
    /// The journal was accepted as it is, by an act at the worker.
    JournalAccepted(Mark),
    /// A last line that a crash had cut off was dropped. Nothing had been answered on the strength of it.
    TornLineDropped {
        /// Bytes it had.
        bytes: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Initialised,
    Admitted,
    Issued,
    Orphaned,
    EndpointIssued,
    Suspended,
    Resumed,
    Barred,
    Removed,
    Replaced,
    LapseReleased,
    JournalSeen,
    JournalAccepted,
    TornLineDropped,
}

/// The line as JSON: which fields are there is decided by `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    by: Option<By>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    successor: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_event_id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain_head: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    prev: Digest,
}

impl Entry {
    fn kind(&self) -> Kind {
        match self {
            Self::Initialised { .. } => Kind::Initialised,
            Self::Admitted { .. } => Kind::Admitted,
            Self::Issued { .. } => Kind::Issued,
            Self::Orphaned { .. } => Kind::Orphaned,
            Self::EndpointIssued { .. } => Kind::EndpointIssued,
            Self::Suspended { .. } => Kind::Suspended,
            Self::Resumed { .. } => Kind::Resumed,
            Self::Barred { .. } => Kind::Barred,
            Self::Removed { .. } => Kind::Removed,
            Self::Replaced { .. } => Kind::Replaced,
            Self::LapseReleased { .. } => Kind::LapseReleased,
            Self::JournalSeen(_) => Kind::JournalSeen,
            Self::JournalAccepted(_) => Kind::JournalAccepted,
            Self::TornLineDropped { .. } => Kind::TornLineDropped,
        }
    }

    /// The node it is about, if it is about one.
    #[must_use]
    pub fn node(&self) -> Option<&NodeNames> {
        match self {
            Self::Admitted { node, .. }
            | Self::Issued { node, .. }
            | Self::Orphaned { node, .. }
            | Self::Suspended { node, .. }
            | Self::Resumed { node }
            | Self::Barred { node, .. }
            | Self::Removed { node }
            | Self::Replaced { node, .. }
            | Self::LapseReleased { node, .. } => Some(node),
            Self::Initialised { .. }
            | Self::EndpointIssued { .. }
            | Self::JournalSeen(_)
            | Self::JournalAccepted(_)
            | Self::TornLineDropped { .. } => None,
        }
    }
}

impl Line {
    pub(super) fn read(text: &[u8], max: usize) -> Result<Self, JsonError> {
        json::from_slice(text, max, JSON_DEPTH_MAX)
    }

    /// The line with its end.
    pub(super) fn write(seq: u64, at: UnixTime, entry: &Entry, prev: Digest) -> Result<String, JsonError> {
        json::to_string(&Self::of(seq, at, entry, prev)).map(|text| text + "\n")
    }

    fn of(seq: u64, at: UnixTime, entry: &Entry, prev: Digest) -> Self {
        let node = entry.node();
        let mut line = Self {
            seq,
            at,
            kind: entry.kind(),
            node_id: node.map(|node| node.node_id.clone()),
            fingerprint: node.map(|node| node.fingerprint),
            hostname: node.map(|node| node.hostname.clone()),
            by: None,
            held: None,
            successor: None,
            serial: None,
            not_after: None,
            address: None,
            root: None,
            generation: None,
            last_event_id: None,
            chain_head: None,
            bytes: None,
            prev,
        };
        match entry {
            Entry::Initialised { root } => line.root = Some(*root),
            Entry::Admitted { by, .. } | Entry::Barred { by, .. } => line.by = Some(*by),
            Entry::Issued { serial, not_after, address, .. } => {
                (line.serial, line.not_after, line.address) = (Some(serial.clone()), Some(*not_after), *address);
            }
            Entry::Orphaned { serial, not_after, .. } | Entry::EndpointIssued { serial, not_after } => {
                (line.serial, line.not_after) = (Some(serial.clone()), Some(*not_after));
            }
            Entry::Suspended { held, .. } => line.held = Some(*held),
            Entry::Resumed { .. } | Entry::Removed { .. } => {}
            Entry::Replaced { successor, .. } => line.successor = Some(successor.clone()),
            Entry::LapseReleased { serial, .. } => line.serial = Some(serial.clone()),
            Entry::JournalSeen(mark) | Entry::JournalAccepted(mark) => {
                line.generation = Some(mark.generation);
                line.last_event_id = Some(mark.last_event_id);
                line.chain_head = Some(mark.chain_head);
            }
            Entry::TornLineDropped { bytes } => line.bytes = Some(*bytes),
        }
        line
    }

    /// The entry, if the line is the next one after `head` and has exactly the fields of its kind.
    pub(super) fn follows(self, number: u64, head: Digest) -> Result<(UnixTime, Entry), &'static str> {
        if self.seq != number {
            return Err("its number is not the next one");
        }
        if self.prev != head {
            return Err("it does not hold the hash of the line before it");
        }
        // What the kind does not ask for would be lost in the entry: then the line made of it is another one.
        let entry = self.entry().filter(|entry| Self::of(self.seq, self.at, entry, self.prev) == self);
        entry.map(|entry| (self.at, entry)).ok_or("its fields are not those of its kind")
    }

    fn entry(&self) -> Option<Entry> {
        let node = || {
            Some(NodeNames {
                node_id: self.node_id.clone()?,
                fingerprint: self.fingerprint?,
                hostname: self.hostname.clone()?,
            })
        };
        let serial = || self.serial.clone();
        let mark = || {
            Some(Mark {
                generation: self.generation?,
                last_event_id: self.last_event_id?,
                chain_head: self.chain_head?,
            })
        };
        Some(match self.kind {
            Kind::Initialised => Entry::Initialised { root: self.root? },
            Kind::Admitted => Entry::Admitted { node: node()?, by: self.by? },
            Kind::Issued => {
                Entry::Issued { node: node()?, serial: serial()?, not_after: self.not_after?, address: self.address }
            }
            Kind::Orphaned => Entry::Orphaned { node: node()?, serial: serial()?, not_after: self.not_after? },
            Kind::EndpointIssued => Entry::EndpointIssued { serial: serial()?, not_after: self.not_after? },
            Kind::Suspended => Entry::Suspended { node: node()?, held: self.held? },
            Kind::Resumed => Entry::Resumed { node: node()? },
            Kind::Barred => Entry::Barred { node: node()?, by: self.by? },
            Kind::Removed => Entry::Removed { node: node()? },
            Kind::Replaced => Entry::Replaced { node: node()?, successor: self.successor.clone()? },
            Kind::LapseReleased => Entry::LapseReleased { node: node()?, serial: serial()? },
            Kind::JournalSeen => Entry::JournalSeen(mark()?),
            Kind::JournalAccepted => Entry::JournalAccepted(mark()?),
            Kind::TornLineDropped => Entry::TornLineDropped { bytes: self.bytes? },
        })
    }
}

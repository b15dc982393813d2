//! What the worker did, one entry an act.

use std::net::IpAddr;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::OrderId;
use lucia_proto::orders::owner::{OwnerId, OwnerName, Role};
use lucia_proto::orders::roster::RosterMark;
use lucia_proto::pki::endpoint_names::EndpointNames;
use lucia_proto::pki::key::Fingerprint;
use serde::{Deserialize, Serialize};

/// On whose word a node was let in or barred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    /// Somebody with a shell on this host.
    Operator,
    /// The controller's journal, since the settings say that it is enough.
    Journal,
    /// An owner of the roster, by an order with a signature.
    Owner,
}

/// Whose order it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedBy {
    /// The order.
    pub intent: OrderId,
    /// The owners who signed it.
    pub signers: Vec<OwnerId>,
}

/// What an owner's order did here, all in one line: a crash leaves all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderEffect {
    /// The node was let in. The node that had its name gave it away, and its key is barred.
    Admit {
        /// That node, where there was one.
        replaces: Option<NodeId>,
    },
    /// The node, which was gone for longer than `max-lapse`, may renew.
    Release {
        /// Serial number of the leaf that lapsed.
        serial: String,
    },
    /// Its key is barred for ever.
    Bar,
    /// Nothing changed here: it was so already, or the node and the controller carry it out.
    Note,
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
    /// A certificate was signed for a directory server, by an act at the worker.
    DirectoryIssued {
        /// Its serial number, hex.
        serial: String,
        /// Its last second.
        not_after: UnixTime,
        /// Its names.
        names: EndpointNames,
    },
    /// The journal removed a node: it gets nothing more.
    Suspended {
        /// Which one.
        node: NodeNames,
        /// Whether its key is barred only by an owner's order or `confirm-removals`: there is an owner, or more were removed
        /// this hour than go by themselves.
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
    /// A node has another name from here on, with the same key. The one before stays its own until its last leaf under it
    /// has ended.
    Renamed {
        /// Which one, by the name before.
        node: NodeNames,
        /// Its new name.
        new: Hostname,
        /// By whom.
        by: By,
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
    /// Somebody became an owner or a viewer, by an act at the worker.
    OwnerApproved {
        /// Who.
        owner: OwnerId,
        /// What people call them.
        name: OwnerName,
        /// What they may do.
        role: Role,
        /// Their key.
        key: Fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    },
    /// Somebody is no owner or viewer any more, by an act at the worker.
    OwnerRemoved {
        /// Who.
        owner: OwnerId,
        /// What people called them.
        name: OwnerName,
        /// The roster from here on.
        roster: RosterMark,
    },
    /// Somebody of the roster has one key more, by an act at the worker.
    OwnerKeyAdded {
        /// Who.
        owner: OwnerId,
        /// What people call them.
        name: OwnerName,
        /// The key.
        key: Fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    },
    /// Somebody of the roster has one key less, by an act at the worker.
    OwnerKeyRemoved {
        /// Who.
        owner: OwnerId,
        /// What people call them.
        name: OwnerName,
        /// The key.
        key: Fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    },
    /// What the roster asks of orders was changed, by an act at the worker.
    RosterChanged {
        /// The roster from here on.
        roster: RosterMark,
    },
    /// An owner's order was carried out.
    Ordered {
        /// About which node.
        node: NodeNames,
        /// By whom.
        by: OrderedBy,
        /// What it did.
        act: OrderEffect,
    },
    /// The journal was read.
    JournalSeen(Mark),
    /// The journal was accepted as it is, by an act at the worker.
    JournalAccepted(Mark),
    /// How far the controller's audit reached then: it cannot be cut off or rewritten before this unseen.
    AuditAnchored(AuditChain),
    /// The controller's audit was accepted as it is, by an act at the worker.
    AuditAccepted(AuditChain),
    /// A last line that a crash had cut off was dropped. Nothing had been answered on the strength of it.
    TornLineDropped {
        /// Bytes it had.
        bytes: u64,
    },
}

impl Entry {
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
            | Self::Renamed { node, .. }
            | Self::Replaced { node, .. }
            | Self::LapseReleased { node, .. }
            | Self::Ordered { node, .. } => Some(node),
            Self::Initialised { .. }
            | Self::EndpointIssued { .. }
            | Self::DirectoryIssued { .. }
            | Self::OwnerApproved { .. }
            | Self::OwnerRemoved { .. }
            | Self::OwnerKeyAdded { .. }
            | Self::OwnerKeyRemoved { .. }
            | Self::RosterChanged { .. }
            | Self::JournalSeen(_)
            | Self::JournalAccepted(_)
            | Self::AuditAnchored(_)
            | Self::AuditAccepted(_)
            | Self::TornLineDropped { .. } => None,
        }
    }
}

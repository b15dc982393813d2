//! What the worker did, one entry an act, and the line of the ledger that says it.
//!
//! [`entries`] is the table: of each kind its members, and where each stands in the [`Line`]. Reading and writing follow from it.

use std::net::IpAddr;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::JSON_DEPTH_MAX;
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

/// What of an entry takes several members of its line.
trait Members: Sized {
    /// Writes them.
    fn put(&self, line: &mut Line);
    /// Reads them, if they are there.
    fn take(line: &Line) -> Option<Self>;
}

/// The line as JSON: which of the members are there is decided by `kind`. They stand in this order.
macro_rules! line {
    ($($member:ident: $ty:ty,)*) => {
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct Line {
            seq: u64,
            at: UnixTime,
            kind: Kind,
            $(#[serde(default, skip_serializing_if = "Option::is_none")] $member: Option<$ty>,)*
            prev: Digest,
        }

        impl Line {
            const fn empty(seq: u64, at: UnixTime, kind: Kind, prev: Digest) -> Self {
                Self { seq, at, kind, $($member: None,)* prev }
            }
        }
    };
}

line! {
    node_id: NodeId,
    fingerprint: Fingerprint,
    hostname: Hostname,
    by: By,
    held: bool,
    successor: NodeId,
    new_hostname: Hostname,
    serial: String,
    not_after: UnixTime,
    address: IpAddr,
    names: EndpointNames,
    root: Digest,
    generation: u64,
    last_event_id: u64,
    chain_head: Digest,
    bytes: u64,
    owner: OwnerId,
    owner_name: OwnerName,
    role: Role,
    roster_version: u64,
    roster_sha256: Digest,
    intent: OrderId,
    signers: Vec<OwnerId>,
    act: ActWord,
    replaces: NodeId,
    audit: AuditChain,
}

/// The table of entries: `member: Type as place` is one member of the line, `as optional place` one that may be missing, and what
/// is [`Members`] has its own places.
macro_rules! entries {
    ($(
        $(#[$doc:meta])*
        $kind:ident
        $({ $($(#[$about:meta])* $member:ident: $ty:ty $(as $place:ident $($at:ident)?)?,)* })?
        $(($whole:ident: $all:ty))?;
    )*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        enum Kind { $($kind,)* }

        /// Something the worker did.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Entry { $($(#[$doc])* $kind $({ $($(#[$about])* $member: $ty,)* })? $(($all))?,)* }

        impl Entry {
            /// The node it is about, if it is about one.
            #[must_use]
            pub fn node(&self) -> Option<&NodeNames> {
                match self {
                    $(Self::$kind $({ $($member),* })? $(($whole))? => {
                        $(let _ = $whole;)?
                        [$($(entries!(@node $member $member),)*)? None].into_iter().flatten().next()
                    })*
                }
            }

            const fn kind(&self) -> Kind {
                match self { $(Self::$kind { .. } => Kind::$kind,)* }
            }

            fn put(&self, line: &mut Line) {
                match self {
                    $(Self::$kind $({ $($member),* })? $(($whole))? => {
                        $($(entries!(@put line $member $($place $($at)?)?);)*)?
                        $($whole.put(line);)?
                    })*
                }
            }

            fn take(line: &Line) -> Option<Self> {
                Some(match line.kind {
                    $(Kind::$kind => Self::$kind
                        $({ $($member: entries!(@take line $($place $($at)?)?),)* })?
                        $((<$all>::take(line)?))?,)*
                })
            }
        }
    };
    (@node $member:ident node) => { Some($member) };
    (@node $member:ident $name:ident) => { { let _ = $member; None } };
    (@put $line:ident $member:ident) => { $member.put($line) };
    (@put $line:ident $member:ident optional $place:ident) => { $line.$place.clone_from($member) };
    (@put $line:ident $member:ident $place:ident) => { $line.$place = Some($member.clone()) };
    (@take $line:ident) => { Members::take($line)? };
    (@take $line:ident optional $place:ident) => { $line.$place.clone() };
    (@take $line:ident $place:ident) => { $line.$place.clone()? };
}

entries! {
    /// The fleet began.
    Initialised {
        /// SHA-256 of its root.
        root: Digest as root,
    };
    /// A node was let in.
    Admitted {
        /// Which one.
        node: NodeNames,
        /// By whom.
        by: By as by,
    };
    /// A leaf was signed for a node.
    Issued {
        /// Which one.
        node: NodeNames,
        /// The leaf's serial number, hex.
        serial: String as serial,
        /// The leaf's last second.
        not_after: UnixTime as not_after,
        /// Where the node was then, as the journal said.
        address: Option<IpAddr> as optional address,
    };
    /// A leaf was signed and not handed out, since its request had run out.
    Orphaned {
        /// Whose.
        node: NodeNames,
        /// The leaf's serial number, hex.
        serial: String as serial,
        /// The leaf's last second.
        not_after: UnixTime as not_after,
    };
    /// A certificate was signed for the controller's endpoint.
    EndpointIssued {
        /// Its serial number, hex.
        serial: String as serial,
        /// Its last second.
        not_after: UnixTime as not_after,
    };
    /// A certificate was signed for a directory server, by an act at the worker.
    DirectoryIssued {
        /// Its serial number, hex.
        serial: String as serial,
        /// Its last second.
        not_after: UnixTime as not_after,
        /// Its names.
        names: EndpointNames as names,
    };
    /// The journal removed a node: it gets nothing more.
    Suspended {
        /// Which one.
        node: NodeNames,
        /// Whether its key is barred only by an owner's order or `confirm-removals`: there is an owner, or more were removed
        /// this hour than go by themselves.
        held: bool as held,
    };
    /// A suspended node goes on, by an act at the worker.
    Resumed {
        /// Which one.
        node: NodeNames,
    };
    /// A node's key is barred for ever. Its name stays its own until it is replaced.
    Barred {
        /// Which one.
        node: NodeNames,
        /// By whom.
        by: By as by,
    };
    /// Nothing is left of a barred node but this ledger: receipt and answer are gone.
    Removed {
        /// Which one.
        node: NodeNames,
    };
    /// A node has another name from here on, with the same key. The one before stays its own until its last leaf under it
    /// has ended.
    Renamed {
        /// Which one, by the name before.
        node: NodeNames,
        /// Its new name.
        new: Hostname as new_hostname,
        /// By whom.
        by: By as by,
    };
    /// A node's name goes to another key, by an act at the worker; its own key is barred.
    Replaced {
        /// Which one.
        node: NodeNames,
        /// Who gets the name, and nothing else of it.
        successor: NodeId as successor,
    };
    /// A node that was gone for longer than `max-lapse` may renew, by an act at the worker.
    LapseReleased {
        /// Which one.
        node: NodeNames,
        /// Serial number of the leaf that lapsed.
        serial: String as serial,
    };
    /// Somebody became an owner or a viewer, by an act at the worker.
    OwnerApproved {
        /// Who.
        owner: OwnerId as owner,
        /// What people call them.
        name: OwnerName as owner_name,
        /// What they may do.
        role: Role as role,
        /// Their key.
        key: Fingerprint as fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    };
    /// Somebody is no owner or viewer any more, by an act at the worker.
    OwnerRemoved {
        /// Who.
        owner: OwnerId as owner,
        /// What people called them.
        name: OwnerName as owner_name,
        /// The roster from here on.
        roster: RosterMark,
    };
    /// Somebody of the roster has one key more, by an act at the worker.
    OwnerKeyAdded {
        /// Who.
        owner: OwnerId as owner,
        /// What people call them.
        name: OwnerName as owner_name,
        /// The key.
        key: Fingerprint as fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    };
    /// Somebody of the roster has one key less, by an act at the worker.
    OwnerKeyRemoved {
        /// Who.
        owner: OwnerId as owner,
        /// What people call them.
        name: OwnerName as owner_name,
        /// The key.
        key: Fingerprint as fingerprint,
        /// The roster from here on.
        roster: RosterMark,
    };
    /// What the roster asks of orders was changed, by an act at the worker.
    RosterChanged {
        /// The roster from here on.
        roster: RosterMark,
    };
    /// An owner's order was carried out.
    Ordered {
        /// About which node.
        node: NodeNames,
        /// By whom.
        by: OrderedBy,
        /// What it did.
        act: OrderEffect,
    };
    /// The journal was read.
    JournalSeen(whole: Mark);
    /// The journal was accepted as it is, by an act at the worker.
    JournalAccepted(whole: Mark);
    /// How far the controller's audit reached then: it cannot be cut off or rewritten before this unseen.
    AuditAnchored(whole: AuditChain);
    /// The controller's audit was accepted as it is, by an act at the worker.
    AuditAccepted(whole: AuditChain);
    /// A last line that a crash had cut off was dropped. Nothing had been answered on the strength of it.
    TornLineDropped {
        /// Bytes it had.
        bytes: u64 as bytes,
    };
}

impl Members for NodeNames {
    fn put(&self, line: &mut Line) {
        line.node_id = Some(self.node_id.clone());
        line.fingerprint = Some(self.fingerprint);
        line.hostname = Some(self.hostname.clone());
    }

    fn take(line: &Line) -> Option<Self> {
        let (node_id, hostname) = (line.node_id.clone()?, line.hostname.clone()?);
        Some(Self { node_id, fingerprint: line.fingerprint?, hostname })
    }
}

impl Members for Mark {
    fn put(&self, line: &mut Line) {
        line.generation = Some(self.generation);
        line.last_event_id = Some(self.last_event_id);
        line.chain_head = Some(self.chain_head);
    }

    fn take(line: &Line) -> Option<Self> {
        let (generation, last_event_id) = (line.generation?, line.last_event_id?);
        Some(Self { generation, last_event_id, chain_head: line.chain_head? })
    }
}

impl Members for RosterMark {
    fn put(&self, line: &mut Line) {
        (line.roster_version, line.roster_sha256) = (Some(self.version), Some(self.sha256));
    }

    fn take(line: &Line) -> Option<Self> {
        Some(Self { version: line.roster_version?, sha256: line.roster_sha256? })
    }
}

impl Members for AuditChain {
    fn put(&self, line: &mut Line) {
        line.audit = Some(*self);
    }

    fn take(line: &Line) -> Option<Self> {
        line.audit
    }
}

impl Members for OrderedBy {
    fn put(&self, line: &mut Line) {
        (line.intent, line.signers) = (Some(self.intent), Some(self.signers.clone()));
    }

    fn take(line: &Line) -> Option<Self> {
        Some(Self { intent: line.intent?, signers: line.signers.clone()? })
    }
}

/// [`OrderEffect`] without what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ActWord {
    Admit,
    Release,
    Bar,
    Note,
}

impl Members for OrderEffect {
    fn put(&self, line: &mut Line) {
        line.act = Some(match self {
            Self::Admit { replaces } => {
                line.replaces.clone_from(replaces);
                ActWord::Admit
            }
            Self::Release { serial } => {
                line.serial = Some(serial.clone());
                ActWord::Release
            }
            Self::Bar => ActWord::Bar,
            Self::Note => ActWord::Note,
        });
    }

    fn take(line: &Line) -> Option<Self> {
        Some(match line.act? {
            ActWord::Admit => Self::Admit { replaces: line.replaces.clone() },
            ActWord::Release => Self::Release { serial: line.serial.clone()? },
            ActWord::Bar => Self::Bar,
            ActWord::Note => Self::Note,
        })
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
        let mut line = Self::empty(seq, at, entry.kind(), prev);
        entry.put(&mut line);
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
        let entry = Entry::take(&self).filter(|entry| Self::of(self.seq, self.at, entry, self.prev) == self);
        entry.map(|entry| (self.at, entry)).ok_or("its fields are not those of its kind")
    }
}

//! One line of the ledger: its entry, and its place in the chain.

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

use super::entry::{By, Entry, Mark, NodeNames, OrderEffect, OrderedBy};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Initialised,
    Admitted,
    Issued,
    Orphaned,
    EndpointIssued,
    DirectoryIssued,
    Suspended,
    Resumed,
    Barred,
    Removed,
    Renamed,
    Replaced,
    LapseReleased,
    OwnerApproved,
    OwnerRemoved,
    OwnerKeyAdded,
    OwnerKeyRemoved,
    RosterChanged,
    Ordered,
    JournalSeen,
    JournalAccepted,
    AuditAnchored,
    AuditAccepted,
    TornLineDropped,
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
    new_hostname: Option<Hostname>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<EndpointNames>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner_name: Option<OwnerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster_version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster_sha256: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<OrderId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signers: Option<Vec<OwnerId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    act: Option<ActWord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditChain>,
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
            Self::DirectoryIssued { .. } => Kind::DirectoryIssued,
            Self::Suspended { .. } => Kind::Suspended,
            Self::Resumed { .. } => Kind::Resumed,
            Self::Barred { .. } => Kind::Barred,
            Self::Removed { .. } => Kind::Removed,
            Self::Renamed { .. } => Kind::Renamed,
            Self::Replaced { .. } => Kind::Replaced,
            Self::LapseReleased { .. } => Kind::LapseReleased,
            Self::OwnerApproved { .. } => Kind::OwnerApproved,
            Self::OwnerRemoved { .. } => Kind::OwnerRemoved,
            Self::OwnerKeyAdded { .. } => Kind::OwnerKeyAdded,
            Self::OwnerKeyRemoved { .. } => Kind::OwnerKeyRemoved,
            Self::RosterChanged { .. } => Kind::RosterChanged,
            Self::Ordered { .. } => Kind::Ordered,
            Self::JournalSeen(_) => Kind::JournalSeen,
            Self::JournalAccepted(_) => Kind::JournalAccepted,
            Self::AuditAnchored(_) => Kind::AuditAnchored,
            Self::AuditAccepted(_) => Kind::AuditAccepted,
            Self::TornLineDropped { .. } => Kind::TornLineDropped,
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
            new_hostname: None,
            serial: None,
            not_after: None,
            address: None,
            names: None,
            root: None,
            generation: None,
            last_event_id: None,
            chain_head: None,
            bytes: None,
            owner: None,
            owner_name: None,
            role: None,
            roster_version: None,
            roster_sha256: None,
            intent: None,
            signers: None,
            act: None,
            replaces: None,
            audit: None,
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
            Entry::DirectoryIssued { serial, not_after, names } => {
                (line.serial, line.not_after) = (Some(serial.clone()), Some(*not_after));
                line.names = Some(names.clone());
            }
            Entry::Suspended { held, .. } => line.held = Some(*held),
            Entry::Resumed { .. } | Entry::Removed { .. } => {}
            Entry::Renamed { new, by, .. } => {
                (line.new_hostname, line.by) = (Some(new.clone()), Some(*by));
            }
            Entry::Replaced { successor, .. } => line.successor = Some(successor.clone()),
            Entry::LapseReleased { serial, .. } => line.serial = Some(serial.clone()),
            Entry::OwnerApproved { owner, name, role, key, roster } => {
                (line.role, line.fingerprint) = (Some(*role), Some(*key));
                line.roster(owner, name, roster);
            }
            Entry::OwnerRemoved { owner, name, roster } => line.roster(owner, name, roster),
            Entry::OwnerKeyAdded { owner, name, key, roster } | Entry::OwnerKeyRemoved { owner, name, key, roster } => {
                line.fingerprint = Some(*key);
                line.roster(owner, name, roster);
            }
            Entry::RosterChanged { roster } => line.mark(roster),
            Entry::Ordered { by: OrderedBy { intent, signers }, act, .. } => {
                (line.intent, line.signers) = (Some(*intent), Some(signers.clone()));
                line.act = Some(match act {
                    OrderEffect::Admit { replaces } => {
                        line.replaces.clone_from(replaces);
                        ActWord::Admit
                    }
                    OrderEffect::Release { serial } => {
                        line.serial = Some(serial.clone());
                        ActWord::Release
                    }
                    OrderEffect::Bar => ActWord::Bar,
                    OrderEffect::Note => ActWord::Note,
                });
            }
            Entry::JournalSeen(mark) | Entry::JournalAccepted(mark) => {
                line.generation = Some(mark.generation);
                line.last_event_id = Some(mark.last_event_id);
                line.chain_head = Some(mark.chain_head);
            }
            Entry::AuditAnchored(chain) | Entry::AuditAccepted(chain) => line.audit = Some(*chain),
            Entry::TornLineDropped { bytes } => line.bytes = Some(*bytes),
        }
        line
    }

    fn roster(&mut self, owner: &OwnerId, name: &OwnerName, roster: &RosterMark) {
        (self.owner, self.owner_name) = (Some(owner.clone()), Some(name.clone()));
        self.mark(roster);
    }

    fn mark(&mut self, roster: &RosterMark) {
        (self.roster_version, self.roster_sha256) = (Some(roster.version), Some(roster.sha256));
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
        let roster = || Some(RosterMark { version: self.roster_version?, sha256: self.roster_sha256? });
        Some(match self.kind {
            Kind::Initialised => Entry::Initialised { root: self.root? },
            Kind::Admitted => Entry::Admitted { node: node()?, by: self.by? },
            Kind::Issued => {
                Entry::Issued { node: node()?, serial: serial()?, not_after: self.not_after?, address: self.address }
            }
            Kind::Orphaned => Entry::Orphaned { node: node()?, serial: serial()?, not_after: self.not_after? },
            Kind::EndpointIssued => Entry::EndpointIssued { serial: serial()?, not_after: self.not_after? },
            Kind::DirectoryIssued => {
                Entry::DirectoryIssued { serial: serial()?, not_after: self.not_after?, names: self.names.clone()? }
            }
            Kind::Suspended => Entry::Suspended { node: node()?, held: self.held? },
            Kind::Resumed => Entry::Resumed { node: node()? },
            Kind::Barred => Entry::Barred { node: node()?, by: self.by? },
            Kind::Removed => Entry::Removed { node: node()? },
            Kind::Renamed => Entry::Renamed { node: node()?, new: self.new_hostname.clone()?, by: self.by? },
            Kind::Replaced => Entry::Replaced { node: node()?, successor: self.successor.clone()? },
            Kind::LapseReleased => Entry::LapseReleased { node: node()?, serial: serial()? },
            Kind::OwnerApproved => Entry::OwnerApproved {
                owner: self.owner.clone()?,
                name: self.owner_name.clone()?,
                role: self.role?,
                key: self.fingerprint?,
                roster: roster()?,
            },
            Kind::OwnerRemoved => {
                Entry::OwnerRemoved { owner: self.owner.clone()?, name: self.owner_name.clone()?, roster: roster()? }
            }
            Kind::OwnerKeyAdded => Entry::OwnerKeyAdded {
                owner: self.owner.clone()?,
                name: self.owner_name.clone()?,
                key: self.fingerprint?,
                roster: roster()?,
            },
            Kind::OwnerKeyRemoved => Entry::OwnerKeyRemoved {
                owner: self.owner.clone()?,
                name: self.owner_name.clone()?,
                key: self.fingerprint?,
                roster: roster()?,
            },
            Kind::RosterChanged => Entry::RosterChanged { roster: roster()? },
            Kind::Ordered => Entry::Ordered {
                node: node()?,
                by: OrderedBy { intent: self.intent?, signers: self.signers.clone()? },
                act: match self.act? {
                    ActWord::Admit => OrderEffect::Admit { replaces: self.replaces.clone() },
                    ActWord::Release => OrderEffect::Release { serial: serial()? },
                    ActWord::Bar => OrderEffect::Bar,
                    ActWord::Note => OrderEffect::Note,
                },
            },
            Kind::JournalSeen => Entry::JournalSeen(mark()?),
            Kind::JournalAccepted => Entry::JournalAccepted(mark()?),
            Kind::AuditAnchored => Entry::AuditAnchored(self.audit?),
            Kind::AuditAccepted => Entry::AuditAccepted(self.audit?),
            Kind::TornLineDropped => Entry::TornLineDropped { bytes: self.bytes? },
        })
    }
}

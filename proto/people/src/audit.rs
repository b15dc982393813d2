//! The audit (design.md O6): who changed or ordered what, from where, and what came of it. One JSON object a line, each
//! holding the SHA-256 of the line before it, so that no line can be changed, left out or put elsewhere unseen.
//!
//! What is cut off at the end is seen by whoever has a later hash: so far reaches what [`verify`] can prove.

mod error;

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::token::TokenName;
pub use error::AuditError;
use lucia_proto::api::Endpoint;
use lucia_proto::base::bounded::OutOfBounds;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{AUDIT_LINE_MAX, JSON_DEPTH_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::owner::{OwnerId, OwnerName};
use lucia_proto::orders::{OrderCode, OrderId};

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ActorWire", into = "ActorWire")]
pub enum AuditActor {
    /// The operator, by user id.
    Operator(u32),
    /// Somebody of the roster.
    Owner(OwnerId, OwnerName),
    /// Somebody who asks to be in it.
    Applicant(OwnerId, OwnerName),
    /// A node.
    Node(NodeId),
    /// The enrollment worker.
    Worker,
    /// The controller itself.
    Controller,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ActorKind {
    Operator,
    Owner,
    Applicant,
    Node,
    Worker,
    Controller,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ActorWire {
    kind: ActorKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner_id: Option<OwnerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<OwnerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
}

impl TryFrom<ActorWire> for AuditActor {
    type Error = OutOfBounds;

    fn try_from(wire: ActorWire) -> Result<Self, OutOfBounds> {
        Ok(match (wire.kind, wire.uid, wire.owner_id, wire.name, wire.node_id) {
            (ActorKind::Operator, Some(uid), None, None, None) => Self::Operator(uid),
            (ActorKind::Owner, None, Some(id), Some(name), None) => Self::Owner(id, name),
            (ActorKind::Applicant, None, Some(id), Some(name), None) => Self::Applicant(id, name),
            (ActorKind::Node, None, None, None, Some(node)) => Self::Node(node),
            (ActorKind::Worker, None, None, None, None) => Self::Worker,
            (ActorKind::Controller, None, None, None, None) => Self::Controller,
            _ => return Err(OutOfBounds { field: "actor", rule: "the members of its kind and no others" }),
        })
    }
}

impl From<AuditActor> for ActorWire {
    fn from(actor: AuditActor) -> Self {
        let of = |kind| Self { kind, uid: None, owner_id: None, name: None, node_id: None };
        match actor {
            AuditActor::Operator(uid) => Self { uid: Some(uid), ..of(ActorKind::Operator) },
            AuditActor::Owner(id, name) => Self { owner_id: Some(id), name: Some(name), ..of(ActorKind::Owner) },
            AuditActor::Applicant(id, name) => {
                Self { owner_id: Some(id), name: Some(name), ..of(ActorKind::Applicant) }
            }
            AuditActor::Node(node) => Self { node_id: Some(node), ..of(ActorKind::Node) },
            AuditActor::Worker => of(ActorKind::Worker),
            AuditActor::Controller => of(ActorKind::Controller),
        }
    }
}

impl fmt::Display for AuditActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(uid) => write!(f, "operator (uid {uid})"),
            Self::Owner(_, name) => write!(f, "{name}"),
            Self::Applicant(_, name) => write!(f, "{name} (asks to become an owner)"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Worker => f.write_str("worker"),
            Self::Controller => f.write_str("controller"),
        }
    }
}

/// By what somebody of the roster proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditVia {
    /// A signature of their owner key over this very call.
    Key,
    /// A session of the page, which a passkey began.
    Session,
}

/// What was done. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditAction {
    /// The discovery window was opened.
    WindowOpened,
    /// It was closed.
    WindowClosed,
    /// An installation was approved.
    InstallApproved,
    /// A device was rejected.
    DeviceRejected,
    /// It was taken off the list.
    DeviceDismissed,
    /// It was put back on the list.
    DeviceRestored,
    /// A node was removed.
    NodeRemoved,
    /// It was given another name.
    NodeRenamed,
    /// Of two holders of an identity one was kept.
    CloneKept,
    /// None was kept.
    CloneSplit,
    /// The operator gave nodes an unsigned SSH key; written before 2026-12 alone.
    SshKeyAdded,
    /// The operator took one back; written before 2026-12 alone.
    SshKeyRemoved,
    /// Somebody asked to become an owner.
    ApplicationReceived,
    /// The worker published a roster.
    RosterTaken,
    /// A draft was handed in.
    DraftAdded,
    /// A signature under it was handed in.
    IntentSigned,
    /// With that of this owner enough had signed: it is an order.
    OrderGiven,
    /// It was thrown away.
    DraftDropped,
    /// Somebody who carries an order out said what became of it.
    IntentSettled,
    /// A last line that a crash had cut off was dropped. Nothing had been answered on the strength of it.
    TornLineDropped,
    /// Somebody signed in to the page.
    SignedIn,
    /// Sessions of the page were ended.
    SessionEnded,
    /// A passkey signs somebody in from now on.
    PasskeyConfirmed,
    /// It does no more.
    PasskeyRemoved,
    /// An owner made an automation token.
    TokenMade,
    /// Somebody removed one.
    TokenRemoved,
    /// More calls of this one were refused than have lines of their own; `more` says how many.
    RefusalsCounted,
}

impl AuditAction {
    /// The word that is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WindowOpened => "window-opened",
            Self::WindowClosed => "window-closed",
            Self::InstallApproved => "install-approved",
            Self::DeviceRejected => "device-rejected",
            Self::DeviceDismissed => "device-dismissed",
            Self::DeviceRestored => "device-restored",
            Self::NodeRemoved => "node-removed",
            Self::NodeRenamed => "node-renamed",
            Self::CloneKept => "clone-kept",
            Self::CloneSplit => "clone-split",
            Self::SshKeyAdded => "ssh-key-added",
            Self::SshKeyRemoved => "ssh-key-removed",
            Self::ApplicationReceived => "application-received",
            Self::RosterTaken => "roster-taken",
            Self::DraftAdded => "draft-added",
            Self::IntentSigned => "intent-signed",
            Self::OrderGiven => "order-given",
            Self::DraftDropped => "draft-dropped",
            Self::IntentSettled => "intent-settled",
            Self::TornLineDropped => "torn-line-dropped",
            Self::SignedIn => "signed-in",
            Self::SessionEnded => "session-ended",
            Self::PasskeyConfirmed => "passkey-confirmed",
            Self::PasskeyRemoved => "passkey-removed",
            Self::TokenMade => "token-made",
            Self::TokenRemoved => "token-removed",
            Self::RefusalsCounted => "refusals-counted",
        }
    }

    /// What a call of the operator's table does; nothing for one that only looks, and for calls that are nobody's here.
    #[must_use]
    pub const fn of(endpoint: Endpoint) -> Option<Self> {
        Some(match endpoint {
            Endpoint::OpenWindow => Self::WindowOpened,
            Endpoint::CloseWindow => Self::WindowClosed,
            Endpoint::Approve => Self::InstallApproved,
            Endpoint::Reject => Self::DeviceRejected,
            Endpoint::Dismiss => Self::DeviceDismissed,
            Endpoint::Restore => Self::DeviceRestored,
            Endpoint::Remove => Self::NodeRemoved,
            Endpoint::Rename => Self::NodeRenamed,
            Endpoint::KeepClone => Self::CloneKept,
            Endpoint::SplitClone => Self::CloneSplit,
            Endpoint::BootChallenge
            | Endpoint::Discover
            | Endpoint::DeviceChallenge
            | Endpoint::DeviceState
            | Endpoint::Installation
            | Endpoint::Grant
            | Endpoint::Progress
            | Endpoint::Enroll
            | Endpoint::NodeChallenge
            | Endpoint::Heartbeat
            | Endpoint::Renew
            | Endpoint::Onboarding
            | Endpoint::Status
            | Endpoint::Nodes
            | Endpoint::Node
            | Endpoint::Events => return None,
        })
    }
}

/// What is noted; its number and its place in the chain are the log's to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// When.
    pub at: UnixTime,
    /// Who.
    pub actor: AuditActor,
    /// From which address; absent over the Unix socket and for what the programs do.
    pub from: Option<IpAddr>,
    /// By what; absent for whoever is nobody of the roster, and for the signature under an order itself.
    pub via: Option<AuditVia>,
    /// What.
    pub action: AuditAction,
    /// Which device or node it is about.
    pub node: Option<NodeId>,
    /// Which order it is about.
    pub intent: Option<OrderId>,
    /// Why it was refused by the controller; absent when it was done.
    pub refused: Option<Code>,
    /// Why an order was refused by who carries it out; absent when it was done.
    pub intent_refused: Option<OrderCode>,
    /// Which automation token it is about, by the name its owner gave it.
    pub token: Option<TokenName>,
    /// How many calls this line stands for, where it stands for several; code and address are the last one's.
    pub more: Option<u64>,
}

impl AuditNote {
    /// That this was done, and no more.
    #[must_use]
    pub const fn new(at: UnixTime, actor: AuditActor, action: AuditAction) -> Self {
        Self {
            at,
            actor,
            from: None,
            via: None,
            action,
            node: None,
            intent: None,
            refused: None,
            intent_refused: None,
            token: None,
            more: None,
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditEntry {
    /// From 1, rising by one.
    pub sequence: u64,
    /// See [`AuditNote`].
    pub at: UnixTime,
    /// See [`AuditNote`].
    pub actor: AuditActor,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<AuditVia>,
    /// See [`AuditNote`].
    pub action: AuditAction,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<OrderId>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Code>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_refused: Option<OrderCode>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenName>,
    /// See [`AuditNote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
    /// SHA-256 of the line before, its end included; zeros in the first.
    pub prev: Digest,
}

impl AuditEntry {
    /// The line with its end: the bytes that the next line has the hash of.
    ///
    /// # Errors
    /// Never for values of this type.
    pub fn to_line(&self) -> Result<String, JsonError> {
        json::to_string(self).map(|text| text + "\n")
    }
}

/// Answer of `GET /api/host/audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditView {
    /// In order, at most 500; ask again after the last one for more.
    pub entries: Vec<AuditEntry>,
    /// The newest number there is.
    pub last_sequence: u64,
    /// SHA-256 of the newest line.
    pub head: Digest,
}

/// The next line, its end included.
///
/// # Errors
/// [`AuditError::TooLong`]; nothing is changed then.
pub fn add(chain: &mut AuditChain, note: AuditNote) -> Result<String, AuditError> {
    let AuditNote { at, actor, from, via, action, node, intent, refused, intent_refused, token, more } = note;
    let (sequence, prev) = (chain.entries.saturating_add(1), chain.head);
    let entry =
        AuditEntry { sequence, at, actor, from, via, action, node, intent, refused, intent_refused, token, more, prev };
    let line = entry.to_line().map_err(|_| AuditError::TooLong)?;
    if line.len() > AUDIT_LINE_MAX {
        return Err(AuditError::TooLong);
    }
    (chain.entries, chain.head) = (sequence, Digest::of(line.as_bytes()));
    Ok(line)
}

/// Reads the next line, its end included.
///
/// # Errors
/// Why it is not the next one; nothing is changed then.
pub fn follow(chain: &mut AuditChain, line: &[u8]) -> Result<AuditEntry, AuditError> {
    let number = chain.entries.saturating_add(1);
    if line.last() != Some(&b'\n') {
        return Err(AuditError::Cut { number: chain.entries });
    }
    let entry: AuditEntry =
        json::from_slice(line, AUDIT_LINE_MAX, JSON_DEPTH_MAX).map_err(|source| AuditError::Line { number, source })?;
    if entry.to_line().is_ok_and(|text| text.as_bytes() != line) {
        return Err(AuditError::Form { number });
    }
    if entry.sequence != number {
        return Err(AuditError::Sequence { number, found: entry.sequence });
    }
    if entry.prev != chain.head {
        return Err(AuditError::Chain { number });
    }
    (chain.entries, chain.head) = (number, Digest::of(line));
    Ok(entry)
}
/// Reads a whole audit, up to its end or beyond what is known of it from elsewhere.
///
/// # Errors
/// The first line that is not the one that was written there, or that lines are missing.
pub fn verify(lines: &[u8], anchor: Option<&AuditChain>) -> Result<AuditChain, AuditError> {
    let mut chain = AuditChain::default();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        follow(&mut chain, line)?;
        if let Some(anchor) = anchor
            && anchor.entries == chain.entries
            && anchor.head != chain.head
        {
            return Err(AuditError::Chain { number: chain.entries });
        }
    }
    match anchor {
        Some(anchor) if anchor.entries > chain.entries => {
            Err(AuditError::Short { found: chain.entries, anchored: anchor.entries })
        }
        Some(_) | None => Ok(chain),
    }
}

#[cfg(test)]
mod tests;

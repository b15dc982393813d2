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
use lucia_proto::base::acts::{Act, in_audit};
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

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditEntry {
    /// From 1, rising by one.
    pub sequence: u64,
    /// When.
    pub at: UnixTime,
    /// Who.
    pub actor: AuditActor,
    /// From which address; absent over the Unix socket and for what the programs do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// By what; absent for whoever is nobody of the roster, and for the signature under an order itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<AuditVia>,
    /// What.
    #[serde(with = "in_audit")]
    pub action: Act,
    /// Which device or node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Which order it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<OrderId>,
    /// Why it was refused by the controller; absent when it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Code>,
    /// Why an order was refused by who carries it out; absent when it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent_refused: Option<OrderCode>,
    /// Which automation token it is about, by the name its owner gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenName>,
    /// How many calls this line stands for, where it stands for several; code and address are the last one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
    /// SHA-256 of the line before, its end included; zeros in the first.
    pub prev: Digest,
}

impl AuditEntry {
    /// That this was done, and no more; its number and its place in the chain are the log's to give.
    #[must_use]
    pub const fn new(at: UnixTime, actor: AuditActor, action: Act) -> Self {
        Self {
            sequence: 0,
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
            prev: Digest::ZERO,
        }
    }

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
#[serde(rename_all = "camelCase")]
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
pub fn add(chain: &mut AuditChain, entry: AuditEntry) -> Result<String, AuditError> {
    let sequence = chain.entries.saturating_add(1);
    let entry = AuditEntry { sequence, prev: chain.head, ..entry };
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

//! The head of an order: what is signed, and by what an order is known.

use serde::{Deserialize, Serialize};

use super::{Body, OrderKind};
use crate::base::bounded::OutOfBounds;
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, ORDER_LIFETIME_MAX, ORDER_MAX, ORDER_NODES_MAX};
use crate::base::time::UnixTime;
use crate::checked_text;
use crate::node::challenge::Nonce;
use crate::orders::owner::OwnerId;
use crate::pki::key::VerificationCode;

/// What an owner key signs begins with this line, so that no other signature of the same key is one under an intent.
pub const ORDER_HEAD: &str = "lucia-intent-v1\n";

checked_text! {
    /// What a state kind is about: the account of SSH keys.
    Subject, BadSubject, "a subject: a-z or _ first, then up to 63 of a-z, 0-9, _, . and -",
    |text| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|b| matches!(b, b'a'..=b'z' | b'_'))
            && bytes.all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-'))
            && text.len() <= 64
    }
}

/// The SHA-256 of an intent's text: one order, whoever signs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderId(Digest);

impl OrderId {
    /// The id of this text.
    #[must_use]
    pub fn of(intent_json: &str) -> Self {
        Self(Digest::of(intent_json.as_bytes()))
    }

    /// What a person types to sign it: made from the text alone, so that who signs computes it anew.
    #[must_use]
    pub fn code(&self) -> VerificationCode {
        VerificationCode::of(&self.0)
    }
}

impl std::str::FromStr for OrderId {
    type Err = crate::base::digest::BadDigest;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl std::fmt::Display for OrderId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What bounds an order in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Carried out once.
    Once {
        /// The last second it may be carried out; at most 24 hours after `issuedAt`.
        not_after: UnixTime,
        /// Remembered until then.
        nonce: Nonce,
    },
    /// How something is from now on.
    State {
        /// What it is about.
        subject: Subject,
        /// Over 0; a lower one than the last is refused.
        revision: u64,
    },
}

/// The head of an order: what is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct OrderHead {
    /// What is ordered.
    pub kind: OrderKind,
    /// The SHA-256 of the fleet's root.
    pub fleet: Digest,
    /// Who orders; one of the signatures is this owner's.
    pub owner: OwnerId,
    /// The nodes it is for, by id: at most 512, never "all".
    pub nodes: Vec<NodeId>,
    /// The SHA-256 of the body's text.
    pub body_sha256: Digest,
    /// When it was made, by the clock of who drafted it.
    pub issued_at: UnixTime,
    /// Until when, or in which order.
    pub terms: Terms,
}

/// [`OrderHead`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    kind: OrderKind,
    fleet: Digest,
    owner: OwnerId,
    nodes: Vec<NodeId>,
    body_sha256: Digest,
    issued_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<Nonce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<Subject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
}

impl TryFrom<Wire> for OrderHead {
    type Error = OutOfBounds;

    fn try_from(wire: Wire) -> Result<Self, OutOfBounds> {
        let refuse = |field, rule| Err(OutOfBounds { field, rule });
        let nodes = &wire.nodes;
        if nodes.is_empty() || nodes.len() > ORDER_NODES_MAX {
            return refuse("nodes", "1 to 512");
        }
        // Rising, so that one set of nodes has one text and none stands twice.
        if !nodes.windows(2).all(|pair| pair.first() < pair.last()) {
            return refuse("nodes", "each once, in rising order");
        }
        let terms = match (wire.not_after, wire.nonce, wire.subject, wire.revision) {
            (Some(not_after), Some(nonce), None, None) if !wire.kind.is_state() => {
                if not_after <= wire.issued_at || not_after.since(wire.issued_at) > ORDER_LIFETIME_MAX {
                    return refuse("notAfter", "after issuedAt, by 24 hours at most");
                }
                Terms::Once { not_after, nonce }
            }
            (None, None, Some(subject), Some(revision)) if wire.kind.is_state() => {
                if revision == 0 {
                    return refuse("revision", "over 0");
                }
                Terms::State { subject, revision }
            }
            _ => return refuse("kind", "notAfter and nonce for what is done once, subject and revision for a state"),
        };
        Ok(Self {
            kind: wire.kind,
            fleet: wire.fleet,
            owner: wire.owner,
            nodes: wire.nodes,
            body_sha256: wire.body_sha256,
            issued_at: wire.issued_at,
            terms,
        })
    }
}

impl From<OrderHead> for Wire {
    fn from(intent: OrderHead) -> Self {
        let (not_after, nonce, subject, revision) = match intent.terms {
            Terms::Once { not_after, nonce } => (Some(not_after), Some(nonce), None, None),
            Terms::State { subject, revision } => (None, None, Some(subject), Some(revision)),
        };
        Self {
            kind: intent.kind,
            fleet: intent.fleet,
            owner: intent.owner,
            nodes: intent.nodes,
            body_sha256: intent.body_sha256,
            issued_at: intent.issued_at,
            not_after,
            nonce,
            subject,
            revision,
        }
    }
}

impl OrderHead {
    /// Reads the text that was signed.
    ///
    /// # Errors
    /// When it is longer than 24 KiB or no intent.
    pub fn parse(intent_json: &str) -> Result<Self, JsonError> {
        json::from_str(intent_json, ORDER_MAX, JSON_DEPTH_MAX)
    }

    /// Whether this body speaks of the same.
    ///
    /// # Errors
    /// The first member that does not fit.
    pub fn fits(&self, body: &Body) -> Result<(), OutOfBounds> {
        if body.kind() != self.kind {
            return Err(OutOfBounds { field: "kind", rule: "the body's" });
        }
        let subject = match &self.terms {
            Terms::State { subject, .. } => Some(subject.as_str()),
            Terms::Once { .. } => None,
        };
        body.fits(&self.nodes, subject)
    }
}

/// The text that an owner key signs.
pub(super) fn signed_text(intent_json: &str) -> Vec<u8> {
    [ORDER_HEAD, intent_json].concat().into_bytes()
}

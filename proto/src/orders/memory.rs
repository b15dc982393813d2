//! What was ordered before: nonces of what was done once, or refused for what stood in its way, and revisions of what holds.
//!
//! The memory is a file of who carries orders out. It is stored before an order is carried out, so that a crash in
//! between loses an order and never repeats one. Its floor is the latest time that an owner's own word bears out; time
//! for orders never falls below it, and only what ended before it is forgotten.

use serde::{Deserialize, Serialize};

use super::head::{OrderHead, OrderId, Subject, Terms};
use super::refusal::{OrderCode, OrderRefusal};
use super::verified::VerifiedOrder;
use super::{Body, OrderKind};
use crate::base::bounded::Version;
use crate::base::json::{self, JsonError};
use crate::base::limits::{
    JSON_DEPTH_MAX, ORDER_MEMORY_MAX, ORDER_NONCES_MAX, ORDER_REVISION_LEAP, ORDER_SUBJECTS_MAX,
};
use crate::base::time::UnixTime;
use crate::node::challenge::Nonce;
use crate::orders::owner::OwnerId;

/// An order that was remembered: what who carries it out acts on. Only [`OrderMemory::remember`] makes one.
#[derive(Debug)]
#[must_use = "store the memory, then carry it out"]
pub struct Order {
    id: OrderId,
    intent: OrderHead,
    body: Body,
    signers: Vec<OwnerId>,
}

impl Order {
    /// Which order it is.
    #[must_use]
    pub const fn id(&self) -> OrderId {
        self.id
    }

    /// Its head.
    #[must_use]
    pub const fn intent(&self) -> &OrderHead {
        &self.intent
    }

    /// What to do.
    #[must_use]
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// The owners who signed it, each once.
    #[must_use]
    pub fn signers(&self) -> &[OwnerId] {
        &self.signers
    }
}

/// The memory, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrderMemory {
    schema_version: Version<1>,
    /// What is done once and was issued before is refused: it may have been done, and nobody here knows.
    begun_at: UnixTime,
    /// Time for orders is never before this.
    floor: UnixTime,
    nonces: Vec<UsedNonce>,
    states: Vec<HeldState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct UsedNonce {
    nonce: Nonce,
    until: UnixTime,
    /// It was not carried out, for this reason, and will not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<OrderCode>,
    /// Which order it was that was refused. One of another owner under the same nonce is another order: nobody ends with an
    /// order that they may not give alone one that others give together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<OrderId>,
}

impl UsedNonce {
    /// Whether it stands for this order.
    fn is_of(&self, nonce: &Nonce, id: OrderId) -> bool {
        self.nonce == *nonce && self.intent.is_none_or(|refused| refused == id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HeldState {
    kind: OrderKind,
    subject: Subject,
    revision: u64,
    intent: OrderId,
}

impl OrderMemory {
    /// A memory of nothing, begun now. Where a former one was lost this is what keeps its orders from being repeated.
    #[must_use]
    pub const fn begin(now: UnixTime) -> Self {
        Self { schema_version: Version, begun_at: now, floor: now, nonces: Vec::new(), states: Vec::new() }
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// When they are too many or not this schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JsonError> {
        json::from_slice(bytes, ORDER_MEMORY_MAX, JSON_DEPTH_MAX)
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// Never for values of this type.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        json::to_string(self).map(String::into_bytes)
    }

    /// Time for orders is never before this.
    #[must_use]
    pub const fn floor(&self) -> UnixTime {
        self.floor
    }

    /// The revision of a subject that holds, and the order that set it.
    #[must_use]
    pub fn held(&self, kind: OrderKind, subject: &Subject) -> Option<(u64, OrderId)> {
        self.state(kind, subject).map(|state| (state.revision, state.intent))
    }

    /// The order of every state in force.
    pub fn states(&self) -> impl Iterator<Item = OrderId> {
        self.states.iter().map(|state| state.intent)
    }

    fn state(&self, kind: OrderKind, subject: &Subject) -> Option<&HeldState> {
        self.states.iter().find(|state| state.kind == kind && state.subject == *subject)
    }

    /// Whether the order is a new one, and has room once what ended before `now` is forgotten.
    ///
    /// # Errors
    /// Why it is not, or that there is no room for it.
    pub(super) fn judge(&self, id: OrderId, intent: &OrderHead, now: UnixTime) -> Result<(), OrderRefusal> {
        match &intent.terms {
            Terms::Once { nonce, .. } => {
                let used = self.nonces.iter().find(|used| used.is_of(nonce, id));
                if intent.issued_at < self.begun_at {
                    Err(OrderRefusal::BeforeMemory(self.begun_at))
                } else if let Some(used) = used {
                    Err(used.refused.map_or(OrderRefusal::AlreadyDone, OrderRefusal::RefusedBefore))
                } else if self.nonces.iter().filter(|used| used.until >= now).count() >= ORDER_NONCES_MAX {
                    Err(OrderRefusal::MemoryFull)
                } else {
                    Ok(())
                }
            }
            Terms::State { subject, revision } => {
                let state = self.state(intent.kind, subject);
                let (held, offered) = (state.map_or(0, |state| state.revision), *revision);
                if offered < held {
                    Err(OrderRefusal::OlderRevision { held, offered })
                } else if state.is_some_and(|state| offered == held && state.intent == id) {
                    Err(OrderRefusal::AlreadyHeld)
                } else if offered == held {
                    Err(OrderRefusal::RevisionConflict(held))
                } else if offered - held > ORDER_REVISION_LEAP {
                    Err(OrderRefusal::RevisionLeap { held, offered })
                } else if state.is_none() && self.states.len() >= ORDER_SUBJECTS_MAX {
                    Err(OrderRefusal::MemoryFull)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Remembers an order and gives it out to be carried out. Store the memory first: an order that was carried out and
    /// not remembered would be carried out again.
    ///
    /// # Errors
    /// When it was remembered, or ran out, since it was checked.
    pub fn remember(&mut self, verified: VerifiedOrder) -> Result<Order, OrderRefusal> {
        let VerifiedOrder { id, intent, body, signers, now } = verified;
        // Another order may have been remembered since this one was checked.
        let now = now.max(self.floor);
        self.judge(id, &intent, now)?;
        match &intent.terms {
            Terms::Once { not_after, .. } if *not_after < now => {
                return Err(OrderRefusal::Expired { not_after: *not_after, now });
            }
            Terms::Once { not_after, nonce } => {
                // Now lies within the day that its owner gave it, so a worker whose clock runs away alone raises no floor.
                self.floor = now;
                let floor = self.floor;
                self.nonces.retain(|used| used.until >= floor);
                self.nonces.push(UsedNonce { nonce: nonce.clone(), until: *not_after, refused: None, intent: None });
            }
            Terms::State { subject, revision } => {
                self.floor = self.floor.max(intent.issued_at.min(now));
                let kind = intent.kind;
                self.states.retain(|state| state.kind != kind || state.subject != *subject);
                self.states.push(HeldState { kind, subject: subject.clone(), revision: *revision, intent: id });
            }
        }
        Ok(Order { id, intent, body, signers })
    }

    /// Notes of an order that was remembered that it is not carried out after all: whoever brings it again is told the same,
    /// whatever stands in its way then. Of a state nothing is noted, since its next revision takes its place.
    pub fn note_refused(&mut self, id: OrderId, intent: &OrderHead, code: OrderCode) {
        if let Terms::Once { nonce, .. } = &intent.terms {
            let used = self.nonces.iter_mut().filter(|used| used.is_of(nonce, id));
            used.for_each(|used| (used.refused, used.intent) = (Some(code), Some(id)));
        }
    }
}

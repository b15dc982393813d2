//! `orders.json`: what owners ordered, in one file that is replaced as a whole.
//!
//! It holds the memory of orders, the signed text of what holds (the SSH keys of each account) and of what is under way (the
//! removal of the identity), and what has to be told. One write remembers an order and makes it hold, so there is no moment
//! in which a crash could lose one or do one twice: what is left to do is done from this file by whoever starts next.

use std::collections::BTreeMap;

use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{JSON_DEPTH_MAX, NODE_ORDERS_MAX, OUTCOMES_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::exchange::NodeOutcome;
use lucia_proto::orders::{
    Actor, Body, Decision, OrderCode, OrderHead, OrderId, OrderKind, OrderMemory, OrderRefusal, SignedOrder, SshKeys,
    VerifiedOrder,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Me;
use crate::host::state::{State, StateError, StateFile};
use crate::host::status::ORDERS_SHOWN;
use crate::keys::OrderedKeys;

/// What was ordered cannot be kept.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The private directory fails.
    #[error("{} cannot be written, and what is not on the disk is not done", file.as_str())]
    State {
        /// Which file.
        file: StateFile,
        /// What is wrong.
        #[source]
        source: StateError,
    },
    /// It cannot be written as JSON; a mistake in the agent.
    #[error("what was ordered cannot be written down")]
    Form(#[source] JsonError),
}

/// What cures a file that cannot be written.
pub const CURE: &str =
    "free space on the disk of /var/lib/lucia; the controller offers it again with the next heartbeat";

impl RecordError {
    /// Whether nobody knows what the disk holds now.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Self::State { source, .. } if source.is_doubtful())
    }
}

/// An order is not carried out.
#[derive(Debug, Error)]
pub enum NotDone {
    /// It is none that is carried out here, or not now.
    #[error(transparent)]
    Refused(#[from] OrderRefusal),
    /// It keeps a start that this machine said before its present one.
    #[error(
        "the order keeps a former start of this machine, which has begun another since; decide anew with the present one"
    )]
    FormerStart,
}

impl NotDone {
    /// The code that travels.
    #[must_use]
    pub const fn code(&self) -> OrderCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::FormerStart => OrderCode::NotPossible,
        }
    }
}

/// An order is not carried out, and the record in which that is remembered, where it is to be.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub why: NotDone,
    /// What to keep before that is told.
    pub next: Option<Box<Record>>,
}

impl From<OrderRefusal> for Refused {
    fn from(refusal: OrderRefusal) -> Self {
        Self { why: refusal.into(), next: None }
    }
}

/// An order to remove the identity, under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Leaving {
    order: SignedOrder,
    /// Whether it was told, or told often enough: from here on things are gone.
    wiping: bool,
}

/// Why this holder of the identity stopped for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Stopped {
    /// By which order.
    pub intent: OrderId,
    /// What was decided.
    pub decision: Decision,
}

impl Stopped {
    /// What was decided, and what a person can do.
    #[must_use]
    pub fn sentence(&self) -> String {
        let what = match self.decision {
            Decision::Keep => "another machine goes on as this node",
            Decision::Split => "no machine goes on as this node",
        };
        format!(
            "stopped for good: an owner decided (order {}) that {what}; what is set up here stays as it is; to bring this \
             machine back as a node of its own: `lucia-node-agent rekey`, or install it anew",
            self.intent.code()
        )
    }
}

/// An order that was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Done {
    /// Which.
    pub intent: OrderId,
    /// Of which kind.
    pub kind: OrderKind,
    /// When, by the agent's own clock.
    pub at: UnixTime,
}

/// `orders.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Record {
    schema_version: Version<1>,
    memory: OrderMemory,
    /// A record before this one was lost then: what was ordered before may be older than what held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_at: Option<UnixTime>,
    /// The order that holds, of each account.
    keys: Vec<SignedOrder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leaving: Option<Leaving>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
    /// Carried out, and not told yet.
    untold: Vec<NodeOutcome>,
    /// The last that were carried out, oldest first.
    done: Vec<Done>,
}

/// What the disk has of it.
#[derive(Debug)]
pub enum Loaded {
    /// Nothing.
    Missing,
    /// Something that cannot be read.
    Broken,
    /// The record.
    Held(Box<Record>),
}

impl Record {
    /// Of a node that was never ordered anything.
    #[must_use]
    pub const fn first() -> Self {
        Self::new(OrderMemory::begin(UnixTime::EPOCH), None)
    }

    /// Of a node whose former record was lost: nothing from before `now` is taken.
    #[must_use]
    pub const fn after_loss(now: UnixTime) -> Self {
        Self::new(OrderMemory::begin(now), Some(now))
    }

    const fn new(memory: OrderMemory, lost_at: Option<UnixTime>) -> Self {
        Self {
            schema_version: Version,
            memory,
            lost_at,
            keys: Vec::new(),
            leaving: None,
            stopped: None,
            untold: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Reads it.
    #[must_use]
    pub fn load(state: &State) -> Loaded {
        let told = |what: String| {
            tracing::warn!("{} cannot be used: {what}", StateFile::Orders.as_str());
            Loaded::Broken
        };
        match state.read(StateFile::Orders) {
            Ok(None) => Loaded::Missing,
            Ok(Some(bytes)) => match json::from_slice(&bytes, NODE_ORDERS_MAX, JSON_DEPTH_MAX) {
                Ok(record) => Loaded::Held(Box::new(record)),
                Err(error) => told(error.to_string()),
            },
            Err(error) => told(crate::host::chain(&error)),
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`RecordError::Form`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecordError> {
        json::to_string(self).map(String::into_bytes).map_err(RecordError::Form)
    }

    /// Keeps it.
    ///
    /// # Errors
    /// [`RecordError`]; the former one stands then, unless the disk is in doubt.
    pub fn write(&self, state: &State) -> Result<(), RecordError> {
        let file = StateFile::Orders;
        state.replace(file, &self.to_bytes()?).map_err(|source| RecordError::State { file, source })
    }

    /// What was ordered before.
    #[must_use]
    pub const fn memory(&self) -> &OrderMemory {
        &self.memory
    }

    /// The record in which `verified` is remembered and holds, or is under way.
    ///
    /// # Errors
    /// When it is not to be carried out after all.
    pub fn after(&self, signed: &SignedOrder, verified: VerifiedOrder, me: Me<'_>) -> Result<Self, Refused> {
        // The memory of one-shot orders begins anew by itself; of a state nobody knows any more what held.
        if let Some(lost) = self.lost_at.filter(|lost| verified.intent().issued_at < *lost) {
            return Err(OrderRefusal::BeforeMemory(lost).into());
        }
        let mut next = self.clone();
        let order = next.memory.remember(verified)?;
        match order.body() {
            Body::SshKey(body) => {
                next.keys.retain(|held| read_keys(held).is_none_or(|keys| keys.account != body.account));
                next.keys.push(signed.clone());
            }
            Body::CloneDecision(body) => match body.decision {
                Decision::Keep if me.start_id.is_some() && body.start_id.as_ref() == me.start_id => {}
                // What came before the present start may be the other machine's past as well, so this says of neither
                // that it goes on; and the machine that was meant may have rebooted since, so it ends neither.
                Decision::Keep if body.start_id.as_ref().is_some_and(|kept| me.former_starts.contains(kept)) => {
                    next.memory.note_refused(order.id(), order.intent(), OrderCode::NotPossible);
                    return Err(Refused { why: NotDone::FormerStart, next: Some(Box::new(next.fitting()?)) });
                }
                decision @ (Decision::Keep | Decision::Split) => {
                    next.stopped = Some(Stopped { intent: order.id(), decision });
                }
            },
            Body::RemoveIdentity(_) => next.leaving = Some(Leaving { order: signed.clone(), wiping: false }),
            body @ (Body::Admit(_) | Body::ReleaseLapse(_)) => {
                return Err(OrderRefusal::KindElsewhere { kind: body.kind(), actor: Actor::Node }.into());
            }
        }
        next.untold.push(NodeOutcome { intent: order.id(), refused: None });
        keep_last(&mut next.untold, OUTCOMES_MAX);
        next.done.push(Done { intent: order.id(), kind: order.intent().kind, at: me.now });
        keep_last(&mut next.done, ORDERS_SHOWN);
        Ok(next.fitting()?)
    }

    /// The record with this memory.
    ///
    /// # Errors
    /// [`OrderRefusal::MemoryFull`] when it has no room.
    pub fn remembering(&self, memory: OrderMemory) -> Result<Self, OrderRefusal> {
        Self { memory, ..self.clone() }.fitting()
    }

    /// The same, if the next start will read it: a longer file counts as damaged, and all that was ordered is lost with it.
    fn fitting(self) -> Result<Self, OrderRefusal> {
        let length = self.to_bytes().map_or(usize::MAX, |bytes| bytes.len());
        if length > NODE_ORDERS_MAX { Err(OrderRefusal::MemoryFull) } else { Ok(self) }
    }

    /// The record without what was told; nothing when that changes nothing.
    #[must_use]
    pub fn told(&self, outcomes: &[NodeOutcome]) -> Option<Self> {
        let mut next = self.clone();
        next.untold.retain(|outcome| !outcomes.contains(outcome));
        (next.untold.len() < self.untold.len()).then_some(next)
    }

    /// What has to be told.
    #[must_use]
    pub fn untold(&self) -> &[NodeOutcome] {
        &self.untold
    }

    /// The last orders that were carried out, oldest first.
    #[must_use]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    /// What the sender of this order again is told: that it was carried out, where it was this very one.
    #[must_use]
    pub fn repeated(&self, intent: OrderId, code: OrderCode) -> Option<OrderCode> {
        match code {
            OrderCode::AlreadyHeld => None,
            OrderCode::AlreadyDone if self.done.iter().any(|done| done.intent == intent) => None,
            code => Some(code),
        }
    }

    /// Why this holder stopped for good, if it did.
    #[must_use]
    pub const fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }

    /// The order by which no holder goes on, if this one stopped by it.
    #[must_use]
    pub fn splitting(&self) -> Option<OrderId> {
        self.stopped.as_ref().filter(|stopped| stopped.decision == Decision::Split).map(|stopped| stopped.intent)
    }

    /// The order to remove the identity, if one is under way.
    #[must_use]
    pub fn leaving(&self) -> Option<OrderId> {
        self.leaving.as_ref().map(|leaving| leaving.order.id())
    }

    /// Whether the identity is being removed: there is no way back.
    #[must_use]
    pub fn is_wiping(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.wiping)
    }

    /// The record from which the removal goes on; nothing where none is under way.
    #[must_use]
    pub fn wiping(&self) -> Option<Self> {
        let mut next = self.clone();
        next.leaving.as_mut()?.wiping = true;
        Some(next)
    }

    /// The keys of the accounts that owners gave any, or took them from. An order that cannot be read any more is told of in
    /// the log, and its account keeps what it has.
    #[must_use]
    pub fn keys(&self) -> OrderedKeys {
        let mut accounts = BTreeMap::new();
        let mut is_partial = self.lost_at.is_some();
        for held in &self.keys {
            let keys = read_keys(held).filter(|keys| self.holds(held, keys));
            let Some(SshKeys { account, keys }) = keys else {
                tracing::error!("order {} in orders.json is damaged; sign its next revision", held.id().code());
                is_partial = true;
                continue;
            };
            accounts.insert(account, keys.into_iter().map(|key| key.key.key().clone()).collect());
        }
        OrderedKeys { accounts, is_partial }
    }

    /// Whether the memory says that this very order holds.
    fn holds(&self, held: &SignedOrder, keys: &SshKeys) -> bool {
        let subject = keys.account.as_str().parse().ok();
        let state = subject.and_then(|subject| self.memory.held(OrderKind::SshKey, &subject));
        state.is_some_and(|(_, intent)| intent == held.id())
    }
}

/// The keys of an order, as they were signed.
fn read_keys(held: &SignedOrder) -> Option<SshKeys> {
    let intent = OrderHead::parse(&held.intent_json).ok()?;
    if intent.body_sha256 != Digest::of(held.body.as_bytes()) {
        return None;
    }
    match Body::parse(intent.kind, &held.body).ok()? {
        Body::SshKey(keys) => Some(keys),
        Body::Admit(_) | Body::ReleaseLapse(_) | Body::CloneDecision(_) | Body::RemoveIdentity(_) => None,
    }
}

fn keep_last<T>(list: &mut Vec<T>, most: usize) {
    let over = list.len().saturating_sub(most);
    list.drain(..over);
}

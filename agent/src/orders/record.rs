//! `orders.json`: what owners ordered, in one file that is replaced as a whole.
//!
//! It holds the memory of orders, the signed text of the states in force, what one-shot orders leave to do, and what has to be
//! told. One write remembers an order and makes it hold, so there is no moment in which a crash could lose one or do one
//! twice: what is left to do is done from this file by whoever starts next. The memory says which order holds for each
//! kind and subject; a text that it does not name counts for nothing.

use std::collections::BTreeSet;

use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, NODE_ORDERS_MAX, OUTCOMES_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::exchange::NodeOutcome;
use lucia_proto::orders::{
    Body, Decision, OrderCode, OrderHead, OrderId, OrderKind, OrderMemory, OrderRefusal, SignedOrder, Terms,
    VerifiedOrder,
};
use serde::{Deserialize, Serialize};

use super::carry::{Act, NotDone};
use crate::host::state::{State, StateError, StateFile};
use crate::host::status::ORDERS_SHOWN;

/// What cures a file that cannot be written.
pub const CURE: &str =
    "free space on the disk of /var/lib/lucia; the controller offers it again with the next heartbeat";

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

/// What an order that is done once leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OpenOrder {
    /// Which order.
    pub intent: OrderId,
    /// What is to be done.
    pub act: Act,
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
    schema_version: Version<2>,
    memory: OrderMemory,
    /// A record before this one was lost then: what was ordered before may be older than what held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_at: Option<UnixTime>,
    /// The order of each state in force.
    states: Vec<SignedOrder>,
    once: Vec<OpenOrder>,
    /// Carried out, and not told yet.
    untold: Vec<NodeOutcome>,
    /// The last that were carried out, oldest first.
    done: Vec<Done>,
}

/// Format 1, which knew the kinds by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RecordV1 {
    #[serde(rename = "schemaVersion")]
    _schema_version: Version<1>,
    memory: OrderMemory,
    #[serde(default)]
    lost_at: Option<UnixTime>,
    keys: Vec<SignedOrder>,
    #[serde(default)]
    leaving: Option<LeavingV1>,
    #[serde(default)]
    stopped: Option<StoppedV1>,
    untold: Vec<NodeOutcome>,
    done: Vec<Done>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeavingV1 {
    order: SignedOrder,
    wiping: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoppedV1 {
    intent: OrderId,
    decision: Decision,
}

impl From<RecordV1> for Record {
    fn from(old: RecordV1) -> Self {
        let act = |decision| match decision {
            Decision::Keep => Act::OtherGoesOn,
            Decision::Split => Act::NoneGoesOn,
        };
        let stopped = old.stopped.map(|old| OpenOrder { intent: old.intent, act: act(old.decision) });
        let leaving = old
            .leaving
            .map(|old| OpenOrder { intent: old.order.id(), act: if old.wiping { Act::Wipe } else { Act::Remove } });
        Self {
            states: old.keys,
            once: stopped.into_iter().chain(leaving).collect(),
            untold: old.untold,
            done: old.done,
            ..Self::new(old.memory, old.lost_at)
        }
    }
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
            states: Vec::new(),
            once: Vec::new(),
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
            Ok(Some(bytes)) => {
                let old = json::from_slice::<RecordV1>(&bytes, NODE_ORDERS_MAX, JSON_DEPTH_MAX).map(Self::from);
                match old.or_else(|_| json::from_slice(&bytes, NODE_ORDERS_MAX, JSON_DEPTH_MAX)) {
                    Ok(record) => Loaded::Held(Box::new(record)),
                    Err(error) => told(error.to_string()),
                }
            }
            Err(error) => told(crate::host::chain(&error)),
        }
    }

    /// Keeps it.
    ///
    /// # Errors
    /// [`StateError`]; the former one stands then, unless the disk is in doubt.
    pub fn write(&self, state: &State) -> Result<(), StateError> {
        state.replace_json(StateFile::Orders, self)
    }

    /// What was ordered before.
    #[must_use]
    pub const fn memory(&self) -> &OrderMemory {
        &self.memory
    }

    /// The record in which `verified` is remembered and holds, or is under way as it is planned.
    ///
    /// # Errors
    /// When it is not to be carried out after all.
    pub fn after(
        &self,
        signed: &SignedOrder,
        verified: VerifiedOrder,
        plan: impl FnOnce(&Body) -> Result<Option<Act>, NotDone>,
        at: UnixTime,
    ) -> Result<Self, Refused> {
        // The memory of one-shot orders begins anew by itself; of a state nobody knows any more what held.
        if let Some(lost) = self.lost_at.filter(|lost| verified.intent().issued_at < *lost) {
            return Err(OrderRefusal::BeforeMemory(lost).into());
        }
        let mut next = self.clone();
        let order = next.memory.remember(verified)?;
        let is_state = matches!(order.intent().terms, Terms::State { .. });
        match plan(order.body()) {
            // A state that is not in force is not remembered, so that it may come again.
            Err(why) if is_state => return Err(Refused { why, next: None }),
            Err(why) => {
                next.memory.note_refused(order.id(), order.intent(), why.code());
                return Err(Refused { why, next: Some(Box::new(next.fitting()?)) });
            }
            Ok(act) => next.once.extend(act.map(|act| OpenOrder { intent: order.id(), act })),
        }
        if is_state {
            next.states.push(signed.clone());
            let held: BTreeSet<_> = next.memory.states().collect();
            next.states.retain(|order| held.contains(&order.id()));
        }
        next.untold.push(NodeOutcome { intent: order.id(), refused: None });
        keep_last(&mut next.untold, OUTCOMES_MAX);
        next.done.push(Done { intent: order.id(), kind: order.intent().kind, at });
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
        let length = StateFile::Orders.text(&self).map_or(usize::MAX, |text| text.len());
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

    /// The order by which this instance ends, if one was given: nothing more is taken then.
    #[must_use]
    pub fn ending(&self) -> Option<OpenOrder> {
        self.once.first().copied()
    }

    /// The record from which the removal goes on; nothing where none is under way.
    #[must_use]
    pub fn wiping(&self) -> Option<Self> {
        let mut next = self.clone();
        let open = next.once.iter_mut().find(|open| matches!(open.act, Act::Remove | Act::Wipe))?;
        open.act = Act::Wipe;
        Some(next)
    }

    /// Whether a record before this one was lost.
    #[must_use]
    pub const fn is_after_loss(&self) -> bool {
        self.lost_at.is_some()
    }

    /// Every state in force, as it was signed; the order alone where its text cannot be read any more.
    pub fn states(&self) -> impl Iterator<Item = Result<Body, OrderId>> {
        self.memory.states().map(|id| {
            let order = self.states.iter().find(|order| order.id() == id);
            order.and_then(read).ok_or(id)
        })
    }
}

/// The body of an order, if it is the one that was signed.
fn read(order: &SignedOrder) -> Option<Body> {
    let intent = OrderHead::parse(&order.intent_json).ok()?;
    let is_signed = intent.body_sha256 == Digest::of(order.body.as_bytes());
    Body::parse(intent.kind, &order.body).ok().filter(|_| is_signed)
}

/// Drops the oldest of a list that is too long.
pub fn keep_last<T>(list: &mut Vec<T>, most: usize) {
    let over = list.len().saturating_sub(most);
    list.drain(..over);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    fn load(text: &str) -> Record {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        state.replace(StateFile::Orders, text.as_bytes()).unwrap();
        match Record::load(&state) {
            Loaded::Held(record) => *record,
            other => panic!("{other:?}"),
        }
    }

    // spec: OR-440
    #[test]
    fn the_first_format_is_read_and_the_second_written() {
        let at = "1970-01-01T00:00:00Z";
        let id = "0123456789abcdef".repeat(4);
        let text = r#"{"intentJson":"{}","body":"{}","signatures":[]}"#;
        let state = format!(r#"{{"kind":"ssh-key","subject":"alice","revision":4,"intent":"{id}"}}"#);
        let memory = format!(r#"{{"schemaVersion":1,"begunAt":"{at}","floor":"{at}","nonces":[],"states":[{state}]}}"#);
        let done = format!(r#"{{"intent":"{id}","kind":"ssh-key","at":"{at}"}}"#);
        let rest = format!(r#""untold":[{{"intent":"{id}"}}],"done":[{done}]"#);
        let empty = Digest::of(b"{}");
        for (old, once) in [
            (String::new(), String::new()),
            (
                format!(r#""stopped":{{"intent":"{id}","decision":"split"}},"#),
                format!(r#"{{"intent":"{id}","act":"none-goes-on"}}"#),
            ),
            (
                format!(r#""leaving":{{"order":{text},"wiping":true}},"#),
                format!(r#"{{"intent":"{empty}","act":"wipe"}}"#),
            ),
        ] {
            let first = load(&format!(
                r#"{{"schemaVersion":1,"memory":{memory},"lostAt":"{at}","keys":[{text}],{old}{rest}}}"#
            ));
            let second = format!(
                r#"{{"schemaVersion":2,"memory":{memory},"lostAt":"{at}","states":[{text}],"once":[{once}],{rest}}}"#
            );
            assert_eq!(first, load(&second));
            let (written, want) = (StateFile::Orders.text(&first).unwrap(), second.as_bytes());
            let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            assert_eq!(value(written.as_bytes()), value(want));
            assert!(first.states().all(|state| state.is_err()), "its text is not the one that was signed");
        }
    }
}

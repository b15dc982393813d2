//! What becomes of an owner's order: a pure function of the order, the ledger, the roster and what was ordered before.

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::freshness::OrderTime;
use lucia_proto::orders::{Actor, Body, Checker, Order, OrderCode, OrderHead, OrderMemory, OrderRefusal, SignedOrder};

use super::act;
use super::carry::{Acted, Facts};
use crate::chain;

/// What becomes of an order.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one match")]
pub enum Judged {
    /// It is carried out, once the memory is stored.
    Take {
        /// The order, remembered.
        order: Order,
        /// What is remembered from here on.
        memory: OrderMemory,
        /// What it does.
        acted: Acted,
    },
    /// It is not.
    Refuse {
        /// The code that travels.
        code: OrderCode,
        /// What stands in its way, for people.
        text: String,
        /// What is remembered of that, if anything.
        memory: Option<OrderMemory>,
    },
    /// It was refused before, and that stays.
    Again(OrderCode, String),
}

/// Decides about one order.
#[must_use]
pub fn judge(
    signed: &SignedOrder,
    intent: &OrderHead,
    facts: &Facts<'_>,
    memory: &OrderMemory,
    now: UnixTime,
) -> Judged {
    match check(signed, intent, facts, memory, now) {
        Err((refusal @ OrderRefusal::RefusedBefore(_), _)) => {
            // What stands in its way still is what people want to read.
            let body = Body::parse(intent.kind, &signed.body).ok();
            let obstacle = body.and_then(|body| act(intent, &body, facts, now).err());
            Judged::Again(refusal.code(), obstacle.map_or_else(|| chain(&refusal), |obstacle| chain(&obstacle)))
        }
        Err((refusal, memory)) => Judged::Refuse { code: refusal.code(), text: chain(&refusal), memory },
        Ok((order, mut memory)) => match act(order.intent(), order.body(), facts, now) {
            Ok(acted) => Judged::Take { order, memory, acted },
            Err(obstacle) => {
                let code = OrderCode::NotPossible;
                memory.note_refused(order.id(), order.intent(), code);
                Judged::Refuse { code, text: chain(&obstacle), memory: Some(memory) }
            }
        },
    }
}

/// Whether an order that was remembered earlier is still one of owners of the roster that is in force now: who left
/// meanwhile orders nothing more.
///
/// # Errors
/// Why it is none.
pub fn still_ordered(signed: &SignedOrder, facts: &Facts<'_>) -> Result<(), OrderRefusal> {
    signed.check_authority(Actor::Worker, &facts.config.intent_policy, facts.roster)
}

/// The order, if an owner gave it for now, and the memory that has it; else why not, and the memory that has that.
fn check(
    signed: &SignedOrder,
    intent: &OrderHead,
    facts: &Facts<'_>,
    memory: &OrderMemory,
    now: UnixTime,
) -> Result<(Order, OrderMemory), (OrderRefusal, Option<OrderMemory>)> {
    // The name that its owner read has to be the ledger's; of a node that the ledger does not have it is compared with
    // itself, and what is done then depends on the ledger all the same.
    let body = Body::parse(intent.kind, &signed.body).ok();
    let said = body.as_ref().and_then(Body::hostname);
    let of = |node: &NodeId| match facts.records.node(node) {
        Some(record) if body.as_ref().is_none_or(|body| body.new_key().is_none()) => {
            Some(record.names.hostname.clone())
        }
        Some(_) | None => said.cloned(),
    };
    let unfit = |field, rule| {
        let source = lucia_proto::base::bounded::OutOfBounds { field, rule };
        (OrderRefusal::DoesNotFit(source), None)
    };
    let node = intent.nodes.first().ok_or_else(|| unfit("nodes", "exactly one"))?;
    // A body that cannot be read is refused by the check, under any name.
    let hostname = of(node).or_else(|| "unknown".parse().ok()).ok_or_else(|| unfit("hostname", "a name"))?;
    let checker = Checker {
        actor: Actor::Worker,
        policy: &facts.config.intent_policy,
        fleet: &facts.roster.roster().fleet,
        node,
        hostname: &hostname,
        roster: facts.roster,
        bundle_version: facts.bundle_version,
        time: Some(OrderTime::at_worker(now, facts.bundle_version, facts.roster.version())),
        memory,
    };
    let mut next = memory.clone();
    let order = signed.check(&checker).and_then(|verified| next.remember(verified));
    order.map(|order| (order, next)).map_err(|refusal| {
        let memory = signed.remember_refused(&checker, &refusal);
        (refusal, memory)
    })
}

//! What becomes of an owner's order: a pure function of the order, the ledger, the roster and what was ordered before
//! (design.md O2). What it does is what the operator's commands do, by the same lines of the ledger.

pub mod kept;
#[cfg(test)]
mod tests;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::freshness::OrderTime;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{
    Actor, Admit, Body, Checker, Decision, Order, OrderCode, OrderHead, OrderMemory, OrderRefusal, ReleaseLapse,
    SignedOrder,
};
use thiserror::Error;

use crate::chain;
use crate::config::Config;
use crate::decide::{self, Refusal};
use crate::ledger::{NodeNames, NodeRecord, OrderEffect, Records};

/// All that a decision rests on besides the order.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the administrator decided.
    pub config: &'a Config,
    /// The worker's ledger.
    pub records: &'a Records,
    /// The roster in force.
    pub roster: &'a VerifiedRoster,
    /// The version of the bundle in force.
    pub bundle_version: u64,
}

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
        /// About which node.
        node: NodeNames,
        /// What it does.
        act: OrderEffect,
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

/// What stands in the way of an order that is right in itself.
#[derive(Debug, Error)]
pub enum Obstacle {
    /// The ledger has no such node.
    #[error("the worker's ledger has no node {0}; nothing was done")]
    Unknown(NodeId),
    /// The node was removed.
    #[error("{name} was removed and its key stays barred; install the machine anew with a new key")]
    Barred {
        /// Its name.
        name: Hostname,
    },
    /// The controller removed the node, and it is not decided yet.
    #[error(
        "{name} was removed by the controller and is suspended; on the worker's host: lucia-enrollment-worker resume {name}"
    )]
    Suspended {
        /// Its name.
        name: Hostname,
    },
    /// The node is in the ledger under another name.
    #[error("the worker's ledger has this node as {name}; a node keeps its name until it is renamed")]
    OtherName {
        /// The name there.
        name: Hostname,
    },
    /// It may not have the name.
    #[error("the name cannot be given")]
    Name(#[source] Refusal),
    /// The order speaks of another key.
    #[error("the worker's ledger has another key for {name}")]
    OtherKey {
        /// The node's name.
        name: Hostname,
    },
    /// The order speaks of another end.
    #[error(
        "{name}'s last certificate ends at {end}, and the order is about an end after that, or was given before it; draft it anew"
    )]
    OtherEnd {
        /// The node's name.
        name: Hostname,
        /// What the ledger has.
        end: UnixTime,
    },
    /// Nothing lapsed.
    #[error("{name} never had a certificate, or is within max-lapse and renews by itself; there is nothing to release")]
    NotLapsed {
        /// The node's name.
        name: Hostname,
    },
    /// Nodes carry it out, and not the worker.
    #[error("this is carried out by the node itself")]
    Elsewhere,
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
            Ok((node, act)) => Judged::Take { order, memory, node, act },
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

/// What an order does here, as the ledger stands.
///
/// # Errors
/// What stands in its way.
pub fn act(
    intent: &OrderHead,
    body: &Body,
    facts: &Facts<'_>,
    now: UnixTime,
) -> Result<(NodeNames, OrderEffect), Obstacle> {
    let node = intent.nodes.first().ok_or(Obstacle::Elsewhere)?;
    let known = || facts.records.node(node).ok_or_else(|| Obstacle::Unknown(node.clone()));
    match body {
        Body::Admit(body) => admit(node, body, facts, now),
        Body::ReleaseLapse(body) => release(known()?, body, intent.issued_at, facts.config, now),
        Body::CloneDecision(body) => Ok(match body.decision {
            Decision::Keep => (known()?.names.clone(), OrderEffect::Note),
            Decision::Split => bar(known()?),
        }),
        Body::RemoveIdentity(_) => Ok(bar(known()?)),
        Body::SshKey(_) => Err(Obstacle::Elsewhere),
    }
}

/// Lets a node in, under a name that is free or becomes so.
fn admit(node: &NodeId, body: &Admit, facts: &Facts<'_>, now: UnixTime) -> Result<(NodeNames, OrderEffect), Obstacle> {
    let Admit { fingerprint, hostname, replaces } = body.clone();
    if let Some(known) = facts.records.node(node) {
        let name = known.names.hostname.clone();
        return match (known.barred_at, known.suspended) {
            (Some(_), _) => Err(Obstacle::Barred { name }),
            (None, Some(_)) => Err(Obstacle::Suspended { name }),
            (None, None) if name != hostname => Err(Obstacle::OtherName { name }),
            // The operator was first.
            (None, None) => Ok((known.names.clone(), OrderEffect::Note)),
        };
    }
    if facts.records.is_full() {
        return Err(Obstacle::Name(Refusal::Full));
    }
    decide::free(facts.config, facts.records, node, &hostname, replaces.as_ref(), now).map_err(Obstacle::Name)?;
    Ok((NodeNames { node_id: node.clone(), fingerprint, hostname }, OrderEffect::Admit { replaces }))
}

/// The end that an owner is shown is of the last certificate that the node fetched. One that was signed for it since and
/// never fetched ended later, and it is the same lapse, as long as that one had ended as well when the order was given.
fn release(
    known: &NodeRecord,
    body: &ReleaseLapse,
    issued_at: UnixTime,
    config: &Config,
    now: UnixTime,
) -> Result<(NodeNames, OrderEffect), Obstacle> {
    let name = known.names.hostname.clone();
    if known.barred_at.is_some() {
        return Err(Obstacle::Barred { name });
    }
    if known.names.fingerprint != body.fingerprint {
        return Err(Obstacle::OtherKey { name });
    }
    let Some((serial, end)) = known.leaf.clone() else { return Err(Obstacle::NotLapsed { name }) };
    if body.ended_at > end || end > issued_at {
        return Err(Obstacle::OtherEnd { name, end });
    }
    if now.since(end) <= config.max_lapse {
        return Err(Obstacle::NotLapsed { name });
    }
    Ok((known.names.clone(), OrderEffect::Release { serial }))
}

fn bar(known: &NodeRecord) -> (NodeNames, OrderEffect) {
    let act = if known.barred_at.is_some() { OrderEffect::Note } else { OrderEffect::Bar };
    (known.names.clone(), act)
}

//! How the worker carries a kind of order out: a pure function of the order and the ledger.

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{OrderBody, OrderHead};
use thiserror::Error;

use crate::config::Config;
use crate::decide::Refusal;
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

/// What an order does here: a line of the ledger for it, and one before that where the node gets another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// The node, as the ledger has it before.
    pub node: NodeNames,
    /// Its new name.
    pub renamed: Option<Hostname>,
    /// What else comes of it.
    pub effect: OrderEffect,
}

impl From<(NodeNames, OrderEffect)> for Acted {
    fn from((node, effect): (NodeNames, OrderEffect)) -> Self {
        Self { node, renamed: None, effect }
    }
}

/// A kind that the worker carries out.
pub(super) trait Carry: OrderBody {
    /// What it does, as the ledger stands.
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, now: UnixTime) -> Result<Acted, Obstacle>;
}

/// The node that the order names.
pub(super) fn named(head: &OrderHead) -> Result<&NodeId, Obstacle> {
    head.nodes.first().ok_or(Obstacle::Elsewhere)
}

/// The same, as the ledger has it.
pub(super) fn known<'a>(head: &OrderHead, facts: &Facts<'a>) -> Result<&'a NodeRecord, Obstacle> {
    let node = named(head)?;
    facts.records.node(node).ok_or_else(|| Obstacle::Unknown(node.clone()))
}

/// Its key is barred for good.
pub(super) fn bar(known: &NodeRecord) -> Acted {
    let effect = if known.barred_at.is_some() { OrderEffect::Note } else { OrderEffect::Bar };
    (known.names.clone(), effect).into()
}

//! Where an order stands and whom it waits for: pure functions of the order, who is there, and the time.
//!
//! An order of a kind that the worker carries out goes to the worker first: what the worker refuses nobody else is
//! asked. Nodes come next. The controller itself keeps a clone as soon as the worker has noted it, so that the holder
//! who stays is served; it lets go of a node only after that node heard of its end, or the order's time is over. Of a split
//! two holders have to hear: it is offered for a while after the first one told.

use std::time::Duration;

use lucia_people::owner_api::DraftState;
use lucia_people::why::Machine;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{ORDER_LIFETIME_MAX, SPLIT_OFFERED};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::owner::{KeyUse, OwnerId, Role};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::orders::{Actor, Body, Effect, OrderCode, OrderHead, OrderId, OrderKind, OrderSignature, Terms};

use crate::store::drafts::DraftRow;

/// A draft that was read, and its file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: OrderId,
    pub(super) intent: OrderHead,
    pub(super) body: Body,
    pub(super) row: DraftRow,
}

/// Whether a refusal may be none at the next heartbeat, when what is missing has come.
pub(super) const fn is_retried(code: OrderCode) -> bool {
    matches!(code, OrderCode::NoFreshness | OrderCode::RosterBehind | OrderCode::BundleBehind)
}

/// Whether an outcome ends the matter for who told it.
pub(super) fn is_final(outcome: &Outcome) -> bool {
    outcome.refused.is_none_or(|code| !is_retried(code))
}

/// Whether it was carried out, now or before.
pub(super) fn is_done(outcome: &Outcome) -> bool {
    outcome.refused.is_none_or(OrderCode::is_repeat)
}

/// Whether a later order about the same ended it.
fn is_overtaken(outcome: &Outcome) -> bool {
    outcome.refused.is_some_and(OrderCode::is_overtaken)
}

/// The owners who signed so far.
pub(super) fn signers(row: &DraftRow) -> Vec<OwnerId> {
    row.signatures.iter().map(|signature| signature.owner.clone()).collect()
}

/// Whether everybody who signed may still order, by the key they signed with. The signatures themselves were verified when
/// they came; those who carry the order out refuse it whole when one of them counts no more, and so does this.
pub(super) fn in_force(signatures: &[OrderSignature], roster: &VerifiedRoster) -> Result<(), OrderCode> {
    signatures.iter().try_for_each(|signature| {
        let owner = roster.owner(&signature.owner).ok_or(OrderCode::OwnerUnknown)?;
        if owner.role < Role::Owner {
            return Err(OrderCode::NotAnOwner);
        }
        let has = |key_use| roster.key(&signature.owner, &signature.key, key_use).is_some();
        let held = has(KeyUse::OwnerKey) || has(KeyUse::OrderPasskey);
        held.then_some(()).ok_or(OrderCode::KeyUnknown)
    })
}

impl Entry {
    pub(super) const fn kind(&self) -> OrderKind {
        self.intent.kind
    }

    pub(super) fn has(&self, actor: Actor) -> bool {
        self.kind().actors().contains(&actor)
    }

    /// The one node of kinds that are about one.
    pub(super) fn node(&self) -> Option<&NodeId> {
        self.intent.nodes.first()
    }

    /// The last second in which it may be carried out; nothing for a state.
    pub(super) const fn not_after(&self) -> Option<UnixTime> {
        match self.intent.terms {
            Terms::Once { not_after, .. } => Some(not_after),
            Terms::State { .. } => None,
        }
    }

    /// Whether its time is over. A draft that nobody signed waits no longer than an order would.
    pub(super) fn is_over(&self, now: UnixTime) -> bool {
        self.not_after().is_some_and(|last| last < now)
            || (self.row.signed_at.is_none() && self.row.at.plus(ORDER_LIFETIME_MAX) < now)
    }

    pub(super) fn of_node(&self, node: &NodeId) -> Option<&Outcome> {
        self.row.nodes.iter().find(|outcome| outcome.node_id == *node)
    }

    /// Whether whoever comes after the worker may act.
    fn is_worker_done(&self) -> bool {
        !self.has(Actor::Worker) || self.row.worker.as_ref().is_some_and(is_done)
    }

    /// Whether somebody whose word ends it refused it.
    pub(super) fn is_stopped(&self) -> bool {
        let refused =
            |outcome: &Option<Outcome>| outcome.as_ref().is_some_and(|outcome| is_final(outcome) && !is_done(outcome));
        refused(&self.row.worker) || refused(&self.row.controller)
    }

    /// Whether it is to lie in the worker's queue.
    pub(super) fn waits_for_worker(&self, now: UnixTime) -> bool {
        self.row.signed_at.is_some()
            && self.has(Actor::Worker)
            && !self.row.worker.as_ref().is_some_and(is_final)
            && !self.is_stopped()
            && !self.is_over(now)
    }

    /// Whether it is to be handed to this node.
    pub(super) fn waits_for_node(&self, node: &NodeId, now: UnixTime) -> bool {
        self.row.signed_at.is_some()
            && self.has(Actor::Node)
            && self.intent.nodes.contains(node)
            && self.is_worker_done()
            && !self.is_stopped()
            && !self.of_node(node).is_some_and(is_final)
            && !self.is_over(now)
    }

    /// Whether the controller is to do its own part now.
    pub(super) fn waits_for_controller(&self, now: UnixTime, is_there: impl Fn(&NodeId) -> bool) -> bool {
        if self.row.signed_at.is_none()
            || !self.has(Actor::Controller)
            || self.row.controller.is_some()
            || !self.is_worker_done()
        {
            return false;
        }
        let Some(node) = self.node() else { return false };
        let heard = |offered: Duration| {
            let told = self.of_node(node).filter(|outcome| is_final(outcome));
            told.is_some_and(|outcome| now.since(outcome.at) >= offered) || self.is_over(now) || !is_there(node)
        };
        match self.body.effect() {
            Effect::Keeps(_) | Effect::Renames(_) => true,
            Effect::Ends => heard(SPLIT_OFFERED),
            Effect::Wipes => heard(Duration::ZERO),
            Effect::None | Effect::Replaces(_) => false,
        }
    }

    /// Whether it is ordered that the identity goes: then a node that is gone is what was ordered.
    fn is_an_end(&self) -> bool {
        self.body.effect().is_an_end()
    }

    /// Whether it is signed that the identity goes, and the node is to hear of it before the controller removes it.
    pub(super) fn is_ending(&self, now: UnixTime) -> bool {
        let is_open = self.row.signed_at.is_some() && self.row.controller.is_none();
        self.is_an_end() && is_open && !self.is_stopped() && !self.is_over(now)
    }

    /// Whether the worker barred this node's key by it.
    pub(super) fn is_the_end_of(&self, node: &NodeId) -> bool {
        let ends = match self.body.effect() {
            Effect::Replaces(replaced) => replaced == node,
            Effect::Ends | Effect::Wipes => self.node() == Some(node),
            Effect::None | Effect::Keeps(_) | Effect::Renames(_) => false,
        };
        ends && self.row.worker.as_ref().is_some_and(is_done)
    }

    /// What the machine of a node that ended by it has of its identity.
    pub(super) fn leaves(&self, node: &NodeId) -> Machine {
        match self.body.effect() {
            Effect::Wipes if self.of_node(node).is_some_and(is_done) => Machine::Wiped,
            Effect::Wipes => Machine::Unheard,
            Effect::None | Effect::Keeps(_) | Effect::Ends | Effect::Replaces(_) | Effect::Renames(_) => Machine::Kept,
        }
    }

    /// The nodes that were to carry it out, did not say that they did or why not, and hear of nothing any more.
    pub(super) fn gone(&self, is_there: impl Fn(&NodeId) -> bool) -> Vec<NodeId> {
        if !self.has(Actor::Node) || self.is_an_end() {
            return Vec::new();
        }
        let is_gone = |node: &&NodeId| !is_there(node) && self.of_node(node).is_none_or(|told| !is_final(told));
        self.intent.nodes.iter().filter(is_gone).cloned().collect()
    }

    /// Whether every node that it names is gone.
    pub(super) fn is_for_nobody(&self, is_there: impl Fn(&NodeId) -> bool) -> bool {
        let gone = self.gone(is_there).len();
        gone > 0 && gone == self.intent.nodes.len()
    }

    /// Where it stands.
    pub(super) fn state(&self, now: UnixTime, is_there: impl Fn(&NodeId) -> bool + Copy) -> DraftState {
        let nobody_left = self.is_for_nobody(is_there);
        if self.row.signed_at.is_none() {
            return match (self.is_over(now), nobody_left) {
                (true, _) => DraftState::Expired,
                // With one signature of two it was never given, and whoever reads on from the last order must not take it
                // for one that was.
                (false, true) if self.row.signatures.is_empty() => DraftState::NobodyLeft,
                (false, _) => DraftState::Drafted,
            };
        }
        let refused = |outcome: &Outcome| is_final(outcome) && !is_done(outcome) && !is_overtaken(outcome);
        if self.is_stopped() || self.row.nodes.iter().any(refused) {
            return DraftState::Refused;
        }
        if nobody_left {
            return DraftState::NobodyLeft;
        }
        let node_done = |node: &NodeId| self.of_node(node).is_some_and(is_final) || !is_there(node);
        let nodes_done = !self.has(Actor::Node) || self.intent.nodes.iter().all(node_done);
        let controller_done = !self.has(Actor::Controller) || self.row.controller.is_some();
        if self.is_worker_done() && nodes_done && controller_done {
            // Of those who have a later one instead nobody said that they carried this one out.
            if self.row.nodes.iter().any(is_overtaken) { DraftState::Replaced } else { DraftState::Done }
        } else if self.is_over(now) {
            DraftState::Expired
        } else {
            DraftState::Signed
        }
    }

    /// Whether nothing becomes of it any more, so that it may make room for others.
    pub(super) fn is_ended(&self, now: UnixTime, is_there: impl Fn(&NodeId) -> bool + Copy) -> bool {
        match self.state(now, is_there) {
            DraftState::Drafted | DraftState::Signed => false,
            DraftState::Done
            | DraftState::Expired
            | DraftState::Refused
            | DraftState::Replaced
            | DraftState::NobodyLeft => {
                !self.waits_for_worker(now)
                    && !self.waits_for_controller(now, is_there)
                    && !self.intent.nodes.iter().any(|node| is_there(node) && self.waits_for_node(node, now))
            }
        }
    }

    /// Why one more signature would change nothing: somebody refused it for another reason than that a second owner is
    /// missing, and there is nobody else who could still carry it out. One node's refusal is not the others'.
    pub(super) fn is_beyond_signing(&self, is_there: impl Fn(&NodeId) -> bool) -> Option<OrderCode> {
        let lacks = |outcome: &Outcome| outcome.refused == Some(OrderCode::SecondOwnerNeeded);
        let other = |outcome: &&Outcome| is_final(outcome) && !is_done(outcome) && !lacks(outcome);
        let stopped = self.row.worker.iter().chain(&self.row.controller).find(other);
        if let Some(outcome) = stopped {
            return outcome.refused;
        }
        let is_open = |node: &NodeId| is_there(node) && self.of_node(node).is_none_or(|of| lacks(of) || !is_final(of));
        let asks = self.row.worker.as_ref().is_some_and(lacks)
            || (self.has(Actor::Node) && self.intent.nodes.iter().any(is_open));
        self.row.nodes.iter().find(other).filter(|_| !asks).and_then(|outcome| outcome.refused)
    }

    /// Whether it was carried out by anybody.
    pub(super) fn is_begun(&self) -> bool {
        let done = |outcome: &Option<Outcome>| outcome.as_ref().is_some_and(is_done);
        done(&self.row.worker) || done(&self.row.controller) || self.row.nodes.iter().any(is_done)
    }

    /// What those said who refused it or carried it out.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        let row = &self.row;
        // The controller's own part is told where it went wrong; else it is the end of what the others did.
        let controller = row.controller.iter().filter(|outcome| !is_done(outcome));
        row.worker.iter().chain(&row.nodes).chain(controller).cloned().collect()
    }

    /// Notes an outcome of a node, in place of a former one. Whether that says anything new.
    pub(super) fn note_node(&mut self, outcome: Outcome) -> bool {
        let former = self.row.nodes.iter_mut().find(|former| former.node_id == outcome.node_id);
        match former {
            // Its own word that it was carried out is the truth.
            Some(former) if is_overtaken(former) && is_done(&outcome) => {
                *former = outcome;
                true
            }
            Some(former) if is_final(former) || former.refused == outcome.refused => false,
            Some(former) => {
                *former = outcome;
                true
            }
            None => {
                self.row.nodes.push(outcome);
                true
            }
        }
    }

    /// Where `end_by` ended it, at a node that may have carried it out before.
    pub(super) fn overtaken(&self) -> impl Iterator<Item = (NodeId, OrderId)> {
        let ended = self.row.nodes.iter().filter(|outcome| is_overtaken(outcome));
        ended.map(|outcome| (outcome.node_id.clone(), self.id))
    }

    /// Whether two orders say how one and the same thing is, and this one is the earlier of them.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        match (&self.intent.terms, &other.intent.terms) {
            (Terms::State { subject, revision }, Terms::State { subject: of, revision: later }) => {
                self.kind() == other.kind() && subject == of && revision < later
            }
            (Terms::Once { .. }, _) | (_, Terms::Once { .. }) => false,
        }
    }

    /// Ends it at the nodes that both name, since `later` holds there. Whether that changed anything.
    pub(super) fn end_by(&mut self, later: &Self, now: UnixTime) -> bool {
        let mut changed = false;
        for node in self.intent.nodes.clone() {
            if later.intent.nodes.contains(&node) && !self.of_node(&node).is_some_and(is_final) {
                let refused = Some(OrderCode::OlderRevision);
                changed |= self.note_node(Outcome { node_id: node, at: now, refused });
            }
        }
        changed
    }
}

//! What heartbeats carry of orders, in memory alone (design.md O4): what each node is to be told, and what it told.
//!
//! A heartbeat looks up and takes note; it waits for no disk. What it left is written, and what lies in files is put in
//! here, by the ticks (`carry`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::json;
use lucia_proto::base::limits::{
    ANSWER_MAX, FRESHNESS_ASKED_INTERVAL, FRESHNESS_KEPT_MAX, FRESHNESS_QUESTION, ORDERS_TOLD_MAX,
};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::agent::Carries;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::exchange::{NodeOutcome, OrdersReply, OrdersReport};
use lucia_proto::orders::freshness::SignedFreshness;
use lucia_proto::orders::{Effect, OrderCode, OrderId, OrderKind, SignedOrder};
use lucia_proto::pki::key::VerificationCode;

use super::progress::{in_force, is_retried};
use crate::parts::fleet::CallerKind;
use crate::parts::people::Trust;

/// Between two reasons of one node why it does not carry out an order yet: each is a write.
const RETRIED_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of a reply without orders, and of what JSON puts around those.
const REPLY_BASE: usize = 1024;

/// An order as it is handed out.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: OrderId,
    kind: OrderKind,
    /// Whether it decides about an identity that was seen twice.
    is_about_instances: bool,
    pub(super) not_after: Option<UnixTime>,
    pub(super) signed: SignedOrder,
    /// Whether no holder of the identity goes on by it: every one of them is to hear it, whoever told first.
    pub(super) splits: bool,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(
        (id, kind): (OrderId, OrderKind),
        effect: Effect<'_>,
        not_after: Option<UnixTime>,
        signed: SignedOrder,
    ) -> Self {
        let bytes = signed.to_bytes().map_or(usize::MAX, |bytes| bytes.len());
        Self { id, kind, is_about_instances: effect.is_about_instances(), not_after, signed, splits: false, bytes }
    }

    fn is_over(&self, now: UnixTime) -> bool {
        self.not_after.is_some_and(|last| last < now)
    }
}

/// A question that a holder of a node's identity asked and that is not answered. Nothing but its age or a later one of the
/// same holder ends it: whoever asks nothing, or something else, may be another holder.
#[derive(Clone, Debug)]
struct Question {
    holder: Option<StartId>,
    nonce: Nonce,
    at: Duration,
    is_written: bool,
}

/// What the worker answered to one, and when that came.
#[derive(Clone, Debug)]
struct Answered {
    nonce: Nonce,
    at: Duration,
    answer: SignedFreshness,
}

/// What a node told about an order, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutcomeNote {
    pub(super) node: NodeId,
    pub(super) outcome: NodeOutcome,
    pub(super) at: UnixTime,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Relay {
    trust: Option<Trust>,
    /// Bytes of bundle and roster as they travel.
    trust_bytes: (usize, usize),
    /// For each node, the oldest first.
    waiting: BTreeMap<NodeId, Vec<Arc<Waiting>>>,
    /// What was decided about a copied identity, for holders that did not hear it yet: that another one is kept, or none.
    decisions: BTreeMap<NodeId, Arc<Waiting>>,
    /// OrderBook that a later one of the same subject ended here while the node may have carried them out already.
    overtaken: BTreeSet<(NodeId, OrderId)>,
    told: Vec<OutcomeNote>,
    /// What was told last where it is asked again, and when, by time since boot: the same answer again is no news, and
    /// another one is written once a minute, however often a node changes its mind.
    retried: BTreeMap<(NodeId, OrderId), (OrderCode, Duration)>,
    /// One for each holder of an identity, a few at most; the worker is asked one of them at a time.
    questions: BTreeMap<NodeId, Vec<Question>>,
    /// When a question of a node was written last: each is a write, whoever asks.
    written: BTreeMap<NodeId, Duration>,
    /// Nodes of which a question is answered or over.
    withdrawn: Vec<NodeId>,
    answers: BTreeMap<NodeId, Vec<Answered>>,
    /// When one was last handed out, for who asks why a node takes no order.
    handed: BTreeMap<NodeId, UnixTime>,
}

impl Relay {
    /// What nodes are to have of bundle and roster.
    pub(super) fn set_trust(&mut self, trust: Option<Trust>) {
        let bytes = |text: Result<String, json::JsonError>| text.map_or(usize::MAX, |text| text.len());
        self.trust_bytes = trust.as_ref().map_or((0, 0), |trust| {
            let roster = trust.roster.as_ref().map_or(0, |roster| bytes(json::to_string(roster.signed())));
            (bytes(json::to_string(trust.bundle.signed())), roster)
        });
        self.trust = trust;
    }

    /// The same, unless it is what they have.
    pub(super) fn follow(&mut self, trust: Option<Trust>) {
        let is_same = match (&self.trust, &trust) {
            (Some(held), Some(trust)) => held.is_same(trust),
            (held, trust) => held.is_none() && trust.is_none(),
        };
        if !is_same {
            self.set_trust(trust);
        }
    }

    /// Which orders wait, for each node the oldest first, and what was decided about copied identities.
    pub(super) fn set_orders(
        &mut self,
        waiting: BTreeMap<NodeId, Vec<Arc<Waiting>>>,
        decisions: BTreeMap<NodeId, Arc<Waiting>>,
    ) {
        let waits = |(node, intent): &(NodeId, OrderId)| {
            waiting.get(node).is_some_and(|orders| orders.iter().any(|order| order.id == *intent))
        };
        self.retried.retain(|key, _| waits(key));
        (self.waiting, self.decisions) = (waiting, decisions);
        // What was told and is not written yet waits no more.
        for told in self.told.iter().filter(|told| !told.outcome.refused.is_some_and(is_retried)) {
            if let Some(orders) = self.waiting.get_mut(&told.node) {
                orders.retain(|order| order.id != told.outcome.intent);
            }
        }
    }

    /// Of which orders a node is still heard, if it says that it carried them out.
    pub(super) fn set_overtaken(&mut self, overtaken: BTreeSet<(NodeId, OrderId)>) {
        self.overtaken = overtaken;
    }

    /// Takes note of what a node says, and answers it.
    pub(super) fn hear(
        &mut self,
        node: &NodeId,
        report: &OrdersReport,
        (holder, standing, carries): (Option<&StartId>, CallerKind, Carries),
        now: UnixTime,
        since_boot: Duration,
    ) -> OrdersReply {
        if standing != CallerKind::Refused {
            report.outcomes.iter().for_each(|outcome| self.note(node, outcome, now, since_boot));
            report.freshness.iter().for_each(|nonce| self.note_question(node, holder, nonce, since_boot));
        }
        let reply = self.reply(node, report, (standing, carries), now);
        if reply.freshness.is_some() && standing != CallerKind::Refused {
            self.handed.insert(node.clone(), now);
        }
        reply
    }

    /// When an answer how late it is was last handed to this node, since the start.
    pub(super) fn handed_at(&self, node: &NodeId) -> Option<UnixTime> {
        self.handed.get(node).copied()
    }

    fn note(&mut self, node: &NodeId, outcome: &NodeOutcome, now: UnixTime, since_boot: Duration) {
        let done = outcome.refused.is_none_or(OrderCode::is_repeat);
        if done && self.overtaken.remove(&(node.clone(), outcome.intent)) {
            self.told.push(OutcomeNote { node: node.clone(), outcome: outcome.clone(), at: now });
            return;
        }
        let Some(orders) = self.waiting.get_mut(node) else { return };
        if !orders.iter().any(|order| order.id == outcome.intent) {
            return;
        }
        match outcome.refused.filter(|code| is_retried(*code)) {
            Some(code) => {
                let key = (node.clone(), outcome.intent);
                let is_early = |at: Duration| since_boot < at.saturating_add(RETRIED_INTERVAL);
                if self.retried.get(&key).is_some_and(|(last, at)| *last == code || is_early(*at)) {
                    return;
                }
                self.retried.insert(key, (code, since_boot));
            }
            None => orders.retain(|order| order.id != outcome.intent),
        }
        self.told.push(OutcomeNote { node: node.clone(), outcome: outcome.clone(), at: now });
    }

    fn note_question(&mut self, node: &NodeId, holder: Option<&StartId>, nonce: &Nonce, since_boot: Duration) {
        if self.answer(node, nonce).is_some() {
            return;
        }
        let question = Question { holder: holder.cloned(), nonce: nonce.clone(), at: since_boot, is_written: false };
        let asked = self.questions.entry(node.clone()).or_default();
        let has_room = asked.len() < FRESHNESS_KEPT_MAX;
        match asked.iter_mut().find(|asked| asked.holder.as_ref() == holder) {
            Some(asked) if asked.nonce != *nonce && since_boot >= asked.at.saturating_add(FRESHNESS_ASKED_INTERVAL) => {
                *asked = question;
            }
            // The same question, or another one too soon.
            Some(_) => {}
            None if has_room => asked.push(question),
            // One more than there is room for asks again at its next heartbeat, until one of the others has its answer.
            None => {}
        }
    }

    fn answer(&self, node: &NodeId, nonce: &Nonce) -> Option<&SignedFreshness> {
        self.answers.get(node)?.iter().find(|kept| kept.nonce == *nonce).map(|kept| &kept.answer)
    }

    /// What comes first is what the rest is checked with; what has no room comes with the next heartbeat.
    fn reply(&self, node: &NodeId, report: &OrdersReport, caller: (CallerKind, Carries), now: UnixTime) -> OrdersReply {
        let mut room = ANSWER_MAX - REPLY_BASE;
        let mut fits = |bytes: usize| {
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits
        };
        let mut reply = OrdersReply::default();
        if let Some(trust) = &self.trust {
            if trust.bundle.bundle().version > report.bundle_version && fits(self.trust_bytes.0) {
                reply.bundle = Some(trust.bundle.signed().clone());
            }
            if let Some(roster) = &trust.roster
                && roster.version() > report.roster_version
                && fits(self.trust_bytes.1)
            {
                reply.roster = Some(roster.signed().clone());
            }
        }
        let answer = report.freshness.as_ref().and_then(|nonce| self.answer(node, nonce));
        if let Some(answer) = answer
            && json::to_string(answer).is_ok_and(|text| fits(text.len()))
        {
            reply.freshness = Some(answer.clone());
        }
        if let Some(order) = self.next_order(node, caller, now)
            && fits(order.bytes)
        {
            reply.intent = Some(Box::new(order.signed.clone()));
        }
        reply
    }

    /// Whether it is handed out: in time, and by people who may order now. Who left since the ticks put it here orders
    /// nothing more.
    fn is_given(&self, order: &Waiting, now: UnixTime) -> bool {
        let roster = self.trust.as_ref().and_then(|trust| trust.roster.as_ref());
        !order.is_over(now) && roster.is_some_and(|roster| in_force(&order.signed.signatures, roster).is_ok())
    }

    /// One of a kind that its agent did not name waits until that is updated, and holds up none behind it.
    fn next_order(&self, node: &NodeId, (standing, carries): (CallerKind, Carries), now: UnixTime) -> Option<&Waiting> {
        let is_due = |order: &&Arc<Waiting>| carries.has(order.kind) && self.is_given(order, now);
        let mut waiting = self.waiting.get(node).into_iter().flatten().filter(is_due);
        let decision = self.decisions.get(node).filter(|order| self.is_given(order, now));
        let split = decision.filter(|order| order.splits);
        let order = match standing {
            CallerKind::Free => split.or_else(|| waiting.next()),
            CallerKind::Frozen => split.or_else(|| waiting.find(|order| order.is_about_instances)),
            CallerKind::Refused => decision,
        };
        order.map(AsRef::as_ref)
    }

    /// The orders that this node is handed with its next heartbeats.
    pub(super) fn waiting_for(&self, node: &NodeId, now: UnixTime) -> Vec<VerificationCode> {
        let waiting = self.waiting.get(node).into_iter().flatten().filter(|order| self.is_given(order, now));
        waiting.map(|order| order.id.code()).take(ORDERS_TOLD_MAX).collect()
    }

    /// What was told since this was last asked.
    pub(super) fn take_told(&mut self) -> Vec<OutcomeNote> {
        std::mem::take(&mut self.told)
    }

    /// What could not be written is told again.
    pub(super) fn put_back(&mut self, told: Vec<OutcomeNote>) {
        self.told.splice(0..0, told);
    }

    /// Questions that are to be written now, at most `most`: those that wait longest, one of each node, and none while
    /// another one of it waits for its answer.
    pub(super) fn unwritten(&self, most: usize, since_boot: Duration) -> Vec<(NodeId, Nonce)> {
        let is_early = |node: &NodeId| {
            let written = self.written.get(node);
            written.is_some_and(|at| since_boot < at.saturating_add(FRESHNESS_ASKED_INTERVAL))
        };
        let next = |(node, asked): (&NodeId, &Vec<Question>)| {
            let is_free = !asked.iter().any(|question| question.is_written) && !is_early(node);
            let oldest = asked.iter().filter(|_| is_free).min_by_key(|question| question.at)?;
            Some((oldest.at, node.clone(), oldest.nonce.clone()))
        };
        let mut open: Vec<_> = self.questions.iter().filter_map(next).collect();
        open.sort_by_key(|(at, _, _)| *at);
        open.into_iter().take(most).map(|(_, node, nonce)| (node, nonce)).collect()
    }

    /// This question was written.
    pub(super) fn written(&mut self, node: &NodeId, nonce: &Nonce, since_boot: Duration) {
        let asked = self.questions.get_mut(node).into_iter().flatten();
        asked.filter(|question| question.nonce == *nonce).for_each(|question| question.is_written = true);
        self.written.insert(node.clone(), since_boot);
    }

    /// Nodes whose question is to be taken back.
    pub(super) fn take_withdrawn(&mut self) -> Vec<NodeId> {
        let mut withdrawn = std::mem::take(&mut self.withdrawn);
        // Another question takes the place of the former in the same file.
        withdrawn.retain(|node| !self.questions.contains_key(node));
        withdrawn
    }

    /// Written questions without their answer.
    pub(super) fn unanswered(&self) -> Vec<(NodeId, Nonce)> {
        let of = |(node, asked): (&NodeId, &Vec<Question>)| {
            let written = asked.iter().find(|question| question.is_written)?;
            Some((node.clone(), written.nonce.clone()))
        };
        self.questions.iter().filter_map(of).collect()
    }

    /// The worker's answer to a question.
    pub(super) fn answered(&mut self, node: NodeId, nonce: Nonce, answer: SignedFreshness, since_boot: Duration) {
        self.withdrawn.push(node.clone());
        self.end(&node, |question| question.nonce == nonce);
        let kept = self.answers.entry(node).or_default();
        kept.push(Answered { nonce, at: since_boot, answer });
        if kept.len() > FRESHNESS_KEPT_MAX {
            kept.remove(0);
        }
    }

    /// Forgets those questions of a node. Whether there were any.
    fn end(&mut self, node: &NodeId, ends: impl Fn(&Question) -> bool) -> bool {
        let Some(asked) = self.questions.get_mut(node) else { return false };
        let before = asked.len();
        asked.retain(|question| !ends(question));
        let ended = asked.len() < before;
        if asked.is_empty() {
            self.questions.remove(node);
        }
        ended
    }

    /// Forgets nodes that are gone, and questions and answers that nobody asks for any more: a node asks the same one for
    /// no longer than this.
    pub(super) fn retain(&mut self, since_boot: Duration, is_there: impl Fn(&NodeId) -> bool) {
        let is_over = |at: Duration| since_boot >= at.saturating_add(FRESHNESS_QUESTION);
        let nodes: Vec<NodeId> = self.questions.keys().cloned().collect();
        for node in nodes {
            let is_gone = !is_there(&node);
            if self.end(&node, |question| is_gone || is_over(question.at)) {
                self.withdrawn.push(node);
            }
        }
        self.written.retain(|_, at| since_boot < at.saturating_add(FRESHNESS_ASKED_INTERVAL));
        self.handed.retain(|node, _| is_there(node));
        self.answers.retain(|node, kept| {
            kept.retain(|answered| !is_over(answered.at));
            is_there(node) && !kept.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;

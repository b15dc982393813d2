//! What heartbeats carry of orders, in memory alone (design.md O4): what each node is to be told, and what it told.
//!
//! A heartbeat looks up and takes note; it waits for no disk. What it left is written, and what lies in files is put in
//! here, by the ticks (`carry`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::challenge::Nonce;
use lucia_proto::freshness::SignedFreshness;
use lucia_proto::ids::NodeId;
use lucia_proto::intent::{IntentCode, IntentId, IntentKind, SignedIntent};
use lucia_proto::json;
use lucia_proto::limits::{ANSWER_MAX, FRESHNESS_ASKED_INTERVAL, FRESHNESS_KEPT_MAX, FRESHNESS_QUESTION};
use lucia_proto::orders::{NodeOutcome, OrdersReply, OrdersReport};
use lucia_proto::time::UnixTime;

use super::progress::is_retried;
use super::trust::Trust;
use crate::store::ssh_keys::Delivered;

/// Bytes of a reply with neither keys nor orders, and of what JSON puts around those.
const REPLY_BASE: usize = 1024;

/// An order as it is handed out.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: IntentId,
    pub(super) kind: IntentKind,
    pub(super) not_after: Option<UnixTime>,
    pub(super) signed: SignedIntent,
    /// Whether no holder of the identity goes on by it: every one of them is to hear it, whoever told first.
    pub(super) splits: bool,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(id: IntentId, kind: IntentKind, not_after: Option<UnixTime>, signed: SignedIntent) -> Self {
        let bytes = signed.to_bytes().map_or(usize::MAX, |bytes| bytes.len());
        Self { id, kind, not_after, signed, splits: false, bytes }
    }

    fn is_over(&self, now: UnixTime) -> bool {
        self.not_after.is_some_and(|last| last < now)
    }
}

/// Whether keys and orders have room in one reply.
pub(in crate::state) fn fit_together(keys: &Delivered, orders: Option<&OrdersReply>) -> bool {
    let Some(orders) = orders else { return true };
    let length = |text: Result<String, json::JsonError>| text.map_or(usize::MAX, |text| text.len());
    let both = length(json::to_string(keys)).saturating_add(length(json::to_string(orders)));
    both.saturating_add(REPLY_BASE) <= ANSWER_MAX
}

/// Which holder of an identity calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::state) enum Standing {
    /// The only one there is.
    Free,
    /// One of those it is frozen for: it is told of the decision and of nothing else.
    Frozen,
    /// One that was not kept: the same, and neither its word nor its questions are the node's.
    Refused,
}

/// A question that a node asked. Nothing but its age or a later one ends it: whoever asks nothing may be another holder
/// of the same identity.
#[derive(Clone, Debug)]
struct Question {
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
pub(super) struct Told {
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
    told: Vec<Told>,
    /// What was told last where it is asked again: the same answer again is no news.
    retried: BTreeMap<(NodeId, IntentId), IntentCode>,
    questions: BTreeMap<NodeId, Question>,
    /// Nodes whose question is answered or over.
    withdrawn: Vec<NodeId>,
    answers: BTreeMap<NodeId, Vec<Answered>>,
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

    /// Which orders wait, for each node the oldest first, and what was decided about copied identities.
    pub(super) fn set_orders(
        &mut self,
        waiting: BTreeMap<NodeId, Vec<Arc<Waiting>>>,
        decisions: BTreeMap<NodeId, Arc<Waiting>>,
    ) {
        let waits = |(node, intent): &(NodeId, IntentId)| {
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

    /// Takes note of what a node says, and answers it.
    pub(super) fn hear(
        &mut self,
        node: &NodeId,
        report: &OrdersReport,
        standing: Standing,
        now: UnixTime,
        since_boot: Duration,
    ) -> OrdersReply {
        if standing != Standing::Refused {
            report.outcomes.iter().for_each(|outcome| self.note(node, outcome, now));
            report.freshness.iter().for_each(|nonce| self.note_question(node, nonce, since_boot));
        }
        self.reply(node, report, standing, now)
    }

    fn note(&mut self, node: &NodeId, outcome: &NodeOutcome, now: UnixTime) {
        let Some(orders) = self.waiting.get_mut(node) else { return };
        if !orders.iter().any(|order| order.id == outcome.intent) {
            return;
        }
        match outcome.refused.filter(|code| is_retried(*code)) {
            Some(code) => {
                if self.retried.insert((node.clone(), outcome.intent), code) == Some(code) {
                    return;
                }
            }
            None => orders.retain(|order| order.id != outcome.intent),
        }
        self.told.push(Told { node: node.clone(), outcome: outcome.clone(), at: now });
    }

    fn note_question(&mut self, node: &NodeId, nonce: &Nonce, since_boot: Duration) {
        if self.answer(node, nonce).is_some() {
            return;
        }
        let asked = self.questions.get(node);
        let is_new = asked.is_none_or(|asked| {
            asked.nonce != *nonce && since_boot >= asked.at.saturating_add(FRESHNESS_ASKED_INTERVAL)
        });
        if is_new {
            let question = Question { nonce: nonce.clone(), at: since_boot, is_written: false };
            self.questions.insert(node.clone(), question);
        }
    }

    fn answer(&self, node: &NodeId, nonce: &Nonce) -> Option<&SignedFreshness> {
        self.answers.get(node)?.iter().find(|kept| kept.nonce == *nonce).map(|kept| &kept.answer)
    }

    /// What comes first is what the rest is checked with; what has no room comes with the next heartbeat.
    fn reply(&self, node: &NodeId, report: &OrdersReport, standing: Standing, now: UnixTime) -> OrdersReply {
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
        if let Some(order) = self.next_order(node, standing, now)
            && fits(order.bytes)
        {
            reply.intent = Some(Box::new(order.signed.clone()));
        }
        reply
    }

    fn next_order(&self, node: &NodeId, standing: Standing, now: UnixTime) -> Option<&Waiting> {
        let mut waiting = self.waiting.get(node).into_iter().flatten().filter(|order| !order.is_over(now));
        let decision = self.decisions.get(node).filter(|order| !order.is_over(now));
        let split = decision.filter(|order| order.splits);
        let order = match standing {
            Standing::Free => split.or_else(|| waiting.next()),
            Standing::Frozen => split.or_else(|| waiting.find(|order| order.kind == IntentKind::CloneDecision)),
            Standing::Refused => decision,
        };
        order.map(AsRef::as_ref)
    }

    /// What was told since this was last asked.
    pub(super) fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// What could not be written is told again.
    pub(super) fn put_back(&mut self, told: Vec<Told>) {
        self.told.splice(0..0, told);
    }

    /// Questions that are not written yet, at most `most`: those that wait longest.
    pub(super) fn unwritten(&self, most: usize) -> Vec<(NodeId, Nonce)> {
        let mut open: Vec<_> = self.questions.iter().filter(|(_, question)| !question.is_written).collect();
        open.sort_by_key(|(_, question)| question.at);
        open.into_iter().take(most).map(|(node, question)| (node.clone(), question.nonce.clone())).collect()
    }

    /// This question was written.
    pub(super) fn written(&mut self, node: &NodeId, nonce: &Nonce) {
        if let Some(question) = self.questions.get_mut(node).filter(|question| question.nonce == *nonce) {
            question.is_written = true;
        }
    }

    /// Nodes whose question is to be taken back.
    pub(super) fn take_withdrawn(&mut self) -> Vec<NodeId> {
        let mut withdrawn = std::mem::take(&mut self.withdrawn);
        // A later question takes the place of the former in the same file.
        let waits = |node: &NodeId, question: &Question| self.answer(node, &question.nonce).is_none();
        withdrawn.retain(|node| !self.questions.get(node).is_some_and(|question| waits(node, question)));
        withdrawn
    }

    /// Written questions without their answer.
    pub(super) fn unanswered(&self) -> Vec<(NodeId, Nonce)> {
        let open = |(node, question): &(&NodeId, &Question)| {
            question.is_written && self.answer(node, &question.nonce).is_none()
        };
        let open = self.questions.iter().filter(open);
        open.map(|(node, question)| (node.clone(), question.nonce.clone())).collect()
    }

    /// The worker's answer to a question.
    pub(super) fn answered(&mut self, node: NodeId, nonce: Nonce, answer: SignedFreshness, since_boot: Duration) {
        self.withdrawn.push(node.clone());
        let kept = self.answers.entry(node).or_default();
        kept.push(Answered { nonce, at: since_boot, answer });
        if kept.len() > FRESHNESS_KEPT_MAX {
            kept.remove(0);
        }
    }

    /// Forgets nodes that are gone, and questions and answers that nobody asks for any more: a node asks the same one for
    /// no longer than this.
    pub(super) fn retain(&mut self, since_boot: Duration, is_there: impl Fn(&NodeId) -> bool) {
        let is_over = |at: Duration| since_boot >= at.saturating_add(FRESHNESS_QUESTION);
        let ends = |(node, question): &(&NodeId, &Question)| is_over(question.at) || !is_there(node);
        let ended: Vec<NodeId> = self.questions.iter().filter(ends).map(|(node, _)| node.clone()).collect();
        for node in ended {
            let ended = self.questions.remove(&node);
            if ended.is_some_and(|question| self.answer(&node, &question.nonce).is_none()) {
                self.withdrawn.push(node);
            }
        }
        self.answers.retain(|node, kept| {
            kept.retain(|answered| !is_over(answered.at));
            is_there(node) && !kept.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::freshness::FreshnessAnswer;
    use lucia_proto::test_support::OrderWorld;

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    // spec: CO-19
    #[test]
    fn what_has_no_room_comes_with_the_next_heartbeat_and_keys_make_way() {
        let world = OrderWorld::new(NOW);
        let mut relay = Relay::default();
        let (bundle, roster) = (Arc::new(world.bundle.clone()), Some(Arc::new(world.roster.clone())));
        relay.set_trust(Some(Trust { bundle, roster }));
        let mut signed = world.order(IntentKind::SshKey);
        signed.body = "x".repeat(61 * 1024);
        let order = Arc::new(Waiting::new(signed.id(), IntentKind::SshKey, None, signed));
        let node = &world.node.node_id;
        relay.set_orders([(node.clone(), vec![order])].into(), BTreeMap::new());
        let holding = |bundle_version, roster_version| {
            let report = OrdersReport { bundle_version, roster_version, freshness: None, outcomes: Vec::new() };
            (bundle_version, report)
        };
        let hour = Duration::from_secs(3600);
        for ((_, report), want) in [
            (holding(0, 0), (true, true, false)),
            (holding(3, 0), (false, true, false)),
            (holding(3, 5), (false, false, true)),
        ] {
            let reply = relay.hear(node, &report, Standing::Free, NOW, hour);
            assert_eq!((reply.bundle.is_some(), reply.roster.is_some(), reply.intent.is_some()), want);
            assert!(json::to_string(&reply).unwrap().len() + REPLY_BASE <= ANSWER_MAX);
            let keys = |count| Delivered::from([("alice".parse().unwrap(), vec!["k".repeat(80); count])]);
            assert!(fit_together(&keys(4), Some(&OrdersReply::default())) && fit_together(&keys(4000), None));
            assert!(!fit_together(&keys(800), Some(&reply)), "{want:?}");
        }
        // Once its time is over an order is handed out no more, whatever the ticks have come to.
        let mut signed = world.order(IntentKind::RemoveIdentity);
        signed.body.clear();
        let order = Arc::new(Waiting::new(signed.id(), IntentKind::RemoveIdentity, Some(NOW), signed));
        relay.set_orders([(node.clone(), vec![order])].into(), BTreeMap::new());
        let report = holding(3, 5).1;
        assert!(relay.hear(node, &report, Standing::Free, NOW, hour).intent.is_some());
        assert!(relay.hear(node, &report, Standing::Free, NOW.plus(Duration::from_secs(1)), hour).intent.is_none());
    }
    /// What a node says that asks this, or nothing.
    fn asking(nonce: Option<&Nonce>) -> OrdersReport {
        OrdersReport { bundle_version: 9, roster_version: 9, freshness: nonce.cloned(), outcomes: Vec::new() }
    }

    fn nonces() -> [Nonce; 3] {
        [1, 2, 3].map(|byte| Nonce::from_bytes(&[byte; 32]))
    }

    // spec: CO-20
    #[test]
    fn no_holder_of_an_identity_takes_the_others_question_or_answer_away() {
        let world = OrderWorld::new(NOW);
        let node = &world.node.node_id;
        let [first, second, third] = nonces();
        let mut relay = Relay::default();
        let at = Duration::from_secs(3600);
        let interval = FRESHNESS_ASKED_INTERVAL;
        let hear = |relay: &mut Relay, nonce: Option<&Nonce>, standing, at| {
            relay.hear(node, &asking(nonce), standing, NOW, at).freshness
        };
        hear(&mut relay, Some(&first), Standing::Frozen, at);
        // The other holder asks nothing, and then something: the question stays, and so does what was heard when.
        for later in [Duration::ZERO, interval / 2] {
            hear(&mut relay, None, Standing::Frozen, at + later);
            hear(&mut relay, Some(&second), Standing::Frozen, at + later);
            assert_eq!(relay.unwritten(8), [(node.clone(), first.clone())], "{later:?}");
        }
        relay.written(node, &first);
        hear(&mut relay, None, Standing::Free, at + interval / 2);
        assert_eq!((relay.unanswered(), relay.take_withdrawn()), (vec![(node.clone(), first.clone())], vec![]));
        // Whoever was not kept asks nothing.
        hear(&mut relay, Some(&third), Standing::Refused, at + interval);
        assert_eq!(relay.unwritten(8), []);
        let answer = FreshnessAnswer {
            fleet: world.fleet,
            node_id: node.clone(),
            nonce: first.clone(),
            bundle_version: 3,
            roster_version: 5,
            time: NOW,
        };
        let answer = SignedFreshness::sign(&answer, &world.ca.worker_key).unwrap();
        relay.answered(node.clone(), first.clone(), answer.clone(), at + interval);
        assert_eq!(relay.take_withdrawn(), std::slice::from_ref(node), "what is answered lies there no more");
        hear(&mut relay, None, Standing::Frozen, at + interval);
        assert_eq!(hear(&mut relay, Some(&first), Standing::Frozen, at + interval), Some(answer.clone()));
        hear(&mut relay, Some(&second), Standing::Frozen, at + interval);
        assert_eq!(relay.unwritten(8), [(node.clone(), second.clone())]);
        assert_eq!(hear(&mut relay, Some(&first), Standing::Frozen, at + interval), Some(answer));
        // Age ends them.
        let end = at + interval + FRESHNESS_QUESTION;
        relay.retain(end - Duration::from_nanos(1), |_| true);
        assert_eq!((relay.questions.len(), relay.answers.len()), (1, 1));
        relay.retain(end, |_| true);
        assert_eq!((relay.questions.len(), relay.answers.len()), (0, 0));
        assert_eq!(relay.take_withdrawn(), std::slice::from_ref(node));
    }

    // spec: CO-20
    #[test]
    fn whose_question_waits_longest_is_written_first() {
        let nodes: Vec<NodeId> = (0..9).map(|n| format!("{n:032x}").parse().unwrap()).collect();
        let (honest, bad) = nodes.split_last().unwrap();
        let [first, second, _] = nonces();
        let mut relay = Relay::default();
        let hear = |relay: &mut Relay, node: &NodeId, nonce: &Nonce, at| {
            relay.hear(node, &asking(Some(nonce)), Standing::Free, NOW, at);
        };
        let at = Duration::from_secs(3600);
        hear(&mut relay, honest, &first, at);
        // They ask another one as soon as they may.
        for (nonce, at) in [(&first, at), (&second, at + FRESHNESS_ASKED_INTERVAL)] {
            bad.iter().for_each(|node| hear(&mut relay, node, nonce, at));
        }
        assert_eq!(relay.unwritten(8)[0], (honest.clone(), first));
        assert_eq!(relay.unwritten(8).len(), 8);
    }
}

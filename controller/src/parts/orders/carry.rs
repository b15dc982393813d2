//! From files to what heartbeats carry, and back: a little at each tick (design.md O2, O4).
//!
//! An order is on the disk before anybody is asked to carry it out, and what became of it before anybody is told. All of
//! it can be done again after a crash: whoever carries orders out remembers them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::host_api::{KeepForm, OrdersHeld, RenameForm};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::files::owner_queue::{FreshnessFile, OrderAnswerFile, OwnerFile};
use lucia_proto::node::agent::Carries;
use lucia_proto::orders::exchange::{OrdersReply, OrdersReport};
use lucia_proto::orders::freshness::{FreshnessRequest, OrderTime};
use lucia_proto::orders::{Actor, Checker, Effect, OrderCode, OrderId, OrderMemory, OrderPolicy};

use super::Orders;
use super::book::{OrderBook, signed};
use super::progress::{Entry, in_force, is_done, is_final};
use super::relay::{OutcomeNote, Waiting};
use crate::lock::lock;
use crate::parts::fleet::CallerKind;
use crate::refusal::Refusal;

/// Questions of nodes that are written at one tick: each waits for the disk.
const QUESTIONS_PER_TICK: usize = 8;

impl Orders {
    /// What a heartbeat is answered about orders; nothing to an agent that does not know of them.
    pub(crate) fn relay(
        &self,
        node: &NodeId,
        report: Option<&OrdersReport>,
        by: (Option<&StartId>, CallerKind, Carries),
        now: UnixTime,
    ) -> Option<OrdersReply> {
        let since_boot = self.clock.since_boot();
        let reply = lock(&self.relay).hear(node, report?, by, now, since_boot);
        (!reply.is_empty()).then_some(reply)
    }

    /// How a node stands to orders that said this last.
    pub(crate) fn held(&self, node: &NodeId, report: &OrdersReport) -> OrdersHeld {
        let roster = self.people.verified_roster();
        let relay = lock(&self.relay);
        OrdersHeld {
            bundle_version: report.bundle_version,
            roster_version: report.roster_version,
            roster_newest: roster.map_or(0, |roster| roster.version()),
            asks: report.freshness.is_some(),
            answered_at: relay.handed_at(node),
            waiting: relay.waiting_for(node, self.clock.now()),
        }
    }

    /// What the ticks do about orders.
    pub(super) fn follow_orders(&self) {
        let now = self.clock.now();
        // What was done before its owner left is heard first.
        let done = self
            .write_told()
            .and_then(|()| self.follow_worker_of_orders(now))
            .and_then(|()| self.drop_leavers(now))
            .and_then(|()| self.stop_orders(now))
            .and_then(|()| self.act_on_orders(now));
        if let Err(refusal) = done.and_then(|()| self.follow_questions()) {
            tracing::warn!(code = refusal.code.as_str(), "orders wait: {refusal}");
        }
    }

    /// Writes what nodes told: each order once, whoever told of it.
    fn write_told(&self) -> Result<(), Refusal> {
        let told = lock(&self.relay).take_told();
        if told.is_empty() {
            return Ok(());
        }
        let mut by_order: BTreeMap<OrderId, Vec<OutcomeNote>> = BTreeMap::new();
        for one in told {
            by_order.entry(one.outcome.intent).or_default().push(one);
        }
        let mut orders = lock(&self.book);
        while let Some((id, told)) = by_order.pop_first() {
            let Some(entry) = orders.get(&id) else { continue };
            let mut next = entry.clone();
            let outcome =
                |one: &OutcomeNote| Outcome { node_id: one.node.clone(), at: one.at, refused: one.outcome.refused };
            let (mut news, mut changed) = (Vec::new(), false);
            for outcome in told.iter().map(outcome) {
                // Why a node waits may change for as long as it likes; in the audit is the first reason and the end.
                let is_line = is_final(&outcome) || next.of_node(&outcome.node_id).is_none();
                if next.note_node(outcome.clone()) {
                    changed = true;
                    news.extend(is_line.then_some(outcome));
                }
            }
            if !changed {
                continue;
            }
            if let Err(refusal) = self.settle(&mut orders, next, &news, Actor::Node) {
                let rest = told.into_iter().chain(by_order.into_values().flatten());
                lock(&self.relay).put_back(rest.collect());
                return Err(refusal);
            }
        }
        self.index_orders(&orders);
        Ok(())
    }

    /// Writes an order with what became of it, and notes that.
    fn settle(&self, orders: &mut OrderBook, next: Entry, news: &[Outcome], by: Actor) -> Result<(), Refusal> {
        let (id, kind) = (next.id, next.kind().as_str());
        orders.write(next)?;
        for outcome in news {
            let result = outcome.refused.map_or("done", OrderCode::as_str);
            tracing::info!(intent = %id, kind, node = %outcome.node_id, by = by.as_str(), result, "an order was answered");
        }
        let note = |outcome: &Outcome| {
            let actor = match by {
                Actor::Node => AuditActor::Node(outcome.node_id.clone()),
                Actor::Worker => AuditActor::Worker,
                Actor::Controller => AuditActor::Controller,
            };
            let (node, intent) = (Some(outcome.node_id.clone()), Some(id));
            let note = AuditEntry::new(self.clock.now(), actor, Act::IntentSettled);
            AuditEntry { node, intent, intent_refused: outcome.refused, ..note }
        };
        self.audit.note(news.iter().map(note).collect())
    }

    /// Keeps requests and answers of the worker in step with the orders that wait for it.
    fn follow_worker_of_orders(&self, now: UnixTime) -> Result<(), Refusal> {
        let mut orders = lock(&self.book);
        let waiting: BTreeSet<OrderId> =
            orders.all().filter(|entry| entry.waits_for_worker(now)).map(|entry| entry.id).collect();
        let queue = &self.queue;
        let mut asked = lock(&self.asked);
        let roster = self.people.verified_roster();
        let is_in_force =
            |entry: &&Entry| roster.as_ref().is_some_and(|roster| in_force(&entry.row.signatures, roster).is_ok());
        for id in waiting.difference(&asked.clone()) {
            if let Some(entry) = orders.get(id).filter(is_in_force) {
                let bytes = signed(entry).to_bytes().map_err(Refusal::persistence)?;
                queue.ask(&OwnerFile::OrderHead(*id), &bytes)?;
                asked.insert(*id);
            }
        }
        let mut answered = Vec::new();
        if !waiting.is_empty()
            && let Ok(Some(answers)) = queue.answers()
        {
            let there = answers.list();
            for id in &waiting {
                let file = OwnerFile::OrderHead(*id);
                if !there.contains(&file) {
                    continue;
                }
                let read = answers
                    .read(&file.name(), OrderAnswerFile::MAX)
                    .map(|bytes| bytes.and_then(|bytes| OrderAnswerFile::from_bytes(&bytes).ok()));
                match (read, orders.get(id)) {
                    (Ok(Some(answer)), Some(entry)) if is_answer(&answer, entry) => answered.push((*id, answer)),
                    (read, _) => tracing::debug!(intent = %id, ?read, "the worker's answer to an order is none yet"),
                }
            }
        }
        let mut changed = !answered.is_empty();
        for (id, answer) in answered {
            let Some(entry) = orders.get(&id) else { continue };
            if !answer.message.as_str().is_empty() {
                tracing::info!(intent = %id, "the worker about an order: {}", shown(answer.message.as_str()));
            }
            let mut next = entry.clone();
            next.row.worker = Some(answer.outcome.clone());
            next.row.former = None;
            self.settle(&mut orders, next, std::slice::from_ref(&answer.outcome), Actor::Worker)?;
        }
        // What does not wait any more does not lie there either.
        for id in asked.clone() {
            if !orders.get(&id).is_some_and(|entry| entry.waits_for_worker(now)) {
                queue.withdraw(&OwnerFile::OrderHead(id))?;
                asked.remove(&id);
                changed = true;
            }
        }
        if changed {
            self.index_orders(&orders);
        }
        Ok(())
    }

    /// Stops what somebody ordered who may order no more: nobody else is asked, and it says why.
    fn stop_orders(&self, now: UnixTime) -> Result<(), Refusal> {
        let Some(roster) = self.people.verified_roster() else { return Ok(()) };
        let mut orders = lock(&self.book);
        let stopped: Vec<(Entry, OrderCode)> = orders
            .all()
            .filter(|entry| entry.row.signed_at.is_some() && !entry.is_stopped())
            .filter_map(|entry| Some((entry, in_force(&entry.row.signatures, &roster).err()?)))
            .filter(|(entry, _)| !entry.is_ended(now, |node| self.fleet.is_there(node)))
            .map(|(entry, code)| (entry.clone(), code))
            .collect();
        let is_news = !stopped.is_empty();
        let mut all = Ok(());
        for (mut entry, code) in stopped {
            let (id, Some(node_id)) = (entry.id, entry.node().cloned()) else { continue };
            let outcome = Outcome { node_id, at: now, refused: Some(code) };
            entry.row.controller = Some(outcome.clone());
            let settled = self.settle(&mut orders, entry, std::slice::from_ref(&outcome), Actor::Controller);
            all = settled.and_then(|()| self.withdraw_order(&id));
            if all.is_err() {
                break;
            }
        }
        // Once for all of them, whatever came between: each is every order that waits, written anew.
        if is_news {
            self.index_orders(&orders);
        }
        all
    }

    /// Does the controller's own part of orders that the worker carried out.
    fn act_on_orders(&self, now: UnixTime) -> Result<(), Refusal> {
        let mut orders = lock(&self.book);
        let due = |entry: &&Entry| entry.waits_for_controller(now, |node| self.fleet.is_there(node));
        let due: Vec<Entry> = orders.all().filter(due).cloned().collect();
        for mut entry in due {
            let Some(outcome) = self.act(&entry, now) else { continue };
            entry.row.controller = Some(outcome.clone());
            let settled = self.settle(&mut orders, entry, std::slice::from_ref(&outcome), Actor::Controller);
            self.index_orders(&orders);
            settled?;
        }
        Ok(())
    }

    /// Checks an order as the one who carries it out here, and does so; nothing when it has to wait.
    fn act(&self, entry: &Entry, now: UnixTime) -> Option<Outcome> {
        let node = entry.node()?;
        let outcome = |refused| Some(Outcome { node_id: node.clone(), at: now, refused });
        let Some(hostname) = self.journal.read().device(node).and_then(|device| device.hostname.clone()) else {
            // Somebody else was quicker: what was ordered is so.
            return outcome(None);
        };
        let trust = self.people.trust()?;
        let roster = trust.roster?;
        let bundle_version = trust.bundle.bundle().version;
        // When the worker carried it out it was in time, whatever it is by now.
        let at = entry.row.worker.as_ref().map_or(now, |outcome| outcome.at.min(now));
        let checker = Checker {
            actor: Actor::Controller,
            policy: &OrderPolicy::allow_all(),
            fleet: &self.verifier.fleet(),
            node,
            hostname: &hostname,
            roster: &roster,
            bundle_version,
            time: Some(OrderTime::at_worker(at, bundle_version, roster.version())),
            // What was carried out here is remembered by the order's own file.
            memory: &OrderMemory::begin(UnixTime::EPOCH),
        };
        if let Err(refusal) = signed(entry).check(&checker) {
            return outcome(Some(refusal.code()));
        }
        let actor = roster.owner(&entry.intent.owner).map(|owner| format!("owner:{}", owner.name))?;
        let done = match entry.body.effect() {
            Effect::Keeps(Some(start)) => self.fleet.keep_clone(node, &KeepForm { start_id: start.clone() }, &actor),
            Effect::Keeps(None) => return outcome(Some(OrderCode::Malformed)),
            Effect::Ends => match self.enrollment.split_clone(node, &actor) {
                // Its key is barred all the same.
                Err(refusal) if refusal.code == Code::NotFrozen => self.enrollment.remove(node, &actor),
                done => done,
            },
            Effect::Wipes => self.enrollment.remove(node, &actor),
            Effect::Renames(name) => self.enrollment.rename(node, &RenameForm { hostname: name.clone() }, &actor),
            Effect::None | Effect::Replaces(_) => return outcome(Some(OrderCode::KindElsewhere)),
        };
        let Err(refusal) = done else { return outcome(None) };
        let code = refusal.code;
        tracing::warn!(intent = %entry.id, code = code.as_str(), "the controller about an order: {refusal}");
        if code == Code::PersistenceFailed {
            return None;
        }
        // Whatever else is in its way is no fault of who signed: there is no such holder, or nothing is frozen any more.
        outcome(match code {
            Code::UnknownNode => None,
            Code::NotFrozen => Some(OrderCode::AlreadyDone),
            // The machine calls itself otherwise by now, or another one has the name.
            Code::InvalidOnboardingRequest | Code::HostnameInUse => Some(OrderCode::NotPossible),
            _ => Some(OrderCode::Malformed),
        })
    }

    /// Passes nodes' questions on to the worker, and its answers back.
    fn follow_questions(&self) -> Result<(), Refusal> {
        let since_boot = self.clock.since_boot();
        let (unwritten, unanswered, withdrawn) = {
            let mut relay = lock(&self.relay);
            relay.retain(since_boot, |node| self.fleet.is_there(node));
            (relay.unwritten(QUESTIONS_PER_TICK, since_boot), relay.unanswered(), relay.take_withdrawn())
        };
        if unwritten.is_empty() && unanswered.is_empty() && withdrawn.is_empty() {
            return Ok(());
        }
        let queue = &self.queue;
        for node in withdrawn {
            queue.withdraw(&OwnerFile::Freshness(node))?;
        }
        for (node, nonce) in unwritten {
            let request = FreshnessRequest { schema_version: Version, node_id: node.clone(), nonce: nonce.clone() };
            let bytes = request.to_bytes().map_err(Refusal::persistence)?;
            queue.ask(&OwnerFile::Freshness(node.clone()), &bytes)?;
            lock(&self.relay).written(&node, &nonce, since_boot);
        }
        let Ok(Some(answers)) = queue.answers() else { return Ok(()) };
        let there = if unanswered.is_empty() { BTreeSet::new() } else { answers.list() };
        for (node, nonce) in unanswered {
            let file = OwnerFile::Freshness(node.clone());
            if !there.contains(&file) {
                continue;
            }
            let bytes = answers.read(&file.name(), FreshnessFile::MAX).ok().flatten();
            if let Some(answer) = bytes.and_then(|bytes| FreshnessFile::from_bytes(&bytes).ok())
                && answer.nonce == nonce
            {
                lock(&self.relay).answered(node, nonce, answer.answer, since_boot);
            }
        }
        Ok(())
    }

    /// What follows from one order's having been signed: earlier ones of the same subject end, and the worker is asked.
    pub(super) fn carry_one(&self, orders: &mut OrderBook, id: &OrderId, now: UnixTime) {
        let done = self.end_earlier(orders, id, now).and_then(|()| {
            let Some(entry) = orders.get(id).filter(|entry| entry.waits_for_worker(now)) else { return Ok(()) };
            let bytes = signed(entry).to_bytes().map_err(Refusal::persistence)?;
            self.queue.ask(&OwnerFile::OrderHead(*id), &bytes)?;
            lock(&self.asked).insert(*id);
            Ok(())
        });
        if let Err(refusal) = done {
            tracing::warn!(intent = %id, "an order waits for the next tick: {refusal}");
        }
        self.index_orders(orders);
    }

    /// Of two orders about one subject the later revision holds, whichever was signed first.
    fn end_earlier(&self, orders: &mut OrderBook, id: &OrderId, now: UnixTime) -> Result<(), Refusal> {
        let is_order = |entry: &&Entry| entry.row.signed_at.is_some();
        let Some(one) = orders.get(id).filter(is_order).cloned() else { return Ok(()) };
        let pairs: Vec<(Entry, Entry)> = orders
            .all()
            .filter(is_order)
            .filter_map(|other| match (other.is_before(&one), one.is_before(other)) {
                (true, _) => Some((other.clone(), one.clone())),
                (_, true) => Some((one.clone(), other.clone())),
                (false, false) => None,
            })
            .collect();
        for (earlier, later) in pairs {
            let Some(mut earlier) = orders.get(&earlier.id).cloned() else { continue };
            if earlier.end_by(&later, now) {
                orders.write(earlier)?;
            }
        }
        Ok(())
    }

    /// Takes an order back from where the worker would find it.
    pub(super) fn withdraw_order(&self, id: &OrderId) -> Result<(), Refusal> {
        self.queue.withdraw(&OwnerFile::OrderHead(*id))?;
        lock(&self.asked).remove(id);
        Ok(())
    }

    /// Puts into memory what waits for nodes.
    pub(super) fn index_orders(&self, orders: &OrderBook) {
        // Every heartbeat waits for the relay: what takes long is done before.
        let now = self.clock.now();
        let Index { waiting, decisions } = index(orders, now);
        let overtaken = orders.all().flat_map(Entry::overtaken).collect();
        let ends = orders.all().filter(|entry| entry.is_ending(now));
        let leaving = ends.filter_map(|entry| entry.node().cloned()).collect();
        self.fleet.set_leaving(leaving);
        let mut relay = lock(&self.relay);
        relay.set_orders(waiting, decisions);
        relay.set_overtaken(overtaken);
    }
}

/// Whether this is the worker's answer to this order, as it is signed now.
fn is_answer(answer: &OrderAnswerFile, entry: &Entry) -> bool {
    answer.intent == entry.id
        && entry.intent.nodes.contains(&answer.outcome.node_id)
        && entry.row.former.as_ref() != Some(&answer.outcome)
}

/// What nodes are to be handed.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// For each node, the oldest first.
    pub(super) waiting: BTreeMap<NodeId, Vec<Arc<Waiting>>>,
    /// What was decided about a copied identity, for holders that did not hear it yet: that another one is kept, or none.
    pub(super) decisions: BTreeMap<NodeId, Arc<Waiting>>,
}

/// Which orders wait for which nodes.
pub(super) fn index(orders: &OrderBook, now: UnixTime) -> Index {
    let mut entries: Vec<&Entry> =
        orders.all().filter(|entry| entry.row.signed_at.is_some() && entry.has(Actor::Node)).collect();
    entries.sort_by_key(|entry| (entry.row.at, entry.id));
    let mut index = Index::default();
    for entry in entries {
        let nodes: Vec<&NodeId> = entry.intent.nodes.iter().filter(|node| entry.waits_for_node(node, now)).collect();
        let effect = entry.body.effect();
        // What the controller itself could not carry out, or somebody ordered who left, keeps nothing else from the node.
        let decides = effect.is_about_instances()
            && entry.row.worker.as_ref().is_some_and(is_done)
            && !entry.is_over(now)
            && !entry.is_stopped();
        if nodes.is_empty() && !decides {
            continue;
        }
        let mut order = Waiting::new((entry.id, entry.kind()), effect, entry.not_after(), signed(entry));
        order.splits = decides && effect.is_an_end();
        let order = Arc::new(order);
        if let Some(node) = entry.node().filter(|_| decides) {
            index.decisions.insert(node.clone(), Arc::clone(&order));
        }
        for node in nodes {
            index.waiting.entry(node.clone()).or_default().push(Arc::clone(&order));
        }
    }
    index
}

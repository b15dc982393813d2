//! Who may order this node, what they ordered, and what became of it (design.md O2 to O5).
//!
//! | module | holds |
//! |---|---|
//! | [`policy`] | what may be ordered here at all, as this machine's own administrator says |
//! | [`held`] | the newest roster |
//! | [`offer`] | what a heartbeat's reply brings, each part by itself |
//!
//! The controller carries all of it and is believed in nothing: a bundle is the root's, a roster and an answer how late it
//! is are a worker's of the bundle, an order is an owner's of the roster. A part that is refused changes nothing and costs no
//! other. An order is on the disk, remembered and holding, before anything is done about it.

pub mod held;
pub mod offer;
pub mod policy;

use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::OUTCOMES_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::exchange::{NodeOutcome, OrdersReport};
use lucia_proto::orders::freshness::{Freshness, FreshnessError, SignedFreshness};
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::{SignedRoster, VerifiedRoster};
use lucia_proto::orders::{Actor, Checker, OrderHead, OrderId, OrderPolicy, OrderRefusal, SignedOrder};
use lucia_proto::pki::bundle::{self, SignedBundle, VerifiedBundle};
use lucia_proto::pki::chain::Root as FleetRoot;

use self::held::HeldRoster;
use self::offer::{Note, Offer, OfferError};
use self::policy::RuleInForce;
use crate::host::root::Root;
use crate::host::state::{State, StateError, StateFile};
use crate::host::status::{ORDERS_SHOWN, OrderSeen, OwnersStatus};
use crate::keys::OrderedKeys;
use crate::orders;
use crate::orders::carry::{Act, Facts, NotDone};
use crate::orders::clone_decision::stopped_by;
use crate::orders::record::{Loaded, Record, Refused, keep_last};

/// Tries to say a last word before the identity is removed.
const FAREWELLS: u32 = 5;

/// Why the daemon ends by an owner's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// This holder of the identity stopped for good.
    Stopped(String),
    /// The identity is to be removed now.
    Remove,
}

/// What is held of owners, and the door for what comes.
#[derive(Debug)]
pub struct Owners {
    root: Root,
    fleet_root: FleetRoot,
    fleet: Digest,
    node_id: NodeId,
    bundle: Option<VerifiedBundle>,
    roster: HeldRoster,
    /// None: it was lost, and begins anew once it is known how late it is.
    record: Option<Record>,
    /// Whether the record has a file.
    is_kept: bool,
    freshness: Freshness,
    answered_at: Option<UnixTime>,
    /// Orders that were refused since the start, oldest first.
    refused: Vec<(OrderId, OrderSeen)>,
    /// Refusals that were not told yet. Not on the disk: whoever sends such an order again is told again.
    untold: Vec<NodeOutcome>,
    keys: Arc<OrderedKeys>,
    farewells: u32,
}

impl Owners {
    /// What is on the disk, held against the newest bundle. What cannot be read is told in the log.
    #[must_use]
    pub fn open(
        state: &State,
        root: &Root,
        fleet_root: FleetRoot,
        node_id: NodeId,
        bundle: Option<VerifiedBundle>,
    ) -> Self {
        let on_disk = HeldRoster::load(state);
        let loaded = Record::load(state);
        let is_kept = !matches!(loaded, Loaded::Missing);
        let record = match loaded {
            Loaded::Held(record) => Some(*record),
            Loaded::Missing if on_disk.is_none() => Some(Record::first()),
            Loaded::Missing | Loaded::Broken => {
                tracing::warn!("what owners ordered before is not known here any more: orders from before are refused");
                None
            }
        };
        let mut owners = Self {
            root: root.clone(),
            fleet: fleet_root.sha256(),
            fleet_root,
            node_id,
            bundle: None,
            roster: on_disk.unwrap_or_default(),
            record,
            is_kept,
            freshness: Freshness::default(),
            answered_at: None,
            refused: Vec::new(),
            untold: Vec::new(),
            keys: Arc::new(OrderedKeys::unknown()),
            farewells: 0,
        };
        if let Some(bundle) = bundle {
            owners.hold(bundle);
        }
        owners.gather_keys();
        owners
    }

    /// The newest bundle.
    #[must_use]
    pub const fn bundle(&self) -> Option<&VerifiedBundle> {
        self.bundle.as_ref()
    }

    /// What owners ordered to be in the files of keys.
    #[must_use]
    pub fn keys(&self) -> Arc<OrderedKeys> {
        Arc::clone(&self.keys)
    }

    /// Whether random bytes are needed for the next report.
    #[must_use]
    pub fn asks(&self, since_boot: Duration) -> bool {
        self.freshness.is_due(since_boot)
    }

    /// What the next heartbeat says. `random` was drawn for it, where it asks.
    #[must_use]
    pub fn report(&mut self, random: Option<&[u8; 32]>, since_boot: Duration) -> OrdersReport {
        let question = random.and_then(|random| self.freshness.ask(&self.node_id, random, since_boot));
        let done = self.record.as_ref().map_or(&[][..], Record::untold);
        let news = self.untold.iter().filter(|outcome| done.iter().all(|done| done.intent != outcome.intent));
        OrdersReport {
            bundle_version: self.bundle.as_ref().map_or(0, |bundle| bundle.bundle().version),
            // One that is not believed is asked for again: whoever is a worker now signed it anew.
            roster_version: self.roster.roster().map_or(0, VerifiedRoster::version),
            freshness: question.map(|question| question.nonce),
            outcomes: done.iter().chain(news).take(OUTCOMES_MAX).cloned().collect(),
        }
    }

    /// A reply to this report came.
    ///
    /// # Errors
    /// [`StateError`]: it is told once more.
    pub fn told(&mut self, state: &State, report: &OrdersReport) -> Result<(), StateError> {
        self.untold.retain(|outcome| !report.outcomes.contains(outcome));
        let next = self.record.as_ref().and_then(|record| record.told(&report.outcomes));
        next.map_or(Ok(()), |next| self.keep(state, next))
    }

    /// What the enrolment answer brought; the identity has kept its bundle.
    ///
    /// # Errors
    /// [`StateError`]; the next reply or start brings the rest.
    pub fn answered(
        &mut self,
        state: &State,
        bundle: Option<&VerifiedBundle>,
        roster: Option<VerifiedRoster>,
    ) -> Result<(), StateError> {
        match (&self.bundle, bundle) {
            (Some(held), Some(new)) if held.bundle().version > new.bundle().version => {
                // A reply brought a newer one while the answer was on its way.
                let held = held.clone();
                write_bundle(state, &held)?;
            }
            (_, Some(new)) => self.hold(new.clone()),
            (_, None) => {}
        }
        let (Some(roster), Some(bundle)) = (roster, &self.bundle) else { return Ok(()) };
        // It was checked with the answer's own bundle, which may be the older one: its worker may be retired by now.
        let roster = roster.signed().verify(bundle, &self.fleet);
        match roster.and_then(|roster| self.roster.with(roster, bundle)) {
            Ok(Some(next)) => self.hold_roster(state, next),
            Ok(None) => Ok(()),
            Err(error) => {
                // An answer that was given once is given again: an old roster in it is no error.
                tracing::info!("the roster of the enrolment answer is passed over: {error}");
                Ok(())
            }
        }
    }

    /// Takes what a reply brought: bundle, roster, how late it is, an order, in this order and each by itself.
    ///
    /// # Errors
    /// [`StateError`] when nobody knows what the disk holds; whatever else fails is told in the notes.
    pub fn take(&mut self, state: &State, offer: Offer, me: Facts<'_>) -> Result<Vec<Note>, StateError> {
        let Offer { bundle, roster, freshness, order } = offer;
        let mut notes = Vec::new();
        let mut note = |call, done: Result<(), OfferError>| match done {
            Err(OfferError::State(error)) if error.is_doubtful() => Err(error),
            done => {
                notes.push(Note { call, refused: done.err() });
                Ok(())
            }
        };
        note("bundle", bundle.map_or(Ok(()), |bundle| self.take_bundle(state, &bundle?)))?;
        note("roster", roster.map_or(Ok(()), |roster| self.take_roster(state, &roster?)))?;
        note("freshness", freshness.map_or(Ok(()), |answer| self.take_freshness(state, &answer?, me)))?;
        note("orders", order.map_or(Ok(()), |order| self.take_order(state, &order?, me)))?;
        Ok(notes)
    }

    fn take_bundle(&mut self, state: &State, signed: &SignedBundle) -> Result<(), OfferError> {
        let new = signed.verify(&self.fleet_root).and_then(|new| bundle::accept(self.bundle.as_ref(), new));
        let new = new.map_err(|error| OfferError::Refused("bundle", error.into()))?;
        if self.bundle.as_ref() != Some(&new) {
            write_bundle(state, &new)?;
            tracing::info!("bundle {} is held", new.bundle().version);
            self.hold(new);
        }
        Ok(())
    }

    fn take_roster(&mut self, state: &State, signed: &SignedRoster) -> Result<(), OfferError> {
        let bundle = self.bundle.as_ref().ok_or(OfferError::NoBundle)?;
        let new = signed.verify(bundle, &self.fleet).and_then(|new| self.roster.with(new, bundle));
        match new.map_err(|error| OfferError::Refused("roster", error.into()))? {
            Some(next) => Ok(self.hold_roster(state, next)?),
            None => Ok(()),
        }
    }

    fn take_freshness(&mut self, state: &State, signed: &SignedFreshness, me: Facts<'_>) -> Result<(), OfferError> {
        let bundle = self.bundle.as_ref().ok_or(OfferError::NoBundle)?;
        match self.freshness.take(signed, bundle, &self.fleet, &self.node_id) {
            Ok(()) => {}
            // The answer to the last question, once more: it was taken.
            Err(FreshnessError::NotAsked) => return Ok(()),
            Err(error) => return Err(OfferError::Refused("answer how late it is", error.into())),
        }
        let Some(time) = self.freshness.time(me.since_boot) else { return Ok(()) };
        self.answered_at = Some(time.now());
        if self.record.is_none() {
            self.keep(state, Record::after_loss(time.now()))?;
        }
        Ok(())
    }

    fn take_order(&mut self, state: &State, signed: &SignedOrder, me: Facts<'_>) -> Result<(), OfferError> {
        if self.record.as_ref().is_some_and(|record| record.ending().is_some()) {
            return Ok(());
        }
        match self.judge(signed, me) {
            Ok(next) => {
                self.keep(state, next)?;
                self.refused.retain(|(intent, _)| *intent != signed.id());
                self.untold.retain(|outcome| outcome.intent != signed.id());
                tracing::info!("order {} is carried out", signed.id().code());
            }
            Err(Refused { why, next }) => {
                // Before it is told: whoever heard of the refusal may give another order, and this one is not to follow it.
                if let Some(next) = next {
                    self.keep(state, *next)?;
                }
                self.refuse(signed, &why, me.now);
            }
        }
        Ok(())
    }

    /// The record in which this order is remembered and holds, if it is an owner's for this node, now.
    fn judge(&self, signed: &SignedOrder, me: Facts<'_>) -> Result<Record, Refused> {
        let time = self.freshness.time(me.since_boot);
        let (Some(record), Some(bundle)) = (&self.record, &self.bundle) else {
            return Err(OrderRefusal::NoFreshness.into());
        };
        let Some(roster) = self.roster.roster() else {
            let behind = |current| OrderRefusal::RosterBehind { held: 0, current };
            return Err(time.map_or(OrderRefusal::NoFreshness, |time| behind(time.roster_version())).into());
        };
        let policy = policy::read(&self.root);
        let checker = Checker {
            actor: Actor::Node,
            policy: &policy.rules,
            fleet: &self.fleet,
            node: &self.node_id,
            hostname: me.hostname,
            roster,
            bundle_version: bundle.bundle().version,
            time,
            memory: record.memory(),
        };
        match signed.check(&checker) {
            Ok(verified) => record.after(signed, verified, |body| orders::plan(body, &me), me.now),
            Err(refusal) => {
                let Some(memory) = signed.remember_refused(&checker, &refusal) else { return Err(refusal.into()) };
                let next = record.remembering(memory)?;
                Err(Refused { why: refusal.into(), next: Some(Box::new(next)) })
            }
        }
    }

    /// Notes a refusal to be told, in memory alone.
    fn refuse(&mut self, signed: &SignedOrder, refusal: &NotDone, at: UnixTime) {
        let (intent, code) = (signed.id(), refusal.code());
        let told = if code.is_repeat() {
            self.record.as_ref().map_or(Some(code), |record| record.repeated(intent, code))
        } else {
            Some(code)
        };
        self.untold.retain(|outcome| outcome.intent != intent);
        self.untold.push(NodeOutcome { intent, refused: told });
        keep_last(&mut self.untold, OUTCOMES_MAX);
        let Some(code) = told else { return };
        if !self.refused.iter().any(|(known, seen)| *known == intent && seen.refused == Some(code)) {
            let why = lucia_proto::base::text::shown(&crate::host::chain(refusal));
            tracing::warn!("order {} is refused ({}): {why}; {}", intent.code(), code.as_str(), code.cure());
        }
        let kind = OrderHead::parse(&signed.intent_json).ok().map(|intent| intent.kind);
        self.refused.retain(|(known, _)| *known != intent);
        self.refused.push((intent, OrderSeen { code: intent.code(), kind, at, refused: Some(code) }));
        keep_last(&mut self.refused, ORDERS_SHOWN);
    }

    /// Writes the record, then goes by it.
    fn keep(&mut self, state: &State, next: Record) -> Result<(), StateError> {
        next.write(state)?;
        self.record = Some(next);
        self.is_kept = true;
        self.gather_keys();
        Ok(())
    }

    fn gather_keys(&mut self) {
        let keys = self.record.as_ref().map_or_else(OrderedKeys::unknown, |record| orders::in_force(record).keys);
        if *self.keys != keys {
            self.keys = Arc::new(keys);
        }
    }

    fn hold(&mut self, bundle: VerifiedBundle) {
        self.roster.verify(&bundle, &self.fleet);
        self.freshness.hold_against(&bundle);
        self.bundle = Some(bundle);
    }

    /// Writes what is known of the roster, then goes by it. The record is there first: with a roster and without a record
    /// one was lost.
    fn hold_roster(&mut self, state: &State, next: HeldRoster) -> Result<(), StateError> {
        let text = next.text()?;
        let record = self.record.as_ref().filter(|_| !self.is_kept);
        let record = record.map(|record| StateFile::Orders.text(record)).transpose()?;
        let files = record.iter().map(|record| (StateFile::Orders, record.as_bytes()));
        let files: Vec<_> = files.chain([(StateFile::Roster, text.as_bytes())]).collect();
        state.replace_all(&files)?;
        self.is_kept |= record.is_some();
        if next.version() != self.roster.version() {
            tracing::info!("roster {} is held", next.version());
        }
        self.roster = next;
        Ok(())
    }

    /// One more turn of a node that is about to go.
    pub const fn count_farewell(&mut self) {
        self.farewells = self.farewells.saturating_add(1);
    }

    /// Whether this holder is about to end by an owner's word, and says so first.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.ending().is_some_and(|open| open.act != Act::OtherGoesOn))
    }

    /// Whether the daemon ends by an owner's word now.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        let record = self.record.as_ref()?;
        let order = record.ending()?;
        let is_said =
            self.farewells >= FAREWELLS || record.untold().iter().all(|outcome| outcome.intent != order.intent);
        // Whoever was not kept speaks for nobody; after a split the controller waits to hear that it is over.
        let is_over = is_said || order.act == Act::OtherGoesOn;
        is_over.then(|| stopped_by(order).map_or(Ending::Remove, Ending::Stopped))
    }

    /// What this machine's policy file lets owners order.
    #[must_use]
    pub fn rules(&self) -> OrderPolicy {
        policy::read(&self.root).rules
    }

    /// What `status` and `why` say.
    #[must_use]
    pub fn status(&self) -> OwnersStatus {
        let roster = self.roster.roster();
        let owners = roster.iter().flat_map(|roster| &roster.roster().owners);
        let policy = policy::read(&self.root);
        let rules = policy.in_force().map(|RuleInForce { kind, rule, .. }| {
            (kind, roster.map_or(rule, |roster| policy.rules.stricter(roster.policy(), kind)))
        });
        let done = self.record.as_ref().map_or(&[][..], Record::done);
        let done = done.iter().map(|done| OrderSeen {
            code: done.intent.code(),
            kind: Some(done.kind),
            at: done.at,
            refused: None,
        });
        let mut orders: Vec<_> = done.chain(self.refused.iter().map(|(_, seen)| seen.clone())).collect();
        orders.sort_by_key(|seen| seen.at);
        keep_last(&mut orders, ORDERS_SHOWN);
        OwnersStatus {
            roster_version: self.roster.version(),
            believed: roster.is_some(),
            owners: owners.filter(|owner| owner.role == Role::Owner).map(|owner| owner.name.clone()).collect(),
            decide: true,
            answered_at: self.answered_at,
            taken_until: self.freshness.until(),
            rules: rules.collect(),
            policy_refused: policy.refused.map(|error| crate::host::chain(&error)),
            orders,
        }
    }
}

fn write_bundle(state: &State, bundle: &VerifiedBundle) -> Result<(), StateError> {
    state.replace_json(StateFile::Bundle, bundle.signed())
}

#[cfg(test)]
mod tests;

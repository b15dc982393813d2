//! The node's own door for orders: everything that a controller can bring, against a disk that may die.

use std::collections::BTreeMap;

use lucia_durable::crash_point::{crash_at, fail_at};
use lucia_proto::base::ids::StartId;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::exchange::OrdersReply;
use lucia_proto::orders::freshness::{FreshnessAnswer, SignedFreshness};
use lucia_proto::orders::{Body, CloneDecision, Decision, Draft, OrderCode, OrderKind, SignedOrder, SshKeys, Terms};
use lucia_proto::pki::bundle::Bundle;
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{OrderWorld, TestCa, hostile_intents, key};

use super::*;
use crate::host::scratch::Scratch;

mod doors;
mod orders;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const HOUR: Duration = Duration::from_secs(3600);
const BUNDLE: u64 = 3;

/// A node with the bundle of its certificate, which nobody told of owners yet.
struct Door {
    scratch: Scratch,
    state: State,
    world: OrderWorld,
    owners: Owners,
    /// The present one, and those before it.
    starts: Vec<StartId>,
    up: Duration,
    drawn: u8,
}

fn start() -> StartId {
    StartId::from_random([9; 16])
}

impl Door {
    fn new() -> Self {
        Self::of(OrderWorld::new(NOW))
    }

    fn of(world: OrderWorld) -> Self {
        let scratch = Scratch::new();
        // As staging lays it, and whatever kinds there are.
        scratch.put("etc/lucia/agent-policy.toml", "default = \"allow\"\n");
        let state = State::hold(&scratch.root(), "test").unwrap();
        let owners = open(&scratch, &state, &world);
        Self { scratch, state, world, owners, starts: vec![start()], up: HOUR, drawn: 0 }
    }

    /// With the roster, and an answer of the worker's of this moment.
    fn settled() -> Self {
        let mut door = Self::new();
        door.settle();
        door
    }

    fn settle(&mut self) {
        let roster = Some(self.world.roster.signed().clone());
        self.offered(OrdersReply { roster, ..OrdersReply::default() });
        self.refresh();
    }

    /// Asks how late it is and hears the worker.
    fn refresh(&mut self) {
        let worker = OrderWorld::new(NOW).ca.worker_key;
        let freshness = Some(self.answer(&worker, |_| ()));
        self.offered(OrdersReply { freshness, ..OrdersReply::default() });
    }

    /// What somebody with this key says to the open question.
    fn answer(&mut self, by: &NodeKey, change: impl FnOnce(&mut FreshnessAnswer)) -> SignedFreshness {
        let nonce = self.said().freshness.unwrap_or_else(|| Nonce::from_bytes(&[0; 32]));
        let mut answer = FreshnessAnswer {
            fleet: self.world.fleet,
            node_id: self.world.node.node_id.clone(),
            nonce,
            bundle_version: BUNDLE,
            roster_version: self.world.roster.version(),
            time: NOW.plus(self.up - HOUR),
        };
        change(&mut answer);
        SignedFreshness::sign(&answer, by).unwrap()
    }

    fn said(&mut self) -> OrdersReport {
        self.drawn = self.drawn.wrapping_add(1);
        self.owners.report(Some(&[self.drawn; 32]), self.up)
    }

    fn try_offer(&mut self, reply: &OrdersReply) -> Result<Vec<Note>, StateError> {
        let value = serde_json::to_value(reply).unwrap();
        self.try_value(&value)
    }

    fn try_value(&mut self, value: &serde_json::Value) -> Result<Vec<Note>, StateError> {
        let hostname = self.world.node.hostname.clone();
        let now = NOW.plus(self.up);
        let (start_id, former_starts) = (self.starts.first(), &self.starts[1..]);
        let me = Facts { hostname: &hostname, machine: None, start_id, former_starts, since_boot: self.up, now };
        self.owners.take(&self.state, Offer::of(value), me)
    }

    /// Offers it; which parts were refused.
    #[track_caller]
    fn refused(&mut self, reply: &OrdersReply) -> Vec<&'static str> {
        let notes = self.try_offer(reply).unwrap();
        notes.into_iter().filter_map(|note| note.refused.map(|_| note.call)).collect()
    }

    #[track_caller]
    fn offered(&mut self, reply: OrdersReply) {
        let notes = self.try_offer(&reply).unwrap();
        let refused: Vec<_> = notes.into_iter().filter_map(|note| note.refused).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }

    /// Gives an order; what the next heartbeat says became of it.
    #[track_caller]
    fn order(&mut self, signed: &SignedOrder) -> Option<Option<OrderCode>> {
        self.offered(OrdersReply { intent: Some(Box::new(signed.clone())), ..OrdersReply::default() });
        self.outcome(signed)
    }

    fn outcome(&mut self, signed: &SignedOrder) -> Option<Option<OrderCode>> {
        let said = self.said();
        said.outcomes.iter().find(|outcome| outcome.intent == signed.id()).map(|outcome| outcome.refused)
    }

    fn hear(&mut self) {
        let said = self.said();
        self.owners.told(&self.state, &said).unwrap();
    }

    /// The next start of the daemon, in the same boot.
    fn restart(&mut self) {
        self.owners = open(&self.scratch, &self.state, &self.world);
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.scratch.root().state()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
    }

    fn accounts(&self) -> Vec<(String, usize)> {
        let keys = self.owners.keys();
        keys.accounts.iter().map(|(account, keys)| (account.to_string(), keys.len())).collect()
    }

    /// An order of alice's about herself, with so many keys.
    fn keys_order(&self, revision: u64, count: u8) -> SignedOrder {
        self.keys_order_at(revision, count, NOW)
    }

    fn keys_order_at(&self, revision: u64, count: u8, issued_at: UnixTime) -> SignedOrder {
        let mut intent = self.world.intent(OrderKind::SshKey);
        intent.issued_at = issued_at;
        intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
        let key = |byte| lucia_proto::orders::LabelledKey {
            label: format!("key{byte}").parse().unwrap(),
            key: crate::keys::tests::line(byte).try_into().unwrap(),
        };
        let body = SshKeys { account: "alice".parse().unwrap(), keys: (0..count).map(key).collect() };
        self.sign(intent, &Body::SshKey(body))
    }

    fn clone_order(&self, decision: Decision, start_id: Option<StartId>) -> SignedOrder {
        let hostname = self.world.node.hostname.clone();
        let body = Body::CloneDecision(CloneDecision { hostname, decision, start_id });
        self.sign(self.world.intent(OrderKind::CloneDecision), &body)
    }

    /// The same, drafted once more.
    fn clone_order_anew(&self, decision: Decision, start_id: Option<StartId>, nonce: u8) -> SignedOrder {
        let hostname = self.world.node.hostname.clone();
        let body = Body::CloneDecision(CloneDecision { hostname, decision, start_id });
        let mut intent = self.world.intent(OrderKind::CloneDecision);
        if let Terms::Once { nonce: other, .. } = &mut intent.terms {
            *other = Nonce::from_bytes(&[nonce; 32]);
        }
        self.sign(intent, &body)
    }

    fn sign(&self, intent: OrderHead, body: &Body) -> SignedOrder {
        let draft = Draft::new(intent, body).unwrap();
        self.world.signed(&draft, vec![self.world.alice.sign(&draft)])
    }
}

fn open(scratch: &Scratch, state: &State, world: &OrderWorld) -> Owners {
    let root = world.ca.root();
    // The newest there is, as the identity reads it.
    let on_disk = state.read(StateFile::Bundle).unwrap();
    let on_disk = on_disk.and_then(|bytes| lucia_proto::base::json::from_slice::<SignedBundle>(&bytes, 65_536, 4).ok());
    let on_disk = on_disk.and_then(|signed| signed.verify(&root).ok());
    let bundle = [Some(world.bundle.clone()), on_disk].into_iter().flatten().max_by_key(|held| held.bundle().version);
    Owners::open(state, &scratch.root(), root, world.node.node_id.clone(), bundle)
}

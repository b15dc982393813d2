use super::*;
use crate::pki::bundle::SignedBundle;
use crate::test_support::{OrderWorld, TestCa, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
/// Since this machine booted, when the story begins.
const UP: Duration = Duration::from_secs(1000);

struct World {
    fleet: OrderWorld,
    fresh: Freshness,
}

impl World {
    fn new() -> Self {
        Self { fleet: OrderWorld::new(NOW), fresh: Freshness::default() }
    }

    fn ask(&mut self, random: u8, since_boot: Duration) -> FreshnessRequest {
        self.fresh.ask(&self.fleet.node.node_id, &[random; 32], since_boot).unwrap()
    }

    fn answer(&self, request: &FreshnessRequest, time: UnixTime) -> FreshnessAnswer {
        FreshnessAnswer {
            fleet: self.fleet.fleet,
            node_id: request.node_id.clone(),
            nonce: request.nonce.clone(),
            bundle_version: 3,
            roster_version: 5,
            time,
        }
    }

    fn take(&mut self, answer: &FreshnessAnswer) -> Result<(), FreshnessError> {
        let signed = SignedFreshness::sign(answer, &self.fleet.ca.worker_key).unwrap();
        self.take_signed(&signed)
    }

    fn take_signed(&mut self, signed: &SignedFreshness) -> Result<(), FreshnessError> {
        self.fresh.take(signed, &self.fleet.bundle, &self.fleet.fleet, &self.fleet.node.node_id)
    }
}

// spec: FR-1
#[test]
fn it_is_the_workers_time_and_what_passed_since_the_node_asked() {
    let mut world = World::new();
    assert_eq!(world.fresh.time(UP), None);
    let request = world.ask(1, UP);
    let request = FreshnessRequest::from_bytes(&request.to_bytes().unwrap()).unwrap();
    assert_eq!(world.fresh.time(UP), None);
    // An hour passes between question and answer, wherever it was spent.
    let answer = world.answer(&request, NOW);
    world.take(&answer).unwrap();
    let time = world.fresh.time(UP + HOUR).unwrap();
    assert_eq!((time.now(), time.bundle_version(), time.roster_version()), (NOW.plus(HOUR), 3, 5));
    assert_eq!(world.fresh.time(UP).map(|time| time.now()), Some(NOW));
}

// spec: FR-2
#[test]
fn after_a_day_without_an_answer_nobody_knows_how_late_it_is() {
    let mut world = World::new();
    assert!(world.fresh.is_due(UP));
    let request = world.ask(1, UP);
    let answer = world.answer(&request, NOW);
    world.take(&answer).unwrap();
    for (hours, due) in [(0, false), (5, false), (6, true), (23, true), (24, true), (1000, true)] {
        assert_eq!(world.fresh.is_due(UP + HOUR * hours), due, "{hours}");
    }
    assert!(!world.fresh.is_due(UP + HOUR * 6 - SECOND));
    assert!(world.fresh.time(UP + HOUR * 24 - SECOND).is_some());
    assert_eq!(world.fresh.time(UP + HOUR * 24), None);
    // A question that nobody answers changes nothing, and does not make the former answer younger.
    world.ask(2, UP + HOUR * 23);
    assert!(world.fresh.time(UP + HOUR * 24 - SECOND).is_some());
    assert_eq!(world.fresh.time(UP + HOUR * 24), None);
    // A clock that says less than when it was asked is of another boot.
    assert_eq!(world.fresh.time(UP - SECOND), None);
    assert!(world.fresh.is_due(UP - SECOND));
}

// spec: FR-3
#[test]
fn an_answer_is_for_the_last_question_of_this_node_once() {
    let mut world = World::new();
    let (first, second) = (world.ask(1, UP), world.ask(2, UP + HOUR));
    let good = world.answer(&second, NOW);
    let other = world.fleet.other.node_id.clone();
    for (name, field, answer) in [
        ("an earlier question's", "nonce", world.answer(&first, NOW)),
        ("another node's", "nodeId", FreshnessAnswer { node_id: other, ..good.clone() }),
        ("another fleet's", "fleet", FreshnessAnswer { fleet: Digest::of(b"x"), ..good.clone() }),
    ] {
        match world.take(&answer) {
            Err(FreshnessError::Field { field: found }) => assert_eq!(found, field, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(world.fresh.time(UP + HOUR), None, "{name}");
    }
    world.take(&good).unwrap();
    assert_eq!(world.fresh.time(UP + HOUR * 2).map(|time| time.now()), Some(NOW.plus(HOUR)));
    assert!(matches!(world.take(&good), Err(FreshnessError::NotAsked)), "once");
    assert!(matches!(World::new().take(&good), Err(FreshnessError::NotAsked)));
}

// spec: FR-7
#[test]
fn a_question_stays_the_same_while_its_answer_may_be_on_its_way() {
    let mut world = World::new();
    let (minute, node) = (Duration::from_secs(60), world.fleet.node.node_id.clone());
    let first = world.ask(1, UP);
    // With each heartbeat other bytes are at hand, and the question stays.
    assert_eq!(world.ask(2, UP + minute / 2), first);
    assert_eq!(world.ask(3, UP + minute * 10 - SECOND), first);
    let answer = world.answer(&first, NOW);
    let mut late = world.ask(4, UP + minute * 10);
    assert_ne!(late, first);
    assert!(world.take(&answer).is_err());
    // The machine was started anew, and its clock with it.
    assert_eq!(world.ask(5, UP + minute * 11), late);
    late = world.ask(6, UP);
    assert_eq!(late.nonce, Nonce::from_bytes(&[6; 32]));
    let answer = world.answer(&late, NOW);
    world.take(&answer).unwrap();
    assert_eq!(world.fresh.ask(&node, &[7; 32], UP + HOUR * 6 - SECOND), None, "not due");
    assert_eq!(world.ask(7, UP + HOUR * 6).nonce, Nonce::from_bytes(&[7; 32]));
}

// spec: FR-4
#[test]
fn only_a_worker_of_the_bundle_says_how_late_it_is() {
    let mut world = World::new();
    let request = world.ask(1, UP);
    let answer = world.answer(&request, NOW);
    let good = SignedFreshness::sign(&answer, &world.fleet.ca.worker_key).unwrap();
    let (payload, signature) = (good.parts().payload().to_vec(), good.parts().signature().to_vec());
    let text = [TAG, &payload[..]].concat();
    let later = String::from_utf8(payload.clone()).unwrap().replace("2026", "2027").into_bytes();
    for (name, payload, signature) in [
        ("another time", later, signature.clone()),
        ("the root", payload.clone(), world.fleet.ca.root_key.sign_der(&text)),
        ("an owner", payload.clone(), world.fleet.alice.key.sign_der(&text)),
        ("the node itself", payload.clone(), world.fleet.node.key.sign_der(&text)),
        ("without the first line", payload.clone(), world.fleet.ca.worker_key.sign_der(&payload)),
        ("as a roster", payload.clone(), {
            world.fleet.ca.worker_key.sign_der(&[b"lucia-roster-v1\n", &payload[..]].concat())
        }),
        ("nobody", payload.clone(), Vec::new()),
    ] {
        let refused = world.take_signed(&SignedFreshness::from_parts(payload, signature));
        assert!(matches!(refused, Err(FreshnessError::Signature)), "{name}");
    }
    // A worker that the next bundle does not name any more.
    let mut bundle = world.fleet.ca.bundle(4, NOW);
    bundle.workers = vec![key(98).public().to_pem()];
    let bundle = SignedBundle::sign(&bundle, &world.fleet.ca.root_key).unwrap().verify(&world.fleet.ca.root()).unwrap();
    let (fleet, node) = (world.fleet.fleet, world.fleet.node.node_id.clone());
    assert!(matches!(world.fresh.take(&good, &bundle, &fleet, &node), Err(FreshnessError::Signature)));
    let foreign = TestCa::with_keys(NOW, 211);
    let foreign = foreign.signed_bundle(3, NOW).verify(&foreign.root()).unwrap();
    assert!(matches!(world.fresh.take(&good, &foreign, &fleet, &node), Err(FreshnessError::Signature)));
    for text in ["", "[]", "{}", "{\"time\":\"2026-11-29T20:00:00Z\"}"] {
        let signature = world.fleet.ca.worker_key.sign_der(&[TAG, text.as_bytes()].concat());
        let refused = world.take_signed(&SignedFreshness::from_parts(text.into(), signature));
        assert!(matches!(refused, Err(FreshnessError::Json(_))), "{text}");
    }
    world.take_signed(&good).unwrap();
}

// spec: FR-5
#[test]
fn a_controller_that_withholds_and_delays_keeps_a_removed_owner_for_less_than_a_day() {
    let mut world = World::new();
    // The last answer before the roster changes at the worker; the controller lets no other one through.
    let request = world.ask(1, UP);
    let answer = world.answer(&request, NOW);
    world.take(&answer).unwrap();
    let order = world.fleet.order(crate::orders::OrderKind::SshKey);
    let at = |world: &World, span: Duration| {
        let time = world.fresh.time(UP + span);
        let checker = crate::orders::Checker { time, ..world.fleet.checker(crate::orders::OrderKind::SshKey) };
        order.check(&checker).map(|_| ()).map_err(|refusal| refusal.code())
    };
    assert_eq!(at(&world, HOUR * 24 - SECOND), Ok(()));
    assert_eq!(at(&world, HOUR * 24), Err(crate::orders::OrderCode::NoFreshness));
    // Every later answer tells of the next roster, however long it was held back.
    let request = world.ask(2, UP + HOUR * 7);
    let mut answer = world.answer(&request, NOW.plus(HOUR * 9));
    answer.roster_version = 6;
    world.take(&answer).unwrap();
    assert_eq!(at(&world, HOUR * 20), Err(crate::orders::OrderCode::RosterBehind));
}

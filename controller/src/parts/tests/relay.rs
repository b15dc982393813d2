//! Orders on their way: a scripted worker, nodes that say what they hold, ask and did (design.md O2 to O4).

use lucia_durable::crash_point::fail_at;
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::json;
use lucia_proto::base::limits::{ANSWER_MAX, FRESHNESS_QUESTION, ORDER_LIFETIME_MAX, SPLIT_OFFERED};
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::files::owner_queue::{FreshnessFile, OrderAnswerFile};
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::report::{NodeCall, Proof};
use lucia_proto::orders::exchange::{NodeOutcome, OrdersReply, OrdersReport};
use lucia_proto::orders::freshness::{FreshnessAnswer, FreshnessRequest, SignedFreshness};
use lucia_proto::orders::{
    Body, CloneDecision, Decision, Draft, OrderCode, OrderHead, OrderId, OrderKind, SignedOrder, Terms,
};
use lucia_proto::test_support::OrderWorld;

use super::bench::{Machine, World, code, write};
use super::owners::{fleet, publish};
use crate::parts::By;

mod decisions;
mod gone;
mod leaving;

const OPERATOR: By = By::Operator(0);

/// A fleet with owners around node 7.
fn owned() -> (World, OrderWorld, Machine) {
    let world = World::new();
    let node = world.node(7);
    let fleet = fleet(&world);
    publish(&world, &fleet);
    (world, fleet, node)
}

/// What a node that has everything says.
fn holding(fleet: &OrderWorld) -> OrdersReport {
    let (bundle_version, roster_version) = (fleet.bundle.bundle().version, fleet.roster.version());
    OrdersReport { bundle_version, roster_version, freshness: None, outcomes: Vec::new() }
}

/// A heartbeat with this, of the start `start` if one is told.
fn say(world: &World, node: &Machine, report: &OrdersReport, more: &str) -> HeartbeatReply {
    let mut text = json::to_string(&node.beat()).unwrap();
    text.pop();
    let orders = json::to_string(report).unwrap();
    let beat: Heartbeat = json::from_str(&format!(r#"{text}{more},"orders":{orders}}}"#), 1 << 16, 8).unwrap();
    let proof = Proof::sign(&beat, &node.challenge(world), &node.node.key).unwrap();
    let call = NodeCall { certificate_pem: node.certificate.clone(), proof };
    let reply = world.parts.heartbeat(node.id(), &call, node.from).unwrap();
    // Ten calls a second are taken.
    world.advance(1);
    assert!(json::to_string(&reply).unwrap().len() <= ANSWER_MAX);
    reply
}

fn told(world: &World, node: &Machine, report: &OrdersReport) -> OrdersReply {
    say(world, node, report, "").orders.unwrap_or_default()
}

/// The order the node is handed now.
pub(super) fn handed(world: &World, node: &Machine, fleet: &OrderWorld) -> Option<OrderId> {
    told(world, node, &holding(fleet)).intent.map(|intent| intent.id())
}

/// The node tells what became of an order, and the tick writes it.
pub(super) fn tells(
    world: &World,
    node: &Machine,
    fleet: &OrderWorld,
    intent: OrderId,
    refused: Option<OrderCode>,
) -> OrdersReply {
    let report = OrdersReport { outcomes: vec![NodeOutcome { intent, refused }], ..holding(fleet) };
    let reply = told(world, node, &report);
    world.parts.tick();
    reply
}

/// Drafted and signed by alice.
pub(super) fn ordered(world: &World, fleet: &OrderWorld, draft: &Draft) -> OrderId {
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    world.parts.orders.sign(&draft.read().unwrap().code(), fleet.alice.sign(draft), &OPERATOR).unwrap();
    OrderId::of(&draft.intent_json)
}

fn state_of(world: &World, intent: OrderId) -> DraftLine {
    world.parts.orders.drafts(None).unwrap().drafts.into_iter().find(|line| line.intent == intent).unwrap()
}

/// The worker answers an order; it finds the order's file first.
pub(super) fn worker_says(world: &World, node: &Machine, intent: OrderId, refused: Option<OrderCode>) {
    let request = world.file(&format!("nodes/owner-requests/intent-{intent}.json"));
    assert_eq!(SignedOrder::from_bytes(&std::fs::read(&request).unwrap()).unwrap().id(), intent);
    let outcome = Outcome { node_id: node.id().clone(), at: world.now(), refused };
    let file = OrderAnswerFile { schema_version: Version, intent, outcome, message: "".parse().unwrap() };
    write(&world.file(&format!("nodes/owner-responses/intent-{intent}.json")), &file.to_bytes().unwrap());
    world.parts.tick();
    assert!(!request.exists(), "what was answered does not lie there any more");
}

fn keys(fleet: &OrderWorld, revision: u64) -> Draft {
    fleet.draft(OrderKind::SshKey, |intent| {
        intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
    })
}

// spec: CO-13
#[test]
fn orders_come_one_at_a_time_oldest_first_until_the_node_told_what_became_of_them() {
    let (world, fleet, node) = owned();
    assert_eq!(told(&world, &node, &holding(&fleet)), OrdersReply::default());
    let first = ordered(&world, &fleet, &keys(&fleet, 4));
    world.advance(1);
    let second = ordered(&world, &fleet, &of_bob(&fleet));
    for _ in 0..3 {
        assert_eq!(handed(&world, &node, &fleet), Some(first), "again and again");
    }
    // What is missing comes: the same order stays, and the same words again write nothing.
    for code in [OrderCode::NoFreshness, OrderCode::RosterBehind, OrderCode::BundleBehind] {
        let reply = tells(&world, &node, &fleet, first, Some(code));
        assert_eq!(reply.intent.map(|intent| intent.id()), Some(first), "{code:?}");
        assert_eq!(state_of(&world, first).state, DraftState::Signed);
        assert_eq!(state_of(&world, first).outcomes.first().unwrap().refused, Some(code));
        let plan = lucia_durable::crash_point::record(&world.file("orders"));
        tells(&world, &node, &fleet, first, Some(code));
        assert!(plan.steps().is_empty(), "{:?}", plan.steps());
        drop(plan);
        world.advance(60);
    }
    // Another controller's start hands it out as well.
    let world = world.restart();
    assert_eq!(handed(&world, &node, &fleet), Some(first));
    let reply = tells(&world, &node, &fleet, first, None);
    assert_eq!(reply.intent.map(|intent| intent.id()), Some(second), "the next one at once");
    assert_eq!(state_of(&world, first).state, DraftState::Done);
    assert_eq!(tells(&world, &node, &fleet, second, Some(OrderCode::KindForbidden)), OrdersReply::default());
    let line = state_of(&world, second);
    assert_eq!((line.state, line.outcomes.len()), (DraftState::Refused, 1));
    // What it says of orders that are none of its own is nothing.
    tells(&world, &node, &fleet, OrderId::of("{}"), None);
    assert_eq!(handed(&world, &node, &fleet), None);
    // An agent that does not know of orders is told of none.
    ordered(&world, &fleet, &keys(&fleet, 5));
    let call = node.heartbeat_call(&node.challenge(&world));
    assert_eq!(world.parts.heartbeat(node.id(), &call, node.from).unwrap().orders, None);
}

/// threats.md M: a node that is root's enemy can say another reason to wait with each of its ten calls a second.
// spec: CO-80
#[test]
fn a_node_that_changes_its_mind_fills_neither_disk_nor_audit() {
    let (world, fleet, node) = owned();
    let order = ordered(&world, &fleet, &keys(&fleet, 4));
    let lines = || world.parts.audit.size().0;
    let before = lines();
    let codes = [OrderCode::NoFreshness, OrderCode::RosterBehind, OrderCode::BundleBehind];
    tells(&world, &node, &fleet, order, Some(codes[0]));
    assert_eq!(lines(), before + 1, "the first reason");
    let plan = lucia_durable::crash_point::record(&world.file("orders"));
    for code in codes.into_iter().cycle().take(50) {
        let reply = tells(&world, &node, &fleet, order, Some(code));
        assert_eq!(reply.intent.map(|intent| intent.id()), Some(order), "it waits for the node all the same");
    }
    assert!(plan.steps().is_empty(), "within a minute: {:?}", plan.steps());
    drop(plan);
    world.advance(60);
    for (again, code) in codes.into_iter().rev().enumerate() {
        tells(&world, &node, &fleet, order, Some(code));
        let shown = state_of(&world, order).outcomes.first().unwrap().refused;
        assert_eq!((shown, lines()), (Some(code), before + 1), "{again}: shown, and no line more");
        world.advance(60);
    }
    tells(&world, &node, &fleet, order, None);
    assert_eq!((state_of(&world, order).state, lines()), (DraftState::Done, before + 2), "the end is a line");
}

/// An order about another account.
fn of_bob(fleet: &OrderWorld) -> Draft {
    let Body::SshKey(mut body) = fleet.body(OrderKind::SshKey) else { panic!("a body of its kind") };
    body.account = "bob".parse().unwrap();
    let terms = Terms::State { subject: "bob".parse().unwrap(), revision: 1 };
    Draft::new(OrderHead { terms, ..fleet.intent(OrderKind::SshKey) }, &Body::SshKey(body)).unwrap()
}

// spec: CO-21
#[test]
fn an_order_on_the_disk_is_carried_whatever_becomes_of_its_entry() {
    let (world, fleet, node) = owned();
    let (key, released) = (keys(&fleet, 4), fleet.draft(OrderKind::ReleaseLapse, |_| ()));
    for draft in [&key, &released] {
        world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    }
    let sign = |draft: &Draft| {
        let _plan = fail_at(&world.file("audit"), "append/write", 0, nix::libc::ENOSPC);
        let signed = world.parts.orders.sign(&draft.read().unwrap().code(), fleet.alice.sign(draft), &OPERATOR);
        assert_eq!(code(signed), Some(Code::PersistenceFailed));
        OrderId::of(&draft.intent_json)
    };
    let key = sign(&key);
    assert_eq!(handed(&world, &node, &fleet), Some(key), "before any tick");
    world.parts.tick();
    let released = sign(&released);
    assert!(world.file(&format!("nodes/owner-requests/intent-{released}.json")).exists());
    world.parts.tick();
    let entries = world.parts.audit.entries(0, 100).unwrap().entries;
    for id in [key, released] {
        let given = entries.iter().filter(|entry| entry.action == Act::OrderGiven && entry.intent == Some(id));
        assert_eq!(given.count(), 1, "and noted once there is room");
    }
}

// spec: CO-14
#[test]
fn of_one_subject_the_later_revision_is_handed_out_whichever_was_signed_first() {
    for (one, other) in [(4, 5), (5, 4)] {
        let (world, fleet, node) = owned();
        let first = ordered(&world, &fleet, &keys(&fleet, one));
        world.advance(1);
        let second = ordered(&world, &fleet, &keys(&fleet, other));
        let (earlier, later) = if one < other { (first, second) } else { (second, first) };
        assert_eq!(handed(&world, &node, &fleet), Some(later));
        let line = state_of(&world, earlier);
        assert_eq!(line.state, DraftState::Replaced);
        assert_eq!(line.outcomes.first().unwrap().refused, Some(OrderCode::OlderRevision));
        tells(&world, &node, &fleet, later, None);
        assert_eq!(handed(&world, &node, &fleet), None);
        assert_eq!(state_of(&world, later).state, DraftState::Done);
    }
}

// spec: CO-14, PG-98
#[test]
fn an_earlier_revision_that_was_carried_out_is_told_as_done_although_a_later_one_came_before_its_answer() {
    let (world, fleet, node) = owned();
    let earlier = ordered(&world, &fleet, &keys(&fleet, 4));
    assert_eq!(handed(&world, &node, &fleet), Some(earlier));
    world.advance(1);
    let later = ordered(&world, &fleet, &keys(&fleet, 5));
    assert_eq!(state_of(&world, earlier).state, DraftState::Replaced, "nobody said that it was carried out");
    tells(&world, &node, &fleet, earlier, None);
    assert_eq!(state_of(&world, earlier).state, DraftState::Done, "it was, and the node says so");
    tells(&world, &node, &fleet, earlier, Some(OrderCode::OlderRevision));
    assert_eq!(state_of(&world, earlier).state, DraftState::Done, "which stays");
    assert_eq!(handed(&world, &node, &fleet), Some(later));
}

// spec: CO-15
#[test]
fn the_worker_comes_first_and_what_it_refuses_nobody_else_is_asked() {
    let (world, fleet, node) = owned();
    // Of the worker alone.
    let released = ordered(&world, &fleet, &fleet.draft(OrderKind::ReleaseLapse, |_| ()));
    assert_eq!(handed(&world, &node, &fleet), None);
    assert_eq!(state_of(&world, released).state, DraftState::Signed);
    worker_says(&world, &node, released, None);
    assert_eq!(state_of(&world, released).state, DraftState::Done);
    // Refused there: the node hears nothing, and stays.
    let refused = ordered(&world, &fleet, &fleet.draft(OrderKind::RemoveIdentity, |_| ()));
    worker_says(&world, &node, refused, Some(OrderCode::NameDiffers));
    assert_eq!(state_of(&world, refused).state, DraftState::Refused);
    assert_eq!(handed(&world, &node, &fleet), None);
    // Carried out there: then the node, and the controller lets go of it after that.
    let again = fleet.draft(OrderKind::RemoveIdentity, |intent| {
        let not_after = fleet.now.plus(ORDER_LIFETIME_MAX);
        intent.terms = Terms::Once { not_after, nonce: Nonce::from_bytes(&[8; 32]) };
    });
    let removed = ordered(&world, &fleet, &again);
    assert_eq!(handed(&world, &node, &fleet), None);
    worker_says(&world, &node, removed, None);
    assert_eq!(handed(&world, &node, &fleet), Some(removed));
    assert!(world.phase(&node).is_some(), "it is heard to its end");
    tells(&world, &node, &fleet, removed, None);
    assert_eq!(world.phase(&node), None);
    assert_eq!(state_of(&world, removed).state, DraftState::Done);
    assert!(String::from_utf8(world.journal()).unwrap().contains("owner:alice"));
}

// spec: CO-15
#[test]
fn a_node_that_never_answers_is_let_go_of_when_its_order_s_time_is_over() {
    let (world, fleet, node) = owned();
    let removed = ordered(&world, &fleet, &fleet.draft(OrderKind::RemoveIdentity, |_| ()));
    worker_says(&world, &node, removed, None);
    world.advance(ORDER_LIFETIME_MAX.as_secs());
    world.parts.tick();
    assert!(world.phase(&node).is_some());
    world.advance(1);
    world.parts.tick();
    assert_eq!(world.phase(&node), None);
    assert_eq!(state_of(&world, removed).state, DraftState::Done);
    // What the worker never answered is over as well, and lies there no more.
    let (world, fleet, node) = owned();
    let removed = ordered(&world, &fleet, &fleet.draft(OrderKind::RemoveIdentity, |_| ()));
    let request = world.file(&format!("nodes/owner-requests/intent-{removed}.json"));
    assert!(request.exists());
    world.advance(ORDER_LIFETIME_MAX.as_secs() + 1);
    world.parts.tick();
    assert!(!request.exists() && world.phase(&node).is_some());
    assert_eq!(state_of(&world, removed).state, DraftState::Expired);
}

// spec: CO-16
#[test]
fn a_second_owner_s_signature_asks_again_whoever_asked_for_it() {
    let (world, fleet, node) = owned();
    let draft = fleet.draft(OrderKind::ReleaseLapse, |_| ());
    let id = ordered(&world, &fleet, &draft);
    worker_says(&world, &node, id, Some(OrderCode::SecondOwnerNeeded));
    assert_eq!(state_of(&world, id).state, DraftState::Refused);
    let code = draft.read().unwrap().code();
    world.parts.orders.sign(&code, fleet.bob.sign(&draft), &OPERATOR).unwrap();
    world.parts.tick();
    assert_eq!(state_of(&world, id).state, DraftState::Signed, "its former answer is none");
    world.advance(1);
    worker_says(&world, &node, id, None);
    assert_eq!(state_of(&world, id).state, DraftState::Done);
    // The same at a node.
    let draft = keys(&fleet, 4);
    let id = ordered(&world, &fleet, &draft);
    tells(&world, &node, &fleet, id, Some(OrderCode::SecondOwnerNeeded));
    assert_eq!(handed(&world, &node, &fleet), None);
    world.parts.orders.sign(&draft.read().unwrap().code(), fleet.bob.sign(&draft), &OPERATOR).unwrap();
    let reply = told(&world, &node, &holding(&fleet));
    assert_eq!(reply.intent.unwrap().signatures.len(), 2);
    tells(&world, &node, &fleet, id, None);
    assert_eq!(state_of(&world, id).state, DraftState::Done);
}

/// What one node refuses is its own affair: the others are asked again, and only an order nobody is left for is over.
// spec: CO-51
#[test]
fn a_second_owner_s_signature_counts_although_one_node_refused_the_order() {
    let (world, fleet, node) = owned();
    let other = world.node(8);
    let of_both = |revision| {
        fleet.draft(OrderKind::SshKey, |intent| {
            intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
            intent.nodes = vec![node.id().clone(), other.id().clone()];
            intent.nodes.sort();
        })
    };
    let second = |draft: &Draft| {
        world.parts.orders.sign(&draft.read().unwrap().code(), fleet.bob.sign(draft), &OPERATOR).map(|_| ())
    };
    let cases = [
        (OrderCode::KindForbidden, Some(OrderCode::SecondOwnerNeeded), None),
        // One that was not asked yet may still do it.
        (OrderCode::KindForbidden, None, None),
        (OrderCode::KindForbidden, Some(OrderCode::NoFreshness), None),
        (OrderCode::SecondOwnerNeeded, Some(OrderCode::KindForbidden), None),
        (OrderCode::KindForbidden, Some(OrderCode::NotPossible), Some(Code::IntentRefused)),
    ];
    for ((one, two, want), revision) in cases.into_iter().zip(4..) {
        let draft = of_both(revision);
        let id = ordered(&world, &fleet, &draft);
        tells(&world, &node, &fleet, id, Some(one));
        if two.is_some() {
            tells(&world, &other, &fleet, id, two);
        }
        assert_eq!(state_of(&world, id).state, DraftState::Refused, "{revision}");
        assert_eq!(code(second(&draft)), want, "{revision}: {one:?}, {two:?}");
        let asked = [&node, &other].map(|node| handed(&world, node, &fleet) == Some(id));
        let lacks = |said| said != Some(OrderCode::KindForbidden) && want.is_none();
        assert_eq!(asked, [lacks(Some(one)), lacks(two)], "{revision}: who refused it for good is not asked again");
    }
}

// spec: CO-18
#[test]
fn a_question_goes_to_the_worker_and_its_answer_back_and_nothing_else_is_written() {
    let (world, fleet, node) = owned();
    let [first, second, third] = [1, 2, 3].map(|byte| Nonce::from_bytes(&[byte; 32]));
    let asking = |nonce: &Nonce| OrdersReport { freshness: Some(nonce.clone()), ..holding(&fleet) };
    let file = world.file(&format!("nodes/owner-requests/freshness-{}.json", node.id()));
    let answer = |nonce: &Nonce| {
        let answer = FreshnessAnswer {
            fleet: fleet.fleet,
            node_id: node.id().clone(),
            nonce: nonce.clone(),
            bundle_version: 3,
            roster_version: 5,
            time: world.now(),
        };
        let answer = SignedFreshness::sign(&answer, &fleet.ca.worker_key).unwrap();
        let file = FreshnessFile { schema_version: Version, nonce: nonce.clone(), answer: answer.clone() };
        write(&world.file(&format!("nodes/owner-responses/freshness-{}.json", node.id())), &file.to_bytes().unwrap());
        world.parts.tick();
        answer
    };
    assert_eq!(told(&world, &node, &asking(&first)).freshness, None);
    world.parts.tick();
    let asked = || FreshnessRequest::from_bytes(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((asked().nonce, asked().node_id), (first.clone(), node.id().clone()));
    // The same question again is no write, and the answer to another one is none.
    let plan = lucia_durable::crash_point::record(&world.file("nodes/owner-requests"));
    world.advance(30);
    answer(&second);
    assert_eq!(told(&world, &node, &asking(&first)).freshness, None);
    world.parts.tick();
    assert!(plan.steps().is_empty(), "{:?}", plan.steps());
    drop(plan);
    let given = answer(&first);
    assert_eq!(told(&world, &node, &asking(&first)).freshness, Some(given.clone()));
    // Another question takes the place of the first; a holder of the same identity who still asks the first has its answer.
    world.advance(30);
    told(&world, &node, &asking(&second));
    world.parts.tick();
    assert_eq!(asked().nonce, second);
    let later = answer(&second);
    assert_eq!(told(&world, &node, &asking(&second)).freshness, Some(later));
    assert_eq!(told(&world, &node, &asking(&first)).freshness, Some(given));
    // What is answered lies there no more.
    told(&world, &node, &holding(&fleet));
    world.parts.tick();
    assert!(!file.exists());
    // A restart forgets questions; who still waits asks again.
    world.advance(30);
    told(&world, &node, &asking(&third));
    world.parts.tick();
    assert!(file.exists());
    let world = world.restart();
    assert!(!file.exists());
    told(&world, &node, &asking(&third));
    world.parts.tick();
    assert!(file.exists());
    // So does its age: nobody asks the same one for longer, and who asks nothing ends nobody's question.
    told(&world, &node, &holding(&fleet));
    world.parts.tick();
    assert!(file.exists());
    world.advance(FRESHNESS_QUESTION.as_secs());
    world.parts.tick();
    assert!(!file.exists());
}

// spec: CO-19
#[test]
fn a_reply_has_what_the_node_lacks_and_nothing_older() {
    let (world, fleet, node) = owned();
    let short = ordered(&world, &fleet, &keys(&fleet, 4));
    let nothing = OrdersReport { bundle_version: 0, roster_version: 0, freshness: None, outcomes: Vec::new() };
    let reply = told(&world, &node, &nothing);
    assert_eq!(reply.bundle.as_ref(), Some(fleet.bundle.signed()));
    assert_eq!(reply.roster.as_ref(), Some(fleet.roster.signed()));
    assert_eq!(reply.intent.map(|intent| intent.id()), Some(short));
    let newer = OrdersReport { bundle_version: 9, roster_version: 9, ..nothing };
    let reply = told(&world, &node, &newer);
    assert_eq!((reply.bundle, reply.roster), (None, None), "never an older one");
}

// spec: HB-22
#[test]
fn a_steady_heartbeat_with_orders_is_one_public_key_operation_and_no_write() {
    let (world, fleet, node) = owned();
    let done = ordered(&world, &fleet, &keys(&fleet, 4));
    tells(&world, &node, &fleet, done, None);
    told(&world, &node, &holding(&fleet));
    let before = world.parts.counters();
    let plan = lucia_durable::crash_point::record(world.scratch.path());
    for _ in 0..20 {
        world.advance(30);
        assert_eq!(told(&world, &node, &holding(&fleet)), OrdersReply::default());
    }
    assert!(plan.steps().is_empty(), "{:?}", plan.steps());
    let after = world.parts.counters();
    assert_eq!(after.public_key_operations - before.public_key_operations, 20);
}

// spec: PG-113
#[test]
fn an_order_that_waits_for_a_node_is_in_its_why_until_it_told() {
    let (world, fleet, node) = owned();
    let why = || lucia_people::why::Why::of(&world.parts.node(node.id()).unwrap(), &[]);
    assert_eq!(handed(&world, &node, &fleet), None);
    let before = why();
    let id = ordered(&world, &fleet, &keys(&fleet, 4));
    let during = why();
    assert_eq!((before.waiting, during.waiting), (Vec::new(), vec![id.code()]));
    assert_eq!(before.findings, during.findings, "nothing is wrong for that");
    assert_eq!(handed(&world, &node, &fleet), Some(id));
    tells(&world, &node, &fleet, id, None);
    assert!(why().waiting.is_empty());
}

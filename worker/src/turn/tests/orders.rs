//! Owners' orders at the worker: carried out once, through every crash.

use lucia_durable::crash_point::{Fate, ask_at};
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::{
    Body, CloneDecision, Decision, OrderCode, OrderId, OrderRefusal, RemoveIdentity, SignedOrder,
};
use lucia_proto::test_support::TestNode;

use super::owners::{alice, bob};
use super::{NOW, Story};
use crate::fixture::{admit_body, draft, secs, signed};
use crate::ledger::{By, Entry, Ledger};
use crate::orders::Obstacle;

impl Story {
    pub(super) fn by_alice(&self, node: &TestNode, body: &Body, nonce: u8) -> SignedOrder {
        let draft = draft(&alice(), self.identity().root.sha256(), NOW, &node.node_id, body, nonce);
        signed(&draft, &[&alice()])
    }

    #[track_caller]
    fn done(&self, id: OrderId) {
        let outcome = self.controller.outcome(id).expect("an outcome").outcome;
        assert_eq!(outcome.refused, None);
    }
}

pub(super) fn remove(node: &TestNode) -> Body {
    Body::RemoveIdentity(RemoveIdentity { hostname: node.hostname.clone() })
}

// spec: OA-8 OA-13
#[test]
fn an_owners_admit_lets_a_node_in_once_and_the_ledger_says_by_whose_order() {
    let mut story = Story::owned("");
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    let summary = story.turn(NOW);
    assert_eq!((summary.awaiting, summary.issued), (1, 0), "{summary:?}");
    let id = story.controller.order(&story.by_alice(&node, &admit_body(&node, None), 1));
    let summary = story.turn(NOW);
    assert_eq!((summary.ordered, summary.issued, summary.orders_refused), (1, 1, 0), "{summary:?}");
    story.accept(&node, NOW);
    story.done(id);
    let text = std::fs::read_to_string(story.worker_file("ledger.jsonl")).unwrap();
    let line = text.lines().find(|line| line.contains("\"kind\":\"ordered\"")).unwrap();
    for part in [id.to_string(), alice().id.to_string(), node.fingerprint.to_string(), "\"act\":\"admit\"".to_owned()] {
        assert!(line.contains(&part), "{part}: {line}");
    }
    assert_eq!(story.ledger().node(&node.node_id).unwrap().by, By::Owner);
    // The file stays, the controller offers it again, and the memory is lost: nothing of it happens twice.
    let told = story.controller.outcome(id).unwrap();
    std::fs::remove_file(story.worker_file("intents.json")).unwrap();
    let summary = story.turn(NOW.plus(secs(60)));
    assert_eq!((summary.ordered, summary.orders_refused, story.ledger_kinds("ordered")), (0, 0, 1), "{summary:?}");
    assert_eq!(story.controller.outcome(id).unwrap(), told);
    // What was signed before the memory that was lost is refused, whatever it is.
    let late = story.controller.order(&story.by_alice(&node, &remove(&node), 2));
    assert_eq!(story.turn(NOW.plus(secs(60))).orders_refused, 1);
    assert_eq!(story.controller.outcome(late).unwrap().outcome.refused, Some(OrderCode::BeforeMemory));
    assert_eq!(story.turn(NOW.plus(secs(60))).orders_refused, 0, "said once");
    // The controller took note: the answer goes.
    std::fs::remove_file(story.queue_file(&format!("owner-requests/intent-{id}.json"))).unwrap();
    story.turn(NOW.plus(secs(60)));
    assert_eq!(story.controller.outcome(id), None);
}

// spec: OA-8
#[test]
fn orders_bar_keep_and_move_a_name_as_the_operators_commands_do() {
    let mut story = Story::owned("admission = \"journal\"");
    for number in 1..=3 {
        story.controller.approve(&TestNode::new(number));
        story.controller.ask(&TestNode::new(number));
    }
    story.turn(NOW);
    let [gone, split, moved, heir] = [1, 2, 3, 4].map(TestNode::new);
    let hostname = |node: &TestNode| node.hostname.clone();
    let decide = |node: &TestNode, decision| {
        let start_id = (decision == Decision::Keep).then(|| lucia_proto::base::ids::StartId::from_random([1; 16]));
        Body::CloneDecision(CloneDecision { hostname: hostname(node), decision, start_id })
    };
    let named = TestNode { hostname: hostname(&moved), ..TestNode::new(4) };
    let orders = [
        story.by_alice(&gone, &remove(&gone), 1),
        story.by_alice(&split, &decide(&split, Decision::Split), 2),
        story.by_alice(&moved, &decide(&moved, Decision::Keep), 3),
        story.by_alice(&heir, &admit_body(&named, Some(moved.node_id.clone())), 4),
    ];
    let ids = orders.map(|order| story.controller.order(&order));
    // They rest on ledger and roster alone: whoever damages the journal stops no owner.
    story.controller.put("onboarding/state.json", b"{}");
    let summary = story.turn(NOW);
    assert_eq!((summary.ordered, summary.orders_refused, summary.ready), (4, 0, false), "{summary:?}");
    ids.iter().for_each(|id| story.done(*id));
    let records = story.ledger();
    for node in [&gone, &split, &moved] {
        assert!(records.is_barred(&node.fingerprint));
        assert!(!story.worker_file(&format!("receipts/{}.json", node.node_id)).exists());
        assert!(!story.controller.answer_path(&node.node_id).exists());
    }
    assert_eq!(records.owner_of(&moved.hostname).unwrap().names.node_id, heir.node_id);
    assert_eq!(story.turn(NOW).ordered, 0);
}

// spec: OA-12
#[test]
fn a_crash_at_each_step_carries_each_order_out_once_and_tells_it() {
    let mut prepared = Story::owned("");
    let [old, new] = [1, 2].map(TestNode::new);
    prepared.controller.approve(&old);
    prepared.controller.ask(&old);
    let first = prepared.controller.order(&prepared.by_alice(&old, &admit_body(&old, None), 1));
    assert_eq!(prepared.turn(NOW).issued, 1);
    prepared.done(first);
    prepared.controller.approve(&new);
    prepared.controller.ask(&new);
    let ids = [
        prepared.controller.order(&prepared.by_alice(&old, &remove(&old), 2)),
        prepared.controller.order(&prepared.by_alice(&new, &admit_body(&new, None), 3)),
    ];
    let steps = prepared.steps(NOW);
    assert!(steps.len() > 25, "{steps:?}");
    for (nth, step) in steps.iter().enumerate() {
        let story = prepared.dies_at(nth, NOW);
        let later = NOW.plus(secs(5));
        story.turn(later);
        ids.iter().for_each(|id| story.done(*id));
        assert_eq!(story.ledger_kinds("ordered"), 3, "{nth} {step}");
        assert!(story.ledger().is_barred(&old.fingerprint), "{nth} {step}");
        story.accept(&new, later);
        // Once the ledger has them all, none is open any more.
        story.turn(later);
        let kept = std::fs::read_to_string(story.worker_file("intents.json")).unwrap();
        assert!(!kept.contains("\"open\""), "{nth} {step}: {kept}");
        assert_eq!(story.ledger_kinds("ordered"), 3, "{nth} {step}");
    }
}

// spec: OA-12
#[test]
fn an_order_that_was_remembered_is_carried_out_although_its_file_is_gone_and_its_time_over() {
    let prepared = Story::owned("");
    let node = TestNode::new(1);
    let order = prepared.by_alice(&node, &admit_body(&node, None), 1);
    let id = prepared.controller.order(&order);
    // The power went between memory and ledger.
    let mut worker = prepared.worker();
    let plan = ask_at(prepared.scratch.path(), |step, _| if step == "append/write" { Fate::Die } else { Fate::Live });
    worker.turn(NOW).unwrap_err();
    drop((plan, worker));
    assert_eq!(prepared.ledger_kinds("ordered"), 0);
    let late = NOW.plus(secs(7200));
    let story = prepared.again();
    std::fs::remove_file(story.queue_file(&format!("owner-requests/intent-{id}.json"))).unwrap();
    assert_eq!(story.turn(late).ordered, 1);
    assert!(story.ledger().node(&node.node_id).is_some());
    // Somebody here was quicker with another name for it: that is told, and not undone.
    let story = prepared.again();
    let mut other = crate::decide::names(&crate::fixture::request(&node, NOW));
    other.hostname = "web".parse().unwrap();
    let home = story.home();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
    transaction.add(NOW, Entry::Admitted { node: other, by: By::Operator }).unwrap();
    transaction.commit().unwrap();
    for at in [0, 60] {
        let summary = story.turn(NOW.plus(secs(at)));
        assert_eq!(summary.ordered, 0);
        let told = story.controller.outcome(id).unwrap();
        assert_eq!(told.outcome.refused, Some(OrderCode::NotPossible), "{at}");
        let why = Obstacle::OtherName { name: "web".parse().unwrap() };
        assert_eq!(told.message.as_str(), crate::chain(&why));
    }
}

/// threats.md C: an order that was refused for what stood in its way is kept by the controller until that is gone.
// spec: OA-90
#[test]
fn an_order_that_was_refused_stays_refused_when_its_way_is_free_through_every_crash() {
    let prepared = Story::owned("");
    let node = TestNode::new(1);
    // The ledger does not have the node yet.
    let id = prepared.controller.order(&prepared.by_alice(&node, &remove(&node), 1));
    let steps = prepared.steps(NOW);
    assert!(steps.len() > 10, "{steps:?}");
    for (nth, step) in steps.iter().enumerate() {
        let story = prepared.dies_at(nth, NOW);
        story.turn(NOW);
        let told = story.controller.outcome(id).unwrap();
        assert_eq!(told.outcome.refused, Some(OrderCode::NotPossible), "{nth} {step}");
        let why = Obstacle::Unknown(node.node_id.clone());
        assert_eq!(told.message.as_str(), crate::chain(&why), "{nth} {step}");
        let admit = story.controller.order(&story.by_alice(&node, &admit_body(&node, None), 2));
        story.turn(NOW);
        story.done(admit);
        let summary = story.turn(NOW.plus(secs(60)));
        assert_eq!((summary.ordered, summary.orders_refused), (0, 0), "{nth} {step}: {summary:?}");
        assert_eq!(story.controller.outcome(id).unwrap(), told, "{nth} {step}: as it was told first");
        assert!(!story.ledger().is_barred(&node.fingerprint), "{nth} {step}");
        // Whoever lost the answer is told the same; drafted anew it is another order.
        std::fs::remove_file(story.queue_file(&format!("owner-responses/intent-{id}.json"))).unwrap();
        let anew = story.controller.order(&story.by_alice(&node, &remove(&node), 3));
        story.turn(NOW.plus(secs(60)));
        let again = story.controller.outcome(id).unwrap();
        assert_eq!(again.outcome.refused, Some(OrderCode::NotPossible), "{nth} {step}");
        let why = OrderRefusal::RefusedBefore(OrderCode::NotPossible);
        assert_eq!(again.message.as_str(), crate::chain(&why), "{nth} {step}");
        story.done(anew);
        assert!(story.ledger().is_barred(&node.fingerprint), "{nth} {step}");
    }
}

/// The power went between memory and ledger, and before the next turn somebody left the roster.
// spec: OA-40
#[test]
fn an_order_that_was_remembered_is_dropped_when_its_owner_left_meanwhile() {
    for (leaves, want) in [("alice", Some(OrderCode::OwnerUnknown)), ("bob", None)] {
        let story = Story::owned("");
        story.enter(&bob(), Role::Owner).unwrap();
        let node = TestNode::new(1);
        let id = story.controller.order(&story.by_alice(&node, &admit_body(&node, None), 1));
        let mut worker = story.worker();
        let plan = ask_at(story.scratch.path(), |step, _| if step == "append/write" { Fate::Die } else { Fate::Live });
        worker.turn(NOW).unwrap_err();
        drop((plan, worker));
        let story = story.again();
        assert!(std::fs::read_to_string(story.worker_file("intents.json")).unwrap().contains("\"open\""));
        story.leave(leaves).unwrap();
        // Neither with the order's file nor without it, in this turn or a later one.
        for (at, ordered) in [(0, u64::from(want.is_none())), (60, 0)] {
            let summary = story.turn(NOW.plus(secs(at)));
            assert_eq!(u64::try_from(summary.ordered).unwrap(), ordered, "{leaves} {at}");
            assert_eq!(story.controller.outcome(id).unwrap().outcome.refused, want, "{leaves} {at}");
            assert_eq!(story.ledger().node(&node.node_id).is_some(), want.is_none(), "{leaves} {at}");
        }
        assert!(!std::fs::read_to_string(story.worker_file("intents.json")).unwrap().contains("\"open\""), "{leaves}");
    }
}

/// The controller hands such an order out anew without the signature of who left: it is not told as carried out, which it
/// never was.
// spec: OA-40
#[test]
fn an_order_that_was_remembered_and_dropped_is_never_told_as_carried_out() {
    let story = Story::owned("");
    story.enter(&bob(), Role::Owner).unwrap();
    let node = TestNode::new(1);
    let drafted = draft(&alice(), story.identity().root.sha256(), NOW, &node.node_id, &admit_body(&node, None), 1);
    let id = story.controller.order(&signed(&drafted, &[&alice(), &bob()]));
    let mut worker = story.worker();
    let plan = ask_at(story.scratch.path(), |step, _| if step == "append/write" { Fate::Die } else { Fate::Live });
    worker.turn(NOW).unwrap_err();
    drop((plan, worker));
    let story = story.again();
    story.leave("bob").unwrap();
    story.turn(NOW);
    assert_eq!(story.controller.outcome(id).unwrap().outcome.refused, Some(OrderCode::OwnerUnknown));
    // It takes that answer, and asks anew.
    let request = story.queue_file(&format!("owner-requests/intent-{id}.json"));
    std::fs::remove_file(request).unwrap();
    story.turn(NOW.plus(secs(5)));
    assert_eq!(story.controller.outcome(id), None);
    story.controller.order(&signed(&drafted, &[&alice()]));
    for at in [10, 15] {
        story.turn(NOW.plus(secs(at)));
        assert_eq!(story.controller.outcome(id).unwrap().outcome.refused, Some(OrderCode::OwnerUnknown), "{at}");
        assert!(story.ledger().node(&node.node_id).is_none(), "{at}");
    }
}

//! Orders for nodes that were removed meanwhile, and what is still told of such a node.

use lucia_people::owner_api::DraftState;
use lucia_people::why::{KeyEnd, Machine};
use lucia_proto::base::code::Code;
use lucia_proto::orders::{Body, CloneDecision, Decision, Draft, OrderKind};

use super::{OPERATOR, handed, keys, ordered, owned, state_of, tells, worker_says};

// spec: PG-90
#[test]
fn an_order_for_a_node_that_was_removed_is_not_done() {
    let (world, fleet, node) = owned();
    let id = ordered(&world, &fleet, &keys(&fleet, 4));
    let draft = keys(&fleet, 5);
    let code = draft.read().unwrap().code();
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    assert!(state_of(&world, id).gone.is_empty());
    let at = world.now();
    world.parts.enrollment.remove(&node.node.node_id, "owner:alice").unwrap();
    let line = state_of(&world, id);
    assert_eq!(line.state, DraftState::NobodyLeft);
    let [gone] = line.gone.as_slice() else { panic!("{line:?}") };
    assert_eq!((&gone.node_id, gone.hostname.as_ref()), (&node.node.node_id, Some(&node.node.hostname)));
    assert_eq!(gone.removed_at, Some(at));
    let words = line.words();
    assert!(words.contains(node.node.hostname.as_str()) && words.contains(&at.to_string()), "{words}");
    assert!(!line.handed_out, "nobody carries it out any more");
    // One that nobody signed yet is not signed for nothing.
    let waiting = world.parts.orders.drafts(None).unwrap().drafts.into_iter().find(|line| line.code == code).unwrap();
    assert_eq!(waiting.state, DraftState::NobodyLeft);
    let refused = world.parts.orders.sign(&code, fleet.alice.sign(&draft), &OPERATOR).unwrap_err();
    assert_eq!(refused.code, Code::UnknownNode);
    world.parts.orders.drop_draft(&code, &OPERATOR).unwrap();
    world.parts.orders.drop_draft(&line.code, &OPERATOR).unwrap();
}

/// threats.md O: an owner signs keys alone where two are asked, and has the node removed; the next order about the account
/// begins with the keys of the last one that was given.
// spec: CO-99
#[test]
fn a_draft_that_lacks_a_second_owner_is_none_that_was_given_although_its_node_is_gone() {
    let (world, mut fleet, node) = owned();
    fleet.change_roster(|roster| {
        roster.policy =
            lucia_proto::orders::OrderPolicy::allow_all().with_default(lucia_proto::orders::Rule::TwoOwners);
    });
    super::super::owners::publish(&world, &fleet);
    let draft = keys(&fleet, 4);
    let id = ordered(&world, &fleet, &draft);
    world.parts.enrollment.remove(&node.node.node_id, "owner:alice").unwrap();
    let line = state_of(&world, id);
    assert_eq!((line.state, line.signers.len(), line.gone.len()), (DraftState::Drafted, 1, 1));
    let code = draft.read().unwrap().code();
    let refused = world.parts.orders.sign(&code, fleet.bob.sign(&draft), &OPERATOR).unwrap_err();
    assert_eq!(refused.code, Code::UnknownNode);
    world.parts.orders.drop_draft(&code, &OPERATOR).unwrap();
}

// spec: PG-90
#[test]
fn what_a_node_told_before_it_was_removed_stays_told() {
    let (world, fleet, node) = owned();
    let id = ordered(&world, &fleet, &keys(&fleet, 4));
    assert_eq!(handed(&world, &node, &fleet), Some(id));
    tells(&world, &node, &fleet, id, None);
    world.parts.enrollment.remove(&node.node.node_id, "operator:0").unwrap();
    let line = state_of(&world, id);
    assert_eq!((line.state, line.gone.len()), (DraftState::Done, 0));
    // That a holder goes on is not so where the node is gone.
    let (world, fleet, node) = owned();
    let hostname = node.node.hostname.clone();
    let start_id = Some("a".repeat(32).parse().unwrap());
    let keep = Body::CloneDecision(CloneDecision { hostname, decision: Decision::Keep, start_id });
    let id = ordered(&world, &fleet, &Draft::new(fleet.intent(OrderKind::CloneDecision), &keep).unwrap());
    world.parts.enrollment.remove(&node.node.node_id, "operator:0").unwrap();
    world.parts.tick();
    assert_eq!(state_of(&world, id).state, DraftState::NobodyLeft);
}

// spec: PG-91, PG-112
#[test]
fn of_a_removed_node_is_told_when_by_whom_and_what_the_worker_waits_for() {
    let (world, fleet, node) = owned();
    let id = &node.node.node_id;
    assert_eq!(world.parts.orders.removed(id), None);
    let at = world.now();
    world.parts.enrollment.remove(id, "operator:0").unwrap();
    let refused = world.parts.node(id).unwrap_err();
    assert_eq!(refused.code, Code::UnknownNode);
    let name = &node.node.hostname;
    let removed = world.parts.orders.removed(id).unwrap();
    assert_eq!((removed.hostname.as_ref(), removed.at, removed.by.as_str()), (Some(name), at, "operator:0"));
    assert_eq!((&removed.key, removed.machine), (&KeyEnd::AwaitsConfirmation, Machine::Kept));
    for cure in [
        removed.to_string(),
        format!("lucia-enrollment-worker confirm-removals {name}"),
        "lucia-node-agent rekey".to_owned(),
    ] {
        assert!(refused.message.contains(&cure), "{}", refused.message);
    }
    // The worker barred the key, and the machine was removed here before it heard of that.
    let (world, unheard, node) = owned();
    let order = ordered(&world, &unheard, &unheard.draft(OrderKind::RemoveIdentity, |_| ()));
    worker_says(&world, &node, order, None);
    world.parts.enrollment.remove(&node.node.node_id, "operator:0").unwrap();
    let removed = world.parts.orders.removed(&node.node.node_id).unwrap();
    assert_eq!(removed.machine, Machine::Unheard);
    // Of one that an owner's order removed nothing is awaited.
    let (world, fleet_2, node) = owned();
    drop(fleet);
    let draft = fleet_2.draft(OrderKind::RemoveIdentity, |_| ());
    let order = ordered(&world, &fleet_2, &draft);
    worker_says(&world, &node, order, None);
    tells(&world, &node, &fleet_2, order, None);
    let removed = world.parts.orders.removed(&node.node.node_id).unwrap();
    let code = draft.read().unwrap().code();
    assert_eq!((removed.by.as_str(), removed.key), ("owner:alice", KeyEnd::Barred(code)));
    assert_eq!(removed.machine, Machine::Wiped);
    assert_eq!(state_of(&world, order).state, DraftState::Done, "that it is gone is what was ordered");
    let stranger: lucia_proto::base::ids::NodeId = "f".repeat(32).parse().unwrap();
    let unknown = world.parts.node(&stranger).unwrap_err();
    assert_eq!((unknown.code, world.parts.orders.removed(&stranger)), (Code::UnknownNode, None));
    assert!(unknown.message.contains(stranger.as_str()) && !unknown.message.contains("lucia-"), "{unknown}");
}

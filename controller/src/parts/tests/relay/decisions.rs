//! Two who have one identity, and what each of them is told of the decision.

use super::*;

// spec: CO-17
#[test]
fn a_frozen_identity_is_told_of_the_decision_and_of_nothing_else() {
    let (world, fleet, node) = owned();
    let [one, two] = ["01", "02"].map(|pair| pair.repeat(16));
    let start = |id: &str, former: &str| format!(r#","startId":"{id}","formerStarts":[{former}]"#);
    let report = holding(&fleet);
    say(&world, &node, &report, &start(&one, ""));
    say(&world, &node, &report, &start(&two, &format!("\"{one}\"")));
    let key = ordered(&world, &fleet, &keys(&fleet, 4));
    let reply = say(&world, &node, &report, &start(&one, ""));
    assert!(reply.frozen && reply.orders.is_none(), "{reply:?}");
    let decision = Body::CloneDecision(CloneDecision {
        hostname: node.node.hostname.clone(),
        decision: Decision::Keep,
        start_id: Some(two.parse().unwrap()),
    });
    let draft = Draft::new(fleet.intent(OrderKind::CloneDecision), &decision).unwrap();
    let id = ordered(&world, &fleet, &draft);
    assert!(say(&world, &node, &report, &start(&one, "")).orders.is_none(), "the worker comes first");
    worker_says(&world, &node, id, None);
    world.parts.tick();
    // The controller keeps the one that was named: it goes on, with what waited longest.
    let (first, second) = (start(&one, ""), start(&two, &format!("\"{one}\"")));
    let done = |intent| OrdersReport { outcomes: vec![NodeOutcome { intent, refused: None }], ..holding(&fleet) };
    let handed = |reply: HeartbeatReply| reply.orders.unwrap().intent.unwrap().id();
    let kept = say(&world, &node, &report, &second);
    assert!(!kept.frozen);
    assert_eq!(handed(kept), key);
    // Whoever was not kept is told of the decision, and speaks for nobody.
    assert_eq!(handed(say(&world, &node, &done(id), &first)), id);
    assert_eq!(handed(say(&world, &node, &done(key), &first)), id);
    world.parts.tick();
    assert_eq!((state_of(&world, id).state, state_of(&world, key).state), (DraftState::Signed, DraftState::Signed));
    assert_eq!(handed(say(&world, &node, &done(key), &second)), id);
    assert!(say(&world, &node, &done(id), &second).orders.is_none());
    world.parts.tick();
    assert_eq!((state_of(&world, id).state, state_of(&world, key).state), (DraftState::Done, DraftState::Done));
    // As long as the order counts.
    assert_eq!(handed(say(&world, &node, &report, &first)), id);
    world.advance(ORDER_LIFETIME_MAX.as_secs());
    assert!(say(&world, &node, &report, &first).orders.is_none());
}

/// A split has no holder who goes on, so both are to hear it before the controller knows neither of them any more.
// spec: CO-50
#[test]
fn a_split_is_offered_to_both_holders_and_then_the_controller_lets_go_of_the_node() {
    for both in [true, false] {
        let (world, fleet, node) = owned();
        let [one, two] = ["01", "02"].map(|pair| pair.repeat(16));
        let start = |id: &str, former: &str| format!(r#","startId":"{id}","formerStarts":[{former}]"#);
        let (first, second) = (start(&one, ""), start(&two, &format!("\"{one}\"")));
        let report = holding(&fleet);
        for holder in [&first, &second, &first] {
            say(&world, &node, &report, holder);
        }
        let hostname = node.node.hostname.clone();
        let split = Body::CloneDecision(CloneDecision { hostname, decision: Decision::Split, start_id: None });
        let id = ordered(&world, &fleet, &Draft::new(fleet.intent(OrderKind::CloneDecision), &split).unwrap());
        worker_says(&world, &node, id, None);
        world.parts.tick();
        assert!(world.phase(&node).is_some(), "nobody heard it yet");
        let handed = |reply: HeartbeatReply| reply.orders.and_then(|orders| orders.intent).map(|intent| intent.id());
        let done = OrdersReport { outcomes: vec![NodeOutcome { intent: id, refused: None }], ..holding(&fleet) };
        assert_eq!(handed(say(&world, &node, &report, &first)), Some(id));
        say(&world, &node, &done, &first);
        world.parts.tick();
        assert!(world.phase(&node).is_some(), "the other one is to hear it as well");
        if both {
            assert_eq!(handed(say(&world, &node, &report, &second)), Some(id));
            say(&world, &node, &done, &second);
        }
        world.advance(SPLIT_OFFERED.as_secs() - 10);
        world.parts.tick();
        assert!(world.phase(&node).is_some());
        world.advance(10);
        world.parts.tick();
        assert_eq!((world.phase(&node), state_of(&world, id).state), (None, DraftState::Done), "{both}");
    }
}

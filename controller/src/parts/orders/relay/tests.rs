//! What one reply has room for, and whose question of freshness is asked when.

use super::*;
use lucia_proto::orders::OrderKind;
use lucia_proto::orders::freshness::FreshnessAnswer;
use lucia_proto::test_support::OrderWorld;

/// What an agent of this version carries out.
fn all() -> Carries {
    Carries::of(&lucia_proto::node::agent::features())
}

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

// spec: CO-19
#[test]
fn what_has_no_room_comes_with_the_next_heartbeat() {
    let world = OrderWorld::new(NOW);
    let mut relay = Relay::default();
    let (bundle, roster) = (Arc::new(world.bundle.clone()), Some(Arc::new(world.roster.clone())));
    relay.set_trust(Some(Trust { bundle, roster }));
    let mut signed = world.order(OrderKind::SshKey);
    signed.body = "x".repeat(61 * 1024);
    let order = Arc::new(Waiting::new((signed.id(), OrderKind::SshKey), Effect::None, None, signed));
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
        let reply = relay.hear(node, &report, (None, CallerKind::Free, all()), NOW, hour);
        assert_eq!((reply.bundle.is_some(), reply.roster.is_some(), reply.intent.is_some()), want);
        assert!(json::to_string(&reply).unwrap().len() + REPLY_BASE <= ANSWER_MAX);
    }
    // Once its time is over an order is handed out no more, whatever the ticks have come to.
    let mut signed = world.order(OrderKind::RemoveIdentity);
    signed.body.clear();
    let order = Arc::new(Waiting::new((signed.id(), OrderKind::RemoveIdentity), Effect::Wipes, Some(NOW), signed));
    relay.set_orders([(node.clone(), vec![order])].into(), BTreeMap::new());
    let report = holding(3, 5).1;
    assert!(relay.hear(node, &report, (None, CallerKind::Free, all()), NOW, hour).intent.is_some());
    assert!(
        relay
            .hear(node, &report, (None, CallerKind::Free, all()), NOW.plus(Duration::from_secs(1)), hour)
            .intent
            .is_none()
    );
}

// spec: VE-403
#[test]
fn an_order_of_a_kind_that_the_agent_did_not_name_waits_and_holds_up_none_behind_it() {
    let world = OrderWorld::new(NOW);
    let mut relay = Relay::default();
    let (bundle, roster) = (Arc::new(world.bundle.clone()), Some(Arc::new(world.roster.clone())));
    relay.set_trust(Some(Trust { bundle, roster }));
    let order = |kind: OrderKind| {
        let signed = world.order(kind);
        Arc::new(Waiting::new((signed.id(), kind), Effect::None, None, signed))
    };
    let (first, second) = (order(OrderKind::RemoveIdentity), order(OrderKind::SshKey));
    let node = &world.node.node_id;
    relay.set_orders([(node.clone(), vec![Arc::clone(&first), Arc::clone(&second)])].into(), BTreeMap::new());
    let mut next = |words: &[&str]| {
        let names: Vec<_> = words.iter().map(|word| word.parse().unwrap()).collect();
        let carries = Carries::of(&names.try_into().unwrap());
        let reply = relay.hear(node, &asking(None), (None, CallerKind::Free, carries), NOW, Duration::ZERO);
        reply.intent.map(|signed| signed.id())
    };
    // An agent of before features carries out what there was then.
    assert_eq!(next(&[]), Some(first.id));
    assert_eq!(next(&["remove-identity", "ssh-key"]), Some(first.id));
    assert_eq!(next(&["ssh-key"]), Some(second.id));
    assert_eq!(next(&["extensions", "later"]), None);
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
    let [one, two] = [1, 2].map(|byte| StartId::from_random([byte; 16]));
    let mut relay = Relay::default();
    let at = Duration::from_secs(3600);
    let interval = FRESHNESS_ASKED_INTERVAL;
    let hear = |relay: &mut Relay, nonce: Option<&Nonce>, by: (&StartId, CallerKind), at| {
        relay.hear(node, &asking(nonce), (Some(by.0), by.1, all()), NOW, at).freshness
    };
    let (ours, theirs) = ((&one, CallerKind::Frozen), (&two, CallerKind::Frozen));
    hear(&mut relay, Some(&first), ours, at);
    // The other holder asks nothing, and then something: the question stays, and so does what was heard when.
    for later in [Duration::ZERO, interval / 2, interval * 2] {
        hear(&mut relay, None, theirs, at + later);
        hear(&mut relay, Some(&second), theirs, at + later);
        assert_eq!(relay.unwritten(8, at + later), [(node.clone(), first.clone())], "{later:?}");
    }
    relay.written(node, &first, at);
    hear(&mut relay, None, (&one, CallerKind::Free), at + interval / 2);
    assert_eq!((relay.unanswered(), relay.take_withdrawn()), (vec![(node.clone(), first.clone())], vec![]));
    assert_eq!(relay.unwritten(8, at + interval * 2), [], "the worker is asked one of them at a time");
    // Whoever was not kept asks nothing.
    hear(&mut relay, Some(&third), (&StartId::from_random([3; 16]), CallerKind::Refused), at + interval);
    assert_eq!(relay.questions.get(node).map(Vec::len), Some(2));
    let answer = |nonce: &Nonce| {
        let answer = FreshnessAnswer {
            fleet: world.fleet,
            node_id: node.clone(),
            nonce: nonce.clone(),
            bundle_version: 3,
            roster_version: 5,
            time: NOW,
        };
        SignedFreshness::sign(&answer, &world.ca.worker_key).unwrap()
    };
    relay.answered(node.clone(), first.clone(), answer(&first), at + interval / 2);
    assert_eq!(relay.take_withdrawn(), [], "the other one's question takes its place");
    assert_eq!(relay.unwritten(8, at + interval / 2), [], "each is a write");
    assert_eq!(relay.unwritten(8, at + interval), [(node.clone(), second.clone())]);
    relay.written(node, &second, at + interval);
    assert_eq!(relay.handed_at(node), None);
    assert_eq!(hear(&mut relay, Some(&first), ours, at + interval), Some(answer(&first)));
    assert_eq!(relay.handed_at(node), Some(NOW));
    relay.answered(node.clone(), second.clone(), answer(&second), at + interval);
    assert_eq!(relay.take_withdrawn(), std::slice::from_ref(node), "what is answered lies there no more");
    hear(&mut relay, None, ours, at + interval);
    assert_eq!(hear(&mut relay, Some(&second), theirs, at + interval), Some(answer(&second)));
    assert_eq!(hear(&mut relay, Some(&first), ours, at + interval), Some(answer(&first)));
    // Age ends them.
    hear(&mut relay, Some(&third), ours, at + interval);
    let end = at + interval + FRESHNESS_QUESTION;
    relay.retain(end - Duration::from_nanos(1), |_| true);
    assert_eq!((relay.questions.len(), relay.answers.len()), (1, 1));
    relay.retain(end, |_| true);
    assert_eq!((relay.questions.len(), relay.answers.len(), relay.written.len()), (0, 0, 0));
    assert_eq!(relay.handed_at(node), Some(NOW), "a node keeps it for a day");
    assert_eq!(relay.take_withdrawn(), std::slice::from_ref(node));
}

/// However often whoever has the key begins anew, a question that waits stays, and they are few.
// spec: CO-52
#[test]
fn each_holder_has_a_question_of_its_own_and_there_are_few_of_one_node() {
    let world = OrderWorld::new(NOW);
    let node = &world.node.node_id;
    let mut relay = Relay::default();
    let at = Duration::from_secs(3600);
    let ask = |relay: &mut Relay, start: u8, nonce: u8, at| {
        let (start, nonce) = (StartId::from_random([start; 16]), Nonce::from_bytes(&[nonce; 32]));
        relay.hear(node, &asking(Some(&nonce)), (Some(&start), CallerKind::Free, all()), NOW, at);
    };
    ask(&mut relay, 1, 1, at);
    for other in 2..200 {
        ask(&mut relay, other, other, at + Duration::from_secs(1));
    }
    let open = |relay: &Relay| {
        let asked = relay.questions.get(node).into_iter().flatten();
        asked.map(|question| question.nonce.clone()).collect::<Vec<_>>()
    };
    let nonce = |byte| Nonce::from_bytes(&[byte; 32]);
    assert_eq!(open(&relay), [1, 2, 3, 4].map(nonce));
    // Its own next question takes the place of its own, and no sooner than each is worth a write.
    ask(&mut relay, 1, 201, at + FRESHNESS_ASKED_INTERVAL - Duration::from_nanos(1));
    assert_eq!(open(&relay), [1, 2, 3, 4].map(nonce));
    ask(&mut relay, 1, 201, at + FRESHNESS_ASKED_INTERVAL);
    assert_eq!(open(&relay), [201, 2, 3, 4].map(nonce));
    assert_eq!(relay.unwritten(8, at), [(node.clone(), nonce(2))], "who waits longest");
}

// spec: CO-20
#[test]
fn whose_question_waits_longest_is_written_first() {
    let nodes: Vec<NodeId> = (0..9).map(|n| format!("{n:032x}").parse().unwrap()).collect();
    let (honest, bad) = nodes.split_last().unwrap();
    let [first, second, _] = nonces();
    let mut relay = Relay::default();
    let hear = |relay: &mut Relay, node: &NodeId, nonce: &Nonce, at| {
        relay.hear(node, &asking(Some(nonce)), (None, CallerKind::Free, all()), NOW, at);
    };
    let at = Duration::from_secs(3600);
    hear(&mut relay, honest, &first, at);
    // They ask another one as soon as they may.
    for (nonce, at) in [(&first, at), (&second, at + FRESHNESS_ASKED_INTERVAL)] {
        bad.iter().for_each(|node| hear(&mut relay, node, nonce, at));
    }
    assert_eq!(relay.unwritten(8, at)[0], (honest.clone(), first));
    assert_eq!(relay.unwritten(8, at).len(), 8);
}

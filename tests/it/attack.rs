//! Challenges, proofs and identities under attack (threats.md S), through the whole edge.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lucia_agent::client::transport::Request;
use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::{ChallengeId, Scope};
use lucia_proto::node::report::Proof;
use lucia_proto::test_support::{TestNode, key};

use crate::world::{Hand, Machine, Reply, SEEDS, World};

const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// A calm world with one node, called like `TestNode::new(1)`, and a hand that has all it has.
async fn node() -> (World, Machine, Hand) {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::known(&world, 1);
    machine.join().await;
    world.calm();
    machine.kill();
    world.settle();
    let hand = Hand::in_machine(&world, &machine);
    (world, machine, hand)
}

/// What a node sent as its last heartbeat.
fn heartbeat(world: &World) -> String {
    world.last_report(Endpoint::Heartbeat, &TestNode::new(1).node_id)
}

/// The same signature in its other form: (r, n - s).
fn other_s(proof: &Proof) -> Proof {
    // The order of P-256.
    const N: [u8; 32] = [
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad,
        0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ];
    let mut bytes = STANDARD.decode(&proof.signature).unwrap();
    let mut borrow = 0;
    for (s, n) in bytes[32..].iter_mut().zip(N).rev() {
        let less = i16::from(n) - i16::from(*s) - borrow;
        borrow = i16::from(less < 0);
        *s = u8::try_from(less.rem_euclid(256)).unwrap();
    }
    Proof { signature: STANDARD.encode(bytes), ..proof.clone() }
}

/// The same request by a hundred connections at once: one is accepted, and no other form of it ever is.
// spec: TS-17
#[tokio::test(start_paused = true)]
async fn s_3_of_a_hundred_uses_of_a_challenge_one_wins() {
    let (world, machine, mut hand) = node().await;
    let report = heartbeat(&world);
    let challenge = hand.challenge();
    let proof = hand.prove(&report, &challenge);
    let request = hand.carry(Endpoint::Heartbeat, proof.clone());
    let mut uses = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for _ in 0..50 {
        // Two connections an address: one source has 64 places.
        let (mut hand, request) = (Hand::in_machine(&world, &machine), request.clone());
        uses.spawn_local_on(async move { hand.send(&request).await }, &local);
    }
    let mut replies = local.run_until(async { uses.join_all().await }).await;
    for _ in 0..50 {
        replies.push(hand.send(&request).await);
    }
    let accepted = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(accepted, 1);
    assert!(replies.iter().all(|reply| reply.status == 200 || reply.code() == Some(Code::ChallengeRefused)));
    for again in [other_s(&proof), hand.prove(&format!("{report} "), &challenge)] {
        let request = hand.carry(Endpoint::Heartbeat, again);
        assert_eq!(hand.send(&request).await.code(), Some(Code::ChallengeRefused));
    }
}

/// A challenge is of one node, one address and one start of one controller.
// spec: TS-18
#[tokio::test(start_paused = true)]
async fn s_4_a_challenge_of_anything_else_is_refused_and_changes_nothing() {
    let (world, machine, mut hand) = node().await;
    let report = heartbeat(&world);
    let other = Scope::Node(TestNode::new(2).node_id);
    let strangers: Vec<IpAddr> = vec!["10.0.0.77".parse().unwrap(), "fd00::1".parse().unwrap()];
    let mut challenges =
        vec![("of another node", hand.challenge_of(&other)), ("of first contact", hand.challenge_of(&Scope::Boot))];
    let next = |from| world.controller().challenges.issue(&Scope::Node(machine.id()), from).challenge();
    challenges.extend(strangers.into_iter().map(|from| ("of another address", next(from))));
    let mut forged = hand.challenge();
    forged.challenge_id = ChallengeId::from_parts(world.now().secs() * 1000, 7);
    challenges.push(("made up", forged));
    challenges.push(("of before the restart", hand.challenge()));
    world.restart_controller().await;
    let before = world.durable();
    for (what, challenge) in challenges {
        let request = hand.carry(Endpoint::Heartbeat, hand.prove(&report, &challenge));
        let reply = hand.send(&request).await;
        assert_eq!(reply.code(), Some(Code::ChallengeRefused), "{what}");
        assert!(reply.headers.contains_key("lucia-challenge"), "{what}: the next one comes with it");
        assert_eq!(world.durable(), before, "{what}");
    }
    assert_eq!(hand.say(Endpoint::Heartbeat, &report).await.status, 200);
}

/// A report that was signed for one purpose is worth nothing at any other endpoint, and under any other id.
// spec: TS-19
#[tokio::test(start_paused = true)]
async fn s_8_a_signature_for_one_purpose_is_refused_everywhere_else() {
    let (world, machine, mut hand) = node().await;
    let before = world.durable();
    let (id, beat) = (machine.id(), heartbeat(&world));
    let renew = format!(
        r#"{{"nodeId":"{id}","purpose":"renew","taskId":"{}","csrPem":{}}}"#,
        world.journal().devices[0].task_id.as_ref().unwrap(),
        serde_json::to_string(&TestNode::new(1).csr()).unwrap(),
    );
    let reports = [
        (Endpoint::Heartbeat, beat),
        (Endpoint::Renew, renew.clone()),
        (Endpoint::Enroll, renew.replace("renew", "enroll")),
        (Endpoint::DeviceState, format!(r#"{{"nodeId":"{id}","purpose":"device-state"}}"#)),
        (Endpoint::Installation, format!(r#"{{"nodeId":"{id}","purpose":"installation"}}"#)),
        (Endpoint::Progress, format!(r#"{{"nodeId":"{id}","purpose":"progress","phase":"Failed","message":""}}"#)),
    ];
    for (made_for, report) in &reports {
        for (shown_to, _) in reports.iter().filter(|(shown_to, _)| shown_to != made_for) {
            let reply = hand.say(*shown_to, report).await;
            let refused = matches!(reply.code(), Some(Code::NodeIdentityInvalid | Code::InvalidBody));
            assert!(refused, "{made_for:?} at {shown_to:?}: {reply:?}");
        }
        let other = report.replace(id.as_str(), TestNode::new(2).node_id.as_str());
        let reply = hand.say(*made_for, &other).await;
        assert_eq!(reply.code(), Some(Code::NodeIdentityInvalid), "{made_for:?} naming another node");
    }
    assert_eq!(world.durable(), before);
}

/// Removed, unknown, of another key, with another certificate: one and the same answer.
// spec: TS-20
#[tokio::test(start_paused = true)]
async fn s_11_every_wrong_identity_gets_one_and_the_same_answer() {
    let (world, machine, mut hand) = node().await;
    let mut second = Machine::known(&world, 2);
    second.join().await;
    let mut removed = Machine::known(&world, 3);
    removed.join().await;
    world.remove(&removed.id());
    world.settle();
    let before = world.durable();
    let beat = heartbeat(&world);
    let of = |id: &lucia_proto::base::ids::NodeId| beat.replace(machine.id().as_str(), id.as_str());
    let unknown = TestNode::new(9);
    let mut replies: Vec<(&str, Reply)> = Vec::new();
    let mut gone = Hand::in_machine(&world, &removed);
    replies.push(("removed", gone.say(Endpoint::Heartbeat, &of(&removed.id())).await));
    let mut never = Hand::in_machine(&world, &machine).with_key(key(9)).calling(&unknown.node_id);
    replies.push(("unknown", never.say(Endpoint::Heartbeat, &of(&unknown.node_id)).await));
    let mut forger = Hand::in_machine(&world, &machine).with_key(key(2));
    replies.push(("another key", forger.say(Endpoint::Heartbeat, &beat).await));
    let own = hand.certificate_pem.clone();
    for (what, pem) in [
        ("another node's certificate", second.certificate_pem()),
        ("a removed node's certificate", removed.certificate_pem()),
        ("no certificate", "x".to_owned()),
        ("the issuing CA as leaf", world.ca().issuing_pem()),
    ] {
        hand.certificate_pem = pem;
        replies.push((what, hand.say(Endpoint::Heartbeat, &beat).await));
    }
    hand.certificate_pem = own;
    for (what, reply) in &replies {
        assert_eq!(reply.code(), Some(Code::NodeIdentityInvalid), "{what}");
        assert_eq!(reply, &replies[0].1, "{what}");
    }
    assert_eq!(world.durable(), before);
    assert_eq!(hand.say(Endpoint::Heartbeat, &beat).await.status, 200);
}

/// A lapsed leaf renews, and opens nothing else; one that is not valid yet opens nothing at all.
// spec: TS-21
#[tokio::test(start_paused = true)]
async fn s_12_a_leaf_out_of_its_time_opens_nothing_but_renew() {
    let (world, machine, mut hand) = node().await;
    let (beat, own) = (heartbeat(&world), hand.certificate_pem.clone());
    let test_node = TestNode::new(1);
    hand.certificate_pem = world.ca().issue(&test_node, world.now().plus(DAY));
    assert_eq!(hand.say(Endpoint::Heartbeat, &beat).await.code(), Some(Code::NodeIdentityInvalid), "not yet valid");
    hand.certificate_pem = own;
    world.sleep_through(8 * DAY).await;
    let before = world.durable();
    assert_eq!(hand.say(Endpoint::Heartbeat, &beat).await.code(), Some(Code::NodeIdentityInvalid), "lapsed");
    assert_eq!(world.durable(), before);
    let renew = format!(
        r#"{{"nodeId":"{}","purpose":"renew","taskId":"{}","csrPem":{}}}"#,
        machine.id(),
        world.journal().devices[0].task_id.as_ref().unwrap(),
        serde_json::to_string(&test_node.csr()).unwrap(),
    );
    world.worker_turn(world.now());
    assert_eq!(hand.say(Endpoint::Renew, &renew).await.status, 202);
    world.worker_turn(world.now());
    assert_eq!(hand.say(Endpoint::Renew, &renew).await.status, 200);
}

/// Every request that a node ever sent, sent again: each is refused, and nothing moves.
// spec: TS-22
#[tokio::test(start_paused = true)]
async fn b_3_no_recorded_request_works_a_second_time() {
    let world = World::new(SEEDS[2]);
    world.admit_by_journal();
    let mut machine = Machine::known(&world, 1);
    machine.join().await;
    machine.kill();
    world.settle();
    let before = world.durable();
    let recorded: Vec<(Endpoint, Request)> = world
        .seen()
        .into_iter()
        .filter(|seen| seen.status == Some(200))
        .map(|seen| (seen.call, seen.request))
        .collect();
    let mut hand = Hand::in_machine(&world, &machine);
    let mut signed = 0;
    for (call, request) in recorded {
        if request.proof.is_none() && request.body.is_none() {
            continue;
        }
        signed += 1;
        let code = hand.send(&request).await.code();
        assert!(matches!(code, Some(Code::ChallengeRefused | Code::AdmissionClosed)), "{call:?}: {code:?}");
        assert_eq!(world.durable(), before, "{call:?}");
    }
    assert!(signed > 6, "{signed}");
}

//! Hostile JSON, certificates, CSRs and readings (threats.md J, C, V) through the whole stack: each is refused, and
//! nothing that is kept changes.

use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::test_support::{TestNode, hostile_csrs, hostile_leaves};

use crate::world::{Hand, Machine, SEEDS, World};

/// A calm world with one node, that of `TestNode::new(1)`, and a hand that has all it has.
async fn node() -> (World, Hand) {
    let world = World::new(SEEDS[1]);
    world.admit_by_journal();
    let mut machine = Machine::known(&world, 1);
    machine.join().await;
    world.calm();
    machine.kill();
    world.settle();
    let hand = Hand::in_machine(&world, &machine);
    (world, hand)
}

fn heartbeat(world: &World) -> String {
    world.last_report(Endpoint::Heartbeat, &TestNode::new(1).node_id)
}

/// The same with other bytes at one place.
fn with(text: &str, from: &str, to: &str) -> Vec<u8> {
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1).into_bytes()
}

/// Signed, and still not JSON of ours.
// spec: TS-23
#[tokio::test(start_paused = true)]
async fn j_a_signed_report_in_strange_json_is_refused() {
    let (world, mut hand) = node().await;
    let (before, good) = (world.durable(), heartbeat(&world));
    let deep = format!(r#""extensions":{}{}"#, "[".repeat(100), "]".repeat(100));
    let rows = [
        ("J-1", r#""purpose":"heartbeat""#, r#""purpose":"heartbeat","purpose":"heartbeat""#),
        ("J-1 escaped", r#""purpose":"heartbeat""#, r#""purpose":"heartbeat","\u0070urpose":"heartbeat""#),
        ("J-2 array", "{", "[{"),
        ("J-2 null", r#""heartbeat""#, "null"),
        ("J-3", r#""purpose":"heartbeat""#, r#""purpose":"heartbeat","isAdmin":true"#),
        ("J-4 1e400", r#""purpose":"heartbeat""#, r#""purpose":"heartbeat","gpuPercent":1e400"#),
        ("J-5", r#""purpose":"heartbeat""#, &format!(r#""purpose":"heartbeat",{deep}"#)),
        ("J-6 surrogate", r#""osVersion":""#, r#""osVersion":"\ud800"#),
        ("J-6 NUL", r#""osVersion":""#, r#""osVersion":"\u0000"#),
        ("J-6 BOM", "{", "\u{feff}{"),
        ("J-7 comment", "{", "{/**/"),
        ("J-7 second", "{", "{}{"),
    ];
    for (name, from, to) in rows {
        let report = String::from_utf8(with(&good, from, to)).unwrap();
        let reply = hand.say(Endpoint::Heartbeat, &report).await;
        assert!(matches!(reply.code(), Some(Code::InvalidBody)), "{name}: {reply:?}");
    }
    let trailing = hand.say(Endpoint::Heartbeat, &format!("{good}x")).await;
    assert_eq!(trailing.code(), Some(Code::InvalidBody), "J-7");
    assert_eq!(world.durable(), before);
    // J-8: other bytes of the same value are another text, and a signature over those very bytes is good.
    let spaced = String::from_utf8(with(&good, "{", "{ \n")).unwrap();
    assert_eq!(hand.say(Endpoint::Heartbeat, &spaced).await.status, 200);
}

/// The envelope is nobody's: it is refused before any key is looked at.
// spec: TS-23
#[tokio::test(start_paused = true)]
async fn j_a_strange_envelope_is_refused() {
    let (world, mut hand) = node().await;
    let before = world.durable();
    let proof = hand.prove(&heartbeat(&world), &hand.challenge());
    let good = hand.carry(Endpoint::Heartbeat, proof);
    let text = String::from_utf8(good.body.clone().unwrap()).unwrap();
    let mut invalid = text.clone().into_bytes();
    let at = text.find("reportJson").unwrap() + 20;
    invalid[at] = 0xff;
    let operations = world.controller().counters().public_key_operations;
    for (name, bytes) in [
        ("J-1", with(&text, r#""proof":"#, r#""proof":{},"proof":"#)),
        ("J-2 array", format!("[{text}]").into_bytes()),
        ("J-2 positional", b"[\"pem\",{}]".to_vec()),
        ("J-2 string", b"\"x\"".to_vec()),
        ("J-2 number", b"1".to_vec()),
        ("J-2 null", b"null".to_vec()),
        ("J-3", with(&text, r#""proof":"#, r#""extra":1,"proof":"#)),
        ("J-3 inside", with(&text, r#""challengeId":"#, r#""alg":"none","challengeId":"#)),
        ("J-5", with(&text, r#""proof":"#, &format!(r#""x":{}{},"proof":"#, "[".repeat(30_000), "]".repeat(30_000)))),
        ("J-6 UTF-8", invalid),
        ("J-6 BOM", format!("\u{feff}{text}").into_bytes()),
        ("J-7", format!("{text}{text}").into_bytes()),
        ("J-7 empty", Vec::new()),
    ] {
        let reply = hand.send(&hand.post_bytes(Endpoint::Heartbeat, bytes)).await;
        assert!(matches!(reply.code(), Some(Code::InvalidBody)), "{name}: {reply:?}");
    }
    assert_eq!(world.controller().counters().public_key_operations, operations);
    assert_eq!(world.durable(), before);
    assert_eq!(hand.send(&good).await.status, 200);
}

/// threats.md C-9, C-10: as the certificate of a heartbeat, and of a renewal.
// spec: TS-24
#[tokio::test(start_paused = true)]
async fn c_9_no_hostile_leaf_opens_a_call() {
    let (world, mut hand) = node().await;
    let (node, now) = (TestNode::new(1), world.now());
    let (before, beat) = (world.durable(), heartbeat(&world));
    let renew = renewal(&world, &node.csr(), "renew");
    let rows = hostile_leaves(world.ca(), &node, now);
    assert!(rows.len() > 60, "{}", rows.len());
    for row in rows {
        hand.certificate_pem = row.pem;
        for (call, report) in [(Endpoint::Heartbeat, &beat), (Endpoint::Renew, &renew)] {
            // "Over" is what renewal is for; every other fault is one there as well.
            if call == Endpoint::Renew && row.field == "expired" {
                continue;
            }
            let reply = hand.say(call, report).await;
            let refused =
                matches!(reply.code(), Some(Code::NodeIdentityInvalid | Code::InvalidBody | Code::BodyTooLarge));
            assert!(refused, "{} at {call:?}: {reply:?}", row.name);
            assert_eq!(world.durable(), before, "{} at {call:?}", row.name);
        }
    }
    hand.certificate_pem = world.ca().issue(&node, now);
    assert_eq!(hand.say(Endpoint::Heartbeat, &beat).await.status, 200, "and a right one is taken");
}

fn renewal(world: &World, csr: &str, purpose: &str) -> String {
    let task = world.journal().devices[0].task_id.clone().unwrap();
    let node = TestNode::new(1).node_id;
    let csr = serde_json::to_string(csr).unwrap();
    format!(r#"{{"nodeId":"{node}","purpose":"{purpose}","taskId":"{task}","csrPem":{csr}}}"#)
}

/// threats.md C-1 to C-8: a machine that was approved asks with any CSR but its own. No file for the worker comes of it.
// spec: TS-25
#[tokio::test(start_paused = true)]
async fn c_no_hostile_csr_reaches_the_worker() {
    let world = World::new(SEEDS[2]);
    world.admit_by_journal();
    let mut machine = Machine::known(&world, 1);
    machine.install().await;
    world.calm();
    world.worker_turn(world.now());
    let mut hand = Hand::in_machine(&world, &machine);
    let before = world.durable();
    let rows = hostile_csrs(&TestNode::new(1));
    assert!(rows.len() > 40, "{}", rows.len());
    for row in rows {
        let reply = hand.say(Endpoint::Enroll, &renewal(&world, &row.pem, "enroll")).await;
        let code = reply.code();
        let refused = matches!(code, Some(Code::EnrollmentMismatch | Code::InvalidBody | Code::BodyTooLarge));
        assert!(refused, "{}: {reply:?}", row.name);
        world.worker_turn(world.now());
        assert_eq!(world.durable(), before, "{}", row.name);
        world.sleep_through(Duration::from_millis(200)).await;
    }
    let reply = hand.say(Endpoint::Enroll, &renewal(&world, &TestNode::new(1).csr(), "enroll")).await;
    assert_eq!(reply.status, 202, "and its own is taken: {reply:?}");
    assert_eq!(world.phase(&machine.id()), Some(DevicePhase::AwaitingEnrollment));
}

/// threats.md V-1, V-2: numbers and texts that no machine has. The last good reading stays.
// spec: TS-26
#[tokio::test(start_paused = true)]
async fn v_1_and_v_2_readings_out_of_bounds_are_refused() {
    let (world, mut hand) = node().await;
    let good = heartbeat(&world);
    let before = (world.durable(), world.controller().node(&hand.id).unwrap());
    let value: serde_json::Value = serde_json::from_str(&good).unwrap();
    let features: Vec<String> = (0..10_000).map(|number| format!("f{number}")).collect();
    for (name, field, bad) in [
        ("V-1 negative", "uptimeSeconds", serde_json::json!(-1)),
        ("V-1 2^63", "uptimeSeconds", serde_json::json!(1_u64 << 63)),
        ("V-1 load", "loadAverage", serde_json::json!(1e308)),
        ("V-1 features", "features", serde_json::json!(features)),
        ("V-1 hostname", "hostname", serde_json::json!("x".repeat(20_000))),
        ("V-1 memory", "memoryAvailableBytes", serde_json::json!(1_u64 << 51)),
        ("V-1 percent", "cpuPercent", serde_json::json!(100.5)),
        ("V-2 ESC", "osVersion", serde_json::json!("Debian \u{1b}[2J")),
        ("V-2 RTL", "osVersion", serde_json::json!("Debian \u{202e}")),
        ("V-2 markup", "hostname", serde_json::json!("<script>")),
        ("V-2 kernel", "kernel", serde_json::json!("unknown field")),
    ] {
        let mut report = value.clone();
        report[field] = bad;
        let reply = hand.say(Endpoint::Heartbeat, &report.to_string()).await;
        assert!(matches!(reply.code(), Some(Code::InvalidBody | Code::BodyTooLarge)), "{name}: {reply:?}");
    }
    let nan = good.replacen(r#""purpose":"heartbeat""#, r#""purpose":"heartbeat","gpuPercent":NaN"#, 1);
    assert_eq!(hand.say(Endpoint::Heartbeat, &nan).await.code(), Some(Code::InvalidBody), "V-1 NaN");
    let long = format!("{good}{}", " ".repeat(33_000));
    assert_eq!(hand.say(Endpoint::Heartbeat, &long).await.code(), Some(Code::InvalidBody), "H-6");
    assert_eq!((world.durable(), world.controller().node(&hand.id).unwrap()), before);
}

/// threats.md V-3: one node that floods is told to wait, and costs no other node a call.
// spec: TS-27
#[tokio::test(start_paused = true)]
async fn v_3_a_flood_of_one_node_is_its_own_loss() {
    let (world, mut hand) = node().await;
    let mut other = Machine::known(&world, 2);
    other.join().await;
    world.sleep_through(Duration::from_secs(2)).await;
    let beat = heartbeat(&world);
    let mut codes = Vec::new();
    for _ in 0..100 {
        let reply = hand.say(Endpoint::Heartbeat, &beat).await;
        if reply.status != 200 {
            assert!(reply.headers.contains_key("retry-after"), "{reply:?}");
        }
        codes.push(reply.code());
    }
    assert_eq!(codes.iter().filter(|code| code.is_none()).count(), 10);
    assert_eq!(codes.iter().filter(|code| **code == Some(Code::TooManyRequests)).count(), 90);
    let from = world.now();
    other.run(Duration::from_secs(120)).await;
    assert!(world.times(Endpoint::Heartbeat, from).len() >= 3);
    assert!(world.seen().iter().filter(|seen| seen.at >= from).all(|seen| seen.status == Some(200)));
}

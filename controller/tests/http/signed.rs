//! threats.md group S through the whole stack.

use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::Challenge;
use lucia_proto::node::report::{Proof, Purpose, Question};

use crate::machine::{Machine, next};
use crate::site::{Answer, Site, exchange};

fn seen(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

// spec: HT-18
#[test]
fn each_answer_carries_the_next_challenge_and_a_node_needs_no_other() {
    let site = Site::new();
    let node = Machine::managed(&site, 1);
    let mut stream = site.tls();
    let mut challenge = node.challenge(&site);
    for _ in 0..5 {
        let proof = Proof::sign(&node.beat(), &challenge, &node.node.key).unwrap();
        let answer = exchange(&mut stream, &node.node_request(Endpoint::Heartbeat, proof)).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let next = next(&answer);
        assert!(next.server_time.since(site.now()).as_secs() <= 1);
        challenge = next.challenge();
    }
    // A refusal of the challenge brings the next one too, over the same connection.
    let other = Machine::new(2).challenge(&site);
    let proof = Proof::sign(&node.beat(), &other, &node.node.key).unwrap();
    let answer = exchange(&mut stream, &node.node_request(Endpoint::Heartbeat, proof)).unwrap();
    assert_eq!(seen(&answer), (401, "challenge_refused".to_owned()));
    let proof = Proof::sign(&node.beat(), &next(&answer).challenge(), &node.node.key).unwrap();
    assert_eq!(exchange(&mut stream, &node.node_request(Endpoint::Heartbeat, proof)).unwrap().status, 200);
}

// spec: HT-21
#[test]
fn s_2_a_signature_that_is_none_is_refused_and_uses_up_nothing() {
    let site = Site::new();
    let node = Machine::managed(&site, 1);
    let before = site.journal();
    let challenge = node.challenge(&site);
    let good = Proof::sign(&node.beat(), &challenge, &node.node.key).unwrap();
    let zeros = format!("{}==", "A".repeat(86));
    for (what, signature, status) in [
        ("r = s = 0", zeros, 403),
        ("empty", String::new(), 400),
        ("63 bytes", "A".repeat(84), 400),
        ("66 bytes", "A".repeat(88), 400),
        ("a newline", good.signature.replacen('A', "\n", 1) + "\n", 400),
        ("no padding", good.signature.trim_end_matches('=').to_owned(), 400),
        ("DER", "MEUCIQ==".to_owned(), 400),
    ] {
        let answer = node.node_call(&site, Endpoint::Heartbeat, Proof { signature, ..good.clone() });
        assert!((400..=403).contains(&answer.status), "{what} {answer:?}");
        assert_eq!(answer.status, status, "{what} {answer:?}");
    }
    assert_eq!(site.journal(), before);
    assert_eq!(node.node_call(&site, Endpoint::Heartbeat, good).status, 200, "the challenge was not used up");
}

// spec: HT-26
#[test]
fn s_3_and_s_4_a_challenge_is_used_once_for_its_own_node() {
    let site = Site::new();
    let node = Machine::managed(&site, 1);
    let proof = node.sign(&site, &node.beat());
    assert_eq!(node.node_call(&site, Endpoint::Heartbeat, proof.clone()).status, 200);
    let again = node.node_call(&site, Endpoint::Heartbeat, proof);
    assert_eq!(seen(&again), (401, "challenge_refused".to_owned()));
    let boot: Challenge = site.send(&crate::site::request("GET", "/api/boot/challenge", &[], "")).read();
    let another = Site::new();
    for challenge in [boot, Machine::new(2).challenge(&site), node.challenge(&another)] {
        let proof = Proof::sign(&node.beat(), &challenge, &node.node.key).unwrap();
        let answer = node.node_call(&site, Endpoint::Heartbeat, proof);
        assert_eq!(seen(&answer), (401, "challenge_refused".to_owned()));
    }
}

// spec: HT-22
#[test]
fn s_8_a_signature_for_one_purpose_is_worth_nothing_at_another() {
    let site = Site::new();
    let node = Machine::managed(&site, 1);
    let other = Machine::new(2);
    let before = site.journal();
    // For another call, for another node, and with other bytes than those signed.
    let renewal = node.sign(&site, &node.enroll_request(Purpose::Renew));
    let question = node.sign(&site, &Question { node_id: node.id().clone(), purpose: Purpose::DeviceState });
    let foreign = Proof::sign(&other.beat(), &node.challenge(&site), &node.node.key).unwrap();
    let mut swapped = node.sign(&site, &node.beat());
    swapped.report_json = swapped.report_json.replace("512", "511");
    let spaced = Proof { report_json: format!("{} ", swapped.report_json), ..swapped.clone() };
    let by_other = Proof::sign(&node.beat(), &node.challenge(&site), &other.node.key).unwrap();
    for (what, proof) in [
        ("purpose renew", renewal),
        ("purpose device-state", question),
        ("another node", foreign),
        ("other bytes", swapped),
        ("a space more", spaced),
        ("another key", by_other),
    ] {
        let answer = node.node_call(&site, Endpoint::Heartbeat, proof);
        assert!(matches!(answer.status, 400 | 401 | 403), "{what} {answer:?}");
        assert_ne!(answer.status, 200);
    }
    assert_eq!(site.journal(), before);
    assert_eq!(node.heartbeat(&site).status, 200);
}

//! Who may call: identity failures are one answer, cost one verification, and change nothing.

use lucia_proto::base::code::Code;
use lucia_proto::base::limits::CHAIN_PEM_MAX;
use lucia_proto::node::report::{DeviceCall, HeaderProof, NodeCall, Proof, Purpose, Question};
use lucia_proto::test_support::hostile_leaves;

use super::bench::{Machine, World, code};
use crate::parts::Refusal;

#[track_caller]
fn identity(answer: Result<(), Refusal>) -> String {
    let refusal = answer.unwrap_err();
    assert_eq!(refusal.code, Code::NodeIdentityInvalid, "{refusal}");
    refusal.message
}

// spec: CE-30
#[test]
fn c_no_hostile_certificate_passes_and_none_changes_anything() {
    let world = World::new();
    let machine = world.node(1);
    let journal = world.journal();
    let seen = world.parts.node(machine.id()).unwrap().node.last_seen_at;
    let mut messages = std::collections::BTreeSet::new();
    let mut lapsed = Vec::new();
    for hostile in hostile_leaves(&world.ca, &machine.node, world.now()) {
        let bad = Machine { certificate: hostile.pem.clone(), ..Machine::new(1) };
        for (call, answer) in [("heartbeat", bad.heartbeat(&world)), ("renew", bad.renew(&world).map(drop))] {
            let refusal = answer.expect_err(hostile.name);
            match refusal.code {
                Code::InvalidBody => assert!(hostile.pem.len() > CHAIN_PEM_MAX, "{}", hostile.name),
                // Past the identity, and refused because this machine does not know its task.
                Code::EnrollmentMismatch => {
                    assert_eq!(call, "renew");
                    lapsed.push(hostile.name);
                }
                code => {
                    assert_eq!(code, Code::NodeIdentityInvalid, "{} {call}", hostile.name);
                    messages.insert(refusal.message);
                }
            }
        }
    }
    // What is over and otherwise right may renew; see RN-2.
    assert_eq!(lapsed, ["C-9 over", "C-10 authority over"]);
    assert_eq!(messages.len(), 1);
    assert_eq!(world.journal(), journal);
    assert_eq!(world.parts.node(machine.id()).unwrap().node.last_seen_at, seen);
    machine.heartbeat(&world).unwrap();
}

// spec: PR-9
#[test]
fn s_11_every_identity_failure_is_one_answer_for_one_verification() {
    let world = World::new();
    let (machine, other) = (world.node(1), world.node(2));
    let stranger = Machine::new(50);
    let challenge = machine.challenge(&world);
    let wrong_key = {
        let proof = Proof::sign(&machine.beat(), &challenge, &other.node.key).unwrap();
        NodeCall { certificate_pem: machine.certificate.clone(), proof }
    };
    let other_certificate =
        NodeCall { certificate_pem: other.certificate.clone(), ..machine.heartbeat_call(&machine.challenge(&world)) };
    let other_report = {
        let proof = Proof::sign(&other.beat(), &machine.challenge(&world), &machine.node.key).unwrap();
        NodeCall { certificate_pem: machine.certificate.clone(), proof }
    };
    let unknown = {
        let mut call = stranger.heartbeat_call(&stranger.challenge(&world));
        call.certificate_pem = machine.certificate.clone();
        call
    };
    let other_purpose = {
        let report = machine.enroll_request(Purpose::Renew);
        NodeCall { certificate_pem: machine.certificate.clone(), proof: machine.sign(&world, &report) }
    };
    let mut messages = std::collections::BTreeSet::new();
    for (id, call) in [
        (machine.id(), wrong_key),
        (machine.id(), other_certificate),
        (machine.id(), other_report),
        (stranger.id(), unknown),
    ] {
        let before = world.parts.counters().public_key_operations;
        messages.insert(identity(world.parts.heartbeat(id, &call, machine.from).map(drop)));
        assert_eq!(world.parts.counters().public_key_operations - before, 1);
    }
    // A report that is signed and no heartbeat is told so to the one who can sign it.
    let answer = world.parts.heartbeat(machine.id(), &other_purpose, machine.from);
    assert_eq!(code(answer), Some(Code::InvalidBody));
    // A question signed for another endpoint.
    let question = Question { node_id: machine.id().clone(), purpose: Purpose::Installation };
    let header = HeaderProof { certificate_pem: None, proof: machine.sign(&world, &question) };
    messages.insert(identity(world.parts.enrollment.device_state(machine.id(), &header, machine.from).map(drop)));
    assert_eq!(messages.len(), 1);
    // None of them used up the challenge it was signed over.
    world.parts.heartbeat(machine.id(), &machine.heartbeat_call(&challenge), machine.from).unwrap();
}

// spec: HB-22
#[test]
fn a_steady_heartbeat_is_one_public_key_operation_and_no_write() {
    let world = World::new();
    let machine = world.node(1);
    machine.heartbeat(&world).unwrap();
    let before = world.parts.counters();
    let plan = lucia_durable::crash_point::record(world.scratch.path());
    for _ in 0..50 {
        world.advance(30);
        machine.heartbeat(&world).unwrap();
    }
    assert!(plan.steps().is_empty(), "{:?}", plan.steps());
    let after = world.parts.counters();
    assert_eq!(after.public_key_operations - before.public_key_operations, 50);
    assert_eq!(after.heartbeats - before.heartbeats, 50);
    // The verdict ends with the chain: looked at anew, and refused.
    world.advance(7 * 24 * 3600);
    identity(machine.heartbeat(&world));
}

// spec: PR-10
#[test]
fn what_has_not_the_form_of_a_proof_meets_no_key() {
    let world = World::new();
    let machine = world.node(1);
    let before = world.parts.counters().public_key_operations;
    let good = machine.heartbeat_call(&machine.challenge(&world));
    for (what, change) in [
        ("short signature", (|call: &mut NodeCall| call.proof.signature.truncate(87)) as fn(&mut NodeCall)),
        ("no base64", |call| call.proof.signature = "!".repeat(88)),
        ("empty report", |call| call.proof.report_json.clear()),
        ("long report", |call| call.proof.report_json = " ".repeat(32 * 1024 + 1)),
        ("long certificate", |call| call.certificate_pem = "x".repeat(16 * 1024 + 1)),
    ] {
        let mut call = good.clone();
        change(&mut call);
        let answer = world.parts.heartbeat(machine.id(), &call, machine.from);
        assert_eq!(code(answer), Some(Code::InvalidBody), "{what}");
    }
    assert_eq!(world.parts.counters().public_key_operations, before);
    world.parts.heartbeat(machine.id(), &good, machine.from).unwrap();
    // A device's call has no certificate and the same form.
    let before = world.parts.counters().public_key_operations;
    for change in [
        (|proof: &mut Proof| proof.signature.truncate(87)) as fn(&mut Proof),
        |proof| proof.signature = "!".repeat(88),
        |proof| proof.report_json.clear(),
        |proof| proof.report_json = " ".repeat(32 * 1024 + 1),
    ] {
        let mut proof = machine.sign(&world, &machine.grant_request());
        change(&mut proof);
        let answer = world.parts.enrollment.grant(machine.id(), &DeviceCall { proof }, machine.from);
        assert_eq!(code(answer), Some(Code::InvalidBody));
    }
    assert_eq!(world.parts.counters().public_key_operations, before);
}

// spec: PR-11
#[test]
fn a_device_call_is_the_devices_own() {
    let world = World::new();
    world.window();
    let (machine, other) = (Machine::new(1), Machine::new(2));
    machine.discover(&world).unwrap();
    other.discover(&world).unwrap();
    let journal = world.journal();
    let report = machine.grant_request();
    // Signed by the other, and by its own key for the other's path.
    let challenge = machine.challenge(&world);
    let proof = Proof::sign(&report, &challenge, &other.node.key).unwrap();
    identity(world.parts.enrollment.grant(machine.id(), &DeviceCall { proof }, machine.from).map(drop));
    let proof = Proof::sign(&report, &other.challenge(&world), &machine.node.key).unwrap();
    identity(world.parts.enrollment.grant(other.id(), &DeviceCall { proof }, machine.from).map(drop));
    // A key that is not the id's.
    let challenge = world.parts.challenges.issue(&lucia_proto::node::challenge::Scope::Boot, machine.from).challenge();
    let mut call = machine.discover_call(&challenge);
    call.public_key_pem = other.node.key.public().to_pem();
    identity(world.parts.enrollment.discover(call, machine.from).map(drop));
    for bad in ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", &"x".repeat(1025)] {
        let mut call = machine.discover_call(&challenge);
        call.public_key_pem = bad.to_owned();
        assert_eq!(code(world.parts.enrollment.discover(call, machine.from)), Some(Code::BadKey), "{bad:?}");
    }
    assert_eq!(world.journal(), journal);
}

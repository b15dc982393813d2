//! Another name, on a disk that crashes.

use std::time::Duration;

use lucia_durable::crash_point::{crash_at, record};
use lucia_proto::base::time::UnixTime;
use lucia_proto::test_support::{TestCa, TestNode};

use super::*;
use crate::host::boot::MachineId;
use crate::host::scratch::Scratch;
use crate::identity::Identity;
use crate::identity::accept::AcceptError;
use crate::identity::key;

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_secs(1_800_000_000).plus(Duration::from_secs(seconds))
}

fn called(name: &str) -> TestNode {
    let mut node = TestNode::new(7);
    node.hostname = name.parse().unwrap();
    node
}

/// What the worker answers at this time, with the one bundle there is.
fn answer(ca: &TestCa, node: &TestNode, seconds: u64) -> SignedAnswer {
    let mut answer = ca.answer(node, at(seconds));
    answer.bundle = ca.signed_bundle(1, at(0));
    ca.sign_answer(&answer)
}

/// Node 7 on its disk, called n7, with a certificate.
fn installed(ca: &TestCa) -> Scratch {
    let (scratch, node) = (Scratch::new(), called("n7"));
    let mut state = State::hold(&scratch.root(), "test").unwrap();
    key::store(&mut state, &node.key).unwrap();
    let facts = InstalledFacts {
        node_id: node.node_id.clone(),
        task_id: node.task_id.clone(),
        hostname: node.hostname.clone(),
        install_boot_id: Some("33333333-3333-4333-8333-333333333333".parse().unwrap()),
        machine_id: MachineId::from_random([2; 16]),
    };
    facts.write(&state).unwrap();
    let mut identity = open(&state, ca);
    identity.accept(&state, &answer(ca, &node, 0), at(0)).unwrap();
    scratch
}

/// What a start opens: the name is that of `installed.json`.
fn open(state: &State, ca: &TestCa) -> Identity {
    let node = called("n7");
    let hostname = InstalledFacts::read(state).unwrap().unwrap().hostname;
    Identity::open(state, &node.key, &hostname, &node.task_id, ca.root()).unwrap()
}

/// Asks as `web` and is answered.
fn rename(state: &State, ca: &TestCa) -> Result<Identity, AcceptError> {
    let web = called("web");
    let mut identity = open(state, ca);
    identity.ask_as(&web.hostname, &web.key).unwrap();
    assert_eq!(identity.csr_pem(), web.csr(), "asked for as web");
    assert_eq!(identity.hostname().as_str(), "n7", "and still n7");
    identity.accept(state, &answer(ca, &web, 60), at(60)).map(|()| identity)
}

/// All that is on the disk agrees on one name.
#[track_caller]
fn agrees(state: &State, identity: &Identity, name: &str) {
    assert_eq!(identity.hostname().as_str(), name);
    assert_eq!(identity.certificate().unwrap().hostname.as_str(), name);
    assert_eq!(InstalledFacts::read(state).unwrap().unwrap().hostname.as_str(), name);
    assert_eq!(state.read(StateFile::Csr).unwrap().unwrap(), called(name).csr().into_bytes());
    assert_eq!(
        state.read(StateFile::Certificate).unwrap().unwrap(),
        identity.certificate().unwrap().pem.clone().into_bytes()
    );
}

// spec: NN-15
#[test]
fn a_crash_between_the_files_of_a_rename_leaves_one_name_whole() {
    let ca = TestCa::new(at(0));
    let scratch = installed(&ca);
    let plan = record(scratch.root().path());
    let state = State::hold(&scratch.root(), "test").unwrap();
    agrees(&state, &rename(&state, &ca).unwrap(), "web");
    let steps = plan.steps();
    drop((plan, state));
    assert!(steps.len() > 10, "{steps:?}");
    let mut ends = [0, 0];
    for (nth, step) in steps.iter().enumerate() {
        let scratch = installed(&ca);
        let plan = crash_at(scratch.root().path(), nth);
        if let Ok(state) = State::hold(&scratch.root(), "test") {
            assert!(rename(&state, &ca).is_err(), "step {nth} {step}");
        }
        drop(plan);
        let state = State::hold(&scratch.root(), "test").unwrap();
        let identity = open(&state, &ca);
        let name = identity.hostname().as_str().to_owned();
        ends[usize::from(name == "web")] += 1;
        agrees(&state, &identity, &name);
        drop(state);
        // Whichever it was, the next answer ends in the new name, and so does each start after it.
        let state = State::hold(&scratch.root(), "test").unwrap();
        if name == "n7" {
            rename(&state, &ca).unwrap();
        }
        agrees(&state, &open(&state, &ca), "web");
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}: both ends were seen");
}

// spec: NN-14
#[test]
fn what_is_asked_for_beside_its_own_name_changes_nothing_until_it_is_kept() {
    let ca = TestCa::new(at(0));
    let scratch = installed(&ca);
    let state = State::hold(&scratch.root(), "test").unwrap();
    let mut identity = open(&state, &ca);
    let (n7, web) = (called("n7"), called("web"));
    identity.ask_as(&web.hostname, &web.key).unwrap();
    // Answers for other names or requests than the one asked for.
    for wrong in [called("mail"), called("n7")] {
        assert!(matches!(identity.accept(&state, &answer(&ca, &wrong, 60), at(60)), Err(AcceptError::Refused(_))));
    }
    agrees(&state, &identity, "n7");
    // Back to its own name, which is renewed as ever.
    identity.ask_as(&n7.hostname, &n7.key).unwrap();
    assert_eq!(identity.csr_pem(), n7.csr());
    identity.accept(&state, &answer(&ca, &n7, 120), at(120)).unwrap();
    agrees(&state, &identity, "n7");
    // An answer of another installation, or for another key, names nobody.
    drop(state);
    let state = State::hold(&scratch.root(), "test").unwrap();
    let mut other = called("web");
    other.task_id = TaskId::from_random([9; 16]);
    let stray = lucia_proto::base::json::to_string(&answer(&ca, &other, 60)).unwrap();
    state.replace(StateFile::Answer, stray.as_bytes()).unwrap();
    agrees(&state, &open(&state, &ca), "n7");
}

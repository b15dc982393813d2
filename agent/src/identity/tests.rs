//! The identity on a disk that crashes, and before answers that lie.

use std::sync::Arc;
use std::time::Duration;

use lucia_durable::crash_point;
use lucia_proto::test_support::{TestCa, TestNode, hostile_answers, hostile_leaves};

use super::accept::AcceptError;
use super::*;
use crate::host::root::Root as HostRoot;
use crate::host::scratch::Scratch;
use lucia_proto::base::json;

const NOW: u64 = 1_800_000_000;

fn now() -> UnixTime {
    UnixTime::from_secs(NOW)
}

/// The node that a key on disk is, as the CA's tests know it.
fn node_of(key: &NodeKey) -> TestNode {
    let fingerprint = key.public().fingerprint();
    TestNode {
        key: NodeKey::from_pem(&key.to_pem().unwrap()).unwrap(),
        node_id: fingerprint.node_id(),
        fingerprint,
        ..TestNode::new(7)
    }
}

struct Opened {
    state: State,
    identity: Identity,
    node: TestNode,
}

/// From nothing, or from what a crash left, to an open identity.
fn open(root: &HostRoot, ca: &TestCa) -> Result<Opened, String> {
    let text = |error: &dyn std::error::Error| crate::host::chain(error);
    let mut state = State::hold(root, "test").map_err(|e| text(&e))?;
    let key = key::load_or_make(&mut state).map_err(|e| text(&e))?;
    let node = node_of(&key);
    let identity = Identity::open(&state, &key, &node.hostname, &node.task_id, ca.root()).map_err(|e| text(&*e))?;
    Ok(Opened { state, identity, node })
}

fn files(root: &HostRoot) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(root.state()).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != ".lease")
        .collect()
}

// spec: EN-10
#[test]
fn every_hostile_answer_is_refused_and_nothing_of_it_is_kept() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let root = scratch.root();
    let mut opened = open(&root, &ca).unwrap();
    let node = &node_of(&opened.node.key);
    let before = files(&root);
    let mut refused = 0;
    let mut judge = |name: &str, field: Option<&str>, signed: &SignedAnswer| {
        let Opened { state, identity, .. } = &mut opened;
        match identity.accept(state, signed, now()) {
            Err(AcceptError::Refused(error)) => assert!(field.is_none_or(|field| field == error.field()), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(files(&root), before, "{name}");
        assert!(identity.certificate().is_none() && identity.bundle().is_none(), "{name}");
        refused += 1;
    };
    for (name, field, signed) in hostile_answers(&ca, node, now()) {
        judge(name, Some(field), &signed);
    }
    for hostile in hostile_leaves(&ca, node, now()) {
        let mut answer = ca.answer(node, now());
        answer.certificate_pem = hostile.pem;
        judge(hostile.name, None, &ca.sign_answer(&answer));
    }
    assert!(refused > 60, "{refused}");
    opened.identity.accept(&opened.state, &ca.sign_answer(&ca.answer(node, now())), now()).unwrap();
    assert!(opened.identity.certificate().is_some());
}

// spec: EN-11
#[test]
fn an_answer_is_held_against_the_newest_bundle() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let mut opened = open(&scratch.root(), &ca).unwrap();
    let answer = |version| {
        let mut answer = ca.answer(&opened.node, now());
        answer.bundle = ca.signed_bundle(version, now());
        ca.sign_answer(&answer)
    };
    let (old, new) = (answer(1), answer(2));
    opened.identity.accept(&opened.state, &new, now()).unwrap();
    let kept = files(&scratch.root());
    assert!(matches!(opened.identity.accept(&opened.state, &old, now()), Err(AcceptError::Refused(_))));
    assert_eq!(files(&scratch.root()), kept);
    // The same answer again, as after a lost acknowledgement, is taken.
    opened.identity.accept(&opened.state, &new, now()).unwrap();
    let Opened { state, .. } = opened;
    drop(state);
    // The bundle is remembered over a restart even when its own file was lost.
    std::fs::remove_file(scratch.root().state().join("bundle.json")).unwrap();
    let mut opened = open(&scratch.root(), &ca).unwrap();
    assert_eq!(opened.identity.bundle().unwrap().bundle().version, 2);
    assert!(opened.identity.accept(&opened.state, &old, now()).is_err());
}

/// threats.md F-1: dead at each durable step of making the key, keeping the CSR and taking an answer.
// spec: AG-15
#[test]
fn f_1_a_crash_at_any_step_heals_by_a_restart_with_the_same_key() {
    let ca = TestCa::new(now());
    let story = |root: &HostRoot| -> Result<TestNode, String> {
        let mut opened = open(root, &ca)?;
        let signed = ca.sign_answer(&ca.answer(&opened.node, now()));
        let taken = opened.identity.accept(&opened.state, &signed, now());
        taken.map_err(|error| crate::host::chain(&error))?;
        Ok(opened.node)
    };
    let mut steps = 0;
    for nth in 0.. {
        let scratch = Scratch::new();
        let root = scratch.root();
        let plan = crash_point::crash_at(&root.state(), nth);
        let first = story(&root);
        let crashed = plan.crashed().is_some();
        drop(plan);
        let key_before = std::fs::read(root.state().join("node.key")).ok();
        if !crashed {
            first.unwrap();
            steps = nth;
            break;
        }
        assert!(first.is_err(), "step {nth} died unseen");
        let node = story(&root).unwrap_or_else(|error| panic!("step {nth}: {error}"));
        if let Some(before) = key_before {
            assert_eq!(std::fs::read(root.state().join("node.key")).unwrap(), before, "step {nth}: another key");
        }
        let opened = open(&root, &ca).unwrap();
        assert_eq!(opened.identity.certificate().unwrap().pem, ca.issue(&node, now()));
        let leftovers: Vec<_> = files(&root).into_keys().filter(|name| name.ends_with(".pending")).collect();
        assert!(leftovers.is_empty(), "step {nth}: {leftovers:?}");
    }
    assert!(steps > 20, "only {steps} steps were tried");
}

/// threats.md F-11: key whole, everything else cut or gone in every combination.
// spec: AG-16
#[test]
fn f_11_with_the_key_whole_the_rest_is_healed_or_asked_for_again() {
    let ca = TestCa::new(now());
    let names = ["certificate.pem", "answer.json", "bundle.json", "node.csr"];
    for damage in 0_u32..81 {
        let scratch = Scratch::new();
        let root = scratch.root();
        let mut opened = open(&root, &ca).unwrap();
        let signed = ca.sign_answer(&ca.answer(&opened.node, now()));
        opened.identity.accept(&opened.state, &signed, now()).unwrap();
        let whole = files(&root);
        drop(opened);
        let how = |place: u32| damage / 3_u32.pow(place) % 3;
        for (place, name) in names.iter().enumerate() {
            let path = root.state().join(name);
            match how(u32::try_from(place).unwrap()) {
                1 => std::fs::write(&path, &whole[*name][..whole[*name].len() / 2]).unwrap(),
                2 => std::fs::remove_file(&path).unwrap(),
                _ => {}
            }
        }
        let mut opened = open(&root, &ca).unwrap();
        let has_certificate = how(0) == 0 || how(1) == 0;
        assert_eq!(opened.identity.certificate().is_some(), has_certificate, "damage {damage}");
        assert_eq!(opened.identity.csr_pem().as_bytes(), whole["node.csr"].as_slice());
        opened.identity.accept(&opened.state, &signed, now()).unwrap();
        assert_eq!(files(&root), whole, "damage {damage}");
    }
}

/// threats.md C-9 from the disk: a chain that was put there by hand is not taken either.
#[test]
fn a_hostile_certificate_on_disk_is_passed_over_and_not_deleted() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let root = scratch.root();
    let node = open(&root, &ca).unwrap().node;
    // Only those refused for what they are; whether one is over is not for a machine's own clock to say.
    let timeless = ["pem", "der", "canonical", "subject", "subjectAltName", "subjectPublicKey", "basicConstraints"];
    for hostile in hostile_leaves(&ca, &node, now()).iter().filter(|one| timeless.contains(&one.field)) {
        if hostile.pem.len() > 16 * 1024 || hostile.pem.is_empty() {
            continue;
        }
        let path = root.state().join("certificate.pem");
        std::fs::write(&path, &hostile.pem).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let opened = open(&root, &ca).unwrap();
        assert!(opened.identity.certificate().is_none(), "{}", hostile.name);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), hostile.pem, "{}", hostile.name);
    }
}

#[test]
fn the_newer_certificate_counts_after_a_crash_between_the_two_files() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let root = scratch.root();
    let mut opened = open(&root, &ca).unwrap();
    let later = now().plus(Duration::from_secs(86_400));
    let sign = |at| {
        let mut answer = ca.answer(&opened.node, at);
        answer.bundle = ca.signed_bundle(1, now());
        ca.sign_answer(&answer)
    };
    let (first, second) = (sign(now()), sign(later));
    opened.identity.accept(&opened.state, &first, now()).unwrap();
    let old = std::fs::read(root.state().join("certificate.pem")).unwrap();
    opened.identity.accept(&opened.state, &second, later).unwrap();
    std::fs::write(root.state().join("certificate.pem"), &old).unwrap();
    let node = opened.node;
    drop((opened.state, opened.identity));
    let opened = open(&root, &ca).unwrap();
    let certificate: Arc<Certificate> = opened.identity.certificate().unwrap().clone();
    assert_eq!(certificate.pem, ca.issue(&node, later));
    assert_ne!(std::fs::read(root.state().join("certificate.pem")).unwrap(), old);
}

/// A reply brings a newer bundle while an answer is on its way: dead at any step, the disk never has the older one.
// spec: AO-93
#[test]
fn an_answer_with_an_older_bundle_never_puts_it_in_place_of_a_newer_one() {
    let ca = TestCa::new(now());
    let (older, newer) = (ca.signed_bundle(1, now()), ca.signed_bundle(2, now()));
    let text = |bundle: &SignedBundle| json::to_string(bundle).unwrap().into_bytes();
    for nth in 0.. {
        let scratch = Scratch::new();
        let root = scratch.root();
        let mut opened = open(&root, &ca).unwrap();
        let mut answer = ca.answer(&opened.node, now());
        answer.bundle = older.clone();
        let signed = ca.sign_answer(&answer);
        // The heartbeat's loop wrote it; the identity hears of it before its next call.
        opened.state.replace(StateFile::Bundle, &text(&newer)).unwrap();
        let file = root.state().join("bundle.json");
        let (seen, at) = (Arc::new(std::sync::Mutex::new(Vec::new())), file.clone());
        let steps = Arc::clone(&seen);
        let plan = crash_point::ask_at(&root.state(), move |_, _| {
            let mut steps = steps.lock().unwrap();
            steps.push(std::fs::read(&at).unwrap());
            if steps.len() > nth { crash_point::Fate::Die } else { crash_point::Fate::Live }
        });
        let taken = opened.identity.accept(&opened.state, &signed, now());
        drop(plan);
        assert_eq!(std::fs::read(&file).unwrap(), text(&newer), "step {nth}");
        assert!(seen.lock().unwrap().iter().all(|there| *there == text(&newer)), "step {nth}");
        if taken.is_ok() {
            assert_eq!(opened.identity.bundle().unwrap().bundle().version, 2);
            assert!(nth > 5, "only {nth} steps were tried");
            break;
        }
    }
}

/// threats.md W: the bundle that retires the worker comes while an answer of the stolen key is on its way.
// spec: AO-97
#[test]
fn an_answer_of_a_worker_whom_the_bundle_on_the_disk_retired_is_refused_whole() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let root = scratch.root();
    let mut opened = open(&root, &ca).unwrap();
    let mut answer = ca.answer(&opened.node, now());
    answer.bundle = ca.signed_bundle(1, now());
    let signed = ca.sign_answer(&answer);
    let mut newer = ca.bundle(2, now());
    newer.workers = vec![lucia_proto::test_support::key(98).public().to_pem()];
    let newer = json::to_string(&SignedBundle::sign(&newer, &ca.root_key).unwrap()).unwrap().into_bytes();
    opened.state.replace(StateFile::Bundle, &newer).unwrap();
    let refused = opened.identity.accept(&opened.state, &signed, now());
    assert!(
        matches!(refused, Err(AcceptError::Refused(lucia_proto::node::answer::AnswerError::Signature))),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(root.state().join("bundle.json")).unwrap(), newer);
    assert!(!root.state().join("answer.json").exists() && opened.identity.certificate().is_none());
}

/// threats.md B-3: an old answer is right in every part, and a controller that lies about the time makes it fresh.
// spec: EN-13
#[test]
fn an_older_answer_is_refused_whatever_the_time_is_said_to_be() {
    let ca = TestCa::new(now());
    let scratch = Scratch::new();
    let mut opened = open(&scratch.root(), &ca).unwrap();
    let later = now().plus(Duration::from_secs(2 * 86_400));
    let [old, new] = [now(), later].map(|at| {
        let mut answer = ca.answer(&opened.node, at);
        answer.bundle = ca.signed_bundle(1, now());
        ca.sign_answer(&answer)
    });
    opened.identity.accept(&opened.state, &old, now()).unwrap();
    opened.identity.accept(&opened.state, &new, later).unwrap();
    let kept = files(&scratch.root());
    for said in [now(), later] {
        let refused = opened.identity.accept(&opened.state, &old, said);
        assert!(matches!(refused, Err(AcceptError::Older { .. })), "{refused:?}");
        assert_eq!(files(&scratch.root()), kept);
    }
    // Nor after a restart; the newest again is no harm.
    drop((opened.state, opened.identity));
    let mut opened = open(&scratch.root(), &ca).unwrap();
    assert!(matches!(opened.identity.accept(&opened.state, &old, now()), Err(AcceptError::Older { .. })));
    opened.identity.accept(&opened.state, &new, later).unwrap();
    assert_eq!(files(&scratch.root()), kept);
}

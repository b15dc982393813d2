//! Turns against a queue folder: what is answered, what is left alone, and what a crash at each step leaves.

mod audit;
mod authority;
mod ca;
mod directory;
mod faults;
mod lists;
mod orders;
mod owners;
mod queue;
mod rename;
mod rotation;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use lucia_durable::crash_point::{crash_at, fail_at, record};
use lucia_proto::base::bounded::PemText;
use lucia_proto::node::answer::AnswerExpectation;
use lucia_proto::node::enrollment::{EndpointAnswer, EndpointRequest, request_hash};
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, key};

use super::*;
use crate::config::Settings;
use crate::fixture::{Controller, Scratch, request, secs};
use crate::init::init;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

/// A worker and a controller's directory, both in one scratch place.
struct Story {
    scratch: Scratch,
    controller: Controller,
    more: &'static str,
}

impl Story {
    fn new(more: &'static str) -> Self {
        let scratch = Scratch::new();
        let controller = Controller::new(&scratch.path().join("controller"), NOW);
        let story = Self { scratch, controller, more };
        init(&story.config(), NOW).unwrap();
        story
    }

    fn journal() -> Self {
        Self::new("admission = \"journal\"")
    }

    fn config(&self) -> Config {
        let state = self.scratch.path().join("worker");
        Settings::parse(&self.controller.settings(&state, self.more)).unwrap().resolve().unwrap()
    }

    fn worker(&self) -> Worker {
        Worker::open(self.config()).unwrap()
    }

    /// The same story once more, in a place of its own.
    fn again(&self) -> Self {
        let scratch = Scratch::new();
        copy(self.scratch.path(), scratch.path());
        let dir = scratch.path().join("controller");
        let controller = Controller { dir, journal: self.controller.journal.clone(), now: self.controller.now.clone() };
        Self { scratch, controller, more: self.more }
    }

    /// A worker that has just started takes one turn.
    #[track_caller]
    fn turn(&self, at: UnixTime) -> Summary {
        self.worker().turn(at).unwrap()
    }

    /// The durable steps of that turn, in a place of its own.
    fn steps(&self, at: UnixTime) -> Vec<&'static str> {
        let story = self.again();
        let mut worker = story.worker();
        let plan = record(story.scratch.path());
        worker.turn(at).unwrap();
        plan.steps()
    }

    /// The same story once more, whose worker died in that turn before this of its steps.
    #[track_caller]
    fn dies_at(&self, nth: usize, at: UnixTime) -> Self {
        let story = self.again();
        let mut worker = story.worker();
        let plan = crash_at(story.scratch.path(), nth);
        worker.turn(at).unwrap_err();
        drop((plan, worker));
        story
    }

    fn home(&self) -> Home {
        Home::open(&self.config()).unwrap()
    }

    fn worker_file(&self, name: &str) -> PathBuf {
        self.scratch.path().join("worker").join(name)
    }

    fn ledger_kinds(&self, kind: &str) -> usize {
        let text = std::fs::read_to_string(self.worker_file("ledger.jsonl")).unwrap();
        text.matches(&format!("\"kind\":\"{kind}\"")).count()
    }

    fn queue_file(&self, name: &str) -> PathBuf {
        self.controller.dir.join("nodes").join(name)
    }

    /// The node takes its answer, checked as the agent checks it; gives the leaf's serial number.
    #[track_caller]
    fn accept(&self, node: &TestNode, now: UnixTime) -> String {
        let root = self.home().root().unwrap();
        let answer = self.controller.answer(&node.node_id).expect("an answer").answer.expect("a success");
        let expected = AnswerExpectation {
            root: &root,
            node_id: &node.node_id,
            task_id: Some(&node.task_id),
            hostname: &node.hostname,
            fingerprint: &node.fingerprint,
            csr_sha256: &node.csr_sha256(),
            now,
            current_bundle: None,
        };
        answer.accept(&expected).unwrap().leaf().serial()
    }
}

/// Copies what is in a directory, modes included.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&from, &to);
            std::fs::set_permissions(&to, from.metadata().unwrap().permissions()).unwrap();
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

// spec: WK-59
#[test]
fn a_fleet_whose_files_are_gone_is_not_begun_anew() {
    let story = Story::new("");
    let dir = story.scratch.path().join("worker");
    let lease = || std::fs::read_to_string(dir.join(".worker.lease")).unwrap();
    // An `init` that was cut off before its last step: the first start makes it good before it signs.
    std::fs::write(dir.join(".worker.lease"), "starting\nsomebody\n").unwrap();
    drop(story.worker());
    assert!(lease().starts_with("Lucia.Worker.v1\n"), "{}", lease());
    for entry in std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.file_name().unwrap().to_str().unwrap() {
            ".worker.lease" => {}
            _ if entry.is_dir() => std::fs::remove_dir_all(entry).unwrap(),
            _ => std::fs::remove_file(entry).unwrap(),
        }
    }
    let refused = init(&story.config(), NOW).unwrap_err().to_string();
    assert!(refused.contains("backup") && refused.contains(".worker.lease"), "{refused}");
    assert!(!dir.join("ca").exists());
    std::fs::remove_file(dir.join(".worker.lease")).unwrap();
    init(&story.config(), NOW).unwrap();
}

#[test]
fn what_once_did_is_as_its_snapshot() {
    let counts = Summary { issued: 1, reused: 2, refused: 3, awaiting: 4, limited: 5, ..Summary::default() };
    let all = Summary { suspended: 6, removed: 7, ordered: 8, orders_refused: 9, ..counts };
    let views = Summary { problems: vec!["this is wrong".to_owned()], ..all };
    expect_test::expect_file!["snapshots/once.txt"].assert_eq(&views.sentence());
}

// spec: EN-41
#[test]
fn an_approved_node_gets_an_answer_it_accepts() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    let asked = story.controller.ask(&node);
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.ready, summary.problems.len()), (1, true, 0), "{summary:?}");
    story.accept(&node, NOW);
    let file = story.controller.answer(&node.node_id).unwrap();
    assert_eq!(file.request_hash, request_hash(&asked.to_bytes().unwrap()));
    let mode = std::fs::metadata(story.controller.answer_path(&node.node_id)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert_eq!((story.ledger_kinds("admitted"), story.ledger_kinds("issued")), (1, 1));
}

// spec: EN-42
#[test]
fn the_same_request_is_answered_once_and_the_same_csr_the_same() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    story.turn(NOW);
    let path = story.controller.answer_path(&node.node_id);
    let first = std::fs::read(&path).unwrap();
    assert_eq!(story.turn(NOW.plus(secs(60))).reused, 0);
    assert_eq!(std::fs::read(&path).unwrap(), first);

    // A day later the node renews: other request bytes, same CSR, same signed answer.
    let later = NOW.plus(secs(24 * 3600));
    story.controller.journal.devices[0].phase = DevicePhase::Managed;
    story.controller.journal.tasks[0].phase = TaskPhase::Managed;
    story.controller.write_journal();
    let serial = story.accept(&node, NOW);
    let before = story.controller.answer(&node.node_id).unwrap().answer;
    story.controller.put_request(&request(&node, later.minus(secs(300)).plus(secs(600))));
    let at = later.minus(secs(300));
    let summary = story.turn(at);
    assert_eq!((summary.issued, summary.reused), (0, 1));
    assert_eq!(story.controller.answer(&node.node_id).unwrap().answer, before);

    // Under six days left: a new leaf, and the ledger has both.
    story.controller.put_request(&request(&node, later.plus(secs(600))));
    assert_eq!(story.turn(later).issued, 1);
    assert_ne!(story.accept(&node, later), serial);
    assert_eq!(story.ledger_kinds("issued"), 2);
}

// spec: QU-12
#[test]
fn a_refusal_names_the_field_and_is_not_repeated() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    let mut asked = request(&node, NOW.plus(secs(600)));
    asked.task_id = TestNode::new(2).task_id;
    story.controller.put_request(&asked);
    assert_eq!(story.turn(NOW).refused, 1);
    let file = story.controller.answer(&node.node_id).unwrap();
    assert!(!file.success && file.message.as_str().contains("taskId"), "{file:?}");
    assert_eq!(story.turn(NOW.plus(secs(5))).refused, 0);
    // The controller's next request, with other bytes, is looked at again.
    story.controller.ask(&node);
    assert_eq!(story.turn(NOW.plus(secs(10))).issued, 1);
}

// spec: QU-13
#[test]
fn q6_without_a_readable_journal_nothing_is_issued() {
    type Damage = fn(&Story);
    let cases: [(&str, Damage); 7] = [
        ("no journal", |s| std::fs::remove_file(s.controller.dir.join("onboarding/state.json")).unwrap()),
        ("damaged", |s| s.controller.put("onboarding/state.json", b"{}")),
        ("damaged", |s| s.controller.put("onboarding/state.json", b"")),
        // Whole as JSON, and its rows contradict one another.
        ("damaged", |s| {
            let text = std::fs::read_to_string(s.controller.dir.join("onboarding/state.json")).unwrap();
            let changed = text.replacen("\"inventoryRevision\":1", "\"inventoryRevision\":0", 1);
            assert_ne!(changed, text);
            s.controller.put("onboarding/state.json", changed.as_bytes());
        }),
        ("refused", |s| {
            let path = s.controller.dir.join("onboarding/state.json");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        }),
        ("refused", |s| {
            let path = s.controller.dir.join("onboarding/state.json");
            std::fs::rename(&path, path.with_extension("real")).unwrap();
            symlink("state.real", &path).unwrap();
        }),
        ("cannot be reached", |s| std::fs::remove_dir_all(s.controller.dir.join("onboarding")).unwrap()),
    ];
    for (want, damage) in cases {
        let mut story = Story::journal();
        let node = TestNode::new(1);
        story.controller.approve(&node);
        story.controller.ask(&node);
        damage(&story);
        let summary = story.turn(NOW);
        assert!(!summary.ready && summary.issued == 0, "{want}");
        assert!(summary.problems.iter().any(|problem| problem.contains(want)), "{want}: {:?}", summary.problems);
        assert!(story.controller.answer(&node.node_id).is_none());
        let status = std::fs::read(story.queue_file("enrollment-responses/enrollment-worker.json")).unwrap();
        let status = WorkerStatus::from_bytes(&status).unwrap();
        assert_eq!((status.ready, status.checked_at), (false, NOW), "{want}");
    }
}

// spec: QU-18
#[test]
fn q8_an_expired_request_gets_no_leaf_and_the_next_one_gets_the_one_there_is() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    // The leaf was signed and recorded, but the power went before the answer.
    let dir = story.queue_file("enrollment-responses");
    let plan = crash_at(&dir, 0);
    assert!(story.worker().turn(NOW).is_err());
    drop(plan);
    let serial = {
        let ledger = Ledger::load(&story.home().dir).unwrap();
        ledger.records().node(&node.node_id).unwrap().leaf.clone().unwrap().0
    };
    // The controller gave up meanwhile: nothing is handed out for the old request.
    let late = NOW.plus(secs(601));
    assert_eq!(story.turn(late).refused, 1);
    assert!(!story.controller.answer(&node.node_id).unwrap().success);
    story.controller.put_request(&request(&node, late.plus(secs(600))));
    assert_eq!(story.turn(late).reused, 1);
    assert_eq!(story.accept(&node, late), serial);
    assert_eq!(story.ledger_kinds("issued"), 1);
}

// spec: WK-40
#[test]
fn a_crash_at_each_durable_step_leaves_one_live_leaf() {
    let mut prepared = Story::journal();
    for number in [1, 2] {
        prepared.controller.approve(&TestNode::new(number));
        prepared.controller.ask(&TestNode::new(number));
    }
    let steps = prepared.steps(NOW);
    assert!(steps.len() > 20, "{steps:?}");
    for (nth, step) in steps.iter().enumerate() {
        let story = prepared.dies_at(nth, NOW);
        let later = NOW.plus(secs(5));
        assert!(story.turn(later).ready, "{step}");
        for number in [1, 2] {
            let node = TestNode::new(number);
            let serial = story.accept(&node, later);
            let ledger = Ledger::load(&story.home().dir).unwrap();
            let record = ledger.records().node(&node.node_id).unwrap();
            assert_eq!((record.issued, &record.leaf.as_ref().unwrap().0), (1, &serial), "{nth} {step}");
        }
        let summary = story.turn(later);
        assert_eq!((summary.issued, summary.reused), (0, 0), "{step}");
    }
}

// spec: WK-41
#[test]
fn a_full_disk_is_waited_out() {
    for (step, under) in [("replace/write", "worker"), ("append/write", "worker"), ("replace/write", "controller")] {
        let mut story = Story::journal();
        let node = TestNode::new(1);
        story.controller.approve(&node);
        story.controller.ask(&node);
        let mut worker = story.worker();
        let plan = fail_at(&story.scratch.path().join(under), step, 0, nix::errno::Errno::ENOSPC as i32);
        let summary = worker.turn(NOW).unwrap();
        assert!(!summary.ready && summary.problems.len() == 1, "{summary:?}");
        drop(plan);
        worker.turn(NOW).unwrap();
        story.accept(&node, NOW);
        assert_eq!(story.ledger_kinds("issued"), 1, "{step} {under}");
    }
}

// spec: WK-42
#[test]
fn a_removal_counts_only_when_the_journal_no_longer_has_the_node() {
    let mut story = Story::journal();
    let (node, id) = (TestNode::new(1), TestNode::new(1).node_id);
    story.controller.approve(&node);
    story.controller.ask(&node);
    story.turn(NOW);
    let receipt = story.worker_file(&format!("receipts/{id}.json"));
    let removal = format!("nodes/removals/{id}.json");
    story.controller.put(&removal, format!("{{\"schemaVersion\":1,\"nodeId\":\"{id}\"}}").as_bytes());
    assert_eq!(story.turn(NOW).removed, 0);
    assert!(receipt.exists());

    (story.controller.journal.devices, story.controller.journal.tasks) = (vec![], vec![]);
    story.controller.write_journal();
    // A removal that names another node is none.
    story.controller.put(&removal, format!("{{\"schemaVersion\":1,\"nodeId\":\"{}\"}}", "0".repeat(32)).as_bytes());
    assert_eq!(story.turn(NOW).removed, 0);
    story.controller.put(&removal, format!("{{\"schemaVersion\":1,\"nodeId\":\"{id}\"}}").as_bytes());
    assert_eq!(story.turn(NOW).removed, 1);
    assert!(!receipt.exists() && !story.controller.answer_path(&id).exists());
    assert_eq!(story.turn(NOW).removed, 0);
    assert_eq!(story.ledger_kinds("removed"), 1);

    // Whatever the journal says later: the key stays barred.
    std::fs::remove_file(story.controller.dir.join(&removal)).unwrap();
    story.controller.approve(&node);
    story.controller.put_request(&request(&node, NOW.plus(secs(700))));
    assert_eq!(story.turn(NOW).refused, 1);
    let told = story.controller.answer(&id).unwrap().message;
    assert_eq!(told.as_str(), chain(&crate::decide::Refusal::Removed));
}

fn endpoint(story: &Story, names: &[&str], key: &NodeKey) {
    let names = EndpointNames::new(names.iter().map(|text| EndpointName::parse(text).unwrap()).collect()).unwrap();
    let csr_pem = PemText::try_from(csr::endpoint_build(&names, key)).unwrap();
    let asked = EndpointRequest { schema_version: Version, csr_pem };
    story.controller.put("nodes/enrollment-requests/endpoint.json", &asked.to_bytes().unwrap());
}

fn endpoint_answer(story: &Story) -> EndpointAnswer {
    let bytes = std::fs::read(story.queue_file("enrollment-responses/endpoint.json")).unwrap();
    EndpointAnswer::from_bytes(&bytes).unwrap()
}

// spec: WK-43
#[test]
fn the_endpoint_gets_its_configured_names_daily_and_no_others() {
    let story = Story::new("endpoint-names = [\"controller.example\", \"192.0.2.7\"]");
    endpoint(&story, &["controller.example", "192.0.2.7"], &key(9));
    assert!(story.turn(NOW).endpoint);
    let first = endpoint_answer(&story);
    assert!(first.success);
    for later in [1, 24 * 3600 - 1] {
        assert!(!story.turn(NOW.plus(secs(later))).endpoint, "{later}");
    }
    assert_eq!(endpoint_answer(&story), first);
    assert!(story.turn(NOW.plus(secs(24 * 3600))).endpoint);
    assert_ne!(endpoint_answer(&story).certificate_pem, first.certificate_pem);
    assert_eq!(story.ledger_kinds("endpointIssued"), 2);

    for names in [&["controller.example"][..], &["evil.example"], &["controller.example", "192.0.2.7", "evil.example"]]
    {
        endpoint(&story, names, &key(9));
        assert!(!story.turn(NOW.plus(secs(60))).endpoint, "{names:?}");
        let answer = endpoint_answer(&story);
        assert!(!answer.success && answer.message.as_str().contains("endpoint-names"), "{answer:?}");
    }
    let story = Story::new("");
    endpoint(&story, &["controller.example"], &key(9));
    assert!(!story.turn(NOW).endpoint);
    assert!(endpoint_answer(&story).message.as_str().contains("endpoint-names"));
}

// spec: WK-44
#[test]
fn a_damaged_journal_does_not_take_the_endpoint_down() {
    let story = Story::new("endpoint-names = [\"controller.example\"]");
    story.controller.put("onboarding/state.json", b"{}");
    endpoint(&story, &["controller.example"], &key(9));
    let summary = story.turn(NOW);
    assert!(summary.endpoint && !summary.ready);
}

// spec: WK-45
#[test]
fn keys_bundle_and_ledger_of_different_fleets_stop_the_start() {
    let (story, other) = (Story::journal(), Story::journal());
    for (names, want) in [
        (&["ca/root.pem"][..], "bundle.json is not the root's"),
        (&["ca/issuing.pem"], "the issuing CA cannot be used"),
        (&["ca/issuing.key"], "the issuing CA cannot be used"),
        (&["ca/issuing.pem", "ca/issuing.key"], "does not name this issuing CA"),
        (&["worker.key"], "does not name this worker key"),
        (&["bundle.json"], "bundle.json is not the root's"),
        (&["ledger.jsonl"], "ledger.head"),
        (&["ledger.jsonl", "ledger.head"], "of another fleet"),
    ] {
        let mine: Vec<_> = names.iter().map(|name| std::fs::read(story.worker_file(name)).unwrap()).collect();
        for name in names {
            std::fs::copy(other.worker_file(name), story.worker_file(name)).unwrap();
        }
        let shown = chain(&Worker::open(story.config()).err().expect(want));
        assert!(shown.contains(want), "{names:?}: {shown}");
        names.iter().zip(mine).for_each(|(name, bytes)| std::fs::write(story.worker_file(name), bytes).unwrap());
    }
    let running = story.worker();
    assert!(matches!(Worker::open(story.config()), Err(TurnError::Lease(_))));
    drop(running);
    story.worker();
}

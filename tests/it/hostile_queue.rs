//! The real worker before a shared directory that its controller gave up (threats.md group Q, design.md W1): what is no
//! request is not answered, what lies is refused naming the field, and the worker's own files stay what they were.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lucia_proto::base::time::UnixTime;
use lucia_proto::test_support::TestNode;
use lucia_tests::hostile_queue::{FILES, JOURNALS, Queue, REQUESTS, ROWS};
use lucia_tests::programs::{Scratch, run};
use lucia_worker::config::Settings;
use lucia_worker::turn::Worker;

use crate::second::{programs, skip};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

struct Story {
    scratch: Scratch,
    queue: Queue,
}

impl Story {
    /// A worker that began, whose node 1 is in the fleet. Whatever the journal grants is admitted, so that nothing but
    /// what is tried stands between a request and its certificate.
    fn new(now: UnixTime) -> Self {
        let scratch = Scratch::new("hostile-queue").unwrap();
        let mut queue = Queue::new(&scratch.path().join("controller"), now);
        let settings = queue.settings(&scratch.path().join("worker"), "admission = \"journal\"");
        std::fs::write(scratch.path().join("worker.toml"), settings).unwrap();
        queue.approve(&TestNode::new(1));
        queue.happen();
        Self { scratch, queue }
    }

    fn begun() -> Self {
        let story = Self::new(NOW);
        lucia_worker::init::init(&story.config(), NOW).unwrap();
        story.queue.ask(&story.queue.request(&TestNode::new(1)));
        assert_eq!(story.worker().turn(NOW).unwrap().issued, 1);
        story
    }

    fn config(&self) -> lucia_worker::config::Config {
        let text = std::fs::read_to_string(self.scratch.path().join("worker.toml")).unwrap();
        Settings::parse(&text).unwrap().resolve().unwrap()
    }

    fn worker(&self) -> Worker {
        Worker::open(self.config()).unwrap()
    }

    /// The worker's own directory, byte for byte.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                match entry.file_type().unwrap().is_dir() {
                    true => walk(&entry.path(), files),
                    false if entry.file_name().to_string_lossy().contains("lease") => {}
                    false => drop(files.insert(entry.path(), std::fs::read(entry.path()).unwrap())),
                }
            }
        }
        let mut files = BTreeMap::new();
        walk(&self.scratch.path().join("worker"), &mut files);
        files
    }
}

// spec: HQ-1
#[test]
fn what_is_no_request_is_not_answered_and_others_are_served() {
    let mut story = Story::begun();
    let bad = TestNode::new(2);
    story.queue.approve(&bad);
    story.queue.happen();
    let mut worker = story.worker();
    worker.turn(NOW).unwrap();
    let before = story.files();
    let good = story.queue.request(&bad).to_bytes().unwrap();
    for (name, put) in FILES {
        story.queue.clear(&bad.node_id);
        put(&story.queue.request_path(&bad.node_id), &story.scratch.path().join("worker"), &good).unwrap();
        let summary = worker.turn(NOW).unwrap();
        assert_eq!((summary.issued, summary.reused), (0, 0), "{name}: {summary:?}");
        assert!(story.queue.answer(&bad.node_id).is_none_or(|answer| !answer.success), "{name}");
        assert_eq!(story.files(), before, "{name}");
    }
    story.queue.clear(&bad.node_id);
    story.queue.ask(&story.queue.request(&bad));
    assert_eq!(worker.turn(NOW).unwrap().issued, 1, "and a right one is taken");
}

// spec: HQ-2
#[test]
fn a_request_that_lies_is_refused_naming_the_field() {
    let mut story = Story::begun();
    let (node, other) = (TestNode::new(2), TestNode::new(3));
    story.queue.approve(&node);
    story.queue.approve(&other);
    story.queue.happen();
    let mut worker = story.worker();
    worker.turn(NOW).unwrap();
    let before = story.files();
    for (name, field, lie) in REQUESTS {
        story.queue.clear(&node.node_id);
        let mut request = story.queue.request(&node);
        lie(&mut request, &other);
        story.queue.ask(&request);
        let summary = worker.turn(NOW).unwrap();
        assert_eq!((summary.issued, summary.refused), (0, 1), "{name}: {summary:?}");
        let answer = story.queue.answer(&node.node_id).unwrap();
        let said = answer.message.to_string();
        assert!(
            !answer.success && field.split('|').any(|field| said.to_lowercase().contains(&field.to_lowercase())),
            "{name}: {said}"
        );
        assert_eq!(story.files(), before, "{name}");
    }
    story.queue.clear(&node.node_id);
    story.queue.ask(&story.queue.request(&node));
    assert_eq!(worker.turn(NOW).unwrap().issued, 1, "and a right one is taken");
}

// spec: HQ-2
#[test]
fn a_journal_that_does_not_agree_is_named_by_its_field() {
    for (name, field, change) in ROWS {
        let mut story = Story::begun();
        let node = TestNode::new(2);
        story.queue.approve(&node);
        story.queue.change(|journal| change(journal, &node.node_id));
        story.queue.ask(&story.queue.request(&node));
        let summary = story.worker().turn(NOW).unwrap();
        assert_eq!((summary.issued, summary.refused), (0, 1), "{name}: {summary:?}");
        let said = story.queue.answer(&node.node_id).unwrap().message.to_string();
        assert!(said.contains(field), "{name}: {said}");
    }
}

// spec: HQ-3
#[test]
fn nothing_is_signed_on_a_journal_that_was_forged() {
    let mut story = Story::begun();
    let earlier = story.queue.journal().to_bytes().unwrap();
    let node = TestNode::new(2);
    story.queue.approve(&node);
    (0..3).for_each(|_| story.queue.happen());
    let mut worker = story.worker();
    worker.turn(NOW).unwrap();
    story.queue.ask(&story.queue.request(&node));
    let before = story.files();
    for (name, want, forge) in JOURNALS {
        forge(&story.queue.journal_path(), story.queue.journal(), &earlier).unwrap();
        let said = match worker.turn(NOW) {
            Ok(summary) => {
                assert!(!summary.ready && summary.issued == 0, "{name}: {summary:?}");
                summary.problems.join("; ")
            }
            Err(error) => lucia_worker::chain(&error),
        };
        assert!(said.contains(want), "{name}: {said}");
        assert!(story.queue.answer(&node.node_id).is_none_or(|answer| !answer.success), "{name}");
        assert_eq!(story.files(), before, "{name}");
        // Nor after a restart, which reads its own ledger.
        drop(worker);
        worker = story.worker();
        let again = worker.turn(NOW);
        assert!(again.map_or(true, |summary| !summary.ready && summary.issued == 0), "{name}");
        assert_eq!(story.files(), before, "{name}");
        story.queue.write_journal();
    }
    assert_eq!(worker.turn(NOW).unwrap().issued, 1, "and on the true one it goes on");
}

/// The built program: `once` refuses, says why, and ends with the code of its page.
// spec: HQ-4
#[test]
fn the_program_itself_signs_nothing_for_an_enemy() {
    let Some(bin) = programs() else {
        skip("hostile-queue", "no built programs beside this test; `make test` builds them first");
        return;
    };
    let (program, now) = (bin.join("lucia-enrollment-worker"), now());
    let mut story = Story::new(now);
    let config = story.scratch.path().join("worker.toml");
    let config = config.to_str().unwrap();
    run(&program, &["init", "--config", config]).unwrap();
    let node = TestNode::new(1);
    let good = story.queue.request(&node).to_bytes().unwrap();
    run(&program, &["once", "--config", config]).unwrap();
    let before = story.files();
    for (name, put) in FILES {
        story.queue.clear(&node.node_id);
        put(&story.queue.request_path(&node.node_id), &story.scratch.path().join("worker"), &good).unwrap();
        match run(&program, &["once", "--config", config]) {
            Ok(said) => assert!(String::from_utf8_lossy(&said.stdout).contains("issued 0"), "{name}: {said:?}"),
            // Whoever can link to the CA's key is in the worker's own directory: it does not start.
            Err(error) => assert!(name.contains("hard link") && error.to_string().contains("issuing.key"), "{error}"),
        }
        assert_eq!(story.files(), before, "{name}");
    }
    story.queue.clear(&node.node_id);
    (0..3).for_each(|_| story.queue.happen());
    run(&program, &["once", "--config", config]).unwrap();
    let before = story.files();
    story.queue.ask(&story.queue.request(&node));
    for (name, want, forge) in JOURNALS {
        forge(&story.queue.journal_path(), story.queue.journal(), &journal_of_old()).unwrap();
        let failed = run(&program, &["once", "--config", config]);
        let said = failed.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(said.contains(want) || said.contains("exit status: 1"), "{name}: {said:?}");
        assert_eq!(story.files(), before, "{name}");
        story.queue.write_journal();
    }
    let said = run(&program, &["once", "--config", config]).unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("issued 1"), "{said:?}");
}

fn journal_of_old() -> Vec<u8> {
    lucia_proto::files::journal::Journal::empty().to_bytes().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the program under test has the real time of day")]
fn now() -> UnixTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    UnixTime::from_secs(since.as_secs())
}

//! Turns with a directory that answers slowly: none reaches the watchdog, and everybody is answered in the end.

use super::*;
use crate::config::DirectoryConfig;
use crate::directory::readers::tests::{Memory, readers};
use crate::ledger::{By, Entry};

/// The unit's `WatchdogSec=`, with room for what a turn does besides.
const WATCHDOG: std::time::Duration = secs(60 - 10);

/// A worker whose directory is in memory, and takes so long for each call.
fn worker(story: &Story, millis: u64) -> (Worker, Memory) {
    let (fakes, memory) = readers("ldaps://localhost");
    memory.0.lock().unwrap().takes.0 = std::time::Duration::from_millis(millis);
    let mut worker = story.worker();
    let text = "kind = \"ldap\"\nuri = \"ldaps://localhost\"";
    let site: crate::config::DirectorySettings = toml::from_str(text).unwrap();
    let site: Option<DirectoryConfig> = site.resolve().unwrap();
    (worker.config.directory, worker.readers) = (site, fakes);
    (worker, memory)
}

// spec: LD-26
#[test]
fn a_slow_directory_stretches_no_turn_to_the_watchdog_and_nobody_is_left_out() {
    let mut story = Story::journal();
    let nodes: Vec<TestNode> = (1..=20).map(TestNode::new).collect();
    for node in &nodes {
        story.controller.approve(node);
        story.controller.ask(node);
    }
    let (mut worker, memory) = worker(&story, 3000);
    let (mut turns, mut told) = (0, false);
    loop {
        let before = memory.0.lock().unwrap().clock;
        let summary = worker.turn(NOW.plus(secs(turns))).unwrap();
        let took = memory.0.lock().unwrap().clock - before;
        assert!(took < WATCHDOG, "a turn of {took:?}");
        // Not one question a node: that would be a minute.
        assert!((1..=2).contains(&summary.issued), "{summary:?}");
        told |= worker.readers.late().is_some_and(|late| summary.problems.contains(&late));
        turns += 1;
        if !summary.more {
            break;
        }
    }
    assert!(told && turns >= 10, "{turns}");
    nodes.iter().for_each(|node| drop(story.accept(node, NOW.plus(secs(turns)))));
    assert_eq!(story.ledger_kinds("issued"), nodes.len());
    assert_eq!(memory.0.lock().unwrap().entries.len(), nodes.len());
    // It is well again, and so is all that is said.
    memory.0.lock().unwrap().takes.0 = std::time::Duration::from_millis(3);
    assert_eq!(worker.turn(NOW.plus(secs(turns))).unwrap().problems, [""; 0]);
}

// spec: LD-25
#[test]
fn a_node_that_was_barred_beside_the_worker_loses_its_reader_in_the_next_turn() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    let asked = story.controller.ask(&node);
    let (mut worker, memory) = worker(&story, 3);
    assert_eq!(worker.turn(NOW).unwrap().issued, 1);
    assert_eq!(memory.0.lock().unwrap().entries.len(), 1);
    // What `confirm-removals` and `admit --replaces` write.
    let home = story.home();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
    let entry = Entry::Barred { node: crate::decide::names(&asked), by: By::Operator };
    transaction.add(NOW, entry).and_then(|()| transaction.commit()).unwrap();
    worker.turn(NOW.plus(secs(5))).unwrap();
    assert!(memory.0.lock().unwrap().entries.is_empty());
}

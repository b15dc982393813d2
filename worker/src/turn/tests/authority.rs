//! The worker's own authority: what the journal can make it do, and what only a person can (design.md W1, I7).

use lucia_durable::crash_point::crash_at;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{LEAF_LIFETIME, RENEW_UNDER};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::{TestNode, key};

use super::{NOW, Story, endpoint, endpoint_answer};
use crate::authority::{AuthorityError, continues, mark_of};
use crate::fixture::{request, secs};
use crate::ledger::{By, Entry, Ledger, NodeRecord, Records};
use crate::turn::CRASH_POINTS;

const DAY: u64 = 24 * 3600;

impl Story {
    /// These nodes have their certificates.
    fn with_nodes(numbers: std::ops::RangeInclusive<u8>) -> Self {
        let mut story = Self::journal();
        for number in numbers {
            story.controller.approve(&TestNode::new(number));
            story.controller.ask(&TestNode::new(number));
        }
        assert_eq!(story.turn(NOW).problems, Vec::<String>::new());
        story
    }

    fn records(&self) -> Records {
        Ledger::load(&self.home().dir).unwrap().records().clone()
    }

    fn record(&self, number: u8) -> NodeRecord {
        self.records().node(&TestNode::new(number).node_id).unwrap().clone()
    }

    /// A person writes into the ledger.
    fn act(&self, at: UnixTime, entries: &[Entry]) {
        let home = self.home();
        let mut ledger = Ledger::load(&home.dir).unwrap();
        let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
        entries.iter().for_each(|entry| transaction.add(at, entry.clone()).unwrap());
        transaction.commit().unwrap();
    }

    fn message(&self, id: &NodeId) -> String {
        self.controller.answer(id).unwrap().message.to_string()
    }

    /// The node is managed and asks once more.
    fn renew(&mut self, number: u8, at: UnixTime) {
        let node = TestNode::new(number);
        let find = self.controller.journal.devices.iter_mut().find(|device| device.device_id == node.node_id);
        find.unwrap().phase = DevicePhase::Managed;
        let find = self.controller.journal.tasks.iter_mut().find(|task| task.task_id == node.task_id);
        find.unwrap().phase = TaskPhase::Managed;
        self.controller.write_journal();
        self.controller.put_request(&request(&node, at.plus(secs(600))));
    }
}

// spec: WK-60
#[test]
fn a_journal_that_went_back_stops_everything_until_it_is_accepted() {
    let mut story = Story::with_nodes(1..=1);
    (0..3).for_each(|_| story.controller.happen());
    let old = story.controller.journal.clone();
    assert!(story.turn(NOW).ready);
    (0..3).for_each(|_| story.controller.happen());
    let mut worker = story.worker();
    assert!(worker.turn(NOW).unwrap().ready);
    assert_eq!(story.records().mark(), Some(&mark_of(&story.controller.journal)));

    // Restored from a copy: nobody new, nobody removed, and the running worker and one that starts say so alike.
    story.controller.journal = old;
    story.controller.approve(&TestNode::new(2));
    story.controller.ask(&TestNode::new(2));
    story.controller.put("nodes/removals/x", b"");
    for _ in 0..2 {
        let summary = worker.turn(NOW).unwrap();
        assert_eq!((summary.ready, summary.issued, summary.suspended), (false, 0, 0));
        let why = continues(&story.controller.journal, story.records().mark()).unwrap_err();
        assert!(matches!(why, AuthorityError::WentBack { seen: 6, found: 3 }), "{why:?}");
        assert_eq!(summary.problems[0], crate::chain(&why));
        drop(worker);
        worker = story.worker();
    }
    // It went on after that, past what was seen: the events are others.
    story.controller.now.set(NOW.plus(secs(1)));
    (0..9).for_each(|_| story.controller.happen());
    let why = continues(&story.controller.journal, story.records().mark()).unwrap_err();
    assert!(matches!(why, AuthorityError::Differs { .. }), "{why:?}");
    assert_eq!(worker.turn(NOW).unwrap().problems[0], crate::chain(&why));
    assert!(story.controller.answer(&TestNode::new(2).node_id).is_none());

    story.act(NOW, &[Entry::JournalAccepted(mark_of(&story.controller.journal))]);
    assert_eq!(worker.turn(NOW).unwrap().issued, 1);
    story.controller.happen();
    assert!(worker.turn(NOW).unwrap().ready);
}

// spec: WK-60
#[test]
fn a_journal_that_changes_all_the_time_does_not_fill_the_ledger() {
    let mut story = Story::journal();
    let mut worker = story.worker();
    for _ in 0..40 {
        story.controller.happen();
        assert!(worker.turn(NOW).unwrap().ready);
    }
    assert_eq!(story.ledger_kinds("journalSeen"), 12);
    // What was seen and not written counts as long as the process lives.
    story.controller.journal.generation -= 1;
    story.controller.write_journal();
    assert!(!worker.turn(NOW).unwrap().ready);
    story.controller.journal.generation += 1;
    story.controller.happen();
    assert!(worker.turn(NOW.plus(secs(3600))).unwrap().ready);
    assert_eq!(story.ledger_kinds("journalSeen"), 13);
    // Whatever rests on the journal brings its mark along.
    story.controller.approve(&TestNode::new(1));
    story.controller.ask(&TestNode::new(1));
    story.controller.happen();
    assert_eq!(worker.turn(NOW).unwrap().issued, 1);
    assert_eq!(story.records().mark().unwrap().generation, story.controller.journal.generation);
}

// spec: WK-64
#[test]
fn five_removals_an_hour_go_by_themselves_and_all_suspend_at_once() {
    let mut story = Story::with_nodes(1..=8);
    let before = story.controller.journal.clone();
    for number in 1..=7 {
        story.controller.remove(&TestNode::new(number).node_id);
    }
    let summary = story.turn(NOW);
    assert_eq!((summary.suspended, summary.removed), (7, 5));
    let barred = |story: &Story| story.records().nodes().filter(|node| node.barred_at.is_some()).count();
    let held: Vec<u8> =
        (1..=7).filter(|number| story.record(*number).suspended.is_some_and(|(_, held)| held)).collect();
    assert_eq!((barred(&story), held.len()), (5, 2));
    assert!(story.record(8).suspended.is_none());
    // An hour changes nothing for the two.
    let later = NOW.plus(secs(3600));
    assert_eq!(story.turn(later).removed, 0);
    assert_eq!((barred(&story), story.ledger_kinds("removed")), (5, 5));
    let receipts = std::fs::read_dir(story.worker_file("receipts")).unwrap().count();
    assert_eq!(receipts, 3);

    // The journal comes back with all of them, and is accepted: who is barred stays barred, who is suspended waits.
    story.controller.journal = before;
    story.controller.journal.generation += 100;
    story.controller.write_journal();
    story.act(later, &[Entry::JournalAccepted(mark_of(&story.controller.journal))]);
    for number in 1..=7 {
        story.renew(number, later);
    }
    assert_eq!(story.turn(later).refused, 7);
    for number in 1..=7 {
        let (said, waits) = (story.message(&TestNode::new(number).node_id), held.contains(&number));
        assert!(said.contains(if waits { "suspended" } else { "stays barred" }), "{number}: {said}");
    }
    // One goes on by an act, and the very request that was refused is answered.
    let node = story.record(held[0]).names;
    story.act(later.plus(secs(1)), &[Entry::Resumed { node: node.clone() }]);
    let summary = story.turn(later.plus(secs(5)));
    assert_eq!((summary.reused, summary.refused), (1, 0));
    assert!(story.controller.answer(&node.node_id).unwrap().success);
    // The other is barred by one.
    let node = story.record(held[1]).names;
    story.act(later, &[Entry::Barred { node: node.clone(), by: By::Operator }]);
    story.turn(later);
    assert!(!story.worker_file(&format!("receipts/{}.json", node.node_id)).exists());
    story.turn(later);
    assert!(story.record(held[1]).removed_at.is_some());
}

// spec: WK-64
#[test]
fn the_event_alone_suspends_and_absence_alone_does_not() {
    let mut story = Story::with_nodes(1..=3);
    // Never there, or lost with its row: no removal.
    story.controller.forget(&TestNode::new(1).node_id);
    story.controller.happen();
    // Removed, and the file of it never arrived.
    let two = TestNode::new(2).node_id;
    story.controller.remove(&two);
    std::fs::remove_file(story.queue_file(&format!("removals/{two}.json"))).unwrap();
    let summary = story.turn(NOW);
    assert_eq!((summary.suspended, summary.removed), (1, 1));
    assert!(story.record(1).suspended.is_none() && story.record(2).barred_at.is_some());
    // An event from before the node was let in is of another life of its machine.
    story.controller.now.set(NOW.minus(secs(60)));
    story.controller.remove(&TestNode::new(3).node_id);
    std::fs::remove_file(story.queue_file(&format!("removals/{}.json", TestNode::new(3).node_id))).unwrap();
    assert_eq!(story.turn(NOW).suspended, 0);
}

// spec: WK-61
#[test]
fn a_known_name_is_another_keys_only_after_an_act() {
    let mut story = Story::with_nodes(1..=1);
    let (old, mut new) = (TestNode::new(1), TestNode::new(2));
    new.hostname = old.hostname.clone();
    story.controller.remove(&old.node_id);
    story.controller.approve(&new);
    story.controller.ask(&new);
    // In the mode that lets anybody in.
    assert_eq!(story.turn(NOW).refused, 1);
    assert!(story.message(&new.node_id).contains("--replaces n1"), "{}", story.message(&new.node_id));
    // The controller's word makes it wait, and no more.
    story.controller.journal.tasks.last_mut().unwrap().replaces = Some(old.node_id.clone());
    story.controller.happen();
    story.controller.put_request(&request(&new, NOW.plus(secs(599))));
    assert_eq!(story.turn(NOW).awaiting, 1);
    story.controller.journal.tasks.last_mut().unwrap().replaces = Some(TestNode::new(3).node_id);
    story.controller.happen();
    assert_eq!(story.turn(NOW).refused, 1, "it names somebody else");
    let names = crate::decide::names(&request(&new, NOW));
    let replaced = Entry::Replaced { node: story.record(1).names, successor: new.node_id.clone() };
    story.act(NOW, &[replaced, Entry::Admitted { node: names, by: By::Operator }]);
    assert_eq!(story.turn(NOW).issued, 1);
    story.accept(&new, NOW);
    story.turn(NOW);
    assert!(story.record(1).removed_at.is_some());
    assert!(!story.worker_file(&format!("receipts/{}.json", old.node_id)).exists());
}

// spec: WK-62
#[test]
fn what_is_signed_in_an_hour_is_limited() {
    let mut story = Story::new("admission = \"journal\"\nnew-nodes-per-hour = 3\ncertificates-per-hour = 4");
    for number in 1..=5 {
        story.controller.approve(&TestNode::new(number));
        story.controller.ask(&TestNode::new(number));
    }
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.limited, summary.refused), (3, 2, 0));
    assert_eq!(story.turn(NOW.plus(secs(599))).issued, 0);
    // A person is not limited in whom he admits, but certificates are.
    let wait: Vec<u8> =
        (1..=5).filter(|number| story.records().node(&TestNode::new(*number).node_id).is_none()).collect();
    for number in wait.iter().copied() {
        let names = crate::decide::names(&request(&TestNode::new(number), NOW));
        story.act(NOW, &[Entry::Admitted { node: names, by: By::Operator }]);
    }
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.limited), (1, 1));
    let next = NOW.plus(secs(3600));
    let waits = wait.into_iter().find(|number| story.record(*number).issued == 0).unwrap();
    story.controller.put_request(&request(&TestNode::new(waits), next.plus(secs(600))));
    assert_eq!(story.turn(next.minus(secs(1))).limited, 1);
    assert_eq!(story.turn(next).issued, 1);
}

// spec: WK-65
#[test]
fn an_endpoint_that_asks_anew_each_turn_gets_four_certificates_an_hour() {
    let story = Story::new("endpoint-names = [\"controller.example\"]");
    let mut worker = story.worker();
    let mut signed = 0;
    for turn in 0..60 {
        endpoint(&story, &["controller.example"], &key(if turn % 2 == 0 { 8 } else { 9 }));
        signed += usize::from(worker.turn(NOW.plus(secs(turn * 30))).unwrap().endpoint);
    }
    assert_eq!((signed, story.ledger_kinds("endpointIssued")), (4, 4));
    endpoint(&story, &["controller.example"], &key(8));
    assert!(!worker.turn(NOW.plus(secs(3599))).unwrap().endpoint);
    assert!(worker.turn(NOW.plus(secs(3600))).unwrap().endpoint);
    assert!(endpoint_answer(&story).success);
}

// spec: RN-30
#[test]
fn a_node_that_was_gone_for_too_long_renews_after_one_act() {
    let end = NOW.plus(LEAF_LIFETIME).minus(secs(300));
    for (gone, is_refused) in [(1, false), (30 * DAY, false), (30 * DAY + 1, true), (400 * DAY, true)] {
        let mut story = Story::with_nodes(1..=1);
        let at = end.plus(secs(gone));
        story.renew(1, at);
        let summary = story.turn(at);
        assert_eq!((summary.issued, summary.refused), (usize::from(!is_refused), usize::from(is_refused)), "{gone}");
        if !is_refused {
            continue;
        }
        let id = TestNode::new(1).node_id;
        let said = story.message(&id);
        assert!(said.contains("reapproval_needed") && said.contains("release-lapse n1"), "{said}");
        let record = story.record(1);
        let release = Entry::LapseReleased { node: record.names, serial: record.leaf.unwrap().0 };
        story.act(at, &[release]);
        let summary = story.turn(at);
        assert_eq!((summary.issued, summary.refused), (1, 0));
        assert!(story.controller.answer(&id).unwrap().success);
        // The release was for that once.
        let again = at.plus(LEAF_LIFETIME).plus(secs(31 * DAY));
        story.renew(1, again);
        assert_eq!(story.turn(again).refused, 1);
    }
    // A release that nobody used ends after a day.
    let mut story = Story::with_nodes(1..=1);
    let at = end.plus(secs(40 * DAY));
    let record = story.record(1);
    story.act(at, &[Entry::LapseReleased { node: record.names, serial: record.leaf.unwrap().0 }]);
    let late = at.plus(secs(DAY + 1));
    story.renew(1, late);
    assert_eq!(story.turn(late).refused, 1);
}

// spec: QU-18
#[test]
fn q8_a_leaf_that_was_signed_too_late_is_recorded_once() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    // The power goes right after the receipt: the leaf is there, and neither ledger nor answer know of it.
    let steps = story.steps(NOW);
    let nth = steps.iter().position(|step| *step == "worker/receipts").unwrap();
    let mut worker = story.worker();
    let plan = crash_at(story.scratch.path(), nth);
    worker.turn(NOW).unwrap_err();
    assert_eq!(plan.crashed().unwrap().step, "worker/receipts");
    drop((plan, worker));
    assert_eq!(story.ledger_kinds("issued"), 0);
    let late = NOW.plus(secs(601));
    for _ in 0..2 {
        story.controller.put_request(&request(&node, late.minus(secs(1))));
        story.turn(late);
    }
    story.controller.put_request(&request(&node, late.minus(secs(2))));
    story.turn(late);
    assert_eq!((story.ledger_kinds("orphaned"), story.ledger_kinds("issued")), (1, 0));
    assert_eq!(story.records().orphans(late), 1);
    let serial = story.records().orphan(&node.node_id).unwrap().0.clone();
    story.controller.put_request(&request(&node, late.plus(secs(600))));
    assert_eq!(story.turn(late).reused, 1);
    assert_eq!(story.accept(&node, late), serial);
    assert_eq!((story.ledger_kinds("orphaned"), story.ledger_kinds("issued")), (1, 1));
    assert_eq!(story.records().orphans(late), 0);
    assert_eq!(story.records().orphans(late.plus(RENEW_UNDER).plus(secs(2 * DAY))), 0);
}

/// A removal, a replacement, a renewal, a new node and the endpoint, all in one turn.
fn busy() -> (Story, UnixTime) {
    let mut story = Story::with_nodes(1..=3);
    let at = NOW.plus(secs(2 * DAY));
    let mut heir = TestNode::new(4);
    heir.hostname = TestNode::new(2).hostname;
    story.controller.now.set(at);
    story.controller.remove(&TestNode::new(1).node_id);
    story.controller.remove(&TestNode::new(2).node_id);
    story.controller.approve(&heir);
    story.controller.approve(&TestNode::new(5));
    story.controller.happen();
    story.controller.put_request(&request(&heir, at.plus(secs(600))));
    story.controller.put_request(&request(&TestNode::new(5), at.plus(secs(600))));
    story.renew(3, at);
    let names = crate::decide::names(&request(&heir, at));
    let replaced = Entry::Replaced { node: story.record(2).names, successor: heir.node_id };
    story.act(at, &[replaced, Entry::Admitted { node: names, by: By::Operator }]);
    (story, at)
}

/// threats.md F-3.
// spec: WK-40
#[test]
fn every_crash_point_is_hit_and_every_crash_ends_in_the_same_state() {
    let (prepared, at) = busy();
    let state = |story: &Story| {
        let records = story.records();
        let node = |record: &NodeRecord| {
            (
                record.names.clone(),
                record.suspended.is_some(),
                record.barred_at.is_some(),
                record.removed_at.is_some(),
                record.issued,
            )
        };
        records.nodes().map(node).collect::<Vec<_>>()
    };
    let steps = prepared.steps(at);
    let whole = prepared.again();
    whole.turn(at);
    whole.turn(at.plus(secs(5)));
    let want = state(&whole);
    assert_eq!(want.iter().filter(|(.., removed, _)| *removed).count(), 2, "{want:?}");
    let hit = CRASH_POINTS.iter().filter(|point| steps.contains(point)).count();
    println!("crash points: {} registered, {hit} hit", CRASH_POINTS.len());
    assert_eq!(hit, CRASH_POINTS.len(), "{steps:?}");
    for (nth, step) in steps.iter().enumerate() {
        let story = prepared.dies_at(nth, at);
        for later in [5, 10] {
            let summary = story.turn(at.plus(secs(later)));
            assert!(summary.ready && summary.problems.is_empty(), "{nth} {step}: {summary:?}");
        }
        assert_eq!(state(&story), want, "{nth} {step}");
        for number in [3, 5] {
            let serial = story.accept(&TestNode::new(number), at);
            assert_eq!(story.record(number).leaf.unwrap().0, serial, "{nth} {step}");
        }
    }
}

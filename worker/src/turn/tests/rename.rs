//! Another name for a node of the ledger: by the journal, by a person, and through every crash.

use lucia_durable::crash_point::{crash_at, record};
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::node::answer::Answer;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::TestNode;

use super::{NOW, Story};
use crate::fixture::secs;
use crate::ledger::{By, Entry, Ledger, NodeNames};

impl Story {
    /// Node 1 has its certificate.
    fn with_one(more: &'static str) -> Self {
        let mut story = Self::new(more);
        let node = TestNode::new(1);
        story.controller.approve(&node);
        let asked = story.controller.ask(&node);
        if more.is_empty() {
            story.say(&Entry::Admitted { node: crate::decide::names(&asked), by: By::Operator });
        }
        assert_eq!(story.turn(NOW).issued, 1);
        story
    }

    /// A person writes a line into the ledger.
    fn say(&self, entry: &Entry) {
        let home = self.home();
        let mut ledger = Ledger::load(&home.dir).unwrap();
        let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
        transaction.add(NOW, entry.clone()).and_then(|()| transaction.commit()).unwrap();
    }

    /// What the answer that lies there says.
    fn said(&self) -> Answer {
        let signed = self.controller.answer(&TestNode::new(1).node_id).unwrap().answer.unwrap();
        json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap()
    }

    /// The journal gives node 1, which is managed, this name; it asks under it. Gives the node as it calls itself.
    fn renamed(&mut self, name: &str) -> TestNode {
        let mut node = TestNode::new(1);
        node.hostname = name.parse().unwrap();
        let journal = &mut self.controller.journal;
        let device = journal.devices.iter_mut().find(|row| row.device_id == node.node_id).unwrap();
        let task = journal.tasks.iter_mut().find(|row| row.task_id == node.task_id).unwrap();
        (device.phase, task.phase) = (DevicePhase::Managed, TaskPhase::Managed);
        device.former_hostname = device.hostname.replace(node.hostname.clone());
        task.hostname = node.hostname.clone();
        self.controller.write_journal();
        self.controller.ask(&node);
        node
    }
}

fn names(hostname: &str) -> NodeNames {
    let node = TestNode::new(1);
    NodeNames { node_id: node.node_id, fingerprint: node.fingerprint, hostname: hostname.parse().unwrap() }
}

// spec: NN-7
#[test]
fn the_journal_renames_where_it_may_admit_and_every_crash_ends_in_one_leaf() {
    let mut story = Story::with_one("admission = \"journal\"");
    let node = story.renamed("web");
    let first = story.again();
    let (plan, summary) = (record(first.scratch.path()), first.turn(NOW));
    assert_eq!((summary.issued, summary.reused), (1, 0));
    let steps = plan.steps();
    drop(plan);
    assert!(steps.len() > 10, "{steps:?}");
    first.accept(&node, NOW);
    for (nth, step) in steps.iter().enumerate() {
        let story = story.again();
        let plan = crash_at(story.scratch.path(), nth);
        // Opening it dies as well where the step is one of those.
        if let Ok(mut worker) = crate::turn::Worker::open(story.config()) {
            let _ = worker.turn(NOW);
        }
        assert!(plan.crashed().is_some(), "step {nth} {step}");
        drop(plan);
        story.turn(NOW);
        story.accept(&node, NOW);
        assert_eq!((story.ledger_kinds("renamed"), story.ledger_kinds("issued")), (1, 2), "step {nth} {step}");
    }
}

// spec: NN-8
#[test]
fn where_the_operator_admits_a_persons_act_is_waited_for_and_is_enough() {
    let mut story = Story::with_one("");
    let node = story.renamed("web");
    for _ in 0..2 {
        let summary = story.turn(NOW);
        assert_eq!((summary.awaiting, summary.issued, summary.refused), (1, 0, 0));
    }
    assert_eq!(story.said().hostname, TestNode::new(1).hostname, "the answer that lies there is the former one");
    story.say(&Entry::Renamed { node: names("n1"), new: node.hostname.clone(), by: By::Operator });
    assert_eq!(story.turn(NOW.plus(secs(2))).issued, 1);
    story.accept(&node, NOW.plus(secs(2)));
    // And back: the same, the other way round.
    let node = story.renamed("n1");
    assert_eq!(story.turn(NOW.plus(secs(3))).awaiting, 1);
    story.say(&Entry::Renamed { node: names("web"), new: node.hostname.clone(), by: By::Operator });
    assert_eq!(story.turn(NOW.plus(secs(4))).issued, 1);
    story.accept(&node, NOW.plus(secs(4)));
}

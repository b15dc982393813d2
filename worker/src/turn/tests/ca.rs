//! Turns with a CA of somebody else's that is down, slow or wrong (threats.md F-15): nodes wait with a reason, nothing of a
//! wrong answer is stored, and the CA is left alone for 30 s to 15 min.

use super::*;
use crate::ca::fake::{FakeCa, Script, Scripted};
use crate::ca::{Ca, CaError, Embedded, PemChain, StepError};
use lucia_proto::pki::csr;

/// A story whose worker asks a scripted CA; what it is to answer is signed by the fleet's own.
struct Foreign {
    story: Story,
    worker: Worker,
    script: Script,
    own: Embedded,
}

fn down() -> CaError {
    StepError::Failed { status: 500, said: "scripted".to_owned() }.into()
}

fn refused() -> CaError {
    StepError::Refused { status: 403, said: "scripted".to_owned() }.into()
}

impl Foreign {
    fn new(nodes: std::ops::RangeInclusive<u8>) -> Self {
        let mut story = Story::journal();
        for number in nodes {
            let node = TestNode::new(number);
            story.controller.approve(&node);
            story.controller.ask(&node);
        }
        let mut worker = story.worker();
        let text = |name: &str| std::fs::read_to_string(story.worker_file(name)).unwrap();
        let own = Embedded::open(&text("ca/issuing.pem"), &text("ca/issuing.key")).unwrap();
        let (fake, script) = FakeCa::new(own.issuing());
        worker.identity.ca = Box::new(fake);
        Self { story, worker, script, own }
    }

    fn say(&self, about: &TestNode, answer: Result<PemChain, CaError>) {
        let about = about.node_id.to_string();
        self.script.lock().unwrap().push_back(Scripted { about, answer });
    }

    fn leaf(&self, node: &TestNode, now: UnixTime) -> PemChain {
        let csr = csr::check(&node.csr(), &node.node_id, &node.hostname, &node.fingerprint).unwrap();
        self.own.sign_node(&csr, &node.hostname, &node.node_id, now).unwrap()
    }

    #[track_caller]
    fn turn(&mut self, at: UnixTime) -> Summary {
        let summary = self.worker.turn(at).unwrap();
        assert!(self.script.lock().unwrap().is_empty(), "the CA was not asked");
        summary
    }

    fn ask_again(&mut self, nodes: &[TestNode], at: UnixTime) {
        self.story.controller.now.set(at);
        for node in nodes {
            self.story.controller.ask(node);
        }
    }

    fn stored(&self) -> usize {
        std::fs::read_dir(self.story.worker_file("receipts")).unwrap().count() + self.story.ledger_kinds("issued")
    }
}

/// In the order in which a turn looks at them.
fn by_id(numbers: std::ops::RangeInclusive<u8>) -> Vec<TestNode> {
    let mut nodes: Vec<TestNode> = numbers.map(TestNode::new).collect();
    nodes.sort_by(|a, b| a.node_id.cmp(&b.node_id));
    nodes
}

// spec: WK-75 F-15
#[test]
fn a_ca_that_is_down_is_left_alone_for_30_s_to_15_min_and_nothing_is_lost() {
    let mut site = Foreign::new(1..=2);
    let nodes = by_id(1..=2);
    let first = nodes.first().unwrap();
    let mut at = NOW;
    for pause in [30, 60, 120, 240, 480, 900, 900] {
        // Requests have their ten minutes; the controller writes them anew.
        site.ask_again(&nodes, at);
        site.say(first, Err(down()));
        let summary = site.turn(at);
        assert_eq!((summary.issued, summary.ready), (0, true));
        assert_eq!(summary.problems, [chain(&down())]);
        // Until then it is asked about nobody: the script is empty, and the fake refuses.
        for early in [1, pause / 2, pause - 1] {
            site.ask_again(&nodes, at.plus(secs(early)));
            let summary = site.turn(at.plus(secs(early)));
            assert_eq!(summary.problems, [chain(&down())]);
        }
        at = at.plus(secs(pause));
    }
    assert_eq!(site.stored(), 0);
    site.ask_again(&nodes, at);
    for node in &nodes {
        site.say(node, Ok(site.leaf(node, at)));
    }
    let summary = site.turn(at);
    assert_eq!((summary.issued, summary.problems.as_slice()), (2, &[][..]));
    nodes.iter().for_each(|node| drop(site.story.accept(node, at)));
}

// spec: WK-76 F-15
#[test]
fn what_is_wrong_about_one_node_is_not_stored_and_does_not_hold_up_the_others() {
    let nodes = by_id(1..=3);
    let [first, second, third] = nodes.as_slice() else { unreachable!() };
    let mut site = Foreign::new(1..=3);
    site.say(first, Err(refused()));
    let wrong = site.leaf(third, NOW);
    site.say(second, Ok(wrong));
    site.say(third, Ok(site.leaf(third, NOW)));
    let summary = site.turn(NOW);
    assert_eq!(summary.issued, 1);
    let all = summary.problems.join("\n");
    for why in [refused(), CaError::WrongKey] {
        assert!(all.contains(&chain(&why)), "{why:?}: {all}");
    }
    assert!(site.story.controller.answer(&first.node_id).is_none(), "it is no refusal of the request");
    assert_eq!(site.stored(), 2, "receipt and line of the third");
    // After the pause both are asked about again, and the worker has kept nothing of what was wrong.
    site.turn(NOW.plus(secs(29)));
    let at = NOW.plus(secs(30));
    site.say(first, Ok(site.leaf(first, at)));
    site.say(second, Ok(site.leaf(second, at)));
    assert_eq!(site.turn(at).issued, 2);
    nodes.iter().for_each(|node| drop(site.story.accept(node, at)));
}

// spec: WK-77
#[test]
fn a_turn_asks_three_times_and_the_next_one_follows_at_once_with_whoever_waits() {
    let nodes = by_id(1..=7);
    let mut site = Foreign::new(1..=7);
    for (at, part) in nodes.chunks(3).enumerate() {
        for node in part {
            site.say(node, Ok(site.leaf(node, NOW)));
        }
        let summary = site.turn(NOW);
        assert_eq!((summary.issued, summary.more), (part.len(), at < 2));
    }
    nodes.iter().for_each(|node| drop(site.story.accept(node, NOW)));
    assert_eq!(site.turn(NOW).reused, 0);
}

// spec: WK-78
#[test]
fn the_endpoint_waits_for_its_ca_and_is_not_refused_meanwhile() {
    let story = Story::new("endpoint-names = [\"controller.example\"]");
    endpoint(&story, &["controller.example"], &key(60));
    let mut worker = story.worker();
    let text = |name: &str| std::fs::read_to_string(story.worker_file(name)).unwrap();
    let own = Embedded::open(&text("ca/issuing.pem"), &text("ca/issuing.key")).unwrap();
    let (fake, script) = FakeCa::new(own.issuing());
    worker.identity.ca = Box::new(fake);
    let say = |answer| {
        script.lock().unwrap().push_back(Scripted { about: "controller.example".to_owned(), answer });
    };
    say(Err(down()));
    let summary = worker.turn(NOW).unwrap();
    assert_eq!(summary.problems, [chain(&down())]);
    assert!(!story.queue_file("enrollment-responses/endpoint.json").exists());
    worker.turn(NOW.plus(secs(29))).unwrap();
    let names = EndpointNames::new(vec![EndpointName::parse("controller.example").unwrap()]).unwrap();
    let csr = csr::endpoint_check(&csr::endpoint_build(&names, &key(60)), &names).unwrap();
    let at = NOW.plus(secs(30));
    let leaf = own.sign_server(&csr.into(), lucia_proto::base::limits::LEAF_LIFETIME, at).unwrap();
    say(Ok(PemChain { leaf: leaf.pem, issuers: String::new() }));
    assert!(worker.turn(at).unwrap().endpoint);
    assert!(endpoint_answer(&story).success);
}

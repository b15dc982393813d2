//! The lists that are signed from the ledger: what they say, when they are signed anew, and that none ever goes back.

use lucia_proto::base::limits::LIST_INTERVAL;
use lucia_proto::files::owner_queue::{BARRED_FILE, NAMES_FILE};
use lucia_proto::orders::lists::{ListEntry, SignedBarred, SignedList, SignedNames, VerifiedList};

use super::*;

impl Story {
    /// A list as whoever takes it checks it.
    #[track_caller]
    fn list<E: ListEntry>(&self, name: &str) -> VerifiedList<E> {
        let identity = self.identity();
        let signed = SignedList::<E>::from_bytes(&self.published(name).expect("a list")).unwrap();
        signed.verify(&identity.bundle, &identity.root.sha256()).unwrap()
    }

    fn bars(&self, node: &TestNode) -> bool {
        self.list::<lucia_proto::pki::key::Fingerprint>(BARRED_FILE).get(&node.fingerprint).is_some()
    }

    fn called(&self, node: &TestNode) -> Option<String> {
        let names = self.list::<lucia_proto::orders::lists::NamedNode>(NAMES_FILE);
        names.get(&node.node_id).map(|named| named.hostname.to_string())
    }

    /// Two nodes, which are in.
    fn of_two() -> (Self, TestNode, TestNode) {
        let mut story = Self::journal();
        let [one, two] = [1, 2].map(TestNode::new);
        for node in [&one, &two] {
            story.controller.approve(node);
            story.controller.ask(node);
        }
        story.turn(NOW);
        (story, one, two)
    }
}

// spec: WK-261
#[test]
fn what_is_barred_and_what_nodes_are_called_is_published_in_the_turn_that_decides_it() {
    let (mut story, one, two) = Story::of_two();
    assert_eq!(story.called(&one).as_deref(), Some(one.hostname.as_str()));
    assert!(story.called(&two).is_some() && !story.bars(&one) && !story.bars(&two));
    story.controller.remove(&two.node_id);
    story.controller.forget(&two.node_id);
    story.controller.happen();
    assert_eq!(story.turn(NOW.plus(secs(5))).removed, 1);
    assert!(story.bars(&two) && !story.bars(&one));
    assert_eq!((story.called(&two), story.called(&one).is_some()), (None, true));
    // A damaged journal holds up no list.
    let before = story.published(BARRED_FILE);
    story.controller.put("onboarding/state.json", b"{}");
    std::fs::remove_file(story.queue_file("owner-responses").join(BARRED_FILE)).unwrap();
    story.turn(NOW.plus(secs(10)));
    assert!(story.bars(&two) && story.published(BARRED_FILE) != before);
}

// spec: WK-262
#[test]
fn lists_are_signed_hourly_and_one_that_was_put_back_is_replaced_by_a_higher_number() {
    let (story, _, _) = Story::of_two();
    let bytes = |name: &str| story.published(name).unwrap();
    let number = || story.list::<lucia_proto::pki::key::Fingerprint>(BARRED_FILE).list().number;
    let (first, names) = (bytes(BARRED_FILE), bytes(NAMES_FILE));
    let mut worker = story.worker();
    let almost = NOW.plus(LIST_INTERVAL).minus(secs(1));
    for at in [NOW.plus(secs(5)), almost] {
        worker.turn(at).unwrap();
        assert_eq!((bytes(BARRED_FILE), bytes(NAMES_FILE)), (first.clone(), names.clone()), "{at}");
    }
    let before = number();
    worker.turn(NOW.plus(LIST_INTERVAL)).unwrap();
    assert!(number() > before && bytes(NAMES_FILE) != names);
    assert_eq!(story.list::<lucia_proto::pki::key::Fingerprint>(BARRED_FILE).list().time, NOW.plus(LIST_INTERVAL));
    // The controller's directory of an hour ago, within an hour: by this process, and by the next one.
    for at in [NOW.plus(LIST_INTERVAL + secs(5)), NOW.plus(LIST_INTERVAL + secs(10))] {
        let newest = number();
        let dir = story.queue_file("owner-responses");
        std::fs::write(dir.join(BARRED_FILE), &first).unwrap();
        std::fs::write(dir.join(NAMES_FILE), &names).unwrap();
        worker.turn(at).unwrap();
        assert!(number() > newest, "{at}");
    }
    // A clock that was put back, by a day: signed again, with a number that rises all the same.
    let newest = number();
    worker.turn(NOW.minus(secs(86_400))).unwrap();
    assert!(number() > newest);
    assert_eq!(story.list::<lucia_proto::pki::key::Fingerprint>(BARRED_FILE).list().time, NOW.minus(secs(86_400)));
    // Bytes that are none of ours.
    std::fs::write(story.queue_file("owner-responses").join(NAMES_FILE), b"{}").unwrap();
    worker.turn(NOW).unwrap();
    assert!(
        SignedNames::from_bytes(&bytes(NAMES_FILE)).is_ok() && SignedBarred::from_bytes(&bytes(BARRED_FILE)).is_ok()
    );
}

// spec: WK-263
#[test]
fn a_crash_at_each_step_leaves_lists_that_agree_with_the_ledger_after_the_next_turn() {
    let (mut prepared, one, two) = Story::of_two();
    prepared.controller.remove(&two.node_id);
    prepared.controller.forget(&two.node_id);
    prepared.controller.happen();
    let steps = prepared.steps(NOW.plus(secs(5)));
    for (nth, step) in steps.iter().enumerate() {
        let story = prepared.dies_at(nth, NOW.plus(secs(5)));
        // Never a list that says more than the ledger.
        let is_listed = story.bars(&two);
        assert!(!is_listed || story.ledger().is_barred(&two.fingerprint), "{nth} {step}");
        story.turn(NOW.plus(secs(10)));
        assert!(story.bars(&two) && !story.bars(&one) && story.called(&two).is_none(), "{nth} {step}");
    }
}

//! A sync that fails is never repeated and called good (threats.md F-6): the worker ends, nothing of what it could not keep
//! has left, and the next one begins from what the disk has.

use lucia_durable::crash_point::{Fate, ask_at};
use lucia_proto::base::text::chain;

use super::*;

// spec: WK-83 F-6
#[test]
fn a_sync_that_fails_at_any_place_ends_the_worker_and_the_next_one_issues_once() {
    let mut prepared = Story::journal();
    let node = TestNode::new(1);
    prepared.controller.approve(&node);
    prepared.controller.ask(&node);
    let steps = prepared.steps(NOW);
    let mut kinds: Vec<&str> = steps.iter().copied().filter(|step| step.contains("sync")).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() > 2, "{steps:?}");
    for kind in kinds {
        let times = steps.iter().filter(|step| **step == kind).count();
        for nth in 0..times {
            let story = prepared.again();
            let mut worker = story.worker();
            let plan = fail_at(story.scratch.path(), kind, nth, nix::errno::Errno::EIO as i32);
            let failed = worker.turn(NOW);
            assert!(failed.is_err(), "{kind} {nth}: it went on after a sync that failed");
            drop((plan, worker));
            let answered = story.controller.answer(&node.node_id).is_some_and(|answer| answer.success);
            // What had left before the last sync failed rests on receipts and ledger that were synced.
            assert!(!answered || story.ledger_kinds("issued") == 1, "{kind} {nth}");
            story.turn(NOW.plus(secs(5)));
            story.accept(&node, NOW.plus(secs(5)));
            assert_eq!(story.ledger_kinds("issued"), 1, "{kind} {nth}");
        }
    }
}

// spec: WK-84
#[test]
fn a_worker_that_dies_before_its_answer_left_gives_the_endpoint_the_same_certificate() {
    let prepared = Story::new("endpoint-names = [\"controller.example\"]");
    endpoint(&prepared, &["controller.example"], &key(9));
    let die = |story: &Story, at: &'static str, turn: u64| {
        let plan = ask_at(story.scratch.path(), move |step, _| if step == at { Fate::Die } else { Fate::Live });
        story.worker().turn(NOW.plus(secs(turn))).unwrap_err();
        drop(plan);
    };
    // Both sides of the ledger's line, more often than certificates are signed in an hour.
    for at in ["worker/receipts", "worker/recorded"] {
        let story = prepared.again();
        die(&story, at, 0);
        assert_eq!(story.ledger_kinds("endpointIssued"), usize::from(at == "worker/recorded"), "{at}");
        (1..=u64::try_from(ENDPOINT_AN_HOUR).unwrap()).for_each(|turn| die(&story, "worker/recorded", turn));
        let kept = story.home().endpoint().unwrap().unwrap();
        assert!(story.turn(NOW.plus(secs(60))).endpoint, "{at}");
        let answer = endpoint_answer(&story);
        assert_eq!(answer.certificate_pem.unwrap().as_str(), kept.certificate_pem);
        assert_eq!((answer.checked_at, story.ledger_kinds("endpointIssued")), (NOW, 1), "{at}");
        // Another key is another request, and a day later the same one gets another certificate.
        endpoint(&story, &["controller.example"], &key(8));
        assert!(story.turn(NOW.plus(secs(61))).endpoint);
        assert_ne!(story.home().endpoint().unwrap().unwrap().serial, kept.serial);
        assert!(story.turn(NOW.plus(secs(61 + 24 * 3600))).endpoint);
        assert_eq!(story.ledger_kinds("endpointIssued"), 3);
    }
}

// spec: WK-84
#[test]
fn a_kept_certificate_is_for_the_names_of_today_and_a_damaged_receipt_for_nothing() {
    let mut story = Story::new("endpoint-names = [\"controller.example\"]");
    endpoint(&story, &["controller.example"], &key(9));
    assert!(story.turn(NOW).endpoint);
    std::fs::remove_file(story.queue_file("enrollment-responses/endpoint.json")).unwrap();
    story.more = "endpoint-names = [\"other.example\"]";
    assert!(!story.turn(NOW.plus(secs(1))).endpoint);
    assert!(!endpoint_answer(&story).success);
    story.more = "endpoint-names = [\"controller.example\"]";
    assert!(story.turn(NOW.plus(secs(2))).endpoint);
    assert_eq!((endpoint_answer(&story).success, story.ledger_kinds("endpointIssued")), (true, 1));
    std::fs::remove_file(story.queue_file("enrollment-responses/endpoint.json")).unwrap();
    std::fs::write(story.worker_file("receipts/endpoint.json"), "{}").unwrap();
    assert!(story.turn(NOW.plus(secs(3))).endpoint);
    assert_eq!(story.ledger_kinds("endpointIssued"), 2);
}

// spec: VE-408
#[test]
fn a_file_of_a_newer_worker_stops_the_start_by_its_name() {
    let story = Story::new("");
    story.turn(NOW);
    for file in ["ledger.head", "intents.json", "roster.json"] {
        let at = story.scratch.path().join("worker").join(file);
        let before = std::fs::read(&at).ok();
        std::fs::write(&at, r#"{"schemaVersion":2,"later":{}}"#).unwrap();
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o600)).unwrap();
        // The memory of orders is opened with the first order.
        let home = Home::open(&story.config()).unwrap();
        let memory = crate::orders::kept::OrderStore::read(&home.dir).map_err(|error| chain(&error));
        let turn = Worker::open(story.config()).map_err(|error| chain(&error));
        let turn = turn.and_then(|mut worker| worker.turn(NOW).map_err(|error| chain(&error)));
        let said = memory.map(drop).and(turn).map(drop).unwrap_err();
        assert!(said.contains(file) && said.contains("install the newer version again"), "{file}: {said}");
        match before {
            Some(bytes) => std::fs::write(&at, bytes).unwrap(),
            None => std::fs::remove_file(&at).unwrap(),
        }
    }
    story.turn(NOW);
}

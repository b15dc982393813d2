//! Turns with a real directory: nothing is issued or lost while it is down, and what the node is sent opens it.

use lucia_proto::answer::Answer;
use lucia_proto::json;
use lucia_proto::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};

use super::*;
use crate::directory::ldap::PASSWORD_FILE;
use crate::directory::slapd::{self, ADMIN_PASSWORD, Slapd};

/// A fleet whose root signed the directory's certificate.
fn story(slapd: &Slapd) -> (Story, Config) {
    let story = Story::journal();
    let path = story.worker_file(PASSWORD_FILE);
    std::fs::write(&path, ADMIN_PASSWORD).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut config = story.config();
    config.directory = Some(slapd.site(&slapd.uri()));
    (story, config)
}

/// The worker, with the root that signed the directory's certificate in the place of its own for the directory alone.
fn worker(slapd: &Slapd, config: &Config) -> Worker {
    let mut worker = Worker::open(config.clone()).unwrap();
    worker.readers = crate::directory::open(config, &slapd.root).unwrap();
    worker
}

fn answered(story: &Story, node: &TestNode) -> Option<Answer> {
    let signed = story.controller.answer(&node.node_id)?.answer?;
    Some(json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap())
}

// spec: LD-9 F-16
#[test]
fn a_request_waits_for_the_directory_and_then_gets_a_password_that_opens_it() {
    let now = crate::now();
    let Some(mut slapd) = slapd::start("worker-directory-turn", now) else { return };
    slapd.with_services();
    let (mut story, config) = story(&slapd);
    story.controller.now = now;
    let node = TestNode::new(7);
    story.controller.approve(&node);
    story.controller.ask(&node);
    slapd.stop();
    let mut worker = worker(&slapd, &config);
    let summary = worker.turn(now).unwrap();
    assert_eq!((summary.issued, summary.ready), (0, true), "{summary:?}");
    assert!(summary.problems.iter().any(|problem| problem.contains("cannot be reached")), "{summary:?}");
    assert_eq!(answered(&story, &node), None);
    assert_eq!(story.ledger_kinds("issued"), 0);
    slapd.start_again();
    assert_eq!(worker.turn(now.plus(secs(1))).unwrap().issued, 0, "it is left alone for five seconds");
    let summary = worker.turn(now.plus(secs(6))).unwrap();
    assert_eq!((summary.issued, summary.problems.as_slice()), (1, &[][..]));
    let answer = answered(&story, &node).unwrap();
    let access = answer.directory.clone().unwrap();
    assert_eq!(access.wrong_for(&node.node_id), None);
    let password = access.bind_password.open(&node.key, &node.node_id, &node.csr_sha256()).unwrap();
    let password = zeroize::Zeroizing::new(String::from_utf8(password.to_vec()).unwrap());
    slapd.binds(&access.bind_dn, &password).unwrap();
    // Nothing that the controller or the worker keeps has it in clear.
    for kept in
        [story.worker_file(&format!("receipts/{}.json", node.node_id)), story.controller.answer_path(&node.node_id)]
    {
        assert!(!std::fs::read_to_string(&kept).unwrap().contains(password.as_str()), "{}", kept.display());
    }
}

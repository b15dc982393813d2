//! Turns with a real directory: nothing is issued or lost while it is down, and what the node is sent opens it.

use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::node::answer::Answer;

use std::os::unix::fs::PermissionsExt;

use crate::fixture::{Controller, Scratch, secs};
use crate::now;
use crate::slapd::{self, ADMIN_PASSWORD};
use lucia_proto::test_support::TestNode;
use lucia_worker::config::{Config, Settings};
use lucia_worker::directory::ldap::PASSWORD_FILE;
use lucia_worker::init::init;
use lucia_worker::turn::Worker;

fn answered(controller: &Controller, node: &TestNode) -> Option<Answer> {
    let signed = controller.answer(&node.node_id)?.answer?;
    Some(json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap())
}

// spec: LD-9 F-16
#[test]
fn a_request_waits_for_the_directory_and_then_gets_a_password_that_opens_it() {
    let (now, scratch) = (now(), Scratch::new());
    let mut controller = Controller::new(&scratch.path().join("controller"), now);
    let state = scratch.path().join("worker");
    let text = controller.settings(&state, "admission = \"journal\"");
    let mut config: Config = Settings::parse(&text).unwrap().resolve().unwrap();
    init(&config, now).unwrap();
    let Some(mut slapd) = slapd::start("worker-directory-turn", now, Some(&state)) else { return };
    slapd.with_services();
    let path = state.join(PASSWORD_FILE);
    std::fs::write(&path, ADMIN_PASSWORD).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    config.directory = Some(slapd.site(&slapd.uri()));
    let node = TestNode::new(7);
    controller.approve(&node);
    controller.ask(&node);
    slapd.stop();
    let mut worker = Worker::open(config).unwrap();
    let summary = worker.turn(now).unwrap();
    assert_eq!((summary.issued, summary.ready), (0, true), "{summary:?}");
    assert!(summary.problems.iter().any(|problem| problem.contains(&slapd.uri())), "{summary:?}");
    assert_eq!(answered(&controller, &node), None);
    assert!(!std::fs::read_to_string(state.join("ledger.jsonl")).unwrap().contains("\"issued\""));
    slapd.start_again();
    assert_eq!(worker.turn(now.plus(secs(1))).unwrap().issued, 0, "it is left alone for five seconds");
    let summary = worker.turn(now.plus(secs(6))).unwrap();
    assert_eq!((summary.issued, summary.problems.as_slice()), (1, &[][..]));
    let answer = answered(&controller, &node).unwrap();
    let access = answer.directory.clone().unwrap();
    assert_eq!(access.wrong_for(&node.node_id), None);
    let password = access.bind_password.open(&node.key, &node.node_id, &node.csr_sha256()).unwrap();
    let password = zeroize::Zeroizing::new(String::from_utf8(password.to_vec()).unwrap());
    slapd.binds(&access.bind_dn, &password).unwrap();
    // Nothing that the controller or the worker keeps has it in clear.
    for kept in [state.join(format!("receipts/{}.json", node.node_id)), controller.answer_path(&node.node_id)] {
        assert!(!std::fs::read_to_string(&kept).unwrap().contains(password.as_str()), "{}", kept.display());
    }
}

//! Which request may take the place of which, and whose answers count.

use std::time::Duration;

use lucia_proto::base::limits::REQUEST_LIFETIME_MAX;
use lucia_proto::test_support::TestNode;

use super::*;

fn wanted() -> Wanted {
    let node = TestNode::new(1);
    Wanted {
        is_renamed: false,
        csr_pem: node.csr(),
        node_id: node.node_id,
        task_id: node.task_id,
        hostname: node.hostname,
        fingerprint: node.fingerprint,
    }
}

fn request(wanted: &Wanted, expires_at: UnixTime) -> EnrollmentRequest {
    EnrollmentRequest {
        schema_version: Version,
        node_id: wanted.node_id.clone(),
        task_id: wanted.task_id.clone(),
        hostname: wanted.hostname.clone(),
        public_key_fingerprint: wanted.fingerprint,
        csr_pem: PemText::try_from(wanted.csr_pem.clone()).unwrap(),
        expires_at,
    }
}

// spec: QU-19
#[test]
fn an_open_request_differs_in_nothing() {
    let now = UnixTime::from_secs(1_000_000);
    let later = now.plus(Duration::from_secs(1));
    let other = TestNode::new(2);
    type Change = fn(&mut Wanted, &TestNode);
    let changes: [(&str, Change); 5] = [
        ("nodeId", |wanted, other| wanted.node_id = other.node_id.clone()),
        ("taskId", |wanted, other| wanted.task_id = other.task_id.clone()),
        ("hostname", |wanted, other| wanted.hostname = other.hostname.clone()),
        ("publicKeyFingerprint", |wanted, other| wanted.fingerprint = other.fingerprint),
        ("csrPem", |wanted, _| wanted.csr_pem.push('\n')),
    ];
    let there = request(&wanted(), later);
    assert_eq!(decide(Some(&there), &wanted(), now), Decision::Wait);
    assert_eq!(decide(Some(&there), &wanted(), later), Decision::Ask);
    assert_eq!(decide(None, &wanted(), now), Decision::Ask);
    for (field, change) in changes {
        let mut wanted = wanted();
        change(&mut wanted, &other);
        assert_eq!(decide(Some(&there), &wanted, now), Decision::Refuse(field));
        assert_eq!(decide(Some(&there), &wanted, later), Decision::Ask);
    }
    assert!(REQUEST_LIFETIME <= REQUEST_LIFETIME_MAX);
}

// spec: QU-9
#[test]
fn an_answer_that_is_a_link_or_open_to_others_does_not_count() {
    use crate::parts::tests::bench::World;
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let queue = queue_of(&world);
    let path = world.file("nodes/enrollment-responses/endpoint.json");
    let csr = lucia_proto::pki::csr::endpoint_build(&world.config.names, &lucia_proto::test_support::key(9));
    queue.endpoint_request(&csr).unwrap();
    let request = std::fs::read(world.file("nodes/enrollment-requests/endpoint.json")).unwrap();
    let answer = EndpointAnswer {
        schema_version: Version,
        request_hash: request_hash(&request),
        success: false,
        message: "no".parse().unwrap(),
        checked_at: world.now(),
        certificate_pem: None,
    };
    std::fs::write(&path, answer.to_bytes().unwrap()).unwrap();
    for (mode, code) in [(0o640, Code::NodeEnrollmentFailed), (0o666, Code::NodeWorkerUnavailable)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(queue.endpoint_answer(world.now()).unwrap_err().code, code, "{mode:o}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let elsewhere = world.file("nodes/elsewhere.json");
    std::fs::rename(&path, &elsewhere).unwrap();
    for link in [elsewhere.as_path(), Path::new("/etc/passwd")] {
        std::os::unix::fs::symlink(link, &path).unwrap();
        assert_eq!(queue.endpoint_answer(world.now()).unwrap_err().code, Code::NodeWorkerUnavailable);
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(queue.endpoint_answer(world.now()).unwrap(), None);
    std::fs::remove_file(world.file("nodes/enrollment-responses/enrollment-worker.json")).unwrap();
    std::fs::remove_dir(world.file("nodes/enrollment-responses")).unwrap();
    let refusal = queue.endpoint_answer(world.now()).unwrap_err();
    assert_eq!(refusal.code, Code::NodeWorkerUnavailable);
    assert!(refusal.log.contains("enrollment-responses"), "{refusal}");
}

/// A queue on the directories of a world whose own queue is idle.
fn queue_of(world: &crate::parts::tests::bench::World) -> Queue {
    let layout = crate::store::layout::Layout::open(&world.config).unwrap();
    Queue::new(layout.requests, layout.removals, layout.responses)
}

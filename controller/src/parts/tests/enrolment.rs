//! Certificates through the queue, renewal, removal.

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::TaskId;
use lucia_proto::node::phase::DevicePhase as P;
use lucia_proto::node::report::{EnrollRequest, Purpose};
use lucia_proto::node::state::SnapshotState;
use lucia_proto::test_support::{TestCa, hostile_answers, hostile_csrs};

use super::bench::{Machine, OPERATOR, WORKER_REFUSES, World, code};
use crate::parts::Enrolled;

/// A machine that may ask for its certificate.
fn awaiting(world: &World, number: u8) -> Machine {
    let mut machine = Machine::new(number);
    world.window();
    machine.discover(world).unwrap();
    machine.approve(world).unwrap();
    machine.grant(world).unwrap();
    machine.progress(world, P::Installing).unwrap();
    machine.progress(world, P::AwaitingEnrollment).unwrap();
    world.worker_is_there();
    machine
}

#[test]
fn only_a_first_heartbeat_waits_for_the_disk() {
    let world = World::new();
    let machine = world.certified(1);
    let stranger = Machine::new(2);
    assert!(world.parts.fleet.heartbeat_waits(machine.id()));
    assert!(!world.parts.fleet.heartbeat_waits(stranger.id()));
    let before = world.journal();
    machine.heartbeat(&world).unwrap();
    assert_ne!(world.journal(), before);
    assert!(!world.parts.fleet.heartbeat_waits(machine.id()));
    let before = world.journal();
    machine.heartbeat(&world).unwrap();
    assert_eq!(world.journal(), before);
}

// spec: EN-31
#[test]
fn asking_twice_is_asking_once_and_asking_for_something_else_is_refused() {
    let world = World::new();
    let machine = awaiting(&world, 1);
    let path = world.file(&format!("nodes/enrollment-requests/{}.json", machine.id()));
    assert_eq!(machine.enroll(&world).unwrap(), Enrolled::Pending);
    let request = std::fs::read(&path).unwrap();
    world.advance(30);
    assert_eq!(machine.enroll(&world).unwrap(), Enrolled::Pending);
    assert_eq!(std::fs::read(&path).unwrap(), request);
    let since = world.parts.enrollment.onboarding().devices[0].task.as_ref().unwrap().enrollment_pending_since;
    assert_eq!(since, Some(world.now().minus(std::time::Duration::from_secs(30))));
    let mut other = machine.enroll_request(Purpose::Enroll);
    other.task_id = TaskId::from_random([9; 16]);
    assert_eq!(code(machine.enroll_with(&world, &other)), Some(Code::EnrollmentMismatch));
    // One of a megabyte does not fit a report at all.
    for hostile in hostile_csrs(&machine.node).into_iter().filter(|hostile| hostile.pem.len() < 16 * 1024) {
        let mut other = machine.enroll_request(Purpose::Enroll);
        other.csr_pem = hostile.pem;
        world.advance(1);
        let refused = machine.enroll_with(&world, &other);
        assert!(matches!(code(refused), Some(Code::EnrollmentMismatch | Code::InvalidBody)), "{}", hostile.name);
        assert_eq!(std::fs::read(&path).unwrap(), request, "{}", hostile.name);
    }
    // Where no request is open it is the template alone that refuses.
    let fresh = awaiting(&world, 2);
    let path = world.file(&format!("nodes/enrollment-requests/{}.json", fresh.id()));
    for hostile in hostile_csrs(&fresh.node).into_iter().filter(|hostile| hostile.pem.len() < 16 * 1024) {
        let other = EnrollRequest { csr_pem: hostile.pem, ..fresh.enroll_request(Purpose::Enroll) };
        world.advance(1);
        world.worker_is_there();
        let refused = fresh.enroll_with(&world, &other);
        assert!(matches!(code(refused), Some(Code::EnrollmentMismatch | Code::InvalidBody)), "{}", hostile.name);
        assert!(!path.exists(), "{}", hostile.name);
    }
}

// spec: EN-32
#[test]
fn an_unanswered_request_runs_out_after_ten_minutes() {
    let world = World::new();
    let machine = awaiting(&world, 1);
    let path = world.file(&format!("nodes/enrollment-requests/{}.json", machine.id()));
    machine.enroll(&world).unwrap();
    let request = std::fs::read(&path).unwrap();
    world.advance(599);
    world.parts.tick();
    assert_eq!(std::fs::read(&path).unwrap(), request);
    world.advance(1);
    world.worker_is_there();
    assert_eq!(machine.enroll(&world).unwrap(), Enrolled::Pending);
    assert_ne!(std::fs::read(&path).unwrap(), request);
    world.advance(600);
    world.parts.tick();
    assert!(!path.exists());
}

// spec: EN-33
#[test]
fn a_worker_not_heard_for_45_seconds_is_unavailable() {
    let world = World::new();
    let machine = awaiting(&world, 1);
    let path = world.file(&format!("nodes/enrollment-requests/{}.json", machine.id()));
    world.advance(46);
    assert_eq!(code(machine.enroll(&world)), Some(Code::NodeWorkerUnavailable));
    assert!(!path.exists(), "nothing is asked of a worker that is not there");
    assert!(!world.parts.enrollment.onboarding().worker.ready);
    world.worker_is_there();
    machine.enroll(&world).unwrap();
    world.advance(46);
    assert_eq!(code(machine.enroll(&world)), Some(Code::NodeWorkerUnavailable));
    // An answer that is there counts, whatever became of the worker since.
    world.worker_answers(&machine, Some(world.signed_answer(&machine)));
    assert!(matches!(machine.enroll(&world).unwrap(), Enrolled::Ready(_)));
    std::fs::remove_file(world.file("nodes/enrollment-responses/enrollment-worker.json")).unwrap();
    assert!(world.parts.enrollment.onboarding().worker.message.is_some());
}

// spec: EN-34
#[test]
fn the_workers_refusal_is_told_until_it_was_asked_anew() {
    let world = World::new();
    let machine = awaiting(&world, 1);
    machine.enroll(&world).unwrap();
    world.worker_answers(&machine, None);
    let refusal = machine.enroll(&world).unwrap_err();
    assert_eq!(refusal.code, Code::NodeEnrollmentFailed);
    assert!(refusal.message.contains(WORKER_REFUSES));
    world.advance(600);
    world.worker_is_there();
    // Who comes by once in a quarter of an hour hears it as well, while the worker is asked anew.
    assert_eq!(code(machine.enroll(&world)), Some(Code::NodeEnrollmentFailed));
    assert_eq!(machine.enroll(&world).unwrap(), Enrolled::Pending);
}

// spec: EN-35
#[test]
fn an_answer_counts_for_the_very_bytes_that_were_asked() {
    let world = World::new();
    let (machine, other) = (awaiting(&world, 1), awaiting(&world, 2));
    machine.enroll(&world).unwrap();
    other.enroll(&world).unwrap();
    let answers = world.file("nodes/enrollment-responses");
    // The answer to another request.
    world.worker_answers(&other, Some(world.signed_answer(&other)));
    let bytes = std::fs::read(answers.join(format!("{}.json", other.id()))).unwrap();
    super::bench::write(&answers.join(format!("{}.json", machine.id())), &bytes);
    assert_eq!(machine.enroll(&world).unwrap(), Enrolled::Pending);
    // Torn, open to others, too large.
    super::bench::write(&answers.join(format!("{}.json", machine.id())), &bytes[..bytes.len() / 2]);
    assert_eq!(code(machine.enroll(&world)), Some(Code::NodeWorkerUnavailable));
    // Signed by the worker, and not what this node may use; and another fleet's.
    let mut wrong: Vec<_> = hostile_answers(&world.ca, &machine.node, world.now())
        .into_iter()
        .map(|(_, name, answer)| (name, answer))
        .collect();
    let foreign = TestCa::with_keys(world.now(), 101);
    wrong.push(("another fleet", foreign.sign_answer(&foreign.answer(&machine.node, world.now()))));
    for (name, answer) in wrong {
        world.advance(1);
        world.worker_is_there();
        world.worker_answers(&machine, Some(answer));
        assert_eq!(code(machine.enroll(&world)), Some(Code::NodeEnrollmentFailed), "{name}");
        assert!(!world.file(&format!("nodes/identities/{}.json", machine.id())).exists(), "{name}");
    }
}

// spec: EN-37
#[test]
fn an_answer_for_another_node_or_task_does_not_count_whatever_it_acknowledges() {
    use lucia_proto::node::enrollment::EnrollmentAnswerFile;
    let world = World::new();
    let machine = awaiting(&world, 1);
    machine.enroll(&world).unwrap();
    world.worker_answers(&machine, Some(world.signed_answer(&machine)));
    let path = world.file(&format!("nodes/enrollment-responses/{}.json", machine.id()));
    let good = EnrollmentAnswerFile::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
    let node = EnrollmentAnswerFile { node_id: Machine::new(2).node.node_id, ..good.clone() };
    let task = EnrollmentAnswerFile { task_id: TaskId::from_random([9; 16]), ..good.clone() };
    for wrong in [node, task] {
        super::bench::write(&path, &wrong.to_bytes().unwrap());
        assert_eq!(code(machine.enroll(&world)), Some(Code::NodeWorkerUnavailable));
    }
    super::bench::write(&path, &good.to_bytes().unwrap());
    assert!(matches!(machine.enroll(&world).unwrap(), Enrolled::Ready(_)));
}

// spec: EN-38
#[test]
fn a_first_certificate_and_a_first_heartbeat_come_within_the_grants_time() {
    let world = World::new();
    let late = awaiting(&world, 1);
    let silent = world.certified(2);
    world.advance(7200);
    world.worker_is_there();
    let journal = world.journal();
    assert_eq!(code(late.enroll(&world)), Some(Code::EnrollmentExpired));
    assert_eq!(code(silent.heartbeat(&world)), Some(Code::EnrollmentExpired));
    assert_eq!(world.phase(&silent), Some(P::AwaitingEnrollment));
    assert_eq!(world.journal(), journal);
    world.parts.tick();
    assert_eq!(world.phase(&silent), Some(P::Failed));
    // A node that is managed has all the time there is.
    let node = world.node(3);
    world.advance(7200);
    node.heartbeat(&world).unwrap();
}

// spec: RN-21
#[test]
fn renewal_is_repeatable_and_the_old_leaf_works_to_its_own_end() {
    let world = World::new();
    let mut machine = world.node(1);
    let old = machine.certificate.clone();
    world.advance(2 * 24 * 3600);
    world.worker_is_there();
    assert_eq!(machine.renew(&world).unwrap(), Enrolled::Pending);
    let answer = world.signed_answer(&machine);
    world.worker_answers(&machine, Some(answer.clone()));
    for _ in 0..3 {
        assert_eq!(machine.renew(&world).unwrap(), Enrolled::Ready(answer.clone()));
    }
    machine.heartbeat(&world).unwrap();
    machine.certificate = world.ca.issue(&machine.node, world.now());
    machine.heartbeat(&world).unwrap();
    let expires = world.parts.node(machine.id()).unwrap().node.certificate_expires_at;
    assert_eq!(expires, Some(world.now().plus(lucia_proto::base::limits::LEAF_LIFETIME)));
    machine.certificate = old;
    world.advance(5 * 24 * 3600);
    machine.heartbeat(&world).unwrap();
    world.advance(1);
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
}

// spec: RN-22
#[test]
fn s_12_a_lapsed_leaf_renews_and_does_nothing_else() {
    let world = World::new();
    let mut machine = world.node(1);
    world.advance(20 * 24 * 3600);
    world.worker_is_there();
    let journal = world.journal();
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(machine.renew(&world).unwrap(), Enrolled::Pending);
    world.worker_answers(&machine, Some(world.signed_answer(&machine)));
    assert!(matches!(machine.renew(&world).unwrap(), Enrolled::Ready(_)));
    assert_eq!(world.journal(), journal);
    // One that has not begun renews nothing.
    let lapsed = std::mem::replace(
        &mut machine.certificate,
        world.ca.issue(&machine.node, world.now().plus(std::time::Duration::from_secs(3600))),
    );
    assert_eq!(code(machine.renew(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
    // Nor does a lapsed one of another fleet or node.
    let other = world.node(2);
    let foreign = TestCa::with_keys(world.now().minus(std::time::Duration::from_secs(20 * 24 * 3600)), 101);
    for certificate in [
        foreign.issue(&machine.node, world.now().minus(std::time::Duration::from_secs(19 * 24 * 3600))),
        other.certificate,
    ] {
        machine.certificate = certificate;
        assert_eq!(code(machine.renew(&world)), Some(Code::NodeIdentityInvalid));
    }
    machine.certificate = lapsed;
    machine.renew(&world).unwrap();
}

// spec: ST-7
#[test]
fn s_11_removal_leaves_nothing_for_a_next_one_of_that_name() {
    let world = World::new();
    let machine = world.node(1);
    machine.heartbeat(&world).unwrap();
    world.parts.flush();
    let id = machine.id().clone();
    let record = world.file(&format!("nodes/identities/{id}.json"));
    assert!(record.exists());
    world.parts.enrollment.remove(&id, OPERATOR).unwrap();
    assert!(!record.exists());
    assert!(!world.file(&format!("nodes/enrollment-requests/{id}.json")).exists());
    assert!(world.file(&format!("nodes/removals/{id}.json")).exists());
    world.parts.tick();
    world.parts.flush();
    assert!(!record.exists());
    // Its next calls get what an id never seen gets, to the letter.
    let stranger = Machine { certificate: machine.certificate.clone(), ..Machine::new(50) };
    for (removed, unknown) in [
        (machine.heartbeat(&world), stranger.heartbeat(&world)),
        (machine.renew(&world).map(drop), stranger.renew(&world).map(drop)),
        (machine.state(&world).map(drop), stranger.state(&world).map(drop)),
        (machine.enroll(&world).map(drop), stranger.enroll(&world).map(drop)),
    ] {
        let (removed, unknown) = (removed.unwrap_err(), unknown.unwrap_err());
        assert_eq!((removed.code, removed.message), (unknown.code, unknown.message));
    }
    assert_eq!(code(world.parts.node(&id)), Some(Code::UnknownNode));
    // Another machine under the same name is another node.
    let mut next = Machine::new(2);
    next.node.hostname = machine.node.hostname.clone();
    next.discover(&world).unwrap();
    next.approve(&world).unwrap();
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
    // The same machine again is approved anew, and its former certificate is not enough.
    let mut again = Machine::new(1);
    again.node.hostname = "n1b".parse().unwrap();
    again.discover(&world).unwrap();
    again.approve(&world).unwrap();
    assert!(!world.file(&format!("nodes/removals/{id}.json")).exists());
    again.request_id = lucia_proto::base::ids::RequestId::from_random([44; 16]);
    again.grant(&world).unwrap();
    again.progress(&world, P::Installing).unwrap();
    again.progress(&world, P::AwaitingEnrollment).unwrap();
    again.certificate = machine.certificate.clone();
    assert_eq!(code(again.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(world.phase(&again), Some(P::AwaitingEnrollment));
}

// spec: ST-8
#[test]
fn a_failed_installation_leaves_no_certificate_to_the_next() {
    let world = World::new();
    let mut machine = world.certified(1);
    machine.progress(&world, P::Failed).unwrap();
    machine.discover(&world).unwrap();
    machine.approve(&world).unwrap();
    machine.request_id = lucia_proto::base::ids::RequestId::from_random([44; 16]);
    machine.grant(&world).unwrap();
    machine.progress(&world, P::Installing).unwrap();
    machine.progress(&world, P::AwaitingEnrollment).unwrap();
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
}

// spec: HB-21
#[test]
fn a_heartbeat_is_kept_and_shown() {
    let world = World::new();
    let mut machine = world.certified(1);
    assert!(world.parts.nodes().nodes.is_empty());
    assert_eq!(world.parts.enrollment.onboarding().devices.len(), 1);
    machine.heartbeat(&world).unwrap();
    assert!(world.parts.enrollment.onboarding().devices.is_empty());
    let view = world.parts.node(machine.id()).unwrap();
    assert_eq!((view.node.state, view.node.last_seen_at), (SnapshotState::Online, Some(world.now())));
    assert_eq!((view.samples.len(), view.samples[0].load_average), (1, Some(0.5)));
    assert_eq!(view.uptime_seconds, Some(60));
    world.advance(120);
    assert_eq!(world.parts.nodes().nodes[0].state, SnapshotState::Stale);
    world.parts.tick();
    let seen = world.now();
    let world = world.restart();
    let view = world.parts.node(machine.id()).unwrap();
    assert_eq!(view.node.last_seen_at, Some(seen.minus(std::time::Duration::from_secs(120))));
    assert_eq!(view.samples.len(), 0);
    for address in ["192.0.2.77", "2001:db8::77"] {
        machine.from = address.parse().unwrap();
        machine.heartbeat(&world).unwrap();
        assert_eq!(world.parts.node(machine.id()).unwrap().node.address, Some(machine.from));
    }
}

// spec: EN-36
#[test]
fn the_endpoints_certificate_comes_through_the_same_queue() {
    use lucia_proto::base::bounded::Version;
    use lucia_proto::base::digest::Digest;
    use lucia_proto::node::enrollment::EndpointAnswer;
    let world = World::new();
    assert_eq!(world.parts.enrollment.endpoint_answer().unwrap(), None);
    let key = lucia_proto::test_support::key(9);
    let csr = lucia_proto::pki::csr::endpoint_build(&world.config.names, &key);
    world.parts.enrollment.endpoint_request(&csr).unwrap();
    let path = world.file("nodes/enrollment-requests/endpoint.json");
    let request = std::fs::read(&path).unwrap();
    world.parts.enrollment.endpoint_request(&csr).unwrap();
    world.parts.tick();
    assert_eq!(std::fs::read(&path).unwrap(), request);
    assert_eq!(world.parts.enrollment.endpoint_answer().unwrap(), None);
    let pem = world.ca.issuing_pem();
    let mut answer = EndpointAnswer {
        schema_version: Version,
        request_hash: Digest::of(b"another"),
        success: true,
        message: "".parse().unwrap(),
        checked_at: world.now(),
        certificate_pem: Some(pem.clone().try_into().unwrap()),
    };
    let response = world.file("nodes/enrollment-responses/endpoint.json");
    super::bench::write(&response, &answer.to_bytes().unwrap());
    assert_eq!(world.parts.enrollment.endpoint_answer().unwrap(), None);
    answer.request_hash = Digest::of(&request);
    super::bench::write(&response, &answer.to_bytes().unwrap());
    assert_eq!(world.parts.enrollment.endpoint_answer().unwrap(), Some(pem));
    answer.success = false;
    answer.certificate_pem = None;
    super::bench::write(&response, &answer.to_bytes().unwrap());
    assert_eq!(code(world.parts.enrollment.endpoint_answer()), Some(Code::NodeEnrollmentFailed));
}

use std::time::Duration;

use super::*;
use crate::files::journal::Journal;
use crate::node::heartbeat::Heartbeat;
use crate::node::phase::{DevicePhase, TaskPhase};
use crate::node::state::SnapshotState;
use crate::test_support::fault;

/// 2026-11-29T20:00:00Z, when the vectors play.
const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const MINUTE: Duration = Duration::from_secs(60);

/// The golden journal: one device, awaiting enrolment.
fn journal() -> Journal {
    Journal::from_bytes(include_bytes!("../../../../tests/vectors/journal.json")).unwrap()
}

/// The golden request that goes with it.
fn request() -> EnrollmentRequest {
    EnrollmentRequest::from_bytes(include_bytes!("../../../../tests/vectors/enrollment-request.json")).unwrap()
}

type Change = fn(&mut EnrollmentRequest, &mut Journal);

fn verdict(change: Change) -> Result<(), &'static str> {
    let (mut request, mut journal) = (request(), journal());
    change(&mut request, &mut journal);
    agrees(&request, &journal, NOW).map_err(|disagreement| disagreement.field)
}

// spec: QU-1 (threats.md Q-6)
#[test]
fn the_first_field_that_differs_is_named() {
    let cases: [(&str, Change); 22] = [
        ("expiresAt", |r, _| r.expires_at = NOW),
        ("expiresAt", |r, _| r.expires_at = NOW.minus(MINUTE)),
        ("expiresAt", |r, _| r.expires_at = NOW.plus(15 * MINUTE).plus(Duration::from_secs(1))),
        ("publicKeyFingerprint", |r, _| r.public_key_fingerprint = other_key()),
        ("publicKeyFingerprint", |r, _| r.node_id = other_key().node_id()),
        ("nodeId", |_, j| j.devices.clear()),
        ("nodeId", |r, _| {
            r.public_key_fingerprint = other_key();
            r.node_id = other_key().node_id();
        }),
        ("publicKeyFingerprint", |_, j| j.devices[0].fingerprint = other_key()),
        ("publicKeyFingerprint", |_, j| j.tasks[0].fingerprint = other_key()),
        ("taskId", |r, _| r.task_id = TaskId::from_random([9; 16])),
        ("taskId", |_, j| j.devices[0].task_id = None),
        ("taskId", |_, j| j.tasks.clear()),
        ("taskId", |_, j| j.tasks[0].device_id = other_key().node_id()),
        ("hostname", |r, _| r.hostname = "web-02".parse().unwrap()),
        ("hostname", |_, j| j.devices[0].hostname = None),
        ("hostname", |_, j| j.tasks[0].hostname = "web-02".parse().unwrap()),
        ("phase", |_, j| j.devices[0].phase = DevicePhase::Managed),
        ("phase", |_, j| j.tasks[0].phase = TaskPhase::Managed),
        ("inventoryHash", |_, j| j.tasks[0].inventory_hash = Digest::ZERO),
        ("inventoryRevision", |_, j| j.devices[0].inventory_revision += 1),
        ("grant", |_, j| j.tasks[0].grant = None),
        ("progressExpiresAt", |_, j| {
            j.tasks[0].grant.as_mut().unwrap().progress_expires_at = NOW.minus(Duration::from_secs(1));
        }),
    ];
    for (index, (field, change)) in cases.into_iter().enumerate() {
        assert_eq!(verdict(change), Err(field), "case {index}");
    }
}

fn other_key() -> Fingerprint {
    crate::test_support::key(200).public().fingerprint()
}

// spec: QU-2
#[test]
fn a_request_that_agrees_is_accepted_to_the_last_second() {
    let cases: [Change; 5] = [
        |_, _| (),
        |r, _| r.expires_at = NOW.plus(Duration::from_secs(1)),
        |r, _| r.expires_at = NOW.plus(15 * MINUTE),
        |_, j| j.tasks[0].grant.as_mut().unwrap().progress_expires_at = NOW,
        // A renewal: the grant's time is long over.
        |_, j| {
            j.devices[0].phase = DevicePhase::Managed;
            j.tasks[0].phase = TaskPhase::Managed;
            j.tasks[0].grant.as_mut().unwrap().progress_expires_at = UnixTime::EPOCH;
        },
    ];
    for (index, change) in cases.into_iter().enumerate() {
        assert_eq!(verdict(change), Ok(()), "case {index}");
    }
}

// spec: QU-3
#[test]
fn only_two_pairs_of_phases_may_be_issued_for() {
    for device in DevicePhase::ALL {
        for task in TaskPhase::ALL {
            let (request, mut journal) = (request(), journal());
            journal.devices[0].phase = device;
            journal.tasks[0].phase = task;
            let may = matches!(
                (device, task),
                (DevicePhase::AwaitingEnrollment, TaskPhase::AwaitingEnrollment)
                    | (DevicePhase::Managed, TaskPhase::Managed)
            );
            assert_eq!(agrees(&request, &journal, NOW).is_ok(), may, "{device:?} {task:?}");
        }
    }
}

// spec: QU-4
#[test]
fn a_request_has_exactly_its_keys() {
    let text = String::from_utf8(request().to_bytes().unwrap()).unwrap();
    let read = |text: &str| EnrollmentRequest::from_bytes(text.as_bytes()).map_err(|e| fault(&e));
    assert!(read(&text).is_ok());
    for (from, to, error) in [
        ("{\"schemaVersion\":1", "{\"schemaVersion\":2", "schemaVersion: Refused"),
        ("{\"schemaVersion\":1", "{\"extra\":1,\"schemaVersion\":1", "extra: UnknownField"),
        ("\"hostname\":\"web-01\",", "", "hostname: MissingField"),
        ("\"web-01\"", "\"../web\"", "hostname: Refused"),
        ("-----BEGIN", "x-----BEGIN", "csrPem: Refused"),
        ("2026-11-29T20:10:00Z", "2026-11-29T20:10:00+00:00", "expiresAt: Refused"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(read(&text.replacen(from, to, 1)).map(|_| ()), Err(error.to_owned()));
    }
    let long = format!("-----BEGIN {}", "A".repeat(QUEUE_CSR_PEM_MAX));
    assert!(read(&text.replacen("-----BEGIN", &long, 1)).is_err());
    let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert!(read(&padded(QUEUE_FILE_MAX)).is_ok());
    assert_eq!(read(&padded(QUEUE_FILE_MAX + 1)).map(drop), Err(": TooLarge".to_owned()));
}

// spec: QU-5
#[test]
fn success_and_content_go_together() {
    let good = include_str!("../../../../tests/vectors/enrollment-answer.json");
    let failed = include_str!("../../../../tests/vectors/enrollment-answer-failed.json");
    let read = |text: &str| EnrollmentAnswerFile::from_bytes(text.as_bytes()).map_err(|e| fault(&e));
    let rule = Err("answer: Refused".to_owned());
    assert!(read(good).is_ok() && read(failed).is_ok());
    assert_eq!(read(&good.replace("\"success\":true", "\"success\":false")).map(|_| ()), rule);
    assert_eq!(read(&failed.replace("\"success\":false", "\"success\":true")).map(|_| ()), rule);

    let good = include_str!("../../../../tests/vectors/endpoint-answer.json");
    let failed = include_str!("../../../../tests/vectors/endpoint-answer-failed.json");
    let read = |text: &str| EndpointAnswer::from_bytes(text.as_bytes()).map_err(|e| fault(&e));
    let rule = Err("certificatePem: Refused".to_owned());
    assert!(read(good).is_ok() && read(failed).is_ok());
    assert_eq!(read(&good.replace("\"success\":true", "\"success\":false")).map(|_| ()), rule);
    assert_eq!(read(&failed.replace("\"success\":false", "\"success\":true")).map(|_| ()), rule);
}

// spec: HB-5
#[test]
fn a_node_is_online_for_less_than_two_minutes() {
    let record = include_bytes!("../../../../tests/vectors/identity-record.json");
    let record = IdentityRecord::from_bytes(record).unwrap();
    let at = |last_seen_at| IdentityRecord { last_seen_at, ..record.clone() }.state(NOW);
    assert_eq!(at(None), SnapshotState::AwaitingHeartbeat);
    assert_eq!(at(Some(NOW)), SnapshotState::Online);
    assert_eq!(at(Some(NOW.minus(Duration::from_secs(119)))), SnapshotState::Online);
    assert_eq!(at(Some(NOW.minus(Duration::from_secs(120)))), SnapshotState::Stale);
    // A clock that was set back makes nobody stale.
    assert_eq!(at(Some(NOW.plus(MINUTE))), SnapshotState::Online);
    assert!(record.last_heartbeat.as_ref().is_some_and(|heartbeat: &Heartbeat| heartbeat.node_id == record.node_id));
}

// spec: NN-2
#[test]
fn a_node_that_is_renamed_may_ask_under_either_name_and_no_third() {
    let ask = |hostname: &str, change: Change| {
        let (mut request, mut journal) = (request(), journal());
        for name in [&mut journal.tasks[0].hostname, journal.devices[0].hostname.as_mut().unwrap()] {
            *name = "web-02".parse().unwrap();
        }
        journal.devices[0].former_hostname = Some("web-01".parse().unwrap());
        (journal.devices[0].phase, journal.tasks[0].phase) = (DevicePhase::Managed, TaskPhase::Managed);
        request.hostname = hostname.parse().unwrap();
        change(&mut request, &mut journal);
        agrees(&request, &journal, NOW).map_err(|disagreement| disagreement.field)
    };
    assert_eq!(ask("web-01", |_, _| ()), Ok(()));
    assert_eq!(ask("web-02", |_, _| ()), Ok(()));
    assert_eq!(ask("web-03", |_, _| ()), Err("hostname"));
    assert_eq!(ask("web-01", |_, j| j.devices[0].former_hostname = None), Err("hostname"));
    // Before it is a node it has one name.
    let first: Change = |_, j| {
        (j.devices[0].phase, j.tasks[0].phase) = (DevicePhase::AwaitingEnrollment, TaskPhase::AwaitingEnrollment);
    };
    assert_eq!(ask("web-01", first), Err("hostname"));
    assert_eq!(ask("web-02", first), Ok(()));
}

//! The files between controller and worker, and the journal that both read.

use std::sync::LazyLock;

use lucia_proto::files::journal::Journal;
use lucia_proto::files::worker_status::WorkerStatus;
use lucia_proto::node::enrollment::{
    EndpointAnswer, EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, IdentityRecord, Removal, agrees,
};
use serde_json::Value;

use super::{NOW, twice};

static JOURNAL: LazyLock<Journal> =
    LazyLock::new(|| Journal::from_bytes(include_bytes!("../../vectors/journal.json")).unwrap());
static REQUEST: LazyLock<EnrollmentRequest> =
    LazyLock::new(|| EnrollmentRequest::from_bytes(include_bytes!("../../vectors/enrollment-request.json")).unwrap());

/// Reads and writes a file as its own type does it.
macro_rules! file {
    ($name:ident, $input:expr) => {{
        let read = $name::from_bytes($input).ok();
        if let Some(value) = &read {
            let bytes = value.to_bytes().unwrap();
            assert_eq!(&$name::from_bytes(&bytes).unwrap(), value, "{}", String::from_utf8_lossy(&bytes));
        }
        read
    }};
}

pub(super) fn run(input: &[u8]) {
    if let Some(request) = file!(EnrollmentRequest, input) {
        assert_eq!(twice::<EnrollmentRequest>(input, EnrollmentRequest::MAX).as_ref(), Some(&request));
        agreement(&request, &JOURNAL);
    }
    if let Some(answer) = file!(EnrollmentAnswerFile, input) {
        assert_eq!(answer.success, answer.answer.is_some());
    }
    if let Some(answer) = file!(EndpointAnswer, input) {
        assert_eq!(answer.success, answer.certificate_pem.is_some());
    }
    file!(EndpointRequest, input);
    file!(Removal, input);
    file!(IdentityRecord, input);
    if let Some(status) = file!(WorkerStatus, input) {
        // A status is good for a while around its time, and not for ever.
        let long_after = status.checked_at.plus(std::time::Duration::from_secs(3600));
        assert!(status.fresh(long_after).is_err());
    }
    if let Some(journal) = file!(Journal, input) {
        agreement(&REQUEST, &journal);
        // The chain of events is the chain it says it is.
        if let Some(last) = journal.events.last() {
            assert_eq!(journal.head_after(last.sequence), Some(journal.chain_head));
            assert_eq!(last.sequence, journal.last_event_id);
        }
    }
}

/// If they agree, then field by field, as somebody reads who does not know the types.
fn agreement(request: &EnrollmentRequest, journal: &Journal) {
    if agrees(request, journal, NOW).is_err() {
        return;
    }
    let [request, journal] = [serde_json::to_value(request).unwrap(), serde_json::to_value(journal).unwrap()];
    let row = |list: &str, key: &str, value: &Value| {
        let rows: Vec<_> = journal[list].as_array().unwrap().iter().filter(|row| row[key] == *value).collect();
        assert_eq!(rows.len(), 1, "{list} with {key} {value}");
        rows[0].clone()
    };
    let device = row("devices", "deviceId", &request["nodeId"]);
    let task = row("tasks", "taskId", &request["taskId"]);
    for (asked, device_has, task_has) in [
        (&request["nodeId"], &device["deviceId"], &task["deviceId"]),
        (&request["taskId"], &device["taskId"], &task["taskId"]),
        (&request["publicKeyFingerprint"], &device["fingerprint"], &task["fingerprint"]),
        (&device["inventoryHash"], &device["inventoryHash"], &task["inventoryHash"]),
    ] {
        assert!(!asked.is_null() && asked == device_has && asked == task_has, "{asked} {device_has} {task_has}");
    }
    // A managed node also keeps the name it had until it speaks under the new one.
    assert!(!request["hostname"].is_null() && device["hostname"] == task["hostname"]);
    let is_former = device["phase"] == "Managed" && request["hostname"] == device["formerHostname"];
    assert!(is_former || request["hostname"] == device["hostname"], "{} {}", request["hostname"], device["hostname"]);
    assert!(task["grant"].is_object());
    let phases = (device["phase"].as_str().unwrap(), task["phase"].as_str().unwrap());
    assert!(matches!(phases, ("AwaitingEnrollment", "AwaitingEnrollment") | ("Managed", "Managed")), "{phases:?}");
}

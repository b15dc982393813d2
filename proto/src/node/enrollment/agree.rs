//! Whether a request file says what the journal says.

use thiserror::Error;

use super::EnrollmentRequest;
use crate::base::limits::REQUEST_LIFETIME_MAX;
use crate::base::time::UnixTime;
use crate::files::journal::Journal;
use crate::node::phase::{DevicePhase, TaskPhase};

/// The first field in which a request and the journal differ. Without values: they are the controller's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field}: {reason}")]
pub struct Disagreement {
    /// The field by its name in JSON.
    pub field: &'static str,
    /// How it differs.
    pub reason: &'static str,
}

/// The worker's journal check: the journal names the same node, task, key and name, both rows await enrolment or are
/// managed (then the name may also be the one that a rename takes from it), the hardware is the approved one, and there is a grant, still in time for a first enrolment.
///
/// `journal` is a checked one, so that ids, grants and references in it are unique and sound.
///
/// # Errors
/// The first field that differs; nothing may be issued then.
pub fn agrees(request: &EnrollmentRequest, journal: &Journal, now: UnixTime) -> Result<(), Disagreement> {
    let ensure = |holds: bool, field, reason| if holds { Ok(()) } else { Err(Disagreement { field, reason }) };
    ensure(request.expires_at > now, "expiresAt", "the request has expired")?;
    let latest = now.plus(REQUEST_LIFETIME_MAX);
    ensure(request.expires_at <= latest, "expiresAt", "more than 15 minutes ahead")?;
    let fingerprint = request.public_key_fingerprint;
    ensure(fingerprint.node_id() == request.node_id, "publicKeyFingerprint", "not this node's")?;

    let device = journal
        .device(&request.node_id)
        .ok_or(Disagreement { field: "nodeId", reason: "the journal does not have this node" })?;
    ensure(device.fingerprint == fingerprint, "publicKeyFingerprint", "not the device's")?;
    ensure(device.task_id.as_ref() == Some(&request.task_id), "taskId", "not the device's current task")?;
    let task = journal
        .task(&request.task_id)
        .ok_or(Disagreement { field: "taskId", reason: "the journal does not have this task" })?;
    ensure(task.device_id == request.node_id, "taskId", "another node's task")?;
    ensure(task.fingerprint == fingerprint, "publicKeyFingerprint", "not the approved one")?;
    let managed = device.phase == DevicePhase::Managed && task.phase == TaskPhase::Managed;
    // A node that is being renamed keeps its certificate in force under the name it has.
    if !managed || device.former_hostname.as_ref() != Some(&request.hostname) {
        ensure(device.hostname.as_ref() == Some(&request.hostname), "hostname", "not the device's")?;
        ensure(task.hostname == request.hostname, "hostname", "not the approved one")?;
    }

    let first = device.phase == DevicePhase::AwaitingEnrollment && task.phase == TaskPhase::AwaitingEnrollment;
    ensure(first || managed, "phase", "neither awaiting enrolment nor managed")?;
    ensure(task.inventory_hash == device.inventory_hash, "inventoryHash", "the hardware is not the approved one")?;
    ensure(
        task.inventory_revision == device.inventory_revision,
        "inventoryRevision",
        "the hardware changed since the approval",
    )?;
    let grant = task.grant.as_ref().ok_or(Disagreement { field: "grant", reason: "there is none" })?;
    ensure(managed || now <= grant.progress_expires_at, "progressExpiresAt", "the grant's time is over")
}

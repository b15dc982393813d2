//! From the approval to the node: what the device may ask, and in which order.

use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Text;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::limits::PROGRESS_LIFETIME;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, GrantRow, Journal, TaskRow};
use lucia_proto::node::first_contact::{Grant, Installation};
use lucia_proto::node::phase::{DeviceEvent, DevicePhase, TaskPhase};
use lucia_proto::node::report::{GrantRequest, Progress};

use super::{DEVICE, Refusal, gone, note, step};

/// The device and the task it has.
fn with_task<'a>(journal: &'a Journal, id: &NodeId) -> Result<(&'a DeviceRow, &'a TaskRow), Refusal> {
    let device = journal.device(id).ok_or_else(|| gone(id))?;
    let task = device.task_id.as_ref().and_then(|task| journal.task(task));
    match task {
        Some(task) if device.phase.needs_task() => Ok((device, task)),
        _ => Err(Refusal::new(
            Code::NotApproved,
            format!("No installation of this device is approved; it is {:?}.", device.phase),
        )),
    }
}

/// What was approved.
pub(crate) fn installation(journal: &Journal, id: &NodeId, now: UnixTime) -> Result<Installation, Refusal> {
    let (device, task) = with_task(journal, id)?;
    Ok(Installation {
        device_id: id.clone(),
        inventory_revision: task.inventory_revision,
        task_id: task.task_id.clone(),
        authority_expires_at: task.authority_expires_at,
        can_request_installation_grant: device.phase == DevicePhase::Approved
            && task.phase == TaskPhase::Approved
            && now < task.authority_expires_at,
        hostname: task.hostname.clone(),
        disk_id: task.disk_id.clone(),
    })
}

/// Gives the one grant, or says again what was granted to the same request.
pub(crate) fn grant(journal: &mut Journal, request: &GrantRequest, now: UnixTime) -> Result<Grant, Refusal> {
    let id = &request.node_id;
    let (_, task) = with_task(journal, id)?;
    let task_id = task.task_id.clone();
    let same = task.inventory_revision == request.inventory_revision && task.disk_id == request.disk_id;
    match &task.grant {
        Some(grant) if grant.request_id != request.request_id => {
            return Err(Refusal::new(
                Code::GrantConsumed,
                "The grant of this installation was given to another request.",
            ));
        }
        Some(_) if !same => {
            return Err(Refusal::new(Code::RequestReused, "This request id was used for another inventory or disk."));
        }
        Some(grant) if grant.progress_expires_at <= now => return Err(too_late()),
        Some(_) if !matches!(task.phase, TaskPhase::GrantIssued | TaskPhase::Installing) => {
            return Err(Refusal::new(Code::GrantConsumed, "This installation is past its grant."));
        }
        Some(grant) => return Ok(answer(task, grant)),
        None => {}
    }
    if task.authority_expires_at <= now {
        return Err(Refusal::new(Code::NotApproved, "The approval ran out; it has to be given again."));
    }
    if !same {
        return Err(Refusal::new(Code::ApprovalMismatch, "The approval is for another inventory or disk."));
    }
    let known = |other: &TaskRow| other.grant.as_ref().is_some_and(|grant| grant.request_id == request.request_id);
    if journal.tasks.iter().any(known) {
        return Err(Refusal::new(Code::RequestReused, "This request id was used for another installation."));
    }
    step(journal, id, DeviceEvent::GrantIssued, Code::NotApproved)?;
    let grant = GrantRow {
        request_id: request.request_id.clone(),
        granted_at: now,
        progress_expires_at: now.plus(PROGRESS_LIFETIME),
    };
    let Some(task) = journal.task_mut(&task_id) else { return Err(gone(id)) };
    task.grant = Some(grant.clone());
    let given = answer(task, &grant);
    note(journal, now, Act::Granted, DEVICE, Some(id), Some(&task_id))?;
    Ok(given)
}

fn answer(task: &TaskRow, grant: &GrantRow) -> Grant {
    Grant {
        task_id: task.task_id.clone(),
        device_id: task.device_id.clone(),
        request_id: grant.request_id.clone(),
        hostname: task.hostname.clone(),
        disk_id: task.disk_id.clone(),
        inventory_revision: task.inventory_revision,
        expires_at: task.authority_expires_at,
        progress_expires_at: grant.progress_expires_at,
    }
}

fn too_late() -> Refusal {
    Refusal::new(
        Code::EnrollmentExpired,
        "The installation took longer than its grant allows; it has to be approved anew.",
    )
}

/// The device says how far its installation is. Saying the same again changes nothing.
pub(crate) fn progress(journal: &mut Journal, report: &Progress, now: UnixTime) -> Result<(), Refusal> {
    let id = &report.node_id;
    let message: Text<0, 512> =
        report.message.parse().map_err(|error| Refusal::new(Code::InvalidBody, format!("message: {error}.")))?;
    let (event, kind) = match report.phase {
        DevicePhase::Installing => (DeviceEvent::ReportedInstalling, Act::ReportedInstalling),
        DevicePhase::AwaitingEnrollment => (DeviceEvent::ReportedAwaitingEnrollment, Act::ReportedInstalled),
        DevicePhase::Failed => (DeviceEvent::ReportedFailed, Act::ReportedFailed),
        phase => {
            return Err(Refusal::new(Code::InvalidTransition, format!("A device cannot report itself {phase:?}.")));
        }
    };
    let device = journal.device(id).ok_or_else(|| gone(id))?;
    let task_id = device.task_id.clone();
    let phase = device.phase;
    if event != DeviceEvent::ReportedFailed && phase.needs_task() && phase != DevicePhase::Managed {
        let (_, task) = with_task(journal, id)?;
        match &task.grant {
            None => return Err(Refusal::new(Code::NotGranted, "This installation has no grant yet.")),
            Some(grant) if grant.progress_expires_at <= now => return Err(too_late()),
            Some(_) => {}
        }
    }
    step(journal, id, event, Code::InvalidTransition)?;
    if let Some(device) = journal.device_mut(id) {
        device.message = Some(message);
    }
    if phase == report.phase {
        return Ok(());
    }
    note(journal, now, kind, DEVICE, Some(id), task_id.as_ref())
}

/// What a request for a certificate is held against.
pub(crate) struct Enrolment<'a> {
    pub(crate) device: &'a DeviceRow,
    pub(crate) task: &'a TaskRow,
}

/// Whether this device may ask for a certificate for this task now.
pub(crate) fn enrolment<'a>(
    journal: &'a Journal,
    id: &NodeId,
    task_id: &TaskId,
    now: UnixTime,
) -> Result<Enrolment<'a>, Refusal> {
    let (device, task) = with_task(journal, id)?;
    if !matches!(device.phase, DevicePhase::AwaitingEnrollment | DevicePhase::Managed) {
        return Err(Refusal::new(Code::EnrollmentNotReady, format!("The device is {:?}.", device.phase)));
    }
    if task.task_id != *task_id {
        return Err(Refusal::new(Code::EnrollmentMismatch, "taskId: another installation is approved."));
    }
    match &task.grant {
        None => Err(Refusal::new(Code::NotGranted, "This installation has no grant.")),
        Some(grant) if device.phase != DevicePhase::Managed && grant.progress_expires_at <= now => Err(too_late()),
        Some(_) => Ok(Enrolment { device, task }),
    }
}

/// A heartbeat under the node's own certificate was verified: the one event that makes a device a node.
pub(crate) fn heard(journal: &mut Journal, id: &NodeId, now: UnixTime) -> Result<(), Refusal> {
    let device = journal.device(id).ok_or_else(|| gone(id))?;
    if device.phase == DevicePhase::Managed {
        return Ok(());
    }
    let (_, task) = with_task(journal, id)?;
    let task_id = task.task_id.clone();
    enrolment(journal, id, &task_id, now)?;
    step(journal, id, DeviceEvent::HeartbeatVerified, Code::NotManaged)?;
    if let Some(device) = journal.device_mut(id) {
        device.message = None;
    }
    note(journal, now, Act::Enrolled, DEVICE, Some(id), Some(&task_id))
}

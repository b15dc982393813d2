//! What an operator approves: this key, on this hardware, under this name, onto this disk.

use lucia_proto::code::Code;
use lucia_proto::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::host_api::{ApproveForm, ERASE};
use lucia_proto::ids::{NodeId, TaskId};
use lucia_proto::inventory::HardwareInventory;
use lucia_proto::journal::{EventKind, Journal, TaskRow};
use lucia_proto::limits::INSTALL_AUTHORITY;
use lucia_proto::names::{DiskId, Hostname};
use lucia_proto::phase::{DeviceEvent, DevicePhase, TaskPhase};
use lucia_proto::time::UnixTime;

use super::{Refusal, not_found, note, step};

/// An approval as the operator sent it, and what it is held against.
pub(in crate::state) struct Approval<'a> {
    /// The device.
    pub(in crate::state) id: &'a NodeId,
    /// Name, disk and confirmation.
    pub(in crate::state) form: &'a ApproveForm,
    /// Who approves.
    pub(in crate::state) actor: &'a str,
    /// The new task's id: random.
    pub(in crate::state) task_id: TaskId,
    /// The controller's own names.
    pub(in crate::state) own_names: &'a EndpointNames,
    /// Most tasks there may be.
    pub(in crate::state) tasks_max: usize,
}

/// Approves an installation.
pub(in crate::state) fn approve(journal: &mut Journal, approval: Approval<'_>, now: UnixTime) -> Result<(), Refusal> {
    let Approval { id, form, actor, task_id, own_names, tasks_max } = approval;
    if form.confirmation != ERASE {
        return Err(Refusal::new(
            Code::InvalidOnboardingRequest,
            format!("confirmation: the disk will be erased, so this must be {ERASE:?}."),
        ));
    }
    let device = journal.device(id).ok_or_else(|| not_found(id))?;
    if device.phase != DevicePhase::Discovered {
        return Err(Refusal::new(
            Code::NotPending,
            format!("Device {id} is {:?} and waits for no approval.", device.phase),
        ));
    }
    if device.expires_at <= now {
        return Err(Refusal::new(
            Code::DiscoveryExpired,
            "This discovery is over half an hour old; the machine has to discover itself again.",
        ));
    }
    if is_own(&form.hostname, own_names) {
        return Err(Refusal::new(Code::InvalidOnboardingRequest, "hostname: this is the controller's own name."));
    }
    if in_use(journal, &form.hostname) {
        return Err(Refusal::new(
            Code::HostnameInUse,
            format!("Another device or node is called {}; remove it first, or choose another name.", form.hostname),
        ));
    }
    check_disk(&device.inventory, &form.disk_id)?;
    let row = TaskRow {
        task_id: task_id.clone(),
        device_id: id.clone(),
        hostname: form.hostname.clone(),
        disk_id: form.disk_id.clone(),
        fingerprint: device.fingerprint,
        inventory_hash: device.inventory_hash,
        inventory_revision: device.inventory_revision,
        phase: TaskPhase::Approved,
        approved_at: now,
        authority_expires_at: now.plus(INSTALL_AUTHORITY).min(device.expires_at),
        grant: None,
        replaces: None,
    };
    make_room(journal, tasks_max)?;
    step(journal, id, DeviceEvent::OwnerApproved, Code::NotPending)?;
    if let Some(device) = journal.device_mut(id) {
        device.hostname = Some(row.hostname.clone());
        device.task_id = Some(task_id.clone());
        device.message = None;
    }
    journal.tasks.push(row);
    note(journal, now, EventKind::InstallationApproved, actor, Some(id), Some(&task_id))
}

/// Whether a node of this name would be taken for the controller.
fn is_own(hostname: &Hostname, own_names: &EndpointNames) -> bool {
    own_names.iter().any(|name| match name {
        EndpointName::Dns(name) => name.as_str().split('.').next() == Some(hostname.as_str()),
        EndpointName::Ip(_) => false,
    })
}

/// Whether a device, node or task that is not over holds the name.
fn in_use(journal: &Journal, hostname: &Hostname) -> bool {
    journal.devices.iter().any(|device| device.phase.needs_task() && device.hostname.as_ref() == Some(hostname))
        || journal.tasks.iter().any(|task| !task.phase.is_ended() && task.hostname == *hostname)
}

fn check_disk(inventory: &HardwareInventory, id: &DiskId) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(Code::IneligibleDisk, format!("Disk {id} {why}.")));
    match inventory.disk(id) {
        None => refuse("is not in the device's inventory"),
        Some(disk) if disk.is_removable => refuse("can be taken out"),
        Some(disk) if disk.is_read_only => refuse("refuses writes"),
        Some(disk) if disk.size_bytes == 0 => refuse("has no medium"),
        Some(_) => Ok(()),
    }
}

/// Lets the oldest ended task go that no device holds on to, when there is no other room.
fn make_room(journal: &mut Journal, max: usize) -> Result<(), Refusal> {
    if journal.tasks.len() < max {
        return Ok(());
    }
    let held = |id: &TaskId| journal.devices.iter().any(|device| device.task_id.as_ref() == Some(id));
    match journal.tasks.iter().position(|task| task.phase.is_ended() && !held(&task.task_id)) {
        Some(oldest) => {
            journal.tasks.remove(oldest);
            Ok(())
        }
        None => Err(Refusal::new(
            Code::RegistryFull,
            format!("The registry holds {max} installations; remove devices, or raise limits.tasks."),
        )),
    }
}

//! What an operator approves: this key, on this hardware, under this name, onto this disk, or as it runs.

use lucia_people::host_api::{ApproveForm, ERASE};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::limits::INSTALL_AUTHORITY;
use lucia_proto::base::names::{DiskId, Hostname};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, Journal, TaskRow};
use lucia_proto::node::phase::{DeviceEvent, DevicePhase, TaskPhase};
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};

use super::{Refusal, not_found, note, remove, step};

/// An approval as the operator sent it, and what it is held against.
pub(crate) struct Approval<'a> {
    /// The device.
    pub(crate) id: &'a NodeId,
    /// Name, disk and confirmation.
    pub(crate) form: &'a ApproveForm,
    /// Who approves.
    pub(crate) actor: &'a str,
    /// The new task's id: random.
    pub(crate) task_id: TaskId,
    /// The controller's own names.
    pub(crate) own_names: &'a EndpointNames,
    /// Most tasks there may be.
    pub(crate) tasks_max: usize,
}

/// Approves an installation.
pub(crate) fn approve(journal: &mut Journal, approval: Approval<'_>, now: UnixTime) -> Result<(), Refusal> {
    let Approval { id, form, actor, task_id, own_names, tasks_max } = approval;
    if form.confirmation.as_deref() != form.disk_id.as_ref().map(|_| ERASE) {
        return Err(Refusal::new(
            Code::InvalidOnboardingRequest,
            format!(
                "confirmation: with a disk, which will be erased, this must be {ERASE:?}; without one it must be absent."
            ),
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
    let replaced = replaced(journal, id, form)?;
    if let Some(holder) = holder(journal, &form.hostname).filter(|holder| Some(*holder) != replaced.as_ref()) {
        return Err(Refusal::new(Code::HostnameInUse, held_by(journal, holder, &form.hostname)));
    }
    check_disk(device, form.disk_id.as_ref())?;
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
        replaces: form.replaces.clone(),
    };
    if let Some(old) = &replaced {
        note(journal, now, Act::Replaced, actor, Some(old), Some(&task_id))?;
        // As any other removal: the worker suspends it and bars its key.
        remove(journal, old, actor, now)?;
    }
    make_room(journal, tasks_max)?;
    step(journal, id, DeviceEvent::OwnerApproved, Code::NotPending)?;
    if let Some(device) = journal.device_mut(id) {
        device.hostname = Some(row.hostname.clone());
        device.task_id = Some(task_id.clone());
        device.message = None;
    }
    journal.tasks.push(row);
    note(journal, now, Act::Approved, actor, Some(id), Some(&task_id))
}

/// Whether a node of this name would be taken for the controller.
pub(super) fn is_own(hostname: &Hostname, own_names: &EndpointNames) -> bool {
    own_names.iter().any(|name| match name {
        EndpointName::Dns(name) => name.as_str().split('.').next() == Some(hostname.as_str()),
        EndpointName::Ip(_) => false,
    })
}

/// The device, node or device of a task that is not over which holds the name.
pub(super) fn holder<'a>(journal: &'a Journal, hostname: &Hostname) -> Option<&'a NodeId> {
    let named = |device: &&DeviceRow| {
        // Of a node that is renamed, both.
        let names = [&device.hostname, &device.former_hostname];
        device.phase.needs_task() && names.into_iter().flatten().any(|name| name == hostname)
    };
    let device = journal.devices.iter().find(named).map(|device| &device.device_id);
    let open = |task: &&TaskRow| !task.phase.is_ended() && task.hostname == *hostname;
    device.or_else(|| journal.tasks.iter().find(open).map(|task| &task.device_id))
}

/// Whose a name is, and what gives it to another machine. Of a node that is renamed the former name is held as well, and
/// `--replaces` for that one would be refused: which of its two names it has at the worker nobody knows here.
fn held_by(journal: &Journal, holder: &NodeId, name: &Hostname) -> String {
    match journal.device(holder).filter(|row| row.former_hostname.as_ref() == Some(name)) {
        Some(DeviceRow { hostname: Some(current), .. }) => format!(
            "{name} is held by {holder}, which is given the name {current} and not heard under it yet. Choose another \
             name, or wait until it is heard. If this is that machine with a new key, go by the name that the worker's \
             ledger has for {holder}: approve this one as {current} with --replaces {holder}; or take the rename back \
             first, luciactl rename {current} {name}, and then approve it as {name} with --replaces {holder}."
        ),
        _ => format!(
            "{name} is the name of {holder}. If this is that machine with a new key, approve it with --replaces {holder}; \
             else choose another name, or remove that one first."
        ),
    }
}

/// The node that the approval takes the place of, if it is still here: it must be the one that has the name. One that
/// is not was removed before; the worker, whose ledger keeps the name for it, is told all the same.
fn replaced(journal: &Journal, id: &NodeId, form: &ApproveForm) -> Result<Option<NodeId>, Refusal> {
    let Some(old) = &form.replaces else { return Ok(None) };
    let refuse = |why: String| Err(Refusal::new(Code::InvalidOnboardingRequest, format!("replaces: {why}.")));
    if old == id {
        return refuse("this is the device itself, which keeps its name with its key".to_owned());
    }
    match journal.device(old) {
        None => Ok(None),
        Some(row) if row.phase.needs_task() && row.hostname.as_ref() == Some(&form.hostname) => Ok(Some(old.clone())),
        Some(row) if row.former_hostname.as_ref() == Some(&form.hostname) => {
            Err(Refusal::new(Code::HostnameInUse, held_by(journal, old, &form.hostname)))
        }
        Some(_) => {
            refuse(format!("{old} is not called {}; a machine comes back under its own name only", form.hostname))
        }
    }
}

fn check_disk(device: &DeviceRow, id: Option<&DiskId>) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(Code::IneligibleDisk, why));
    let id = match id {
        None if device.running => return Ok(()),
        None => {
            return refuse(
                "diskId: this machine runs an installer, which must be told which disk to erase.".to_owned(),
            );
        }
        Some(_) if device.running => {
            return refuse(
                "diskId: this machine runs an installed system, which joins as it is; no disk of it may be erased. Approve it \
                 without --disk."
                    .to_owned(),
            );
        }
        Some(id) => id,
    };
    let refuse = |why: &str| refuse(format!("Disk {id} {why}; luciactl onboarding shows the disks there are."));
    match device.inventory.disk(id) {
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

//! Who was seen, and what an operator says about it without approving anything.

use std::net::IpAddr;

use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::PemText;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{DISCOVERED_PER_SOURCE_MAX, DISCOVERY_SESSION};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, Journal};
use lucia_proto::node::first_contact::Discovered;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::{DeviceEvent, DevicePhase};
use lucia_proto::pki::key::NodePublicKey;

use super::{DEVICE, Refusal, not_found, note, note_removed, step};
use crate::config::Limits;
use crate::source::Source;

/// What a machine said and proved in its first call.
pub(crate) struct Discovery<'a> {
    /// The key that signed.
    pub(crate) key: &'a NodePublicKey,
    /// What it says it is.
    pub(crate) inventory: HardwareInventory,
    /// An installed system said it, and no installer.
    pub(crate) running: bool,
    /// Where it called from.
    pub(crate) address: IpAddr,
    /// Most devices and tasks there may be.
    pub(crate) limits: Limits,
}

/// A machine introduces itself. The same key and inventory get the same answer (design.md I10), until the device failed
/// or its session is over: then a new session begins.
pub(crate) fn discover(journal: &mut Journal, discovery: Discovery<'_>, now: UnixTime) -> Result<Discovered, Refusal> {
    let id = discovery.key.fingerprint().node_id();
    match journal.device(&id) {
        None => appear(journal, &id, discovery, now)?,
        Some(device) if device.fingerprint != discovery.key.fingerprint() => {
            return Err(Refusal::identity(format!("another key has the device id {id}")));
        }
        Some(device) if device.phase == DevicePhase::Managed => {
            return Err(Refusal::new(
                Code::ManagedDevice,
                "This machine's key is a managed node; remove the node before the machine is installed anew.",
            ));
        }
        Some(_) => reappear(journal, &id, discovery, now)?,
    }
    let device = journal.device(&id).ok_or_else(|| super::gone(&id))?;
    Ok(Discovered { device_id: id, verification_code: device.verification_code.clone(), expires_at: device.expires_at })
}

fn appear(journal: &mut Journal, id: &NodeId, discovery: Discovery<'_>, now: UnixTime) -> Result<(), Refusal> {
    let fingerprint = discovery.key.fingerprint();
    let verification_code = fingerprint.verification_code();
    if journal.devices.iter().any(|other| other.verification_code == verification_code) {
        return Err(Refusal::new(
            Code::VerificationCodeCollision,
            format!("Another device has the verification code {verification_code}; remove it, or make a new key here."),
        ));
    }
    one_of_few(journal, discovery.address, now)?;
    make_room(journal, discovery.limits.devices, now)?;
    fits(journal, id, &discovery)?;
    let public_key_pem = PemText::try_from(discovery.key.to_pem())
        .map_err(|error| Refusal::new(Code::BadKey, format!("The public key is not {error}.")))?;
    journal.devices.push(DeviceRow {
        device_id: id.clone(),
        fingerprint,
        public_key_pem,
        phase: DevicePhase::Discovered,
        hostname: None,
        former_hostname: None,
        inventory_hash: discovery.inventory.inventory_hash(),
        inventory: discovery.inventory,
        running: discovery.running,
        inventory_revision: 1,
        verification_code,
        discovered_at: now,
        expires_at: now.plus(DISCOVERY_SESSION),
        address: discovery.address.to_canonical(),
        message: None,
        task_id: None,
        frozen: None,
        kept: None,
    });
    note(journal, now, Act::Discovered, DEVICE, Some(id), None)
}

/// Refuses a source of which many devices wait for a decision, so that one host cannot fill the registry for all
/// others (threats.md R-3).
fn one_of_few(journal: &Journal, address: IpAddr, now: UnixTime) -> Result<(), Refusal> {
    let waits = |device: &&DeviceRow| device.phase == DevicePhase::Discovered && device.expires_at > now;
    let from_here = |device: &&DeviceRow| Source::of(device.address) == Source::of(address);
    let waiting = journal.devices.iter().filter(waits).filter(from_here).count();
    if waiting < DISCOVERED_PER_SOURCE_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        Code::RegistryFull,
        format!(
            "{waiting} devices of the source of {address} wait for a decision; approve, reject or dismiss some of them."
        ),
    ))
}

/// Whether a device that calls from `address` could appear, or come again if it is one of those that did from there.
pub(crate) fn may_appear(journal: &Journal, address: IpAddr, max: usize, now: UnixTime) -> Result<(), Refusal> {
    let is_from_here = |device: &DeviceRow| Source::of(device.address) == Source::of(address);
    if journal.devices.len() < max || journal.devices.iter().any(is_from_here) {
        return Ok(());
    }
    lapsed(journal, now).map(drop).ok_or_else(|| full(max))
}

/// The device that nobody decided on in its time, longest ago.
fn lapsed(journal: &Journal, now: UnixTime) -> Option<NodeId> {
    journal
        .devices
        .iter()
        .filter(|device| device.phase == DevicePhase::Discovered && device.expires_at <= now)
        .min_by_key(|device| device.expires_at)
        .map(|device| device.device_id.clone())
}

fn full(max: usize) -> Refusal {
    let message = format!("The registry holds {max} devices; dismiss or remove some, or raise limits.devices.");
    Refusal::new(Code::RegistryFull, message)
}

/// Lets the oldest device go that nobody decided on in its time, when there is no other room.
fn make_room(journal: &mut Journal, max: usize, now: UnixTime) -> Result<(), Refusal> {
    if journal.devices.len() < max {
        return Ok(());
    }
    let id = lapsed(journal, now).ok_or_else(|| full(max))?;
    forget(journal, &id);
    note(journal, now, Act::DiscoveryExpired, super::CONTROLLER, Some(&id), None)
}

/// Refuses an inventory that would leave another device no room in the journal's file.
fn fits(journal: &Journal, id: &NodeId, discovery: &Discovery<'_>) -> Result<(), Refusal> {
    let Limits { devices, tasks } = discovery.limits;
    if journal.has_room_for(id, &discovery.inventory, devices, tasks) {
        return Ok(());
    }
    let message =
        "The journal has no room for an inventory of this size; dismiss or remove devices, or lower limits.devices.";
    Err(Refusal::new(Code::RegistryFull, message))
}

fn reappear(journal: &mut Journal, id: &NodeId, discovery: Discovery<'_>, now: UnixTime) -> Result<(), Refusal> {
    let hash = discovery.inventory.inventory_hash();
    let Some(device) = journal.device(id) else { return Err(super::gone(id)) };
    if device.inventory != discovery.inventory {
        fits(journal, id, &discovery)?;
    }
    let task = device.task_id.clone();
    let granted = task.as_ref().and_then(|task| journal.task(task)).is_some_and(|task| task.grant.is_some());
    let (inventory_changed, running_changed) = (device.inventory_hash != hash, device.running != discovery.running);
    let over = device.phase == DevicePhase::Failed || device.expires_at <= now;
    if device.phase == DevicePhase::Failed {
        // What failed is over: a new attempt starts from nothing.
        if let Some(device) = journal.device_mut(id) {
            device.task_id = None;
            device.hostname = None;
            device.message = None;
        }
    }
    let held = granted && journal.device(id).is_some_and(|device| device.task_id.is_some());
    // What was granted as one kind stays of that kind: an installed system may say who it is before it is a node.
    let changed = inventory_changed || (running_changed && !held);
    if changed {
        let event = if held { DeviceEvent::InventoryChangedAfterGrant } else { DeviceEvent::InventoryChanged };
        step(journal, id, event, Code::InvalidTransition)?;
        if let Some(device) = journal.device_mut(id) {
            device.inventory_revision = device.inventory_revision.saturating_add(1);
            device.inventory_hash = hash;
            device.running = if held { device.running } else { discovery.running };
        }
        note(journal, now, Act::InventoryChanged, DEVICE, Some(id), task.as_ref())?;
    }
    let Some(device) = journal.device_mut(id) else { return Err(super::gone(id)) };
    // Addresses may change without anyone deciding anew.
    device.inventory = discovery.inventory;
    device.address = discovery.address.to_canonical();
    let undecided = matches!(device.phase, DevicePhase::Discovered | DevicePhase::Failed | DevicePhase::Rejected);
    // One that failed just now keeps its row as it is, for people to see why.
    if over && undecided && !(changed && held) {
        device.expires_at = now.plus(DISCOVERY_SESSION);
        step(journal, id, DeviceEvent::Rediscovered, Code::InvalidTransition)?;
        note(journal, now, Act::Discovered, DEVICE, Some(id), None)?;
    }
    Ok(())
}

/// Says no to a discovered device.
pub(crate) fn reject(journal: &mut Journal, id: &NodeId, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    journal.device(id).ok_or_else(|| not_found(id))?;
    step(journal, id, DeviceEvent::OwnerRejected, Code::NotPending)?;
    note(journal, now, Act::Rejected, actor, Some(id), None)
}

/// Takes a rejection back.
pub(crate) fn restore(journal: &mut Journal, id: &NodeId, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    journal.device(id).ok_or_else(|| not_found(id))?;
    step(journal, id, DeviceEvent::OwnerRestored, Code::NotRejected)?;
    note(journal, now, Act::Restored, actor, Some(id), None)
}

/// Takes a device off the list that nobody approved, or that failed.
pub(crate) fn dismiss(journal: &mut Journal, id: &NodeId, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    let device = journal.device(id).ok_or_else(|| not_found(id))?;
    if !matches!(device.phase, DevicePhase::Discovered | DevicePhase::Rejected | DevicePhase::Failed) {
        return Err(Refusal::new(
            Code::NotRejected,
            format!(
                "Device {id} is {:?}; only one that is discovered, rejected or failed can be dismissed.",
                device.phase
            ),
        ));
    }
    forget(journal, id);
    note(journal, now, Act::Dismissed, actor, Some(id), None)
}

/// A node calls from another address than its row says.
pub(crate) fn moved(journal: &mut Journal, id: &NodeId, address: IpAddr) -> Result<(), Refusal> {
    if let Some(device) = journal.device_mut(id) {
        device.address = address;
    }
    Ok(())
}

/// Removes a device in any phase, its tasks with it.
pub(crate) fn remove(journal: &mut Journal, id: &NodeId, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    let device = journal
        .device(id)
        .ok_or_else(|| Refusal::new(Code::UnknownNode, format!("There is no node or device {id}.")))?;
    let (task_id, hostname) = (device.task_id.clone(), device.hostname.clone());
    forget(journal, id);
    note_removed(journal, now, actor, (id, hostname, task_id))
}

fn forget(journal: &mut Journal, id: &NodeId) {
    journal.devices.retain(|device| device.device_id != *id);
    journal.tasks.retain(|task| task.device_id != *id);
}

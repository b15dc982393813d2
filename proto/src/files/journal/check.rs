//! What makes a journal believable.

use std::collections::{BTreeMap, BTreeSet};

use super::error::JournalError;
use super::{Act, DeviceRow, Journal, TaskRow};
use crate::base::digest::Digest;
use crate::base::ids::{NodeId, TaskId};
use crate::base::limits::{DEVICES_MAX, EVENTS_MAX, FORMER_STARTS_MAX, PUBLIC_KEY_PEM_MAX, TASKS_MAX};
use crate::base::pem;
use crate::node::phase::{DevicePhase, TaskKind};
use crate::pki::key::PUBLIC_KEY_LABEL;

impl Journal {
    /// Checks everything that can be checked without another source: bounds, uniqueness, references, phases, chain.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), JournalError> {
        at_most("devices", self.devices.len(), DEVICES_MAX)?;
        at_most("tasks", self.tasks.len(), TASKS_MAX)?;
        at_most("events", self.events.len(), EVENTS_MAX)?;
        let devices: BTreeMap<_, _> = self.devices.iter().map(|row| (&row.device_id, row)).collect();
        let tasks: BTreeMap<_, _> = self.tasks.iter().map(|row| (&row.task_id, row)).collect();
        self.check_devices(&tasks)?;
        self.check_tasks(&devices)?;
        self.check_events()
    }

    fn check_devices(&self, tasks: &BTreeMap<&TaskId, &TaskRow>) -> Result<(), JournalError> {
        let (mut ids, mut codes, mut names) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for row in &self.devices {
            let refuse = |field, rule| Err(JournalError::Device { device: row.device_id.clone(), field, rule });
            if row.fingerprint.node_id() != row.device_id {
                return refuse("fingerprint", "is another device's");
            }
            let key = pem::one(row.public_key_pem.as_str(), PUBLIC_KEY_LABEL, PUBLIC_KEY_PEM_MAX);
            if !key.is_ok_and(|der| Digest::of(&der).to_string() == row.fingerprint.to_string()) {
                return refuse("publicKeyPem", "does not have the fingerprint");
            }
            if row.fingerprint.verification_code() != row.verification_code {
                return refuse("verificationCode", "is another fingerprint's");
            }
            if !ids.insert(&row.device_id) {
                return refuse("deviceId", "is there twice");
            }
            if !codes.insert(&row.verification_code) {
                return refuse("verificationCode", "is there twice");
            }
            if row.inventory.inventory_hash() != row.inventory_hash {
                return refuse("inventoryHash", "is another inventory's");
            }
            if row.inventory_revision == 0 {
                return refuse("inventoryRevision", "counts from 1");
            }
            if row.expires_at < row.discovered_at {
                return refuse("expiresAt", "is before discoveredAt");
            }
            if row.address.to_canonical() != row.address {
                return refuse("address", "is IPv4 written as IPv6");
            }
            if let Some((field, rule)) = clone_fault(row) {
                return refuse(field, rule);
            }
            let task = match &row.task_id {
                None if row.phase.needs_task() => return refuse("taskId", "is missing in this phase"),
                None => None,
                Some(id) => match tasks.get(id) {
                    None => return refuse("taskId", "names a task that is not there"),
                    Some(task) if task.device_id != row.device_id => {
                        return refuse("taskId", "names another device's task");
                    }
                    Some(task) => Some(task),
                },
            };
            if task.is_some_and(|task| !row.phase.agrees_with(task.phase)) {
                return refuse("phase", "does not go with its task's");
            }
            if row.hostname.as_ref() != task.map(|task| &task.hostname) {
                return refuse("hostname", "is not its task's");
            }
            // An ended installation keeps its name in the row, but no longer holds it.
            if row.phase.needs_task() && row.hostname.as_ref().is_some_and(|name| !names.insert(name)) {
                return refuse("hostname", "is there twice");
            }
            if let Some(former) = &row.former_hostname {
                if row.phase != DevicePhase::Managed {
                    return refuse("formerHostname", "is a managed node's");
                }
                // Its certificate still has it, so it is nobody else's; its own approved name is in the set by now.
                if !names.insert(former) {
                    return refuse("formerHostname", "is there twice");
                }
            }
        }
        Ok(())
    }

    fn check_tasks(&self, devices: &BTreeMap<&NodeId, &DeviceRow>) -> Result<(), JournalError> {
        let (mut ids, mut requests) = (BTreeSet::new(), BTreeSet::new());
        for row in &self.tasks {
            let refuse = |field, rule| Err(JournalError::Task { task: row.task_id.clone(), field, rule });
            if !ids.insert(&row.task_id) {
                return refuse("taskId", "is there twice");
            }
            if row.fingerprint.node_id() != row.device_id {
                return refuse("fingerprint", "is another device's");
            }
            if row.inventory_revision == 0 {
                return refuse("inventoryRevision", "counts from 1");
            }
            if row.replaces.as_ref() == Some(&row.device_id) {
                return refuse("replaces", "is this very device");
            }
            let joins = row.kind() == TaskKind::Join;
            if !row.phase.is_ended() && devices.get(&row.device_id).is_some_and(|device| device.running != joins) {
                return refuse("diskId", "is missing in an installation, or there for a machine that runs");
            }
            if row.authority_expires_at < row.approved_at {
                return refuse("authorityExpiresAt", "is before approvedAt");
            }
            if row.phase.has_grant().is_some_and(|granted| granted != row.grant.is_some()) {
                return refuse("grant", "does not go with the phase");
            }
            if let Some(grant) = &row.grant {
                if grant.progress_expires_at < grant.granted_at {
                    return refuse("progressExpiresAt", "is before grantedAt");
                }
                if !requests.insert(&grant.request_id) {
                    return refuse("requestId", "is there twice");
                }
            }
            match devices.get(&row.device_id) {
                Some(device) if device.fingerprint != row.fingerprint => {
                    return refuse("fingerprint", "is not its device's");
                }
                Some(device) if !row.phase.is_ended() && device.task_id.as_ref() != Some(&row.task_id) => {
                    return refuse("taskId", "is not its device's current task");
                }
                None if !row.phase.is_ended() => return refuse("deviceId", "names a device that is not there"),
                _ => {}
            }
        }
        Ok(())
    }

    fn check_events(&self) -> Result<(), JournalError> {
        let mut sequence = self.last_event_id;
        for event in self.events.iter().rev() {
            if event.sequence != sequence || sequence == 0 {
                return Err(JournalError::Sequence { sequence: event.sequence });
            }
            // Both long texts of one event: its room is reckoned with one of them.
            let long = event.actor.as_str().len() > 64;
            if event.holders.len() > 2 || (!event.holders.is_empty() && long) {
                return Err(JournalError::Holders { sequence });
            }
            if event.names.as_ref().is_some_and(|names| {
                event.kind != Act::Renamed || names.from == names.to || !event.holders.is_empty() || long
            }) {
                return Err(JournalError::Names { sequence });
            }
            let named = event.hostname.is_some();
            if named && (event.kind != Act::Removed || !event.holders.is_empty() || long) {
                return Err(JournalError::Removed { sequence });
            }
            sequence -= 1;
        }
        // Events from the first on start from the empty chain; none at all is a journal in which nothing happened.
        if (sequence == 0 && self.chain_base != Digest::ZERO) || (self.events.is_empty() && sequence != 0) {
            return Err(JournalError::Chain);
        }
        let mut head = self.chain_base;
        for event in &self.events {
            head = event.chained(head).map_err(JournalError::Json)?;
        }
        if head == self.chain_head { Ok(()) } else { Err(JournalError::Chain) }
    }
}

/// What is wrong with what a row says about clones.
fn clone_fault(row: &DeviceRow) -> Option<(&'static str, &'static str)> {
    if row.frozen.is_none() && row.kept.is_none() {
        return None;
    }
    if row.phase != DevicePhase::Managed || row.message.is_some() {
        // A device's message and these share the room of its row.
        return Some(("frozen", "and kept are a managed node's, which has no message"));
    }
    if row.frozen.as_ref().is_some_and(|frozen| frozen.holders.len() != 2) {
        return Some(("frozen", "has not two holders"));
    }
    let kept = row.kept.as_ref()?;
    (kept.refused.len() > FORMER_STARTS_MAX || kept.holder.start_id.is_none())
        .then_some(("kept", "has more than 8 refused starts, or a holder without one"))
}

fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), JournalError> {
    if count > max { Err(JournalError::TooMany { what, max }) } else { Ok(()) }
}

//! `onboarding/state.json`, version 4: which devices were seen, which installations approved, and what happened
//! (wire-facts 3.4, design.md I10). The controller writes it, the worker reads it, so its schema is here.
//!
//! Nothing of it is believed before [`Journal::from_bytes`] checked all of it: bounds, uniqueness, references, phases
//! and the hash chain over the events. A journal that fails is an operator's problem; nobody repairs or recreates it.

mod check;
mod clone;
mod error;
mod name;
mod room;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use clone::{FrozenRow, Holder, KeptRow};
pub use error::JournalError;
pub use name::NewName;
pub use room::inventory_room;

use crate::base::acts::{Act, in_journal};
use crate::base::bounded::{PemText, Text, Version};
use crate::base::digest::Digest;
use crate::base::ids::{NodeId, RequestId, TaskId};
use crate::base::json::{self, JsonError};
use crate::base::limits::{ACTOR_MAX, EVENTS_MAX, JOURNAL_MAX, JSON_DEPTH_MAX, MESSAGE_MAX, PUBLIC_KEY_PEM_MAX};
use crate::base::names::{DiskId, Hostname};
use crate::base::time::UnixTime;
use crate::node::inventory::HardwareInventory;
use crate::node::phase::{DevicePhase, TaskKind, TaskPhase};
use crate::pki::key::{Fingerprint, VerificationCode};

/// Who did something, as the event log shows it: `operator:1000`, `device`, `controller`.
pub type Actor = Text<1, ACTOR_MAX>;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Journal {
    /// Always 4.
    pub version: Version<4>,
    /// Rises by one with each write: one that went back was restored from an old copy.
    pub generation: u64,
    /// The hash chain after the last event.
    pub chain_head: Digest,
    /// The hash chain before the first event that is still here.
    pub chain_base: Digest,
    /// Until when machines may introduce themselves; absent while closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_expires_at: Option<UnixTime>,
    /// Sequence number of the last event ever, 0 before the first.
    pub last_event_id: u64,
    /// Devices, each once.
    pub devices: Vec<DeviceRow>,
    /// Tasks, each once; ended ones may outlive their device.
    pub tasks: Vec<TaskRow>,
    /// The last events, at most 2048, without gaps.
    pub events: Vec<Event>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeviceRow {
    /// First half of the fingerprint.
    pub device_id: NodeId,
    /// SHA-256 of its public key.
    pub fingerprint: Fingerprint,
    /// Its public key.
    pub public_key_pem: PemText<PUBLIC_KEY_PEM_MAX>,
    /// Where it stands.
    pub phase: DevicePhase,
    /// The approved name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// The name it had before, and still has a certificate for: from a rename until it is heard under the approved name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_hostname: Option<Hostname>,
    /// What it is made of.
    pub inventory: HardwareInventory,
    /// An installed system introduced itself: it joins as it runs. Absent in rows of installers, and in all that were
    /// written before there was this member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// [`HardwareInventory::inventory_hash`] of it.
    pub inventory_hash: Digest,
    /// Rises with each change of that hash, from 1.
    pub inventory_revision: u32,
    /// What a person compares: from the fingerprint.
    pub verification_code: VerificationCode,
    /// When it was first seen.
    pub discovered_at: UnixTime,
    /// When its discovery session ends.
    pub expires_at: UnixTime,
    /// Where it called from.
    pub address: IpAddr,
    /// What it last said about its installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Text<0, MESSAGE_MAX>>,
    /// Its current task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Its identity was seen twice, and nobody decided yet (design.md I8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<FrozenRow>,
    /// What was last decided about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRow>,
}

/// One approval, an installation or a joining machine, with all that was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TaskRow {
    /// This task.
    pub task_id: TaskId,
    /// The device.
    pub device_id: NodeId,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that may be erased; absent in a [`TaskKind::Join`], where none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
    /// The approved key.
    pub fingerprint: Fingerprint,
    /// The approved hardware.
    pub inventory_hash: Digest,
    /// Its revision.
    pub inventory_revision: u32,
    /// Where it stands.
    pub phase: TaskPhase,
    /// When it was approved.
    pub approved_at: UnixTime,
    /// Until when its grant may be asked for.
    pub authority_expires_at: UnixTime,
    /// The one grant, once given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantRow>,
    /// The node whose name it is to take over, its machine having lost its key. Only the worker's host can let it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
}

/// The one grant of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrantRow {
    /// The device's name for its request: asking again with it gives the same answer.
    pub request_id: RequestId,
    /// When it was given.
    pub granted_at: UnixTime,
    /// Until when the installation must have become a node.
    pub progress_expires_at: UnixTime,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Event {
    /// From 1, without gaps.
    pub sequence: u64,
    /// When.
    pub at: UnixTime,
    /// What.
    #[serde(with = "in_journal")]
    pub kind: Act,
    /// By whom.
    pub actor: Actor,
    /// To which device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<NodeId>,
    /// In which task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Who held the identity, where the event is about that: at most two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// The names of a rename, and of nothing else; absent in those that were written before there was this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NewName>,
    /// The name of who was removed, and of nothing else; absent in those that were written before there was this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
}

impl Event {
    /// One that is about no device, without its number yet: the journal gives that. Of the others the rest is written over
    /// this.
    #[must_use]
    pub const fn new(at: UnixTime, kind: Act, actor: Actor) -> Self {
        Self {
            sequence: 0,
            at,
            kind,
            actor,
            device_id: None,
            task_id: None,
            holders: Vec::new(),
            names: None,
            hostname: None,
        }
    }
}

impl Journal {
    /// A journal in which nothing has happened.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            version: Version,
            generation: 0,
            chain_head: Digest::ZERO,
            chain_base: Digest::ZERO,
            window_expires_at: None,
            last_event_id: 0,
            devices: Vec::new(),
            tasks: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Reads and checks the file's bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JournalError> {
        let journal: Self = json::from_slice(bytes, JOURNAL_MAX, JSON_DEPTH_MAX).map_err(JournalError::Json)?;
        journal.check()?;
        Ok(journal)
    }

    /// The file's bytes. Checked first, so that a journal that could not be read back is never written.
    ///
    /// # Errors
    /// What is wrong with the journal, or that it is over 48 MiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JournalError> {
        self.check()?;
        let bytes = json::to_string(self).map_err(JournalError::Json)?.into_bytes();
        if bytes.len() > JOURNAL_MAX { Err(JournalError::TooLarge) } else { Ok(bytes) }
    }

    /// Appends an event to the chain; the oldest beyond 2048 leaves, and the chain's base moves past it.
    ///
    /// # Errors
    /// Never for values of these types.
    pub fn record(&mut self, event: Event) -> Result<(), JsonError> {
        let row = Event { sequence: self.last_event_id.saturating_add(1), ..event };
        let head = row.chained(self.chain_head)?;
        let surplus = (self.events.len() + 1).saturating_sub(EVENTS_MAX);
        let mut base = self.chain_base;
        for old in self.events.iter().take(surplus) {
            base = old.chained(base)?;
        }
        self.events.drain(..surplus);
        self.chain_base = base;
        self.chain_head = head;
        self.last_event_id = row.sequence;
        self.events.push(row);
        Ok(())
    }

    /// The chain as it was after the event of this number; `None` when that is no longer or not yet known. Who kept a
    /// head finds out with this whether a journal is its continuation.
    #[must_use]
    pub fn head_after(&self, sequence: u64) -> Option<Digest> {
        let first = self.last_event_id - u64::try_from(self.events.len()).ok()?;
        let count = usize::try_from(sequence.checked_sub(first)?).ok()?;
        let events = self.events.get(..count)?;
        events.iter().try_fold(self.chain_base, |head, event| event.chained(head).ok())
    }

    /// The device of this id.
    #[must_use]
    pub fn device(&self, id: &NodeId) -> Option<&DeviceRow> {
        self.devices.iter().find(|device| device.device_id == *id)
    }

    /// The task of this id.
    #[must_use]
    pub fn task(&self, id: &TaskId) -> Option<&TaskRow> {
        self.tasks.iter().find(|task| task.task_id == *id)
    }

    /// The device of this id, to change.
    pub fn device_mut(&mut self, id: &NodeId) -> Option<&mut DeviceRow> {
        self.devices.iter_mut().find(|device| device.device_id == *id)
    }

    /// The task of this id, to change.
    pub fn task_mut(&mut self, id: &TaskId) -> Option<&mut TaskRow> {
        self.tasks.iter_mut().find(|task| task.task_id == *id)
    }
}

impl TaskRow {
    /// What was approved.
    #[must_use]
    pub const fn kind(&self) -> TaskKind {
        TaskKind::of(self.disk_id.as_ref())
    }
}

impl Event {
    /// The chain after this event: SHA-256 of the head before it and of its bytes as JSON.
    fn chained(&self, before: Digest) -> Result<Digest, JsonError> {
        Ok(before.chain(json::to_string(self)?.as_bytes()))
    }
}

//! Nodes that are no more: what the journal's events and the orders still tell of one.

use std::collections::BTreeMap;

use lucia_people::why::{KeyEnd, Machine, Removed};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::files::journal::{Event, Journal};

use super::Controller;

/// The last removal of this node that the journal's events still tell of; nothing while it is there.
pub(super) fn removal_of<'a>(journal: &'a Journal, id: &NodeId) -> Option<&'a Event> {
    if journal.device(id).is_some() {
        return None;
    }
    let is_its = |event: &&Event| event.kind == Act::Removed && event.device_id.as_ref() == Some(id);
    journal.events.iter().rev().find(is_its)
}

/// The same of every node at once: a list of orders may name very many.
pub(super) fn removals(journal: &Journal) -> BTreeMap<&NodeId, &Event> {
    let removed = journal.events.iter().filter(|event| event.kind == Act::Removed);
    let mut removals: BTreeMap<_, _> = removed.filter_map(|event| Some((event.device_id.as_ref()?, event))).collect();
    for device in &journal.devices {
        removals.remove(&device.device_id);
    }
    removals
}

impl Controller {
    /// What every machine is called that has a name, or had one when it was removed.
    pub fn names(&self) -> BTreeMap<NodeId, Hostname> {
        let journal = self.keeper.read();
        let was = journal.events.iter().filter_map(|event| Some((event.device_id.clone()?, event.hostname.clone()?)));
        let is = journal.devices.iter().filter_map(|device| Some((device.device_id.clone(), device.hostname.clone()?)));
        was.chain(is).collect()
    }

    /// What there is to say of a node that was removed; nothing of one that is there, or that nobody remembers.
    pub fn removed(&self, id: &NodeId) -> Option<Removed> {
        // The orders first, as everywhere.
        let ordered = self.end_of(id);
        let has_owner = self.owners.roster().is_some();
        let journal = self.keeper.read();
        let event = removal_of(&journal, id)?;
        let before = event.sequence.checked_sub(1);
        let replaced = journal.events.iter().find(|other| {
            Some(other.sequence) == before && other.kind == Act::Replaced && other.device_id.as_ref() == Some(id)
        });
        let task = replaced.and_then(|event| event.task_id.as_ref());
        let heir = journal.devices.iter().find(|device| task.is_some() && device.task_id.as_ref() == task);
        Some(Removed {
            node_id: id.clone(),
            hostname: event.hostname.clone(),
            at: event.at,
            by: Label::fitted(event.actor.as_str())?,
            replaced: replaced.is_some(),
            heir: heir.map(|device| device.verification_code.clone()),
            machine: ordered.as_ref().map_or(Machine::Kept, |(_, machine)| *machine),
            key: match (ordered, has_owner) {
                (Some((code, _)), _) => KeyEnd::Barred(code),
                (None, true) => KeyEnd::AwaitsConfirmation,
                (None, false) => KeyEnd::AwaitsWorker,
            },
        })
    }
}

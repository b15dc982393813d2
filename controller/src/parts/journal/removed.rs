//! Nodes that are no more: what the journal's events and the orders still tell of one.

use std::collections::BTreeMap;

use lucia_people::host_api::{EventLine, EventsView};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::files::journal::{Event, Journal};

use super::Keeper;

/// The last removal of this node that the journal's events still tell of; nothing while it is there.
pub(crate) fn removal_of<'a>(journal: &'a Journal, id: &NodeId) -> Option<&'a Event> {
    if journal.device(id).is_some() {
        return None;
    }
    let is_its = |event: &&Event| event.kind == Act::Removed && event.device_id.as_ref() == Some(id);
    journal.events.iter().rev().find(is_its)
}

/// The same of every node at once: a list of orders may name very many.
pub(crate) fn removals(journal: &Journal) -> BTreeMap<&NodeId, &Event> {
    let removed = journal.events.iter().filter(|event| event.kind == Act::Removed);
    let mut removals: BTreeMap<_, _> = removed.filter_map(|event| Some((event.device_id.as_ref()?, event))).collect();
    for device in &journal.devices {
        removals.remove(&device.device_id);
    }
    removals
}

impl Keeper {
    /// What every machine is called that has a name, or had one when it was removed.
    pub fn names(&self) -> BTreeMap<NodeId, Hostname> {
        let journal = self.read();
        let was = journal.events.iter().filter_map(|event| Some((event.device_id.clone()?, event.hostname.clone()?)));
        let is = journal.devices.iter().filter_map(|device| Some((device.device_id.clone(), device.hostname.clone()?)));
        was.chain(is).collect()
    }

    /// At most `limit` events with a sequence over `after`.
    pub fn events(&self, after: u64, limit: usize) -> EventsView {
        let journal = self.read();
        let start = journal.events.partition_point(|event| event.sequence <= after);
        let events = journal.events.iter().skip(start).take(limit).filter_map(event_line).collect();
        EventsView { events, last_sequence: journal.last_event_id }
    }
}

fn event_line(event: &Event) -> Option<EventLine> {
    Some(EventLine {
        sequence: event.sequence,
        at: event.at,
        kind: Label::fitted(event.kind.journal_word())?,
        actor: Label::fitted(event.actor.as_str())?,
        device_id: event.device_id.clone(),
        task_id: event.task_id.clone(),
        holders: event.holders.clone(),
        names: event.names.clone(),
        hostname: event.hostname.clone(),
    })
}

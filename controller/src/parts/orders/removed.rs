//! What there is to say of a node that was removed.

use lucia_people::why::{KeyEnd, Machine, Removed};
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::ids::NodeId;

use super::Orders;
use crate::parts::journal::removal_of;

impl Orders {
    /// What there is to say of a node that was removed; nothing of one that is there, or that nobody remembers.
    pub fn removed(&self, id: &NodeId) -> Option<Removed> {
        // The orders first, as everywhere.
        let ordered = self.end_of(id);
        let has_owner = self.people.verified_roster().is_some();
        let journal = self.journal.read();
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

//! How large a journal can become: reckoned before, so that no move is ever refused for the file's size.

use super::Journal;
use crate::base::ids::NodeId;
use crate::base::limits::{DEVICE_ROW_MAX, EVENT_ROW_MAX, EVENTS_MAX, INVENTORY_ASSURED, JOURNAL_MAX, TASK_ROW_MAX};
use crate::node::inventory::HardwareInventory;

/// Bytes of everything around the rows.
const FRAME_MAX: usize = 4096;

/// Bytes that the inventories of all devices may have together, so that a journal with so many devices and tasks, and
/// all events, surely fits its file. `None` when that is less than [`INVENTORY_ASSURED`] for each device.
#[must_use]
pub const fn inventory_room(devices: usize, tasks: usize) -> Option<usize> {
    let rows = devices
        .saturating_mul(DEVICE_ROW_MAX)
        .saturating_add(tasks.saturating_mul(TASK_ROW_MAX))
        .saturating_add(EVENTS_MAX * EVENT_ROW_MAX + FRAME_MAX);
    match JOURNAL_MAX.checked_sub(rows) {
        Some(room) if room >= devices.saturating_mul(INVENTORY_ASSURED) => Some(room),
        _ => None,
    }
}

impl Journal {
    /// Whether an inventory of the device `id`, in place of its present one if it has one, leaves every other device
    /// that the settings allow its [`INVENTORY_ASSURED`] bytes.
    #[must_use]
    pub fn has_room_for(&self, id: &NodeId, inventory: &HardwareInventory, devices: usize, tasks: usize) -> bool {
        let Some(room) = inventory_room(devices, tasks) else { return false };
        let others = self.devices.iter().filter(|device| device.device_id != *id);
        let (mut count, mut taken) = (1_usize, share(inventory));
        for other in others {
            count += 1;
            taken = taken.saturating_add(share(&other.inventory));
        }
        taken.saturating_add(devices.saturating_sub(count).saturating_mul(INVENTORY_ASSURED)) <= room
    }
}

/// What an inventory takes of the room.
fn share(inventory: &HardwareInventory) -> usize {
    // Strings, numbers and lists always serialize.
    serde_json::to_vec(inventory).map_or(0, |bytes| bytes.len()).max(INVENTORY_ASSURED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::acts::Act;
    use crate::base::bounded::Text;
    use crate::base::ids::{StartId, TaskId};
    use crate::base::time::UnixTime;
    use crate::files::journal::tests::pair;
    use crate::files::journal::{Event, FrozenRow, GrantRow, Holder, KeptRow, NewName};
    use crate::node::phase::{DevicePhase, TaskPhase};

    fn longest<const MAX: usize>() -> Text<0, MAX> {
        Text::try_from("\u{1f980}".repeat(MAX)).unwrap()
    }

    /// The longest beside holders.
    fn longest_actor() -> crate::files::journal::Actor {
        Text::try_from("\u{1f980}".repeat(16)).unwrap()
    }

    fn size(value: &impl serde::Serialize) -> usize {
        serde_json::to_vec(value).unwrap().len()
    }

    // spec: JO-46
    #[test]
    fn no_row_is_larger_than_the_room_is_reckoned_with() {
        let (mut device, mut task) = pair(1, DevicePhase::AwaitingEnrollment, TaskPhase::AwaitingEnrollment);
        let late = UnixTime::from_secs(253_402_300_799);
        device.hostname = Some("h".repeat(63).parse().unwrap());
        device.message = Some(longest());
        device.address = "1111:2222:3333:4444:5555:6666:7777:8888".parse().unwrap();
        device.running = true;
        (device.inventory_revision, device.discovered_at, device.expires_at) = (u32::MAX, late, late);
        assert!(size(&device) < DEVICE_ROW_MAX + size(&device.inventory), "{}", size(&device));
        let holder = Holder {
            start_id: Some(StartId::from_random([7; 16])),
            boot_id: Some("11111111-1111-4111-8111-111111111111".parse().unwrap()),
            address: device.address,
            first_seen_at: late,
            last_seen_at: Some(late),
            memory_lost: false,
        };
        let holders = vec![holder.clone(), holder.clone()];
        // A managed node has no message and may have these.
        let mut node = device.clone();
        node.message = None;
        node.former_hostname = Some("g".repeat(63).parse().unwrap());
        node.frozen = Some(FrozenRow { at: late, holders: holders.clone() });
        let refused = vec![StartId::from_random([7; 16]); crate::base::limits::FORMER_STARTS_MAX];
        node.kept = Some(KeptRow { at: late, holder, refused });
        assert!(size(&node) < DEVICE_ROW_MAX + size(&node.inventory), "{}", size(&node));
        task.hostname = "h".repeat(63).parse().unwrap();
        task.disk_id = Some("d".repeat(256).parse().unwrap());
        (task.inventory_revision, task.approved_at, task.authority_expires_at) = (u32::MAX, late, late);
        task.grant = task.grant.map(|grant| GrantRow { granted_at: late, progress_expires_at: late, ..grant });
        task.replaces = Some(task.device_id.clone());
        assert!(size(&task) < TASK_ROW_MAX, "{}", size(&task));
        let actor = Text::try_from("\u{1f980}".repeat(crate::base::limits::ACTOR_MAX)).unwrap();
        let (device_id, task_id) = (Some(device.device_id), Some(TaskId::from_random([7; 16])));
        let event = Event { device_id, task_id, ..Event::new(late, Act::ReportedInstalled, actor) };
        let of_clones = Event { kind: Act::Frozen, actor: longest_actor(), holders, ..event.clone() };
        let (from, to) = ("h".repeat(63).parse().unwrap(), "g".repeat(63).parse().unwrap());
        let names = Some(NewName { from, to });
        let hostname = Some("h".repeat(63).parse().unwrap());
        let of_a_removal = Event { kind: Act::Removed, actor: longest_actor(), hostname, ..event.clone() };
        let of_names = Event { kind: Act::Renamed, actor: longest_actor(), names, ..event.clone() };
        for event in [event, of_clones, of_a_removal, of_names] {
            let mut journal = Journal { last_event_id: u64::MAX - 1, ..Journal::empty() };
            journal.record(event).unwrap();
            assert!(size(&journal.events) < EVENT_ROW_MAX, "{}", size(&journal.events));
        }
        assert!(size(&Journal::empty()) + 100 < FRAME_MAX);
    }
}

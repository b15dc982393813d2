//! Large inventories, and many of them.

use lucia_proto::base::bounded::Text;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{DISCOVER_REPORT_MAX, INVENTORY_ASSURED};
use lucia_proto::files::journal::inventory_room;
use lucia_proto::node::inventory::{Disk, HardwareInventory};

use super::bench::{Machine, World, code, inventory};

/// An inventory with this many disks of a good kilobyte each.
fn disks(count: usize) -> HardwareInventory {
    let mut fields = (*inventory(1 << 30)).clone();
    let text = |n: usize| Text::try_from("\u{1f980}".repeat(100) + &n.to_string()).ok();
    fields.disks = (0..count)
        .map(|n| Disk {
            id: format!("disk{n}").parse().unwrap(),
            path: format!("/dev/disk/by-id/{n}").parse().unwrap(),
            model: text(n),
            serial: text(n),
            size_bytes: 1,
            is_removable: false,
            is_read_only: false,
        })
        .collect();
    HardwareInventory::try_from(fields).unwrap()
}

fn size(inventory: &HardwareInventory) -> usize {
    serde_json::to_vec(inventory).unwrap().len()
}

// spec: JO-47
#[test]
fn large_inventories_leave_every_other_device_its_room() {
    // So many devices that what is left over is less than one large inventory.
    let devices = (1..6000).rev().find(|most| inventory_room(*most, *most).is_some()).unwrap();
    let spare = |devices| inventory_room(devices, devices).unwrap() - devices * INVENTORY_ASSURED;
    assert!(spare(devices) < size(&disks(100)) && size(&disks(100)) < DISCOVER_REPORT_MAX);
    let world = World::with(&format!("[limits]\ndevices = {devices}\ntasks = {devices}"));
    world.window();
    let (mut large, small) = (Machine::new(1), Machine::new(2));
    large.discover(&world).unwrap();
    large.inventory = disks(100);
    let journal = world.journal();
    assert_eq!(code(large.discover(&world)), Some(Code::RegistryFull));
    let mut other = Machine::new(3);
    other.inventory = disks(100);
    assert_eq!(code(other.discover(&world)), Some(Code::RegistryFull));
    assert_eq!(world.journal(), journal);
    small.discover(&world).unwrap();
    // The registry of a site that did not ask for thousands holds the largest of everyone.
    assert!(inventory_room(128, 256).unwrap() > 128 * DISCOVER_REPORT_MAX);
    let world = World::new();
    world.window();
    other.discover(&world).unwrap();
}

// spec: JO-48
#[test]
fn one_device_changes_its_inventory_once_a_minute() {
    let world = World::new();
    world.window();
    let (mut machine, other) = (Machine::new(1), Machine::new(2));
    machine.discover(&world).unwrap();
    machine.inventory = inventory(2 << 30);
    machine.discover(&world).unwrap();
    let journal = world.journal();
    // Other hardware, and other addresses alone: both are written.
    let mut moved = (*machine.inventory).clone();
    moved.interfaces[0].addresses = vec!["192.0.2.99".parse().unwrap()];
    for changed in [inventory(3 << 30), HardwareInventory::try_from(moved).unwrap()] {
        let kept = std::mem::replace(&mut machine.inventory, changed);
        assert_eq!(code(machine.discover(&world)), Some(Code::TooManyRequests));
        machine.inventory = kept;
    }
    assert_eq!(world.journal(), journal);
    // Saying the same again, and others, cost nothing of it.
    machine.discover(&world).unwrap();
    other.discover(&world).unwrap();
    world.advance(60);
    machine.inventory = inventory(3 << 30);
    machine.discover(&world).unwrap();
}

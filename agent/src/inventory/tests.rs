use lucia_proto::base::limits::{ADDRESSES_PER_INTERFACE_MAX, DISKS_MAX, INTERFACES_MAX};
use lucia_proto::base::text::is_printable;
use lucia_proto::node::inventory::{BootMode, Disk};

use super::*;
use crate::host::scratch::Scratch;

fn of(machine: &str) -> HardwareInventory {
    gather(&fixture::root(machine)).unwrap()
}

fn disks(inventory: &HardwareInventory) -> Vec<(&str, &str)> {
    inventory.disks.iter().map(|disk| (disk.path.as_str(), disk.id.as_str())).collect()
}

// spec: AG-60
#[test]
fn a_server_is_described_whole() {
    let found = of("dell-server");
    assert_eq!(found.architecture.as_str(), "x86_64");
    assert_eq!((found.boot_mode, found.secure_boot), (BootMode::Uefi, Some(true)));
    assert_eq!(found.manufacturer.as_ref().unwrap().as_str(), "Dell Inc.");
    assert_eq!(found.model.as_ref().unwrap().as_str(), "PowerEdge R650xs");
    assert_eq!(found.serial_number.as_ref().unwrap().as_str(), "7XK9F33");
    assert_eq!(found.hardware_uuid.as_ref().unwrap().as_str(), "4c4c4544-0058-4b10-8039-b7c04f463333");
    assert_eq!(found.cpu_model.as_ref().unwrap().as_str(), "Intel(R) Xeon(R) Silver 4314 CPU @ 2.40GHz");
    assert_eq!((found.logical_cpu_count, found.memory_bytes), (4, 131_811_084 * 1024));
    let interfaces = found.interfaces.iter().map(|i| (i.name.as_str(), i.mac_address.as_str())).collect::<Vec<_>>();
    assert_eq!(interfaces, [("eno8303", "b0:7b:25:aa:00:01"), ("eno8403", "b0:7b:25:aa:00:02")]);
    assert_eq!(
        disks(&found),
        [
            ("/dev/nvme0n1", "nvme-eui.01000000000000005cd2e4a1b2c30100"),
            ("/dev/sda", "wwn-0x5002538fa2b00010"),
            ("/dev/sdb", "wwn-0x5002538fa2b00020"),
            ("/dev/sdc", "usb-iDRAC_Virtual_Floppy-0:0"),
        ]
    );
    let Disk { model, serial, size_bytes, is_removable, is_read_only, .. } = &found.disks[1];
    assert_eq!(model.as_ref().unwrap().as_str(), "MZ7L31T9HBLAAD3");
    assert_eq!(serial.as_ref().unwrap().as_str(), "S7M8NE0R400010");
    assert_eq!((*size_bytes, *is_removable, *is_read_only), (3_750_748_848 * 512, false, false));
    assert_eq!(found.disks[0].serial.as_ref().unwrap().as_str(), "PHAB1234000A3P2BGN");
    assert!(found.disks[3].is_removable);
}

// spec: AG-60
#[test]
fn a_guest_and_a_container_are_described_without_firmware() {
    let guest = of("firecracker-guest");
    assert_eq!((guest.boot_mode, guest.secure_boot), (BootMode::Bios, None));
    assert_eq!((guest.manufacturer.as_ref(), guest.model.as_ref(), guest.hardware_uuid.as_ref()), (None, None, None));
    assert_eq!(guest.cpu_model.as_ref().unwrap().as_str(), "AMD EPYC");
    assert_eq!(guest.logical_cpu_count, 2);
    assert_eq!(guest.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["eth0"]);
    assert_eq!(disks(&guest), [("/dev/vda", "virtio-2006642534010000")]);

    let container = of("container");
    assert_eq!(container.architecture.as_str(), std::env::consts::ARCH);
    assert_eq!(container.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["eth0"]);
    assert_eq!(disks(&container), [("/dev/sda", "path-pci-0000:00:1f.2-ata-1-scsi-0:0:0")]);
}

// spec: AG-61
#[test]
fn a_hostile_device_does_not_keep_a_machine_from_being_discovered() {
    let found = of("hostile");
    assert_eq!(
        disks(&found),
        [
            ("/dev/sda", "path-pci-0000:00:17.0-ata-1-scsi-0:0:0"),
            ("/dev/sdb", "path-pci-0000:00:14.0-usb-1-scsi-0:0:0"),
            ("/dev/sdc", "serial-_2JStick__31m_______x"),
            ("/dev/sdf", "path-pci-0000:00:14.0-usb-5-scsi-0:0:0"),
        ]
    );
    assert_eq!(found.disks[2].model.as_ref().unwrap().as_str(), "[2JStick");
    assert_eq!(found.manufacturer.as_ref().unwrap().as_str(), "ASRock[2J");
    assert_eq!((found.serial_number.as_ref(), found.hardware_uuid.as_ref(), found.secure_boot), (None, None, None));
    assert_eq!(found.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["enx0"]);
    assert!(is_printable(&serde_json::to_string(&found).unwrap()));
}

// spec: AG-60
#[test]
fn the_same_machine_is_described_the_same_way() {
    for machine in fixture::MACHINES {
        let first = of(machine);
        assert_eq!(first, of(machine), "{machine}");
        let json = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<HardwareInventory>(&json).unwrap(), first, "{machine}");
    }
}

// spec: AG-62
#[test]
fn no_file_with_nonsense_stops_the_inventory_but_those_it_needs() {
    fixture::spoil(|machine, file, root| {
        let needed = match file {
            "/proc/meminfo" => true,
            // The only processor, the only interface.
            "/proc/cpuinfo" => machine != "firecracker-guest",
            _ => matches!(machine, "container" | "hostile") && file.contains("/net/"),
        };
        match gather(root) {
            Ok(found) => assert!(serde_json::to_vec(&found).unwrap().len() < DISCOVER_REPORT_MAX),
            Err(InventoryError::Bounds(rule)) => panic!("{machine} {file}: {rule}"),
            Err(error) => assert!(needed, "{machine} {file}: {error}"),
        }
    });
}

// spec: AG-62
#[test]
fn what_is_missing_is_named_with_its_cure() {
    let scratch = Scratch::new();
    let missing = |path: &str| {
        let error = gather(&scratch.root()).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
        error
    };
    assert!(matches!(missing("/proc/cpuinfo"), InventoryError::Processors));
    scratch.put("proc/cpuinfo", "processor : 0\n");
    assert!(matches!(missing("/proc/meminfo"), InventoryError::Memory));
    scratch.put("proc/meminfo", "MemTotal: 1 kB\n");
    assert!(matches!(missing("/sys/class/net"), InventoryError::Interfaces));
    scratch.put("sys/class/net/eth0/type", "1\n");
    scratch.put("sys/class/net/eth0/address", "02:00:00:00:00:01\n");
    assert!(gather(&scratch.root()).unwrap().disks.is_empty());
}

// spec: AG-63
#[test]
fn a_machine_with_too_much_of_everything_fits_into_one_report() {
    let scratch = Scratch::new();
    scratch.put("proc/cpuinfo", &"processor : 0\n".repeat(5000));
    scratch.put("proc/meminfo", "MemTotal: 99999999999999 kB\n");
    let mut addresses = Vec::new();
    for n in 0..200 {
        scratch.put(&format!("sys/class/net/eth{n:010}/type"), "1\n");
        scratch.put(&format!("sys/class/net/eth{n:010}/address"), &format!("02:00:00:00:00:{n:02x}\n"));
        for at in 0..40 {
            let ip = format!("2001:db8:ffff:ffff:ffff:ffff:{n:x}:{at:x}").parse().unwrap();
            addresses.push(Address { interface: format!("eth{n:010}"), ip });
        }
        let disk = format!("sys/block/sd{n:0100}");
        scratch.put(&format!("{disk}/size"), "9\n");
        scratch.put(&format!("{disk}/removable"), if n < 100 { "1\n" } else { "0\n" });
        scratch.put(&format!("{disk}/device/model"), &"\u{1f600}".repeat(900));
        scratch.put(&format!("{disk}/serial"), &format!("{n}{}", "\\\"".repeat(900)));
    }
    let found = gather_with(&scratch.root(), &addresses).unwrap();
    assert!(serde_json::to_vec(&found).unwrap().len() <= DISCOVER_REPORT_MAX - REPORT_REST);
    assert_eq!(found.logical_cpu_count, 4096);
    assert!(found.interfaces.len() <= INTERFACES_MAX && found.disks.len() <= DISKS_MAX);
    assert!(found.interfaces.iter().all(|i| (1..=ADDRESSES_PER_INTERFACE_MAX).contains(&i.addresses.len())));
    // A hundred plugged-in things do not push out what is built in.
    assert!(found.disks.iter().take(60).all(|disk| !disk.is_removable));
}

#[test]
fn this_very_machine_is_described() {
    // Where a test runs without a network there is nothing to describe, and that is said.
    match gather(&Root::system()) {
        Ok(found) => assert!(found.memory_bytes > 0),
        Err(error) => assert!(matches!(error, InventoryError::Interfaces), "{error}"),
    }
}

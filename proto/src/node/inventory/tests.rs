use super::*;
use crate::base::json;
use crate::test_support::fault;

fn fields() -> InventoryFields {
    let interface = |name: &str, mac: &str| Interface {
        name: name.parse().unwrap(),
        mac_address: mac.parse().unwrap(),
        addresses: vec!["10.0.0.7".parse().unwrap()],
    };
    let disk = |id: &str, path: &str| Disk {
        id: id.parse().unwrap(),
        path: path.parse().unwrap(),
        model: None,
        serial: None,
        size_bytes: 1 << 40,
        is_removable: false,
        is_read_only: false,
    };
    InventoryFields {
        architecture: "x86_64".parse().unwrap(),
        boot_mode: BootMode::Uefi,
        secure_boot: Some(true),
        manufacturer: Some("QEMU".parse().unwrap()),
        model: None,
        serial_number: None,
        hardware_uuid: None,
        cpu_model: None,
        logical_cpu_count: 4,
        memory_bytes: 1 << 33,
        interfaces: vec![interface("eth0", "52:54:00:12:34:56"), interface("eth1", "52:54:00:12:34:57")],
        disks: vec![disk("virtio-1", "/dev/vda"), disk("virtio-2", "/dev/vdb")],
    }
}

type Change = fn(&mut InventoryFields);

// spec: ID-10
#[test]
fn every_count_and_size_is_bounded() {
    let cases: [(&str, Change); 14] = [
        ("logicalCpuCount", |f| f.logical_cpu_count = 0),
        ("logicalCpuCount", |f| f.logical_cpu_count = 4097),
        ("memoryBytes", |f| f.memory_bytes = 0),
        ("memoryBytes", |f| f.memory_bytes = (1 << 50) + 1),
        ("interfaces", |f| f.interfaces.clear()),
        ("interfaces", |f| f.interfaces = vec![f.interfaces[0].clone(); 129]),
        ("interfaces", |f| f.interfaces[1].name = f.interfaces[0].name.clone()),
        ("addresses", |f| f.interfaces[0].addresses = vec![f.interfaces[0].addresses[0]; 33]),
        ("addresses", |f| f.interfaces[0].addresses = vec!["::ffff:10.0.0.1".parse().unwrap()]),
        ("disks", |f| f.disks = vec![f.disks[0].clone(); 129]),
        ("disks", |f| f.disks[1].id = f.disks[0].id.clone()),
        ("disks", |f| f.disks[1].path = f.disks[0].path.clone()),
        ("sizeBytes", |f| f.disks[1].size_bytes = (1 << 53) + 1),
        ("sizeBytes", |f| f.disks[0].size_bytes = u64::MAX),
    ];
    for (field, change) in cases {
        let mut fields = fields();
        change(&mut fields);
        assert_eq!(HardwareInventory::try_from(fields).map_err(|e| e.field), Err(field));
    }
    let edges: [Change; 6] = [
        |f| f.logical_cpu_count = 4096,
        |f| f.memory_bytes = 1 << 50,
        |f| f.disks.clear(),
        |f| f.disks[0].size_bytes = 1 << 53,
        |f| f.disks[0].size_bytes = 0,
        |f| f.interfaces[0].addresses = vec!["fe80::1".parse().unwrap(); 32],
    ];
    for change in edges {
        let mut fields = fields();
        change(&mut fields);
        assert!(HardwareInventory::try_from(fields).is_ok());
    }
}

// spec: ID-11
#[test]
fn the_hash_leaves_out_addresses_and_order_and_nothing_else() {
    let hash = |change: Change| {
        let mut fields = fields();
        change(&mut fields);
        HardwareInventory::try_from(fields).unwrap().inventory_hash()
    };
    let base = hash(|_| ());
    assert_eq!(base, hash(|f| f.interfaces[0].addresses.clear()));
    assert_eq!(base, hash(|f| f.interfaces[1].addresses = vec!["fe80::1".parse().unwrap()]));
    assert_eq!(base, hash(|f| f.interfaces.reverse()));
    assert_eq!(base, hash(|f| f.disks.reverse()));
    let changes: [Change; 14] = [
        |f| f.architecture = "aarch64".parse().unwrap(),
        |f| f.boot_mode = BootMode::Bios,
        |f| f.secure_boot = None,
        |f| f.manufacturer = None,
        |f| f.model = Some("x".parse().unwrap()),
        |f| f.serial_number = Some("x".parse().unwrap()),
        |f| f.hardware_uuid = Some("x".parse().unwrap()),
        |f| f.cpu_model = Some("x".parse().unwrap()),
        |f| f.logical_cpu_count = 5,
        |f| f.memory_bytes += 1,
        |f| f.interfaces[0].mac_address = "52:54:00:12:34:58".parse().unwrap(),
        |f| f.interfaces.truncate(1),
        |f| f.disks[0].size_bytes += 1,
        |f| f.disks[0].is_read_only = true,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_ne!(base, hash(change), "change {index}");
    }
}

// spec: ID-12
#[test]
fn json_goes_through_the_same_check_and_names_the_field() {
    let text = json::to_string(&fields()).unwrap();
    let read = |text: &str| json::from_str::<HardwareInventory>(text, 1 << 17, 24).map_err(|e| fault(&e));
    assert_eq!(
        read(&text).map(|i| i.inventory_hash()),
        Ok(HardwareInventory::try_from(fields()).unwrap().inventory_hash())
    );
    for (from, to, error) in [
        ("\"logicalCpuCount\":4", "\"logicalCpuCount\":0", "logicalCpuCount: Refused"),
        ("\"logicalCpuCount\":4", "\"logicalCpuCount\":-4", "logicalCpuCount: Unexpected"),
        ("\"x86_64\"", "\"\"", "architecture: Refused"),
        ("\"QEMU\"", "\"\\u202e\"", "manufacturer: Refused"),
        ("\"Uefi\"", "\"Coreboot\"", "bootMode: Unexpected"),
        ("52:54:00:12:34:57", "52:54:00:12:34:5A", "interfaces[1].macAddress: Refused"),
        ("\"10.0.0.7\"", "\"10.0.0.7/24\"", "interfaces[0].addresses[0]: Refused"),
        ("\"eth0\"", "\"eth 0\"", "interfaces[0].name: Refused"),
        ("/dev/vda", "/dev/../vda", "disks[0].path: Refused"),
        ("\"isRemovable\":false,", "", "disks[0].isRemovable: MissingField"),
        ("{\"architecture\"", "{\"more\":1,\"architecture\"", "more: UnknownField"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(read(&text.replacen(from, to, 1)).map(|_| ()), Err(error.to_owned()));
    }
}

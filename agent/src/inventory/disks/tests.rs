use std::os::unix::fs::symlink;

use super::*;
use crate::host::scratch::Scratch;

/// A machine that is made of disks.
struct Machine(Scratch);

impl Machine {
    fn new() -> Self {
        Self(Scratch::new())
    }

    fn disk(&self, way: &str, name: &str, attributes: &[(&str, &str)]) {
        let dir = format!("sys/devices/{way}/{name}");
        self.0.put(&format!("{dir}/size"), "2048\n");
        for (attribute, text) in attributes {
            self.0.put(&format!("{dir}/{attribute}"), text);
        }
        let blocks = self.0.root().join("sys/block");
        std::fs::create_dir_all(&blocks).unwrap();
        symlink(format!("../devices/{way}/{name}"), blocks.join(name)).unwrap();
    }

    fn link(&self, name: &str, target: &str) {
        let dir = self.0.root().join("dev/disk/by-id");
        std::fs::create_dir_all(&dir).unwrap();
        symlink(target, dir.join(name)).unwrap();
    }

    fn found(&self) -> Vec<Disk> {
        gather(&self.0.root())
    }

    fn ids(&self) -> Vec<String> {
        self.found().iter().map(|disk| disk.id.to_string()).collect()
    }
}

const SATA: &str = "pci0000:00/0000:00:1f.2/ata2/host1/target1:0:0/1:0:0:0/block";

// spec: AG-64
#[test]
fn the_best_name_that_is_there_is_the_id() {
    let machine = Machine::new();
    machine.disk(SATA, "sda", &[]);
    assert_eq!(machine.ids(), ["path-pci-0000:00:1f.2-scsi-0:0:0"]);
    machine.0.put("sys/class/ata_port/ata2/port_no", "2\n");
    assert_eq!(machine.ids(), ["path-pci-0000:00:1f.2-ata-2-scsi-0:0:0"]);
    machine.0.put(&format!("sys/devices/{SATA}/sda/serial"), "  AB 12\n");
    assert_eq!(machine.ids(), ["serial-disk_AB_12"]);
    machine.0.put(&format!("sys/devices/{SATA}/sda/device/model"), "Disk X\n");
    assert_eq!(machine.ids(), ["serial-Disk_X_AB_12"]);
    machine.link("scsi-SATA_Disk", "../../sda");
    machine.link("ata-Disk_X_AB_12", "../../sda");
    machine.link("ata-Disk_X_AB_12-part1", "../../sda1");
    machine.link("lvm-pv-uuid-aaa", "../../sda");
    machine.link("ata-\u{1b}[31m", "../../sda");
    machine.link("ata-A", "../../../sda");
    assert_eq!(machine.ids(), ["ata-Disk_X_AB_12"]);
    machine.0.put(&format!("sys/devices/{SATA}/sda/device/wwid"), "naa.5000c500a1b2c3d4\n");
    assert_eq!(machine.ids(), ["wwn-0x5000c500a1b2c3d4"]);
    machine.link("wwn-0x5000c500a1b2c3d4", "../../sda");
    assert_eq!(machine.ids(), ["wwn-0x5000c500a1b2c3d4"]);
}

// spec: AG-64
#[test]
fn ids_of_other_buses() {
    for (way, name, attributes, id) in [
        ("pci0000:00/0000:00:02.0/virtio1/block", "vda", &[][..], "path-pci-0000:00:02.0"),
        ("pci0000:00/0000:00:02.0/virtio1/block", "vda", &[("serial", "root disk")], "virtio-root_disk"),
        ("pci0000:00/0000:01:00.0/nvme/nvme3", "nvme3n1", &[], "path-pci-0000:01:00.0-ns-1"),
        (
            "virtual/nvme-subsystem/nvme-subsys0",
            "nvme0n1",
            &[("wwid", "eui.0025385b71b0a1b2")],
            "nvme-eui.0025385b71b0a1b2",
        ),
        (
            "pci0000:00/0000:01:00.0/nvme/nvme3",
            "nvme3n1",
            &[("wwid", "eui.0000000000000000")],
            "path-pci-0000:01:00.0-ns-1",
        ),
        ("vbd-51712/block", "xvda", &[], "path-vbd-51712"),
        (
            "platform/x/mmc_host/mmc0/mmc0:0001/block",
            "mmcblk0",
            &[("device/name", "DF4032"), ("device/serial", "0x1")],
            "mmc-DF4032_0x1",
        ),
        ("platform/x", "cciss!c0d0", &[], "name-cciss/c0d0"),
        ("platform/x", "sda", &[("serial", "00000000")], "name-sda"),
        (SATA, "sda", &[("device/wwid", "t10.ATA     QEMU"), ("serial", "..")], "path-pci-0000:00:1f.2-scsi-0:0:0"),
    ] {
        let machine = Machine::new();
        machine.disk(way, name, attributes);
        assert_eq!(machine.ids(), [id], "{name} {attributes:?}");
    }
    // The longest that the kernel makes for NVMe: maker, serial and model in hex, namespace.
    let wwid = format!("nvme.144d-{}-{}-00000001", "a1".repeat(20), "b2".repeat(40));
    let machine = Machine::new();
    machine.disk("pci0000:00/0000:01:00.0/nvme/nvme3", "nvme3n1", &[("wwid", &wwid)]);
    assert_eq!(machine.ids(), [format!("nvme-{wwid}")]);
    let machine = Machine::new();
    machine.disk("platform/x", "cciss!c0d0", &[]);
    assert_eq!(machine.found()[0].path.as_str(), "/dev/cciss/c0d0");
}

// spec: AG-64
#[test]
fn an_id_is_the_same_when_the_kernel_counts_otherwise() {
    let ids = [("sda", 1, 2), ("sdb", 7, 9)].map(|(name, host, ata)| {
        let machine = Machine::new();
        let way = format!("pci0000:00/0000:00:1f.2/ata{ata}/host{host}/target{host}:0:0/{host}:0:0:0/block");
        machine.disk(&way, name, &[]);
        machine.0.put(&format!("sys/class/ata_port/ata{ata}/port_no"), "2\n");
        machine.ids()
    });
    assert_eq!(ids[0], ids[1]);
}

// spec: AG-67
#[test]
fn a_name_that_two_disks_claim_is_used_by_neither() {
    let machine = Machine::new();
    let twin = [("device/wwid", "naa.5000c500a1b2c3d4"), ("device/model", "M"), ("serial", "S")];
    let other = "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host3/target3:0:0/3:0:0:0/block";
    machine.disk(SATA, "sda", &twin);
    assert_eq!(machine.ids(), ["wwn-0x5000c500a1b2c3d4"]);
    machine.disk(other, "sdb", &twin);
    machine.link("wwn-0x5000c500a1b2c3d4", "../../sdb");
    assert_eq!(machine.ids(), ["path-pci-0000:00:1f.2-scsi-0:0:0", "path-pci-0000:00:14.0-usb-2-scsi-0:0:0"]);
    // Two ways to one place: then only the kernel's names are left.
    machine.disk(SATA, "sdc", &twin);
    assert_eq!(machine.ids(), ["name-sda", "name-sdc", "path-pci-0000:00:14.0-usb-2-scsi-0:0:0"]);
}

// spec: AG-67
#[test]
fn what_can_be_taken_out_says_so_and_comes_last() {
    let machine = Machine::new();
    machine.disk(
        "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host3/target3:0:0/3:0:0:0/block",
        "sda",
        &[("removable", "0\n")],
    );
    machine.disk("platform/x/mmc_host/mmc0/mmc0:0001/block", "mmcblk0", &[("device/type", "SD\n")]);
    machine.disk("platform/x/mmc_host/mmc1/mmc1:0001/block", "mmcblk1", &[("device/type", "MMC\n")]);
    machine.disk(SATA, "sdb", &[("ro", "1\n")]);
    let found = machine.found();
    let seen = found.iter().map(|disk| (disk.path.as_str(), disk.is_removable, disk.is_read_only));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("/dev/mmcblk1", false, false),
            ("/dev/sdb", false, true),
            ("/dev/mmcblk0", true, false),
            ("/dev/sda", true, false),
        ]
    );
}

#[test]
fn what_is_no_disk_is_left_out() {
    let machine = Machine::new();
    for name in ["loop0", "ram1", "zram0", "dm-0", "md127", "md_root", "nbd0", "zd16", "bcache0"] {
        machine.disk("virtual/block", name, &[]);
    }
    machine.disk(SATA, "sr0", &[]);
    machine.disk("platform/floppy.0/block", "fd0", &[]);
    machine.disk("virtual/block", "unheard-of", &[]);
    machine.disk("platform/x/mmc_host/mmc0/mmc0:0001/block", "mmcblk0boot0", &[]);
    machine.disk("pci0000:00/0000:01:00.0/nvme/nvme0", "nvme0c0n1", &[("hidden", "1\n")]);
    assert_eq!(machine.ids(), [""; 0]);
}

#[test]
fn the_way_is_told_apart_from_what_looks_like_it() {
    assert!(
        is_pci("0000:3b:00.0") && !is_pci("0000:3b:00") && !is_pci("3b:00.0") && !is_pci("") && !is_pci("zzzz:00:00.0")
    );
    for (part, port) in
        [("1-4.2", Some("4.2")), ("1-4", Some("4")), ("1-4:1.0", None), ("usb1", None), ("1-", None), ("-1", None)]
    {
        assert_eq!(usb_port(part), port, "{part}");
    }
    for (part, address) in [("2:0:1:0", Some("0:1:0")), ("2:0:1", None), ("a:0:1:0", None), ("0000:00:1f.2", None)] {
        assert_eq!(scsi_address(part), address, "{part}");
    }
}

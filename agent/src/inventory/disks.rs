//! Disks: `/sys/block`, named so that an approval erases the same one after a restart.
//!
//! The [`DiskId`] of a disk is the first of these names that no other disk claims:
//!
//! 1. `wwn-0x...`: its world wide name (SCSI, SAS, SATA);
//! 2. `nvme-eui. / uuid. / nvme.`: the same for NVMe;
//! 3. a link of `/dev/disk/by-id` that is made of the device and not of what lies on it (`ata-`, `scsi-`, `nvme-`, `mmc-`,
//!    `virtio-`, `usb-` and their like), the first in alphabetical order;
//! 4. `serial-MODEL_SERIAL`;
//! 5. `path-...`: where it is plugged in;
//! 6. `name-sda`: the kernel's name, which may change at the next start, where there is nothing else.
//!
//! 1, 2 and most of 3 are built from sysfs as udev builds them, so that the id is the same before and after udev has
//! seen the disk. A name that two disks claim is used by neither: a device that imitates a disk must not be erased or
//! kept in its place.

use std::collections::BTreeMap;
use std::path::Path;

use lucia_proto::base::limits::{DISK_BYTES_MAX, DISKS_MAX};
use lucia_proto::base::names::DiskId;
use lucia_proto::node::inventory::{DevicePath, Disk};

use super::read;
use crate::host::root::Root;

/// The unit of `size`, whatever the disk's own sector is.
const SECTOR: u64 = 512;
/// Longest VPD page: a SCSI device may say 64 KiB, a serial number has 252 bytes.
const VPD_MAX: u64 = 256;
/// What is no disk that a system could be installed on: made by the kernel, optical, or a part of another.
const NOT_DISKS: &[&str] =
    &["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "rbd", "drbd", "zd", "bcache", "mtdblock", "ubiblock"];
/// How links of `/dev/disk/by-id` begin that are made of the device.
const LINKS: &[&str] = &["wwn-", "nvme-", "ata-", "scsi-", "mmc-", "virtio-", "usb-", "ieee1394-", "memstick-"];

/// The disks of a machine: those that stay first, then by path.
pub(super) fn gather(root: &Root) -> Vec<Disk> {
    let names = read::names(&root.join("sys/block"), |name| !NOT_DISKS.iter().any(|not| starts_as(name, not)));
    let links = Links::read(root);
    let drives = names.iter().filter_map(|name| Drive::read(root, name)).collect::<Vec<_>>();
    let claims = drives.iter().map(|drive| claims(drive, &links)).collect::<Vec<_>>();
    let mut claimed = BTreeMap::<&str, u32>::new();
    for claim in claims.iter().flatten() {
        *claimed.entry(claim.as_str()).or_default() += 1;
    }
    let own = |claim: &&DiskId| claimed.get(claim.as_str()) == Some(&1);
    let disks = drives.iter().zip(&claims).filter_map(|(drive, claims)| drive.disk(claims.iter().find(own)?.clone()));
    let mut disks = disks.collect::<Vec<_>>();
    disks.sort_by(|a, b| (a.is_removable, &a.path).cmp(&(b.is_removable, &b.path)));
    disks.truncate(DISKS_MAX);
    disks
}

/// Whether `name` is `prefix` with a number (`loop7`, not `loopback`) or, for `dm-`, anything.
fn starts_as(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// A disk as the kernel shows it.
struct Drive {
    name: String,
    model: Option<String>,
    serial: Option<String>,
    wwid: Option<String>,
    sectors: u64,
    removable: bool,
    read_only: bool,
    place: Option<String>,
}

impl Drive {
    /// Nothing for what is there but is no disk of its own.
    fn read(root: &Root, name: &str) -> Option<Self> {
        let dir = root.join("sys/block").join(name);
        let way = way(&dir);
        let made_up = way.iter().any(|part| part == "virtual") && !way.iter().any(|part| part == "nvme-subsystem");
        let part_of_emmc = name.starts_with("mmcblk") && (name.contains("boot") || name.contains("rpmb"));
        // One of several ways to an NVMe disk, which is there under its own name.
        let hidden = read::flag(&dir.join("hidden"));
        if made_up || part_of_emmc || hidden {
            return None;
        }
        let first = |paths: &[&str]| paths.iter().find_map(|path| read::attribute(&dir.join(path)));
        let on_usb = way.iter().any(|part| usb_port(part).is_some());
        let is_card = read::attribute(&dir.join("device/type")).is_some_and(|kind| kind == "SD");
        Some(Self {
            model: first(&["device/model", "device/name"]),
            serial: first(&["serial", "device/serial"]).or_else(|| vpd_serial(&dir.join("device/vpd_pg80"))),
            wwid: first(&["wwid", "device/wwid"]),
            sectors: read::number(&dir.join("size"))?,
            // A disk in a USB case says that it stays.
            removable: read::flag(&dir.join("removable")) || on_usb || is_card,
            read_only: read::flag(&dir.join("ro")),
            place: place(root, name, &way),
            name: name.to_owned(),
        })
    }

    fn disk(&self, id: DiskId) -> Option<Disk> {
        Some(Disk {
            id,
            // In sysfs a slash of the name is written as an exclamation mark.
            path: format!("/dev/{}", self.name.replace('!', "/")).parse::<DevicePath>().ok()?,
            model: self.model.as_deref().and_then(read::clean),
            serial: self.serial.as_deref().and_then(read::clean),
            size_bytes: self.sectors.checked_mul(SECTOR).filter(|bytes| *bytes <= DISK_BYTES_MAX)?,
            is_removable: self.removable,
            is_read_only: self.read_only,
        })
    }
}

/// Every name that a disk has, the best first.
fn claims(drive: &Drive, links: &Links) -> Vec<DiskId> {
    let mut by_device = links.of(&drive.name);
    let serial = drive.serial.as_deref().and_then(word);
    let model = drive.model.as_deref().and_then(word);
    if let Some(wwid) = drive.wwid.as_deref().and_then(word) {
        let digits = wwid.strip_prefix("naa.").or_else(|| wwid.strip_prefix("eui."));
        match digits {
            Some(digits) if digits.bytes().all(|b| b == b'0') => {}
            Some(digits) if !drive.name.starts_with("nvme") => by_device.push(format!("wwn-0x{digits}")),
            _ if drive.name.starts_with("nvme") => by_device.push(format!("nvme-{wwid}")),
            _ => {}
        }
    }
    if let Some(serial) = &serial {
        if drive.name.starts_with("vd") {
            by_device.push(format!("virtio-{serial}"));
        }
        if drive.name.starts_with("mmcblk") {
            by_device.push(format!("mmc-{}_{serial}", model.as_deref().unwrap_or_default()));
        }
    }
    by_device.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    by_device.dedup();
    let told = serial.map(|serial| format!("serial-{}_{serial}", model.as_deref().unwrap_or("disk")));
    let place = drive.place.as_ref().map(|place| format!("path-{place}"));
    let name = format!("name-{}", drive.name.replace('!', "/"));
    by_device.into_iter().chain(told).chain(place).chain([name]).filter_map(|name| name.parse().ok()).collect()
}

fn rank(name: &str) -> usize {
    let best = ["wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme."];
    best.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(best.len())
}

/// What a device says as one word of a disk id, the way udev writes it. Only zeros say nothing.
fn word(text: &str) -> Option<String> {
    let clean = read::clean::<200>(text)?;
    let safe = |c: char| if c.is_ascii_alphanumeric() || ".:+-".contains(c) { c } else { '_' };
    let word = clean.as_str().chars().map(safe).collect::<String>().replace("..", "__");
    word.bytes().any(|b| b.is_ascii_alphanumeric() && b != b'0').then_some(word)
}

/// Where the links of `/dev/disk/by-id` lead, by the kernel's name.
struct Links(BTreeMap<String, Vec<String>>);

impl Links {
    fn read(root: &Root) -> Self {
        let dir = root.join("dev/disk/by-id");
        let mut links = BTreeMap::<String, Vec<String>>::new();
        for link in read::names(&dir, |name| LINKS.iter().any(|prefix| name.starts_with(prefix))) {
            let target = std::fs::read_link(dir.join(&link)).ok();
            let target = target.as_deref().and_then(Path::to_str).and_then(|target| target.strip_prefix("../../"));
            if let Some(name) = target {
                links.entry(name.replace('/', "!")).or_default().push(link);
            }
        }
        Self(links)
    }

    fn of(&self, name: &str) -> Vec<String> {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

/// The serial number of a SCSI disk: page 80h of its vital product data, a length in bytes 2 and 3 before the text.
fn vpd_serial(path: &Path) -> Option<String> {
    let page = read::bytes(path, VPD_MAX)?;
    let (head, rest) = page.split_first_chunk::<4>()?;
    let [_, 0x80, high, low] = head else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let text = String::from_utf8_lossy(rest.get(..length)?).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The directories between `devices` and the disk, where `/sys/block/NAME` is a link.
fn way(dir: &Path) -> Vec<String> {
    let Ok(target) = std::fs::read_link(dir) else { return Vec::new() };
    let parts = target.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let mut parts = parts.skip_while(|part| part != "devices").skip(1).collect::<Vec<_>>();
    parts.pop();
    parts
}

/// Where a disk is plugged in, without the numbers that the kernel counts up as it finds things.
fn place(root: &Root, name: &str, way: &[String]) -> Option<String> {
    if way.iter().any(|part| part == "virtual") {
        return None;
    }
    let mut pci = None;
    let mut usb = None;
    let mut rest = Vec::new();
    for part in way {
        if is_pci(part) {
            // The last bridge's is inside the first's; one is enough.
            pci = Some(format!("pci-{part}"));
        } else if let Some(port) = usb_port(part) {
            usb = Some(format!("usb-{port}"));
        } else if counted(part, "ata") {
            rest.extend(ata_port(root, part));
        } else if let Some(address) = scsi_address(part) {
            rest.push(format!("scsi-{address}"));
        } else if part.contains("vbd-") || part.len() == 36 {
            // Xen's number of a disk, Hyper-V's UUID of a controller.
            rest.push(part.clone());
        }
    }
    let namespace = name.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let namespace = namespace.map(|(_, number)| format!("ns-{number}"));
    let parts = pci.into_iter().chain(usb).chain(rest).collect::<Vec<_>>();
    if parts.is_empty() {
        return None;
    }
    word(&parts.into_iter().chain(namespace).collect::<Vec<_>>().join("-"))
}

/// `0000:3b:00.0`
fn is_pci(part: &str) -> bool {
    let hex = |text: &str, least: usize| text.len() >= least && text.bytes().all(|b| b.is_ascii_hexdigit());
    part.rsplit_once('.').is_some_and(|(device, function)| {
        let numbers = device.split(':').collect::<Vec<_>>();
        hex(function, 1)
            && matches!(numbers.as_slice(), [domain, bus, slot] if hex(domain, 4) && hex(bus, 2) && hex(slot, 2))
    })
}

/// `1-4.2` is port 4.2 of a bus whose number is counted.
fn usb_port(part: &str) -> Option<&str> {
    let (bus, port) = part.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(bus) && port.split('.').all(digits)).then_some(port)
}

/// `2:0:1:0` is channel 0, target 1, unit 0 of a host whose number is counted.
fn scsi_address(part: &str) -> Option<&str> {
    let (_, address) = part.split_once(':')?;
    let numbers = part.split(':').collect::<Vec<_>>();
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (numbers.len() == 4 && numbers.iter().all(digits)).then_some(address)
}

/// `ata7`
fn counted(part: &str, kind: &str) -> bool {
    let number = part.strip_prefix(kind);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The port of its controller: `ata7` counts over all controllers, its `port_no` does not.
fn ata_port(root: &Root, part: &str) -> Option<String> {
    let port = read::number::<u32>(&root.join("sys/class/ata_port").join(part).join("port_no"));
    port.map(|port| format!("ata-{port}"))
}

#[cfg(test)]
mod tests;

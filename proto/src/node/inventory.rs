//! What a machine is made of, as it reports itself in discovery (wire-facts 3.4). Every field is bounded, since the
//! report comes from a machine that nobody has approved yet.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::base::bounded::{OutOfBounds, Text};
use crate::base::digest::Digest;
use crate::base::limits::{
    ADDRESSES_PER_INTERFACE_MAX, CPUS_MAX, DISK_BYTES_MAX, DISKS_MAX, INTERFACES_MAX, MEMORY_BYTES_MAX,
};
use crate::base::names::DiskId;
use crate::checked_text;

/// One line of text about the hardware, as its maker wrote it.
pub type HardwareText = Text<1, 128>;

checked_text! {
    /// A network interface, as the kernel names it (IFNAMSIZ less one; no space, no slash).
    InterfaceName, BadInterfaceName, "an interface name: 1 to 15 printable ASCII characters without space and /",
    |text| (1..=15).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

checked_text! {
    /// A hardware address: six bytes in lower-case hex, colons between.
    MacAddress, BadMacAddress, "a MAC address such as 52:54:00:12:34:56 in lower case",
    |text| {
        text.len() == 17
            && text.bytes().enumerate().all(|(at, b)| match at % 3 {
                2 => b == b':',
                _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
            })
    }
}

checked_text! {
    /// Where the installer finds a disk.
    DevicePath, BadDevicePath, "a device path: /dev/ and up to 123 of A-Z, a-z, 0-9, . _ : + - and /, without ..",
    |text| {
        text.len() <= 128
            && text.strip_prefix("/dev/").is_some_and(|name| !name.is_empty())
            && !text.contains("..")
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:+-/".contains(&b))
    }
}

/// How the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootMode {
    /// UEFI firmware.
    Uefi,
    /// A BIOS, or UEFI's imitation of one.
    Bios,
}

/// The plain fields of [`HardwareInventory`], before they are checked together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InventoryFields {
    /// Machine architecture as the kernel names it: `x86_64`.
    pub architecture: Text<1, 32>,
    /// How the machine started.
    pub boot_mode: BootMode,
    /// Whether the firmware checks what it starts; absent where that cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// Maker of the machine; absent where the firmware does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<HardwareText>,
    /// The maker's name for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<HardwareText>,
    /// The maker's number of this very machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<HardwareText>,
    /// The firmware's UUID of this very machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_uuid: Option<Text<1, 64>>,
    /// Processor, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<HardwareText>,
    /// Logical processors, 1 to 4096.
    pub logical_cpu_count: u32,
    /// Memory in bytes, 1 to 2^50.
    pub memory_bytes: u64,
    /// Network interfaces, 1 to 128, each name once.
    pub interfaces: Vec<Interface>,
    /// Disks, at most 128, each id and path once.
    pub disks: Vec<Disk>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Interface {
    /// The kernel's name.
    pub name: InterfaceName,
    /// The hardware address.
    pub mac_address: MacAddress,
    /// Its addresses now, at most 32.
    pub addresses: Vec<IpAddr>,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Disk {
    /// The name that an approval erases by; stays the same over restarts.
    pub id: DiskId,
    /// Where it is now.
    pub path: DevicePath,
    /// Its maker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<HardwareText>,
    /// Its maker's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<HardwareText>,
    /// Size in bytes; 0 for a drive without a medium.
    pub size_bytes: u64,
    /// Whether it can be taken out.
    pub is_removable: bool,
    /// Whether it refuses writes.
    pub is_read_only: bool,
}

/// A checked hardware inventory. Reading it from JSON goes through the same check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HardwareInventory(InventoryFields);

impl HardwareInventory {
    /// What is installed, apart from where it is connected: the SHA-256 of the inventory without IP addresses.
    ///
    /// The order in which the machine lists its interfaces, disks and addresses does not count. A change of this hash
    /// raises the inventory's revision and invalidates an approval.
    #[must_use]
    pub fn inventory_hash(&self) -> Digest {
        let mut fields = self.0.clone();
        for interface in &mut fields.interfaces {
            interface.addresses.clear();
        }
        fields.interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        fields.disks.sort_by(|a, b| a.id.cmp(&b.id));
        // Strings, numbers and lists always serialize.
        Digest::of(&serde_json::to_vec(&fields).unwrap_or_default())
    }

    /// The disk of this id.
    #[must_use]
    pub fn disk(&self, id: &DiskId) -> Option<&Disk> {
        self.0.disks.iter().find(|disk| disk.id == *id)
    }
}

impl TryFrom<InventoryFields> for HardwareInventory {
    type Error = OutOfBounds;

    fn try_from(fields: InventoryFields) -> Result<Self, OutOfBounds> {
        let refuse = |field, rule| Err(OutOfBounds { field, rule });
        if fields.logical_cpu_count == 0 || fields.logical_cpu_count > CPUS_MAX {
            return refuse("logicalCpuCount", "1 to 4096");
        }
        if fields.memory_bytes == 0 || fields.memory_bytes > MEMORY_BYTES_MAX {
            return refuse("memoryBytes", "1 to 2^50");
        }
        if fields.interfaces.is_empty() || fields.interfaces.len() > INTERFACES_MAX {
            return refuse("interfaces", "1 to 128");
        }
        if fields.disks.len() > DISKS_MAX {
            return refuse("disks", "at most 128");
        }
        let mut names = BTreeSet::new();
        for interface in &fields.interfaces {
            if interface.addresses.len() > ADDRESSES_PER_INTERFACE_MAX {
                return refuse("addresses", "at most 32 an interface");
            }
            if interface.addresses.iter().any(|address| address.to_canonical() != *address) {
                return refuse("addresses", "IPv4 written as IPv4");
            }
            if !names.insert(&interface.name) {
                return refuse("interfaces", "each name once");
            }
        }
        let (mut ids, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for disk in &fields.disks {
            if disk.size_bytes > DISK_BYTES_MAX {
                return refuse("sizeBytes", "at most 2^53");
            }
            if !ids.insert(&disk.id) || !paths.insert(&disk.path) {
                return refuse("disks", "each id and path once");
            }
        }
        Ok(Self(fields))
    }
}

impl Deref for HardwareInventory {
    type Target = InventoryFields;
    fn deref(&self) -> &InventoryFields {
        &self.0
    }
}

impl<'de> Deserialize<'de> for HardwareInventory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(InventoryFields::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;

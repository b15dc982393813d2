//! What the machine is, read from `/proc` and `/sys` alone: no program is started.
//!
//! | module | reads |
//! |---|---|
//! | [`cpu`] | `/proc/cpuinfo` |
//! | [`memory`] | `/proc/meminfo` |
//! | [`disks`] | `/sys/block`, `/dev/disk/by-id` |
//! | [`network`] | `/sys/class/net` |
//! | [`firmware`] | `/sys/class/dmi/id`, `/sys/firmware/efi` |
//!
//! What a device says about itself is made fit before it is reported, and what makes no sense is left out: a plugged-in
//! device must not keep a machine from being discovered. Only processors, memory and one network interface must be
//! there, because an inventory without them is refused (wire-facts 3.4).

mod cpu;
mod disks;
mod firmware;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod memory;
pub mod network;
pub(crate) mod read;

use std::path::Path;

use lucia_proto::base::bounded::{OutOfBounds, Text};
use lucia_proto::base::limits::DISCOVER_REPORT_MAX;
use lucia_proto::node::inventory::{HardwareInventory, InventoryFields};
use thiserror::Error;

use crate::host::root::Root;
use network::Address;

/// Room in a discovery report for everything but the inventory.
const REPORT_REST: usize = 1024;

/// The machine cannot be described.
#[derive(Debug, Error)]
pub enum InventoryError {
    /// No processor was found.
    #[error("{} names no processor; is /proc mounted?", cpu::CPUINFO)]
    Processors,
    /// The size of the memory was not found.
    #[error("{} does not say how much memory there is; is /proc mounted?", memory::MEMINFO)]
    Memory,
    /// No network interface was found.
    #[error("/sys/class/net has no interface with a MAC address; is its driver loaded?")]
    Interfaces,
    /// The architecture has no name.
    #[error("the machine's architecture has no usable name")]
    Architecture,
    /// What was found breaks a bound of the protocol.
    #[error("the inventory of this machine is out of bounds")]
    Bounds(#[source] OutOfBounds),
}

/// Describes the machine below `root`, with this process's own IP addresses if that is the whole machine.
///
/// # Errors
/// [`InventoryError`]; never because of a disk, an address or a text.
pub fn gather(root: &Root) -> Result<HardwareInventory, InventoryError> {
    let system = root.path() == Path::new("/");
    gather_with(root, &if system { network::system_addresses() } else { Vec::new() })
}

/// [`gather`] with the addresses given.
///
/// # Errors
/// As [`gather`].
pub fn gather_with(root: &Root, addresses: &[Address]) -> Result<HardwareInventory, InventoryError> {
    let cpu = cpu::gather(root);
    if cpu.count == 0 {
        return Err(InventoryError::Processors);
    }
    let memory = memory::gather(root).ok_or(InventoryError::Memory)?;
    let interfaces = network::gather(root, addresses);
    if interfaces.is_empty() {
        return Err(InventoryError::Interfaces);
    }
    let firmware = firmware::gather(root);
    let fields = InventoryFields {
        architecture: architecture(root)?,
        boot_mode: firmware.boot_mode,
        secure_boot: firmware.secure_boot,
        manufacturer: firmware.manufacturer,
        model: firmware.model,
        serial_number: firmware.serial_number,
        hardware_uuid: firmware.hardware_uuid,
        cpu_model: cpu.model,
        logical_cpu_count: cpu.count,
        memory_bytes: memory.total,
        interfaces,
        disks: disks::gather(root),
    };
    HardwareInventory::try_from(fitted(fields)).map_err(InventoryError::Bounds)
}

/// As the kernel names it (since Linux 6.1), else what this program was built for.
fn architecture(root: &Root) -> Result<Text<1, 32>, InventoryError> {
    let told = read::attribute(&root.join("proc/sys/kernel/arch"));
    let word = |text: &String| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let name = told.filter(word).unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    name.parse().or_else(|_| std::env::consts::ARCH.parse()).map_err(|_| InventoryError::Architecture)
}

/// Each list is bounded, yet all at their ends do not fit into one report: leaves out what tells least, addresses first.
fn fitted(mut fields: InventoryFields) -> InventoryFields {
    while serde_json::to_vec(&fields).map_or(0, |json| json.len()) > DISCOVER_REPORT_MAX - REPORT_REST {
        let most = fields.interfaces.iter().map(|interface| interface.addresses.len()).max().unwrap_or(0);
        if most > 1 {
            fields.interfaces.iter_mut().for_each(|interface| interface.addresses.truncate(most / 2));
        } else if fields.disks.len() > fields.interfaces.len() {
            fields.disks.pop();
        } else if fields.interfaces.len() > 1 {
            fields.interfaces.pop();
        } else {
            break;
        }
    }
    fields
}

#[cfg(test)]
mod tests;

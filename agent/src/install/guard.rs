//! `installation-guard`: the last look before a disk is erased. Every condition must hold, or nothing is erased.

use lucia_proto::base::names::DiskId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::first_contact::{DeviceState, Grant};
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::DevicePhase;
use thiserror::Error;

use super::Installation;
use crate::host::boot::BootId;

/// Why the disk may not be erased.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GuardRefusal {
    /// `wait-install` has not got a grant.
    #[error("there is no grant; run `lucia-node-agent wait-install` first")]
    NoGrant,
    /// It is no installer.
    #[error(
        "this machine runs an installed system and joins as it is; no disk of it may be erased. Run `lucia-node-agent rekey \
         --finish`, or boot the installer to install it again"
    )]
    Runs,
    /// The grant is over.
    #[error("the grant was good until {0}; discover this machine and approve it again")]
    Expired(UnixTime),
    /// The grant was given in another boot.
    #[error("the grant was given in another boot of the installer; discover this machine and approve it again")]
    OtherBoot,
    /// The disk is not there.
    #[error("disk {0} is not there, is removable or read-only; nothing may be erased. Discover and approve again")]
    Disk(DiskId),
    /// The controller has changed its mind, or never said so.
    #[error(
        "the controller says {phase:?} (inventory {inventory}) where an approved installation of inventory {granted} is needed"
    )]
    Controller {
        /// What it says.
        phase: DevicePhase,
        /// The inventory it knows.
        inventory: u32,
        /// The inventory of the grant.
        granted: u32,
    },
}

impl GuardRefusal {
    /// The exit code of the verb.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoGrant => 20,
            Self::Runs => 25,
            Self::Expired { .. } => 21,
            Self::OtherBoot => 22,
            Self::Disk { .. } => 23,
            Self::Controller { .. } => 24,
        }
    }
}

/// Checks everything, the local facts first. `running`: an installed system asks, and no installer. `now` is the
/// controller's time.
///
/// # Errors
/// The first condition that does not hold.
pub fn check<'a>(
    running: bool,
    installation: Option<&'a Installation>,
    boot: &BootId,
    inventory: &HardwareInventory,
    device: &DeviceState,
    now: UnixTime,
) -> Result<&'a Grant, GuardRefusal> {
    if running {
        return Err(GuardRefusal::Runs);
    }
    let grant = installation.and_then(|kept| kept.grant.as_ref()).ok_or(GuardRefusal::NoGrant)?;
    if installation.is_none_or(|kept| kept.boot_id != *boot) {
        return Err(GuardRefusal::OtherBoot);
    }
    // A grant that was used in time goes on until its installation must be through.
    let until = match device.phase {
        DevicePhase::Installing => grant.progress_expires_at,
        _ => grant.expires_at,
    };
    if now > until {
        return Err(GuardRefusal::Expired(until));
    }
    let fixed = |disk: &lucia_proto::node::inventory::Disk| !disk.is_removable && !disk.is_read_only;
    let disk = grant.disk_id.as_ref().ok_or(GuardRefusal::Runs)?;
    if !inventory.disk(disk).is_some_and(fixed) {
        return Err(GuardRefusal::Disk(disk.clone()));
    }
    let agreed = matches!(device.phase, DevicePhase::Approved | DevicePhase::Installing)
        && device.device_id == grant.device_id
        && device.inventory_revision == grant.inventory_revision
        && device.task_id.as_ref() == Some(&grant.task_id);
    if !agreed {
        let (phase, inventory) = (device.phase, device.inventory_revision);
        return Err(GuardRefusal::Controller { phase, inventory, granted: grant.inventory_revision });
    }
    Ok(grant)
}

//! The phases of a device and of its installation task, and the one table of moves for each
//! (managed-nodes.md "States", wire-facts 3.4).
//!
//! A phase moves only through `on`. Which events may happen at all (is the window open, did the grant expire, is the
//! proof good) is decided before; the table says what an event means in each phase and refuses the rest by name.
//! Removing or dismissing a device deletes its row, so neither is a phase.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::names::DiskId;

/// Where a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DevicePhase {
    /// Seen; nobody has decided yet.
    Discovered,
    /// An owner or operator approved an installation; the installer may ask for a grant.
    Approved,
    /// The installer said that it is at work.
    Installing,
    /// The system is on the disk; the machine has to come up and enrol.
    AwaitingEnrollment,
    /// A heartbeat under the node's own certificate was verified.
    Managed,
    /// The installation ended without a node.
    Failed,
    /// An owner or operator said no.
    Rejected,
}

/// What a person approves. The disk tells them apart: without one nothing is ever erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// An installer erases a disk and puts a system on it.
    Install,
    /// A system that runs becomes a node as it is.
    Join,
}

impl TaskKind {
    /// The kind of an approval with this disk.
    #[must_use]
    pub const fn of(disk: Option<&DiskId>) -> Self {
        if disk.is_some() { Self::Install } else { Self::Join }
    }
}

/// Where an approved installation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskPhase {
    /// Approved, no grant yet.
    Approved,
    /// The one grant is out.
    GrantIssued,
    /// The installer said that it is at work.
    Installing,
    /// The system is on the disk.
    AwaitingEnrollment,
    /// Ended without a node.
    Failed,
    /// Ended before a grant was given: the approval expired, or the machine changed.
    Invalidated,
    /// Became a node.
    Managed,
}

/// What can happen to a device and its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceEvent {
    /// The device came back with a new discovery session, its old one being over.
    Rediscovered,
    /// The device reported other hardware before any grant.
    InventoryChanged,
    /// The device reported other hardware after its grant.
    InventoryChangedAfterGrant,
    /// An owner or operator approved an installation.
    OwnerApproved,
    /// An owner or operator rejected the device.
    OwnerRejected,
    /// An owner or operator took the rejection back.
    OwnerRestored,
    /// The installer asked for its grant and got it.
    GrantIssued,
    /// Nobody asked for the grant in time.
    AuthorityExpired,
    /// The installation did not get to its end in time.
    ProgressExpired,
    /// The device says: installing.
    ReportedInstalling,
    /// The device says: installed, rebooting.
    ReportedAwaitingEnrollment,
    /// The device says: failed.
    ReportedFailed,
    /// A heartbeat with certificate and proof was verified.
    HeartbeatVerified,
}

/// The event has no meaning in this phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{event:?} is not allowed in phase {phase:?}")]
pub struct NotAllowed<P: std::fmt::Debug> {
    /// The phase it met.
    pub phase: P,
    /// The event that was refused.
    pub event: DeviceEvent,
}

impl DeviceEvent {
    /// Each event once.
    pub const ALL: [Self; 13] = [
        Self::Rediscovered,
        Self::InventoryChanged,
        Self::InventoryChangedAfterGrant,
        Self::OwnerApproved,
        Self::OwnerRejected,
        Self::OwnerRestored,
        Self::GrantIssued,
        Self::AuthorityExpired,
        Self::ProgressExpired,
        Self::ReportedInstalling,
        Self::ReportedAwaitingEnrollment,
        Self::ReportedFailed,
        Self::HeartbeatVerified,
    ];
}

impl DevicePhase {
    /// Each phase once.
    pub const ALL: [Self; 7] = [
        Self::Discovered,
        Self::Approved,
        Self::Installing,
        Self::AwaitingEnrollment,
        Self::Managed,
        Self::Failed,
        Self::Rejected,
    ];

    /// The phase after `event`.
    ///
    /// Two rules are stricter than the reference's "any phase may fail": a managed node is past installing and cannot
    /// report itself failed, and a rejected device stays rejected until a person says otherwise.
    ///
    /// # Errors
    /// When the event has no meaning in this phase.
    pub const fn on(self, event: DeviceEvent) -> Result<Self, NotAllowed<Self>> {
        use DeviceEvent as E;
        Ok(match (self, event) {
            (Self::Discovered | Self::Failed, E::Rediscovered) => Self::Discovered,
            (Self::Rejected, E::Rediscovered) => Self::Rejected,
            (Self::Discovered | Self::Approved, E::InventoryChanged) => Self::Discovered,
            (Self::Failed, E::InventoryChanged) => Self::Failed,
            (Self::Rejected, E::InventoryChanged) => Self::Rejected,
            (Self::Approved | Self::Installing | Self::AwaitingEnrollment, E::InventoryChangedAfterGrant) => {
                Self::Failed
            }
            (Self::Discovered, E::OwnerApproved) => Self::Approved,
            (Self::Discovered, E::OwnerRejected) => Self::Rejected,
            (Self::Rejected, E::OwnerRestored) => Self::Discovered,
            (Self::Approved, E::GrantIssued) => Self::Approved,
            (Self::Approved, E::AuthorityExpired) => Self::Discovered,
            (Self::Approved | Self::Installing | Self::AwaitingEnrollment, E::ProgressExpired) => Self::Failed,
            (Self::Approved | Self::Installing, E::ReportedInstalling) => Self::Installing,
            (Self::Installing | Self::AwaitingEnrollment, E::ReportedAwaitingEnrollment) => Self::AwaitingEnrollment,
            (
                Self::Discovered | Self::Approved | Self::Installing | Self::AwaitingEnrollment | Self::Failed,
                E::ReportedFailed,
            ) => Self::Failed,
            (Self::AwaitingEnrollment | Self::Managed, E::HeartbeatVerified) => Self::Managed,
            (phase, event) => return Err(NotAllowed { phase, event }),
        })
    }

    /// Whether a device in this phase can have `task` as its current task.
    #[must_use]
    pub const fn agrees_with(self, task: TaskPhase) -> bool {
        matches!(
            (self, task),
            (Self::Approved, TaskPhase::Approved | TaskPhase::GrantIssued)
                | (Self::Installing, TaskPhase::Installing)
                | (Self::AwaitingEnrollment, TaskPhase::AwaitingEnrollment)
                | (Self::Managed, TaskPhase::Managed)
                | (Self::Failed, TaskPhase::Failed)
        )
    }

    /// Whether a device in this phase must have a current task. A failed one may have one.
    #[must_use]
    pub const fn needs_task(self) -> bool {
        matches!(self, Self::Approved | Self::Installing | Self::AwaitingEnrollment | Self::Managed)
    }
}

impl TaskPhase {
    /// Each phase once.
    pub const ALL: [Self; 7] = [
        Self::Approved,
        Self::GrantIssued,
        Self::Installing,
        Self::AwaitingEnrollment,
        Self::Failed,
        Self::Invalidated,
        Self::Managed,
    ];

    /// The phase after `event`. A new task starts as [`TaskPhase::Approved`].
    ///
    /// # Errors
    /// When the event has no meaning in this phase; an ended task never moves again.
    pub const fn on(self, event: DeviceEvent) -> Result<Self, NotAllowed<Self>> {
        use DeviceEvent as E;
        Ok(match (self, event) {
            (Self::Approved, E::InventoryChanged | E::AuthorityExpired) => Self::Invalidated,
            (Self::Approved, E::GrantIssued) => Self::GrantIssued,
            (Self::GrantIssued | Self::Installing, E::ReportedInstalling) => Self::Installing,
            (Self::Installing | Self::AwaitingEnrollment, E::ReportedAwaitingEnrollment) => Self::AwaitingEnrollment,
            (
                Self::GrantIssued | Self::Installing | Self::AwaitingEnrollment,
                E::InventoryChangedAfterGrant | E::ProgressExpired,
            ) => Self::Failed,
            (
                Self::Approved | Self::GrantIssued | Self::Installing | Self::AwaitingEnrollment | Self::Failed,
                E::ReportedFailed,
            ) => Self::Failed,
            (Self::AwaitingEnrollment | Self::Managed, E::HeartbeatVerified) => Self::Managed,
            (phase, event) => return Err(NotAllowed { phase, event }),
        })
    }

    /// Whether the task is over without a node.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Invalidated)
    }

    /// Whether a task in this phase has its grant: `None` when both are possible.
    #[must_use]
    pub const fn has_grant(self) -> Option<bool> {
        match self {
            Self::Approved | Self::Invalidated => Some(false),
            Self::GrantIssued | Self::Installing | Self::AwaitingEnrollment | Self::Managed => Some(true),
            Self::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device table once more, as the pages say it, one line an event: `from>to`.
    const DEVICE: [(DeviceEvent, &str); 13] = [
        (DeviceEvent::Rediscovered, "Discovered>Discovered Failed>Discovered Rejected>Rejected"),
        (DeviceEvent::InventoryChanged, "Discovered>Discovered Approved>Discovered Failed>Failed Rejected>Rejected"),
        (DeviceEvent::InventoryChangedAfterGrant, "Approved>Failed Installing>Failed AwaitingEnrollment>Failed"),
        (DeviceEvent::OwnerApproved, "Discovered>Approved"),
        (DeviceEvent::OwnerRejected, "Discovered>Rejected"),
        (DeviceEvent::OwnerRestored, "Rejected>Discovered"),
        (DeviceEvent::GrantIssued, "Approved>Approved"),
        (DeviceEvent::AuthorityExpired, "Approved>Discovered"),
        (DeviceEvent::ProgressExpired, "Approved>Failed Installing>Failed AwaitingEnrollment>Failed"),
        (DeviceEvent::ReportedInstalling, "Approved>Installing Installing>Installing"),
        (
            DeviceEvent::ReportedAwaitingEnrollment,
            "Installing>AwaitingEnrollment AwaitingEnrollment>AwaitingEnrollment",
        ),
        (
            DeviceEvent::ReportedFailed,
            "Discovered>Failed Approved>Failed Installing>Failed AwaitingEnrollment>Failed Failed>Failed",
        ),
        (DeviceEvent::HeartbeatVerified, "AwaitingEnrollment>Managed Managed>Managed"),
    ];

    const TASK: [(DeviceEvent, &str); 13] = [
        (DeviceEvent::Rediscovered, ""),
        (DeviceEvent::InventoryChanged, "Approved>Invalidated"),
        (DeviceEvent::InventoryChangedAfterGrant, "GrantIssued>Failed Installing>Failed AwaitingEnrollment>Failed"),
        (DeviceEvent::OwnerApproved, ""),
        (DeviceEvent::OwnerRejected, ""),
        (DeviceEvent::OwnerRestored, ""),
        (DeviceEvent::GrantIssued, "Approved>GrantIssued"),
        (DeviceEvent::AuthorityExpired, "Approved>Invalidated"),
        (DeviceEvent::ProgressExpired, "GrantIssued>Failed Installing>Failed AwaitingEnrollment>Failed"),
        (DeviceEvent::ReportedInstalling, "GrantIssued>Installing Installing>Installing"),
        (
            DeviceEvent::ReportedAwaitingEnrollment,
            "Installing>AwaitingEnrollment AwaitingEnrollment>AwaitingEnrollment",
        ),
        (
            DeviceEvent::ReportedFailed,
            "Approved>Failed GrantIssued>Failed Installing>Failed AwaitingEnrollment>Failed Failed>Failed",
        ),
        (DeviceEvent::HeartbeatVerified, "AwaitingEnrollment>Managed Managed>Managed"),
    ];

    #[track_caller]
    fn walk<P: Copy + PartialEq + std::fmt::Debug>(
        phases: &[P],
        table: &[(DeviceEvent, &str)],
        on: fn(P, DeviceEvent) -> Result<P, NotAllowed<P>>,
    ) {
        assert_eq!(table.iter().map(|row| row.0).collect::<Vec<_>>(), DeviceEvent::ALL);
        for (event, moves) in table {
            for phase in phases {
                let got = on(*phase, *event);
                let want = moves.split(' ').filter_map(|m| m.split_once('>')).find(|m| m.0 == format!("{phase:?}"));
                match want {
                    Some((_, to)) => {
                        assert_eq!(got.map(|p| format!("{p:?}")), Ok(to.to_owned()), "{phase:?} {event:?}")
                    }
                    None => assert_eq!(got, Err(NotAllowed { phase: *phase, event: *event })),
                }
            }
        }
    }

    // spec: ST-1
    #[test]
    fn every_pair_of_device_phase_and_event_is_decided() {
        walk(&DevicePhase::ALL, &DEVICE, DevicePhase::on);
    }

    // spec: ST-2
    #[test]
    fn every_pair_of_task_phase_and_event_is_decided() {
        walk(&TaskPhase::ALL, &TASK, TaskPhase::on);
    }

    // spec: ST-3
    #[test]
    fn only_a_verified_heartbeat_leads_to_managed() {
        for event in DeviceEvent::ALL {
            for phase in DevicePhase::ALL {
                if phase.on(event) == Ok(DevicePhase::Managed) {
                    assert_eq!(event, DeviceEvent::HeartbeatVerified);
                }
            }
            for phase in TaskPhase::ALL {
                if phase.on(event) == Ok(TaskPhase::Managed) {
                    assert_eq!(event, DeviceEvent::HeartbeatVerified);
                }
            }
        }
    }

    // spec: ST-4
    #[test]
    fn device_and_task_never_drift_apart() {
        for device in DevicePhase::ALL {
            for task in TaskPhase::ALL.into_iter().filter(|task| device.agrees_with(*task)) {
                for event in DeviceEvent::ALL {
                    let (Ok(device), Ok(task)) = (device.on(event), task.on(event)) else { continue };
                    // Together they stay a pair, or the task ends and the device lets go of it.
                    assert!(
                        device.agrees_with(task) || (task.is_ended() && !device.needs_task()),
                        "{event:?} leads to {device:?} with {task:?}"
                    );
                }
            }
        }
    }
}

//! What a machine is answered from its first contact until it has a certificate.

use serde::{Deserialize, Serialize};

use crate::base::ids::{NodeId, RequestId, TaskId};
use crate::base::names::{DiskId, Hostname};
use crate::base::time::UnixTime;
use crate::node::phase::DevicePhase;
use crate::pki::key::VerificationCode;

/// Answer to a discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Discovered {
    /// The device.
    pub device_id: NodeId,
    /// What people compare.
    pub verification_code: VerificationCode,
    /// Until when it may be approved.
    pub expires_at: UnixTime,
}

/// Answer to `device-state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeviceState {
    /// The device.
    pub device_id: NodeId,
    /// Where it stands.
    pub phase: DevicePhase,
    /// What people compare.
    pub verification_code: VerificationCode,
    /// Rises with every change of the inventory but addresses.
    pub inventory_revision: u32,
    /// Until when it may be approved.
    pub expires_at: UnixTime,
    /// The approved name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// The approved installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// What the controller wants people to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Answer to `installation`: what was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Installation {
    /// The device.
    pub device_id: NodeId,
    /// The inventory that was approved.
    pub inventory_revision: u32,
    /// The approved installation.
    pub task_id: TaskId,
    /// Until when a grant may be asked for.
    pub authority_expires_at: UnixTime,
    /// Whether one may be asked for now.
    pub can_request_installation_grant: bool,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that will be erased; absent where a running machine joins, and none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
}

/// Answer to `grant`: the one-time permission to install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Grant {
    /// The approved installation.
    pub task_id: TaskId,
    /// The device.
    pub device_id: NodeId,
    /// The request it answers.
    pub request_id: RequestId,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that may be erased; absent where a running machine joins, and none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
    /// The inventory that was approved.
    pub inventory_revision: u32,
    /// Until when the installation may begin.
    pub expires_at: UnixTime,
    /// Until when it must have asked for its certificate.
    pub progress_expires_at: UnixTime,
}

/// Answer to `progress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Accepted {
    /// Always true: a refusal is an error.
    pub accepted: bool,
}

/// Answer 202 to `enroll` and `renew`: the worker has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pending {
    /// `Pending`.
    pub state: PendingState,
}

/// The one value of [`Pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingState {
    /// Ask again.
    Pending,
}

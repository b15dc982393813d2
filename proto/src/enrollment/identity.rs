//! `identities/<id>.json`: what the controller knows of a node that has a certificate.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::bounded::PemText;
use crate::heartbeat::Heartbeat;
use crate::host_api::SnapshotState;
use crate::ids::{NodeId, TaskId};
use crate::key::Fingerprint;
use crate::limits::CHAIN_PEM_MAX;
use crate::names::Hostname;
use crate::time::UnixTime;

/// The record of one node. Its [`state`](Self::state) is not stored: it follows from the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IdentityRecord {
    /// The node.
    pub node_id: NodeId,
    /// Its approved installation.
    pub task_id: TaskId,
    /// Its approved name.
    pub hostname: Hostname,
    /// Its key.
    pub public_key_fingerprint: Fingerprint,
    /// The last certificate that the worker answered with, and its intermediates.
    pub certificate_pem: PemText<CHAIN_PEM_MAX>,
    /// When that certificate ends.
    pub certificate_expires_at: UnixTime,
    /// When a heartbeat was last verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<UnixTime>,
    /// Where that heartbeat came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// That heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Heartbeat>,
}

impl IdentityRecord {
    /// How the node looks at `now`.
    #[must_use]
    pub fn state(&self, now: UnixTime) -> SnapshotState {
        SnapshotState::of(self.last_seen_at, now)
    }
}

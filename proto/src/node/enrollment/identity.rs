//! `identities/<id>.json`: what the controller knows of a node that has a certificate.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::base::bounded::PemText;
use crate::base::ids::{NodeId, StartId, TaskId};
use crate::base::limits::CHAIN_PEM_MAX;
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::files::journal::Holder;
use crate::node::heartbeat::Heartbeat;
use crate::node::state::SnapshotState;
use crate::pki::key::Fingerprint;

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
    /// The starts of its agent, once it told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
}

/// What is known of the starts of a node's agent (design.md I8). Written lazily: a controller that lost the newest of it
/// hears of it again, since each start names its predecessors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Lineage {
    /// The starts that were heard, newest first, at most 4; the first is the present one.
    pub heard: Vec<Holder>,
    /// Starts that came before: whoever speaks as one of them is another holder. Newest first, at most 24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<StartId>,
    /// Starts of a holder that a person decided against, newest first, at most 24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<StartId>,
    /// The last one of those that spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refused: Option<Holder>,
    /// The last [`KeptRow::at`](crate::files::journal::KeptRow::at) that this follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_at: Option<UnixTime>,
    /// Since when it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_at: Option<UnixTime>,
    /// The holders of a frozen identity as they were last heard: at most 4, and none of one that is not frozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
}

impl IdentityRecord {
    /// How the node looks at `now`.
    #[must_use]
    pub fn state(&self, now: UnixTime) -> SnapshotState {
        SnapshotState::of(self.last_seen_at, now)
    }
}

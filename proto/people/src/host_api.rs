//! What the operator's side speaks: the answers and forms of `/api/host`, read by `luciactl` and, later, by owners.
//!
//! A view is what a person is shown, made from the journal, the records and the samples at one moment. It is never
//! read back into any of them. A view names ids, fingerprints and times whole; cutting is for who shows it.

mod rename;

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use lucia_proto::base::bounded::Text;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, StartId, TaskId};
use lucia_proto::base::limits::{MESSAGE_MAX, WINDOW_MAX};
use lucia_proto::base::names::{DiskId, Hostname};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{FrozenRow, Holder, KeptRow, NewName};
use lucia_proto::node::heartbeat::{DirectoryReport, DirectoryState, Gpu};
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::node::state::SnapshotState;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
pub use rename::{Rename, RenameForm, RenameStep};

use lucia_proto::base::bounded::Label;

/// What an approval must hold as its confirmation, because a disk is erased.
pub const ERASE: &str = "ERASE";
/// Events in one answer at most.
pub const EVENTS_PER_ANSWER_MAX: usize = 500;
/// Longest `wait` of a long poll for events.
pub const EVENTS_WAIT_MAX: Duration = Duration::from_secs(25);
/// What `luciactl` reads of an answer: protects its memory from a controller gone wrong. 128 devices with the largest
/// inventory each stay under it.
pub const HOST_ANSWER_MAX: usize = 32 * 1024 * 1024;

/// Text about a device or task, for people.
pub type Message = Text<1, MESSAGE_MAX>;

/// Body of `POST /api/host/onboarding/window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OpenWindow {
    /// How long devices may introduce themselves.
    pub minutes: Minutes,
}

/// 1 to 60 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Minutes(u32);

/// The number is not a length of the discovery window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("1 to 60 minutes")]
pub struct BadMinutes;

impl Minutes {
    /// Checks the number.
    ///
    /// # Errors
    /// When it is 0 or over 60.
    pub fn new(minutes: u32) -> Result<Self, BadMinutes> {
        let span = Duration::from_secs(u64::from(minutes) * 60);
        if minutes == 0 || span > WINDOW_MAX { Err(BadMinutes) } else { Ok(Self(minutes)) }
    }

    /// As a span of time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64 * 60)
    }
}

impl std::str::FromStr for Minutes {
    type Err = BadMinutes;
    fn from_str(text: &str) -> Result<Self, BadMinutes> {
        text.parse().map_err(|_| BadMinutes).and_then(Self::new)
    }
}

impl<'de> Deserialize<'de> for Minutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u32::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Body of `POST /api/host/devices/{id}/approve-install`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApproveForm {
    /// What the node will be called.
    pub hostname: Hostname,
    /// The disk that will be erased, by its id in the inventory. Absent for a machine that runs: it joins as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
    /// [`ERASE`] where there is a disk; anything else is refused. Absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<String>,
    /// The node that had this name, its machine having lost its key or been installed anew: it is removed in the same
    /// act. Absent: nobody has the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
}

/// Body of `POST /api/host/nodes/{id}/clone/keep`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KeepForm {
    /// The start of the holder that stays.
    pub start_id: StartId,
}

/// Answer of `GET /api/host/onboarding` and of every call that changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnboardingView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// Until when devices may introduce themselves; absent while the window is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_expires_at: Option<UnixTime>,
    /// Whether the enrollment worker can answer.
    pub worker: WorkerView,
    /// Every device of the journal that is not a node yet, oldest first.
    pub devices: Vec<DeviceView>,
}

/// How the controller sees the enrollment worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// It was seen in the last 45 s and says that it can issue.
    pub ready: bool,
    /// When it last wrote its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<UnixTime>,
    /// What is wrong, when it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
}

/// A device that is not a node yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceView {
    /// The device.
    pub device_id: NodeId,
    /// The whole fingerprint: what is compared with the machine's own screen.
    pub fingerprint: Fingerprint,
    /// Its short form.
    pub verification_code: VerificationCode,
    /// Where it stands.
    pub phase: DevicePhase,
    /// Where its last discovery came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// When it was first seen.
    pub discovered_at: UnixTime,
    /// Until when it may be approved.
    pub expires_at: UnixTime,
    /// Rises with every change of the inventory but addresses.
    pub inventory_revision: u32,
    /// What it says it is made of.
    pub inventory: HardwareInventory,
    /// It is an installed system that runs: it joins as it is, and no disk is erased.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// The approved installation, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskView>,
    /// What the device or the controller wants people to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// The worker bars its key, since its node was removed: it cannot be approved. Absent: it does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub barred: bool,
}

/// An approved installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The installation.
    pub task_id: TaskId,
    /// Where it stands.
    pub phase: TaskPhase,
    /// The approved name.
    pub hostname: Hostname,
    /// The disk that will be erased; absent where a running machine joins, and none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
    /// The node whose name it takes over; the worker lets it only after an act there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
    /// Until when the device may ask for its grant.
    pub authority_expires_at: UnixTime,
    /// Until when the installation must have asked for its certificate; absent before the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_expires_at: Option<UnixTime>,
    /// Since when a certificate request lies in the queue without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrollment_pending_since: Option<UnixTime>,
    /// Why the worker refused that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Message>,
}

/// Answer of `GET /api/host/nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// A part of them, by hostname: at most 1000.
    pub nodes: Vec<NodeLine>,
    /// There are more: they come after this name, which is the last one's. Absent: these are the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Hostname>,
}

/// One node in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLine {
    /// The node.
    pub node_id: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// What its machine calls itself, where that is another name: `rename` gives it that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_hostname: Option<Hostname>,
    /// The name it had, until it is heard under the one it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_hostname: Option<Hostname>,
    /// What the rename waits for; absent while none is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rename_step: Option<RenameStep>,
    /// Why the worker refused its last request for a certificate, where that stands in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Message>,
    /// Its fingerprint's short form.
    pub verification_code: VerificationCode,
    /// How it looks from here.
    pub state: SnapshotState,
    /// Where it was last heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// When it was last heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<UnixTime>,
    /// When its certificate ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_at: Option<UnixTime>,
    /// Its identity was seen twice, and nobody decided yet. Absent: it was not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// How it stands to the directory, at the last heartbeat; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryState>,
}

impl NodeLine {
    /// Its names for people: while it is renamed both, else with the one that its machine has given itself.
    #[must_use]
    pub fn names(&self) -> String {
        match (&self.former_hostname, &self.new_hostname) {
            (Some(former), _) => format!("{} (still {former})", self.hostname),
            (None, Some(new)) => format!("{} (calls itself {new})", self.hostname),
            (None, None) => self.hostname.to_string(),
        }
    }

    /// Whether `text` is its name; both are while it is renamed.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        [Some(&self.hostname), self.former_hostname.as_ref()].into_iter().flatten().any(|name| name.as_str() == text)
    }

    /// The name that an order for it must have: that of the certificate it holds.
    #[must_use]
    pub fn certified_name(&self) -> &Hostname {
        match self.rename_step {
            Some(RenameStep::Heartbeat) => &self.hostname,
            _ => self.former_hostname.as_ref().unwrap_or(&self.hostname),
        }
    }
}

/// Answer of `GET /api/host/nodes/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// What the list says about it.
    pub node: NodeLine,
    /// The whole fingerprint.
    pub fingerprint: Fingerprint,
    /// The installation it came from.
    pub task_id: TaskId,
    /// Debian's own name for what runs there, from the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<Text<1, 256>>,
    /// Seconds since the node booted, at the last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
    /// How it stands to the directory, at the last heartbeat; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryReport>,
    /// GPUs that it told of, at the last heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// The last hour, oldest first, at most 180.
    pub samples: Vec<Sample>,
    /// Who speaks for it: the agent's present start, once it told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// That it was seen twice, and by whom it is held, as each was last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<FrozenRow>,
    /// What was last decided about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRow>,
    /// The last holder that was decided against and spoke all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refused: Option<Holder>,
    /// Its renames, as far as the journal's events reach back: at most the last 8, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<Rename>,
    /// How it stands to orders; absent while its heartbeats say nothing of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersHeld>,
}

/// Whether a node could take an order, as far as the controller sees: what it said with its last heartbeat, and got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrdersHeld {
    /// The bundle it holds.
    pub bundle_version: u64,
    /// The roster it holds; 0 for none.
    pub roster_version: u64,
    /// The one that the controller would give it; 0 for none.
    pub roster_newest: u64,
    /// Whether it asks the worker how late it is, and waits for the answer.
    pub asks: bool,
    /// When it was last handed such an answer; absent when that was before the controller's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<UnixTime>,
    /// Orders that it is handed with its next heartbeats, one with each; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<VerificationCode>,
}

/// The numbers of one heartbeat. Absent is what the node could not measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When it arrived.
    pub at: UnixTime,
    /// Load average over a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
    /// Processors in use, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Temperature of the processor in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_temperature_celsius: Option<f64>,
    /// The busiest GPU in use, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    /// Temperature of the hottest GPU in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_celsius: Option<f64>,
    /// Memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory that programs could still get, in bytes.
    pub memory_available_bytes: u64,
    /// Root file system in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_total_bytes: Option<u64>,
    /// What is left of it, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_available_bytes: Option<u64>,
}

/// Answer of `GET /api/host/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsView {
    /// In order, at most 500; ask again after the last one for more.
    pub events: Vec<EventLine>,
    /// The newest sequence number there is.
    pub last_sequence: u64,
}

/// Something that happened to the window, a device or a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// Rises by one.
    pub sequence: u64,
    /// When.
    pub at: UnixTime,
    /// What, by the journal's name for it.
    pub kind: Label,
    /// Who caused it.
    pub actor: Label,
    /// Which device or node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<NodeId>,
    /// Which installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Who held the identity, where it is about that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// The names, of a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NewName>,
    /// The name of who was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
}

/// Answer to `status`: the controller itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// Its version.
    pub version: String,
    /// When it started.
    pub started_at: UnixTime,
    /// End of its endpoint certificate; absent until the worker signed the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_at: Option<UnixTime>,
    /// Whether the worker was heard from within 45 seconds.
    pub worker_available: bool,
    /// Bytes of all files of the audit, which nothing deletes.
    pub audit_bytes: u64,
    /// What was counted since the start.
    pub counters: CountersView,
}

/// What the controller counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountersView {
    /// Signature checks with a device's or node's key, and chain buildings.
    pub public_key_operations: u64,
    /// Heartbeats accepted.
    pub heartbeats: u64,
    /// Used challenges remembered now.
    pub used_challenges: u64,
    /// Refusals by code; codes that were never used are absent.
    pub refusals: std::collections::BTreeMap<Code, u64>,
}

#[cfg(test)]
mod tests;

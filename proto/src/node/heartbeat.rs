//! What a node says every 30 seconds, and what it is told in return (managed-nodes.md "The heartbeat", wire-facts 3.6).
//!
//! A [`Heartbeat`] is proof that every field is in bounds: it is made from [`HeartbeatFields`] by one check, and
//! reading it from JSON goes through that check. Unknown fields are refused; what a newer agent wants to add for an
//! older controller goes into `extensions`, which is bounded, kept and otherwise ignored (threats.md J-3).

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::base::bounded::{OutOfBounds, Text};
use crate::base::digest::Digest;
use crate::base::extensions::Extensions;
use crate::base::ids::{BootId, NodeId, StartId};
use crate::base::limits::{
    DISK_BYTES_MAX, FORMER_STARTS_MAX, GPUS_MAX, LOAD_MAX, MEMORY_BYTES_MAX, MESSAGE_MAX, OUTCOMES_MAX,
    UPDATE_COUNT_MAX, UPDATE_PACKAGES_MAX, UPTIME_MAX,
};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::checked_text;
use crate::node::feature::Features;
use crate::node::report::{Purpose, Report};
use crate::orders::exchange::{NodeOutcome, OrdersReply, OrdersReport};

/// A sentence from a node about itself.
pub type Message = Text<0, MESSAGE_MAX>;

checked_text! {
    /// A CUDA version.
    CudaVersion, BadCudaVersion, "a CUDA version such as 12.4",
    |text| text.split_once('.').is_some_and(|(major, minor)| {
        [major, minor].iter().all(|n| (1..=2).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

checked_text! {
    /// A GPU, as its driver names it.
    GpuUuid, BadGpuUuid, "a GPU id: GPU- and up to 60 of a-z, A-Z, 0-9 and -",
    |text| text.strip_prefix("GPU-").is_some_and(|id| {
        (1..=60).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

/// The plain fields of a [`Heartbeat`], before they are checked together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeartbeatFields {
    /// The node that says it.
    pub node_id: NodeId,
    /// Always `heartbeat`.
    pub purpose: Purpose,
    /// The name it was approved under: that of the certificate it calls with.
    pub hostname: Hostname,
    /// What the machine calls itself, where that is another valid name. Since step 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_hostname: Option<Hostname>,
    /// Name and version of its operating system.
    pub os_version: Text<1, 256>,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Load average over one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
    /// Memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory that programs could still get, in bytes.
    pub memory_available_bytes: u64,
    /// Size of the root file system in bytes; together with the next or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_total_bytes: Option<u64>,
    /// What is free of it, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_available_bytes: Option<u64>,
    /// The container runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Upgradable packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// The release id of the running agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_release: Option<Digest>,
    /// Processor use, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Processor temperature, between -40 and 150.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_temperature_celsius: Option<f64>,
    /// GPU use, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    /// GPU temperature, between -40 and 150.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_celsius: Option<f64>,
    /// What the agent can do.
    #[serde(default, skip_serializing_if = "Features::is_empty")]
    pub features: Features,
    /// The agent's start that says it (design.md I8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<StartId>,
    /// The starts before it on the same disk, newest first, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_starts: Vec<StartId>,
    /// The chain value of the last reply that this start kept; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// The machine's boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<BootId>,
    /// Whether directory users can log in; absent where the fleet has no directory. Since step 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryReport>,
    /// What the node holds of who may order, what it asks, and what became of orders. Since step 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersReport>,
    /// What this version does not know: at most 16 members of at most 256 characters.
    #[serde(default, skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// How a node stands to the fleet's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DirectoryReport {
    /// Where it stands.
    pub state: DirectoryState,
    /// What is waited for or went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
}

/// Where a node stands with the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryState {
    /// Being set up.
    Waiting,
    /// Its users are known here.
    Ready,
    /// They are not, or what they are is not brought up to date.
    Failed,
}

/// The container runtime of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Runtime {
    /// Where it stands.
    pub state: RuntimeState,
    /// Version of Docker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docker_version: Option<Text<1, 64>>,
    /// Version of Compose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compose_version: Option<Text<1, 64>>,
    /// What is going on or went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Version of the GPU driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<Text<1, 32>>,
    /// Version of CUDA that the driver serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<CudaVersion>,
    /// GPUs, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

/// Where the container runtime stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeState {
    /// Being installed or checked.
    Preparing,
    /// Containers can run.
    Ready,
    /// They cannot.
    Failed,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Gpu {
    /// Its maker.
    pub vendor: GpuVendor,
    /// The maker's name for it.
    pub model: Text<1, 128>,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// What it can compute, as the maker counts.
    pub compute_capability: Text<1, 16>,
    /// This very GPU.
    pub uuid: GpuUuid,
}

/// Makers of GPUs that nodes report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    /// NVIDIA.
    Nvidia,
}

/// The upgradable packages of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Updates {
    /// What is going on.
    pub state: UpdateState,
    /// When it was last looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<UnixTime>,
    /// How many packages, at most 100000.
    pub count: u32,
    /// How many of them for security.
    pub security_count: u32,
    /// The first of them, at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Whether the machine has to be restarted.
    pub restart_required: bool,
    /// What is going on or went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
}

/// What a node does about its updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateState {
    /// Nothing.
    Idle,
    /// Looking for them.
    Checking,
    /// Installing them.
    Installing,
    /// The last attempt failed.
    Failed,
}

/// One upgradable package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Package {
    /// Its name.
    pub name: Text<1, 100>,
    /// The installed version.
    pub current: Text<1, 100>,
    /// The version it would get.
    pub candidate: Text<1, 100>,
    /// Whether that one is for security.
    pub security: bool,
}

/// A checked heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Heartbeat(HeartbeatFields);

/// What a node is told: that it was heard, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeartbeatReply {
    /// Always true: a refusal is an error.
    pub accepted: bool,
    /// What this start says in its next heartbeat, to show that no other speaks in between. Absent: what it has stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// The identity was seen twice: nothing new is ordered until a person decided. Absent: it was not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// The approved name, while it is another than that of the certificate the node calls with. Since step 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// What the node lacks of who may order, and the next order for it. Since step 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersReply>,
    /// What this version does not know; only to an agent that says it ignores such members
    /// ([`EXTENSIONS`](crate::node::agent::EXTENSIONS)).
    #[serde(default, skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

impl TryFrom<HeartbeatFields> for Heartbeat {
    type Error = OutOfBounds;

    fn try_from(mut fields: HeartbeatFields) -> Result<Self, OutOfBounds> {
        for value in [
            &mut fields.load_average,
            &mut fields.cpu_percent,
            &mut fields.gpu_percent,
            &mut fields.cpu_temperature_celsius,
            &mut fields.gpu_temperature_celsius,
        ] {
            // A reading of -0.0 becomes 0.0, because strict JSON carries no negative zero.
            *value = value.map(|value| value + 0.0);
        }
        ensure(fields.purpose == Purpose::Heartbeat, "purpose", "heartbeat")?;
        ensure(fields.new_hostname.as_ref() != Some(&fields.hostname), "newHostname", "another name than hostname")?;
        ensure(fields.uptime_seconds <= UPTIME_MAX, "uptimeSeconds", "at most 100 years")?;
        ensure(fields.load_average.is_none_or(|load| (0.0..=LOAD_MAX).contains(&load)), "loadAverage", "0 to 1000000")?;
        let total = fields.memory_total_bytes;
        ensure((1..=MEMORY_BYTES_MAX).contains(&total), "memoryTotalBytes", "1 to 2^50")?;
        ensure(fields.memory_available_bytes <= total, "memoryAvailableBytes", "at most the total")?;
        match (fields.storage_total_bytes, fields.storage_available_bytes) {
            (None, None) => {}
            (Some(total), Some(available)) => {
                ensure((1..=DISK_BYTES_MAX).contains(&total), "storageTotalBytes", "1 to 2^53")?;
                ensure(available <= total, "storageAvailableBytes", "at most the total")?;
            }
            (None, Some(_)) => ensure(false, "storageTotalBytes", "total and available, or neither")?,
            (Some(_), None) => ensure(false, "storageAvailableBytes", "total and available, or neither")?,
        }
        ensure(percent(fields.cpu_percent), "cpuPercent", "0 to 100")?;
        ensure(percent(fields.gpu_percent), "gpuPercent", "0 to 100")?;
        ensure(celsius(fields.cpu_temperature_celsius), "cpuTemperatureCelsius", "between -40 and 150")?;
        ensure(celsius(fields.gpu_temperature_celsius), "gpuTemperatureCelsius", "between -40 and 150")?;
        let former = &fields.former_starts;
        ensure(former.len() <= FORMER_STARTS_MAX, "formerStarts", "at most 8")?;
        let once = |at: usize, id: &StartId| former.iter().skip(at + 1).all(|other| other != id);
        ensure(former.iter().enumerate().all(|(at, id)| once(at, id)), "formerStarts", "each once")?;
        match &fields.start_id {
            Some(start) => ensure(!former.contains(start), "formerStarts", "without startId")?,
            None => {
                ensure(former.is_empty(), "formerStarts", "with startId only")?;
                ensure(fields.chain.is_none(), "chain", "with startId only")?;
            }
        }
        if let Some(runtime) = &fields.runtime {
            ensure(runtime.gpus.len() <= GPUS_MAX, "runtime.gpus", "at most 16")?;
            let memory = |gpu: &Gpu| gpu.memory_bytes <= MEMORY_BYTES_MAX;
            ensure(runtime.gpus.iter().all(memory), "runtime.gpus.memoryBytes", "at most 2^50")?;
        }
        if let Some(orders) = &fields.orders {
            let outcomes = &orders.outcomes;
            ensure(outcomes.len() <= OUTCOMES_MAX, "orders.outcomes", "at most 8")?;
            let once =
                |at: usize, one: &NodeOutcome| outcomes.iter().skip(at + 1).all(|other| other.intent != one.intent);
            ensure(outcomes.iter().enumerate().all(|(at, one)| once(at, one)), "orders.outcomes", "each intent once")?;
        }
        if let Some(updates) = &fields.updates {
            let packages = u32::try_from(updates.packages.len()).unwrap_or(u32::MAX);
            ensure(updates.count <= UPDATE_COUNT_MAX, "updates.count", "at most 100000")?;
            ensure(updates.security_count <= updates.count, "updates.securityCount", "at most the count")?;
            ensure(updates.packages.len() <= UPDATE_PACKAGES_MAX, "updates.packages", "at most 50")?;
            ensure(packages <= updates.count, "updates.packages", "at most the count")?;
        }
        Ok(Self(fields))
    }
}

fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), OutOfBounds> {
    if holds { Ok(()) } else { Err(OutOfBounds { field, rule }) }
}

/// In bounds, or absent; what is not a number is out of every range.
fn percent(value: Option<f64>) -> bool {
    value.is_none_or(|value| (0.0..=100.0).contains(&value))
}

fn celsius(value: Option<f64>) -> bool {
    value.is_none_or(|value| value > -40.0 && value < 150.0)
}

impl Deref for Heartbeat {
    type Target = HeartbeatFields;
    fn deref(&self) -> &HeartbeatFields {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Heartbeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(HeartbeatFields::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Report for Heartbeat {
    const PURPOSES: &'static [Purpose] = &[Purpose::Heartbeat];
    fn node_id(&self) -> &NodeId {
        &self.0.node_id
    }
    fn purpose(&self) -> Purpose {
        self.0.purpose
    }
}

#[cfg(test)]
mod tests;

//! The list: machines that wait for a decision first, then nodes.

use std::time::Duration;

use askama::Template;
use lucia_proto::heartbeat::DirectoryState;
use lucia_proto::host_api::{DeviceView, NodeLine, OnboardingView, Sample, SnapshotState};
use lucia_proto::inventory::HardwareInventory;
use lucia_proto::phase::DevicePhase;
use lucia_proto::text::shown;
use lucia_proto::time::UnixTime;
use serde::Serialize;

use super::Frame;
use super::words::{NOTHING, ago, bytes, left, one, taken};

/// A certificate that ends sooner than this wants a look: a node renews it with six days left.
const CERTIFICATE_LOW: Duration = Duration::from_secs(3 * 24 * 3600);
/// Storage and memory that are taken to this percent want a look.
const NEARLY_FULL: u64 = 90;
/// A processor of this many degrees wants a look.
const HOT: f64 = 85.0;
const DAY: u64 = 24 * 3600;

/// The document.
#[derive(Template)]
#[template(path = "servers.html")]
pub(crate) struct Servers {
    frame: Frame,
    /// Until when machines may introduce themselves; nothing while the window is closed.
    window: Option<String>,
    /// What is wrong with the worker.
    worker: Option<String>,
    pending: Vec<Pending>,
    nodes: Vec<Row>,
    /// Nodes that want a look.
    looks: usize,
}

/// A machine that is no node yet.
struct Pending {
    id: String,
    code: String,
    fingerprint: String,
    machine: String,
    address: String,
    phase: String,
    hostname: Option<String>,
    message: Option<String>,
    next: String,
    /// Somebody may approve it now.
    waits: bool,
}

/// A node in the list.
struct Row {
    id: String,
    hostname: String,
    cells: Cells,
}

/// What of a node changes while somebody looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cells {
    /// How it looks from here.
    pub(crate) state: String,
    /// Load average over a minute.
    pub(crate) load: String,
    /// Memory taken.
    pub(crate) memory: String,
    /// Storage taken.
    pub(crate) storage: String,
    /// Temperature of the processor.
    pub(crate) temperature: String,
    /// What is left of its certificate.
    pub(crate) certificate: String,
    /// What wants a look; empty when nothing does.
    pub(crate) look: String,
}

/// What of a node changes, in words.
pub(crate) fn cells(line: &NodeLine, sample: Option<&Sample>, now: UnixTime) -> Cells {
    let percent = |share: Option<u64>| share.map_or_else(|| NOTHING.to_owned(), |share| format!("{share} %"));
    let storage = |sample: &Sample| taken(sample.storage_total_bytes?, sample.storage_available_bytes?);
    Cells {
        state: match line.state {
            _ if line.frozen => "Frozen",
            SnapshotState::AwaitingHeartbeat => "Awaits its first heartbeat",
            SnapshotState::Online => "Online",
            SnapshotState::Stale => "Not heard",
        }
        .to_owned(),
        load: one(sample.and_then(|sample| sample.load_average), ""),
        memory: percent(sample.and_then(|sample| taken(sample.memory_total_bytes, sample.memory_available_bytes))),
        storage: percent(sample.and_then(storage)),
        temperature: one(sample.and_then(|sample| sample.cpu_temperature_celsius), " °C"),
        certificate: line.certificate_expires_at.map_or_else(|| NOTHING.to_owned(), |until| left_days(now, until)),
        look: looks(line, sample, now).join("; "),
    }
}

fn left_days(now: UnixTime, until: UnixTime) -> String {
    if until <= now { "lapsed".to_owned() } else { format!("{} days", until.since(now).as_secs() / DAY) }
}

/// What of a node wants a look, the most urgent first.
fn looks(line: &NodeLine, sample: Option<&Sample>, now: UnixTime) -> Vec<String> {
    let mut looks = Vec::new();
    if line.frozen {
        looks.push("its identity was seen twice: decide".to_owned());
    }
    if let (SnapshotState::Stale, Some(seen)) = (line.state, line.last_seen_at) {
        looks.push(format!("last heard {}", ago(now, seen)));
    }
    if let Some(until) = line.certificate_expires_at.filter(|until| until.since(now) < CERTIFICATE_LOW) {
        looks.push(if until <= now {
            "its certificate lapsed".to_owned()
        } else {
            format!("its certificate ends in {}", left(now, until))
        });
    }
    if let Some(name) = &line.new_hostname {
        looks.push(format!("it calls itself {name}: rename it"));
    }
    if line.directory == Some(DirectoryState::Failed) {
        looks.push("its directory failed".to_owned());
    }
    if let Some(sample) = sample {
        let full = |name: &str, share: Option<u64>| {
            share.filter(|share| *share >= NEARLY_FULL).map(|share| format!("{name} {share} % full"))
        };
        let storage = sample.storage_total_bytes.zip(sample.storage_available_bytes);
        looks.extend(full("storage", storage.and_then(|(total, available)| taken(total, available))));
        looks.extend(full("memory", taken(sample.memory_total_bytes, sample.memory_available_bytes)));
        looks.extend(
            sample.cpu_temperature_celsius.filter(|celsius| *celsius >= HOT).map(|celsius| format!("{celsius:.0} °C")),
        );
    }
    looks
}

/// A machine's hardware in one line.
pub(super) fn machine(inventory: &HardwareInventory) -> String {
    let texts = [&inventory.manufacturer, &inventory.model];
    let mut words: Vec<String> = texts.into_iter().flatten().map(|text| shown(text.as_str())).collect();
    words.push(format!("{} CPUs", inventory.logical_cpu_count));
    words.push(bytes(inventory.memory_bytes));
    words.join(", ")
}

/// What brings a machine further.
fn next(device: &DeviceView, now: UnixTime) -> String {
    match device.phase {
        DevicePhase::Discovered if device.expires_at <= now => {
            "Its discovery is over: open the window and start the installer on it again.".to_owned()
        }
        DevicePhase::Discovered => {
            format!("Compare the fingerprint at its console and approve it within {}.", left(now, device.expires_at))
        }
        DevicePhase::Approved => "The installer asks for its permission by itself.".to_owned(),
        DevicePhase::Installing => "The installer is at work.".to_owned(),
        DevicePhase::AwaitingEnrollment => {
            "It asks for its certificate; the worker issues it once an owner's admit order is signed, or somebody admits it \
             on the worker's host."
                .to_owned()
        }
        DevicePhase::Managed => "It is a node.".to_owned(),
        DevicePhase::Failed => "Start the installer on it again, or dismiss it.".to_owned(),
        DevicePhase::Rejected => "It was rejected; restore or dismiss it.".to_owned(),
    }
}

fn phase(phase: DevicePhase) -> &'static str {
    match phase {
        DevicePhase::Discovered => "Waits for a decision",
        DevicePhase::Approved => "Approved",
        DevicePhase::Installing => "Installing",
        DevicePhase::AwaitingEnrollment => "Awaits its certificate",
        DevicePhase::Managed => "Managed",
        DevicePhase::Failed => "Failed",
        DevicePhase::Rejected => "Rejected",
    }
}

impl Servers {
    /// The list of everything.
    pub(crate) fn new(frame: Frame, onboarding: &OnboardingView, nodes: &[(NodeLine, Option<Sample>)]) -> Self {
        let now = frame.now;
        let pending = onboarding.devices.iter().map(|device| Pending {
            id: device.device_id.to_string(),
            code: device.verification_code.to_string(),
            fingerprint: device.fingerprint.to_string(),
            machine: machine(&device.inventory),
            address: device.address.map_or_else(|| NOTHING.to_owned(), |address| address.to_string()),
            phase: phase(device.phase).to_owned(),
            hostname: device.task.as_ref().map(|task| task.hostname.to_string()),
            message: device.message.as_ref().map(|message| shown(message.as_str())),
            next: next(device, now),
            waits: device.phase == DevicePhase::Discovered && device.expires_at > now,
        });
        let rows: Vec<Row> = nodes
            .iter()
            .map(|(line, sample)| Row {
                id: line.node_id.to_string(),
                hostname: line.hostname.to_string(),
                cells: cells(line, sample.as_ref(), now),
            })
            .collect();
        Self {
            window: onboarding.window_expires_at.map(|until| left(now, until)),
            worker: worker(onboarding),
            pending: pending.collect(),
            looks: rows.iter().filter(|row| !row.cells.look.is_empty()).count(),
            nodes: rows,
            frame,
        }
    }
}

/// What is wrong with the enrollment worker.
fn worker(view: &OnboardingView) -> Option<String> {
    let said = view.worker.message.as_ref().map(|message| shown(message.as_str()));
    (!view.worker.ready).then(|| said.unwrap_or_else(|| "it was not heard from for 45 seconds".to_owned()))
}

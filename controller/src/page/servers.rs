//! The list: machines that wait for a decision first, then nodes.

use askama::Template;
use lucia_people::host_api::{DeviceView, NodeLine, OnboardingView, Sample};
use lucia_people::why::{Known, Next, Why, taken};
use lucia_proto::base::text::{bytes, counted, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::inventory::{BootMode, HardwareInventory};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;
use serde::Serialize;

use super::chart::spark;
use super::words::{NOTHING, ago, left, one, print_rows};
use super::{Frame, Tone};
use crate::parts::ServerRow;

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
    nodes: Vec<NodeRow>,
    /// Nodes that want a look.
    looks: usize,
}

/// A machine that is no node yet.
struct Pending {
    id: String,
    code: String,
    print: Vec<[String; 2]>,
    machine: String,
    address: String,
    announced: String,
    phase: &'static str,
    tone: Tone,
    hostname: Option<String>,
    message: Option<String>,
    next: String,
    acts: Acts,
}

/// A node in the list.
struct NodeRow {
    id: String,
    cells: Cells,
}

/// What of a node changes while somebody looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cells {
    /// Its name; while it is renamed, both.
    pub(crate) name: String,
    /// How it looks from here.
    pub(crate) state: String,
    /// How that is.
    pub(crate) tone: Tone,
    /// Its numbers are as old as its last heartbeat.
    pub(crate) silent: bool,
    /// Load average over a minute.
    pub(crate) load: String,
    /// The last hour of it, as the path of a drawing.
    pub(crate) spark: String,
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
pub(crate) fn cells(row: &ServerRow, now: UnixTime) -> Cells {
    let ServerRow { line, sample, loads, .. } = row;
    let sample = sample.as_ref();
    let percent = |share: Option<u64>| share.map_or_else(|| NOTHING.to_owned(), |share| format!("{share} %"));
    let storage = |sample: &Sample| taken(sample.storage_total_bytes?, sample.storage_available_bytes?);
    let (state, tone) = state(line);
    Cells {
        name: line.names(),
        state: state.to_owned(),
        tone,
        silent: line.state != SnapshotState::Online,
        load: one(sample.and_then(|sample| sample.load_average), ""),
        spark: spark(loads),
        memory: percent(sample.and_then(|sample| taken(sample.memory_total_bytes, sample.memory_available_bytes))),
        storage: percent(sample.and_then(storage)),
        temperature: one(sample.and_then(|sample| sample.cpu_temperature_celsius), " °C"),
        certificate: line.certificate_expires_at.map_or_else(|| NOTHING.to_owned(), |until| left_days(now, until)),
        look: looks(row, now).join("; "),
    }
}

/// How a node looks from here, in a word.
pub(super) const fn state(line: &NodeLine) -> (&'static str, Tone) {
    if line.frozen {
        return ("Frozen", Tone::Bad);
    }
    match line.state {
        SnapshotState::AwaitingHeartbeat => ("Awaits its first heartbeat", Tone::Wait),
        SnapshotState::Online => ("Online", Tone::Ok),
        SnapshotState::Stale => ("Not heard", Tone::Bad),
        SnapshotState::Barred => ("Removed, its key is barred", Tone::Bad),
    }
}

fn left_days(now: UnixTime, until: UnixTime) -> String {
    if until <= now { "lapsed".to_owned() } else { format!("{} days", until.since(now).as_secs() / DAY) }
}

/// What of a node wants a look, the most urgent first: what `luciactl why` and its own document say of it in sentences.
fn looks(row: &ServerRow, now: UnixTime) -> Vec<String> {
    let ServerRow { line: node, sample, directory, orders, refused, .. } = row;
    let known = Known { node, directory: directory.as_ref(), sample: sample.as_ref(), orders: orders.as_ref() };
    Why::judged(&known, refused.clone(), now).looks()
}

/// A machine's hardware in one line.
pub(super) fn machine(inventory: &HardwareInventory) -> String {
    let texts = [&inventory.manufacturer, &inventory.model];
    let mut words: Vec<String> = texts.into_iter().flatten().map(|text| shown(text.as_str())).collect();
    let cpu = inventory.cpu_model.as_ref().map(|text| format!(" ({})", shown(text.as_str()))).unwrap_or_default();
    words.push(format!("{}{cpu}", counted(u64::from(inventory.logical_cpu_count), "CPU")));
    words.push(format!("{} memory", bytes(inventory.memory_bytes)));
    words.push(counted(u64::try_from(inventory.disks.len()).unwrap_or(u64::MAX), "disk"));
    words.join(", ")
}

pub(super) const fn phase(phase: DevicePhase) -> (&'static str, Tone) {
    match phase {
        DevicePhase::Discovered => ("Waits for a decision", Tone::Wait),
        DevicePhase::Approved => ("Approved", Tone::Wait),
        DevicePhase::Installing => ("Installing", Tone::Wait),
        DevicePhase::AwaitingEnrollment => ("Awaits its certificate", Tone::Wait),
        DevicePhase::Managed => ("Managed", Tone::Ok),
        DevicePhase::Failed => ("Failed", Tone::Bad),
        DevicePhase::Rejected => ("Rejected", Tone::Calm),
    }
}

/// What may be decided about a machine that is no node yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acts {
    /// Approve or reject it.
    pub(super) decide: bool,
    /// Put it back on the list.
    pub(super) restore: bool,
    /// Take it off the list.
    pub(super) dismiss: bool,
}

impl Acts {
    pub(super) fn of(device: &DeviceView, now: UnixTime) -> Self {
        let over = device.expires_at <= now;
        let discovered = device.phase == DevicePhase::Discovered;
        let rejected = device.phase == DevicePhase::Rejected;
        Self {
            decide: discovered && !over && !device.barred,
            restore: rejected,
            dismiss: discovered || rejected || device.phase == DevicePhase::Failed,
        }
    }
}

/// How a machine made itself known, in words.
pub(super) fn announced(device: &DeviceView, now: UnixTime) -> String {
    let inventory = &device.inventory;
    let boot = match inventory.boot_mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "BIOS",
    };
    let secure = match inventory.secure_boot {
        Some(true) => ", secure boot on",
        Some(false) => ", secure boot off",
        None => "",
    };
    let since = ago(now, device.discovered_at);
    let changed = match device.inventory_revision {
        0 | 1 => String::new(),
        revision => format!("; its hardware changed since, revision {revision}"),
    };
    format!("{since}, started by {boot}{secure}, {}{changed}", shown(inventory.architecture.as_str()))
}

impl Servers {
    /// The list of everything.
    pub(crate) fn new(frame: Frame, onboarding: &OnboardingView, nodes: &[ServerRow]) -> Self {
        let now = frame.now;
        let pending = onboarding.devices.iter().map(|device| {
            let (phase, tone) = phase(device.phase);
            Pending {
                id: device.device_id.to_string(),
                code: device.verification_code.to_string(),
                print: print_rows(&device.fingerprint),
                machine: machine(&device.inventory),
                address: device.address.map_or_else(|| NOTHING.to_owned(), |address| address.to_string()),
                announced: announced(device, now),
                phase,
                tone,
                hostname: device.task.as_ref().map(|task| task.hostname.to_string()),
                message: device.message.as_ref().map(|message| shown(message.as_str())),
                next: Next::of(device, now).sentence(),
                acts: Acts::of(device, now),
            }
        });
        let rows: Vec<NodeRow> =
            nodes.iter().map(|row| NodeRow { id: row.line.node_id.to_string(), cells: cells(row, now) }).collect();
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

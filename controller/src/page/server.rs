//! One machine: a node with its last hour, or a device with the form that approves it.

use askama::Template;
use lucia_proto::digest::Digest;
use lucia_proto::host_api::{DeviceView, ERASE, EventLine, NodeView};
use lucia_proto::journal::Holder;
use lucia_proto::owner::OwnerId;
use lucia_proto::phase::DevicePhase;
use lucia_proto::text::shown;
use lucia_proto::time::UnixTime;

use super::Frame;
use super::chart::{Chart, charts};
use super::servers::{Cells, cells, machine};
use super::words::{NOTHING, ago, bytes, left, span};

/// What a draft names beside the machine: who orders, in which fleet. Nothing where the fleet has no roster.
#[derive(Clone, Debug)]
pub(crate) struct Drafting {
    /// The SHA-256 of the root.
    pub(crate) fleet: Digest,
    /// Who drafts.
    pub(crate) owner: OwnerId,
}

/// A node.
#[derive(Template)]
#[template(path = "server.html")]
pub(crate) struct Server {
    frame: Frame,
    id: String,
    hostname: String,
    fingerprint: String,
    code: String,
    cells: Cells,
    facts: Vec<(&'static str, String)>,
    charts: Vec<Chart>,
    holders: Vec<HolderRow>,
    frozen: bool,
    events: Vec<EventRow>,
    drafting: Option<Drafting>,
}

/// Somebody who speaks for the node.
struct HolderRow {
    start: Option<String>,
    boot: String,
    address: String,
    first: String,
    last: String,
}

/// One event.
pub(super) struct EventRow {
    pub(super) at: String,
    pub(super) ago: String,
    pub(super) kind: String,
    pub(super) actor: String,
    pub(super) device: Option<String>,
}

impl EventRow {
    pub(super) fn new(event: &EventLine, now: UnixTime) -> Self {
        Self {
            at: event.at.to_string(),
            ago: ago(now, event.at),
            kind: shown(event.kind.as_str()),
            actor: shown(event.actor.as_str()),
            device: event.device_id.as_ref().map(ToString::to_string),
        }
    }
}

impl HolderRow {
    fn new(holder: &Holder, now: UnixTime) -> Self {
        Self {
            start: holder.start_id.as_ref().map(ToString::to_string),
            boot: holder.boot_id.as_ref().map_or_else(|| NOTHING.to_owned(), ToString::to_string),
            address: holder.address.to_string(),
            first: ago(now, holder.first_seen_at),
            last: holder.last_seen_at.map_or_else(|| NOTHING.to_owned(), |at| ago(now, at)),
        }
    }
}

impl Server {
    /// The document of a node; `events` are the newest of it, newest first.
    pub(crate) fn new(frame: Frame, view: &NodeView, events: &[EventLine], drafting: Option<Drafting>) -> Self {
        let now = frame.now;
        let line = &view.node;
        let mut facts = vec![
            ("Address", line.address.map_or_else(|| NOTHING.to_owned(), |address| address.to_string())),
            ("Last heard", line.last_seen_at.map_or_else(|| "never".to_owned(), |at| ago(now, at))),
            ("System", view.os_version.as_ref().map_or_else(|| NOTHING.to_owned(), |text| shown(text.as_str()))),
            (
                "Up for",
                view.uptime_seconds
                    .map_or_else(|| NOTHING.to_owned(), |secs| span(std::time::Duration::from_secs(secs))),
            ),
            (
                "Certificate ends",
                line.certificate_expires_at
                    .map_or_else(|| NOTHING.to_owned(), |until| format!("{until}, {} left", left(now, until))),
            ),
            ("Installation", view.task_id.to_string()),
        ];
        if let Some(report) = &view.directory {
            let said = report.message.as_ref().map(|text| format!(": {}", shown(text.as_str()))).unwrap_or_default();
            facts.push(("Directory", format!("{:?}{said}", report.state)));
        }
        for gpu in &view.gpus {
            facts.push(("GPU", format!("{}, {}", shown(gpu.model.as_str()), bytes(gpu.memory_bytes))));
        }
        for rename in &view.renames {
            facts.push(("Renamed", format!("{} by {}", ago(now, rename.at), shown(rename.actor.as_str()))));
        }
        let frozen = view.frozen.as_ref();
        let holders = match frozen {
            Some(frozen) => frozen.holders.iter().map(|holder| HolderRow::new(holder, now)).collect(),
            None => view.holder.iter().map(|holder| HolderRow::new(holder, now)).collect(),
        };
        Self {
            id: line.node_id.to_string(),
            hostname: line.hostname.to_string(),
            fingerprint: view.fingerprint.to_string(),
            code: line.verification_code.to_string(),
            cells: cells(line, view.samples.last(), now),
            facts,
            charts: charts(&view.samples, now),
            holders,
            frozen: frozen.is_some(),
            events: events.iter().map(|event| EventRow::new(event, now)).collect(),
            drafting,
            frame,
        }
    }
}

/// A device, and the form that approves it.
#[derive(Template)]
#[template(path = "approve.html")]
pub(crate) struct Approve {
    frame: Frame,
    id: String,
    code: String,
    /// The fingerprint in groups of four digits, as it is read aloud.
    groups: Vec<String>,
    fingerprint: String,
    machine: String,
    address: String,
    serial: String,
    interfaces: Vec<String>,
    disks: Vec<DiskRow>,
    waits: bool,
    next: String,
    erase: &'static str,
    drafting: Option<Drafting>,
}

/// A disk of a device.
struct DiskRow {
    id: String,
    words: String,
    /// It may be erased.
    fits: bool,
}

impl Approve {
    /// The document of a device.
    pub(crate) fn new(frame: Frame, device: &DeviceView, drafting: Option<Drafting>) -> Self {
        let now = frame.now;
        let inventory = &device.inventory;
        let fingerprint = device.fingerprint.to_string();
        let digits: Vec<char> = fingerprint.chars().collect();
        let disk = |disk: &lucia_proto::inventory::Disk| {
            let model = disk.model.as_ref().map(|model| shown(model.as_str())).unwrap_or_default();
            DiskRow {
                id: disk.id.to_string(),
                words: format!("{} {} {model}", disk.path, bytes(disk.size_bytes)).trim_end().to_owned(),
                fits: !disk.is_removable && !disk.is_read_only && disk.size_bytes > 0,
            }
        };
        Self {
            id: device.device_id.to_string(),
            code: device.verification_code.to_string(),
            groups: digits.chunks(4).map(|group| group.iter().collect()).collect(),
            fingerprint,
            machine: machine(inventory),
            address: device.address.map_or_else(|| NOTHING.to_owned(), |address| address.to_string()),
            serial: inventory.serial_number.as_ref().map_or_else(|| NOTHING.to_owned(), |text| shown(text.as_str())),
            interfaces: inventory
                .interfaces
                .iter()
                .map(|interface| format!("{} {}", interface.name, interface.mac_address))
                .collect(),
            disks: inventory.disks.iter().map(disk).collect(),
            waits: device.phase == DevicePhase::Discovered && device.expires_at > now,
            next: format!("{} left", left(now, device.expires_at)),
            erase: ERASE,
            drafting,
            frame,
        }
    }
}

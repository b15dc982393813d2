//! A machine that is no node yet: what it is, the fingerprint to compare, and what may be decided about it.

use askama::Template;
use lucia_people::host_api::{DeviceView, ERASE};
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_people::why::Next;
use lucia_proto::base::text::{bytes, shown};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::{Admit, Body};

use super::server::OrderButton;
use super::servers::{Acts, announced, machine, phase};
use super::words::{NOTHING, left, print_rows};
use super::{Frame, Tone};

/// What stands for the disk of an approval that erases none.
const NO_DISK: &str = "none: the machine joins as it runs";

/// The document.
#[derive(Template)]
#[template(path = "device.html")]
pub(crate) struct Device {
    frame: Frame,
    id: String,
    code: String,
    phase: &'static str,
    tone: Tone,
    /// The fingerprint as the machine's own screen has it.
    print: Vec<[String; 2]>,
    fingerprint: String,
    machine: String,
    address: String,
    serial: String,
    announced: String,
    interfaces: Vec<String>,
    disks: Vec<DiskRow>,
    message: Option<String>,
    acts: Acts,
    left: String,
    next: String,
    erase: &'static str,
    /// The worker refuses it a certificate.
    refused: bool,
    /// The order that admits it, once it is approved.
    admit: Option<OrderButton>,
    /// The one that was drafted already, and where it stands.
    admission: Option<Admission>,
    /// What was approved: the name, and the disk.
    task: Option<(String, String)>,
    /// It is an installed system, which joins as it runs.
    running: bool,
}

/// The order that admits a machine.
struct Admission {
    code: String,
    words: &'static str,
    sentence: String,
    tone: Tone,
    /// It is to be signed.
    waits: bool,
}

/// A disk of a device.
struct DiskRow {
    id: String,
    words: String,
    /// It may be erased.
    fits: bool,
}

impl Device {
    /// The document of a device; `admission` is the newest order about it of which something may become.
    pub(crate) fn new(frame: Frame, device: &DeviceView, admission: Option<&DraftLine>) -> Self {
        let now = frame.now;
        let inventory = &device.inventory;
        let disk = |disk: &lucia_proto::node::inventory::Disk| {
            let model = disk.model.as_ref().map(|model| shown(model.as_str())).unwrap_or_default();
            DiskRow {
                id: disk.id.to_string(),
                words: format!("{} {} {model}", disk.path, bytes(disk.size_bytes)).trim_end().to_owned(),
                fits: !disk.is_removable && !disk.is_read_only && disk.size_bytes > 0,
            }
        };
        let (phase, tone) = phase(device.phase);
        let next = Next::of(device, now);
        // What the worker refused for good no order brings further.
        let refused = matches!(next, Next::Refused(_));
        Self {
            id: device.device_id.to_string(),
            code: device.verification_code.to_string(),
            phase,
            tone,
            print: print_rows(&device.fingerprint),
            fingerprint: device.fingerprint.to_string(),
            machine: machine(inventory),
            address: device.address.map_or_else(|| NOTHING.to_owned(), |address| address.to_string()),
            serial: inventory.serial_number.as_ref().map_or_else(|| NOTHING.to_owned(), |text| shown(text.as_str())),
            announced: announced(device, now),
            interfaces: inventory
                .interfaces
                .iter()
                .map(|interface| format!("{} {}", interface.name, interface.mac_address))
                .collect(),
            disks: inventory.disks.iter().map(disk).collect(),
            message: device.message.as_ref().map(|message| shown(message.as_str())),
            acts: Acts::of(device, now),
            left: left(now, device.expires_at),
            next: admitted(device, admission).filter(|_| !refused).unwrap_or_else(|| next.sentence()),
            erase: ERASE,
            admit: admit(device).filter(|_| frame.drafting.is_some() && !refused),
            refused,
            admission: admission.map(|line| Admission {
                code: line.code.to_string(),
                words: line.state.words(),
                sentence: super::orders::sentence(line),
                tone: super::orders::tone(line.state),
                waits: line.state == DraftState::Drafted,
            }),
            task: device.task.as_ref().map(|task| {
                let disk = task.disk_id.as_ref().map_or_else(|| NO_DISK.to_owned(), ToString::to_string);
                (task.hostname.to_string(), disk)
            }),
            running: device.running,
            frame,
        }
    }
}

/// What brings a machine further that asks for its certificate, where an order admits it.
fn admitted(device: &DeviceView, admission: Option<&DraftLine>) -> Option<String> {
    let line = admission.filter(|_| device.phase == DevicePhase::AwaitingEnrollment)?;
    match line.state {
        DraftState::Drafted => Some(format!(
            "It asks for its certificate, and the worker issues it once its admission is signed: luciactl sign {}.",
            line.code
        )),
        DraftState::Signed => {
            Some("Its admission is signed and goes to the worker, which then issues its certificate.".to_owned())
        }
        DraftState::Done => Some(
            "It is admitted: the worker issues its certificate, and its first heartbeat makes it a node.".to_owned(),
        ),
        DraftState::Refused | DraftState::Replaced | DraftState::NobodyLeft | DraftState::Expired => None,
    }
}

/// The order that makes an approved machine a node: its key, under the name that was approved.
fn admit(device: &DeviceView) -> Option<OrderButton> {
    let waits =
        matches!(device.phase, DevicePhase::Approved | DevicePhase::Installing | DevicePhase::AwaitingEnrollment);
    let task = device.task.as_ref().filter(|_| waits)?;
    let body = Body::Admit(Admit {
        fingerprint: device.fingerprint,
        hostname: task.hostname.clone(),
        replaces: task.replaces.clone(),
    });
    let words = match &task.replaces {
        Some(old) => {
            format!("It makes this key the node {} in the place of {old}, whose key is barred for good.", task.hostname)
        }
        None => format!("It makes this key the node {}.", task.hostname),
    };
    OrderButton::new("Draft: admit it", &device.device_id, &body, words)
}

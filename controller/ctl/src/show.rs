//! Views in words: what is, and what to do next.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_people::host_api::{DeviceView, NodeLine, NodeView, NodesView, OnboardingView, Rename, Sample, StatusView};
use lucia_people::why::{Next, Renaming};
use lucia_people::words;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::DiskId;
use lucia_proto::base::text::{bytes, counted, shown, span};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::NewName;
use lucia_proto::node::heartbeat::DirectoryState;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::pki::key::Fingerprint;

mod audit;
mod clones;
mod keys;
mod live;
mod orders;
mod owners;
mod tokens;
mod why;

use crate::table::{Screen, Tone, paint, table};
pub(crate) use audit::{Happened, verified};
use clones::clones;
pub(crate) use clones::{keeping, splitting};
pub(crate) use keys::ordered;
use live::hour;
pub(crate) use live::live;
pub(crate) use orders::{Called, drafts, dropping, kept, released, waiting, waits};
pub(crate) use owners::{Who, approved, asked, context, contexts, forgotten, operator, owners, passkeys, sessions};
pub(crate) use tokens::{token_made, tokens};
pub(crate) use why::Why;

/// So many calls are refused in the days of any controller: a page whose session ended, a clock that was off.
const REFUSED_USUAL: u64 = 50;

/// `onboarding`.
pub(crate) fn onboarding(view: &OnboardingView, screen: Screen) -> String {
    let now = view.server_time;
    let mut out = String::new();
    match view.window_expires_at {
        Some(until) => line(&mut out, "window", &paint(&format!("open for {}", left(now, until)), Tone::Good, screen)),
        None => line(&mut out, "window", "closed"),
    }
    let worker = match (&view.worker.message, view.worker.ready) {
        (_, true) => paint("ready", Tone::Good, screen),
        (Some(message), false) => paint(&format!("not ready: {}", shown(message.as_str())), Tone::Bad, screen),
        (None, false) => paint("not ready", Tone::Bad, screen),
    };
    line(&mut out, "worker", &worker);
    if view.devices.is_empty() {
        out.push('\n');
        out.push_str(match view.window_expires_at {
            None => "No devices. Open the window (luciactl window open), then start the installer on a machine.\n",
            Some(_) => "No devices yet. Start the installer on a machine; it appears here when it has called.\n",
        });
    }
    for device in &view.devices {
        out.push('\n');
        self::device(&mut out, device, now, screen);
    }
    out
}

/// `node` and `why` of a machine that is no node yet.
pub(crate) fn no_node(device: &DeviceView, now: UnixTime, screen: Screen) -> String {
    let mut out = String::new();
    self::device(&mut out, device, now, screen);
    out.push_str("It is no node yet; luciactl onboarding shows it with every other.\n");
    out
}

fn device(out: &mut String, device: &DeviceView, now: UnixTime, screen: Screen) {
    let code = device.verification_code.as_str();
    let _ = writeln!(out, "{code}  {}", paint(&format!("{:?}", device.phase), tone(device.phase), screen));
    // Whole and on its own: this is what is compared with the machine's screen.
    compared(out, "fingerprint", &device.fingerprint);
    let inventory = &device.inventory;
    let texts = [&inventory.manufacturer, &inventory.model];
    let mut machine: Vec<String> = texts.into_iter().flatten().map(|text| shown(text.as_str())).collect();
    machine.push(counted(u64::from(inventory.logical_cpu_count), "CPU"));
    machine.push(bytes(inventory.memory_bytes));
    line(out, "machine", &machine.join(", "));
    if let Some(address) = device.address {
        line(out, "address", &address.to_string());
    }
    if let Some(task) = &device.task {
        line(out, "hostname", task.hostname.as_str());
        line(out, "disk", task.disk_id.as_ref().map_or("none: it joins as it runs", DiskId::as_str));
        if let Some(old) = &task.replaces {
            line(out, "replaces", &format!("{old}, which was removed with the approval"));
        }
    } else if device.running {
        line(out, "disk", "none is erased: it runs, and joins as it is");
    } else {
        for disk in &inventory.disks {
            let model = disk.model.as_ref().map(|model| shown(model.as_str())).unwrap_or_default();
            let fixed = match (disk.is_removable, disk.is_read_only) {
                (true, _) => " removable",
                (false, true) => " read-only",
                (false, false) => "",
            };
            let text = format!("{}  {} {} {model}{fixed}", disk.id, bytes(disk.size_bytes), disk.path);
            line(out, "disk", text.trim_end());
        }
    }
    if let Some(message) = &device.message {
        line(out, "says", &shown(message.as_str()));
    }
    line(out, "next", &next(device, now));
}

/// What brings a device further, with what is typed for it.
fn next(device: &DeviceView, now: UnixTime) -> String {
    let code = device.verification_code.as_str();
    match Next::of(device, now) {
        Next::Compare(left) => {
            let disks = device.inventory.disks.iter().find(|disk| !disk.is_removable && !disk.is_read_only);
            let disk = disks.map_or("DISK", |disk| disk.id.as_str());
            let disk = if device.running { String::new() } else { format!(" --disk {disk}") };
            format!(
                "compare both rows of the fingerprint with the machine's screen; if equal, within {}:\n{:15}luciactl approve \
                 {code} --hostname NAME{disk} --fingerprint HEX\n{:15}HEX is both rows of that screen, in quotes; \
                 without --fingerprint you are asked for them",
                span(left),
                "",
                ""
            )
        }
        Next::TakeName(hostname) => format!(
            "its name was another key's, so on the worker's host:\n{:15}lucia-enrollment-worker admit {code} --replaces \
             {hostname} --fingerprint {}",
            "", device.fingerprint
        ),
        Next::Failed => format!("start the installer on it again, or take it off the list: luciactl dismiss {code}"),
        Next::Rejected => format!("luciactl restore {code}, or luciactl dismiss {code}"),
        Next::Barred => format!("{}: luciactl reject {code}", Next::Barred),
        next @ (Next::Over
        | Next::Asks(_)
        | Next::Installs(_)
        | Next::Starts
        | Next::Answers
        | Next::Refused(_)
        | Next::Admit(_)
        | Next::Here(_)
        | Next::Nothing) => next.to_string(),
    }
}

/// What an approval with `--replaces` does to the node whose name it takes.
pub(crate) fn replacing(id: &NodeId, name: &str, node: Option<&NodeLine>, now: UnixTime) -> String {
    let mut out =
        format!("It takes the place of {name} ({id}), which is removed for good with this: its key is refused");
    out.push_str(match node.map(|node| node.state) {
        Some(SnapshotState::Online) => ", though it still runs",
        _ => "",
    });
    let last = node.and_then(|node| node.last_seen_at).map(|at| format!("last heard from {} ago", span(now.since(at))));
    let _ = write!(out, " ({}).", last.unwrap_or_else(|| "never heard from".to_owned()));
    out
}

const fn tone(phase: DevicePhase) -> Tone {
    match phase {
        DevicePhase::Discovered | DevicePhase::AwaitingEnrollment => Tone::Attention,
        DevicePhase::Approved | DevicePhase::Installing => Tone::Plain,
        DevicePhase::Managed => Tone::Good,
        DevicePhase::Failed | DevicePhase::Rejected => Tone::Bad,
    }
}

/// `nodes`.
pub(crate) fn nodes(view: &NodesView, screen: Screen) -> String {
    if view.nodes.is_empty() {
        return "No nodes yet. luciactl onboarding shows the devices that could become one.\n".to_owned();
    }
    let now = view.server_time;
    let rows: Vec<_> = view
        .nodes
        .iter()
        .map(|node| {
            let plain = |text: String| (text, Tone::Plain);
            vec![
                plain(node.names()),
                state(node),
                plain(
                    node.last_seen_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", span(now.since(at)))),
                ),
                plain(node.address.map_or_else(|| "-".to_owned(), |address| address.to_string())),
                certificate(node, now),
                plain(node.verification_code.as_str().to_owned()),
                plain(node.node_id.to_string()),
            ]
        })
        .collect();
    table(&["HOSTNAME", "STATE", "LAST SEEN", "ADDRESS", "CERTIFICATE", "CODE", "NODE"], &rows, screen)
}

/// A frozen node is first of all that; then whether its users can log in.
fn state(node: &NodeLine) -> (String, Tone) {
    if node.frozen {
        return (format!("{:?}, frozen", node.state), Tone::Bad);
    }
    match node.directory {
        Some(DirectoryState::Failed) => (format!("{:?}, directory failed", node.state), Tone::Bad),
        Some(DirectoryState::Waiting) => (format!("{:?}, directory waits", node.state), Tone::Attention),
        Some(DirectoryState::Ready) | None => (format!("{:?}", node.state), state_tone(node.state)),
    }
}

const fn state_tone(state: SnapshotState) -> Tone {
    match state {
        SnapshotState::AwaitingHeartbeat => Tone::Attention,
        SnapshotState::Online => Tone::Good,
        SnapshotState::Stale | SnapshotState::Barred => Tone::Bad,
    }
}

fn certificate(node: &NodeLine, now: UnixTime) -> (String, Tone) {
    match node.certificate_expires_at {
        None => ("none".to_owned(), Tone::Attention),
        Some(until) if until <= now => ("lapsed".to_owned(), Tone::Bad),
        Some(until) => (left(now, until), Tone::Plain),
    }
}

/// `node`.
pub(crate) fn node(view: &NodeView, screen: Screen) -> String {
    let mut out = head(view, screen);
    let samples = &view.samples;
    if samples.is_empty() {
        out.push_str("No samples of the last hour.\n");
        return out;
    }
    out.push_str(&hour(view, screen));
    out.push('\n');
    // Most nodes have no GPU, and a line is only so wide.
    let gpu = samples.iter().any(|sample| sample.gpu_percent.is_some() || sample.gpu_temperature_celsius.is_some());
    let mut heads = vec!["AT", "LOAD", "CPU", "TEMPERATURE"];
    if gpu {
        heads.extend(["GPU", "GPU TEMP"]);
    }
    heads.extend(["MEMORY FREE", "STORAGE FREE"]);
    let rows: Vec<_> = samples.iter().map(|one| sample(one, gpu)).collect();
    out.push_str(&table(&heads, &rows, screen));
    out
}

/// Who it is and how it stands, without its last hour.
fn head(view: &NodeView, screen: Screen) -> String {
    let now = view.server_time;
    let mut out = String::new();
    let NodeView { node, fingerprint, task_id, os_version, uptime_seconds, directory, .. } = view;
    let (text, tone) = state(node);
    let _ = writeln!(out, "{}  {}", node.hostname, paint(&text, tone, screen));
    renaming(&mut out, node);
    for Rename { at, actor, names } in &view.renames {
        let NewName { from, to } = names;
        line(&mut out, "renamed", &format!("{at}, from {from} to {to}, by {}", words::actor(actor.as_str())));
    }
    line(&mut out, "node", node.node_id.as_str());
    compared(&mut out, "fingerprint", fingerprint);
    line(&mut out, "task", &format!("{task_id}, its installation"));
    if let Some(address) = node.address {
        line(&mut out, "address", &address.to_string());
    }
    match node.last_seen_at {
        Some(at) => line(&mut out, "last seen", &format!("{at}, {} ago", span(now.since(at)))),
        None => line(&mut out, "last seen", "never: its first heartbeat is still to come"),
    }
    let (text, tone) = certificate(node, now);
    let until = node.certificate_expires_at.map(|until| format!(", until {until}")).unwrap_or_default();
    line(&mut out, "certificate", &format!("{}{until}", paint(&text, tone, screen)));
    if let Some(version) = os_version {
        line(&mut out, "system", &shown(version.as_str()));
    }
    if let Some(seconds) = uptime_seconds {
        line(&mut out, "up", &span(Duration::from_secs(*seconds)));
    }
    if let Some(report) = directory {
        let (text, tone) = match report.state {
            DirectoryState::Ready => ("ready", Tone::Good),
            DirectoryState::Waiting => ("waiting", Tone::Attention),
            DirectoryState::Failed => ("failed", Tone::Bad),
        };
        let why = report.message.as_ref().map(|why| format!(": {}", shown(why.as_str()))).unwrap_or_default();
        line(&mut out, "directory", &format!("{}{why}", paint(text, tone, screen)));
    }
    for gpu in &view.gpus {
        let (model, uuid) = (shown(gpu.model.as_str()), gpu.uuid.as_str());
        line(&mut out, "gpu", &format!("{model}, {}, {uuid}", bytes(gpu.memory_bytes)));
    }
    clones(&mut out, view);
    out.push('\n');
    out
}

/// What stands between a node and its other name.
fn renaming(out: &mut String, node: &NodeLine) {
    let now = &node.hostname;
    if let Some(renaming) = Renaming::of(node) {
        line(out, "old name", &format!("{}; {renaming}", renaming.from));
    } else if let Some(new) = &node.new_hostname {
        line(out, "new name", &format!("{new}, as the machine says; if that was meant: luciactl rename {now} {new}"));
    }
}

fn sample(sample: &Sample, gpu: bool) -> Vec<(String, Tone)> {
    let number = |value: Option<f64>, unit: &str| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}{unit}"));
    let free = |available: u64, total: u64| format!("{} of {}", bytes(available), bytes(total));
    let storage = match (sample.storage_available_bytes, sample.storage_total_bytes) {
        (Some(available), Some(total)) => free(available, total),
        (_, _) => "-".to_owned(),
    };
    let mut cells = vec![
        sample.at.to_string(),
        number(sample.load_average, ""),
        number(sample.cpu_percent, " %"),
        number(sample.cpu_temperature_celsius, " °C"),
    ];
    if gpu {
        cells.extend([number(sample.gpu_percent, " %"), number(sample.gpu_temperature_celsius, " °C")]);
    }
    cells.extend([free(sample.memory_available_bytes, sample.memory_total_bytes), storage]);
    cells.into_iter().map(|cell| (cell, Tone::Plain)).collect()
}

/// `status`.
pub(crate) fn status(view: &StatusView, wide: bool) -> String {
    let mut out = String::new();
    line(&mut out, "version", &shown(&view.version));
    line(&mut out, "started", &view.started_at.to_string());
    match view.certificate_expires_at {
        Some(until) => line(&mut out, "certificate", &format!("until {until}")),
        None => line(&mut out, "certificate", "none yet: the enrollment worker signs it; is the worker running?"),
    }
    line(&mut out, "worker", if view.worker_available { "ready" } else { "not ready" });
    line(&mut out, "audit", &format!("{} on its disk; nothing deletes it", bytes(view.audit_bytes)));
    line(&mut out, "heartbeats", &format!("{} taken since the start", view.counters.heartbeats));
    let refused: u64 = view.counters.refusals.values().fold(0, |all, one| all.saturating_add(*one));
    if refused > 0 {
        let usual = if refused <= REFUSED_USUAL { ", which is nothing unusual" } else { "" };
        line(&mut out, "turned away", &format!("{} since the start{usual}", counted(refused, "call")));
    }
    // A handful says nothing to anybody who does not look for it.
    if wide || refused > REFUSED_USUAL {
        for (refusal, count) in &view.counters.refusals {
            let code = if wide { format!(" ({})", refusal.as_str()) } else { String::new() };
            line(&mut out, "", &format!("{}: {}{code}", counted(*count, "call"), words::call_refused(*refusal)));
        }
    }
    // How much it computed says something to whoever measures, and nothing to anybody else.
    if wide {
        line(&mut out, "signatures", &format!("{} checked since the start", view.counters.public_key_operations));
    }
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<11}  {value}");
}

/// A fingerprint as it is to be compared by eye, in two rows.
pub(crate) fn compared(out: &mut String, name: &str, key: &Fingerprint) {
    let [first, second] = key.rows();
    line(out, name, &first);
    line(out, "", &second);
}

fn left(now: UnixTime, until: UnixTime) -> String {
    span(until.since(now))
}

//! Views in words: what is, and what to do next.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_proto::host_api::{
    DeviceView, EventLine, NodeLine, NodeView, NodesView, OnboardingView, Sample, SnapshotState, StatusView,
};
use lucia_proto::phase::DevicePhase;
use lucia_proto::text::shown;
use lucia_proto::time::UnixTime;

mod clones;
mod keys;

use crate::table::{Screen, Tone, paint, table};
use clones::clones;
pub(crate) use clones::{keeping, splitting};
pub(crate) use keys::keys;

/// An enrollment request that waits longer than this waits for a person.
const WORKER_PATIENCE: Duration = Duration::from_secs(10);

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

fn device(out: &mut String, device: &DeviceView, now: UnixTime, screen: Screen) {
    let code = device.verification_code.as_str();
    let _ = writeln!(out, "{code}  {}", paint(&format!("{:?}", device.phase), tone(device.phase), screen));
    // Whole and on its own: this is what is compared with the machine's screen.
    line(out, "fingerprint", &device.fingerprint.to_string());
    let inventory = &device.inventory;
    let texts = [&inventory.manufacturer, &inventory.model];
    let mut machine: Vec<String> = texts.into_iter().flatten().map(|text| shown(text.as_str())).collect();
    machine.push(format!("{} CPUs", inventory.logical_cpu_count));
    machine.push(bytes(inventory.memory_bytes));
    line(out, "machine", &machine.join(", "));
    if let Some(address) = device.address {
        line(out, "address", &address.to_string());
    }
    if let Some(task) = &device.task {
        line(out, "hostname", task.hostname.as_str());
        line(out, "disk", task.disk_id.as_str());
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

/// What brings a device further.
fn next(device: &DeviceView, now: UnixTime) -> String {
    let code = device.verification_code.as_str();
    match (device.phase, &device.task) {
        (DevicePhase::Discovered, _) if device.expires_at <= now => {
            "its discovery is over: open the window and start the installer on it again".to_owned()
        }
        (DevicePhase::Discovered, _) => {
            let disks = device.inventory.disks.iter().find(|disk| !disk.is_removable && !disk.is_read_only);
            let disk = disks.map_or("DISK", |disk| disk.id.as_str());
            format!(
                "compare the fingerprint with the machine's screen; if equal, within {}:\n{:15}luciactl approve {code} \
                 --hostname NAME --disk {disk} --fingerprint {}",
                left(now, device.expires_at),
                "",
                device.fingerprint
            )
        }
        (DevicePhase::Approved, Some(task)) => {
            format!("the installer asks for its permission within {}", left(now, task.authority_expires_at))
        }
        (DevicePhase::Approved | DevicePhase::Installing, _) => "the installer goes on by itself".to_owned(),
        (DevicePhase::AwaitingEnrollment, task) => {
            let since = task.as_ref().and_then(|task| task.enrollment_pending_since);
            match since.map(|since| now.since(since)) {
                Some(waited) if waited > WORKER_PATIENCE => format!(
                    "the enrollment worker has not answered for {}: run `lucia-enrollment-worker pending` on its host",
                    span(waited)
                ),
                Some(_) => "the enrollment worker answers within seconds".to_owned(),
                None => "the machine starts its new system and asks for its certificate".to_owned(),
            }
        }
        (DevicePhase::Managed, _) => "nothing: it is a node".to_owned(),
        (DevicePhase::Failed, _) => {
            format!("start the installer on it again, or take it off the list: luciactl dismiss {code}")
        }
        (DevicePhase::Rejected, _) => format!("luciactl restore {code}, or luciactl dismiss {code}"),
    }
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
                plain(node.hostname.to_string()),
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

/// A frozen node is first of all that.
fn state(node: &NodeLine) -> (String, Tone) {
    if node.frozen {
        return (format!("{:?}, frozen", node.state), Tone::Bad);
    }
    (format!("{:?}", node.state), state_tone(node.state))
}

const fn state_tone(state: SnapshotState) -> Tone {
    match state {
        SnapshotState::AwaitingHeartbeat => Tone::Attention,
        SnapshotState::Online => Tone::Good,
        SnapshotState::Stale => Tone::Bad,
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
    let now = view.server_time;
    let mut out = String::new();
    let NodeView { node, fingerprint, task_id, os_version, uptime_seconds, samples, .. } = view;
    let (text, tone) = state(node);
    let _ = writeln!(out, "{}  {}", node.hostname, paint(&text, tone, screen));
    line(&mut out, "node", node.node_id.as_str());
    line(&mut out, "fingerprint", &fingerprint.to_string());
    line(&mut out, "task", task_id.as_str());
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
    clones(&mut out, view);
    out.push('\n');
    if samples.is_empty() {
        out.push_str("No samples of the last hour.\n");
        return out;
    }
    let rows: Vec<_> = samples.iter().map(sample).collect();
    out.push_str(&table(&["AT", "LOAD", "CPU", "TEMPERATURE", "MEMORY FREE", "STORAGE FREE"], &rows, screen));
    out
}

fn sample(sample: &Sample) -> Vec<(String, Tone)> {
    let number = |value: Option<f64>, unit: &str| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}{unit}"));
    let free = |available: u64, total: u64| format!("{} of {}", bytes(available), bytes(total));
    let storage = match (sample.storage_available_bytes, sample.storage_total_bytes) {
        (Some(available), Some(total)) => free(available, total),
        (_, _) => "-".to_owned(),
    };
    let cells = [
        sample.at.to_string(),
        number(sample.load_average, ""),
        number(sample.cpu_percent, " %"),
        number(sample.cpu_temperature_celsius, " °C"),
        free(sample.memory_available_bytes, sample.memory_total_bytes),
        storage,
    ];
    cells.into_iter().map(|cell| (cell, Tone::Plain)).collect()
}

/// One event, and under it who held the identity, where it is about that.
pub(crate) fn event(event: &EventLine) -> String {
    let device = event.device_id.as_ref().map(|id| format!("  {id}")).unwrap_or_default();
    let mut out = format!(
        "{:>6}  {}  {}  {}{device}",
        event.sequence,
        event.at,
        shown(event.kind.as_str()),
        shown(event.actor.as_str())
    );
    for who in &event.holders {
        let _ = write!(out, "\n        {}", clones::holder(who));
    }
    out
}

/// `status`.
pub(crate) fn status(view: &StatusView) -> String {
    let mut out = String::new();
    line(&mut out, "version", &shown(&view.version));
    line(&mut out, "started", &view.started_at.to_string());
    match view.certificate_expires_at {
        Some(until) => line(&mut out, "certificate", &format!("until {until}")),
        None => line(&mut out, "certificate", "none yet: the enrollment worker signs it; is the worker running?"),
    }
    line(&mut out, "worker", if view.worker_available { "ready" } else { "not ready" });
    line(&mut out, "heartbeats", &view.counters.heartbeats.to_string());
    line(&mut out, "key checks", &view.counters.public_key_operations.to_string());
    for (code, count) in &view.counters.refusals {
        line(&mut out, "refused", &format!("{} {count}", code.as_str()));
    }
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<11}  {value}");
}

fn left(now: UnixTime, until: UnixTime) -> String {
    span(until.since(now))
}

/// A span in its two largest units.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A size in the unit people read it in.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = UNITS[0];
    let mut tenths = u128::from(bytes) * 10;
    for next in &UNITS[1..] {
        if tenths < 10 * 1024 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    if unit == UNITS[0] { format!("{bytes} B") } else { format!("{}.{} {unit}", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_said_in_units_people_use() {
        for (seconds, want) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3660, "1 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), want);
        }
        for (size, want) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (8 << 30, "8.0 GiB"), (1 << 53, "8192.0 TiB")]
        {
            assert_eq!(bytes(size), want);
        }
    }
}

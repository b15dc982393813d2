//! Metrics in Prometheus' text format, and whether the controller is ready: pure functions of what was counted.
//!
//! Names follow the convention: `lucia_controller_`, base units, `_total` on counters, which are since the start, as a
//! restored journal goes back and a counter must not. Labels hold words of closed enums
//! alone, so there are as many series on a full day as on an empty one: never a node, a name or an address.

use std::fmt::{Display, Write as _};

use lucia_proto::base::code::Code;
use lucia_proto::base::time::UnixTime;

use crate::parts::Readings;

/// All that is told.
pub(crate) struct MetricsInput<'a> {
    pub(crate) readings: &'a Readings,
    /// Refusals since the start, each code.
    pub(crate) refusals: &'a [(Code, u64)],
    pub(crate) places: Places,
    pub(crate) started_at: UnixTime,
    /// End of the endpoint's certificate, once there is one.
    pub(crate) certificate_until: Option<UnixTime>,
    pub(crate) now: UnixTime,
}

/// The places for connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Connections there are.
    pub(crate) all: u64,
    /// Of these, from addresses that proved no node lately.
    pub(crate) unknown: u64,
    /// Most there may be.
    pub(crate) max: u64,
    /// Turned away since the start.
    pub(crate) refused: u64,
}

/// What a controller needs to be of use to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    /// The journal is open, and no failed write ended all writing.
    journal: bool,
    /// The worker was heard from within 45 s and can issue.
    worker: bool,
    /// The endpoint has a certificate that is not over.
    certificate: bool,
}

impl Health {
    pub(crate) const fn is_ready(self) -> bool {
        self.journal && self.worker && self.certificate
    }

    /// What is there and what is missing.
    pub(crate) fn to_json(self) -> String {
        let Self { journal, worker, certificate } = self;
        let ready = self.is_ready();
        format!(r#"{{"ready":{ready},"journal":{journal},"worker":{worker},"certificate":{certificate}}}"#)
    }
}

impl MetricsInput<'_> {
    pub(crate) fn health(&self) -> Health {
        Health {
            journal: self.readings.journal_writes,
            worker: self.readings.worker_ready,
            certificate: self.certificate_until.is_some_and(|until| self.now < until),
        }
    }
}

/// The page of `/metrics`.
pub(crate) fn page(seen: &MetricsInput<'_>) -> String {
    let MetricsInput { readings, refusals, places, started_at, certificate_until, .. } = seen;
    let (nodes, health, counters) = (&readings.nodes, seen.health(), &readings.counters);
    let mut page = Page(String::with_capacity(8192));
    page.family("build_info", Kind::Gauge, "Version of the running controller; always 1.");
    page.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.one("start_time_seconds", Kind::Gauge, "Unix time of its start.", started_at.secs());
    page.one("ready", Kind::Gauge, "Whether /health/ready says so.", u8::from(health.is_ready()));

    page.family("nodes", Kind::Gauge, "Nodes by how they look: online within two minutes of a heartbeat.");
    for (state, count) in [
        ("online", nodes.online),
        ("stale", nodes.stale),
        ("awaiting_heartbeat", nodes.awaiting),
        ("barred", nodes.barred),
    ] {
        page.sample("nodes", &[("state", state)], count);
    }
    page.one("nodes_frozen", Kind::Gauge, "Nodes whose identity was seen twice, undecided.", nodes.frozen);
    page.one("nodes_lapsed", Kind::Gauge, "Nodes whose last known certificate is over.", nodes.lapsed);
    page.family("nodes_directory", Kind::Gauge, "Nodes by how they stand to the directory, where there is one.");
    let directory =
        [("ready", nodes.directory_ready), ("waiting", nodes.directory_waiting), ("failed", nodes.directory_failed)];
    for (state, count) in directory {
        page.sample("nodes_directory", &[("state", state)], count);
    }
    page.one("records_unwritten", Kind::Gauge, "Nodes with a heartbeat that is not on the disk yet.", nodes.unwritten);
    page.family("devices", Kind::Gauge, "Devices of the journal, nodes among them, by phase.");
    for (phase, count) in &readings.phases {
        page.sample("devices", &[("phase", &snake(&format!("{phase:?}")))], count);
    }
    page.one("devices_limit", Kind::Gauge, "Most devices, as limits.devices says.", readings.limits.devices);
    page.one("tasks", Kind::Gauge, "Installation tasks of the journal, ended ones among them.", readings.tasks);
    page.one("tasks_limit", Kind::Gauge, "Most tasks, as limits.tasks says.", readings.limits.tasks);
    page.one("window_open", Kind::Gauge, "Whether machines may introduce themselves.", u8::from(readings.window_open));

    page.one("events_total", Kind::Counter, "Events of the journal since the start.", readings.events);
    page.one("journal_writes_total", Kind::Counter, "Writes of the journal since the start.", readings.writes);
    let help = "Generation of the journal: lower only after a restore.";
    page.one("journal_generation", Kind::Gauge, help, readings.generation);
    page.one("journal_writable", Kind::Gauge, "0 once a failed write ended all writing.", u8::from(health.journal));
    let (lines, bytes) = readings.audit;
    page.one("audit_lines", Kind::Gauge, "Lines of the audit.", lines);
    page.one("audit_bytes", Kind::Gauge, "Bytes of all files of the audit, which nothing deletes.", bytes);
    page.one("worker_ready", Kind::Gauge, "Whether the worker was heard from and can issue.", u8::from(health.worker));
    if let Some(at) = readings.worker_checked_at {
        page.one("worker_status_timestamp_seconds", Kind::Gauge, "Unix time of the worker's last status.", at.secs());
    }
    if let Some(until) = certificate_until {
        let help = "Unix time at which the endpoint's certificate ends.";
        page.one("certificate_expiry_timestamp_seconds", Kind::Gauge, help, until.secs());
    }

    page.one("heartbeats_total", Kind::Counter, "Heartbeats accepted since the start.", counters.heartbeats);
    let help = "Signatures verified and chains built since the start.";
    page.one("public_key_operations_total", Kind::Counter, help, counters.public_key_operations);
    page.one("used_challenges", Kind::Gauge, "Used challenges remembered now.", counters.used_challenges);
    page.family("refusals_total", Kind::Counter, "Calls refused since the start, by code.");
    for (code, count) in *refusals {
        page.sample("refusals_total", &[("code", code.as_str())], count);
    }
    let known = places.all.saturating_sub(places.unknown);
    page.family("connections", Kind::Gauge, "Connections of nodes; known: from addresses that proved one lately.");
    for (source, count) in [("known", known), ("unknown", places.unknown)] {
        page.sample("connections", &[("source", source)], count);
    }
    page.one("connections_limit", Kind::Gauge, "Most connections, as connections.max says.", places.max);
    let help = "Connections turned away since the start, for want of a place.";
    page.one("connections_refused_total", Kind::Counter, help, places.refused);
    page.0
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// The text as it grows. Writing to a String cannot fail.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP lucia_controller_{name} {help}\n# TYPE lucia_controller_{name} {kind}");
    }

    /// Label values are words of this program: nothing in them needs escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "lucia_controller_{name}");
        for (at, (label, word)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{word}\"", if at == 0 { "{" } else { "," });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// `AwaitingEnrollment` as `awaiting_enrollment`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests;

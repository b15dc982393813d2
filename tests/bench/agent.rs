//! What the agent costs on a node: the release build under its real unit on a container node, measured by
//! `lucia-qualification measure-agent`, in V here.

use std::path::Path;
use std::time::Duration;

use lucia_tests::programs::run_within;
use lucia_tests::sim::Failure;
use serde_json::Value;

use crate::cost::Meter;
use crate::figures::{Figures, Goal};

/// Ten heartbeats take five minutes, with a node's whole way before.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub(crate) fn measure(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let meter = Meter::new()?;
    let before = meter.v()?;
    let program = bin.join("lucia-qualification");
    let said = run_within(&program, &["measure-agent", "--json", "--bin", &bin.to_string_lossy()], PATIENCE)?;
    let after = meter.v()?;
    let measured: Value = serde_json::from_slice(&said.stdout)?;
    let number = |name: &str| measured.get(name).and_then(Value::as_f64);
    let required = |name: &'static str| number(name).ok_or(name);

    figures.add("agent: stripped binary", required("binaryBytes")? / 1e6, "MB", Goal::Most(6.0));
    let resident = required("residentBytes")?;
    figures.add("agent: resident after ten heartbeats", resident / 1e6, "MB", Goal::Most(7.5));
    match number("exporterResidentBytes") {
        Some(exporter) => figures.add("agent: resident, of node-exporter's", resident / exporter, "", Goal::Most(0.5)),
        None => figures.note("prometheus-node-exporter is not here: `make setup` brings it"),
    }
    let micros = required("cpuMicrosPerHeartbeat")?;
    if let Some(scrape) = number("exporterCpuMicrosPerScrape") {
        figures.add("agent: heartbeat, of one scrape of node-exporter", micros / scrape, "", Goal::Most(0.1));
    }
    figures.note(&format!(
        "{micros:.0} us a heartbeat over five minutes; V was {:.0} and {:.0} us",
        before * 1e6,
        after * 1e6
    ));
    Ok(())
}

//! What the agent costs on a node: `lucia-qualification measure-agent`, for `make bench`.
//!
//! The node of the demo, with the agent of a release build under its real unit, and prometheus-node-exporter beside it,
//! started before the first heartbeat that counts and asked for nothing meanwhile: what it has in memory is what it takes idle.
//! Afterwards it is scraped, and the processor time of that is what a heartbeat is held against.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::machine::{heartbeat, on};
use super::screen::{Screen, Who};
use super::{DemoError, Options, Standing, raise};
use crate::node::Node;
use crate::skip::workspace;

/// Heartbeats until the measure is taken.
const HEARTBEATS: usize = 10;
/// From this one on the processor time counts: what the first needs once is no heartbeat's.
const FIRST: usize = 2;
/// Scrapes of the exporter that are measured.
const SCRAPES: u64 = 8;

/// The figures of one run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Size of the agent's program as it was given; a release build is stripped.
    pub binary_bytes: u64,
    /// What the agent has in memory after ten heartbeats.
    pub resident_bytes: u64,
    /// Processor time of all its threads from the second heartbeat to the tenth, divided by eight.
    pub cpu_micros_per_heartbeat: u64,
    /// What prometheus-node-exporter has in memory at the same moment; nothing where `make setup` could not get it.
    pub exporter_resident_bytes: Option<u64>,
    /// What prometheus-node-exporter takes of processor time for one scrape.
    pub exporter_cpu_micros_per_scrape: Option<u64>,
}

/// Brings a node up and measures its agent; about five minutes. The timeline is on the standard error.
pub fn measure(options: &Options) -> Result<Figures, DemoError> {
    let screen = Screen::stderr();
    let mut standing = raise(options, &screen)?;
    let figures = figures(&mut standing, &screen);
    standing.end()?;
    figures
}

fn figures(standing: &mut Standing, screen: &Screen) -> Result<Figures, DemoError> {
    let program = standing.site.place.program("lucia-node-agent");
    let size = fs::metadata(&program).map_err(|err| DemoError::Place { path: program, err })?;
    let exporter = start_exporter(&standing.node.node)?;
    heartbeats(standing, FIRST, screen)?;
    let before = cpu_nanos(&standing.node.node, pid_of(&standing.node.node, "lucia-node-agent")?)?;
    heartbeats(standing, HEARTBEATS, screen)?;
    let node = &standing.node.node;
    let agent = pid_of(node, "lucia-node-agent")?;
    let spent = cpu_nanos(node, agent)?.saturating_sub(before);
    let beats = u64::try_from(HEARTBEATS - FIRST).unwrap_or(1);
    let resident_bytes = resident(node, agent)?;
    let exporter = if exporter { Some(pid_of(node, EXPORTER)?) } else { None };
    Ok(Figures {
        binary_bytes: size.len(),
        resident_bytes,
        cpu_micros_per_heartbeat: spent / beats / 1000,
        exporter_resident_bytes: exporter.map(|pid| resident(node, pid)).transpose()?,
        exporter_cpu_micros_per_scrape: exporter.map(|pid| scraped(node, pid)).transpose()?,
    })
}

/// Waits for the heartbeats up to this one.
fn heartbeats(standing: &mut Standing, upto: usize, screen: &Screen) -> Result<(), DemoError> {
    for number in standing.node.heartbeats + 1..=upto {
        heartbeat(&mut standing.site, &standing.node.node_id, number)?;
        standing.node.heartbeats = number;
        screen.say(Who::Node, &format!("heartbeat {number} of {HEARTBEATS}"));
    }
    Ok(())
}

const EXPORTER: &str = "prometheus-node-exporter";

/// Starts the exporter as a service of the node, if there is one.
fn start_exporter(node: &Node) -> Result<bool, DemoError> {
    let program = workspace().join("target/tools/usr/bin").join(EXPORTER);
    if !program.is_file() {
        return Ok(false);
    }
    let inside = format!("/usr/local/bin/{EXPORTER}");
    let copied = fs::copy(&program, node.root().join(inside.trim_start_matches('/')));
    copied.map_err(|err| DemoError::Place { path: program, err })?;
    on(node, &["systemd-run", "--quiet", "--unit", EXPORTER, &inside, "--web.listen-address=127.0.0.1:9100"])?;
    Ok(true)
}

/// Processor time of one scrape, once the first was answered.
fn scraped(node: &Node, pid: u32) -> Result<u64, DemoError> {
    let scrape = || {
        let line =
            "exec 3<>/dev/tcp/127.0.0.1/9100; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3 >/dev/null";
        on(node, &["bash", "-c", line])
    };
    scrape()?;
    let before = cpu_nanos(node, pid)?;
    for _ in 0..SCRAPES {
        scrape()?;
    }
    Ok(cpu_nanos(node, pid)?.saturating_sub(before) / SCRAPES / 1000)
}

/// The main process of a unit, as the node counts.
fn pid_of(node: &Node, unit: &str) -> Result<u32, DemoError> {
    let said = on(node, &["systemctl", "show", "--property=MainPID", "--value", unit])?;
    let pid = said.trim().parse().ok().filter(|pid| *pid != 0);
    pid.ok_or_else(|| DemoError::NotShown { what: "a running unit", said: format!("{unit}: {}", said.trim()) })
}

fn process(node: &Node, pid: u32) -> PathBuf {
    node.root().join("proc").join(pid.to_string())
}

fn read(path: &Path) -> Result<String, DemoError> {
    fs::read_to_string(path).map_err(|err| DemoError::Place { path: path.to_owned(), err })
}

fn resident(node: &Node, pid: u32) -> Result<u64, DemoError> {
    let status = read(&process(node, pid).join("status"))?;
    resident_bytes(&status).ok_or(DemoError::NotShown { what: "VmRSS", said: status })
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Processor time of every thread that lives, in nanoseconds.
fn cpu_nanos(node: &Node, pid: u32) -> Result<u64, DemoError> {
    let tasks = process(node, pid).join("task");
    let failed = |err| DemoError::Place { path: tasks.clone(), err };
    let mut sum = 0_u64;
    for task in fs::read_dir(&tasks).map_err(failed)? {
        let text = read(&task.map_err(failed)?.path().join("schedstat"))?;
        let nanos = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        sum = sum.saturating_add(nanos.ok_or(DemoError::NotShown { what: "processor time", said: text })?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("VmPeak:\t  9 kB\nVmRSS:\t    3200 kB\nRssAnon:\t 1 kB\n"), Some(3_276_800));
        assert_eq!(resident_bytes("VmRSS:\t 1 MB\n"), None);
    }
}

//! What the machine is doing, read from `/proc`, `/sys` and the root file system.
//!
//! Every reading is within the bounds of a heartbeat or absent, so that a broken sensor never keeps a node from being
//! heard.

mod gpu;
mod system;

use lucia_proto::base::bounded::Text;
use lucia_proto::base::limits::{DISK_BYTES_MAX, LOAD_MAX, UPTIME_MAX};
use nix::sys::statvfs::statvfs;

use crate::host::boot::{self, BootId};
use crate::host::root::Root;
use crate::inventory::{memory, read};

/// Longest of these files as far as it is read: the line that counts is the first.
const LINE_MAX: u64 = 4096;

/// One reading of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    /// Name and version of the operating system.
    pub os_version: Text<1, 256>,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// Load average over one minute.
    pub load_average: Option<f64>,
    /// Memory in bytes.
    pub memory_total_bytes: u64,
    /// Memory that programs could still get, in bytes.
    pub memory_available_bytes: u64,
    /// Size of the root file system in bytes; together with the next or not at all.
    pub storage_total_bytes: Option<u64>,
    /// What is free of it for programs that are not root's, in bytes.
    pub storage_available_bytes: Option<u64>,
    /// Processor use since the former reading, 0 to 100; absent in the first.
    pub cpu_percent: Option<f64>,
    /// Temperature of the hottest processor, between -40 and 150.
    pub cpu_temperature_celsius: Option<f64>,
    /// Use of the busiest GPU, 0 to 100.
    pub gpu_percent: Option<f64>,
    /// Temperature of the hottest GPU, between -40 and 150.
    pub gpu_temperature_celsius: Option<f64>,
    /// The machine's boot.
    pub boot_id: Option<BootId>,
    /// What `/etc/hostname` says now, valid or not.
    pub machine_name: Option<String>,
}

/// Reads the machine again and again.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    former: Option<Ticks>,
    /// Whether it was logged already that nothing can be read.
    told: bool,
}

impl Sampler {
    /// Reads below this root. The first reading has no processor use.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        if gpu::is_silent(root) {
            tracing::info!("this machine's NVIDIA GPUs are not measured: their driver tells its own program alone");
        }
        Self { root: root.clone(), former: None, told: false }
    }

    /// Reads once. Nothing, with one line in the log, where the kernel does not tell memory and uptime: a heartbeat must
    /// have them.
    pub fn sample(&mut self) -> Option<Readings> {
        let readings = self.read();
        if readings.is_none() && !self.told {
            tracing::warn!("cannot read {} or /proc/uptime; is /proc mounted?", memory::MEMINFO);
        }
        self.told = readings.is_none();
        readings
    }

    fn read(&mut self) -> Option<Readings> {
        let line = |path: &str| read::text(&self.root.join(path), LINE_MAX);
        let ticks = line("proc/stat").as_deref().and_then(Ticks::parse);
        let former = std::mem::replace(&mut self.former, ticks);
        let memory = memory::gather(&self.root)?;
        let storage = storage(&self.root);
        let gpus = gpu::gpus(&self.root);
        Some(Readings {
            os_version: system::os_version(&self.root)?,
            uptime_seconds: uptime(&line("proc/uptime")?)?,
            load_average: line("proc/loadavg").as_deref().and_then(load),
            memory_total_bytes: memory.total,
            memory_available_bytes: memory.available,
            storage_total_bytes: storage.map(|(total, _)| total),
            storage_available_bytes: storage.map(|(_, available)| available),
            cpu_percent: ticks.and_then(|ticks| ticks.percent_since(former?)),
            cpu_temperature_celsius: system::cpu_temperature(&self.root),
            gpu_percent: gpus.percent,
            gpu_temperature_celsius: gpus.celsius,
            boot_id: boot::boot_id(&self.root).ok(),
            machine_name: boot::hostname(&self.root).ok(),
        })
    }
}

/// Time that all processors spent since the start, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// The first line of `/proc/stat`: `cpu user nice system idle iowait irq softirq steal guest guest_nice`
    /// (proc_stat(5)). Time of guests is in `user` and `nice` already.
    fn parse(stat: &str) -> Option<Self> {
        let mut words = stat.lines().next()?.split_ascii_whitespace();
        if words.next() != Some("cpu") {
            return None;
        }
        let ticks = words.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let idle = *ticks.get(3)?;
        let waiting = ticks.get(4).copied().unwrap_or(0);
        let all = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
        Some(Self { idle: idle.checked_add(waiting)?, all })
    }

    /// Absent when no time went by or a counter fell, as `iowait` sometimes does.
    fn percent_since(self, former: Self) -> Option<f64> {
        let all = self.all.checked_sub(former.all).filter(|all| *all > 0)?;
        let idle = self.idle.checked_sub(former.idle)?;
        let busy = all.checked_sub(idle)?;
        Some(tenths(busy as f64 / all as f64 * 100.0))
    }
}

/// More digits than one are noise.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The first number of `/proc/uptime`, in whole seconds.
fn uptime(text: &str) -> Option<u64> {
    let seconds = text.split(['.', ' ', '\n']).next()?.parse::<u64>().ok()?;
    Some(seconds.min(UPTIME_MAX))
}

/// The first number of `/proc/loadavg`.
fn load(text: &str) -> Option<f64> {
    let word = text.split_ascii_whitespace().next()?;
    // Not "inf", "nan" or "1e5", which Rust would take as numbers too.
    let plain = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let load = word.parse::<f64>().ok().filter(|_| plain)?;
    (load <= LOAD_MAX).then_some(load)
}

/// Size and free bytes of the file system that holds the root.
fn storage(root: &Root) -> Option<(u64, u64)> {
    let stat = statvfs(root.path()).ok()?;
    bytes_of(stat.blocks(), stat.blocks_available(), stat.fragment_size())
}

fn bytes_of(blocks: u64, available: u64, size: u64) -> Option<(u64, u64)> {
    let total = blocks.checked_mul(size).filter(|total| (1..=DISK_BYTES_MAX).contains(total))?;
    Some((total, available.saturating_mul(size).min(total)))
}

#[cfg(test)]
mod tests;

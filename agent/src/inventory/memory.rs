//! Memory: `/proc/meminfo`.

use lucia_proto::base::limits::MEMORY_BYTES_MAX;

use super::read;
use crate::host::root::Root;

/// Where the kernel counts its memory.
pub(crate) const MEMINFO: &str = "/proc/meminfo";
/// Longest `/proc/meminfo`: some fifty lines.
const MEMINFO_MAX: u64 = 64 * 1024;

/// Memory in bytes: 1 to 2^50 of it, and never more available than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What the kernel manages.
    pub(crate) total: u64,
    /// What programs could still get.
    pub(crate) available: u64,
}

/// Reads it; nothing where the kernel does not say how much there is.
pub(crate) fn gather(root: &Root) -> Option<Memory> {
    parse(&read::text(&root.join(MEMINFO), MEMINFO_MAX)?)
}

fn parse(meminfo: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
        kib.checked_mul(1024)
    };
    let total = bytes("MemTotal").filter(|total| *total > 0)?.min(MEMORY_BYTES_MAX);
    // Kernels before 3.14 do not estimate what is available.
    let free = || ["MemFree", "Buffers", "Cached"].into_iter().filter_map(bytes).fold(0, u64::saturating_add);
    let available = bytes("MemAvailable").unwrap_or_else(free).min(total);
    Some(Memory { total, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-68
    #[test]
    fn memory_is_in_bounds_or_absent() {
        let kib = |total: u64, available: u64| Some(Memory { total: total * 1024, available: available * 1024 });
        for (text, want) in [
            ("MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:  50 kB\n", kib(100, 50)),
            ("MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 5 kB\nCached: 20 kB\nSwapCached: 9 kB\n", kib(100, 35)),
            ("MemTotal: 100 kB\nMemAvailable: 900 kB\n", kib(100, 100)),
            ("MemTotal: 9999999999999999 kB\n", kib(1 << 40, 0)),
            ("MemTotal: 99999999999999999999 kB\n", None),
            ("MemTotal: 18446744073709551615 kB\n", None),
            ("MemTotal: 0 kB\n", None),
            ("MemTotal: -1 kB\n", None),
            ("MemTotalX: 100 kB\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}

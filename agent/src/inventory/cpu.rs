//! Processors: `/proc/cpuinfo`, and `/sys/devices/system/cpu/present` where the former says nothing.

use lucia_proto::base::limits::CPUS_MAX;
use lucia_proto::node::inventory::HardwareText;

use super::read;
use crate::host::root::Root;

/// Where the kernel describes its processors.
pub(super) const CPUINFO: &str = "/proc/cpuinfo";
/// Longest `/proc/cpuinfo`: 4096 processors with 4 KiB each.
const CPUINFO_MAX: u64 = 16 * 1024 * 1024;

/// The processors of a machine.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cpu {
    pub(super) model: Option<HardwareText>,
    /// Logical processors: at most 4096, 0 when nothing says it.
    pub(super) count: u32,
}

pub(super) fn gather(root: &Root) -> Cpu {
    let mut cpu = parse(&read::text(&root.join(CPUINFO), CPUINFO_MAX).unwrap_or_default());
    if cpu.count == 0 {
        let present = read::attribute(&root.join("sys/devices/system/cpu/present"));
        cpu.count = present.and_then(|list| count_list(&list)).unwrap_or(0);
    }
    cpu.count = cpu.count.min(CPUS_MAX);
    cpu
}

fn parse(cpuinfo: &str) -> Cpu {
    let mut cpu = Cpu::default();
    for (name, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
        match name.trim() {
            // Elsewhere than on x86 a second line of this name holds the model in words.
            "processor" if value.trim().parse::<u32>().is_ok() => cpu.count = cpu.count.saturating_add(1),
            "model name" if cpu.model.is_none() => cpu.model = read::clean(value),
            _ => {}
        }
    }
    cpu
}

/// How many numbers a list such as `0-3,8` holds.
fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for (list, want) in [
            ("0", Some(1)),
            ("0-3", Some(4)),
            ("0-3,8,10-11", Some(7)),
            ("", None),
            ("3-0", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(count_list(list), want, "{list:?}");
        }
    }

    #[test]
    fn a_model_is_the_first_that_says_something() {
        let cpu =
            parse("processor\t: 0\nmodel name\t:\nprocessor\t: 1\nmodel name\t: X  1\nmodel name\t: Y\nprocessor: x\n");
        assert_eq!((cpu.count, cpu.model.unwrap().as_str()), (2, "X 1"));
        assert_eq!(parse(""), Cpu::default());
    }
}

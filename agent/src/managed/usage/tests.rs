use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::ids::NodeId;
use lucia_proto::node::heartbeat::Heartbeat;

use super::*;
use crate::host::scratch::Scratch;
use crate::inventory::fixture;
use crate::managed::heartbeat::heartbeat;

fn sent(readings: &Readings) -> Result<Heartbeat, lucia_proto::base::bounded::OutOfBounds> {
    let node = "0".repeat(32).parse::<NodeId>().unwrap();
    heartbeat(&node, &"n1".parse().unwrap(), readings, None, None, (None, Extensions::default()))
}

// spec: AG-70
#[test]
fn a_server_is_read_whole() {
    let readings = Sampler::new(&fixture::root("dell-server")).sample().unwrap();
    assert_eq!(readings.os_version.as_str(), "Debian GNU/Linux 13 (trixie)");
    assert_eq!((readings.uptime_seconds, readings.load_average), (86_412, Some(0.42)));
    assert_eq!(readings.memory_total_bytes, 131_811_084 * 1024);
    assert_eq!(readings.memory_available_bytes, 120_500_112 * 1024);
    assert_eq!((readings.cpu_percent, readings.cpu_temperature_celsius), (None, Some(51.0)));
    assert_eq!((readings.gpu_percent, readings.gpu_temperature_celsius), (Some(12.0), Some(47.0)));
    let heartbeat = sent(&readings).unwrap();
    assert_eq!((heartbeat.gpu_percent, heartbeat.gpu_temperature_celsius), (Some(12.0), Some(47.0)));
    let (total, available) = (readings.storage_total_bytes.unwrap(), readings.storage_available_bytes.unwrap());
    assert!(total > 0 && available <= total);
}

// spec: AG-70
#[test]
fn what_a_machine_does_not_say_is_absent_and_never_refuses_the_heartbeat() {
    for machine in fixture::MACHINES {
        let readings = Sampler::new(&fixture::root(machine)).sample().unwrap();
        sent(&readings).unwrap();
        assert_eq!(readings.cpu_temperature_celsius.is_some(), machine == "dell-server", "{machine}");
    }
    let hostile = Sampler::new(&fixture::root("hostile")).sample().unwrap();
    assert_eq!(hostile.os_version.as_str(), "]0;owned");
    assert_eq!((hostile.load_average, hostile.uptime_seconds), (None, UPTIME_MAX));
    assert_eq!(hostile.memory_available_bytes, hostile.memory_total_bytes);
}

// spec: AG-70
#[test]
fn no_file_with_nonsense_makes_a_reading_that_is_refused() {
    fixture::spoil(|machine, file, root| {
        let mut sampler = Sampler::new(root);
        for _ in 0..2 {
            match sampler.sample() {
                Some(readings) => drop(sent(&readings).unwrap()),
                None => assert!(matches!(file, "/proc/meminfo" | "/proc/uptime"), "{machine} {file}"),
            }
        }
    });
}

// spec: AG-69
#[test]
fn processor_use_is_between_two_readings() {
    let scratch = Scratch::new();
    scratch.put("proc/meminfo", "MemTotal: 10 kB\n");
    scratch.put("proc/uptime", "1.00 1.00\n");
    let mut sampler = Sampler::new(&scratch.root());
    let mut percent = |stat: &str| {
        scratch.put("proc/stat", stat);
        sampler.sample().unwrap().cpu_percent
    };
    for (stat, want) in [
        ("cpu  100 0 100 800 0 0 0 0 0 0\n", None),
        ("cpu  150 0 150 900 0 0 0 0 0 0\n", Some(50.0)),
        ("cpu  150 0 150 900 0 0 0 0 0 0\n", None),
        // Waiting for a disk is not work; a guest's time is in `user` already.
        ("cpu  160 0 150 900 90 0 0 0 10 0\n", Some(10.0)),
        ("cpu  170 0 150 900 60 0 0 0 10 0\n", None),
        ("nonsense\n", None),
        ("cpu  180 0 150 900 60 0 0 0 10 0\n", None),
        ("cpu  180 0 150 901 60 2 0 0 10 0\n", Some(66.7)),
        ("cpu  1 0 0 1 0 0 0 0 0 0\n", None),
        ("cpu  2 0 0 1 0 0 0 0 0 0\n", Some(100.0)),
        ("cpu  2 0 0 9 0 0 0 0 0 0\n", Some(0.0)),
        ("cpu  18446744073709551615 1 0 9 0 0 0 0 0 0\n", None),
        ("cpu  1 2 3\n", None),
    ] {
        assert_eq!(percent(stat), want, "{stat:?}");
    }
}

// spec: AG-70
#[test]
fn numbers_are_in_bounds_or_absent() {
    for (text, want) in [
        ("0.42 0.38", Some(0.42)),
        ("1000000.00", Some(1e6)),
        ("1000001.00", None),
        ("nan", None),
        ("inf", None),
        ("-0.00", None),
        ("1e3", None),
        (".", None),
        ("", None),
    ] {
        assert_eq!(load(text), want, "{text:?}");
    }
    for (text, want) in
        [("12.99 4", Some(12)), ("7", Some(7)), ("99999999999999.0", Some(UPTIME_MAX)), ("-1.0", None), ("", None)]
    {
        assert_eq!(uptime(text), want, "{text:?}");
    }
    for (blocks, available, size, want) in [
        (100, 40, 4096, Some((409_600, 163_840))),
        (100, 400, 4096, Some((409_600, 409_600))),
        (0, 0, 4096, None),
        (1 << 53, 0, 1, Some((1 << 53, 0))),
        ((1 << 53) + 1, 0, 1, None),
        (u64::MAX, u64::MAX, 4096, None),
        (1, u64::MAX, 4096, Some((4096, 4096))),
    ] {
        assert_eq!(bytes_of(blocks, available, size), want, "{blocks} {available} {size}");
    }
    assert_eq!(storage(&Root::at(std::path::Path::new("/nowhere/at/all"))), None);
}

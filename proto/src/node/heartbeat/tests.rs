use super::*;
use crate::base::json;
use crate::base::limits::{JSON_DEPTH_MAX, REPORT_MAX};
use crate::test_support::fault;

/// A heartbeat with every field.
fn full() -> HeartbeatFields {
    json::from_str(include_str!("../../../../tests/vectors/heartbeat-full.json"), REPORT_MAX, JSON_DEPTH_MAX).unwrap()
}

type Change = fn(&mut HeartbeatFields);

fn checked(change: Change) -> Result<Heartbeat, OutOfBounds> {
    let mut fields = full();
    change(&mut fields);
    Heartbeat::try_from(fields)
}

// spec: HB-1 (threats.md V-1)
#[test]
fn every_field_is_bounded() {
    let cases: [(&str, Change); 43] = [
        ("newHostname", |f| f.new_hostname = Some(f.hostname.clone())),
        ("purpose", |f| f.purpose = Purpose::Renew),
        ("uptimeSeconds", |f| f.uptime_seconds = UPTIME_MAX + 1),
        ("uptimeSeconds", |f| f.uptime_seconds = 1 << 63),
        ("loadAverage", |f| f.load_average = Some(-0.1)),
        ("loadAverage", |f| f.load_average = Some(f64::NAN)),
        ("loadAverage", |f| f.load_average = Some(f64::INFINITY)),
        ("loadAverage", |f| f.load_average = Some(1e308)),
        ("loadAverage", |f| f.load_average = Some(1_000_000.1)),
        ("memoryTotalBytes", |f| f.memory_total_bytes = 0),
        ("memoryTotalBytes", |f| f.memory_total_bytes = (1 << 50) + 1),
        ("memoryAvailableBytes", |f| f.memory_available_bytes = f.memory_total_bytes + 1),
        ("storageTotalBytes", |f| f.storage_total_bytes = None),
        ("storageAvailableBytes", |f| f.storage_available_bytes = None),
        ("storageTotalBytes", |f| f.storage_total_bytes = Some(0)),
        ("storageTotalBytes", |f| f.storage_total_bytes = Some((1 << 53) + 1)),
        ("storageAvailableBytes", |f| f.storage_available_bytes = f.storage_total_bytes.map(|n| n + 1)),
        ("cpuPercent", |f| f.cpu_percent = Some(-0.1)),
        ("cpuPercent", |f| f.cpu_percent = Some(100.1)),
        ("cpuPercent", |f| f.cpu_percent = Some(f64::NAN)),
        ("gpuPercent", |f| f.gpu_percent = Some(-0.1)),
        ("gpuPercent", |f| f.gpu_percent = Some(100.1)),
        ("gpuPercent", |f| f.gpu_percent = Some(f64::NAN)),
        ("cpuTemperatureCelsius", |f| f.cpu_temperature_celsius = Some(-40.0)),
        ("cpuTemperatureCelsius", |f| f.cpu_temperature_celsius = Some(150.0)),
        ("cpuTemperatureCelsius", |f| f.cpu_temperature_celsius = Some(f64::NAN)),
        ("gpuTemperatureCelsius", |f| f.gpu_temperature_celsius = Some(-40.0)),
        ("gpuTemperatureCelsius", |f| f.gpu_temperature_celsius = Some(150.0)),
        ("gpuTemperatureCelsius", |f| f.gpu_temperature_celsius = Some(f64::NAN)),
        ("runtime.gpus", |f| f.runtime.as_mut().unwrap().gpus = vec![gpu(f); 17]),
        ("runtime.gpus.memoryBytes", |f| f.runtime.as_mut().unwrap().gpus[0].memory_bytes = (1 << 50) + 1),
        ("updates.count", |f| f.updates.as_mut().unwrap().count = 100_001),
        ("updates.count", |f| f.updates.as_mut().unwrap().count = u32::MAX),
        ("updates.securityCount", |f| f.updates.as_mut().unwrap().security_count = 3),
        ("updates.packages", |f| f.updates.as_mut().unwrap().packages = vec![package(f); 51]),
        ("updates.packages", |f| {
            f.updates.as_mut().unwrap().count = 60;
            f.updates.as_mut().unwrap().packages = vec![package(f); 51];
        }),
        ("updates.packages", |f| f.updates.as_mut().unwrap().packages = vec![package(f); 3]),
        ("updates.securityCount", |f| f.updates.as_mut().unwrap().count = 0),
        ("formerStarts", |f| (f.start_id, f.former_starts) = (Some(start(9)), (0..9).map(start).collect())),
        ("formerStarts", |f| (f.start_id, f.former_starts) = (Some(start(9)), vec![start(1), start(2), start(1)])),
        ("formerStarts", |f| (f.start_id, f.former_starts) = (Some(start(1)), vec![start(2), start(1)])),
        ("formerStarts", |f| f.former_starts = vec![start(1)]),
        ("chain", |f| f.chain = Some(Digest::ZERO)),
    ];
    for (index, (field, change)) in cases.into_iter().enumerate() {
        assert_eq!(checked(change).map(|_| ()).map_err(|e| e.field), Err(field), "case {index}");
    }
}

fn start(number: u8) -> StartId {
    StartId::from_random([number; 16])
}

fn gpu(fields: &HeartbeatFields) -> Gpu {
    fields.runtime.as_ref().unwrap().gpus[0].clone()
}

fn package(fields: &HeartbeatFields) -> Package {
    fields.updates.as_ref().unwrap().packages[0].clone()
}

// spec: HB-1
#[test]
fn the_bounds_themselves_are_fine() {
    let cases: [Change; 13] = [
        |_| (),
        |f| f.uptime_seconds = 0,
        |f| f.uptime_seconds = UPTIME_MAX,
        |f| f.load_average = Some(0.0),
        |f| f.load_average = Some(1e6),
        |f| f.memory_available_bytes = f.memory_total_bytes,
        |f| f.memory_total_bytes = 1 << 50,
        |f| f.storage_available_bytes = f.storage_total_bytes,
        |f| f.cpu_percent = Some(100.0),
        |f| f.cpu_temperature_celsius = Some(-39.9),
        |f| f.gpu_temperature_celsius = Some(149.9),
        |f| f.runtime.as_mut().unwrap().gpus = vec![gpu(f); 16],
        |f| {
            f.updates.as_mut().unwrap().count = 100_000;
            f.updates.as_mut().unwrap().packages = vec![package(f); 50];
        },
    ];
    for (index, change) in cases.into_iter().enumerate() {
        assert!(checked(change).is_ok(), "case {index}: {:?}", checked(change));
    }
}

// spec: HB-1
#[test]
fn a_checked_heartbeat_can_always_be_read_back() {
    let heartbeat = checked(|f| {
        f.load_average = Some(-0.0);
        f.cpu_percent = Some(-0.0);
        f.gpu_percent = Some(f64::MIN_POSITIVE);
        f.cpu_temperature_celsius = Some(-0.0);
        f.gpu_temperature_celsius = Some(0.1 + 0.2);
    })
    .unwrap();
    let text = json::to_string(&heartbeat).unwrap();
    assert!(!text.contains(":-0"), "{text}");
    assert_eq!(json::from_str::<Heartbeat>(&text, REPORT_MAX, JSON_DEPTH_MAX), Ok(heartbeat));
}

// spec: HB-2 (threats.md V-1, V-2, J-3)
#[test]
fn json_goes_through_the_same_check_and_names_the_field() {
    let text = json::to_string(&full()).unwrap();
    let read = |text: &str| json::from_str::<Heartbeat>(text, REPORT_MAX, JSON_DEPTH_MAX).map_err(|e| fault(&e));
    assert!(read(&text).is_ok());
    for (from, to, error) in [
        ("\"uptimeSeconds\":86400", "\"uptimeSeconds\":-1", "uptimeSeconds: Unexpected"),
        ("\"uptimeSeconds\":86400", "\"uptimeSeconds\":86400.5", "uptimeSeconds: Unexpected"),
        ("\"uptimeSeconds\":86400", "\"uptimeSeconds\":9007199254740992", "uptimeSeconds: Refused"),
        ("\"loadAverage\":0.5", "\"loadAverage\":1e308", "loadAverage: Refused"),
        ("\"loadAverage\":0.5", "\"loadAverage\":\"0.5\"", "loadAverage: Unexpected"),
        ("\"Debian GNU/Linux 13\"", "\"\"", "osVersion: Refused"),
        ("\"Debian GNU/Linux 13\"", "\"\\u202e\"", "osVersion: Refused"),
        ("\"Debian GNU/Linux 13\"", "\"a\\nb\"", "osVersion: Refused"),
        ("\"dockerVersion\":\"28.0.1\"", "\"dockerVersion\":\"\"", "runtime.dockerVersion: Refused"),
        ("\"12.4\"", "\"12.400\"", "runtime.cudaVersion: Refused"),
        ("\"12.4\"", "\"12\"", "runtime.cudaVersion: Refused"),
        ("\"nvidia\"", "\"amd\"", "runtime.gpus[0].vendor: Unexpected"),
        ("\"GPU-", "\"gpu-", "runtime.gpus[0].uuid: Refused"),
        ("\"state\":\"Ready\"", "\"state\":\"ready\"", "runtime.state: Unexpected"),
        ("\"count\":2", "\"count\":100001", "updates.count: Refused"),
        ("\"features\":[\"exec\"]", "\"features\":[\"exec\",\"exec\"]", "features: Refused"),
        ("\"features\":[\"exec\"]", "\"features\":[\"Exec\"]", "features[0]: Refused"),
        ("\"extensions\":{", "\"extensions\":{\"Bad\":\"\",", "extensions.Bad: Refused"),
        ("\"extensions\":{", "\"extensions\":{\"deep\":{},", "extensions.deep: Unexpected"),
        ("\"extensions\":{", "\"newer\":1,\"extensions\":{", "newer: UnknownField"),
        ("\"purpose\":\"heartbeat\"", "\"purpose\":\"renew\"", "purpose: Refused"),
        ("\"hostname\":\"web-01\"", "\"hostname\":\"WEB\"", "hostname: Refused"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(read(&text.replacen(from, to, 1)).map(|_| ()), Err(error.to_owned()));
    }
    let hostname = "a".repeat(1 << 20);
    let error = read(&text.replacen("web-01", &hostname, 1)).unwrap_err();
    assert_eq!(error, ": TooLarge");
    let features = (0..10_000).map(|n| format!("\"f{n}\"")).collect::<Vec<_>>().join(",");
    assert!(read(&text.replacen("\"exec\"", &features, 1)).is_err());
    let features = (0..1000).map(|n| format!("\"f{n}\"")).collect::<Vec<_>>().join(",");
    assert_eq!(read(&text.replacen("\"exec\"", &features, 1)).unwrap_err(), "features: Refused");
}

// spec: HB-4
#[test]
fn a_reply_has_no_place_for_keys_that_nobody_signed() {
    let read = |text: &str| json::from_str::<HeartbeatReply>(text, 1000, JSON_DEPTH_MAX);
    let plain = read(r#"{"accepted":true}"#).unwrap();
    assert_eq!(json::to_string(&plain).as_deref(), Ok(r#"{"accepted":true}"#));
    assert!(read(r#"{"accepted":true,"sshKeys":{}}"#).is_err());
}

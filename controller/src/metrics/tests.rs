//! The page as `promtool check metrics` would read it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Reads the text format strictly: HELP, TYPE, then the samples of that family and no others; each series once. Gives
/// each series with its value.
fn check(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with('\n') && !page.contains("\n\n"), "{page}");
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let (mut families, mut series) = (BTreeSet::new(), BTreeMap::new());
    let mut lines = page.lines().peekable();
    while let Some(help) = lines.next() {
        let (name, text) = help.strip_prefix("# HELP ").expect(help).split_once(' ').expect(help);
        assert!(name.starts_with("lucia_controller_") && plain(name), "{name}");
        assert!(text.ends_with('.') && !text.contains('\\'), "{help}");
        assert!(families.insert(name.to_owned()), "{name} twice");
        let (typed, kind) = lines.next().unwrap().strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
        assert_eq!((typed, name.ends_with("_total")), (name, kind == "counter"), "{name} {kind}");
        assert!(matches!(kind, "counter" | "gauge"));
        for unit in ["_ms", "_millis", "_minutes", "_kb", "_percent"] {
            assert!(!name.ends_with(unit), "{name}: base units");
        }
        let mut samples = 0;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (left, value) = line.rsplit_once(' ').unwrap();
            let (sample, labels) = match left.split_once('{') {
                Some((sample, labels)) => (sample, labels.strip_suffix('}').unwrap()),
                None => (left, ""),
            };
            assert_eq!(sample, name, "{line}");
            let mut seen = BTreeSet::new();
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let (label, word) = label.split_once('=').unwrap();
                let word = word.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
                assert!(plain(label) && seen.insert(label), "{line}");
                assert!(plain(word) || label == "version", "{line}: a word of a closed enum");
            }
            let number: f64 = value.parse().unwrap();
            assert!(number >= 0.0 && series.insert(left.to_owned(), number).is_none(), "{line}");
            samples += 1;
        }
        assert!(samples > 0, "{name} has no sample");
    }
    series
}

fn at(secs: u64) -> UnixTime {
    UnixTime::from_secs(secs)
}

fn refusals(count: u64) -> Vec<(Code, u64)> {
    Code::ALL.iter().map(|code| (*code, count)).collect()
}

// spec: OB-3
#[test]
fn the_page_is_in_prometheus_text_format() {
    let mut readings = Readings {
        phases: lucia_proto::node::phase::DevicePhase::ALL.map(|phase| (phase, 3)).to_vec(),
        ..Readings::default()
    };
    readings.nodes.online = 2;
    readings.nodes.directory_failed = 1;
    readings.counters.heartbeats = 77;
    readings.worker_checked_at = Some(at(900));
    let refusals = refusals(5);
    let places = Places { all: 9, unknown: 4, max: 100, refused: 1 };
    let mut seen = MetricsInput {
        readings: &readings,
        refusals: &refusals,
        places,
        started_at: at(500),
        certificate_until: Some(at(2000)),
        now: at(1000),
    };
    let series = check(&page(&seen));
    for (name, value) in [
        ("heartbeats_total", 77.0),
        ("nodes{state=\"online\"}", 2.0),
        ("nodes_directory{state=\"failed\"}", 1.0),
        ("devices{phase=\"awaiting_enrollment\"}", 3.0),
        ("refusals_total{code=\"challenge_refused\"}", 5.0),
        ("connections{source=\"known\"}", 5.0),
        ("certificate_expiry_timestamp_seconds", 2000.0),
        ("worker_status_timestamp_seconds", 900.0),
        ("start_time_seconds", 500.0),
    ] {
        assert_eq!(series.get(&format!("lucia_controller_{name}")), Some(&value), "{name}");
    }
    // What is not known has no sample, and nothing else depends on what there is.
    let less = Readings { worker_checked_at: None, ..readings.clone() };
    seen.readings = &less;
    seen.certificate_until = None;
    assert_eq!(check(&page(&seen)).len(), series.len() - 2);
}

// spec: OB-4
#[test]
fn ready_is_a_journal_a_worker_and_a_certificate_with_time_left() {
    let refusals = refusals(0);
    for bits in 0..8_u8 {
        let [journal, worker, certificate] = [1, 2, 4].map(|bit| bits & bit != 0);
        let readings = Readings { journal_writes: journal, worker_ready: worker, ..Readings::default() };
        let mut seen = MetricsInput {
            readings: &readings,
            refusals: &refusals,
            places: Places::default(),
            started_at: at(0),
            certificate_until: certificate.then(|| at(1001)),
            now: at(1000),
        };
        let all = journal && worker && certificate;
        assert_eq!(seen.health().is_ready(), all);
        let json: serde_json::Value = serde_json::from_str(&seen.health().to_json()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"ready": all, "journal": journal, "worker": worker, "certificate": certificate})
        );
        seen.now = at(1001);
        assert!(!seen.health().is_ready(), "a certificate that is over is none");
    }
}

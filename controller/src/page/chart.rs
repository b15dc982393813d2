//! The last hour as lines, drawn here: an SVG's coordinates, and the same in words for who does not see it.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_people::host_api::Sample;
use lucia_proto::base::limits::{HEARTBEAT_FRESH, SAMPLES_AGE_MAX};
use lucia_proto::base::time::UnixTime;

use super::words::ago;

/// Width and height of the drawing, in its own units.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 60.0;
/// Of the small drawing in a list: from one point to the next, the lowest and the highest place of one.
const SPARK_STEP: i32 = 5;
const SPARK_LOW: i32 = 15;
const SPARK_SPAN: f64 = 14.0;

/// One chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    /// What is drawn.
    pub(crate) name: &'static str,
    /// The newest value.
    pub(crate) now: String,
    /// When it was measured, of a node that is not heard.
    pub(crate) old: Option<(UnixTime, String)>,
    /// The value at the top of the drawing.
    pub(crate) top: String,
    /// What the line says, in words.
    pub(crate) words: String,
    /// `x,y` of each point; a line a stretch without gaps.
    pub(crate) lines: Vec<String>,
}

/// Between two samples further apart than this the node was not heard: no line says what it did meanwhile.
const GAP: Duration = Duration::from_secs(90);

/// A load over time as the path of a small drawing: whole numbers, each from the one before, since a list holds hundreds.
/// Its top is the highest load, and 1 at least.
pub(super) fn spark(loads: &[Option<f64>]) -> String {
    let top = loads.iter().flatten().fold(1.0_f64, |top, load| top.max(*load));
    let mut path = String::new();
    let (mut x, mut last) = (0, None);
    for load in loads {
        let y = load.map(|load| SPARK_LOW - whole((load / top).clamp(0.0, 1.0) * SPARK_SPAN));
        match (last, y) {
            (_, None) => {}
            // A point alone is drawn as one.
            (None, Some(y)) => _ = write!(path, "M{x} {y}h0"),
            (Some(before), Some(y)) => _ = write!(path, "l{SPARK_STEP} {}", y - before),
        }
        (x, last) = (x + SPARK_STEP, y);
    }
    path.replace(" -", "-")
}

#[expect(clippy::cast_possible_truncation, reason = "rounded on purpose, to a small number")]
fn whole(value: f64) -> i32 {
    value.round() as i32
}

/// What is drawn of a sample.
struct Measure {
    name: &'static str,
    unit: &'static str,
    /// The top of the drawing; nothing where the highest value is.
    top: Option<f64>,
    of: fn(&Sample) -> Option<f64>,
}

const MEASURES: &[Measure] = &[
    Measure { name: "Processor", unit: " %", top: Some(100.0), of: |sample| sample.cpu_percent },
    Measure { name: "Load", unit: "", top: None, of: |sample| sample.load_average },
    Measure {
        name: "Memory",
        unit: " %",
        top: Some(100.0),
        of: |sample| share(Some(sample.memory_total_bytes), Some(sample.memory_available_bytes)),
    },
    Measure {
        name: "Storage",
        unit: " %",
        top: Some(100.0),
        of: |sample| share(sample.storage_total_bytes, sample.storage_available_bytes),
    },
    Measure { name: "Temperature", unit: " °C", top: Some(100.0), of: |sample| sample.cpu_temperature_celsius },
    Measure { name: "GPU", unit: " %", top: Some(100.0), of: |sample| sample.gpu_percent },
    Measure { name: "GPU temperature", unit: " °C", top: Some(100.0), of: |sample| sample.gpu_temperature_celsius },
];

#[expect(clippy::cast_precision_loss, reason = "a share of a hundred is drawn")]
fn share(total: Option<u64>, available: Option<u64>) -> Option<f64> {
    let (total, available) = (total?, available?);
    (total > 0).then(|| total.saturating_sub(available) as f64 * 100.0 / total as f64)
}

/// A chart of each thing that was measured.
pub(crate) fn charts(samples: &[Sample], now: UnixTime) -> Vec<Chart> {
    MEASURES.iter().filter_map(|measure| chart(measure, samples, now)).collect()
}

fn chart(measure: &Measure, samples: &[Sample], now: UnixTime) -> Option<Chart> {
    let values = || samples.iter().filter_map(measure.of);
    let last = values().next_back()?;
    let measured = samples.iter().rfind(|sample| (measure.of)(sample).is_some())?.at;
    let old = (now.since(measured) >= HEARTBEAT_FRESH).then(|| (measured, ago(now, measured)));
    let (low, high) = values().fold((last, last), |(low, high), value| (low.min(value), high.max(value)));
    let top = measure.top.unwrap_or(high).max(1.0);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut before: Option<UnixTime> = None;
    for sample in samples {
        if before.replace(sample.at).is_some_and(|before| sample.at.since(before) > GAP) && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        match (measure.of)(sample) {
            Some(value) => line.push_str(&point(sample.at, now, value / top)),
            None if line.is_empty() => {}
            None => lines.push(std::mem::take(&mut line)),
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    // A point alone is drawn as one: a line from it to itself.
    for line in lines.iter_mut().filter(|line| line.matches(',').count() == 1) {
        *line = line.repeat(2);
    }
    let unit = measure.unit;
    let when = old.as_ref().map_or("now", |(_, ago)| ago.as_str());
    let words =
        format!("{}: {when} {last:.1}{unit}, between {low:.1} and {high:.1}{unit} within the last hour", measure.name);
    let (now, top) = (format!("{last:.1}{unit}"), format!("{top:.0}{unit}"));
    Some(Chart { name: measure.name, now, old, top, words, lines })
}

#[expect(clippy::cast_precision_loss, reason = "seconds of an hour are drawn")]
fn point(at: UnixTime, now: UnixTime, share: f64) -> String {
    let age = now.since(at).as_secs() as f64 / SAMPLES_AGE_MAX.as_secs() as f64;
    format!("{:.1},{:.1} ", WIDTH * (1.0 - age.clamp(0.0, 1.0)), HEIGHT * (1.0 - share.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, load: Option<f64>) -> Sample {
        Sample {
            at: UnixTime::from_secs(at),
            load_average: load,
            cpu_percent: None,
            cpu_temperature_celsius: None,
            gpu_percent: None,
            gpu_temperature_celsius: None,
            memory_total_bytes: 100,
            memory_available_bytes: 25,
            storage_total_bytes: None,
            storage_available_bytes: None,
        }
    }

    // spec: PG-31
    #[test]
    fn a_load_is_drawn_small_with_its_gaps() {
        assert_eq!(spark(&[None, None]), "");
        assert_eq!(spark(&[Some(0.0), Some(0.5), Some(1.0)]), "M0 15h0l5-7l5-7");
        // Over 1 the highest is the top, and after a gap a new line begins.
        assert_eq!(spark(&[Some(4.0), None, Some(2.0), Some(2.0)]), "M0 1h0M10 8h0l5 0");
    }

    // spec: PG-12
    #[test]
    fn an_hour_is_drawn_with_its_gaps_and_told_in_words() {
        let now = UnixTime::from_secs(10_000);
        assert_eq!(charts(&[], now), []);
        let samples = [sample(6400, Some(2.0)), sample(8200, None), sample(9100, Some(4.0)), sample(10_000, Some(1.0))];
        let drawn = charts(&samples, now);
        assert_eq!(drawn.iter().map(|chart| chart.name).collect::<Vec<_>>(), ["Load", "Memory"]);
        // A value that is missing ends a line, and so does a heartbeat that did not come.
        assert_eq!(drawn[0].lines, ["0.0,30.0 0.0,30.0 ", "225.0,0.0 225.0,0.0 ", "300.0,45.0 300.0,45.0 "]);
        let near = [sample(9910, Some(4.0)), sample(10_000, Some(1.0))];
        assert_eq!(charts(&near, now)[0].lines, ["292.5,0.0 300.0,45.0 "]);
        assert!(["Load", "now 1.0", "4.0"].iter().all(|word| drawn[0].words.contains(word)), "{}", drawn[0].words);
        assert_eq!((drawn[1].now.as_str(), drawn[1].lines.len()), ("75.0 %", 4));
        assert_eq!(drawn[0].old, None);
    }

    // spec: PG-344
    #[test]
    fn a_number_of_a_node_that_is_not_heard_has_its_time() {
        let at = UnixTime::from_secs(10_000);
        let old = |secs: u64| charts(&[sample(10_000, Some(2.0))], UnixTime::from_secs(10_000 + secs))[0].old.clone();
        assert_eq!(old(119), None);
        assert_eq!(old(120), Some((at, "2 min ago".to_owned())));
    }
}

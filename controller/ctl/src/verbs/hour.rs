//! The last hour of a node, each measure drawn in a line.

use std::time::Duration;

use lucia_people::host_api::{NodeView, Sample};
use lucia_proto::base::limits::SAMPLES_AGE_MAX;
use lucia_proto::base::time::UnixTime;

use crate::table::Screen;
use crate::text::line;

/// From least to most.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a line of the hour: one a minute where there is room.
const COLUMNS: usize = 60;
/// What stands before it, and the numbers after it.
const AROUND: usize = 15 + 30;

/// The last hour: each measure that the node tells of in one line.
pub(super) fn hour(view: &NodeView, screen: Screen) -> String {
    let mut out = String::new();
    let columns = screen.width.map_or(COLUMNS, |width| width.saturating_sub(AROUND).min(COLUMNS));
    let used = |total: u64, free: u64| (total > 0).then(|| 100.0 - share(free, total));
    let mut measure = |name: &str, unit: &str, whole: bool, of: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<(UnixTime, f64)> =
            view.samples.iter().filter_map(|sample| Some((sample.at, of(sample)?))).collect();
        let Some((_, last)) = values.last() else { return };
        let least = values.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let most = values.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        // A share is drawn on its whole scale, so that little looks like little.
        let scale = if whole { (0.0, 100.0) } else { (least.min(0.0), most) };
        let drawn = sparkline(&values, view.server_time, columns, scale);
        let text = format!("{drawn}  {last:.1}{unit}, {least:.1} to {most:.1}");
        line(&mut out, name, text.trim_start_matches("  "));
    };
    measure("load", "", false, &|sample| sample.load_average);
    measure("cpu", " %", true, &|sample| sample.cpu_percent);
    measure("memory", " %", true, &|sample| used(sample.memory_total_bytes, sample.memory_available_bytes));
    measure("storage", " %", true, &|sample| used(sample.storage_total_bytes?, sample.storage_available_bytes?));
    measure("temperature", " °C", false, &|sample| sample.cpu_temperature_celsius);
    measure("gpu", " %", true, &|sample| sample.gpu_percent);
    measure("gpu temp", " °C", false, &|sample| sample.gpu_temperature_celsius);
    out
}

/// How much of `total` a part is, in percent.
#[expect(clippy::cast_precision_loss, reason = "a share for people to look at")]
fn share(part: u64, total: u64) -> f64 {
    part.min(total) as f64 * 100.0 / total as f64
}

/// The mean of each part of the hour before `now` as a block; a blank where nothing was told.
fn sparkline(values: &[(UnixTime, f64)], now: UnixTime, columns: usize, (least, most): (f64, f64)) -> String {
    let span = SAMPLES_AGE_MAX.as_secs();
    let columns = u64::try_from(columns).unwrap_or(0).min(span);
    let column = |age: Duration| (span - 1 - age.as_secs().min(span - 1)) * columns / span;
    (0..columns)
        .map(|at| {
            let here = values.iter().filter(|(told, _)| column(now.since(*told)) == at).map(|(_, value)| *value);
            let (sum, count) = here.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            if count > 0.0 { block(sum / count, least, most) } else { ' ' }
        })
        .collect()
}

fn block(value: f64, least: f64, most: f64) -> char {
    let steps = BLOCKS.iter().zip(1_u8..);
    let part = if most > least { (value - least) / (most - least) * 8.0 } else { 0.0 };
    // The first step that reaches it.
    steps.into_iter().find(|(_, step)| part <= f64::from(*step)).map_or('█', |(block, _)| *block)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    fn at(minutes: u64, value: f64) -> (UnixTime, f64) {
        (NOW.minus(Duration::from_secs(minutes * 60)), value)
    }

    // spec: CT-60
    #[test]
    fn an_hour_is_drawn_from_its_oldest_minute_to_now() {
        let draw = |values: &[(UnixTime, f64)], columns, scale| sparkline(values, NOW, columns, scale);
        assert_eq!(draw(&[at(0, 100.0)], 4, (0.0, 100.0)), "   █");
        assert_eq!(draw(&[at(59, 0.0), at(40, 50.0), at(20, 13.0), at(1, 100.0)], 4, (0.0, 100.0)), "▁▄▂█");
        assert_eq!(draw(&[at(59, 10.0), at(58, 90.0)], 2, (0.0, 100.0)), "▄ ");
        assert_eq!(draw(&[at(90, 100.0)], 2, (0.0, 100.0)), "█ ");
        assert_eq!(draw(&[at(0, 7.0)], 1, (7.0, 7.0)), "▁", "no scale");
        assert_eq!(draw(&[at(0, 9.0)], 0, (0.0, 9.0)), "");
        assert_eq!(draw(&[], 3, (0.0, 1.0)), "   ");
        for (value, want) in
            [(0.0, '▁'), (12.5, '▁'), (12.6, '▂'), (99.0, '█'), (100.0, '█'), (-5.0, '▁'), (500.0, '█')]
        {
            assert_eq!(block(value, 0.0, 100.0), want, "{value}");
        }
    }

    // spec: CT-60
    #[test]
    fn every_line_of_the_hour_fits_and_only_what_was_measured_has_one() {
        let text = format!(
            r#"{{"serverTime":"{NOW}","node":{{"nodeId":"{id}","hostname":"web-1","verificationCode":"1a2b-3c4d-5e6f",
            "state":"Online"}},"fingerprint":"{id}{id}","taskId":"00000000-0000-4000-8000-000000000000",
            "samples":[{{"at":"{NOW}","loadAverage":0.5,"memoryTotalBytes":1000,"memoryAvailableBytes":250,
            "cpuTemperatureCelsius":41.5}}]}}"#,
            id = "1a2b3c4d5e6f00000000000000000000",
        );
        let view: NodeView = lucia_proto::base::json::from_str(&text, 1 << 16, 24).unwrap();
        let wide = hour(&view, Screen { width: None, colour: false, terminal: false });
        let names: Vec<&str> = wide.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["load", "memory", "temperature"]);
        assert!(wide.contains("▆  75.0 %, 75.0 to 75.0"), "{wide}");
        for width in 60..130 {
            let text = hour(&view, Screen { width: Some(width), colour: false, terminal: false });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        assert!(!wide.contains('\u{1b}'));
    }
}

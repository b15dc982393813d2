//! Numbers and times in words.

use std::time::Duration;

use lucia_proto::time::UnixTime;

/// What stands where there is nothing to say.
pub(super) const NOTHING: &str = "–";

/// A size in the unit that leaves one to three digits before the point.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1000;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 || tenths >= 100 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// A span in its largest unit.
pub(super) fn span(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0..=119 => format!("{secs} s"),
        120..=7199 => format!("{} min", secs / 60),
        7200..=172_799 => format!("{} h", secs / 3600),
        _ => format!("{} days", secs / 86_400),
    }
}

/// How long ago something was.
pub(super) fn ago(now: UnixTime, then: UnixTime) -> String {
    if then >= now { "just now".to_owned() } else { format!("{} ago", span(now.since(then))) }
}

/// What is left until `until`.
pub(super) fn left(now: UnixTime, until: UnixTime) -> String {
    if until <= now { "over".to_owned() } else { span(until.since(now)) }
}

/// A number with one digit after the point, or nothing.
pub(super) fn one(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.1}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        for (size, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (15_500_000_000, "15 GB"),
            (8_200_000_000, "8.2 GB"),
            (u64::MAX, "1844 PB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        for (secs, text) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")] {
            assert_eq!(span(Duration::from_secs(secs)), text);
        }
        let at = UnixTime::from_secs;
        assert_eq!((ago(at(100), at(40)).as_str(), ago(at(1), at(2)).as_str()), ("60 s ago", "just now"));
        assert_eq!((left(at(40), at(100)).as_str(), left(at(2), at(1)).as_str()), ("60 s", "over"));
    }
}

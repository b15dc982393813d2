//! Numbers and times in words.

use std::time::Duration;

use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::Fingerprint;

/// What stands where there is nothing to say.
pub(super) const NOTHING: &str = "–";

/// A fingerprint as every screen shows it to be compared: two rows, each in two halves of four groups, between which it may
/// wrap where there is no room for a row.
pub(super) fn print_rows(fingerprint: &Fingerprint) -> Vec<[String; 2]> {
    let halves = |row: &String| {
        let groups: Vec<&str> = row.split(' ').collect();
        let (first, second) = groups.split_at(groups.len() / 2);
        [first.join(" "), second.join(" ")]
    };
    fingerprint.rows().iter().map(halves).collect()
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

/// A day and a time of day in UTC, for people: `2026-11-30 20:51:20`.
pub(super) fn clock(at: UnixTime) -> String {
    at.to_string().replace('T', " ").trim_end_matches('Z').to_owned()
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
        for (secs, text) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")] {
            assert_eq!(span(Duration::from_secs(secs)), text);
        }
        let at = UnixTime::from_secs;
        assert_eq!((ago(at(100), at(40)).as_str(), ago(at(1), at(2)).as_str()), ("60 s ago", "just now"));
        assert_eq!(clock(at(1_795_982_400)), "2026-11-29 20:00:00");
        assert_eq!((left(at(40), at(100)).as_str(), left(at(2), at(1)).as_str()), ("60 s", "over"));
    }
}

//! Time as the protocol knows it: whole seconds since 1970, RFC 3339 in UTC as text.
//!
//! Decisions take a [`UnixTime`] as an argument. A [`Clock`] exists only where a loop starts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// 9999-12-31T23:59:59Z: the last second RFC 3339 and X.509 can both name.
const LATEST: u64 = 253_402_300_799;

/// Seconds since 1970-01-01T00:00:00Z, at most the end of the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(u64);

/// The text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a time in UTC such as 2026-11-29T20:00:00Z, in whole seconds")]
pub struct BadTime;

impl UnixTime {
    /// The start of the year 1970.
    pub const EPOCH: Self = Self(0);

    /// The time `secs` seconds after 1970, capped at the end of the year 9999.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(if secs > LATEST { LATEST } else { secs })
    }

    /// Seconds since 1970.
    #[must_use]
    pub const fn secs(self) -> u64 {
        self.0
    }

    /// This time and `span` (whole seconds) later, capped at the end of the year 9999.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Self {
        Self::from_secs(self.0.saturating_add(span.as_secs()))
    }

    /// This time and `span` (whole seconds) earlier, not before 1970.
    #[must_use]
    pub const fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.as_secs()))
    }

    /// How long after `earlier` this is; nothing when it is not after.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Both steps cannot fail: the value is at most LATEST, which the format can name.
        let text = i64::try_from(self.0)
            .ok()
            .and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok())
            .and_then(|at| at.format(&Rfc3339).ok());
        f.write_str(text.as_deref().unwrap_or("9999-12-31T23:59:59Z"))
    }
}

impl FromStr for UnixTime {
    type Err = BadTime;

    /// The one text form: `YYYY-MM-DDTHH:MM:SSZ`.
    fn from_str(text: &str) -> Result<Self, BadTime> {
        if text.len() != 20 || !text.ends_with('Z') || text.as_bytes().get(10) != Some(&b'T') {
            return Err(BadTime);
        }
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| BadTime)?;
        let parsed = Self(u64::try_from(at.unix_timestamp()).map_err(|_| BadTime)?);
        // A leap second would be folded into its neighbour: one instant, one text.
        if parsed.to_string() == text { Ok(parsed) } else { Err(BadTime) }
    }
}

impl Serialize for UnixTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnixTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Where a loop reads the time. One of the few traits with two implementations.
pub trait Clock: Send + Sync {
    /// Wall time: it may jump.
    fn now(&self) -> UnixTime;
    /// Time since the machine booted, sleep included (`CLOCK_BOOTTIME`): it never jumps.
    fn since_boot(&self) -> Duration;
}

/// A clock that moves only when a test says so.
#[cfg(any(test, feature = "test-support"))]
#[derive(Debug)]
pub struct ManualClock {
    wall: std::sync::atomic::AtomicU64,
    boot_millis: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "test-support"))]
impl ManualClock {
    /// A clock that shows `now`, on a machine up for an hour.
    #[must_use]
    pub const fn at(now: UnixTime) -> Self {
        Self {
            wall: std::sync::atomic::AtomicU64::new(now.0),
            boot_millis: std::sync::atomic::AtomicU64::new(3_600_000),
        }
    }

    /// Lets time pass: both clocks move.
    pub fn advance(&self, span: Duration) {
        use std::sync::atomic::Ordering::SeqCst;
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let before = self.boot_millis.fetch_add(millis, SeqCst);
        self.wall.fetch_add((before.saturating_add(millis)) / 1000 - before / 1000, SeqCst);
    }

    /// Sets the wall clock alone, as a person or NTP would.
    pub fn set_wall(&self, now: UnixTime) {
        self.wall.store(now.0, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "test-support"))]
impl Clock for ManualClock {
    fn now(&self) -> UnixTime {
        UnixTime::from_secs(self.wall.load(std::sync::atomic::Ordering::SeqCst))
    }
    fn since_boot(&self) -> Duration {
        Duration::from_millis(self.boot_millis.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_has_one_text() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-29T20:00:00Z", Some(1_795_982_400)),
            ("9999-12-31T23:59:59Z", Some(LATEST)),
            ("2026-11-29T20:00:00+00:00", None),
            ("2026-11-29T20:00:00.0Z", None),
            ("2026-11-29 20:00:00Z", None),
            ("2026-11-29T20:00:60Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<UnixTime>().ok().map(UnixTime::secs), secs, "{text:?}");
            if let Some(secs) = secs {
                assert_eq!(UnixTime::from_secs(secs).to_string(), text);
            }
        }
        assert_eq!(UnixTime::from_secs(u64::MAX).secs(), LATEST);
    }

    #[test]
    fn arithmetic_never_wraps() {
        let late = UnixTime::from_secs(LATEST);
        assert_eq!(late.plus(Duration::MAX), late);
        assert_eq!(UnixTime::EPOCH.minus(Duration::MAX), UnixTime::EPOCH);
        assert_eq!(UnixTime::EPOCH.since(late), Duration::ZERO);
        assert_eq!(UnixTime::from_secs(90).since(UnixTime::from_secs(60)), Duration::from_secs(30));
    }

    #[test]
    fn a_manual_clock_moves_both_clocks_together() {
        let clock = ManualClock::at(UnixTime::from_secs(100));
        clock.advance(Duration::from_millis(1500));
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now().secs(), 103);
        assert_eq!(clock.since_boot(), Duration::from_secs(3603));
        clock.set_wall(UnixTime::EPOCH);
        assert_eq!(clock.since_boot(), Duration::from_secs(3603));
    }
}

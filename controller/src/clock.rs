//! The one place where the controller reads a clock.

use std::time::Duration;

use lucia_proto::base::time::{Clock, UnixTime};
use nix::time::{ClockId, clock_gettime};

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one clock of the controller")]
    fn now(&self) -> UnixTime {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        UnixTime::from_secs(since.map_or(0, |since| since.as_secs()))
    }

    fn since_boot(&self) -> Duration {
        // Linux has had this clock since 2.6.39; it cannot fail on a valid clock id.
        clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
    }
}

//! The one real clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucia_proto::base::time::{Clock, UnixTime};
use nix::time::{ClockId, clock_gettime};

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixTime {
        now()
    }

    fn since_boot(&self) -> Duration {
        // CLOCK_BOOTTIME exists since Linux 2.6.39 and cannot fail for a valid clock.
        clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
    }
}

/// Wall time, in whole seconds.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one clock of every program")]
pub fn now() -> UnixTime {
    UnixTime::from_secs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

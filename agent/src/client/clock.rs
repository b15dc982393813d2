//! The controller's clock as this machine keeps it (design.md I6).
//!
//! Each answer that carries the controller's time sets it anew, tied to `CLOCK_BOOTTIME`: once measured, no change
//! of the machine's own clock moves it. Renewal and lapse are decided by it; the machine's own clock decides nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lucia_proto::base::time::{Clock, UnixTime};

#[derive(Clone, Copy, Debug)]
struct Measured {
    server: UnixTime,
    since_boot: Duration,
}

/// Shared by all loops; measured by each.
#[derive(Debug, Default)]
pub struct ServerClock(Mutex<Option<Measured>>);

impl ServerClock {
    /// A clock that was never measured.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The controller said its time.
    pub fn measure(&self, server: UnixTime, clock: &dyn Clock) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Measured { server, since_boot: clock.since_boot() });
    }

    /// The time at the controller, if it was ever measured since the agent started.
    #[must_use]
    pub fn now(&self, clock: &dyn Clock) -> Option<UnixTime> {
        let measured = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        measured.map(|at| at.server.plus(clock.since_boot().saturating_sub(at.since_boot)))
    }

    /// The controller's clock less this machine's, in seconds.
    #[must_use]
    pub fn offset_seconds(&self, clock: &dyn Clock) -> Option<i64> {
        let (server, own) = (self.now(clock)?.secs(), clock.now().secs());
        Some(i64::try_from(server).unwrap_or(i64::MAX).saturating_sub(i64::try_from(own).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use lucia_proto::base::time::ManualClock;

    use super::*;

    // spec: AG-7
    #[test]
    fn a_jump_of_the_own_clock_does_not_move_the_controllers() {
        let start = UnixTime::from_secs(1_800_000_000);
        let clock = ManualClock::at(start);
        let server = ServerClock::new();
        assert_eq!((server.now(&clock), server.offset_seconds(&clock)), (None, None));
        server.measure(start.plus(Duration::from_secs(7)), &clock);
        assert_eq!(server.offset_seconds(&clock), Some(7));
        clock.advance(Duration::from_secs(60));
        let ten_years = Duration::from_secs(3_650 * 86_400);
        for wall in [start.plus(ten_years), start.minus(ten_years), UnixTime::EPOCH] {
            clock.set_wall(wall);
            assert_eq!(server.now(&clock), Some(start.plus(Duration::from_secs(67))));
        }
        assert_eq!(server.offset_seconds(&clock), Some(1_800_000_067));
    }
}

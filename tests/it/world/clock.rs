//! One time for everybody, and three wall clocks over it that may be wrong.

use std::sync::Mutex;
use std::time::Duration;

use lucia_proto::base::time::{Clock, UnixTime};
use tokio::time::Instant;

/// When every story begins.
pub(crate) const START: UnixTime = UnixTime::from_secs(1_800_000_000);

/// Goes with paused tokio time, so that timers and clocks never disagree; its wall time can be set wrong.
#[derive(Debug)]
pub(crate) struct StoryClock {
    begun: Instant,
    /// Wall time less true time, in seconds.
    wrong_by: Mutex<i64>,
}

impl StoryClock {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, wrong_by: Mutex::new(0) }
    }

    /// Sets the wall clock so many seconds ahead of the true time; timers do not notice.
    pub(crate) fn set_wrong_by(&self, seconds: i64) {
        *self.wrong_by.lock().unwrap() = seconds;
    }
}

impl Clock for StoryClock {
    fn now(&self) -> UnixTime {
        let wrong = *self.wrong_by.lock().unwrap();
        let right = START.plus(self.begun.elapsed());
        let span = Duration::from_secs(wrong.unsigned_abs());
        if wrong < 0 { right.minus(span) } else { right.plus(span) }
    }

    fn since_boot(&self) -> Duration {
        Duration::from_secs(3600) + self.begun.elapsed()
    }
}

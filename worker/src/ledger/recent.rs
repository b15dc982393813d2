//! How often something happened in the last hour.

use std::collections::VecDeque;
use std::time::Duration;

use lucia_proto::base::time::UnixTime;

use crate::config::HOURLY_MAX;

/// What limits are counted over.
const HOUR: Duration = Duration::from_secs(3600);
/// When something happened, the last times: as many as any limit of the settings needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent(VecDeque<UnixTime>);

impl Recent {
    pub(super) fn push(&mut self, at: UnixTime) {
        if self.0.len() >= HOURLY_MAX {
            self.0.pop_front();
        }
        self.0.push_back(at);
    }

    /// How often in the hour before `now`. What lies ahead of `now` was written by a wrong clock and does not count:
    /// it would for years.
    #[must_use]
    pub fn count(&self, now: UnixTime) -> usize {
        self.times(now).count()
    }

    /// When the oldest of that hour leaves it; nothing when there is none.
    #[must_use]
    pub fn frees_at(&self, now: UnixTime) -> Option<UnixTime> {
        self.times(now).min().map(|at| at.plus(HOUR))
    }

    fn times(&self, now: UnixTime) -> impl Iterator<Item = UnixTime> {
        self.0.iter().copied().filter(move |at| *at <= now && now.since(*at) < HOUR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_an_hour_and_the_future_does_not_count() {
        let at = |secs: u64| UnixTime::from_secs(1_000_000 + secs);
        let mut recent = Recent::default();
        assert_eq!((recent.count(at(0)), recent.frees_at(at(0))), (0, None));
        [0, 10, 400_000_000].into_iter().for_each(|secs| recent.push(at(secs)));
        for (now, count, frees) in
            [(0, 1, Some(3600)), (10, 2, Some(3600)), (3599, 2, Some(3600)), (3600, 1, Some(3610)), (3610, 0, None)]
        {
            assert_eq!((recent.count(at(now)), recent.frees_at(at(now))), (count, frees.map(at)), "{now}");
        }
        (0..20_000).for_each(|_| recent.push(at(1)));
        assert_eq!(recent.count(at(1)), HOURLY_MAX);
    }
}

//! What counts as one source, and how often somebody may do something: one type and one kind of rate for all that is
//! counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::limits::SOURCES_MAX;

use crate::lock::lock;
use crate::refusal::Refusal;

/// Whose address counts as one: an IPv4 address, or a /64 of IPv6, which one machine may have all of. An IPv4-mapped
/// address is IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source(IpAddr);

impl Source {
    pub(crate) fn of(from: IpAddr) -> Self {
        Self(match from.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => v4.fmt(f),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

/// So many at once, and as many again within so long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    most: u32,
    window: Duration,
}

impl Rate {
    pub(crate) const fn new(most: u32, window: Duration) -> Self {
        Self { most, window }
    }
}

/// What somebody has left of a rate. It comes back evenly, so no edge of a second doubles it.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// When it is full again, in nanoseconds of the clock that `take` is given.
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes one, if there is one left.
    pub(crate) fn take(&self, rate: Rate, now: Duration) -> bool {
        let (now, window) = (nanos(now), nanos(rate.window));
        let each = window / u64::from(rate.most.max(1));
        let less = |full_at: u64| {
            let full_at = full_at.max(now).saturating_add(each);
            (rate.most > 0 && full_at - now <= window).then_some(full_at)
        };
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(crate) fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Ordering::Relaxed) <= nanos(now)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A bucket for each of so many keys; all others share one.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    rate: Rate,
    max: usize,
    each: BTreeMap<K, Bucket>,
    others: Bucket,
    swept: Duration,
}

/// Between two searches for keys that can be forgotten: a flood of new ones does not cause one each.
const SWEEP: Duration = Duration::from_secs(1);

impl<K: Ord + Clone> Buckets<K> {
    pub(crate) const fn new(rate: Rate, max: usize) -> Self {
        let others = Bucket { full_at: AtomicU64::new(0) };
        Self { rate, max, each: BTreeMap::new(), others, swept: Duration::ZERO }
    }

    /// Takes one of this key, if it has one left.
    pub(crate) fn take(&mut self, key: &K, now: Duration) -> bool {
        if let Some(bucket) = self.each.get(key) {
            return bucket.take(self.rate, now);
        }
        if self.each.len() >= self.max && now >= self.swept.saturating_add(SWEEP) {
            self.swept = now;
            self.forget(now);
        }
        if self.each.len() >= self.max {
            return self.others.take(self.rate, now);
        }
        self.each.entry(key.clone()).or_default().take(self.rate, now)
    }

    /// Forgets the keys whose bucket is full, which says nothing of them.
    pub(crate) fn forget(&mut self, now: Duration) {
        self.each.retain(|_, bucket| !bucket.is_full(now));
    }
}

/// A rate of each source.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    buckets: Mutex<Buckets<Source>>,
}

impl Rates {
    pub(crate) const fn new(most: u32, window: Duration) -> Self {
        let rate = Rate::new(most, window);
        Self { rate, buckets: Mutex::new(Buckets::new(rate, SOURCES_MAX)) }
    }

    /// Takes one call of this source, if it has one left.
    ///
    /// # Errors
    /// `too_many_requests`.
    pub(crate) fn allow(&self, from: IpAddr, now: Duration) -> Result<(), Refusal> {
        let mut buckets = lock(&self.buckets);
        if buckets.take(&Source::of(from), now) {
            return Ok(());
        }
        let Rate { most, window } = self.rate;
        let message = format!("More than {most} calls of this kind from one source within {} s.", window.as_secs());
        Err(Refusal::new(Code::TooManyRequests, message))
    }
}

/// Which entry of a full list gives way to one more of `newcomer`: the first of the source that has most of them, as long
/// as that source keeps as many as the newcomer's will have. A single entry of a source never gives way.
pub(crate) fn gives_way<S: Ord, T>(entries: impl IntoIterator<Item = (S, T)>, newcomer: &S) -> Option<T> {
    let mut sources: BTreeMap<S, (usize, usize, T)> = BTreeMap::new();
    for (at, (source, entry)) in entries.into_iter().enumerate() {
        sources.entry(source).or_insert((0, at, entry)).0 += 1;
    }
    let own = sources.get(newcomer).map_or(0, |(count, ..)| *count);
    let (count, _, first) = sources.into_values().max_by_key(|(count, at, _)| (*count, Reverse(*at)))?;
    (count >= own + 2).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    // spec: CO-5
    #[test]
    fn each_source_has_its_own_count_and_a_flood_of_sources_shares_one() {
        let second = Duration::from_secs(1);
        let rates = Rates::new(3, second);
        let taken = |from: &str, now| (0..10).filter(|_| rates.allow(ip(from), now).is_ok()).count();
        assert_eq!(taken("192.0.2.1", second), 3);
        assert_eq!(taken("::ffff:192.0.2.1", second), 0, "IPv4-mapped is IPv4");
        assert_eq!(taken("192.0.2.2", second), 3);
        assert_eq!(taken("2001:db8::1", second), 3);
        assert_eq!(taken("2001:db8::ffff", second), 0, "a /64 is one");
        assert_eq!(taken("2001:db8:0:1::1", second), 3);
        assert_eq!(taken("192.0.2.1", second * 2), 3, "a second later");
        let flood = |now| (0..20_000_u32).filter(|n| rates.allow(IpAddr::from(n.to_be_bytes()), now).is_ok()).count();
        assert_eq!(flood(second * 3), SOURCES_MAX + 3);
        assert!(rates.buckets.lock().unwrap().each.len() <= SOURCES_MAX);
        assert_eq!(taken("192.0.2.1", second * 4), 3, "the flood is over");
    }

    // spec: CO-220
    #[test]
    fn a_rate_slides() {
        let rate = Rate::new(10, Duration::from_secs(1));
        let bucket = Bucket::default();
        let taken = |millis| (0..50).filter(|_| bucket.take(rate, Duration::from_millis(millis))).count();
        assert_eq!(taken(950), 10);
        assert_eq!(taken(1050), 1, "a tenth of it within a tenth of the time");
        assert_eq!(taken(1049), 0, "a clock that steps back gives nothing");
        assert_eq!(taken(1550), 5);
        assert_eq!(taken(9000), 10, "never more than a full one");
    }

    // spec: CO-221
    #[test]
    fn in_a_full_list_the_source_with_most_entries_gives_way_and_never_a_single_one() {
        let check = |sources: &[u8], newcomer: u8, want: Option<usize>| {
            assert_eq!(gives_way(sources.iter().zip(0..), &&newcomer), want, "{sources:?} {newcomer}");
        };
        check(&[1, 2, 2, 3, 3, 3], 9, Some(3));
        check(&[1, 3, 3, 2, 2], 9, Some(1));
        check(&[3, 2, 2, 3, 1, 3], 1, Some(0));
        check(&[1, 2, 3], 9, None);
        check(&[1, 2, 2, 2], 2, None);
        check(&[1, 2, 2, 2, 3, 3], 3, None);
        check(&[1, 1], 9, Some(0));
        check(&[], 9, None);
    }
}

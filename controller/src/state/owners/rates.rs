//! How often one source may do what costs something before anybody knows whose it is.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::Duration;

use lucia_proto::code::Code;
use lucia_proto::limits::SOURCES_MAX;

use super::super::lock;
use crate::refusal::Refusal;

/// Whose address counts as one: an IPv4 address, or a /64 of IPv6, which one machine may have all of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::state) struct Source(IpAddr);

impl Source {
    pub(in crate::state) fn of(from: IpAddr) -> Self {
        Self(match from.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        })
    }
}

/// A count for each source, in windows of one length.
#[derive(Debug)]
pub(in crate::state) struct Rates {
    window: Duration,
    most: u32,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// When the window of a source began, by time since boot, and its calls in it.
    sources: BTreeMap<Source, (Duration, u32)>,
    /// All sources together that there was no room for.
    others: (Duration, u32),
}

impl Rates {
    pub(in crate::state) fn new(window: Duration, most: u32) -> Self {
        Self { window, most, counts: Mutex::default() }
    }

    /// Takes one call of this source, if it has one left.
    ///
    /// # Errors
    /// `too_many_requests`.
    pub(in crate::state) fn allow(&self, from: IpAddr, now: Duration) -> Result<(), Refusal> {
        let source = Source::of(from);
        let is_over = |since: Duration| now >= since.saturating_add(self.window);
        let mut counts = lock(&self.counts);
        let Counts { sources, others } = &mut *counts;
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            sources.retain(|_, (since, _)| !is_over(*since));
        }
        let count = if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            others
        } else {
            sources.entry(source).or_insert((now, 0))
        };
        if is_over(count.0) {
            *count = (now, 0);
        }
        if count.1 >= self.most {
            let span = self.window.as_secs();
            let message = format!("More than {} calls of this kind from one address within {span} s.", self.most);
            return Err(Refusal::new(Code::TooManyRequests, message));
        }
        count.1 += 1;
        Ok(())
    }
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
        let rates = Rates::new(second, 3);
        let taken = |from: &str, now| (0..10).filter(|_| rates.allow(ip(from), now).is_ok()).count();
        assert_eq!(taken("192.0.2.1", second), 3);
        assert_eq!(taken("::ffff:192.0.2.1", second), 0, "IPv4-mapped is IPv4");
        assert_eq!(taken("192.0.2.2", second), 3);
        assert_eq!(taken("2001:db8::1", second), 3);
        assert_eq!(taken("2001:db8::ffff", second), 0, "a /64 is one");
        assert_eq!(taken("2001:db8:0:1::1", second), 3);
        assert_eq!(taken("192.0.2.1", second * 2), 3, "the next window");
        let flood = |now| (0..20_000_u32).filter(|n| rates.allow(IpAddr::from(n.to_be_bytes()), now).is_ok()).count();
        assert_eq!(flood(second * 3), SOURCES_MAX + 3);
        assert!(lock(&rates.counts).sources.len() <= SOURCES_MAX);
        assert_eq!(taken("192.0.2.1", second * 4), 3, "the flood is over");
    }
}

//! How many connections there may be, and whose (design.md T1, threats.md H-2).
//!
//! A share is kept for addresses that proved a node lately: a flood from anywhere else fills its own share and costs
//! no known node a heartbeat. Places are given back by dropping the [`Permit`], on whatever path a connection ends.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::{Connections, Network};
use crate::metrics::Places;

/// How long an address counts as known after it proved a node: many heartbeats, and an outage of some minutes.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Known addresses remembered at most: protects memory from one node with very many addresses.
const KNOWN_MAX: usize = 16 * 1024;

/// The places for connections.
#[derive(Debug)]
pub(super) struct Gate {
    limits: Connections,
    proxies: Vec<Network>,
    taken: Mutex<Taken>,
    refused: AtomicU64,
    /// As `refused`, and never set back.
    refused_total: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    unknown: usize,
    by_source: BTreeMap<IpAddr, usize>,
    known: BTreeMap<IpAddr, Instant>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Arc<Gate>,
    source: IpAddr,
    unknown: Mutex<bool>,
}

impl Gate {
    pub(super) fn new(limits: Connections, proxies: Vec<Network>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            proxies,
            taken: Mutex::default(),
            refused: AtomicU64::new(0),
            refused_total: AtomicU64::new(0),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `source`, if there is one. A listed proxy stands for many, so it has no limit of
    /// its own and counts as known.
    pub(super) fn enter(self: &Arc<Self>, source: IpAddr, now: Instant) -> Option<Permit> {
        let source = source.to_canonical();
        let proxy = self.proxies.iter().any(|network| network.contains(source));
        let mut taken = self.taken();
        let known = proxy || taken.known.get(&source).is_some_and(|seen| now.duration_since(*seen) < KNOWN_FOR);
        let from_here = taken.by_source.get(&source).copied().unwrap_or(0);
        let for_unknown = self.limits.max.saturating_sub(self.limits.reserved);
        if taken.all >= self.limits.max
            || (!known && taken.unknown >= for_unknown)
            || (!proxy && from_here >= self.limits.per_source)
        {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.refused_total.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        taken.all += 1;
        taken.unknown += usize::from(!known);
        taken.by_source.insert(source, from_here + 1);
        Some(Permit { gate: Arc::clone(self), source, unknown: Mutex::new(!known) })
    }

    /// Where nodes called from before the start: they are known at once, so that a flood at a restart finds no fleet of
    /// strangers.
    pub(super) fn remember(&self, addresses: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let mut taken = self.taken();
        let room = KNOWN_MAX.saturating_sub(taken.known.len());
        taken.known.extend(addresses.into_iter().take(room).map(|address| (address.to_canonical(), now)));
    }

    /// How many places are taken.
    pub(super) fn places(&self) -> Places {
        let taken = self.taken();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Places {
            all: number(taken.all),
            unknown: number(taken.unknown),
            max: number(self.limits.max),
            refused: self.refused_total.load(Ordering::Relaxed),
        }
    }

    /// Connections turned away since the last time this was asked.
    pub(super) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl Permit {
    /// Whether `source`, which calls over this connection, proved a node lately, or did so over this very connection. A
    /// proxy is known, and whoever it stands for is not by that.
    pub(super) fn knows(&self, source: IpAddr, now: Instant) -> bool {
        let taken = self.gate.taken();
        let own = source == self.source && !*self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        own || taken.known.get(&source).is_some_and(|seen| now.duration_since(*seen) < KNOWN_FOR)
    }

    /// A call over this connection proved a node: the address is known from now on, and this place no longer counts
    /// among those of strangers.
    pub(super) fn proved(&self, now: Instant) {
        let mut taken = self.gate.taken();
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if *unknown {
            *unknown = false;
            taken.unknown = taken.unknown.saturating_sub(1);
        }
        if taken.known.len() >= KNOWN_MAX && !taken.known.contains_key(&self.source) {
            taken.known.retain(|_, seen| now.duration_since(*seen) < KNOWN_FOR);
            if taken.known.len() >= KNOWN_MAX {
                return;
            }
        }
        taken.known.insert(self.source, now);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.gate.taken();
        taken.all = taken.all.saturating_sub(1);
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        taken.unknown = taken.unknown.saturating_sub(usize::from(*unknown));
        if let Some(count) = taken.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(max: usize, per_source: usize, reserved: usize) -> Arc<Gate> {
        Gate::new(Connections { max, per_source, reserved }, vec!["10.9.0.0/16".parse().unwrap()])
    }

    fn ip(last: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0a00_0000 + last))
    }

    // spec: HT-8
    #[tokio::test(start_paused = true)]
    async fn h_2_a_flood_leaves_the_reserved_share_to_known_addresses() {
        let gate = gate(100, 8, 25);
        let node = gate.enter(ip(1), Instant::now()).unwrap();
        node.proved(Instant::now());
        drop(node);
        let flood: Vec<_> = (0..10_000).filter_map(|n| gate.enter(ip(1000 + n % 50), Instant::now())).collect();
        assert_eq!(flood.len(), 75);
        assert!(gate.enter(ip(2), Instant::now()).is_none(), "a stranger gets none of the share");
        let known: Vec<_> = (0..100).filter_map(|_| gate.enter(ip(1), Instant::now())).collect();
        assert_eq!(known.len(), 8, "a known address has its own limit still");
        assert_eq!(gate.take_refused(), 10_000 - 75 + 1 + 92);
        drop(flood);
        assert!(gate.enter(ip(2), Instant::now()).is_some(), "places come back");
        drop(known);
        tokio::time::advance(KNOWN_FOR).await;
        let _flood: Vec<_> = (0..100).filter_map(|n| gate.enter(ip(1000 + n), Instant::now())).collect();
        assert!(gate.enter(ip(1), Instant::now()).is_none(), "after ten minutes it is a stranger");
    }

    // spec: HT-27
    #[tokio::test(start_paused = true)]
    async fn where_nodes_called_from_before_a_restart_is_known() {
        let gate = gate(8, 8, 4);
        gate.remember([ip(1), "::ffff:10.0.0.2".parse().unwrap()], Instant::now());
        let _flood: Vec<_> = (0..100).filter_map(|n| gate.enter(ip(1000 + n), Instant::now())).collect();
        assert!(gate.enter(ip(1), Instant::now()).is_some() && gate.enter(ip(2), Instant::now()).is_some());
        assert!(gate.enter(ip(3), Instant::now()).is_none());
        tokio::time::advance(KNOWN_FOR).await;
        assert!(gate.enter(ip(1), Instant::now()).is_none(), "not for longer than any other");
        gate.remember((0..2 * 16 * 1024).map(|n| ip(2000 + n)), Instant::now());
        assert!(gate.taken().known.len() <= KNOWN_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_proves_a_node_is_no_stranger_s_place() {
        let gate = gate(4, 4, 2);
        let now = Instant::now();
        let first = gate.enter(ip(1), now).unwrap();
        let _second = gate.enter(ip(2), now).unwrap();
        assert!(gate.enter(ip(3), now).is_none());
        first.proved(now);
        let _third = gate.enter(ip(3), now).unwrap();
        assert!(gate.enter(ip(4), now).is_none());
        drop(first);
        assert!(gate.enter(ip(4), now).is_none(), "it was not counted among strangers when it left");
    }

    #[tokio::test(start_paused = true)]
    async fn mapped_addresses_are_one_source_and_a_proxy_is_many() {
        let gate = gate(10, 1, 5);
        let now = Instant::now();
        let _one = gate.enter("10.0.0.1".parse().unwrap(), now).unwrap();
        assert!(gate.enter("::ffff:10.0.0.1".parse().unwrap(), now).is_none());
        let many: Vec<_> = (0..20).filter_map(|_| gate.enter("10.9.0.1".parse().unwrap(), now)).collect();
        assert_eq!(many.len(), 9);
    }
}

//! How many connections there may be, and whose (design.md T1, threats.md H-2).
//!
//! A share is kept for addresses that proved a node lately: a flood from anywhere else fills its own share and costs
//! no known node a heartbeat. Places are given back by dropping the [`Permit`], on whatever path a connection ends.
//!
//! A connection counts for its source until a call over it proves somebody; from then on it counts for them, so that a
//! rack of servers behind one address is no crowd. Calls are counted the same way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lucia_proto::limits::SOURCES_MAX;
use tokio::time::Instant;

use crate::config::{Connections, Network};
use crate::metrics::Places;
use crate::source::{Bucket, Buckets, Rate, Source};

/// How long an address counts as known after it proved a node: many heartbeats, and an outage of some minutes.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Known addresses remembered at most: protects memory from one node with very many addresses.
const KNOWN_MAX: usize = 16 * 1024;
/// Connections of one node or person that do not count for their source: a node has two or three, each of its copies too.
const PER_PROVER: usize = 16;
/// Within this long a source may make four calls for each connection it may have, and as many at once.
const CALLS_WINDOW: Duration = Duration::from_secs(4);

/// The places for connections.
#[derive(Debug)]
pub(super) struct Gate {
    limits: Connections,
    proxies: Vec<Network>,
    taken: Mutex<Taken>,
    /// How often one may call: a source as a stranger, or somebody proven.
    rate: Rate,
    /// What strangers have left of it.
    calls: Mutex<Buckets<Source>>,
    begun: Instant,
    refused: AtomicU64,
    /// As `refused`, and never set back.
    refused_total: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    unknown: usize,
    /// Connections that proved nobody yet.
    by_source: BTreeMap<Source, usize>,
    by_prover: BTreeMap<String, Arc<Prover>>,
    known: BTreeMap<Source, Instant>,
}

impl Taken {
    fn leave(&mut self, source: Source) {
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }
}

/// A node or person that was proven over connections there are; each of these holds one.
#[derive(Debug)]
struct Prover {
    name: String,
    calls: Bucket,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Arc<Gate>,
    source: Source,
    /// A listed proxy, which stands for many.
    is_proxy: bool,
    unknown: Mutex<bool>,
    prover: OnceLock<Arc<Prover>>,
}

impl Gate {
    pub(super) fn new(limits: Connections, proxies: Vec<Network>) -> Arc<Self> {
        let most = u32::try_from(limits.per_source.saturating_mul(4)).unwrap_or(u32::MAX);
        let rate = Rate::new(most, CALLS_WINDOW);
        Arc::new(Self {
            limits,
            proxies,
            taken: Mutex::default(),
            rate,
            calls: Mutex::new(Buckets::new(rate, SOURCES_MAX)),
            begun: Instant::now(),
            refused: AtomicU64::new(0),
            refused_total: AtomicU64::new(0),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `source`, if there is one. A listed proxy stands for many, so it has no limit of
    /// its own and counts as known.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<Permit> {
        let proxy = self.proxies.iter().any(|network| network.contains(from.to_canonical()));
        let source = Source::of(from);
        let mut taken = self.taken();
        let known = proxy || taken.known.get(&source).is_some_and(|seen| now.duration_since(*seen) < KNOWN_FOR);
        let from_here = taken.by_source.get(&source).copied().unwrap_or(0);
        let for_unknown = self.limits.max.saturating_sub(self.limits.reserved);
        if taken.all >= self.limits.max
            || (!known && taken.unknown >= for_unknown)
            || (!proxy && from_here >= self.limits.per_source)
            // The handshake costs as much as a call. A connection that was closed with 429 brings no cheaper one.
            || (!proxy && !self.counts(source, now))
        {
            self.refused.fetch_add(1, Ordering::Relaxed);
            self.refused_total.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        taken.all += 1;
        taken.unknown += usize::from(!known);
        if !proxy {
            taken.by_source.insert(source, from_here + 1);
        }
        let (unknown, prover) = (Mutex::new(!known), OnceLock::new());
        Some(Permit { gate: Arc::clone(self), source, is_proxy: proxy, unknown, prover })
    }

    /// Takes a call of a stranger of this source, if there is one left.
    fn counts(&self, source: Source, now: Instant) -> bool {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.take(&source, now.duration_since(self.begun))
    }

    /// Where nodes called from before the start: they are known at once, so that a flood at a restart finds no fleet of
    /// strangers.
    pub(super) fn remember(&self, addresses: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let mut taken = self.taken();
        let room = KNOWN_MAX.saturating_sub(taken.known.len());
        taken.known.extend(addresses.into_iter().take(room).map(|address| (Source::of(address), now)));
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
        let source = Source::of(source);
        let own = source == self.source && !*self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        own || taken.known.get(&source).is_some_and(|seen| now.duration_since(*seen) < KNOWN_FOR)
    }

    /// Whether one more call over this connection, of `from`, is answered: somebody proven has a rate of their own, and all
    /// others of one source have one together.
    pub(super) fn may_call(&self, from: IpAddr, now: Instant) -> bool {
        match self.prover.get() {
            Some(prover) => prover.calls.take(self.gate.rate, now.duration_since(self.gate.begun)),
            None => self.gate.counts(Source::of(from), now),
        }
    }

    /// A call over this connection proved a node, or somebody of the roster, whose `name` is told unless a token spoke for
    /// them: the source is known from now on, and this place no longer counts among those of strangers.
    pub(super) fn proved(&self, name: Option<&str>, now: Instant) {
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
        let Some(name) = name.filter(|_| !self.is_proxy && self.prover.get().is_none()) else { return };
        let prover = match taken.by_prover.get(name) {
            // Each of its connections holds one, and the table one.
            Some(prover) if Arc::strong_count(prover) > PER_PROVER => return,
            Some(prover) => Arc::clone(prover),
            None => {
                let prover = Arc::new(Prover { name: name.to_owned(), calls: Bucket::default() });
                taken.by_prover.insert(name.to_owned(), Arc::clone(&prover));
                prover
            }
        };
        if self.prover.set(prover).is_ok() {
            taken.leave(self.source);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.gate.taken();
        taken.all = taken.all.saturating_sub(1);
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        taken.unknown = taken.unknown.saturating_sub(usize::from(*unknown));
        match self.prover.take() {
            // The last of its connections: this one's, and the table's.
            Some(prover) if Arc::strong_count(&prover) <= 2 => drop(taken.by_prover.remove(&prover.name)),
            Some(_) => {}
            None if self.is_proxy => {}
            None => taken.leave(self.source),
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
        node.proved(Some("node"), Instant::now());
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
        first.proved(Some("node"), now);
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

    // spec: HT-220
    #[tokio::test(start_paused = true)]
    async fn a_64_is_one_source_of_connections() {
        let gate = gate(100, 8, 25);
        let now = Instant::now();
        let from = |n: u128| IpAddr::V6(std::net::Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | n));
        let held: Vec<_> = (0..1000).filter_map(|n| gate.enter(from(n), now)).collect();
        assert_eq!(held.len(), 8);
        assert!(gate.enter(from(1 << 64), now).is_some());
    }

    // spec: HT-221
    #[tokio::test(start_paused = true)]
    async fn forty_servers_behind_one_address_fit_and_one_node_has_a_bound() {
        let gate = gate(1000, 64, 25);
        let now = Instant::now();
        let prove = |name: &str| {
            let place = gate.enter(ip(1), now)?;
            place.proved(Some(name), now);
            Some(place)
        };
        let rack: Vec<_> = (0..80).filter_map(|n| prove(&format!("node{}", n / 2))).collect();
        assert_eq!(rack.len(), 80);
        let strangers: Vec<_> = (0..100).filter_map(|_| gate.enter(ip(1), now)).collect();
        assert_eq!(strangers.len(), 64, "what proved somebody takes none of their places");
        drop(strangers);
        // One key proves as many connections as it likes, and a few of them count for it alone.
        let one: Vec<_> = (0..500).filter_map(|_| prove("one")).collect();
        assert_eq!(one.len(), PER_PROVER + 64);
        drop((rack, one));
        let taken = gate.taken();
        assert_eq!((taken.all, taken.by_source.len(), taken.by_prover.len()), (0, 0, 0), "all places come back");
    }

    // spec: HT-222
    #[tokio::test(start_paused = true)]
    async fn calls_of_strangers_are_counted_by_source_and_those_of_a_node_apart() {
        let gate = gate(1000, 64, 25);
        let now = Instant::now();
        let calls = |place: &Permit, from: u32, at| (0..2000).filter(|_| place.may_call(ip(from), at)).count();
        let [stranger, node, second] = [1; 3].map(|from| gate.enter(ip(from), now).unwrap());
        node.proved(Some("node"), now);
        // A connection costs one as well.
        assert_eq!(calls(&stranger, 1, now), 256 - 3);
        assert!(gate.enter(ip(1), now).is_none());
        assert_eq!(calls(&second, 1, now), 0, "another connection of the source has no calls of its own");
        assert_eq!(calls(&node, 1, now), 256);
        second.proved(Some("node"), now);
        assert_eq!(calls(&second, 1, now), 0, "nor has another one of the node");
        assert_eq!(calls(&gate.enter(ip(2), now).unwrap(), 2, now), 255);
        assert_eq!(calls(&stranger, 1, now + Duration::from_secs(1)), 64);
        // Behind a proxy those it stands for are counted.
        let proxy = gate.enter("10.9.0.1".parse().unwrap(), now).unwrap();
        proxy.proved(Some("node"), now);
        assert_eq!((calls(&proxy, 5, now), calls(&proxy, 6, now)), (256, 256));
    }
}

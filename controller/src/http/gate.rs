//! How many connections there may be, and whose (design.md T1, threats.md H-2).
//!
//! A share is kept for addresses that proved a node lately: a flood from anywhere else fills its own share and costs
//! no known node a heartbeat. Places are given back by dropping the [`Permit`], on whatever path a connection ends.
//!
//! A connection counts for its source until a call over it proves somebody; from then on it counts for them, so that a
//! rack of servers behind one address is no crowd. Calls are counted the same way, and those of a known address apart
//! from all strangers'.
//!
//! Who proves makes few addresses known: a node with very many of them takes no more of the share than it would with some.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lucia_proto::base::limits::SOURCES_MAX;
use tokio::time::Instant;

use crate::config::{Connections, Network};
use crate::metrics::Places;
use crate::source::{Bucket, Buckets, Rate, Source};

/// How long an address counts as known after it proved a node: many heartbeats, and an outage of some minutes.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Known addresses remembered at most, and who proved them: as many as there may be nodes, and then some.
const KNOWN_MAX: usize = 16 * 1024;
/// Addresses that one node or person makes known; all tokens together as many.
const KNOWN_PER_PROVER: usize = 4;
/// Between two searches for what can be forgotten.
const SWEEP: Duration = Duration::from_secs(1);
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
    /// What strangers have left of it; a known source has its own, which no number of strangers uses up.
    calls: Mutex<Buckets<Source>>,
    begun: Instant,
    refused: AtomicU64,
    /// As `refused`, and never set back.
    refused_total: AtomicU64,
}

#[derive(Debug)]
struct Taken {
    all: usize,
    unknown: usize,
    /// Connections that proved nobody yet.
    by_source: BTreeMap<Source, usize>,
    /// Who proved something lately, whether connected or not; tokens under a name nobody has.
    by_prover: BTreeMap<String, Proven>,
    known: BTreeMap<Source, Known>,
    /// What known sources have left of the rate. It outlives their being known.
    known_calls: Buckets<Source>,
    swept: Option<Instant>,
    /// The number of the newest prover.
    number: u64,
}

/// A source that is known.
#[derive(Debug)]
struct Known {
    seen: Instant,
    /// In how many [`Proven::sources`] it is; none where a node called from there before the start.
    by: usize,
}

impl Known {
    fn new(seen: Instant) -> Self {
        Self { seen, by: 0 }
    }

    fn lately(&self, now: Instant) -> bool {
        now.duration_since(self.seen) < KNOWN_FOR
    }
}

#[derive(Debug)]
struct Proven {
    prover: Arc<Prover>,
    /// What it made known, the one proven longest ago first. Each is in `known`.
    sources: Vec<Source>,
}

impl Taken {
    const fn new(rate: Rate) -> Self {
        Self {
            all: 0,
            unknown: 0,
            by_source: BTreeMap::new(),
            by_prover: BTreeMap::new(),
            known: BTreeMap::new(),
            // Twice as many as are known at once, so that none of them shares one.
            known_calls: Buckets::new(rate, 2 * KNOWN_MAX),
            swept: None,
            number: 0,
        }
    }

    fn leave(&mut self, source: Source) {
        if let Some(count) = self.by_source.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    fn known(&self, source: Source, now: Instant) -> Option<&Known> {
        self.known.get(&source).filter(|known| known.lately(now))
    }

    /// Whether `name` is in the table of those who proved something, or has room there.
    fn has_room_for(&mut self, name: &str, now: Instant, since: Duration) -> bool {
        if self.by_prover.contains_key(name) {
            return true;
        }
        if self.by_prover.len() >= KNOWN_MAX {
            self.sweep(now, since);
        }
        if self.by_prover.len() >= KNOWN_MAX {
            return false;
        }
        self.number += 1;
        let prover = Arc::new(Prover { number: self.number, calls: Bucket::default() });
        self.by_prover.insert(name.to_owned(), Proven { prover, sources: Vec::new() });
        true
    }

    /// Makes `source` known by `name`, which has an entry. Of too many the one proven longest ago gives way, but none over
    /// which there are connections that proved nobody: they would stay, and those of the next come on top. Tells whether
    /// the source is known now.
    fn remember(&mut self, name: &str, source: Source, now: Instant, since: Duration) -> bool {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&source) {
            self.sweep(now, since);
        }
        let was_known = self.known(source, now).is_some();
        let Some(proven) = self.by_prover.get_mut(name) else { return was_known };
        if let Some(at) = proven.sources.iter().position(|one| *one == source) {
            if let Some(newest) = proven.sources.get_mut(at..) {
                newest.rotate_left(1);
            }
        } else {
            if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&source) {
                return false;
            }
            if proven.sources.len() >= KNOWN_PER_PROVER {
                let idle = proven.sources.iter().position(|one| !self.by_source.contains_key(one));
                let Some(at) = idle else { return was_known };
                let oldest = proven.sources.remove(at);
                if let Some(known) = self.known.get_mut(&oldest) {
                    known.by = known.by.saturating_sub(1);
                    if known.by == 0 {
                        self.known.remove(&oldest);
                    }
                }
            }
            proven.sources.push(source);
            self.known.entry(source).or_insert_with(|| Known::new(now)).by += 1;
        }
        if let Some(known) = self.known.get_mut(&source) {
            known.seen = now;
        }
        true
    }

    /// Forgets what is known no longer, and who has nothing there, no connection and all of its calls.
    fn sweep(&mut self, now: Instant, since: Duration) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.known.retain(|source, known| known.lately(now) || self.by_source.contains_key(source));
        self.by_prover.retain(|_, proven| {
            proven.sources.retain(|source| self.known.contains_key(source));
            let connected = Arc::strong_count(&proven.prover) > 1;
            connected || !proven.sources.is_empty() || !proven.prover.calls.is_full(since)
        });
    }
}

/// A node or person that proved something lately: their connections hold it as well.
#[derive(Debug)]
struct Prover {
    number: u64,
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
            taken: Mutex::new(Taken::new(rate)),
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
        let known = proxy || taken.known(source, now).is_some();
        let from_here = taken.by_source.get(&source).copied().unwrap_or(0);
        let for_unknown = self.limits.max.saturating_sub(self.limits.reserved);
        if taken.all >= self.limits.max
            || (!known && taken.unknown >= for_unknown)
            || (!proxy && from_here >= self.limits.per_source)
            // The handshake costs as much as a call. A connection that was closed with 429 brings no cheaper one.
            || (!proxy && !self.counts(&mut taken, source, now))
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

    /// Takes a call of this source that proved nobody, if there is one left.
    fn counts(&self, taken: &mut Taken, source: Source, now: Instant) -> bool {
        let since = self.since(now);
        if taken.known(source, now).is_some() {
            return taken.known_calls.take(&source, since);
        }
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).take(&source, since)
    }

    fn since(&self, now: Instant) -> Duration {
        now.duration_since(self.begun)
    }

    /// Where nodes called from before the start: they are known at once, so that a flood at a restart finds no fleet of
    /// strangers.
    pub(super) fn remember(&self, addresses: impl IntoIterator<Item = IpAddr>, now: Instant) {
        let mut taken = self.taken();
        let room = KNOWN_MAX.saturating_sub(taken.known.len());
        for address in addresses.into_iter().take(room) {
            taken.known.entry(Source::of(address)).or_insert_with(|| Known::new(now)).seen = now;
        }
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
        own || taken.known(source, now).is_some()
    }

    /// Who was proven over this connection, by a number that is theirs alone; nobody behind a proxy.
    pub(super) fn prover(&self) -> Option<u64> {
        self.prover.get().map(|prover| prover.number)
    }

    /// Whether one more call over this connection, of `from`, is answered: somebody proven has a rate of their own, and all
    /// others of one source have one together.
    pub(super) fn may_call(&self, from: IpAddr, now: Instant) -> bool {
        match self.prover.get() {
            Some(prover) => prover.calls.take(self.gate.rate, self.gate.since(now)),
            None => self.gate.counts(&mut self.gate.taken(), Source::of(from), now),
        }
    }

    /// A call over this connection, of `from`, proved a node, or somebody of the roster, whose `name` is told unless a token
    /// spoke for them: the source is known from now on, and this place no longer counts among those of strangers, as far
    /// as they may have both. A proxy does not become known by whom it stands for.
    pub(super) fn proved(&self, from: IpAddr, name: Option<&str>, now: Instant) {
        let source = if self.is_proxy { Source::of(from) } else { self.source };
        let since = self.gate.since(now);
        let mut guard = self.gate.taken();
        let taken = &mut *guard;
        let listed = name.unwrap_or_default();
        if !taken.has_room_for(listed, now, since) {
            return;
        }
        if name.is_some()
            && !self.is_proxy
            && self.prover.get().is_none()
            && let Some(proven) = taken.by_prover.get(listed)
            // Each of its connections holds one, and the table one.
            && Arc::strong_count(&proven.prover) <= PER_PROVER
            && self.prover.set(Arc::clone(&proven.prover)).is_ok()
        {
            taken.leave(self.source);
        }
        let is_proxy_itself = self.is_proxy && source == self.source;
        let known = !is_proxy_itself && taken.remember(listed, source, now, since);
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if *unknown && (known || self.prover.get().is_some()) {
            *unknown = false;
            taken.unknown = taken.unknown.saturating_sub(1);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.gate.taken();
        taken.all = taken.all.saturating_sub(1);
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        taken.unknown = taken.unknown.saturating_sub(usize::from(*unknown));
        if !self.is_proxy && self.prover.get().is_none() {
            taken.leave(self.source);
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
        node.proved(ip(1), Some("node"), Instant::now());
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
        first.proved(ip(1), Some("node"), now);
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
            place.proved(ip(1), Some(name), now);
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
        assert_eq!((taken.all, taken.by_source.len()), (0, 0), "all places come back");
    }

    // spec: HT-222
    #[tokio::test(start_paused = true)]
    async fn calls_of_strangers_are_counted_by_source_and_those_of_a_node_apart() {
        let gate = gate(1000, 64, 25);
        let now = Instant::now();
        let calls = |place: &Permit, from: u32, at| (0..2000).filter(|_| place.may_call(ip(from), at)).count();
        let [stranger, node, second] = [1; 3].map(|from| gate.enter(ip(from), now).unwrap());
        node.proved(ip(1), Some("node"), now);
        // A connection costs one as well.
        assert_eq!(calls(&second, 2, now), 256, "of a source that is not known");
        assert_eq!(calls(&stranger, 1, now), 256, "a source that became known has a count of its own");
        assert!(gate.enter(ip(1), now).is_none());
        assert_eq!(calls(&second, 1, now), 0, "another connection of the source has no calls of its own");
        assert_eq!(calls(&node, 1, now), 256);
        second.proved(ip(1), Some("node"), now);
        assert_eq!(calls(&second, 1, now), 0, "nor has another one of the node");
        assert_eq!(calls(&gate.enter(ip(3), now).unwrap(), 3, now), 255);
        assert_eq!(calls(&stranger, 1, now + Duration::from_secs(1)), 64);
        // Behind a proxy those it stands for are counted.
        let proxy = gate.enter("10.9.0.1".parse().unwrap(), now).unwrap();
        proxy.proved(ip(5), Some("node"), now);
        assert_eq!((calls(&proxy, 5, now), calls(&proxy, 6, now)), (256, 256));
    }

    fn net(n: u32) -> IpAddr {
        IpAddr::V6(std::net::Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) | (u128::from(n) << 64)))
    }

    // spec: HT-365
    #[tokio::test(start_paused = true)]
    async fn strangers_of_very_many_sources_shut_no_known_source_out() {
        let gate = gate(2048, 64, 512);
        let now = Instant::now();
        gate.remember([ip(1)], now);
        let node = gate.enter(ip(2), now).unwrap();
        node.proved(ip(2), Some("node"), now);
        drop(node);
        let fill = || (0..20_000).filter(|n| gate.enter(net(*n), Instant::now()).is_some()).count();
        assert!(fill() < 20_000, "what strangers share is used up");
        for _ in 0..5 {
            tokio::time::advance(Duration::from_millis(20)).await;
            fill();
            assert!(gate.enter(ip(3), Instant::now()).is_none(), "a stranger waits");
            for known in [ip(1), ip(2)] {
                let place = gate.enter(known, Instant::now()).expect("a known source comes in");
                assert!(place.may_call(known, Instant::now()), "and asks for a challenge");
            }
        }
        let again = (0..1000).filter(|_| gate.enter(ip(1), Instant::now()).is_some()).count();
        assert!((240..=256).contains(&again), "it has the same rate as any: {again}");
    }

    // spec: HT-366
    #[tokio::test(start_paused = true)]
    async fn a_node_that_connects_again_has_no_more_calls_by_that() {
        let gate = gate(1000, 64, 25);
        let calls = || {
            let now = Instant::now();
            let place = gate.enter(ip(1), now).unwrap();
            place.proved(ip(1), Some("node"), now);
            (0..2000).filter(|_| place.may_call(ip(1), now)).count()
        };
        assert_eq!((calls(), calls(), calls()), (256, 0, 0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((calls(), calls()), (64, 0));
    }

    // spec: HT-367
    #[tokio::test(start_paused = true)]
    async fn a_node_behind_a_proxy_is_known_by_its_own_address() {
        let gate = gate(1000, 64, 25);
        let now = Instant::now();
        let at: IpAddr = "10.9.0.1".parse().unwrap();
        let proxy = gate.enter(at, now).unwrap();
        assert!(!proxy.knows(ip(5), now));
        proxy.proved(ip(5), Some("node"), now);
        proxy.proved(at, Some("other"), now);
        assert!(proxy.knows(ip(5), now));
        assert!(!proxy.knows(ip(6), now), "whoever else calls through the proxy is not known by that");
        assert!(!gate.taken().known.contains_key(&Source::of(at)), "nor is the proxy");
    }

    // spec: HT-368
    #[tokio::test(start_paused = true)]
    async fn one_node_makes_few_sources_known_and_the_oldest_gives_way() {
        let gate = gate(2048, 64, 512);
        let now = Instant::now();
        let prove = |n: u32| gate.enter(net(n), now).map(|place| place.proved(net(n), Some("node"), now));
        let known = || (0..32).filter(|n| gate.taken().known.contains_key(&Source::of(net(*n)))).collect::<Vec<_>>();
        for n in [0, 1, 2, 3, 0, 4] {
            prove(n).unwrap();
        }
        assert_eq!(known(), [0, 2, 3, 4], "the one proven longest ago is forgotten");
        // Whoever else proved it keeps it known.
        gate.enter(net(2), now).unwrap().proved(net(2), Some("other"), now);
        prove(5).unwrap();
        prove(6).unwrap();
        assert_eq!(known(), [0, 2, 4, 5, 6]);
        let mut held = Vec::new();
        for n in 100..132 {
            let _ = prove(n);
            held.extend((0..64).filter_map(|_| gate.enter(net(n), now)));
        }
        let places = gate.places();
        assert!(places.all - places.unknown <= 4 * 64, "{places:?}");
        // Nor by waiting, nor by proving over each of them.
        held.truncate(4 * 64);
        tokio::time::advance(KNOWN_FOR).await;
        let now = Instant::now();
        for n in 200..232 {
            for _ in 0..64 {
                let Some(place) = gate.enter(net(n), now) else { break };
                place.proved(net(n), Some("node"), now);
                held.push(place);
            }
        }
        let places = gate.places();
        assert!(places.all - places.unknown <= 4 * 64 + 16, "{places:?}");
        gate.remember([ip(1)], now);
        assert!(gate.enter(ip(1), now).is_some(), "another node finds a place");
        drop(held);
        let taken = gate.taken();
        assert_eq!((taken.all, taken.unknown, taken.by_source.len()), (0, 0, 0), "all places come back");
    }

    // spec: HT-369
    #[tokio::test(start_paused = true)]
    async fn bytes_of_a_proven_node_are_its_own_from_whatever_source() {
        use super::super::budget::Holder;
        use super::super::site::{Peer, holder};
        let gate = gate(1000, 64, 25);
        let now = Instant::now();
        let whose = |n: u32, name: Option<&str>| {
            let place = gate.enter(net(n), now).unwrap();
            if name.is_some() {
                place.proved(net(n), name, now);
            }
            let peer = Peer::Network(Arc::new(place), net(n));
            (holder(&peer, Some(net(n))), peer)
        };
        let all: Vec<_> = (0..PER_PROVER).map(|n| whose(u32::try_from(n).unwrap(), Some("node"))).collect();
        assert!(all.iter().all(|(one, _)| *one == all[0].0), "{all:?}");
        assert_ne!(whose(0, Some("other")).0, all[0].0, "another node of the source has its own");
        assert_eq!(whose(0, None).0, Holder::Known(Source::of(net(0))));
        assert_eq!(whose(99, None).0, Holder::Stranger(Source::of(net(99))));
    }

    // spec: HT-366
    #[tokio::test(start_paused = true)]
    async fn who_proved_something_is_remembered_within_a_bound_and_forgotten_in_time() {
        let gate = gate(100, 64, 25);
        let proxy = gate.enter("10.9.0.1".parse().unwrap(), Instant::now()).unwrap();
        let prove = |n: u32| proxy.proved(net(n), Some(&format!("node{n}")), Instant::now());
        let sizes = || {
            let taken = gate.taken();
            (taken.by_prover.len(), taken.known.len())
        };
        (0..20_000).for_each(prove);
        assert_eq!(sizes(), (KNOWN_MAX, KNOWN_MAX));
        tokio::time::advance(KNOWN_FOR).await;
        prove(20_000);
        assert_eq!(sizes(), (1, 1));
    }
}

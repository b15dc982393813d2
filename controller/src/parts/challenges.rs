//! Challenges that are not stored (design.md I1): an id that only we can have made, a nonce recomputed from it, and a
//! set of the ids that were used in the last two minutes.
//!
//! A flood of requests for challenges, or of proofs over made-up ones, leaves nothing in memory and meets no public-key
//! work. Age is measured by `CLOCK_BOOTTIME`, so no step of the wall clock makes a challenge older or younger.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{CHALLENGE_LIFETIME, PROOFS_PER_SECOND, SOURCES_MAX};
use lucia_proto::base::time::Clock;
use lucia_proto::node::challenge::{ChallengeId, NextChallenge, Nonce, Scope};
use lucia_proto::orders::owner::OwnerId;
use ring::hmac;

use crate::config::SourceBinding;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::source::{Bucket, Buckets, Rate, Source};

/// Bits of an id's tag: a made-up id passes once in 2^48.
const TAG_BITS: u32 = 48;
/// Bits of the counter that tells ids of one millisecond apart.
const COUNTER_BITS: u32 = 26;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
/// Accepted discoveries of unknown keys from one source in one second: a room full of machines.
const DISCOVERIES_PER_SOURCE: u32 = 20;
/// The same of all sources together: a bound on the used set. It takes twenty sources to reach it.
const DISCOVERIES_PER_SECOND: u32 = 400;
const SECOND: Duration = Duration::from_secs(1);
const ID_LABEL: &[u8] = b"lucia-challenge-id-v1";
const NONCE_LABEL: &[u8] = b"lucia-nonce-v1";

/// Issues and checks challenges. Several controllers would have to share the key and the used ids.
pub struct Challenges {
    key: hmac::Key,
    clock: Arc<dyn Clock>,
    binding: SourceBinding,
    /// Wall time less time since boot, in milliseconds, as it was at the start.
    origin: i128,
    counter: AtomicU64,
    used: Mutex<Used>,
}

/// Whose proof uses a challenge up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<'a> {
    /// That of a device or node the journal knows.
    Device(&'a NodeId),
    /// That of somebody of the roster.
    Owner(&'a OwnerId),
    /// That of a key nobody knows.
    Stranger(Source),
}

struct Used {
    /// Each id as [`in_order`] makes it one number, so that the oldest come first and none takes over 16 bytes.
    ids: BTreeSet<u128>,
    /// Only who is known gets into these two, so there are no more than there may be devices and owners.
    devices: Buckets<NodeId>,
    owners: Buckets<OwnerId>,
    strangers: Buckets<Source>,
    all_strangers: Bucket,
}

impl Default for Used {
    fn default() -> Self {
        let proofs = Rate::new(PROOFS_PER_SECOND, SECOND);
        Self {
            ids: BTreeSet::new(),
            devices: Buckets::new(proofs, usize::MAX),
            owners: Buckets::new(proofs, usize::MAX),
            strangers: Buckets::new(Rate::new(DISCOVERIES_PER_SOURCE, SECOND), SOURCES_MAX),
            all_strangers: Bucket::default(),
        }
    }
}

impl Used {
    /// One call more, if this one has one left.
    fn count(&mut self, whose: Whose<'_>, now: Duration) -> Result<(), Refusal> {
        let (most, allowed) = match whose {
            Whose::Device(id) => (PROOFS_PER_SECOND, self.devices.take(id, now)),
            Whose::Owner(id) => (PROOFS_PER_SECOND, self.owners.take(id, now)),
            Whose::Stranger(source) => {
                let all = Rate::new(DISCOVERIES_PER_SECOND, SECOND);
                let allowed = self.strangers.take(&source, now) && self.all_strangers.take(all, now);
                (DISCOVERIES_PER_SOURCE, allowed)
            }
        };
        if allowed {
            return Ok(());
        }
        Err(Refusal::new(Code::TooManyRequests, format!("More than {most} calls in one second.")))
    }
}

impl Challenges {
    pub(crate) fn new(secret: &[u8; 32], binding: SourceBinding, clock: Arc<dyn Clock>) -> Self {
        let origin = i128::from(clock.now().secs()) * 1000 - millis(clock.since_boot());
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            clock,
            binding,
            origin,
            counter: AtomicU64::new(0),
            used: Mutex::default(),
        }
    }

    /// A challenge for `scope`, to travel in each answer and each refusal with `challenge_refused`; also the answer to
    /// `GET .../challenge` of a device or node, whatever its id.
    pub fn issue(&self, scope: &Scope, from: IpAddr) -> NextChallenge {
        let at = self.server_millis();
        let counter = self.counter.fetch_add(1, Ordering::Relaxed) & COUNTER_MASK;
        let address = self.address(from);
        let rest = (u128::from(counter) << TAG_BITS) | u128::from(self.tag(at, counter, scope, &address));
        let challenge_id = ChallengeId::from_parts(at, rest);
        let nonce = self.nonce(&challenge_id, scope, &address);
        // The wall clock, so that a machine that was started with a wrong one tells the right one once it has it.
        let server_time = self.clock.now();
        NextChallenge { challenge_id, nonce, expires_at: server_time.plus(CHALLENGE_LIFETIME), server_time }
    }

    /// The nonce of a challenge that we made for this scope and caller less than two minutes ago and that was not used.
    pub(crate) fn open(&self, id: &ChallengeId, scope: &Scope, from: IpAddr) -> Result<Nonce, Refusal> {
        let (at, rest) = id.parts();
        let address = self.address(from);
        let counter = u64::try_from(rest >> TAG_BITS).unwrap_or(u64::MAX);
        let tag = u64::try_from(rest & ((1 << TAG_BITS) - 1)).unwrap_or(u64::MAX);
        // One comparison of two whole numbers: it takes as long whichever bit differs.
        if self.tag(at, counter, scope, &address) ^ tag != 0 {
            return Err(Refusal::challenge(
                "the challenge is not ours, of another scope or address, or from before the restart",
            ));
        }
        if self.is_over(at) {
            return Err(Refusal::challenge("the challenge is older than two minutes"));
        }
        if lock(&self.used).ids.contains(&in_order(at, rest)) {
            return Err(Refusal::challenge("the challenge was used"));
        }
        Ok(self.nonce(id, scope, &address))
    }

    /// Counts a call of this owner that comes without a challenge, at the same rate.
    pub(crate) fn count_owner(&self, owner: &OwnerId) -> Result<(), Refusal> {
        lock(&self.used).count(Whose::Owner(owner), self.clock.since_boot())
    }

    /// Uses a challenge whose proof is good. Of two at the same time one wins.
    pub(crate) fn accept(&self, id: &ChallengeId, whose: Whose<'_>) -> Result<(), Refusal> {
        let (at, rest) = id.parts();
        let mut used = lock(&self.used);
        // Again, and under the lock: what is forgotten because of its age must not be taken for new.
        if self.is_over(at) {
            return Err(Refusal::challenge("the challenge is older than two minutes"));
        }
        if used.ids.contains(&in_order(at, rest)) {
            return Err(Refusal::challenge("the challenge was used"));
        }
        used.count(whose, self.clock.since_boot())?;
        used.ids.insert(in_order(at, rest));
        Ok(())
    }

    /// Forgets used ids that their age refuses anyway.
    pub(crate) fn forget(&self) {
        let now = self.server_millis();
        let oldest = now.saturating_sub(lifetime_millis());
        let mut used = lock(&self.used);
        used.ids = used.ids.split_off(&in_order(oldest, 0));
        let now = self.clock.since_boot();
        used.devices.forget(now);
        used.owners.forget(now);
        used.strangers.forget(now);
    }

    /// Used ids remembered now.
    pub(crate) fn remembered(&self) -> usize {
        lock(&self.used).ids.len()
    }

    /// Wall time at the start plus time since: never jumps while we run.
    fn server_millis(&self) -> u64 {
        u64::try_from(self.origin + millis(self.clock.since_boot())).unwrap_or(0)
    }

    fn is_over(&self, at: u64) -> bool {
        let now = self.server_millis();
        at > now || now - at > lifetime_millis()
    }

    fn address(&self, from: IpAddr) -> String {
        match self.binding {
            SourceBinding::Strict => from.to_canonical().to_string(),
            SourceBinding::Log | SourceBinding::Off => String::new(),
        }
    }

    fn tag(&self, at: u64, counter: u64, scope: &Scope, address: &str) -> u64 {
        let (at, counter) = (at.to_be_bytes(), counter.to_be_bytes());
        let parts: [&[u8]; 6] = [ID_LABEL, &at, &counter, scope.as_str().as_bytes(), b"\0", address.as_bytes()];
        let tag = self.mac(&parts);
        tag.as_ref().iter().take(6).fold(0, |value, byte| (value << 8) | u64::from(*byte))
    }

    fn nonce(&self, id: &ChallengeId, scope: &Scope, address: &str) -> Nonce {
        let parts: [&[u8]; 7] =
            [NONCE_LABEL, b"\0", id.as_str().as_bytes(), b"\0", scope.as_str().as_bytes(), b"\0", address.as_bytes()];
        let tag = self.mac(&parts);
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        Nonce::from_bytes(&bytes)
    }

    fn mac(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }
}

/// In which order an id was issued: grows with time, and no two are equal.
pub(super) fn order(id: &ChallengeId) -> u128 {
    let (at, rest) = id.parts();
    in_order(at, rest)
}

/// Time and rest of an id in one number that grows with time: 48 and 74 bits.
const fn in_order(at: u64, rest: u128) -> u128 {
    ((at as u128) << (COUNTER_BITS + TAG_BITS)) | rest
}

fn millis(span: Duration) -> i128 {
    i128::try_from(span.as_millis()).unwrap_or(i128::MAX)
}

fn lifetime_millis() -> u64 {
    u64::try_from(CHALLENGE_LIFETIME.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

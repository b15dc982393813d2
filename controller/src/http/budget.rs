//! How many bytes of bodies and answers there may be at once, and whose (threats.md H-2).
//!
//! Strangers share what the known do not keep for themselves, and one source has a part of that, so that whoever holds
//! connections open with bodies that never end costs neither a node a call nor another stranger a first contact. Bytes
//! are given back by dropping the [`Hold`], on whatever path a call ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use lucia_proto::base::code::Code;

use super::error::ApiError;
use crate::source::Source;

/// A body or an answer up to this size is part of what its connection takes anyway: heartbeats ask for nothing here.
pub(super) const SMALL: usize = 8 * 1024;
/// Everything larger, in all.
pub(super) const BODIES_MAX: usize = 32 * 1024 * 1024;
/// Of it, how much only those may take who proved who they are.
const RESERVED: usize = 8 * 1024 * 1024;
/// Of what strangers share, how much one source takes: as many sources fill it as fill the strangers' connections.
const PER_STRANGER: usize = (BODIES_MAX - RESERVED) / 24;
/// How much one known source takes beside its first body or answer, which may be of any size.
const PER_KNOWN: usize = 2 * 1024 * 1024;

/// Whose bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// Somebody who proved nothing yet.
    Stranger(Source),
    /// A source that proved a node or an owner lately.
    Known(Source),
    /// The node or owner proven over this connection, from whatever source.
    Proven(u64),
    /// Somebody on the operator's socket.
    Operator,
}

/// The bytes there are.
#[derive(Debug, Default)]
pub(super) struct Budget(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    strangers: usize,
    by_holder: BTreeMap<Holder, usize>,
}

/// Bytes that are taken, given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: usize,
}

impl Budget {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` for `holder`; nothing where they are few.
    ///
    /// # Errors
    /// `too_many_requests` when this source has its part, `busy` when there are none left.
    pub(super) fn take(
        self: &Arc<Self>,
        holder: impl FnOnce() -> Holder,
        bytes: usize,
    ) -> Result<Option<Hold>, ApiError> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let holder = holder();
        let mut guard = self.taken();
        let taken = &mut *guard;
        let held = taken.by_holder.get(&holder).copied().unwrap_or(0);
        let (is_stranger, has_its_part) = match holder {
            Holder::Stranger(_) => (true, held + bytes > PER_STRANGER),
            Holder::Known(_) | Holder::Proven(_) | Holder::Operator => (false, held > 0 && held + bytes > PER_KNOWN),
        };
        if has_its_part {
            let message = "this address has as many bytes under way as it may; call again when they are answered";
            return Err(ApiError::new(Code::TooManyRequests, message).closing());
        }
        if taken.all + bytes > BODIES_MAX || (is_stranger && taken.strangers + bytes > BODIES_MAX - RESERVED) {
            let message = "the controller has as many bytes under way as it takes; call again later";
            return Err(ApiError::new(Code::Busy, message).closing());
        }
        taken.all += bytes;
        taken.strangers += if is_stranger { bytes } else { 0 };
        taken.by_holder.insert(holder, held + bytes);
        Ok(Some(Hold { budget: Arc::clone(self), holder, bytes }))
    }
}

impl Hold {
    /// `bytes`, which give it back when the last of them is written.
    pub(super) fn around(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(HeldBytes { bytes, _hold: self })
    }
}

/// Bytes and what they take.
struct HeldBytes {
    bytes: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut taken = self.budget.taken();
        taken.all = taken.all.saturating_sub(self.bytes);
        if matches!(self.holder, Holder::Stranger(_)) {
            taken.strangers = taken.strangers.saturating_sub(self.bytes);
        }
        if let Some(held) = taken.by_holder.get_mut(&self.holder) {
            *held = held.saturating_sub(self.bytes);
            if *held == 0 {
                taken.by_holder.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::base::limits::{BODY_MAX, DISCOVER_BODY_MAX};

    fn ip(last: u32) -> Source {
        Source::of(std::net::Ipv4Addr::from_bits(0x0a00_0000 + last).into())
    }

    /// As many as `holder` gets of this size, and why it gets no more.
    fn fill(budget: &Arc<Budget>, holder: Holder, bytes: usize) -> (Vec<Hold>, Code) {
        let mut held = Vec::new();
        loop {
            match budget.take(|| holder, bytes) {
                Ok(hold) => held.push(hold.unwrap()),
                Err(error) => return (held, error.code),
            }
        }
    }

    // spec: HT-213
    #[test]
    fn strangers_leave_the_known_their_share_and_one_source_leaves_others_theirs() {
        let budget = Arc::<Budget>::default();
        let (one, why) = fill(&budget, Holder::Stranger(ip(1)), DISCOVER_BODY_MAX);
        assert_eq!((one.len() * DISCOVER_BODY_MAX <= PER_STRANGER, why), (true, Code::TooManyRequests));
        assert!(one.len() >= 3, "{}", one.len());
        let mut flood: Vec<Hold> =
            (2..30).flat_map(|n| fill(&budget, Holder::Stranger(ip(n)), DISCOVER_BODY_MAX).0).collect();
        assert!(flood.len() >= 23 * one.len(), "{} bodies of other sources", flood.len());
        for n in 30..99 {
            flood.extend(fill(&budget, Holder::Stranger(ip(n)), SMALL + 1).0);
        }
        assert_eq!(budget.take(|| Holder::Stranger(ip(99)), BODY_MAX).unwrap_err().code, Code::Busy);
        assert!(budget.take(|| Holder::Stranger(ip(99)), SMALL).unwrap().is_none(), "what is small takes nothing");
        assert!(budget.taken().all <= BODIES_MAX - RESERVED);
        let nodes: Vec<_> = (100..180).map(|n| budget.take(|| Holder::Known(ip(n)), BODY_MAX)).collect();
        assert!(nodes.iter().all(Result::is_ok), "eighty nodes at once find room");
        assert!(budget.take(|| Holder::Operator, RESERVED / 8).is_ok());
        drop((one, flood, nodes));
        let taken = budget.taken();
        assert_eq!((taken.all, taken.strangers, taken.by_holder.len()), (0, 0, 0));
    }

    // spec: HT-213
    #[test]
    fn the_known_are_bounded_too_and_one_large_answer_is_not() {
        let budget = Arc::<Budget>::default();
        let (held, why) = fill(&budget, Holder::Known(ip(1)), BODY_MAX);
        assert_eq!((held.len() * BODY_MAX <= PER_KNOWN, why), (true, Code::TooManyRequests));
        let large = budget.take(|| Holder::Operator, RESERVED).unwrap();
        assert_eq!(budget.take(|| Holder::Operator, SMALL + 1).unwrap_err().code, Code::TooManyRequests);
        drop(large);
        let all: Vec<Hold> = (2..).map_while(|n| budget.take(|| Holder::Known(ip(n)), RESERVED / 4).ok()?).collect();
        assert!(all.len() <= BODIES_MAX / (RESERVED / 4));
        assert_eq!(budget.take(|| Holder::Known(ip(99)), RESERVED).unwrap_err().code, Code::Busy);
    }
}

//! One line in the log for each refusal, up to so many in a second; what is over is counted by code and told once.
//!
//! Anybody who reaches the port causes refusals, as fast as the network carries them. A line each would cost more than
//! the refusal itself and push everything else out of the journal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lucia_proto::base::code::Code;
use tokio::time::{Duration, Instant};

use crate::source::{Bucket, Rate};

/// Lines of their own in one second: what a person could still read, and any honest fleet's refusals.
const LINES_A_SECOND: u32 = 50;
const SECOND: Duration = Duration::from_secs(1);

/// Decides which refusals get a line.
#[derive(Debug)]
pub(super) struct Refusals {
    begun: Instant,
    state: Mutex<State>,
    /// Every refusal since the start, in the order of [`Code::ALL`].
    totals: Vec<AtomicU64>,
}

#[derive(Debug)]
struct State {
    lines: Bucket,
    more: BTreeMap<Code, u64>,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            begun: now,
            state: Mutex::new(State { lines: Bucket::default(), more: BTreeMap::new() }),
            totals: Code::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Refusals since the start by code: each code, also those that were never used.
    pub(super) fn totals(&self) -> Vec<(Code, u64)> {
        Code::ALL.iter().copied().zip(self.totals.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }

    /// Whether this refusal gets its line; otherwise it is counted.
    pub(super) fn gets_line(&self, code: Code, now: Instant) -> bool {
        if let Some((_, count)) = Code::ALL.iter().zip(&self.totals).find(|(known, _)| **known == code) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.lines.take(Rate::new(LINES_A_SECOND, SECOND), now.duration_since(self.begun)) {
            return true;
        }
        *state.more.entry(code).or_default() += 1;
        false
    }

    /// What was only counted since this was last asked, as `challenge_refused 4312, not_found 7`.
    pub(super) fn take_counted(&self) -> Option<String> {
        let more = std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).more);
        let mut text = String::new();
        for (code, count) in more {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}{} {count}", code.as_str());
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HT-28
    #[test]
    fn a_flood_of_refusals_is_fifty_lines_a_second_and_a_count() {
        let start = Instant::now();
        let refusals = Refusals::new(start);
        let lines = |code, now| (0..1000).filter(|_| refusals.gets_line(code, now)).count();
        assert_eq!(lines(Code::ChallengeRefused, start), 50);
        assert_eq!(lines(Code::NotFound, start), 0);
        assert_eq!(refusals.take_counted().as_deref(), Some("challenge_refused 950, not_found 1000"));
        assert_eq!(refusals.take_counted(), None);
        assert!(refusals.totals().contains(&(Code::ChallengeRefused, 1000)));
        // They come back evenly.
        assert_eq!(lines(Code::NotFound, start + SECOND / 2), 25);
        assert_eq!(lines(Code::NotFound, start + SECOND * 2), 50);
    }
}

//! How much of a turn the directory gets. One that answers slowly, but answers, must not stretch a turn to the watchdog's
//! 60 s: what is not begun in time is done in the next turn.
//!
//! Answers to nodes and the look at all readers have a share each, so that neither starves the other. A question takes 6 s
//! at most: a turn spends 4 + 6 s on the one, and on the other 2 + 6 s and one change more. With the three questions of 8 s
//! to a CA that is 48 s, where both are at their worst.

use std::time::Duration;

/// For as long questions are begun for nodes that are to be answered.
pub const ANSWERS: Duration = Duration::from_secs(4);
/// For as long questions are begun in a look at all readers.
pub const LOOK: Duration = Duration::from_secs(2);
/// A question that takes as long as this is worth a sentence.
pub const SLOW: Duration = Duration::from_secs(1);

/// Time that only goes on, from some beginning of its own.
pub type Stopwatch = Box<dyn Fn() -> Duration + Send>;

/// What is left of a share.
pub struct Budget {
    stopwatch: Stopwatch,
    share: Duration,
    spent: Duration,
    questions: u32,
}

impl Budget {
    /// A share that is whole.
    #[must_use]
    pub fn new(stopwatch: Stopwatch) -> Self {
        Self { stopwatch, share: ANSWERS, spent: Duration::ZERO, questions: 0 }
    }

    /// Begins with another share.
    pub fn begin(&mut self, share: Duration) {
        (self.share, self.spent, self.questions) = (share, Duration::ZERO, 0);
    }

    /// Whether another question may be begun; the first always may.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.spent < self.share
    }

    /// Whether it is used up by a few questions that took long, and not by many.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        !self.has_room() && self.spent >= SLOW * self.questions
    }

    /// Asks, and counts the time it takes.
    pub fn spend<T>(&mut self, question: impl FnOnce() -> T) -> T {
        let from = (self.stopwatch)();
        let answer = question();
        self.spent += (self.stopwatch)().saturating_sub(from);
        self.questions += 1;
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn only_a_share_that_few_questions_used_up_is_slow() {
        for (millis, questions, slow) in [(10, 400, false), (500, 8, false), (1000, 4, true), (6000, 1, true)] {
            let clock = Arc::new(AtomicU64::new(7));
            let seen = Arc::clone(&clock);
            let mut budget = Budget::new(Box::new(move || Duration::from_millis(seen.load(Ordering::Relaxed))));
            let mut asked = 0;
            while budget.has_room() && asked < 1000 {
                budget.spend(|| clock.fetch_add(millis, Ordering::Relaxed));
                asked += 1;
            }
            assert_eq!((asked, budget.is_slow()), (questions, slow), "{millis}");
            budget.begin(LOOK);
            assert!(budget.has_room() && !budget.is_slow());
        }
    }
}

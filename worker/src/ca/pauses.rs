//! When a CA of somebody else's that failed is asked again (threats.md F-15), and how often within one turn.
//!
//! A CA that is away, slow or broken is left alone as a whole. One that refused, or answered something that is not this
//! node's leaf, is left alone about that node only: what one request brings about must not hold up the others.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_proto::base::time::UnixTime;

use super::contract::{Ca, CaError, Trust};
use super::step::StepError;
use crate::chain;

/// First pause after a failure, doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(30);
/// A CA that is well again is noticed within this.
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// Questions in one turn. Each may take its 8 s: a turn must end well within the 45 s of the worker's status.
const A_TURN: u8 = 3;
/// Nodes remembered as refused; beyond it one of them is forgotten, and asked about sooner.
const NODES_MAX: usize = 4096;

/// One pause: until when, how long it was, and why.
#[derive(Clone, Debug)]
struct Pause {
    until: UnixTime,
    length: Duration,
    why: String,
}

/// What is waited for.
#[derive(Debug, Default)]
pub struct Pauses {
    all: Option<Pause>,
    /// By node, or `endpoint`.
    one: BTreeMap<String, Pause>,
    asked: u8,
}

impl Pauses {
    /// Another turn: there is room again for questions, and what is long over is forgotten.
    pub fn turn(&mut self, now: UnixTime) {
        self.asked = 0;
        self.one.retain(|_, pause| now.since(pause.until) <= PAUSE_MAX);
    }

    /// What is wrong with the CA as a whole, while it is.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.all.as_ref().map(|pause| pause.why.as_str())
    }

    /// Whether the CA may be asked now. Our own always may.
    ///
    /// # Errors
    /// [`CaError::Waits`]: it is left alone just now. [`CaError::NextTurn`]: it had its questions of this turn.
    pub fn may(&self, ca: &dyn Ca, about: &str, now: UnixTime) -> Result<(), CaError> {
        if ca.trust() == Trust::Own {
            return Ok(());
        }
        for pause in self.all.iter().chain(self.one.get(about)) {
            // A clock that was set back does not make the wait longer.
            if now < pause.until && pause.until.since(now) <= pause.length {
                return Err(CaError::Waits { at: pause.until, before: pause.why.clone() });
            }
        }
        if self.asked >= A_TURN { Err(CaError::NextTurn) } else { Ok(()) }
    }

    /// Asks the CA, if it may be asked now.
    ///
    /// # Errors
    /// As [`Pauses::may`], or the question's own.
    pub fn ask<T>(
        &mut self,
        ca: &dyn Ca,
        about: &str,
        now: UnixTime,
        question: impl FnOnce(&dyn Ca) -> Result<T, CaError>,
    ) -> Result<T, CaError> {
        self.may(ca, about, now)?;
        if ca.trust() == Trust::Own {
            return question(ca);
        }
        self.asked += 1;
        let answer = question(ca);
        match &answer {
            Ok(_) => {
                self.all = None;
                self.one.remove(about);
            }
            Err(error) if is_of_all(error) => self.all = Some(longer(self.all.as_ref(), error, now)),
            Err(error) => {
                // It answered.
                self.all = None;
                let pause = longer(self.one.get(about), error, now);
                if self.one.len() >= NODES_MAX && !self.one.contains_key(about) {
                    self.one.pop_first();
                }
                self.one.insert(about.to_owned(), pause);
            }
        }
        answer
    }
}

fn longer(before: Option<&Pause>, error: &CaError, now: UnixTime) -> Pause {
    let length = before.map_or(PAUSE, |pause| (pause.length * 2).min(PAUSE_MAX));
    Pause { until: now.plus(length), length, why: chain(error) }
}

/// Whether the failure is the CA's and not one request's.
fn is_of_all(error: &CaError) -> bool {
    match error {
        CaError::Step(error) => !matches!(error, StepError::Refused { .. }),
        CaError::Ended { .. } | CaError::Random => true,
        _ => false,
    }
}

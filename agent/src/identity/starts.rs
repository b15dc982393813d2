//! The starts of this agent, by which two machines with one state are told apart (design.md I8).
//!
//! | what happened before this start | what it is |
//! |---|---|
//! | there was none | a new start without predecessors |
//! | the last one is not known: `starts.json` was lost | as after an answer, from the one start that `status.json` has; without that a new start without predecessors, by which the controller knows a loss |
//! | the last one was never answered | the same start again: nobody can tell the two apart, and nobody needs to |
//! | the last one was answered | a new start that names it, and its predecessors |
//!
//! What is said is on the disk before it is said. The chain value of the last reply is kept in memory alone, and used only
//! after the disk says that this start was answered: so a start that is taken up again has never used one.

use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::StartId;
use lucia_proto::base::limits::FORMER_STARTS_MAX;
use serde::{Deserialize, Serialize};

use crate::host::failed::{Failed, OrFailed as _};
use crate::host::random;
use crate::host::state::{State, StateFile};
use crate::host::status;

/// A daemon that runs longer begins a new start, so that a state restored from further back is noticed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// `starts.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredStarts {
    start_id: StartId,
    /// Newest first; each was answered.
    former_starts: Vec<StartId>,
    /// Whether `start_id` was answered.
    answered: bool,
}

/// This start.
#[derive(Debug)]
pub struct Starts {
    kept: StoredStarts,
    chain: Option<Digest>,
    /// When it began, by time since boot.
    since: Duration,
}

impl Starts {
    /// Begins a start, `since_boot` after the boot; it is on the disk then.
    ///
    /// # Errors
    /// [`Failed`]; nothing may be said then.
    pub fn begin(state: &State, since_boot: Duration) -> Result<Self, Failed> {
        let kept = match read(state) {
            Some(kept) if !kept.answered => kept,
            former => {
                let noted = || status::last_start(state).into_iter().collect();
                let former = former.map_or_else(noted, StoredStarts::into_former);
                let kept = StoredStarts {
                    start_id: StartId::from_random(*random::bytes()?),
                    former_starts: former,
                    answered: false,
                };
                kept.write(state)?;
                kept
            }
        };
        Ok(Self { kept, chain: None, since: since_boot })
    }

    /// This start.
    #[must_use]
    pub const fn start_id(&self) -> &StartId {
        &self.kept.start_id
    }

    /// Its predecessors, newest first.
    #[must_use]
    pub fn former_starts(&self) -> &[StartId] {
        &self.kept.former_starts
    }

    /// The chain value to say.
    #[must_use]
    pub const fn chain(&self) -> Option<Digest> {
        self.chain
    }

    /// An answer came, with this chain value or none.
    ///
    /// # Errors
    /// [`Failed`]; the value is not used then, and the next answer tries again.
    pub fn answered(&mut self, state: &State, chain: Option<Digest>) -> Result<(), Failed> {
        if !self.kept.answered {
            let kept = StoredStarts { answered: true, ..self.kept.clone() };
            kept.write(state)?;
            self.kept = kept;
        }
        if chain.is_some() {
            self.chain = chain;
        }
        Ok(())
    }

    /// Begins the next start where this one is a day old and was answered.
    ///
    /// # Errors
    /// [`Failed`]; this start goes on then, unless the disk is in doubt.
    pub fn grow_old(&mut self, state: &State, since_boot: Duration) -> Result<(), Failed> {
        if self.kept.answered && since_boot.saturating_sub(self.since) >= LONGEST {
            *self = Self::begin(state, since_boot)?;
        }
        Ok(())
    }
}

impl StoredStarts {
    fn into_former(self) -> Vec<StartId> {
        let mut former = self.former_starts;
        former.insert(0, self.start_id);
        former.truncate(FORMER_STARTS_MAX);
        former
    }

    fn write(&self, state: &State) -> Result<(), Failed> {
        let written = state.replace_json(StateFile::Starts, self);
        written.or_failed("what is not on the disk is not said")
    }
}

/// What is on the disk. A file that cannot be read counts as absent: the start that follows names no predecessor then, or the
/// one of `status.json`, and the controller judges it.
fn read(state: &State) -> Option<StoredStarts> {
    state.find_json(StateFile::Starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;
    use crate::host::status::{Status, StatusFile};

    const NOW: Duration = Duration::from_secs(3600);

    fn value(number: u8) -> Option<Digest> {
        Some(Digest::of(&[number]))
    }

    // spec: AG-40
    #[test]
    fn a_start_is_on_the_disk_before_it_is_said_and_names_the_last_eight() {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        let mut begun = Vec::new();
        for _ in 0..12 {
            let mut starts = Starts::begin(&state, NOW).unwrap();
            assert_eq!(read(&state).unwrap(), starts.kept);
            let want: Vec<_> = begun.iter().rev().take(8).cloned().collect();
            assert_eq!(starts.former_starts(), want);
            assert_eq!(starts.chain(), None);
            starts.answered(&state, value(1)).unwrap();
            assert_eq!(starts.chain(), value(1));
            starts.answered(&state, None).unwrap();
            assert_eq!(starts.chain(), value(1), "an answer without one changes nothing");
            begun.push(starts.start_id().clone());
        }
        begun.sort();
        begun.dedup();
        assert_eq!(begun.len(), 12);
    }

    // spec: AG-40
    #[test]
    fn a_start_that_was_never_answered_is_taken_up_again() {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        let first = Starts::begin(&state, NOW).unwrap();
        for _ in 0..20 {
            let again = Starts::begin(&state, NOW).unwrap();
            assert_eq!((again.start_id(), again.former_starts()), (first.start_id(), &[][..]));
        }
    }

    /// The disk ends at any step of either write: what was said last is the present start or its predecessor, and a value
    /// of the chain is used only by a start that is never taken up again.
    // spec: AG-41
    #[test]
    fn a_crash_at_any_step_leaves_a_start_that_follows() {
        for nth in 0.. {
            let scratch = Scratch::new();
            let state = State::hold(&scratch.root(), "test").unwrap();
            let mut before = Starts::begin(&state, NOW).unwrap();
            before.answered(&state, value(1)).unwrap();
            let plan = lucia_durable::crash_point::crash_at(&scratch.root().state(), nth);
            let died = Starts::begin(&state, NOW).map(|mut starts| {
                let used = starts.answered(&state, value(2)).is_ok();
                (starts.start_id().clone(), used, starts.chain())
            });
            let crashed = plan.crashed().is_some();
            drop(plan);
            let after = Starts::begin(&state, NOW).unwrap();
            match died {
                Ok((said, used, chain)) => {
                    assert_eq!(used, chain.is_some(), "step {nth}");
                    let follows = after.former_starts().first() == Some(&said);
                    assert!(follows || (*after.start_id() == said && !used), "step {nth}");
                }
                Err(error) => assert!(error.is_doubtful(), "step {nth}: {error}"),
            }
            assert!(after.former_starts().contains(before.start_id()), "step {nth}");
            if !crashed {
                assert!(nth > 3, "only {nth} steps were tried");
                break;
            }
        }
    }

    // spec: AG-285
    #[test]
    fn a_lost_file_costs_no_memory_while_the_status_has_the_last_start_and_else_no_start_is_named() {
        let lost: [&dyn Fn(&State); 3] = [
            &|state| state.remove(StateFile::Starts).unwrap(),
            &|state| state.replace(StateFile::Starts, b"").unwrap(),
            &|state| state.replace(StateFile::Starts, &[0; 300]).unwrap(),
        ];
        for lose in lost {
            let scratch = Scratch::new();
            let state = State::hold(&scratch.root(), "test").unwrap();
            let mut starts = Starts::begin(&state, NOW).unwrap();
            starts.answered(&state, value(1)).unwrap();
            let said = starts.start_id().clone();
            lose(&state);
            let mut forgot = Starts::begin(&state, NOW).unwrap();
            assert!(forgot.former_starts().is_empty() && forgot.chain().is_none(), "so a loss is told");
            forgot.answered(&state, value(2)).unwrap();
            let status = Status { start_id: Some(said.clone()), ..Status::default() };
            StatusFile::new(&scratch.root()).write(&state, &status);
            lose(&state);
            assert_eq!(Starts::begin(&state, NOW).unwrap().former_starts(), [said]);
        }
    }

    // spec: AG-42
    #[test]
    fn a_start_ends_after_a_day_and_a_broken_file_begins_anew() {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        let mut starts = Starts::begin(&state, NOW).unwrap();
        let first = starts.start_id().clone();
        starts.grow_old(&state, NOW + 2 * LONGEST).unwrap();
        assert_eq!(*starts.start_id(), first, "it was not answered yet");
        starts.answered(&state, value(1)).unwrap();
        starts.grow_old(&state, NOW + LONGEST - Duration::from_secs(1)).unwrap();
        assert_eq!(*starts.start_id(), first);
        starts.grow_old(&state, NOW + LONGEST).unwrap();
        assert_eq!((starts.former_starts(), starts.chain()), (&[first][..], None));
        state.replace(StateFile::Starts, b"{").unwrap();
        assert!(Starts::begin(&state, NOW).unwrap().former_starts().is_empty());
    }
}

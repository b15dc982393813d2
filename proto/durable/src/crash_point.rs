//! Where a program may die, by name: so that a test can kill it at each durable step in turn.
//!
//! Without the feature `test-support` every function here does nothing and costs nothing. With it, a test arms a plan for
//! one directory; the n-th step under that directory then returns [`Crashed`] instead of happening, and so does each one
//! after it, since a dead program writes no more. Plans go by directory and not by thread, so they reach work that a
//! daemon does on other threads, and tests with a directory each do not meet.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

#[cfg(any(test, feature = "test-support"))]
pub use armed::{Armed, Fate, ask_at, crash_at, fail_at, hold_at, record};

/// A test stopped the program here. Never seen outside tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a test stopped the program at step {step}")]
pub struct Crashed {
    /// Name of the step that did not happen.
    pub step: &'static str,
}

/// A place where a program may die between two durable steps of its own, as between the CA's answer and the ledger.
///
/// `dir` is the directory the step belongs to; plans are armed by it.
///
/// # Errors
/// [`Crashed`], only under `test-support` and only when a test armed it.
pub fn crash_point(step: &'static str, dir: &Path) -> Result<(), Crashed> {
    match check(step, dir) {
        Err(Stop::Crashed(crashed)) => Err(crashed),
        // An I/O error means nothing where there is no I/O.
        Ok(()) | Err(Stop::Failed(_)) => Ok(()),
    }
}

/// [`fn@crash_point`] for programs. The name has to be a literal of the form `program/where`, of one place only: the suite of
/// faults finds all of them in the sources, and fails when one was never walked.
#[macro_export]
macro_rules! crash_point {
    ($step:literal, $dir:expr) => {
        $crate::crash_point::crash_point($step, $dir)
    };
}

/// Why a durable step did not happen.
pub(crate) enum Stop {
    #[cfg_attr(not(any(test, feature = "test-support")), expect(dead_code, reason = "only a test stops the program"))]
    Crashed(Crashed),
    Failed(io::Error),
}

/// One durable step: dies or fails here if a test wants it to, else does it.
pub(crate) fn step<T>(name: &'static str, path: &Path, act: impl FnOnce() -> io::Result<T>) -> Result<T, Stop> {
    check(name, path)?;
    act().map_err(Stop::Failed)
}

/// Writes all of `bytes`; a plan that stops at `half` leaves the first half of them written, as a full disk does.
pub(crate) fn write_step(
    name: &'static str,
    half: &'static str,
    path: &Path,
    file: &mut File,
    bytes: &[u8],
) -> Result<(), Stop> {
    check(name, path)?;
    if let Err(stop) = check(half, path) {
        let (first, _) = bytes.split_at(bytes.len() / 2);
        file.write_all(first).map_err(Stop::Failed)?;
        return Err(stop);
    }
    file.write_all(bytes).map_err(Stop::Failed)
}

#[cfg(not(any(test, feature = "test-support")))]
#[inline]
fn check(_step: &'static str, _path: &Path) -> Result<(), Stop> {
    Ok(())
}

#[cfg(any(test, feature = "test-support"))]
fn check(step: &'static str, path: &Path) -> Result<(), Stop> {
    armed::check(step, path)
}

#[cfg(any(test, feature = "test-support"))]
mod armed {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use super::{Crashed, Stop};

    /// Nobody waits longer than this for a step, or in one that is held.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// All armed plans of this test process.
    static PLANS: Mutex<Plans> = Mutex::new(Plans { next: 0, armed: Vec::new() });

    /// A held step was reached, or a plan ended.
    static CHANGED: Condvar = Condvar::new();

    struct Plans {
        next: u64,
        armed: Vec<Plan>,
    }

    struct Plan {
        id: u64,
        under: PathBuf,
        want: Want,
        hits: Vec<&'static str>,
        dead: Option<Crashed>,
    }

    /// What becomes of one step.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fate {
        /// It happens.
        Live,
        /// The program is dead: the step does not happen.
        Die,
        /// It fails with this error of the system.
        Fail(i32),
    }

    /// Asked about a step and the path it is about.
    type Ask = Box<dyn FnMut(&'static str, &Path) -> Fate + Send>;

    enum Want {
        Record,
        Ask(Ask),
        CrashAt(usize),
        FailAt { step: &'static str, nth: usize, errno: i32 },
        HoldAt { step: &'static str },
    }

    /// A plan in force until this value is dropped.
    #[must_use = "the plan ends when this is dropped"]
    #[derive(Debug)]
    pub struct Armed {
        id: u64,
    }

    /// Only notes the steps under `dir`, in order.
    pub fn record(dir: &Path) -> Armed {
        arm(dir, Want::Record)
    }

    /// Stops the program at the `nth` step (from 0) under `dir`, and at each after it.
    pub fn crash_at(dir: &Path, nth: usize) -> Armed {
        arm(dir, Want::CrashAt(nth))
    }

    /// Lets the `nth` step (from 0) of this name under `dir` fail with `errno`, as a full or dying disk does.
    pub fn fail_at(dir: &Path, step: &'static str, nth: usize, errno: i32) -> Armed {
        arm(dir, Want::FailAt { step, nth, errno })
    }

    /// Asks about each step under `dir`, also about those of programs that are dead already: who is dead, and who lives
    /// again, is for the one who is asked to know. It must not arm or end a plan.
    pub fn ask_at(dir: &Path, ask: impl FnMut(&'static str, &Path) -> Fate + Send + 'static) -> Armed {
        arm(dir, Want::Ask(Box::new(ask)))
    }

    /// Lets each step of this name under `dir` wait until the plan ends, as a slow disk does.
    pub fn hold_at(dir: &Path, step: &'static str) -> Armed {
        arm(dir, Want::HoldAt { step })
    }

    impl Armed {
        /// Waits until a step of this name was reached: for a minute at most, after which it ends the plan, since nothing
        /// that is held could end by itself, and stops the test.
        #[track_caller]
        pub fn reached(&self, step: &'static str) {
            assert!(
                self.is_reached(step, PATIENCE),
                "{step:?} was not reached within a minute; {:?} were",
                self.steps()
            );
        }

        pub(super) fn is_reached(&self, step: &'static str, patience: Duration) -> bool {
            let is_open =
                |plans: &mut Plans| !plans.armed.iter().any(|plan| plan.id == self.id && plan.hits.contains(&step));
            let waited = CHANGED.wait_timeout_while(plans(), patience, is_open);
            let (mut plans, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                plans.armed.iter_mut().filter(|plan| plan.id == self.id).for_each(|plan| plan.want = Want::Record);
                CHANGED.notify_all();
            }
            !waited.timed_out()
        }

        /// Names of the steps reached so far, the one that crashed included.
        #[must_use]
        pub fn steps(&self) -> Vec<&'static str> {
            plans().armed.iter().find(|plan| plan.id == self.id).map(|plan| plan.hits.clone()).unwrap_or_default()
        }

        /// Where the program was stopped, if it was.
        #[must_use]
        pub fn crashed(&self) -> Option<Crashed> {
            plans().armed.iter().find(|plan| plan.id == self.id).and_then(|plan| plan.dead)
        }
    }

    impl Drop for Armed {
        fn drop(&mut self) {
            plans().armed.retain(|plan| plan.id != self.id);
            CHANGED.notify_all();
        }
    }

    pub(super) fn check(step: &'static str, path: &Path) -> Result<(), Stop> {
        let mut plans = plans();
        plans
            .armed
            .iter_mut()
            .filter(|plan| path.starts_with(&plan.under))
            .try_for_each(|plan| plan.reach(step, path))?;
        CHANGED.notify_all();
        let held =
            |plan: &Plan| path.starts_with(&plan.under) && matches!(plan.want, Want::HoldAt { step: at } if at == step);
        let waited = CHANGED.wait_timeout_while(plans, PATIENCE, |plans| plans.armed.iter().any(held));
        let (_plans, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Stop::Failed(io::Error::new(
                io::ErrorKind::TimedOut,
                "held for a minute, and nobody let it go",
            )));
        }
        Ok(())
    }

    impl Plan {
        fn reach(&mut self, step: &'static str, path: &Path) -> Result<(), Stop> {
            if let Some(crashed) = self.dead {
                return Err(Stop::Crashed(crashed));
            }
            if let Want::Ask(ask) = &mut self.want {
                return match ask(step, path) {
                    Fate::Live => Ok(()),
                    Fate::Die => Err(Stop::Crashed(Crashed { step })),
                    Fate::Fail(errno) => Err(Stop::Failed(io::Error::from_raw_os_error(errno))),
                };
            }
            let before = self.hits.len();
            let same_before = self.hits.iter().filter(|hit| **hit == step).count();
            self.hits.push(step);
            match self.want {
                Want::CrashAt(nth) if nth == before => {
                    let crashed = Crashed { step };
                    self.dead = Some(crashed);
                    Err(Stop::Crashed(crashed))
                }
                Want::FailAt { step: wanted, nth, errno } if wanted == step && nth == same_before => {
                    Err(Stop::Failed(io::Error::from_raw_os_error(errno)))
                }
                _ => Ok(()),
            }
        }
    }

    fn arm(dir: &Path, want: Want) -> Armed {
        let mut plans = plans();
        let id = plans.next;
        plans.next += 1;
        plans.armed.push(Plan { id, under: dir.to_owned(), want, hits: Vec::new(), dead: None });
        Armed { id }
    }

    fn plans() -> MutexGuard<'static, Plans> {
        // A test that panicked while it held the list left the list whole.
        PLANS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_program_stays_dead_and_others_live() {
        let (ours, other) = (Path::new("/durable-test/a"), Path::new("/durable-test/b"));
        let plan = crash_at(ours, 1);
        assert_eq!(crash_point("one", &ours.join("x")), Ok(()));
        assert_eq!(crash_point("one", other), Ok(()));
        assert_eq!(crash_point("two", ours), Err(Crashed { step: "two" }));
        assert_eq!(crash_point("three", ours), Err(Crashed { step: "two" }));
        assert_eq!(plan.steps(), ["one", "two"]);
        assert_eq!(plan.crashed(), Some(Crashed { step: "two" }));
        drop(plan);
        assert_eq!(crash_point("two", ours), Ok(()));
    }

    #[test]
    fn a_plan_that_asks_lets_the_dead_live_again() {
        let ours = Path::new("/durable-test/d");
        let mut left = 2;
        let plan = ask_at(ours, move |step, path| {
            assert_eq!(path, Path::new("/durable-test/d/x"));
            left -= 1;
            if step == "two" && left >= 0 { Fate::Die } else { Fate::Live }
        });
        let at = |step| crash_point(step, &ours.join("x"));
        assert_eq!([at("one"), at("two"), at("two")], [Ok(()), Err(Crashed { step: "two" }), Ok(())]);
        assert_eq!(crate::crash_point!("one", &ours.join("x")), Ok(()));
        drop(plan);
    }

    #[test]
    fn a_step_that_never_comes_ends_the_wait_and_the_plan() {
        let ours = Path::new("/durable-test/e");
        let plan = hold_at(ours, "two");
        assert_eq!(crash_point("one", ours), Ok(()));
        assert!(plan.is_reached("one", std::time::Duration::ZERO));
        assert!(!plan.is_reached("two", std::time::Duration::from_millis(1)));
        // Nothing is held any more, and what was reached is still told.
        assert_eq!(crash_point("two", ours), Ok(()));
        assert_eq!(plan.steps(), ["one", "two"]);
    }

    #[test]
    fn a_held_step_waits_until_the_plan_ends() {
        let ours = Path::new("/durable-test/c");
        let plan = hold_at(ours, "two");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| crash_point("one", ours).and_then(|()| crash_point("two", ours)));
            plan.reached("two");
            assert!(!waits.is_finished());
            drop(plan);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
    }
}

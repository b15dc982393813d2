//! Programs that the agent has run: all of them, with every argument, in one file (design.md N1).
//!
//! The agent starts no program itself. It asks PID 1 over D-Bus for a transient unit, whose environment, time and output
//! are bounded, and which lives on when the agent is restarted. So the agent's own sandbox need not be as wide as what
//! sshd or getent take, and no answer of a server ever becomes a program or a flag.
//!
//! | module | holds |
//! |---|---|
//! | [`program`] | the closed lists: programs, and services that are restarted or reloaded |
//! | [`pid1`] | the one way to run them: PID 1 |

#[cfg(test)]
pub(crate) mod fake;
pub mod pid1;
pub mod program;

use std::future::Future;
use std::rc::Rc;

use thiserror::Error;

use crate::host::failed::Failed;

pub use self::program::{Program, ServiceAct};

/// How a program ended, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status; none where it was killed or could not be started.
    pub code: Option<i32>,
    /// The beginning of what it wrote, standard error included; at most as many bytes as the program is allowed.
    pub output: String,
}

impl Ended {
    /// Whether it said that all is well.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// The last line that says anything, for a message.
    #[must_use]
    pub fn last_line(&self) -> &str {
        self.output.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

/// A program was not run, or a service not told.
#[derive(Debug, Error)]
pub enum UnitError {
    /// PID 1 cannot be asked, or says nothing of the end.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// A job of a service did not succeed.
    #[error("systemd could not {doing}: its job ended as {result:?}")]
    Job {
        /// What was to be done.
        doing: &'static str,
        /// systemd's word.
        result: String,
    },
}

/// Runs programs and tells services: PID 1, or a script in tests.
pub trait Runner {
    /// Runs a program to its end.
    ///
    /// # Errors
    /// When it could not be run; a program that ran and failed is no error here.
    fn run(&self, program: &Program) -> impl Future<Output = Result<Ended, UnitError>>;

    /// Restarts or reloads a service and waits until that is done.
    ///
    /// # Errors
    /// When it is not done.
    fn act(&self, act: ServiceAct) -> impl Future<Output = Result<(), UnitError>>;
}

impl<R: Runner> Runner for Rc<R> {
    fn run(&self, program: &Program) -> impl Future<Output = Result<Ended, UnitError>> {
        self.as_ref().run(program)
    }

    fn act(&self, act: ServiceAct) -> impl Future<Output = Result<(), UnitError>> {
        self.as_ref().act(act)
    }
}

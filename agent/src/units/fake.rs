//! A runner for tests: a script decides, and what it does not decide is a failure of the test.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Ended, Program, Runner, ServiceAct, UnitError};

/// What a test is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FakeQuestion {
    Run(Program),
    ServiceAct(ServiceAct),
}

/// What it answers.
pub(crate) enum Said {
    /// The program ended with this status and these words; an act is done if it is 0.
    Ends(i32, &'static str),
    /// As before, with words of the moment.
    Says(String),
    /// PID 1 is away.
    Away,
}

type Decide = Box<dyn FnMut(&FakeQuestion) -> Said>;

/// Clones are the same runner.
#[derive(Clone)]
pub(crate) struct FakeRunner(Rc<RefCell<(Decide, Vec<String>)>>);

impl FakeRunner {
    pub(crate) fn new(decide: impl FnMut(&FakeQuestion) -> Said + 'static) -> Self {
        Self(Rc::new(RefCell::new((Box::new(decide), Vec::new()))))
    }

    /// Nothing may be asked.
    pub(crate) fn nobody() -> Self {
        Self::new(|asked| panic!("{asked:?} was not scripted"))
    }

    /// What was asked so far, one word each: `sshd-check`, `restart sssd.service`, ...
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.borrow().1.clone()
    }

    /// What was asked since the last call of this.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().1)
    }

    fn ask(&self, asked: &FakeQuestion) -> Said {
        let word = match asked {
            FakeQuestion::Run(program) => program.invocation().word,
            FakeQuestion::ServiceAct(act) => act.words(),
        };
        let mut inner = self.0.borrow_mut();
        inner.1.push(word.to_owned());
        (inner.0)(asked)
    }
}

fn away(doing: &'static str) -> UnitError {
    crate::host::failed::Failed::of(doing, zbus::Error::InterfaceNotFound).into()
}

impl Runner for FakeRunner {
    async fn run(&self, program: &Program) -> Result<Ended, UnitError> {
        match self.ask(&FakeQuestion::Run(program.clone())) {
            Said::Ends(code, words) => Ok(Ended { code: Some(code), output: words.to_owned() }),
            Said::Says(words) => Ok(Ended { code: Some(0), output: words }),
            Said::Away => Err(away(program.invocation().word)),
        }
    }

    async fn act(&self, act: ServiceAct) -> Result<(), UnitError> {
        match self.ask(&FakeQuestion::ServiceAct(act)) {
            Said::Ends(0, _) | Said::Says(_) => Ok(()),
            Said::Ends(..) => Err(UnitError::Job { doing: act.words(), result: "failed".to_owned() }),
            Said::Away => Err(away(act.words())),
        }
    }
}

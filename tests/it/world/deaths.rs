//! Who is dead: programs that a plan of crash points killed, until their host starts them again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// One of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Agent,
    Controller,
    Worker,
}

impl Program {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Controller => "controller",
            Self::Worker => "worker",
        }
    }
}

/// Shared by the plan, which is asked on any thread, and by the hosts.
#[derive(Debug)]
pub(crate) struct Deaths {
    dead: Mutex<BTreeSet<Program>>,
    /// The story itself looks at a file; no program does.
    aside: AtomicBool,
    agent_dies: Arc<Notify>,
}

impl Deaths {
    pub(super) fn new(agent_dies: Arc<Notify>) -> Self {
        Self { dead: Mutex::new(BTreeSet::new()), aside: AtomicBool::new(false), agent_dies }
    }

    /// It does nothing more until its host starts it again.
    pub(crate) fn kill(&self, program: Program) {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).insert(program);
        if program == Program::Agent {
            self.agent_dies.notify_one();
        }
    }

    pub(crate) fn is_dead(&self, program: Program) -> bool {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).contains(&program)
    }

    pub(crate) fn revive(&self, program: Program) {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).remove(&program);
    }

    /// What the story does itself is no step of a program.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = self.aside.swap(true, Ordering::SeqCst);
        let done = act();
        self.aside.store(before, Ordering::SeqCst);
        done
    }

    pub(crate) fn is_aside(&self) -> bool {
        self.aside.load(Ordering::SeqCst)
    }
}

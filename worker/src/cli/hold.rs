//! How a command gets the ledger beside a running worker.

use super::Failure;
use crate::home::Home;
use crate::ledger::{Ledger, LedgerError, LedgerLock};
use crate::watch::{Wake, Watch};

/// How long `run` is waited for while it has the ledger.
const BUSY_MILLIS: u16 = 50;
const BUSY_TRIES: usize = 200;

/// Waits for `run` to end its turn.
pub(super) fn hold(home: &Home) -> Result<LedgerLock, Failure> {
    let mut watch = Watch::new().map_err(|error| Failure::of(&error))?;
    for _ in 0..BUSY_TRIES {
        match Ledger::hold(&home.dir) {
            Err(LedgerError::Busy) => {}
            other => return other.map_err(|error| Failure::of(&error)),
        }
        if watch.wait(BUSY_MILLIS).map_err(|error| Failure::of(&error))? == Wake::Stop {
            return Err(Failure::refused("stopped; nothing was written"));
        }
    }
    Err(Failure::of(&LedgerError::Busy))
}

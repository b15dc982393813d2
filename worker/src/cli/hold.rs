//! How a command gets the ledger beside a running worker.

use lucia_daemon::exit::Exit;

use crate::home::Home;
use crate::ledger::{Ledger, LedgerError, LedgerLock};
use crate::watch::{Wake, Watch};

/// How long `run` is waited for while it has the ledger.
const BUSY_MILLIS: u16 = 50;
const BUSY_TRIES: usize = 200;

/// Waits for `run` to end its turn.
pub(super) fn hold(home: &Home) -> Result<LedgerLock, Exit> {
    let mut watch = Watch::new()?;
    for _ in 0..BUSY_TRIES {
        match Ledger::hold(&home.dir) {
            Err(LedgerError::Busy) => {}
            other => return other.map_err(Exit::from),
        }
        if watch.wait(BUSY_MILLIS)? == Wake::Stop {
            return Err(Exit::refused("stopped; nothing was written"));
        }
    }
    Err(Exit::from(LedgerError::Busy))
}

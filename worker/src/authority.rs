//! The controller's journal, read anew in each turn: the second opinion no request goes without.
//!
//! It is read after the requests, because the controller writes it before them: a journal older than a request would
//! refuse what is right.

use lucia_durable::{DirError, Loaded, ReadError};
use lucia_proto::journal::{Journal, JournalError};
use lucia_proto::limits::JOURNAL_MAX;
use thiserror::Error;

use crate::config::Config;
use crate::home::file;
use crate::queue::{controller_file, controller_rules, controller_state};

/// Why the journal says nothing. Nothing is issued to nodes then.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// Its directory is missing or not the controller's.
    #[error("the controller's journal cannot be reached; nothing is issued until it can")]
    Dir(#[source] DirError),
    /// It is not there.
    #[error(
        "the controller has no journal (onboarding/state.json) yet; nothing is issued until the controller has started once"
    )]
    Missing,
    /// It cannot be read, or is not the controller's.
    #[error("the controller's journal is refused; nothing is issued until it can be read")]
    Read(#[source] ReadError),
    /// It is damaged.
    #[error("the controller's journal is damaged; nothing is issued until `lucia-controller doctor` finds it whole")]
    Bad(#[source] JournalError),
}

/// Reads and checks the journal.
///
/// # Errors
/// [`AuthorityError`].
pub fn read(config: &Config) -> Result<Journal, AuthorityError> {
    let dir = controller_state(config)
        .and_then(|state| state.subdir(&file("onboarding"), controller_rules(config)))
        .map_err(AuthorityError::Dir)?;
    let max = u64::try_from(JOURNAL_MAX).unwrap_or(u64::MAX);
    match dir.read(&file("state.json"), max, controller_file(config)).map_err(AuthorityError::Read)? {
        Loaded::Missing => Err(AuthorityError::Missing),
        Loaded::Found(bytes) => Journal::from_bytes(&bytes).map_err(AuthorityError::Bad),
    }
}

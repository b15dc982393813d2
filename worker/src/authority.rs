//! The controller's journal, read anew in each turn: the second opinion no request goes without.
//!
//! It is read after the requests, because the controller writes it before them: a journal older than a request would
//! refuse what is right.

use lucia_durable::{DirError, Loaded, ReadError};
use lucia_proto::base::limits::JOURNAL_MAX;
use lucia_proto::files::journal::{Journal, JournalError};
use thiserror::Error;

use crate::config::Config;
use crate::files::file;
use crate::ledger::Mark;
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
    /// It is older than one that was seen.
    #[error(
        "the controller's journal went back from generation {seen} to {found}: it was restored from an older copy, or \
         forged. Nothing is issued until it has caught up, or until somebody accepts it: lucia-enrollment-worker accept-journal"
    )]
    WentBack {
        /// Generation seen before.
        seen: u64,
        /// Its generation.
        found: u64,
    },
    /// It is no continuation of one that was seen.
    #[error(
        "the controller's journal (generation {found}) does not continue the one seen before (generation {seen}): its \
         events are others, so it was restored and went on, or was forged. Nothing is issued until somebody accepts it: \
         lucia-enrollment-worker accept-journal"
    )]
    Differs {
        /// Generation seen before.
        seen: u64,
        /// Its generation.
        found: u64,
    },
}

/// Where a journal stands.
#[must_use]
pub fn mark_of(journal: &Journal) -> Mark {
    let Journal { generation, last_event_id, chain_head, .. } = *journal;
    Mark { generation, last_event_id, chain_head }
}

/// Whether a journal continues the one seen before. One with so many new events that the last one seen has left it
/// cannot show that, and is no continuation: who can write 2048 events can wait for a person.
///
/// # Errors
/// [`AuthorityError::WentBack`], [`AuthorityError::Differs`].
pub fn continues(journal: &Journal, seen: Option<&Mark>) -> Result<(), AuthorityError> {
    let Some(seen) = seen else { return Ok(()) };
    let found = journal.generation;
    if found < seen.generation {
        return Err(AuthorityError::WentBack { seen: seen.generation, found });
    }
    // Nothing happens without a new generation.
    let is_still = journal.last_event_id == seen.last_event_id;
    let follows = journal.head_after(seen.last_event_id) == Some(seen.chain_head);
    match follows && (is_still || found > seen.generation) {
        true => Ok(()),
        false => Err(AuthorityError::Differs { seen: seen.generation, found }),
    }
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

#[cfg(test)]
mod tests {
    use lucia_proto::base::acts::Act;
    use lucia_proto::base::digest::Digest;
    use lucia_proto::base::time::UnixTime;
    use lucia_proto::files::journal::Event;

    use super::*;

    /// A journal of this generation with this many events.
    fn journal(generation: u64, events: u64) -> Journal {
        let mut journal = Journal { generation, ..Journal::empty() };
        for number in 0..events {
            let at = UnixTime::from_secs(1_795_982_400 + number);
            let actor = "controller".parse().unwrap();
            let kind = Act::WindowExpired;
            journal.record(Event::new(at, kind, actor)).unwrap();
        }
        journal
    }

    // spec: WK-60
    #[test]
    fn only_a_continuation_of_what_was_seen_is_believed() {
        let seen = mark_of(&journal(10, 3));
        let other = Mark { chain_head: Digest::of(b"other"), ..seen };
        for (found, seen, want) in [
            (journal(1, 0), None, ""),
            (journal(10, 3), Some(seen), ""),
            (journal(11, 3), Some(seen), ""),
            (journal(12, 9), Some(seen), ""),
            (journal(9, 3), Some(seen), "WentBack { seen: 10, found: 9 }"),
            (journal(9, 9), Some(seen), "WentBack"),
            (journal(10, 4), Some(seen), "Differs"),
            (journal(10, 2), Some(seen), "Differs"),
            (journal(11, 2), Some(seen), "Differs"),
            (journal(10, 3), Some(other), "Differs"),
            (journal(11, 4), Some(other), "Differs"),
            (journal(4000, 2051), Some(seen), ""),
            (journal(4000, 2052), Some(seen), "Differs"),
        ] {
            let said = continues(&found, seen.as_ref()).err().map(|error| format!("{error:?}")).unwrap_or_default();
            let case = (found.generation, found.last_event_id);
            assert!(said.starts_with(want) && said.is_empty() == want.is_empty(), "{case:?} {seen:?}: {said}");
        }
    }
}

//! The lists that the worker signs from its ledger (design.md O8): a key that it bars is refused here whatever the journal
//! says, and what its nodes are called is carried to owners as it was signed.

use std::sync::Arc;

use lucia_people::owner_api::NamesView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::LIST_FILE_MAX;
use lucia_proto::base::text::shown;
use lucia_proto::files::owner_queue::{BARRED_FILE, NAMES_FILE};
use lucia_proto::orders::lists::{ListEntry, ListError, SignedList, VerifiedList};
use lucia_proto::pki::bundle::VerifiedBundle;
use lucia_proto::pki::key::Fingerprint;
use lucia_proto::pki::taken::Taken;

use super::People;
use super::trust::ListsRead;
use crate::bridge::owners::Answers;
use crate::lock::{lock, read, write};
use crate::parts::fleet::BarredKeys;
use crate::refusal::chain;
use crate::store::barred;

/// Reads a list of the worker's and checks it as whoever it is for does; nothing where it was looked at before.
fn next<E: ListEntry>(
    answers: Option<&Answers<'_>>,
    file: &str,
    seen: &mut Option<(Digest, u64)>,
    held: Option<&Taken>,
    (bundle, fleet): (&VerifiedBundle, &Digest),
) -> Result<Option<VerifiedList<E>>, String> {
    let Some(bytes) = answers.map_or(Ok(None), |answers| answers.read(file, LIST_FILE_MAX))? else { return Ok(None) };
    let looked_at = Some((Digest::of(&bytes), bundle.bundle().version));
    if *seen == looked_at {
        return Ok(None);
    }
    let taken: Result<_, ListError> = SignedList::from_bytes(&bytes)
        .and_then(|signed| signed.verify(bundle, fleet))
        .and_then(|list| list.supersedes(held, bundle).map(|()| list));
    let list = taken.map_err(|error| format!("{file} in owner-responses is refused: {}", chain(&error)))?;
    *seen = looked_at;
    Ok(Some(list))
}

impl People {
    /// Takes the lists that the worker published, when they changed. One that is refused leaves the one that is held.
    pub(super) fn follow_lists(&self) {
        let Some(trust) = self.trust() else { return };
        let fleet = self.verifier.fleet();
        let by = (trust.bundle.as_ref(), &fleet);
        // What is wrong with the directory is said with the roster.
        let answers = self.queue.answers().ok().flatten();
        let mut seen = lock(&self.lists);
        let ListsRead { barred: looked_at, names, kept, .. } = &mut *seen;
        let mut trouble = Vec::new();
        let mut held = self.fleet.barred();
        // One that the bundle's worker did not sign is of a worker that was retired since: the next one signs its own,
        // whatever its number, and until then the keys of this one count.
        let version = Some(by.0.bundle().version);
        if let Some((signed, tried)) = kept.as_mut().filter(|(_, tried)| *tried != version) {
            *tried = version;
            if let Ok(before) = signed.verify(by.0, by.1) {
                let before = Arc::new(before);
                self.fleet.bar(BarredKeys::Verified(Arc::clone(&before)));
                held = Some(before);
                *kept = None;
            }
        }
        let before = *looked_at;
        match next::<Fingerprint>(answers.as_ref(), BARRED_FILE, looked_at, held.as_ref().map(|held| held.taken()), by)
        {
            Ok(Some(list)) => match barred::write(&self.dir, list.signed()) {
                Ok(()) => {
                    self.fleet.bar(BarredKeys::Verified(Arc::new(list)));
                    *kept = None;
                }
                Err(error) => {
                    // What is not on the disk does not count, and is tried again.
                    *looked_at = before;
                    trouble.push(chain(&error));
                }
            },
            Ok(None) => {}
            Err(error) => trouble.push(error),
        }
        let held = read(&self.names).clone();
        match next(answers.as_ref(), NAMES_FILE, names, held.as_ref().map(|held| held.taken()), by) {
            Ok(Some(list)) => *write(&self.names) = Some(Arc::new(list)),
            Ok(None) => {}
            Err(error) => trouble.push(error),
        }
        let said = trouble.join("; ");
        if said != seen.said && !said.is_empty() {
            tracing::warn!("the worker's lists: {}", shown(&said));
        }
        seen.said = said;
    }

    /// What the worker's nodes are called as the worker signed it, with the bundle that says whose signature that is.
    pub fn signed_names(&self) -> NamesView {
        let names = read(&self.names).clone();
        let trust = self.trust();
        NamesView {
            names: names.map(|names| names.signed().clone()),
            bundle: trust.map(|trust| trust.bundle.signed().clone()),
        }
    }
}

//! The lists that the worker signs from its ledger (design.md O8): a key that it bars is refused here whatever the journal
//! says, and what its nodes are called is carried to owners as it was signed.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lucia_durable::PrivateDir;
use lucia_people::owner_api::NamesView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::LIST_FILE_MAX;
use lucia_proto::base::text::shown;
use lucia_proto::files::owner_queue::{BARRED_FILE, NAMES_FILE};
use lucia_proto::orders::lists::{ListEntry, ListError, Names, SignedBarred, SignedList, VerifiedList};
use lucia_proto::pki::bundle::VerifiedBundle;
use lucia_proto::pki::key::Fingerprint;
use lucia_proto::pki::taken::Taken;

use super::super::Controller;
use super::super::fleet::{BarredKeys, Fleet};
use crate::bridge::owners::Answers;
use crate::lock::lock;
use crate::refusal::chain;
use crate::store::barred;
use crate::store::json_file::JsonFileError;

/// What is held of them. `seen` is taken after the queue; the lists themselves are held for no write.
pub(super) struct Lists {
    names: RwLock<Option<Arc<Names>>>,
    seen: Mutex<ListsRead>,
}

/// What was last looked at.
#[derive(Debug, Default)]
struct ListsRead {
    /// The same bytes are not verified twice with the same bundle.
    barred: Option<(Digest, u64)>,
    names: Option<(Digest, u64)>,
    /// The list of barred keys that was held before the start, until one is verified, and the version of the bundle that
    /// it was last verified with in vain.
    kept: Option<(SignedBarred, Option<u64>)>,
    /// What was said about them last, so that it is said once.
    said: String,
}

impl Lists {
    pub(super) fn open(dir: &PrivateDir, fleet: &Fleet) -> Result<Self, JsonFileError> {
        let (kept, keys) = barred::read(dir)?.map(|kept| ((kept.signed, None), kept.keys)).unzip();
        let seen = Mutex::new(ListsRead { kept, ..ListsRead::default() });
        fleet.bar(BarredKeys::Before(keys.unwrap_or_default()));
        Ok(Self { names: RwLock::default(), seen })
    }
}

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

impl Controller {
    /// Takes the lists that the worker published, when they changed. One that is refused leaves the one that is held.
    pub(super) fn follow_lists(&self) {
        let Some(trust) = self.owners.trust() else { return };
        let fleet = self.verifier.fleet();
        let by = (trust.bundle.as_ref(), &fleet);
        let queue = &self.owners.queue;
        // What is wrong with the directory is said with the roster.
        let answers = queue.answers().ok().flatten();
        let lists = &self.owners.lists;
        let mut seen = lock(&lists.seen);
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
            Ok(Some(list)) => match barred::write(&self.owners.dir, list.signed()) {
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
        let held = lists.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        match next(answers.as_ref(), NAMES_FILE, names, held.as_ref().map(|held| held.taken()), by) {
            Ok(Some(list)) => *lists.names.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(list)),
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
        let names = self.owners.lists.names.read().unwrap_or_else(PoisonError::into_inner).clone();
        let trust = self.owners.trust();
        NamesView {
            names: names.map(|names| names.signed().clone()),
            bundle: trust.map(|trust| trust.bundle.signed().clone()),
        }
    }
}

//! Who is in the roster (design.md O1): what the worker published, checked with the root.
//!
//! The controller decides nothing about who is an owner. What it cannot check nobody here believes. Several controllers
//! would each read the worker's files and share the mark of the last roster.

mod lists;
mod trust;

use std::sync::{Arc, Mutex, RwLock};

use lucia_durable::PrivateDir;
use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::RosterView;
use lucia_proto::base::acts::Act;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::QUEUE_FILE_MAX;
use lucia_proto::base::time::Clock;
use lucia_proto::files::owner_queue::{BUNDLE_FILE, ROSTER_FILE};
use lucia_proto::orders::lists::{Names, SignedBarred};
use lucia_proto::orders::owner::{CredentialId, KeyUse, OwnerId, OwnerName, Role};
use lucia_proto::orders::roster::{TakenRoster, VerifiedRoster};
use lucia_proto::pki::key::{Fingerprint, NodePublicKey};

use crate::bridge::owners::OwnerQueue;
use crate::lock::{lock, read, write};
use crate::parts::audit::Audit;
use crate::parts::fleet::{BarredKeys, Fleet};
use crate::parts::open_error::OpenError;
use crate::parts::verifier::Verifier;
use crate::refusal::{Refusal, chain};
use crate::store::{barred, roster_mark};

pub(in crate::parts) use trust::Trust;

/// Bundle, roster and lists, as the worker signed them.
///
/// Locks are taken in this order: `seen` or `lists`, then what they guard the reading of, held for no write.
pub struct RosterReader {
    clock: Arc<dyn Clock>,
    verifier: Arc<Verifier>,
    audit: Arc<Audit>,
    fleet: Arc<Fleet>,
    queue: Arc<OwnerQueue>,
    /// Where the mark of the last roster is, and the barred keys.
    dir: Arc<PrivateDir>,
    seen: Mutex<FilesRead>,
    trust: RwLock<Option<Trust>>,
    lists: Mutex<ListsRead>,
    names: RwLock<Option<Arc<Names>>>,
}

/// What was last looked at of the worker's files.
#[derive(Debug, Default)]
struct FilesRead {
    /// The bytes of bundle and roster: the same ones are not verified twice.
    files: Option<(Option<Digest>, Option<Digest>)>,
    mark: Option<TakenRoster>,
    /// What was said about them last, so that it is said once.
    said: String,
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

impl RosterReader {
    /// Takes what was held at the last end, and what the worker published since.
    pub(super) fn open(
        clock: Arc<dyn Clock>,
        (verifier, audit, fleet): (Arc<Verifier>, Arc<Audit>, Arc<Fleet>),
        queue: Arc<OwnerQueue>,
        dir: Arc<PrivateDir>,
    ) -> Result<Self, OpenError> {
        let (kept, keys) =
            barred::read(&dir).map_err(OpenError::RosterMark)?.map(|kept| ((kept.signed, None), kept.keys)).unzip();
        fleet.bar(BarredKeys::Before(keys.unwrap_or_default()));
        let mark = roster_mark::read(&dir).map_err(OpenError::RosterMark)?;
        let reader = Self {
            clock,
            verifier,
            audit,
            fleet,
            queue,
            dir,
            seen: Mutex::new(FilesRead { mark, ..FilesRead::default() }),
            trust: RwLock::default(),
            lists: Mutex::new(ListsRead { kept, ..ListsRead::default() }),
            names: RwLock::default(),
        };
        // Before the first call: an owner is not to be refused for a second after each start.
        reader.follow();
        Ok(reader)
    }

    /// Takes what the worker published, when it changed.
    pub(in crate::parts) fn follow(&self) {
        self.follow_worker();
        self.follow_lists();
    }

    pub(in crate::parts) fn trust(&self) -> Option<Trust> {
        read(&self.trust).clone()
    }

    /// The roster that is held.
    pub fn verified(&self) -> Option<Arc<VerifiedRoster>> {
        self.trust()?.roster
    }

    /// What the roster says of somebody now.
    pub(in crate::parts) fn role_of(&self, owner: &OwnerId) -> Option<Role> {
        Some(self.verified()?.owner(owner)?.role)
    }

    /// The same of somebody by this owner key: nothing once the key was taken away.
    pub(in crate::parts) fn role_by(&self, owner: &OwnerId, key: Option<&Fingerprint>) -> Option<Role> {
        let roster = self.verified()?;
        let is_there = |key: &Fingerprint| roster.key(owner, key, KeyUse::OwnerKey).is_some();
        key.is_none_or(is_there).then(|| roster.owner(owner).map(|owner| owner.role)).flatten()
    }

    /// Whether the roster has somebody still, by this owner key: for what goes on after its call was let in.
    pub fn is_key_of(&self, owner: &OwnerId, key: &Fingerprint) -> bool {
        self.role_by(owner, Some(key)).is_some()
    }

    pub(in crate::parts) fn name_of(&self, owner: &OwnerId) -> Option<OwnerName> {
        Some(self.verified()?.owner(owner)?.name.clone())
    }

    /// Whether it has this passkey, by its id or its key: one for orders signs nobody in (design.md O2).
    pub(in crate::parts) fn has_passkey(&self, id: &CredentialId, key: &NodePublicKey) -> bool {
        self.verified().is_some_and(|roster| roster.has_passkey(id, &key.fingerprint()))
    }

    /// The roster as the worker signed it, with the bundle that says whose signature that is.
    pub fn view(&self) -> RosterView {
        let trust = self.trust();
        RosterView {
            roster: trust.as_ref().and_then(|trust| trust.roster.as_ref()).map(|roster| roster.signed().clone()),
            bundle: trust.map(|trust| trust.bundle.signed().clone()),
        }
    }

    /// Takes the bundle and the roster that the worker published, when they changed.
    fn follow_worker(&self) {
        let mut seen = lock(&self.seen);
        let mut trouble = Vec::new();
        let (bundle, roster) = match self.queue.answers() {
            Ok(None) => {
                trouble.push("the enrollment worker has made no owner-responses yet".to_owned());
                (None, None)
            }
            Err(error) => {
                trouble.push(chain(&error));
                (None, None)
            }
            Ok(Some(answers)) => {
                let mut read = |file| match answers.read(file, QUEUE_FILE_MAX) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        trouble.push(error);
                        None
                    }
                };
                (read(BUNDLE_FILE), read(ROSTER_FILE))
            }
        };
        let digest = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Digest::of);
        let files = (digest(&bundle), digest(&roster));
        if seen.files == Some(files) && trouble.is_empty() {
            return;
        }
        let held = self.trust();
        let root = self.verifier.root();
        let (next, refused) =
            trust::next(held.as_ref(), seen.mark.as_ref(), root, bundle.as_deref(), roster.as_deref());
        trouble.extend(refused.iter().map(|error| chain(error)));
        match next.map(|next| self.mark(&mut seen, next)).transpose() {
            Ok(next) => {
                *write(&self.trust) = next;
                seen.files = Some(files);
            }
            // What is not marked does not count, and is tried again.
            Err(refusal) => trouble.push(refusal.log),
        }
        let said = trouble.join("; ");
        if said != seen.said && !said.is_empty() {
            tracing::warn!("owners: {}", lucia_proto::base::text::shown(&said));
        }
        seen.said = said;
    }

    /// Writes which roster this is, before it counts.
    fn mark(&self, seen: &mut FilesRead, next: Trust) -> Result<Trust, Refusal> {
        let Some(roster) = &next.roster else { return Ok(next) };
        let (taken, former) = (roster.taken(), seen.mark);
        if former != Some(taken) {
            roster_mark::write(&self.dir, &taken).map_err(|error| Refusal::persistence(&error))?;
            seen.mark = Some(taken);
        }
        if former.is_none_or(|former| former.mark() != taken.mark()) {
            tracing::info!(version = roster.version(), "the worker published a roster");
            // An entry that cannot be written waits; the roster counts all the same, since it may have let somebody go.
            let now = self.clock.now();
            let _ = self.audit.note(vec![AuditEntry::new(now, AuditActor::Worker, Act::RosterTaken)]);
        }
        Ok(next)
    }
}

//! Applications that wait: so many in all, a few from one source, an hour long, since people read the list.

use std::collections::{BTreeMap, BTreeSet};

use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{APPLICATION_LIFETIME, APPLICATIONS_MAX, APPLICATIONS_OPEN_PER_SOURCE};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile, RejectionFile};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{KeyUse, OwnerId};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::key::NodePublicKey;

use crate::bridge::owners::OwnerQueue;
use crate::refusal::Refusal;
use crate::source::{Source, gives_way};

/// Those that wait, as their files say.
#[derive(Debug, Default)]
pub(super) struct WaitingApplications(pub(super) BTreeMap<OwnerId, WaitingApplication>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitingApplication {
    pub(super) application: Application,
    pub(super) expires_at: UnixTime,
    /// Nothing after a restart: whoever filled the list before it does not block it for longer.
    pub(super) source: Option<Source>,
}

/// What is to be done about an application.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It waits already, word for word: until then.
    Same(UnixTime),
    /// Write it, to wait until then.
    Write(UnixTime),
    /// The same, in place of this one.
    Instead(OwnerId, UnixTime),
    /// There are as many as there may be.
    Full,
}

impl WaitingApplications {
    /// Whether somebody asks for this key to sign orders.
    pub(super) fn has(&self, key: &NodePublicKey) -> bool {
        self.0.contains_key(&OwnerId::of(&key.fingerprint()))
    }

    /// Reads what lies in the queue; what is no application of ours is taken away.
    pub(super) fn load(queue: &OwnerQueue) -> Result<Self, Refusal> {
        let mut open = BTreeMap::new();
        for file in queue.requests()? {
            let OwnerFile::Application(owner) = &file else { continue };
            let bytes = queue.request(&file, ApplicationFile::MAX)?.unwrap_or_default();
            let read = ApplicationFile::from_bytes(&bytes).ok();
            // Who confirmed a passkey is looked up in a roster that is not read yet; the worker looks itself.
            let key = |asked: &Application| if asked.passkey.is_some() { asked.key() } else { asked.verify() };
            let read =
                read.filter(|read| key(&read.application).is_ok_and(|key| OwnerId::of(&key.fingerprint()) == *owner));
            match read {
                Some(ApplicationFile { application, expires_at, .. }) => {
                    open.insert(owner.clone(), WaitingApplication { application, expires_at, source: None });
                }
                None => queue.withdraw(&file)?,
            }
        }
        Ok(Self(open))
    }

    pub(super) fn decide(&self, owner: &OwnerId, asked: &Application, source: Source, now: UnixTime) -> Decision {
        let open = |other: &WaitingApplication| other.expires_at > now;
        if let Some(there) = self.0.get(owner).filter(|there| open(there)) {
            // The name alone may differ: who has the key may change it, and waits no longer for that.
            let same = there.application.asks_as(asked);
            return if same { Decision::Same(there.expires_at) } else { Decision::Write(there.expires_at) };
        }
        let until = now.plus(APPLICATION_LIFETIME);
        let mut waiting: Vec<_> = self.0.iter().filter(|(_, other)| open(other)).collect();
        if waiting.iter().filter(|(_, other)| other.source == Some(source)).count() >= APPLICATIONS_OPEN_PER_SOURCE {
            return Decision::Full;
        }
        if waiting.len() < APPLICATIONS_MAX {
            return Decision::Write(until);
        }
        // Those of before a restart, whose sources are not known, count as of one.
        waiting.sort_by_key(|(_, other)| other.expires_at);
        let entries = waiting.into_iter().map(|(owner, other)| (other.source, owner));
        gives_way(entries, &Some(source)).map_or(Decision::Full, |owner| Decision::Instead(owner.clone(), until))
    }

    /// Those that somebody on the worker's host rejected.
    fn rejected(&self, queue: &OwnerQueue) -> Result<BTreeSet<OwnerId>, Refusal> {
        let mut rejected = BTreeSet::new();
        if self.0.is_empty() {
            return Ok(rejected);
        }
        let Ok(Some(answers)) = queue.answers() else { return Ok(rejected) };
        for owner in self.0.keys() {
            let file = OwnerFile::Application(owner.clone());
            let answer = answers.read(&file.name(), RejectionFile::MAX).ok().flatten();
            let Some(answer) = answer.and_then(|bytes| RejectionFile::from_bytes(&bytes).ok()) else { continue };
            let asked = queue.request(&file, ApplicationFile::MAX)?;
            if asked.is_some_and(|asked| Digest::of(&asked) == answer.application) {
                tracing::info!(%owner, "an application was rejected on the worker's host");
                rejected.insert(owner.clone());
            }
        }
        Ok(rejected)
    }

    /// Takes those away that ran out, that were rejected, or whose key is in the roster by now.
    pub(super) fn expire(
        &mut self,
        queue: &OwnerQueue,
        now: UnixTime,
        is_there: impl Fn(&Application) -> bool,
    ) -> Result<(), Refusal> {
        let rejected = self.rejected(queue)?;
        let over = |owner: &OwnerId, open: &WaitingApplication| {
            open.expires_at <= now || rejected.contains(owner) || is_there(&open.application)
        };
        let gone = self.0.iter().filter(|(owner, open)| over(owner, open));
        let gone: Vec<OwnerId> = gone.map(|(owner, _)| owner.clone()).collect();
        for owner in gone {
            queue.withdraw(&OwnerFile::Application(owner.clone()))?;
            self.0.remove(&owner);
        }
        Ok(())
    }
}

/// Whether the roster has what is asked for.
pub(super) fn has(roster: &VerifiedRoster, asked: &Application, key: &NodePublicKey) -> bool {
    let fingerprint = key.fingerprint();
    match &asked.passkey {
        None => roster.caller(&fingerprint).is_some(),
        Some(passkey) => roster.key(&passkey.owner, &fingerprint, KeyUse::OrderPasskey).is_some(),
    }
}

//! Who asks to become an owner (design.md O3): checked for its form, passed on to the worker's host, decided there.
//!
//! An application makes nobody anything. It is bounded because people read the list: so many in all, a few from one
//! source, an hour long. The same key asking again is asking once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::Applied;
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{APPLICATION_LIFETIME, APPLICATIONS_MAX, APPLICATIONS_OPEN_PER_SOURCE};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile, RejectionFile};
use lucia_proto::orders::application::{Application, ApplicationError};
use lucia_proto::orders::owner::{self, CredentialId, KeyUse, OwnerId, OwnerName};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::key::{Fingerprint, KeyError, NodePublicKey, VerificationCode};

use super::super::Controller;
use crate::bridge::owners::OwnerQueue;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::source::{Source, gives_way};

/// Those that wait, as their files say.
#[derive(Debug, Default)]
pub(super) struct Applications(BTreeMap<OwnerId, Open>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    application: Application,
    expires_at: UnixTime,
    /// Nothing after a restart: whoever filled the list before it does not block it for longer.
    source: Option<Source>,
}

/// What is to be done about an application.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It waits already, word for word: until then.
    Same(UnixTime),
    /// Write it, to wait until then.
    Write(UnixTime),
    /// The same, in place of this one.
    Instead(OwnerId, UnixTime),
    /// There are as many as there may be.
    Full,
}

impl Applications {
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
                    open.insert(owner.clone(), Open { application, expires_at, source: None });
                }
                None => queue.withdraw(&file)?,
            }
        }
        Ok(Self(open))
    }

    fn decide(&self, owner: &OwnerId, asked: &Application, source: Source, now: UnixTime) -> Decision {
        let open = |other: &Open| other.expires_at > now;
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
        let over = |owner: &OwnerId, open: &Open| {
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

/// Somebody who waits to become an owner: what is compared on the worker's host with what that person reads out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applicant {
    /// As they call themselves.
    pub name: OwnerName,
    /// Whether the key is a passkey that is to sign orders, of somebody who is an owner already.
    pub is_passkey: bool,
    /// The short form of their key.
    pub code: VerificationCode,
    /// The whole of it.
    pub fingerprint: Fingerprint,
    /// Until when they wait.
    pub until: UnixTime,
}

impl Controller {
    /// Who waits to become an owner, whoever runs out first at the top.
    pub fn applicants(&self) -> Vec<Applicant> {
        let now = self.clock.now();
        let applications = lock(&self.owners.applications);
        let open = applications.0.values().filter(|open| open.expires_at > now);
        let mut waiting: Vec<_> = open
            .filter_map(|open| {
                let key = NodePublicKey::from_pem(&open.application.public_key_pem).ok()?;
                let (name, code) = (open.application.name.clone(), owner::code(&key));
                let is_passkey = open.application.passkey.is_some();
                Some(Applicant { name, is_passkey, code, fingerprint: key.fingerprint(), until: open.expires_at })
            })
            .collect();
        waiting.sort_by_key(|applicant| applicant.until);
        waiting
    }

    /// Whether the roster has this passkey, by its id or its key: one for orders signs nobody in (design.md O2).
    pub(in crate::parts) fn signs_orders(&self, id: &CredentialId, key: &NodePublicKey) -> bool {
        self.owners.roster().is_some_and(|roster| roster.has_passkey(id, &key.fingerprint()))
    }

    /// Whether it does, or is asked for to do so: a passkey is for one use.
    pub(in crate::parts) fn is_for_orders(&self, id: &CredentialId, key: &NodePublicKey) -> bool {
        self.signs_orders(id, key) || lock(&self.owners.applications).0.contains_key(&OwnerId::of(&key.fingerprint()))
    }

    /// Somebody asks to become an owner. The same key gets the same answer.
    ///
    /// # Errors
    /// `bad_key`, `invalid_onboarding_request` for a signature that is not the key's, `too_many_requests`,
    /// `registry_full` while as many wait as may.
    pub fn apply(&self, asked: Application, from: IpAddr) -> Result<Applied, Refusal> {
        self.owners.asking.allow(from, self.clock.since_boot())?;
        self.verifier.count();
        let roster = self.owners.roster();
        let key = asked.verify_in(roster.as_deref()).map_err(|error| refused(&error))?;
        let verification_code = owner::code(&key);
        let (now, id) = (self.clock.now(), OwnerId::of(&key.fingerprint()));
        // The worker judges this anew; who asks is to hear it at once.
        asked.is_for(&self.verifier.fleet(), now).map_err(|error| refused(&error))?;
        if roster.is_some_and(|roster| has(&roster, &asked, &key)) {
            // Who is in the roster has nothing to wait for, and is told no more than anybody.
            return Ok(Applied { verification_code, expires_at: now.plus(APPLICATION_LIFETIME) });
        }
        if asked.passkey.is_some() && self.signs_in(&key) {
            let message = "This passkey signs somebody in on the page, and a key is for one use: what it is made to sign \
                           there could be an order. Make another one for orders (the page, Passkeys).";
            return Err(Refusal::new(Code::InvalidOnboardingRequest, message));
        }
        // Nothing is taken that cannot be noted.
        self.audit.note(Vec::new())?;
        let source = Source::of(from);
        let mut applications = lock(&self.owners.applications);
        let (gone, expires_at) = match applications.decide(&id, &asked, source, now) {
            Decision::Same(expires_at) => return Ok(Applied { verification_code, expires_at }),
            Decision::Write(expires_at) => (None, expires_at),
            Decision::Instead(gone, expires_at) => (Some(gone), expires_at),
            Decision::Full => {
                let message = format!(
                    "At most {APPLICATIONS_MAX} people wait to become owners, {APPLICATIONS_OPEN_PER_SOURCE} of them from \
                     one address; ask again within the hour, or have some decided (lucia-enrollment-worker owner pending)."
                );
                return Err(Refusal::new(Code::RegistryFull, message));
            }
        };
        let file = ApplicationFile { schema_version: Version, application: asked.clone(), expires_at };
        let bytes = file.to_bytes().map_err(|error| Refusal::persistence(&error))?;
        let queue = &self.owners.queue;
        queue.ask(&OwnerFile::Application(id.clone()), &bytes)?;
        if let Some(gone) = gone {
            queue.withdraw(&OwnerFile::Application(gone.clone()))?;
            applications.0.remove(&gone);
            tracing::info!(owner = %gone, "an application gave way: its source has the most that wait");
        }
        tracing::info!(owner = %id, name = %asked.name, %from, "somebody asks to become an owner");
        let actor = AuditActor::Applicant(id.clone(), asked.name.clone());
        let note = AuditEntry::new(now, actor, Act::ApplicationReceived);
        self.audit.note(vec![AuditEntry { from: Some(from), ..note }])?;
        applications.0.insert(id, Open { application: asked, expires_at, source: Some(source) });
        Ok(Applied { verification_code, expires_at })
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

fn refused(error: &ApplicationError) -> Refusal {
    let error = match error {
        ApplicationError::Key(error) => error,
        ApplicationError::NoOwner | ApplicationError::OtherFleet(_) | ApplicationError::OtherTime { .. } => {
            return Refusal::new(Code::InvalidOnboardingRequest, format!("This application is not taken: {error}."));
        }
    };
    match error {
        KeyError::Mismatch | KeyError::NotSignature => Refusal::new(
            Code::InvalidOnboardingRequest,
            format!("signature: {error}; it is made by the key itself, over its name, fingerprint, fleet and time."),
        ),
        KeyError::NotP256 | KeyError::Pem(_) | KeyError::NotPrivateKey => {
            Refusal::new(Code::BadKey, format!("publicKeyPem: {error}."))
        }
    }
}

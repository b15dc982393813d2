//! Who asks to become an owner (design.md O3): checked for its form, passed on to the worker's host, decided there.
//!
//! An application makes nobody anything. It is bounded because people read the list: so many in all, a few from one
//! source, an hour long. The same key asking again is asking once.

use std::net::IpAddr;

use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::Applied;
use lucia_proto::base::acts::Act;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{APPLICATION_LIFETIME, APPLICATIONS_MAX, APPLICATIONS_OPEN_PER_SOURCE};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile};
use lucia_proto::orders::application::{Application, ApplicationError};
use lucia_proto::orders::owner::{self, OwnerId, OwnerName};
use lucia_proto::pki::key::{Fingerprint, KeyError, NodePublicKey, VerificationCode};

use super::People;
use super::waiting::{Decision, WaitingApplication, has};
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::source::Source;

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

impl People {
    /// Takes those away that wait no longer.
    pub(super) fn expire_applications(&self) {
        let roster = self.verified_roster();
        let is_there = |application: &Application| {
            let key = application.key().ok();
            key.is_some_and(|key| roster.as_ref().is_some_and(|roster| has(roster, application, &key)))
        };
        if let Err(refusal) = lock(&self.waiting).expire(&self.queue, self.clock.now(), is_there) {
            tracing::warn!(code = refusal.code.as_str(), "applications that ran out stay: {refusal}");
        }
    }

    /// Who waits to become an owner, whoever runs out first at the top.
    pub fn applicants(&self) -> Vec<Applicant> {
        let now = self.clock.now();
        let applications = lock(&self.waiting);
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

    /// Somebody asks to become an owner. The same key gets the same answer.
    ///
    /// # Errors
    /// `bad_key`, `invalid_onboarding_request` for a signature that is not the key's, `too_many_requests`,
    /// `registry_full` while as many wait as may.
    pub fn apply(&self, asked: Application, from: IpAddr) -> Result<Applied, Refusal> {
        self.applications_asked.allow(from, self.clock.since_boot())?;
        self.verifier.count();
        let roster = self.verified_roster();
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
        let mut applications = lock(&self.waiting);
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
        let bytes = file.to_bytes().map_err(Refusal::persistence)?;
        let queue = &self.queue;
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
        applications.0.insert(id, WaitingApplication { application: asked, expires_at, source: Some(source) });
        Ok(Applied { verification_code, expires_at })
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

//! Signing in to the page (design.md O1): passkeys that were confirmed with an owner key, and the sessions they begin.
//!
//! A passkey proves presence to this controller and nothing to anybody else. What it lets in may look, and draft; what
//! a node or the worker carries out is signed elsewhere (design.md O2).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::sign_in::{PasskeyAsked, PasskeyForm, PasskeyView, PasskeysView, SessionsView, SignIn, SignedIn};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::PASSKEYS_PER_OWNER_MAX;
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::owner::{OwnerId, OwnerName, PageOrigin, Role};
use lucia_proto::pki::key::{Fingerprint, NodePublicKey, VerificationCode};

use super::People;
use super::requests::{Decision, WaitingPasskey};
use super::sessions::Session;
use crate::lock::lock;
use crate::parts::audit::{AuditedChange, By};
use crate::parts::challenges::Whose;
use crate::refusal::{Refusal, chain};
use crate::source::Source;
use crate::store::passkeys::Passkey;

/// Whose session a call comes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSession {
    /// Who.
    pub id: OwnerId,
    /// What people call them.
    pub name: OwnerName,
    /// What they may do.
    pub role: Role,
}

/// What became of a passkey that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedPasskey {
    /// Nobody confirmed it yet.
    Waits,
    /// It signs in whoever confirmed it.
    Confirmed,
    /// It is not known here: its hour is over, or it never was.
    Gone,
}

/// A session that began: what the browser is told, and what it keeps.
#[derive(Debug)]
pub struct NewSession {
    /// The answer.
    pub answer: SignedIn,
    /// The cookie's value: 32 random bytes in base64url.
    pub token: String,
}

/// Whoever is not let in: one code, one message.
fn nobody(log: impl Into<String>) -> Refusal {
    let message = "This passkey signs nobody in here; add one and confirm its code (luciactl passkey approve CODE).";
    Refusal::logged(Code::ActorRequired, message, log)
}

impl People {
    fn session_role(&self, session: &Session) -> Option<Role> {
        self.role_by(&session.owner, session.confirmed_by.as_ref())
    }

    /// Whether somebody signs in with this key.
    pub(super) fn signs_in(&self, key: &NodePublicKey) -> bool {
        lock(&self.passkeys).list().iter().any(|passkey| passkey.key == *key)
    }

    /// Somebody signs in with a passkey, over a challenge of scope `owner`, on the page at `origin`.
    ///
    /// An unknown passkey, a wrong signature, another page, a passkey for orders and somebody who left are one and the same
    /// refusal after one verification.
    ///
    /// # Errors
    /// `too_many_requests`, `challenge_refused`, `actor_required`.
    pub fn sign_in(&self, sign_in: &SignIn, origin: &PageOrigin, from: IpAddr) -> Result<NewSession, Refusal> {
        let now = self.clock.since_boot();
        self.sign_ins_tried.allow(from, now)?;
        let nonce = self.challenges.open(&sign_in.challenge_id, &Scope::Owner, from)?;
        let passkey = lock(&self.passkeys).find(&sign_in.credential_id).cloned();
        self.verifier.count();
        let key = passkey.as_ref().map_or_else(|| self.verifier.dummy(), |passkey| &passkey.key);
        let verified = sign_in.verify(&nonce, key, origin);
        let passkey = passkey.ok_or_else(|| nobody("there is no such passkey"))?;
        verified.map_err(|error| nobody(format!("the sign-in is refused: {}", chain(&error))))?;
        let role = self.role_by(&passkey.owner, passkey.confirmed_by.as_ref());
        let (Some(role), Some(name)) = (role, self.name_of(&passkey.owner)) else {
            return Err(nobody("the passkey's owner, or the key that confirmed it, is not in the roster"));
        };
        if self.has_passkey(&passkey.credential_id, &passkey.key) {
            return Err(nobody("the roster has this passkey for orders by now"));
        }
        self.challenges.accept(&sign_in.challenge_id, Whose::Owner(&passkey.owner))?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(Refusal::no_randomness)?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let session = Session {
            owner: passkey.owner,
            name: name.clone(),
            role,
            passkey: passkey.code,
            confirmed_by: passkey.confirmed_by,
            from,
            since: self.clock.now(),
            begun: now,
            used: now,
        };
        let expires_at = session.expires_at();
        // Rather told of and not there than there and not told of.
        let actor = AuditActor::Owner(session.owner.clone(), name.clone());
        let note = AuditEntry::new(self.clock.now(), actor, Act::SignedIn);
        self.audit.note(vec![AuditEntry { from: Some(from), ..note }])?;
        // A passkey that was removed meanwhile begins no session: its removal ends those that there are.
        let passkeys = lock(&self.passkeys);
        if passkeys.find(&sign_in.credential_id).is_none() {
            return Err(nobody("the passkey was removed meanwhile"));
        }
        lock(&self.sessions).begin(&token, session);
        drop(passkeys);
        tracing::info!(owner = %name, %from, "signed in to the page");
        Ok(NewSession { answer: SignedIn { name, role, expires_at }, token })
    }

    /// Whose session this is; it counts as used, unless the page asks by itself.
    ///
    /// # Errors
    /// `actor_required` for every token that is none.
    pub fn session(&self, token: &str, uses: bool) -> Result<InSession, Refusal> {
        let mut sessions = lock(&self.sessions);
        let found = sessions.find(token, uses, self.clock.since_boot(), &|session| self.session_role(session));
        let found = found.map(|session| InSession {
            id: session.owner.clone(),
            name: session.name.clone(),
            role: session.role,
        });
        drop(sessions);
        found.ok_or_else(|| Refusal::actor("no session of this cookie, or it is over"))
    }

    /// Whether a session goes on, without using it.
    pub fn session_goes_on(&self, token: &str) -> bool {
        lock(&self.sessions).goes_on(token, self.clock.since_boot(), &|session| self.session_role(session))
    }

    /// The sessions of whoever asks; the operator sees all. `current` is the token they ask with.
    pub fn sessions(&self, by: &By, current: Option<&str>) -> SessionsView {
        self.expire_sign_ins();
        let sessions = lock(&self.sessions).view(by.owner(), current);
        SessionsView { server_time: self.clock.now(), sessions }
    }

    /// Ends one session of whoever asks, or all.
    ///
    /// # Errors
    /// `session_not_found` when one is named that is none of theirs; `persistence_failed` when it cannot be noted, and they
    /// are ended all the same.
    pub fn end_sessions(&self, by: &By, code: Option<&VerificationCode>) -> Result<(), Refusal> {
        let of = by.owner();
        let ends = |own: &VerificationCode, session: &Session| {
            of.is_none_or(|owner| session.owner == *owner) && code.is_none_or(|code| code == own)
        };
        let ended = lock(&self.sessions).end(ends);
        let done = if ended == 0 && code.is_some() {
            Err(Refusal::new(Code::SessionNotFound, "There is no such session of yours."))
        } else {
            Ok(())
        };
        self.audit.noted(by, &AuditedChange::new(Act::SessionEnded, None), done)
    }

    /// Somebody hands in a passkey. The same one again gets the same answer.
    ///
    /// # Errors
    /// `bad_key`, `too_many_requests`, `registry_full` while as many wait as may.
    pub fn ask_passkey(&self, form: PasskeyForm, from: IpAddr) -> Result<PasskeyAsked, Refusal> {
        let now = self.clock.since_boot();
        self.passkeys_asked.allow(from, now)?;
        form.key().map_err(|error| Refusal::new(Code::BadKey, format!("publicKey: {error}.")))?;
        let code = form.code();
        match lock(&self.requests).ask(form, Source::of(from), now) {
            Decision::Waits(left) => Ok(PasskeyAsked { code, expires_at: self.clock.now().plus(left) }),
            Decision::Full => {
                let message = "As many passkeys wait to be confirmed as may; confirm or wait, an hour at most.";
                Err(Refusal::new(Code::RegistryFull, message))
            }
        }
    }

    /// Passkeys that wait to be confirmed, for an owner to dismiss.
    pub fn waiting_passkeys(&self) -> Vec<WaitingPasskey> {
        lock(&self.requests).waiting(self.clock.since_boot())
    }

    /// What became of a passkey that was handed in under this code. Whoever knows the code may know that.
    pub fn asked_passkey(&self, code: &VerificationCode) -> AskedPasskey {
        // In the order of a confirmation, so that it is seen in one of the two places.
        let waits = lock(&self.requests).find(code, self.clock.since_boot()).is_some();
        let confirmed = lock(&self.passkeys).list().iter().any(|passkey| passkey.code == *code);
        match (confirmed, waits) {
            (true, _) => AskedPasskey::Confirmed,
            (false, true) => AskedPasskey::Waits,
            (false, false) => AskedPasskey::Gone,
        }
    }

    /// Confirms a passkey that waits: from now on it signs in whoever confirmed it with their owner key, for as long
    /// as the roster has that.
    ///
    /// # Errors
    /// `passkey_not_found`, `invalid_onboarding_request` when they have as many as they may or it signs somebody in
    /// already, `actor_required` for the operator, who has no passkeys, `persistence_failed`.
    pub fn approve_passkey(
        &self,
        code: &VerificationCode,
        by: &By,
        confirmed_by: &Fingerprint,
    ) -> Result<PasskeyView, Refusal> {
        let act = AuditedChange::new(Act::PasskeyConfirmed, None);
        self.audit.audited(by, &act, || {
            let By::Owner { id, name, .. } = by else {
                return Err(Refusal::actor("the operator has no passkeys"));
            };
            let none = || Refusal::new(Code::PasskeyNotFound, format!("No passkey waits under {code}; add it anew."));
            // Only whose it is hears that it is confirmed: to anybody else there is none of this code.
            let confirmed = || {
                let passkeys = lock(&self.passkeys);
                let is_theirs = |passkey: &Passkey| passkey.code == *code && passkey.owner == *id;
                passkeys.list().iter().any(is_theirs).then(|| {
                    let message =
                        format!("It is confirmed already: {code} signs you in. luciactl passkey list shows yours.");
                    Refusal::new(Code::InvalidOnboardingRequest, message)
                })
            };
            let mut asked = lock(&self.requests);
            let form = asked.find(code, self.clock.since_boot()).cloned();
            let form = form.ok_or_else(|| confirmed().unwrap_or_else(none))?;
            let key = form.key().map_err(|error| Refusal::new(Code::BadKey, format!("publicKey: {error}.")))?;
            let asks = lock(&self.waiting).has(&key);
            if asks || self.has_passkey(&form.credential_id, &key) {
                let message = "This passkey signs orders, or is asked for to do so, and a passkey for orders signs nobody in: what it \
                               is made to sign at a sign-in could be an order. Make another one for signing in (the page, \
                               Passkeys).";
                return Err(Refusal::new(Code::InvalidOnboardingRequest, message));
            }
            let mut passkeys = lock(&self.passkeys);
            let stays = |owner: &OwnerId| self.role_of(owner).is_some();
            if passkeys.find(&form.credential_id).is_some() {
                let message = "This passkey signs somebody in already; remove it there first.";
                return Err(Refusal::new(Code::InvalidOnboardingRequest, message));
            }
            if !passkeys.has_room(id, stays) {
                let message = format!("You have {PASSKEYS_PER_OWNER_MAX} passkeys already; remove one first.");
                return Err(Refusal::new(Code::InvalidOnboardingRequest, message));
            }
            let passkey = Passkey {
                owner: id.clone(),
                code: code.clone(),
                label: form.label,
                credential_id: form.credential_id,
                key,
                added_at: self.clock.now(),
                confirmed_by: Some(*confirmed_by),
            };
            let view = PasskeyView {
                code: passkey.code.clone(),
                owner: Some(name.clone()),
                label: passkey.label.clone(),
                added_at: passkey.added_at,
            };
            passkeys.add(passkey, stays).map_err(Refusal::persistence)?;
            asked.forget(code);
            tracing::info!(owner = %name, %code, "a passkey was confirmed");
            Ok(view)
        })
    }

    /// The passkeys of whoever asks; the operator sees all.
    pub fn passkeys(&self, by: &By) -> PasskeysView {
        let of = by.owner();
        let passkeys = lock(&self.passkeys);
        let own = passkeys.list().iter().filter(|passkey| of.is_none_or(|owner| passkey.owner == *owner));
        let view = |passkey: &Passkey| PasskeyView {
            code: passkey.code.clone(),
            owner: self.name_of(&passkey.owner),
            label: passkey.label.clone(),
            added_at: passkey.added_at,
        };
        PasskeysView { passkeys: own.map(view).collect() }
    }

    /// Removes one of them, and ends the sessions it began. An owner, or the operator, also dismisses so what waits to be
    /// confirmed, whoever handed it in.
    ///
    /// # Errors
    /// `passkey_not_found`, `persistence_failed`.
    pub fn remove_passkey(&self, code: &VerificationCode, by: &By) -> Result<(), Refusal> {
        let act = AuditedChange::new(Act::PasskeyRemoved, None);
        self.audit.audited(by, &act, || {
            let of = by.owner();
            let may_dismiss = of.is_none_or(|owner| self.role_of(owner) == Some(Role::Owner));
            let was_waiting = may_dismiss && lock(&self.requests).forget(code);
            let mut passkeys = lock(&self.passkeys);
            let is_meant = |passkey: &Passkey| passkey.code == *code && of.is_none_or(|owner| passkey.owner == *owner);
            let removed = passkeys.remove(is_meant).map_err(Refusal::persistence)?;
            if removed == 0 && was_waiting {
                tracing::info!(%code, by = by.actor(), "a passkey that waited was dismissed");
                return Ok(());
            }
            if removed == 0 {
                return Err(Refusal::new(Code::PasskeyNotFound, format!("You have no passkey {code}.")));
            }
            lock(&self.sessions).end(|_, session| session.passkey == *code);
            Ok(())
        })
    }

    /// What time ends.
    pub(super) fn expire_sign_ins(&self) {
        let now = self.clock.since_boot();
        lock(&self.requests).expire(now);
        lock(&self.sessions).expire(now, &|session| self.session_role(session));
    }
}

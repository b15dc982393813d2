//! Automation tokens (design.md O1): made by an owner with the owner key, kept as hashes, and good for looking alone.
//!
//! A token is its owner's: it opens nothing once the roster has them no more as an owner, and goes then for good. Whoever
//! presents one that is unknown, wrong, over or removed gets one and the same refusal, counted by where they call from.

use std::net::IpAddr;
use std::time::Duration;

use lucia_people::token::{TokenForm, TokenMade, TokenName, TokenScopes, TokenSecret, TokenView, TokensView};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{TOKEN_CALLS_PER_SECOND, TOKENS_PER_OWNER_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::Role;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use subtle::ConstantTimeEq as _;

use super::{People, TokenUse};
use crate::lock::lock;
use crate::parts::audit::{AuditedChange, By};
use crate::refusal::Refusal;
use crate::source::{Bucket, Rate};
use crate::store::tokens::Token;

/// Whose token a call comes with, and what it may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// What its owner calls it.
    pub name: TokenName,
    /// What it may look at.
    pub scopes: TokenScopes,
}

/// Whoever presents no token of ours: one code, one message.
fn nobody(log: impl Into<String>) -> Refusal {
    let message = "This token opens nothing here: an owner makes one by luciactl token add, and each ends by itself.";
    Refusal::logged(Code::ActorRequired, message, log)
}

/// The name of a token in calls: its hash, cut, says nothing of it.
fn code(token: &Token) -> Option<VerificationCode> {
    token.hash.to_string().parse::<Fingerprint>().ok().map(|hash| hash.verification_code())
}

impl People {
    /// Whether a token is its owner's still and its time is not over.
    fn goes_on(&self, token: &Token, now: UnixTime) -> bool {
        now < token.expires_at && self.role_of(&token.owner) == Some(Role::Owner)
    }

    /// Whose token this is, which counts as used now.
    ///
    /// # Errors
    /// `actor_required` for whatever is none, `too_many_requests`.
    pub fn token(&self, presented: Option<&str>, from: IpAddr) -> Result<TokenHolder, Refusal> {
        let since_boot = self.clock.since_boot();
        self.token_calls.allow(from, since_boot)?;
        let secret = presented.and_then(|text| text.parse::<TokenSecret>().ok());
        let kept = secret.ok_or_else(|| nobody("what was presented is no token"))?.kept();
        let store = lock(&self.tokens);
        // All are compared, each in the same time: how long it takes tells nothing of any.
        let mut found = None;
        for token in store.list() {
            if bool::from(token.hash.as_bytes().ct_eq(kept.as_bytes())) {
                found = Some(token);
            }
        }
        let token = found.ok_or_else(|| nobody("there is no such token"))?;
        let now = self.clock.now();
        if !self.goes_on(token, now) {
            return Err(nobody(format!("the token {} is over, or its owner is none any more", token.name)));
        }
        let mut all = lock(&self.tokens_used);
        let used = all.entry(token.hash).or_insert_with(|| TokenUse { at: now, calls: Bucket::default() });
        if !used.calls.take(Rate::new(TOKEN_CALLS_PER_SECOND, Duration::from_secs(1)), since_boot) {
            let message = format!("More than {TOKEN_CALLS_PER_SECOND} calls with one token within 1 s.");
            return Err(Refusal::new(Code::TooManyRequests, message));
        }
        used.at = now;
        Ok(TokenHolder { name: token.name.clone(), scopes: token.scopes.clone() })
    }

    /// Makes a token of whoever asks. The answer is the one place where it stands.
    ///
    /// # Errors
    /// `actor_required` for the operator, who looks over the socket; `invalid_onboarding_request` for a name they use
    /// already and when they have as many as they may; `persistence_failed`.
    pub fn make_token(&self, form: TokenForm, by: &By) -> Result<TokenMade, Refusal> {
        let act = AuditedChange { token: Some(form.name.clone()), ..AuditedChange::new(Act::TokenMade, None) };
        self.audit.audited(by, &act, || {
            let By::Owner { id, .. } = by else {
                return Err(Refusal::actor("the operator has no tokens"));
            };
            let now = self.clock.now();
            let mut store = lock(&self.tokens);
            let own = store.list().iter().filter(|token| token.owner == *id && self.goes_on(token, now));
            let refuse = |message: String| Err(Refusal::new(Code::InvalidOnboardingRequest, message));
            if own.clone().any(|token| token.name == form.name) {
                return refuse(format!("name: you have a token {} already; remove it first.", form.name));
            }
            if own.count() >= TOKENS_PER_OWNER_MAX {
                return refuse(format!("You have {TOKENS_PER_OWNER_MAX} tokens already; remove one first."));
            }
            let mut random = [0; 32];
            getrandom::fill(&mut random).map_err(Refusal::no_randomness)?;
            let secret = TokenSecret::from_random(&random);
            let token = Token {
                owner: id.clone(),
                name: form.name,
                scopes: form.scopes,
                hash: secret.kept(),
                added_at: now,
                expires_at: now.plus(form.days.duration()),
            };
            let view = self.token_view(&token).ok_or_else(|| Refusal::new(Code::Busy, "The token has no code."))?;
            store.add(token, |there| self.goes_on(there, now)).map_err(Refusal::persistence)?;
            Ok(TokenMade { token: view, secret })
        })
    }

    fn token_view(&self, token: &Token) -> Option<TokenView> {
        Some(TokenView {
            code: code(token)?,
            name: token.name.clone(),
            owner: self.name_of(&token.owner),
            scopes: token.scopes.clone(),
            added_at: token.added_at,
            expires_at: token.expires_at,
            used_at: lock(&self.tokens_used).get(&token.hash).map(|used| used.at),
        })
    }

    /// The tokens of whoever asks; the operator sees all.
    pub fn tokens(&self, by: &By) -> TokensView {
        let (of, now) = (by.owner(), self.clock.now());
        let store = lock(&self.tokens);
        let shown = store.list().iter().filter(|token| of.is_none_or(|owner| token.owner == *owner));
        let tokens = shown.filter(|token| now < token.expires_at).filter_map(|token| self.token_view(token)).collect();
        TokensView { server_time: now, tokens }
    }

    /// Removes one of them: it opens nothing from then on.
    ///
    /// # Errors
    /// `token_not_found`, `persistence_failed`.
    pub fn remove_token(&self, wanted: &VerificationCode, by: &By) -> Result<(), Refusal> {
        let of = by.owner();
        let is_meant =
            |token: &Token| code(token).as_ref() == Some(wanted) && of.is_none_or(|owner| token.owner == *owner);
        let name = lock(&self.tokens).list().iter().find(|token| is_meant(token)).map(|token| token.name.clone());
        let act = AuditedChange { token: name, ..AuditedChange::new(Act::TokenRemoved, None) };
        self.audit.audited(by, &act, || {
            let mut store = lock(&self.tokens);
            let gone = store.forget(is_meant).map_err(Refusal::persistence)?;
            if gone.is_empty() {
                return Err(Refusal::new(Code::TokenNotFound, format!("You have no token {wanted}.")));
            }
            let mut used = lock(&self.tokens_used);
            used.retain(|hash, _| gone.iter().all(|token| token.hash != *hash));
            Ok(())
        })
    }

    /// Takes away what is over, and what somebody made who is no owner any more: they come back without it.
    pub(super) fn expire_tokens(&self) {
        let now = self.clock.now();
        // Until the roster was read nobody is known to have left it.
        if self.verified_roster().is_none() {
            return;
        }
        let mut store = lock(&self.tokens);
        match store.forget(|token| !self.goes_on(token, now)) {
            Ok(gone) => {
                let mut used = lock(&self.tokens_used);
                used.retain(|hash, _| gone.iter().all(|token| token.hash != *hash));
                for token in gone {
                    tracing::info!(token = %token.name, "an automation token is over, or its owner is none any more");
                }
            }
            // They open nothing all the same, and go when the disk takes it.
            Err(error) => {
                tracing::warn!("automation tokens that are over stay on the disk: {}", crate::refusal::chain(&error))
            }
        }
    }
}

//! Whether an order is carried out: one pure function, in the order that the issue gives.

use super::body::Body;
use super::kind::{Actor, IntentKind};
use super::memory::IntentMemory;
use super::policy::{IntentPolicy, Rule};
use super::refusal::IntentRefusal;
use super::signed::{IntentSignature, SignatureForm, SignedIntent};
use super::{Intent, IntentId, Terms, passkey, signed_text};
use crate::digest::Digest;
use crate::freshness::IntentTime;
use crate::ids::NodeId;
use crate::key::Signature;
use crate::limits::{INTENT_AHEAD, INTENT_SIGNATURES_MAX};
use crate::names::Hostname;
use crate::owner::{KeyUse, OwnerId, Role};
use crate::roster::VerifiedRoster;
use crate::time::UnixTime;

/// What who carries out an order knows, and holds it against.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a> {
    /// Who this is.
    pub actor: Actor,
    /// The policy of this machine; the roster's counts besides.
    pub policy: &'a IntentPolicy,
    /// The SHA-256 of the root that this machine was given.
    pub fleet: &'a Digest,
    /// This node; at the worker and the controller the node that the order is to be carried out for.
    pub node: &'a NodeId,
    /// What that node is called.
    pub hostname: &'a Hostname,
    /// The roster held here.
    pub roster: &'a VerifiedRoster,
    /// The version of the bundle held here.
    pub bundle_version: u64,
    /// How late it is, if that is known.
    pub time: Option<IntentTime>,
    /// What was ordered before.
    pub memory: &'a IntentMemory,
}

/// An order that an owner of the roster gave, for this node, now, and that was not carried out yet. Only
/// [`SignedIntent::check`] makes one. It is carried out as [`super::Order`], after it was remembered.
#[derive(Debug)]
pub struct VerifiedIntent {
    pub(super) id: IntentId,
    pub(super) intent: Intent,
    pub(super) body: Body,
    pub(super) signers: Vec<OwnerId>,
    pub(super) now: UnixTime,
}

impl VerifiedIntent {
    /// Which order it is.
    #[must_use]
    pub const fn id(&self) -> IntentId {
        self.id
    }

    /// Its head.
    #[must_use]
    pub const fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The owners who signed it, each once.
    #[must_use]
    pub fn signers(&self) -> &[OwnerId] {
        &self.signers
    }
}

impl SignedIntent {
    /// Checks the order: kind and policy, fleet, name, roster, signatures, freshness, time, body, memory.
    ///
    /// # Errors
    /// The first that does not hold; nothing of a refused order may be used.
    pub fn check(&self, by: &Checker<'_>) -> Result<VerifiedIntent, IntentRefusal> {
        let intent = Intent::parse(&self.intent_json).map_err(IntentRefusal::Malformed)?;
        let signers = self.signers()?;
        allowed(intent.kind, &signers, by.actor, by.policy.stricter(by.roster.policy(), intent.kind))?;
        let (body, now) = self.ordered_now(&intent, &signers, by)?;
        if let Some(signed) = body.hostname()
            && signed != by.hostname
        {
            return Err(IntentRefusal::NameDiffers { signed: signed.clone(), found: by.hostname.clone() });
        }
        by.memory.judge(self.id(), &intent, now)?;
        Ok(VerifiedIntent { id: self.id(), intent, body, signers, now })
    }

    /// The memory in which this order stands as refused, if it is one that is remembered as that: an owner gave it for this
    /// node and for now, it is done once, and it was refused for what may be otherwise at another time. Store it before the
    /// refusal is told. Nothing is remembered of what nobody ordered, so nobody but an owner fills a memory.
    #[must_use]
    pub fn remember_refused(&self, by: &Checker<'_>, refusal: &IntentRefusal) -> Option<IntentMemory> {
        let code = Some(refusal.code()).filter(|code| code.is_remembered())?;
        let intent = Intent::parse(&self.intent_json).ok()?;
        if intent.kind.is_state() {
            return None;
        }
        let signers = self.signers().ok()?;
        let (body, now) = self.ordered_now(&intent, &signers, by).ok()?;
        let mut memory = by.memory.clone();
        let order = memory.remember(VerifiedIntent { id: self.id(), intent, body, signers, now }).ok()?;
        memory.note_refused(self.id(), order.intent(), code);
        Some(memory)
    }

    /// Whether owners of the roster gave it to this node for now, whatever is allowed and whatever was ordered before.
    fn ordered_now(
        &self,
        intent: &Intent,
        signers: &[OwnerId],
        by: &Checker<'_>,
    ) -> Result<(Body, UnixTime), IntentRefusal> {
        if intent.fleet != *by.fleet {
            return Err(IntentRefusal::OtherFleet(intent.fleet));
        }
        if !intent.nodes.contains(by.node) {
            return Err(IntentRefusal::NotNamed(by.node.clone()));
        }
        self.ordered(intent, signers, by.roster)?;
        let now = fresh(by)?;
        in_time(intent, now)?;
        Ok((self.body(intent)?, now))
    }

    /// Whether this is a signature of an owner of the roster under this very order, whatever else holds of it: what
    /// whoever collects signatures can tell before the order is sent.
    ///
    /// # Errors
    /// Why it is none.
    pub fn check_signature(
        &self,
        signature: &IntentSignature,
        kind: IntentKind,
        roster: &VerifiedRoster,
    ) -> Result<(), IntentRefusal> {
        self.verify(signature, kind, roster)
    }

    /// Whether owners of this roster, as many as the policies ask for, ordered it: what may change between an order that was
    /// taken and its being carried out. Whatever else [`SignedIntent::check`] looks at stays as it was when it was taken.
    ///
    /// # Errors
    /// Why they did not.
    pub fn check_authority(
        &self,
        actor: Actor,
        policy: &IntentPolicy,
        roster: &VerifiedRoster,
    ) -> Result<(), IntentRefusal> {
        let intent = Intent::parse(&self.intent_json).map_err(IntentRefusal::Malformed)?;
        let signers = self.signers()?;
        allowed(intent.kind, &signers, actor, policy.stricter(roster.policy(), intent.kind))?;
        self.ordered(&intent, &signers, roster)
    }

    /// Whether the owner it names is among those who signed, and each of them is an owner of the roster who did.
    fn ordered(&self, intent: &Intent, signers: &[OwnerId], roster: &VerifiedRoster) -> Result<(), IntentRefusal> {
        if !signers.contains(&intent.owner) {
            return Err(IntentRefusal::OwnerUnknown(intent.owner.clone()));
        }
        self.signatures.iter().try_for_each(|signature| self.verify(signature, intent.kind, roster))
    }

    /// The owners that the signatures name, each once: two keys of one owner are one owner.
    fn signers(&self) -> Result<Vec<OwnerId>, IntentRefusal> {
        let count = self.signatures.len();
        if count == 0 || count > INTENT_SIGNATURES_MAX {
            return Err(IntentRefusal::Signatures { count });
        }
        let mut signers: Vec<OwnerId> = self.signatures.iter().map(|signature| signature.owner.clone()).collect();
        signers.sort();
        signers.dedup();
        Ok(signers)
    }

    /// Whether this one signature is of an owner of the roster, by a key for this form, under this very text.
    fn verify(
        &self,
        signature: &IntentSignature,
        kind: IntentKind,
        roster: &VerifiedRoster,
    ) -> Result<(), IntentRefusal> {
        let owner = roster.owner(&signature.owner);
        let owner = owner.ok_or_else(|| IntentRefusal::OwnerUnknown(signature.owner.clone()))?;
        if owner.role < Role::Owner {
            return Err(IntentRefusal::NotAnOwner(owner.name.clone()));
        }
        let key = |key_use| {
            let key = roster.key(&owner.id, &signature.key, key_use);
            key.ok_or_else(|| IntentRefusal::KeyUnknown(owner.name.clone()))
        };
        match &signature.form {
            SignatureForm::Key(text) => {
                let key = key(KeyUse::OwnerKey)?;
                Signature::from_text(text)
                    .and_then(|signature| key.verify(&signed_text(&self.intent_json), &signature))
                    .map_err(|_| IntentRefusal::SignatureInvalid(owner.name.clone()))
            }
            SignatureForm::Passkey(assertion) => {
                let key = key(KeyUse::IntentPasskey)?;
                let origin = roster.page_origin(kind).ok_or(IntentRefusal::PageNotAllowed(kind))?;
                passkey::verify(assertion, key, &self.intent_json, origin)
                    .map_err(|source| IntentRefusal::Assertion { owner: owner.name.clone(), source })
            }
        }
    }

    /// The body, if it is the one that was signed.
    fn body(&self, intent: &Intent) -> Result<Body, IntentRefusal> {
        if intent.body_sha256 != Digest::of(self.body.as_bytes()) {
            return Err(IntentRefusal::BodyMismatch);
        }
        let body = Body::parse(intent.kind, &self.body).map_err(IntentRefusal::Malformed)?;
        body.fits(intent).map_err(IntentRefusal::DoesNotFit)?;
        Ok(body)
    }
}

fn allowed(kind: IntentKind, signers: &[OwnerId], actor: Actor, rule: Rule) -> Result<(), IntentRefusal> {
    if !kind.actors().contains(&actor) {
        return Err(IntentRefusal::KindElsewhere { kind, actor });
    }
    match rule {
        Rule::Forbid => Err(IntentRefusal::KindForbidden(kind)),
        Rule::TwoOwners if signers.len() < 2 => Err(IntentRefusal::SecondOwnerNeeded(kind)),
        Rule::TwoOwners | Rule::Allow => Ok(()),
    }
}

/// How late it is, never before the memory's floor, if bundle and roster are as new as those the worker spoke of then.
fn fresh(by: &Checker<'_>) -> Result<UnixTime, IntentRefusal> {
    let time = by.time.ok_or(IntentRefusal::NoFreshness)?;
    if by.bundle_version < time.bundle_version() {
        return Err(IntentRefusal::BundleBehind { held: by.bundle_version, current: time.bundle_version() });
    }
    if by.roster.version() < time.roster_version() {
        return Err(IntentRefusal::RosterBehind { held: by.roster.version(), current: time.roster_version() });
    }
    Ok(time.now().max(by.memory.floor()))
}

fn in_time(intent: &Intent, now: UnixTime) -> Result<(), IntentRefusal> {
    if intent.issued_at > now.plus(INTENT_AHEAD) {
        return Err(IntentRefusal::NotYet { issued_at: intent.issued_at, now });
    }
    match intent.terms {
        Terms::Once { not_after, .. } if not_after < now => Err(IntentRefusal::Expired { not_after, now }),
        Terms::Once { .. } | Terms::State { .. } => Ok(()),
    }
}

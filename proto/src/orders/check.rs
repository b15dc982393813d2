//! Whether an order is carried out: one pure function, in the order that the issue gives.

use super::body::Actor;
use super::head::{OrderHead, Terms, signed_text};
use super::memory::OrderMemory;
use super::policy::{OrderPolicy, Rule};
use super::refusal::OrderRefusal;
use super::signed::{OrderSignature, SignatureForm, SignedOrder};
use super::verified::VerifiedOrder;
use super::{Body, OrderKind, passkey};
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::limits::{ORDER_AHEAD, ORDER_SIGNATURES_MAX};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::orders::freshness::OrderTime;
use crate::orders::owner::{KeyUse, OwnerId, Role};
use crate::orders::roster::VerifiedRoster;
use crate::pki::key::Signature;

/// What who carries out an order knows, and holds it against.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'a> {
    /// Who this is.
    pub actor: Actor,
    /// The policy of this machine; the roster's counts besides.
    pub policy: &'a OrderPolicy,
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
    pub time: Option<OrderTime>,
    /// What was ordered before.
    pub memory: &'a OrderMemory,
}

impl SignedOrder {
    /// Checks the order: kind and policy, fleet, name, roster, signatures, freshness, time, body, memory.
    ///
    /// # Errors
    /// The first that does not hold; nothing of a refused order may be used.
    pub fn check(&self, by: &Checker<'_>) -> Result<VerifiedOrder, OrderRefusal> {
        let intent = OrderHead::parse(&self.intent_json).map_err(OrderRefusal::Malformed)?;
        let signers = self.signers()?;
        allowed(intent.kind, &signers, by.actor, by.policy.stricter(by.roster.policy(), intent.kind))?;
        let (body, now) = self.ordered_now(&intent, &signers, by)?;
        if let Some(signed) = body.hostname()
            && signed != by.hostname
        {
            return Err(OrderRefusal::NameDiffers { signed: signed.clone(), found: by.hostname.clone() });
        }
        by.memory.judge(self.id(), &intent, now)?;
        Ok(VerifiedOrder { id: self.id(), intent, body, signers, now })
    }

    /// The memory in which this order stands as refused, if it is one that is remembered as that: an owner gave it for this
    /// node and for now, it is done once, and it was refused for what may be otherwise at another time. Store it before the
    /// refusal is told. Nothing is remembered of what nobody ordered, so nobody but an owner fills a memory.
    #[must_use]
    pub fn remember_refused(&self, by: &Checker<'_>, refusal: &OrderRefusal) -> Option<OrderMemory> {
        let code = Some(refusal.code()).filter(|code| code.is_remembered())?;
        let intent = OrderHead::parse(&self.intent_json).ok()?;
        if intent.kind.is_state() {
            return None;
        }
        let signers = self.signers().ok()?;
        let (body, now) = self.ordered_now(&intent, &signers, by).ok()?;
        let mut memory = by.memory.clone();
        let order = memory.remember(VerifiedOrder { id: self.id(), intent, body, signers, now }).ok()?;
        memory.note_refused(self.id(), order.intent(), code);
        Some(memory)
    }

    /// Whether owners of the roster gave it to this node for now, whatever is allowed and whatever was ordered before.
    fn ordered_now(
        &self,
        intent: &OrderHead,
        signers: &[OwnerId],
        by: &Checker<'_>,
    ) -> Result<(Body, UnixTime), OrderRefusal> {
        if intent.fleet != *by.fleet {
            return Err(OrderRefusal::OtherFleet(intent.fleet));
        }
        if !intent.nodes.contains(by.node) {
            return Err(OrderRefusal::NotNamed(by.node.clone()));
        }
        self.ordered(intent, signers, by.roster)?;
        let now = fresh(by)?;
        in_time(intent, now)?;
        Ok((self.body(intent)?, now))
    }

    /// Whether owners of this roster, as many as the policies ask for, ordered it: what may change between an order that was
    /// taken and its being carried out. Whatever else [`SignedOrder::check`] looks at stays as it was when it was taken.
    ///
    /// # Errors
    /// Why they did not.
    pub fn check_authority(
        &self,
        actor: Actor,
        policy: &OrderPolicy,
        roster: &VerifiedRoster,
    ) -> Result<(), OrderRefusal> {
        let intent = OrderHead::parse(&self.intent_json).map_err(OrderRefusal::Malformed)?;
        let signers = self.signers()?;
        allowed(intent.kind, &signers, actor, policy.stricter(roster.policy(), intent.kind))?;
        self.ordered(&intent, &signers, roster)
    }

    /// Whether the owner it names is among those who signed, and each of them is an owner of the roster who did.
    fn ordered(&self, intent: &OrderHead, signers: &[OwnerId], roster: &VerifiedRoster) -> Result<(), OrderRefusal> {
        if !signers.contains(&intent.owner) {
            return Err(OrderRefusal::OwnerUnknown(intent.owner.clone()));
        }
        self.signatures.iter().try_for_each(|signature| self.check_signature(signature, intent.kind, roster))
    }

    /// The owners that the signatures name, each once: two keys of one owner are one owner.
    fn signers(&self) -> Result<Vec<OwnerId>, OrderRefusal> {
        let count = self.signatures.len();
        if count == 0 || count > ORDER_SIGNATURES_MAX {
            return Err(OrderRefusal::Signatures { count });
        }
        let mut signers: Vec<OwnerId> = self.signatures.iter().map(|signature| signature.owner.clone()).collect();
        signers.sort();
        signers.dedup();
        Ok(signers)
    }

    /// Whether this one signature is of an owner of the roster, by a key for this form, under this very text: what whoever
    /// collects signatures can tell before the order is sent.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_signature(
        &self,
        signature: &OrderSignature,
        kind: OrderKind,
        roster: &VerifiedRoster,
    ) -> Result<(), OrderRefusal> {
        let owner = roster.owner(&signature.owner);
        let owner = owner.ok_or_else(|| OrderRefusal::OwnerUnknown(signature.owner.clone()))?;
        if owner.role < Role::Owner {
            return Err(OrderRefusal::NotAnOwner(owner.name.clone()));
        }
        let key = |key_use| {
            let key = roster.key(&owner.id, &signature.key, key_use);
            key.ok_or_else(|| OrderRefusal::KeyUnknown(owner.name.clone()))
        };
        match &signature.form {
            SignatureForm::Key(text) => {
                let key = key(KeyUse::OwnerKey)?;
                Signature::from_text(text)
                    .and_then(|signature| key.verify(&signed_text(&self.intent_json), &signature))
                    .map_err(|_| OrderRefusal::SignatureInvalid(owner.name.clone()))
            }
            SignatureForm::Passkey(assertion) => {
                let key = key(KeyUse::OrderPasskey)?;
                let origin = roster.page_origin(kind).ok_or(OrderRefusal::PageNotAllowed(kind))?;
                passkey::verify(assertion, key, &self.intent_json, origin)
                    .map_err(|source| OrderRefusal::Assertion { owner: owner.name.clone(), source })
            }
        }
    }

    /// The body, if it is the one that was signed.
    fn body(&self, intent: &OrderHead) -> Result<Body, OrderRefusal> {
        if intent.body_sha256 != Digest::of(self.body.as_bytes()) {
            return Err(OrderRefusal::BodyMismatch);
        }
        let body = Body::parse(intent.kind, &self.body).map_err(OrderRefusal::Malformed)?;
        intent.fits(&body).map_err(OrderRefusal::DoesNotFit)?;
        Ok(body)
    }
}

fn allowed(kind: OrderKind, signers: &[OwnerId], actor: Actor, rule: Rule) -> Result<(), OrderRefusal> {
    if !kind.actors().contains(&actor) {
        return Err(OrderRefusal::KindElsewhere { kind, actor });
    }
    match rule {
        Rule::Forbid => Err(OrderRefusal::KindForbidden(kind)),
        Rule::TwoOwners if signers.len() < 2 => Err(OrderRefusal::SecondOwnerNeeded(kind)),
        Rule::TwoOwners | Rule::Allow => Ok(()),
    }
}

/// How late it is, never before the memory's floor, if bundle and roster are as new as those the worker spoke of then.
fn fresh(by: &Checker<'_>) -> Result<UnixTime, OrderRefusal> {
    let time = by.time.ok_or(OrderRefusal::NoFreshness)?;
    if by.bundle_version < time.bundle_version() {
        return Err(OrderRefusal::BundleBehind { held: by.bundle_version, current: time.bundle_version() });
    }
    if by.roster.version() < time.roster_version() {
        return Err(OrderRefusal::RosterBehind { held: by.roster.version(), current: time.roster_version() });
    }
    Ok(time.now().max(by.memory.floor()))
}

fn in_time(intent: &OrderHead, now: UnixTime) -> Result<(), OrderRefusal> {
    if intent.issued_at > now.plus(ORDER_AHEAD) {
        return Err(OrderRefusal::NotYet { issued_at: intent.issued_at, now });
    }
    match intent.terms {
        Terms::Once { not_after, .. } if not_after < now => Err(OrderRefusal::Expired { not_after, now }),
        Terms::Once { .. } | Terms::State { .. } => Ok(()),
    }
}

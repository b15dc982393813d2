//! Who is in the roster (design.md O1): what the worker published, checked with the root.
//!
//! The controller decides nothing about who is an owner. What it cannot check nobody here believes. Several controllers
//! would each read the worker's files and share the mark of the last roster.

use std::net::IpAddr;
use std::sync::Arc;

use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_people::owner_api::RosterView;
use lucia_proto::base::acts::Act;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::QUEUE_FILE_MAX;
use lucia_proto::files::owner_queue::{BUNDLE_FILE, ROSTER_FILE};
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::owner::{CredentialId, KeyUse, OwnerId, OwnerName, Role};
use lucia_proto::orders::owner_proof::{Arrived, Method, OwnerProof, OwnerProofError, VerifiedRequest};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::key::{Fingerprint, NodePublicKey, Signature};

use super::People;
use super::trust::{self, FilesRead, Trust};
use crate::lock::{lock, read, write};
use crate::parts::challenges::Whose;
use crate::refusal::{Refusal, chain};
use crate::store::roster_mark;

/// A request that came with an owner's proof.
#[derive(Clone, Copy, Debug)]
pub struct OwnerCall<'a> {
    /// The proof.
    pub proof: &'a OwnerProof,
    /// The method.
    pub method: Method,
    /// Path and query, as they arrived.
    pub target: &'a str,
    /// The body, as it arrived.
    pub body: &'a [u8],
}

impl People {
    /// Takes what was held at the last end, and what the worker published since.
    pub(crate) fn trust(&self) -> Option<Trust> {
        read(&self.trust).clone()
    }

    /// The roster that is held.
    pub fn verified_roster(&self) -> Option<Arc<VerifiedRoster>> {
        self.trust()?.roster
    }

    /// What the roster says of somebody now.
    pub(crate) fn role_of(&self, owner: &OwnerId) -> Option<Role> {
        Some(self.verified_roster()?.owner(owner)?.role)
    }

    /// The same of somebody by this owner key: nothing once the key was taken away.
    pub(crate) fn role_by(&self, owner: &OwnerId, key: Option<&Fingerprint>) -> Option<Role> {
        let roster = self.verified_roster()?;
        let is_there = |key: &Fingerprint| roster.key(owner, key, KeyUse::OwnerKey).is_some();
        key.is_none_or(is_there).then(|| roster.owner(owner).map(|owner| owner.role)).flatten()
    }

    /// Whether the roster has somebody still, by this owner key: for what goes on after its call was let in.
    pub fn is_key_of(&self, owner: &OwnerId, key: &Fingerprint) -> bool {
        self.role_by(owner, Some(key)).is_some()
    }

    pub(crate) fn name_of(&self, owner: &OwnerId) -> Option<OwnerName> {
        Some(self.verified_roster()?.owner(owner)?.name.clone())
    }

    /// Whether it has this passkey, by its id or its key: one for orders signs nobody in (design.md O2).
    pub(crate) fn has_passkey(&self, id: &CredentialId, key: &NodePublicKey) -> bool {
        self.verified_roster().is_some_and(|roster| roster.has_passkey(id, &key.fingerprint()))
    }

    /// The roster as the worker signed it, with the bundle that says whose signature that is.
    pub fn roster(&self) -> RosterView {
        let trust = self.trust();
        RosterView {
            roster: trust.as_ref().and_then(|trust| trust.roster.as_ref()).map(|roster| roster.signed().clone()),
            bundle: trust.map(|trust| trust.bundle.signed().clone()),
        }
    }

    /// Takes the bundle and the roster that the worker published, when they changed.
    pub(super) fn follow_worker(&self) {
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
            roster_mark::write(&self.dir, &taken).map_err(Refusal::persistence)?;
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

    /// Whoever of the roster signed this very request over a fresh challenge.
    ///
    /// An unknown key, a wrong one, another request and a controller without a roster are one and the same refusal
    /// after one verification.
    ///
    /// # Errors
    /// `too_many_requests`, `challenge_refused`, `actor_required`.
    pub fn owner(&self, call: &OwnerCall<'_>, from: IpAddr) -> Result<VerifiedRequest, Refusal> {
        self.calls.allow(from, self.clock.since_boot())?;
        let OwnerCall { proof, method, target, body } = *call;
        let nonce = self.challenges.open(&proof.challenge_id, &Scope::Owner, from)?;
        let dummy = self.verifier.dummy();
        self.verifier.count();
        let Some(roster) = self.verified_roster() else {
            // As much work as with one.
            let _ = Signature::from_text(&proof.signature)
                .and_then(|signature| dummy.verify(proof.request_json.as_bytes(), &signature));
            return Err(Refusal::actor("there is no roster to look the key up in"));
        };
        let fleet = self.verifier.fleet();
        let arrived = Arrived { fleet: &fleet, method, target, body };
        let verified = proof.verify(&nonce, &roster, dummy, &arrived).map_err(|error| refused_proof(&error))?;
        self.challenges.accept(&proof.challenge_id, Whose::Owner(&verified.owner().id))?;
        Ok(verified)
    }

    /// Counts a change that is made in a session as a call with a proof counts: one of its source, and one of its owner.
    ///
    /// # Errors
    /// `too_many_requests`.
    pub fn count_change(&self, owner: &OwnerId, from: IpAddr) -> Result<(), Refusal> {
        self.calls.allow(from, self.clock.since_boot())?;
        self.challenges.count_owner(owner)
    }
}

/// Only the header's own form is told apart, and that before anything is looked up.
fn refused_proof(error: &OwnerProofError) -> Refusal {
    Refusal::actor(format!("the owner's proof is refused: {}", chain(error)))
}

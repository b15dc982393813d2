//! Who of the roster calls (design.md O1): by a proof over this very request, or in a session.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::limits::OWNER_CALLS_PER_SOURCE;
use lucia_proto::base::time::Clock;
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::owner_proof::{Arrived, Method, OwnerProof, OwnerProofError, VerifiedRequest};
use lucia_proto::pki::key::Signature;

use super::roster::RosterReader;
use crate::parts::challenges::{Challenges, Whose};
use crate::parts::verifier::Verifier;
use crate::refusal::{Refusal, chain};
use crate::source::Rates;

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

/// Whoever calls with an owner key or a session.
pub struct Callers {
    clock: Arc<dyn Clock>,
    challenges: Arc<Challenges>,
    verifier: Arc<Verifier>,
    roster: Arc<RosterReader>,
    /// Calls with a proof, and changes in a session.
    calls: Rates,
}

impl Callers {
    pub(super) fn new(
        (clock, challenges, verifier): (Arc<dyn Clock>, Arc<Challenges>, Arc<Verifier>),
        roster: Arc<RosterReader>,
    ) -> Self {
        Self { clock, challenges, verifier, roster, calls: Rates::new(OWNER_CALLS_PER_SOURCE, Duration::from_secs(1)) }
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
        let Some(roster) = self.roster.verified() else {
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

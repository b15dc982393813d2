//! How late it is for orders (design.md O4).
//!
//! A node sends 32 random bytes through the controller, and a worker of the bundle signs them with the versions of bundle
//! and roster and the time. From then on it is that time plus what has passed since the node *asked*, by a clock that no
//! step moves. The controller can hold an answer back, which only makes it older; it cannot make one, and it cannot use
//! one twice. After 24 hours without a new one no order is taken, so whoever left the roster is out by then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::bounded::Version;
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::json::{self, JsonError, json_file};
use crate::base::limits::{FRESHNESS_FILE_MAX, FRESHNESS_INTERVAL, FRESHNESS_MAX, FRESHNESS_QUESTION, JSON_DEPTH_MAX};
use crate::base::time::UnixTime;
use crate::node::challenge::Nonce;
use crate::pki::bundle::VerifiedBundle;
use crate::pki::key::NodeKey;
use crate::pki::signed::{SignedPayload, signed_kind};

/// First line of what is signed.
const TAG: &[u8] = b"lucia-freshness-v1\n";

/// A node's question, and the file in which the controller passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FreshnessRequest {
    /// Always 1.
    pub schema_version: Version<1>,
    /// Who asks.
    pub node_id: NodeId,
    /// Drawn for this question.
    pub nonce: Nonce,
}

json_file!(FreshnessRequest, FRESHNESS_FILE_MAX);

/// What the worker signs, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FreshnessAnswer {
    /// The SHA-256 of the root.
    pub fleet: Digest,
    /// Who asked.
    pub node_id: NodeId,
    /// What was drawn for the question.
    pub nonce: Nonce,
    /// The bundle in force.
    pub bundle_version: u64,
    /// The roster in force; 0 where there is none.
    pub roster_version: u64,
    /// The worker's clock when it signed.
    pub time: UnixTime,
}

/// Why an answer was refused.
#[derive(Debug, thiserror::Error)]
pub enum FreshnessError {
    /// No worker of the bundle signed it.
    #[error("the answer is not signed by a worker of the bundle")]
    Signature,
    /// A worker signed it, but it is none.
    #[error("the worker's answer is not one to this question")]
    Json(#[source] JsonError),
    /// A field is not what was asked.
    #[error("the answer's {field} is not the one that was asked with")]
    Field {
        /// Its name on the wire.
        field: &'static str,
    },
    /// Nothing was asked, or it was answered.
    #[error("nothing was asked that this could answer")]
    NotAsked,
}

signed_kind! {
    /// An answer as it travels: not checked yet.
    SignedFreshness
}

impl SignedFreshness {
    /// Signs an answer with a worker's key.
    ///
    /// # Errors
    /// The answer cannot be written as JSON.
    pub fn sign(answer: &FreshnessAnswer, worker_key: &NodeKey) -> Result<Self, FreshnessError> {
        let payload = json::to_string(answer).map_err(FreshnessError::Json)?.into_bytes();
        Ok(Self(SignedPayload::sign(TAG, payload, worker_key)))
    }

    /// What it says, if a worker of the bundle said it.
    fn verify(&self, bundle: &VerifiedBundle) -> Result<FreshnessAnswer, FreshnessError> {
        if !self.0.is_of(TAG, bundle.workers()) {
            return Err(FreshnessError::Signature);
        }
        json::from_slice(self.0.payload(), FRESHNESS_FILE_MAX, JSON_DEPTH_MAX).map_err(FreshnessError::Json)
    }
}

/// How late it is for orders, and which bundle and roster there were then at the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTime {
    now: UnixTime,
    bundle_version: u64,
    roster_version: u64,
}

impl OrderTime {
    /// At the worker itself, whose own clock and files these are.
    #[must_use]
    pub const fn at_worker(now: UnixTime, bundle_version: u64, roster_version: u64) -> Self {
        Self { now, bundle_version, roster_version }
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> UnixTime {
        self.now
    }

    /// The bundle that was in force when the worker answered.
    #[must_use]
    pub const fn bundle_version(&self) -> u64 {
        self.bundle_version
    }

    /// The roster that was in force when the worker answered.
    #[must_use]
    pub const fn roster_version(&self) -> u64 {
        self.roster_version
    }
}

/// What a node knows of the time for orders. It lives as long as the process: after a start it is asked anew, because
/// the clock it counts by begins with each boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    asked: Option<Question>,
    held: Option<HeldAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    nonce: Nonce,
    at: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeldAnswer {
    signed: SignedFreshness,
    asked_at: Duration,
    time: UnixTime,
    bundle_version: u64,
    roster_version: u64,
}

impl Freshness {
    /// Whether to ask: nothing is known, or what is known was asked for six hours ago.
    #[must_use]
    pub fn is_due(&self, since_boot: Duration) -> bool {
        self.held.as_ref().is_none_or(|held| age(held, since_boot).is_none_or(|age| age >= FRESHNESS_INTERVAL))
    }

    /// What to send now: nothing when it is not due, the open question for ten minutes, then one of these 32 bytes, which
    /// were drawn for it. Only the last question can be answered, and its age counts from the first time it was sent.
    pub fn ask(&mut self, node: &NodeId, random: &[u8; 32], since_boot: Duration) -> Option<FreshnessRequest> {
        if !self.is_due(since_boot) {
            return None;
        }
        let open = |asked: &Question| since_boot.checked_sub(asked.at).is_some_and(|age| age < FRESHNESS_QUESTION);
        let asked = self.asked.take().filter(open);
        let asked = asked.unwrap_or_else(|| Question { nonce: Nonce::from_bytes(random), at: since_boot });
        let nonce = self.asked.insert(asked).nonce.clone();
        Some(FreshnessRequest { schema_version: Version, node_id: node.clone(), nonce })
    }

    /// Takes the answer to the last question, once.
    ///
    /// # Errors
    /// When it is none; what was known stays.
    pub fn take(
        &mut self,
        signed: &SignedFreshness,
        bundle: &VerifiedBundle,
        fleet: &Digest,
        node: &NodeId,
    ) -> Result<(), FreshnessError> {
        let Some(asked) = &self.asked else { return Err(FreshnessError::NotAsked) };
        let answer = signed.verify(bundle)?;
        for (field, same) in [
            ("fleet", answer.fleet == *fleet),
            ("nodeId", answer.node_id == *node),
            ("nonce", answer.nonce == asked.nonce),
        ] {
            if !same {
                return Err(FreshnessError::Field { field });
            }
        }
        self.held = Some(HeldAnswer {
            signed: signed.clone(),
            asked_at: asked.at,
            time: answer.time,
            bundle_version: answer.bundle_version,
            roster_version: answer.roster_version,
        });
        self.asked = None;
        Ok(())
    }

    /// A newer bundle is held: what a worker said that it has no more is known no more, and is asked anew.
    pub fn hold_against(&mut self, bundle: &VerifiedBundle) {
        self.held = self.held.take().filter(|held| held.signed.0.is_of(TAG, bundle.workers()));
    }

    /// The worker's time from which on no order is taken without another answer; nothing when there was none.
    #[must_use]
    pub fn until(&self) -> Option<UnixTime> {
        self.held.as_ref().map(|held| held.time.plus(FRESHNESS_MAX))
    }

    /// How late it is; nothing when no answer is under 24 hours old, counted from when it was asked for.
    #[must_use]
    pub fn time(&self, since_boot: Duration) -> Option<OrderTime> {
        let held = self.held.as_ref()?;
        let age = age(held, since_boot).filter(|age| *age < FRESHNESS_MAX)?;
        let (bundle_version, roster_version) = (held.bundle_version, held.roster_version);
        Some(OrderTime { now: held.time.plus(age), bundle_version, roster_version })
    }
}

/// How long ago it was asked for; nothing when that was later than now, which is a clock of another boot.
const fn age(held: &HeldAnswer, since_boot: Duration) -> Option<Duration> {
    since_boot.checked_sub(held.asked_at)
}

#[cfg(test)]
mod tests;

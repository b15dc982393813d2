//! What a heartbeat's reply brings about orders, read so that one bad part costs no other.

use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::{ANSWER_MAX, JSON_DEPTH_MAX, SIGNED_INTENT_MAX};
use lucia_proto::orders::SignedOrder;
use lucia_proto::orders::freshness::SignedFreshness;
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::pki::bundle::SignedBundle;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::host::failed::Failed;
use crate::host::state::StateError;
use crate::orders::record;

/// A part is not taken. The second colon of each ends what stays the same from one to the next.
#[derive(Debug, Error)]
pub enum OfferError {
    /// It is not of its shape.
    #[error("a reply's {what} is refused: nothing of it is used")]
    Form {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It is not the root's or a worker's, or goes back.
    #[error("a reply's {0} is refused: nothing of it is used")]
    Refused(&'static str, #[source] Failed),
    /// Nothing says which worker is the fleet's.
    #[error("a reply's roster or answer is refused: no bundle is held to check it with")]
    NoBundle,
    /// It is right and cannot be kept.
    #[error("what a reply brought cannot be kept: it is offered again")]
    State(#[from] StateError),
}

impl OfferError {
    /// What cures it.
    #[must_use]
    pub const fn cure(&self) -> &'static str {
        match self {
            Self::Form { .. } => "bring controller and agent to one version; what is held stays in force",
            Self::Refused(..) => {
                "run `lucia-enrollment-worker status` on the worker's host; if all is well there, somebody between changes what \
                 the worker says. What is held stays in force"
            }
            Self::NoBundle => "nothing: the bundle comes with the next certificate",
            Self::State(_) => record::CURE,
        }
    }
}

/// What became of one part, or of its absence.
#[derive(Debug)]
pub struct Note {
    /// Which: `bundle`, `roster`, `freshness`, `orders`.
    pub call: &'static str,
    /// Why it was not taken.
    pub refused: Option<OfferError>,
}

/// [`lucia_proto::orders::exchange::OrdersReply`], each part read or refused by itself.
#[derive(Debug, Default)]
pub struct Offer {
    pub(super) bundle: Option<Result<SignedBundle, OfferError>>,
    pub(super) roster: Option<Result<SignedRoster, OfferError>>,
    pub(super) freshness: Option<Result<SignedFreshness, OfferError>>,
    pub(super) order: Option<Result<SignedOrder, OfferError>>,
}

/// The same, not looked at.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(default)]
    bundle: Option<Value>,
    #[serde(default)]
    roster: Option<Value>,
    #[serde(default)]
    freshness: Option<Value>,
    #[serde(default)]
    intent: Option<Value>,
}

impl Offer {
    /// Takes the member `orders` of a reply apart.
    #[must_use]
    pub fn of(orders: &Value) -> Self {
        let parts: Parts = match read("orders", orders, ANSWER_MAX) {
            Ok(parts) => parts,
            Err(error) => return Self { order: Some(Err(error)), ..Self::default() },
        };
        Self {
            bundle: parts.bundle.map(|part| read("bundle", &part, ANSWER_MAX)),
            roster: parts.roster.map(|part| read("roster", &part, ANSWER_MAX)),
            freshness: parts.freshness.map(|part| read("freshness", &part, ANSWER_MAX)),
            order: parts.intent.map(|part| read("intent", &part, SIGNED_INTENT_MAX)),
        }
    }
}

/// By way of its text, so that it is read as strictly as a whole answer is.
fn read<T: DeserializeOwned>(what: &'static str, part: &Value, max: usize) -> Result<T, OfferError> {
    let text = json::to_string(part).map_err(|source| OfferError::Form { what, source })?;
    json::from_str(&text, max, JSON_DEPTH_MAX).map_err(|source| OfferError::Form { what, source })
}

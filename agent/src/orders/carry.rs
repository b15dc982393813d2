//! What a node makes of a kind of order: the trait that each body implements, in a file of its own.
//!
//! A kind's file needs this one and never the table, [`super`].

use std::time::Duration;

use lucia_proto::base::ids::StartId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderBody, OrderCode, OrderRefusal};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::keys::OrderedKeys;

/// Who this node is at the moment.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The name of its certificate.
    pub hostname: &'a Hostname,
    /// What its machine calls itself, where that is a name.
    pub machine: Option<&'a Hostname>,
    /// The start it says.
    pub start_id: Option<&'a StartId>,
    /// What it said before, newest first.
    pub former_starts: &'a [StartId],
    /// Time since boot.
    pub since_boot: Duration,
    /// Its own clock: for what people read, and for nothing else.
    pub now: UnixTime,
}

/// An order is not carried out.
#[derive(Debug, Error)]
pub enum NotDone {
    /// It is none that is carried out here, or not now.
    #[error(transparent)]
    Refused(#[from] OrderRefusal),
    /// It keeps a start that this machine said before its present one.
    #[error(
        "the order keeps a former start of this machine, which has begun another since; decide anew with the present one"
    )]
    FormerStart,
    /// The machine does not call itself what the order says.
    #[error(
        "the machine does not call itself {0}; run `hostnamectl set-hostname {0}` on it, then sign the order again"
    )]
    MachineName(Hostname),
    /// The node has a name that the order does not know.
    #[error("the order is about {0}, and this node has another name by now")]
    OtherNode(Hostname),
}

impl NotDone {
    /// The code that travels.
    #[must_use]
    pub const fn code(&self) -> OrderCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::FormerStart | Self::MachineName(_) => OrderCode::NotPossible,
            Self::OtherNode(_) => OrderCode::NameDiffers,
        }
    }
}

/// What a one-shot order leaves to do, kept by the order's id. A new one needs a new format of `orders.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// This instance stops for good: another one goes on.
    OtherGoesOn,
    /// This instance stops for good, as does every other.
    NoneGoesOn,
    /// The identity is to be removed.
    Remove,
    /// The same, and it was reported, or reported often enough: from here on things are gone.
    Wipe,
}

/// What the loops go by, of all states in force.
#[derive(Debug)]
pub struct InForce {
    /// The SSH keys of accounts.
    pub keys: OrderedKeys,
}

/// A kind that a node carries out.
pub trait Carry: OrderBody {
    /// What the order leaves to do here. It changes nothing: the order is neither remembered nor stored yet.
    ///
    /// # Errors
    /// When it is not to be carried out after all.
    fn plan(&self, facts: &Facts<'_>) -> Result<Option<Act>, NotDone>;

    /// Adds a state that is in force to what the loops go by: at each start, and whenever an order was stored.
    fn run(self, _: &mut InForce) {}
}

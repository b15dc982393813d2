//! An order whose check was passed, not remembered yet.

use super::Body;
use super::head::{OrderHead, OrderId};
use crate::base::time::UnixTime;
use crate::orders::owner::OwnerId;

/// An order that an owner of the roster gave, for this node, now, and that was not carried out yet. Only
/// [`SignedOrder::check`] makes one. It is carried out as [`super::Order`], after it was remembered.
#[derive(Debug)]
pub struct VerifiedOrder {
    pub(super) id: OrderId,
    pub(super) intent: OrderHead,
    pub(super) body: Body,
    pub(super) signers: Vec<OwnerId>,
    pub(super) now: UnixTime,
}

impl VerifiedOrder {
    /// Which order it is.
    #[must_use]
    pub const fn id(&self) -> OrderId {
        self.id
    }

    /// Its head.
    #[must_use]
    pub const fn intent(&self) -> &OrderHead {
        &self.intent
    }

    /// The owners who signed it, each once.
    #[must_use]
    pub fn signers(&self) -> &[OwnerId] {
        &self.signers
    }
}

//! Owners' orders at the worker: whether one is carried out ([`judge`]), and by kind what it does here, a file each (design.md O2).
//! What it does is what the operator's commands do, by the same lines of the ledger.

mod admit;
mod carry;
mod clone_decision;
mod judge;
pub mod kept;
mod release_lapse;
mod remove_identity;
mod rename;
#[cfg(test)]
mod tests;

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{Body, OrderHead};

use self::carry::Carry as _;
pub use carry::{Acted, Facts, Obstacle};
pub use judge::{Judged, judge, still_ordered};

/// What an order does here, as the ledger stands: the table of kinds.
///
/// # Errors
/// What stands in its way.
pub fn act(head: &OrderHead, body: &Body, facts: &Facts<'_>, now: UnixTime) -> Result<Acted, Obstacle> {
    match body {
        Body::Admit(body) => body.act(head, facts, now),
        Body::ReleaseLapse(body) => body.act(head, facts, now),
        Body::CloneDecision(body) => body.act(head, facts, now),
        Body::RemoveIdentity(body) => body.act(head, facts, now),
        Body::Rename(body) => body.act(head, facts, now),
        Body::SshKey(_) => Err(Obstacle::Elsewhere),
    }
}

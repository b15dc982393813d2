//! `release-lapse`: a node that was off for too long may renew.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderHead, ReleaseLapse};

use super::carry::{Acted, Carry, Facts, Obstacle, known};
use crate::ledger::OrderEffect;

impl Carry for ReleaseLapse {
    /// The end that an owner is shown is of the last certificate that the node fetched. One that was signed for it since and
    /// never fetched ended later, and it is the same lapse, as long as that one had ended as well when the order was given.
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, now: UnixTime) -> Result<Acted, Obstacle> {
        let known = known(head, facts)?;
        let name = known.names.hostname.clone();
        if known.barred_at.is_some() {
            return Err(Obstacle::Barred { name });
        }
        if known.names.fingerprint != self.fingerprint {
            return Err(Obstacle::OtherKey { name });
        }
        let Some((serial, end)) = known.leaf.clone() else { return Err(Obstacle::NotLapsed { name }) };
        if self.ended_at > end || end > head.issued_at {
            return Err(Obstacle::OtherEnd { name, end });
        }
        if now.since(end) <= facts.config.max_lapse {
            return Err(Obstacle::NotLapsed { name });
        }
        Ok((known.names.clone(), OrderEffect::Release { serial }).into())
    }
}

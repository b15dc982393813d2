//! `remove-identity`: the key of the node is barred for good.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderHead, RemoveIdentity};

use super::carry::{Acted, Carry, Facts, Obstacle, bar, known};

impl Carry for RemoveIdentity {
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, _: UnixTime) -> Result<Acted, Obstacle> {
        known(head, facts).map(bar)
    }
}

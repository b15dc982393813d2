//! `remove-identity`: the key of the node is barred for good.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{OrderHead, RemoveIdentity};

use super::carry::{Carry, Facts, Obstacle, bar, known};
use crate::ledger::{NodeNames, OrderEffect};

impl Carry for RemoveIdentity {
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, _: UnixTime) -> Result<(NodeNames, OrderEffect), Obstacle> {
        known(head, facts).map(bar)
    }
}

//! `clone-decision`: the node and the controller keep an instance; where none is kept the key is barred here.

use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::{CloneDecision, Decision, OrderHead};

use super::carry::{Acted, Carry, Facts, Obstacle, bar, known};
use crate::ledger::OrderEffect;

impl Carry for CloneDecision {
    fn act(&self, head: &OrderHead, facts: &Facts<'_>, _: UnixTime) -> Result<Acted, Obstacle> {
        let known = known(head, facts)?;
        Ok(match self.decision {
            Decision::Keep => (known.names.clone(), OrderEffect::Note).into(),
            Decision::Split => bar(known),
        })
    }
}

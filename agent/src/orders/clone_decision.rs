//! `clone-decision`: this instance goes on, or stops for good.

use lucia_proto::orders::{CloneDecision, Decision};

use super::carry::{Act, Carry, Facts, NotDone};
use super::record::OpenOrder;

impl Carry for CloneDecision {
    fn plan(&self, facts: &Facts<'_>) -> Result<Option<Act>, NotDone> {
        match self.decision {
            Decision::Keep if facts.start_id.is_some() && self.start_id.as_ref() == facts.start_id => Ok(None),
            // What came before the present start may be the other machine's past as well, so this says of neither
            // that it goes on; and the machine that was meant may have rebooted since, so it ends neither.
            Decision::Keep if self.start_id.as_ref().is_some_and(|kept| facts.former_starts.contains(kept)) => {
                Err(NotDone::FormerStart)
            }
            Decision::Keep => Ok(Some(Act::OtherGoesOn)),
            Decision::Split => Ok(Some(Act::NoneGoesOn)),
        }
    }
}

/// Why this instance stopped for good, and what a person can do; nothing where the order stops none.
#[must_use]
pub fn stopped_by(order: OpenOrder) -> Option<String> {
    let what = match order.act {
        Act::OtherGoesOn => "another machine goes on as this node",
        Act::NoneGoesOn => "no machine goes on as this node",
        Act::Remove | Act::Wipe => return None,
    };
    Some(format!(
        "stopped for good: an owner decided (order {}) that {what}; what is set up here stays as it is; to bring this \
         machine back as a node of its own: `lucia-node-agent rekey`, or install it anew",
        order.intent.code()
    ))
}

//! How often one device may report another inventory: each is a write of the whole journal, and so dear to all others.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::INVENTORY_CHANGE_INTERVAL;

use crate::lock::lock;
use crate::refusal::Refusal;

/// When, by time since boot, each device last reported another inventory; forgotten when it may do so again. Only devices
/// of the journal get here, so there are no more than its settings allow.
#[derive(Default)]
pub(super) struct Changes(Mutex<BTreeMap<NodeId, Duration>>);

impl Changes {
    /// Takes the device's turn, if it has one.
    pub(super) fn allow(&self, id: &NodeId, now: Duration) -> Result<(), Refusal> {
        let mut last = lock(&self.0);
        last.retain(|_, at| now < *at + INVENTORY_CHANGE_INTERVAL);
        if last.contains_key(id) {
            return Err(Refusal::new(
                Code::TooManyRequests,
                "This machine reported another inventory within the last minute; it may do so again a minute after that.",
            ));
        }
        last.insert(id.clone(), now);
        Ok(())
    }
}

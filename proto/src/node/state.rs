//! What the controller says of a node by when it was last heard from.

use serde::{Deserialize, Serialize};

use crate::base::limits::HEARTBEAT_FRESH;
use crate::base::time::UnixTime;

/// How a node looks from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SnapshotState {
    /// It has a certificate and was not heard from since.
    AwaitingHeartbeat,
    /// Heard from in the last two minutes.
    Online,
    /// Not heard from for two minutes or longer.
    Stale,
    /// The worker bars its key and it is refused, though the journal has it: that is one of before its removal.
    Barred,
}

impl SnapshotState {
    /// The state of a node last heard from at `last_seen`.
    #[must_use]
    pub fn of(last_seen: Option<UnixTime>, now: UnixTime) -> Self {
        match last_seen {
            None => Self::AwaitingHeartbeat,
            Some(seen) if now.since(seen) < HEARTBEAT_FRESH => Self::Online,
            Some(_) => Self::Stale,
        }
    }
}

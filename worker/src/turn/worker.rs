//! The worker between two turns.

use lucia_durable::Lease;
use lucia_proto::base::ids::NodeId;

use super::lists::Lists;
use super::places::Places;
use crate::ca::Pauses;
use crate::config::Config;
use crate::directory::readers::Readers;
use crate::home::{Home, Identity};
use crate::ledger::{Ledger, Mark};
use crate::remarks::Remarks;

/// The worker, ready to take turns.
pub struct Worker {
    pub(super) config: Config,
    pub(super) home: Home,
    pub(super) identity: Identity,
    pub(super) ledger: Ledger,
    /// Said about files of the queue: what the controller can make up as much of as it likes.
    pub(super) remarks: Remarks,
    /// Said about what the worker needs: those must not go under among the others.
    pub(super) troubles: Remarks,
    /// Where the journal stood when it was last read, and how often it had been accepted then. The ledger has it too,
    /// but not at each turn.
    pub(super) seen: Option<(u64, Mark)>,
    /// When a CA of somebody else's is asked again.
    pub(super) pauses: Pauses,
    pub(super) readers: Readers,
    pub(super) last: Option<NodeId>,
    pub(super) places: Places,
    /// What was published last of the ledger's lists.
    pub(super) lists: Lists,
    /// Requests looked at since the last time all had been.
    pub(super) swept: usize,
    pub(super) _lease: Lease,
}

//! Nodes in numbers.

use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::DirectoryState;
use lucia_proto::node::state::SnapshotState;

use super::nodes::NodeState;

/// Nodes by how they look from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Heard from within two minutes.
    pub online: u64,
    /// Not heard from for longer.
    pub stale: u64,
    /// Certified and never heard from since the record began.
    pub awaiting: u64,
    /// In the journal, and refused since the worker bars their keys; counted nowhere else.
    pub barred: u64,
    /// Of all the others, seen twice and not decided about.
    pub frozen: u64,
    /// Of all of these, with a certificate that is over.
    pub lapsed: u64,
    /// Of all of these, with a heartbeat that its file does not have yet.
    pub unwritten: u64,
    /// Of those in a fleet with a directory, whose users can log in there.
    pub directory_ready: u64,
    /// Of those, who set it up still.
    pub directory_waiting: u64,
    /// Of those, who could not.
    pub directory_failed: u64,
}

impl NodeCounts {
    pub(super) fn add(&mut self, state: &NodeState, refused: bool, frozen: bool, now: UnixTime) {
        if refused {
            self.barred += 1;
            return;
        }
        let record = state.record.as_ref();
        match SnapshotState::of(record.and_then(|record| record.last_seen_at), now) {
            SnapshotState::Online => self.online += 1,
            SnapshotState::Stale => self.stale += 1,
            SnapshotState::Barred => self.barred += 1,
            SnapshotState::AwaitingHeartbeat => self.awaiting += 1,
        }
        let lineage = record.and_then(|record| record.lineage.as_ref());
        self.frozen += u64::from(frozen || lineage.is_some_and(|lineage| lineage.frozen_at.is_some()));
        self.lapsed += u64::from(record.is_some_and(|record| record.certificate_expires_at <= now));
        self.unwritten += u64::from(state.dirty);
        let heartbeat = record.and_then(|record| record.last_heartbeat.as_ref());
        match heartbeat.and_then(|heartbeat| heartbeat.directory.as_ref()).map(|report| report.state) {
            Some(DirectoryState::Ready) => self.directory_ready += 1,
            Some(DirectoryState::Waiting) => self.directory_waiting += 1,
            Some(DirectoryState::Failed) => self.directory_failed += 1,
            None => {}
        }
    }
}

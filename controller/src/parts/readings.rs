//! What there is, in numbers: for metrics and health. Never a name, an id or an address.

use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::DirectoryState;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;

use super::nodes::NodeState;
use super::{Controller, Counters};
use crate::bridge::worker;
use crate::config::Limits;
use crate::lock::lock;

/// Everything that is counted, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Devices of the journal in each phase, in the order of [`DevicePhase::ALL`].
    pub phases: Vec<(DevicePhase, u64)>,
    /// Nodes by how they look from here.
    pub nodes: Nodes,
    /// Tasks of the journal, ended ones among them.
    pub tasks: u64,
    /// Most devices and tasks there may be.
    pub limits: Limits,
    /// Whether the discovery window is open.
    pub window_open: bool,
    /// Events since the start.
    pub events: u64,
    /// Writes of the journal since the start.
    pub writes: u64,
    /// Writes of the journal since it began, or was restored to.
    pub generation: u64,
    /// Whether the journal can be written still.
    pub journal_writes: bool,
    /// Lines of the audit, and bytes of all its files.
    pub audit: (u64, u64),
    /// Whether the worker was heard from within 45 s and can issue.
    pub worker_ready: bool,
    /// When the worker last wrote its status.
    pub worker_checked_at: Option<UnixTime>,
    /// Numbers since the start.
    pub counters: Counters,
}

/// Nodes by how they look from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
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

impl Controller {
    pub(super) fn read(&self) -> Readings {
        let now = self.clock.now();
        let journal = self.journal.read();
        let count = |phase| journal.devices.iter().filter(|device| device.phase == phase).count();
        let mut nodes = Nodes::default();
        for device in journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed) {
            if let Some(known) = self.nodes.get(&device.device_id) {
                let refused = self.refuses(&device.device_id);
                nodes.add(&lock(&known.state), refused, device.frozen.is_some(), now);
            }
        }
        let worker = worker::view(lock(&self.queue).responses(), now);
        let (events, writes) = self.journal.since_start(&journal);
        Readings {
            phases: DevicePhase::ALL.into_iter().map(|phase| (phase, number(count(phase)))).collect(),
            nodes,
            tasks: number(journal.tasks.len()),
            limits: self.limits,
            window_open: self.window_until().is_some(),
            events,
            writes,
            generation: journal.generation,
            journal_writes: self.journal.writes(),
            audit: self.audit.size(),
            worker_ready: worker.ready,
            worker_checked_at: worker.checked_at,
            counters: self.counters(),
        }
    }
}

impl Nodes {
    fn add(&mut self, state: &NodeState, refused: bool, frozen: bool, now: UnixTime) {
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

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

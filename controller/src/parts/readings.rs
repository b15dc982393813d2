//! What there is, in numbers: for metrics and health. Never a name, an id or an address.

use std::collections::BTreeMap;

use lucia_people::host_api::CountersView;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;

use super::Parts;
use super::fleet::NodeCounts;
use crate::config::Limits;

/// Everything that is counted, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Devices of the journal in each phase, in the order of [`DevicePhase::ALL`].
    pub phases: Vec<(DevicePhase, u64)>,
    /// Nodes by how they look from here.
    pub nodes: NodeCounts,
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
    pub counters: CountersView,
}

impl Parts {
    /// What there is, in numbers: for metrics and health. Waits for the disk.
    pub fn readings(&self) -> Readings {
        let (journal, worker) = (self.journal.read(), self.enrollment.worker());
        let count = |phase| journal.devices.iter().filter(|device| device.phase == phase).count();
        let (events, writes) = self.journal.since_start(&journal);
        Readings {
            phases: DevicePhase::ALL.into_iter().map(|phase| (phase, number(count(phase)))).collect(),
            nodes: self.fleet.counts(),
            tasks: number(journal.tasks.len()),
            limits: self.enrollment.limits(),
            window_open: self.enrollment.window_until().is_some(),
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

    /// Numbers since the start, but for refusals, which the edge counts.
    pub fn counters(&self) -> CountersView {
        CountersView {
            public_key_operations: self.verifier.operations(),
            heartbeats: self.fleet.heartbeats(),
            used_challenges: number(self.challenges.remembered()),
            refusals: BTreeMap::new(),
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

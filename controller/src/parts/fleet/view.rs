//! What people are shown of nodes, made at one moment from journal, records and samples.

use lucia_people::agents::{AgentLine, AgentsView};
use lucia_people::host_api::{NodeLine, NodeView, OrdersHeld, Rename, Sample};
use lucia_people::why::RefusedOrder;
use lucia_proto::base::bounded::Label;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, FrozenRow, Journal};
use lucia_proto::node::enrollment::Lineage;
use lucia_proto::node::heartbeat::DirectoryReport;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::exchange::OrdersReport;
use lucia_proto::pki::certificate::{Leaf, LeafRules};

use super::nodes::NodeState;
use super::{Fleet, holders};
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::store::samples::LOADS;

/// Renames of one node that are shown.
const RENAMES_SHOWN: usize = 8;

/// A node of the list.
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// What the calls say of it.
    pub line: NodeLine,
    /// Its newest numbers, if they are of the last hour.
    pub sample: Option<Sample>,
    /// Its load over the last hour, oldest first: the mean of each five minutes.
    pub loads: [Option<f64>; LOADS],
    /// How it stands to its directory, at the last heartbeat.
    pub directory: Option<DirectoryReport>,
    /// How it stands to orders.
    pub orders: Option<OrdersHeld>,
    /// Orders for it that were refused.
    pub refused: Vec<RefusedOrder>,
}

/// A node's last certificate, as the worker answered with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Since when it counts.
    pub from: UnixTime,
    /// Until when.
    pub until: UnixTime,
    /// Its number, in hex.
    pub serial: String,
    /// The SHA-256 of it.
    pub sha256: Digest,
}

impl Fleet {
    /// Every node by hostname.
    pub(crate) fn lines(&self, now: UnixTime) -> Vec<NodeLine> {
        let journal = self.journal.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut nodes: Vec<NodeLine> = managed.filter_map(|device| self.line(device, now)).collect();
        nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
        nodes
    }

    /// One node with its last hour.
    ///
    /// # Errors
    /// `unknown_node`.
    pub(crate) fn node(&self, id: &NodeId) -> Result<(NodeView, Option<OrdersReport>), Refusal> {
        let now = self.clock.now();
        let unknown = || Refusal::unknown_node(id);
        let journal = self.journal.read();
        let device = journal.device(id).filter(|device| device.phase == DevicePhase::Managed).ok_or_else(unknown)?;
        let task_id = device.task_id.clone().ok_or_else(unknown)?;
        let refused = self.refuses(id);
        let view = self.with_state(device, |state| {
            let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
            let view = NodeView {
                server_time: now,
                node: line(device, state, refused, now)?,
                fingerprint: device.fingerprint,
                task_id: task_id.clone(),
                os_version: heartbeat.map(|heartbeat| heartbeat.os_version.clone()),
                uptime_seconds: heartbeat.map(|heartbeat| heartbeat.uptime_seconds),
                directory: heartbeat.and_then(|heartbeat| heartbeat.directory.clone()),
                gpus: heartbeat
                    .and_then(|heartbeat| heartbeat.runtime.as_ref())
                    .map_or_else(Vec::new, |runtime| runtime.gpus.clone()),
                samples: state.samples.view(now),
                holder: lineage(state).and_then(holders::holder),
                frozen: frozen(device, state),
                kept: device.kept.clone(),
                last_refused: lineage(state).and_then(|lineage| lineage.last_refused.clone()),
                renames: renames(&journal, id),
                orders: None,
            };
            Some((view, heartbeat.and_then(|heartbeat| heartbeat.orders.clone())))
        });
        view.ok_or_else(unknown)
    }

    /// Every node by hostname.
    pub(crate) fn servers(&self) -> Vec<(ServerRow, Option<OrdersReport>)> {
        let now = self.clock.now();
        let journal = self.journal.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut servers: Vec<_> = managed
            .filter_map(|device| {
                let barred = self.refuses(&device.device_id);
                self.with_state(device, |state| {
                    let (sample, loads) = (state.samples.last(now), state.samples.loads(now));
                    let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
                    let report = heartbeat.and_then(|heartbeat| heartbeat.orders.as_ref());
                    let row = ServerRow {
                        line: line(device, state, barred, now)?,
                        sample,
                        loads,
                        directory: heartbeat.and_then(|heartbeat| heartbeat.directory.clone()),
                        orders: None,
                        refused: Vec::new(),
                    };
                    Some((row, report.cloned()))
                })
            })
            .collect();
        servers.sort_by(|(a, _), (b, _)| a.line.hostname.cmp(&b.line.hostname));
        servers
    }

    /// What the last heartbeat of this node tells of its agent.
    pub fn agent_of(&self, id: &NodeId) -> Option<AgentLine> {
        self.agent(self.journal.read().device(id)?)
    }

    fn agent(&self, device: &DeviceRow) -> Option<AgentLine> {
        self.with_state(device, |state| {
            let heartbeat = state.record.as_ref()?.last_heartbeat.as_ref()?;
            Some(AgentLine::new(device.device_id.clone(), device.hostname.clone()?, heartbeat))
        })
    }

    /// The agents of at most `limit` nodes whose name comes after `after`; a node that was never heard has none.
    pub(crate) fn agents_after(&self, after: Option<&Hostname>, limit: usize) -> AgentsView {
        let journal = self.journal.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut devices: Vec<_> = managed.filter(|device| device.hostname.as_ref() > after).collect();
        devices.sort_by(|a, b| a.hostname.cmp(&b.hostname));
        let next = (devices.len() > limit).then(|| devices.drain(limit..).count());
        let next = next.and_then(|_| devices.last()?.hostname.clone());
        let agents = devices.into_iter().filter_map(|device| self.agent(device)).collect();
        AgentsView { server_time: self.clock.now(), agents, next }
    }

    /// The certificate of a node; nothing where it has none, or none that is its own.
    pub fn certificate_of(&self, id: &NodeId) -> Option<CertificateFacts> {
        let known = self.nodes.get(id)?;
        let record = lock(&known.state).record.clone()?;
        let rules = LeafRules {
            node_id: &record.node_id,
            hostname: &record.hostname,
            fingerprint: &record.public_key_fingerprint,
        };
        let leaf = Leaf::parse(record.certificate_pem.as_str()).ok()?.check(&rules).ok()?;
        Some(CertificateFacts {
            from: leaf.not_before(),
            until: leaf.not_after(),
            serial: leaf.serial(),
            sha256: leaf.sha256(),
        })
    }

    /// The name in the certificate that a node got last.
    pub(crate) fn certified_name(&self, id: &NodeId) -> Option<Hostname> {
        lock(&self.nodes.get(id)?.state).record.as_ref().map(|record| record.hostname.clone())
    }

    fn line(&self, device: &DeviceRow, now: UnixTime) -> Option<NodeLine> {
        let refused = self.refuses(&device.device_id);
        self.with_state(device, |state| line(device, state, refused, now))
    }

    fn with_state<T>(&self, device: &DeviceRow, view: impl FnOnce(&NodeState) -> Option<T>) -> Option<T> {
        let known = self.nodes.get(&device.device_id)?;
        let state = lock(&known.state);
        view(&state)
    }
}

/// A node of a list; `refused` is one that the worker bars.
fn line(device: &DeviceRow, state: &NodeState, refused: bool, now: UnixTime) -> Option<NodeLine> {
    let record = state.record.as_ref();
    let last_seen_at = record.and_then(|record| record.last_seen_at);
    let heartbeat = record.and_then(|record| record.last_heartbeat.as_ref());
    let new_hostname = heartbeat.and_then(|heartbeat| heartbeat.new_hostname.clone());
    Some(NodeLine {
        node_id: device.device_id.clone(),
        new_hostname: new_hostname.filter(|new| Some(new) != device.hostname.as_ref()),
        former_hostname: device.former_hostname.clone(),
        rename_step: None,
        refused: None,
        hostname: device.hostname.clone()?,
        verification_code: device.verification_code.clone(),
        state: if refused { SnapshotState::Barred } else { SnapshotState::of(last_seen_at, now) },
        address: record.and_then(|record| record.address),
        last_seen_at,
        certificate_expires_at: record.map(|record| record.certificate_expires_at),
        frozen: frozen(device, state).is_some(),
        directory: record.and_then(|record| Some(record.last_heartbeat.as_ref()?.directory.as_ref()?.state)),
    })
}

fn lineage(state: &NodeState) -> Option<&Lineage> {
    state.record.as_ref()?.lineage.as_ref()
}

/// The holders as they were last heard; those of the journal where no record tells.
fn frozen(device: &DeviceRow, state: &NodeState) -> Option<FrozenRow> {
    let heard = lineage(state).and_then(|lineage| {
        let at = lineage.frozen_at?;
        Some(FrozenRow { at, holders: lineage.holders.clone() })
    });
    heard.or_else(|| device.frozen.clone())
}

/// The last renames of a node that the journal's events still tell of, oldest first.
fn renames(journal: &Journal, id: &NodeId) -> Vec<Rename> {
    let of_it = journal.events.iter().rev().filter(|event| event.device_id.as_ref() == Some(id));
    let mut last: Vec<Rename> = of_it
        .filter_map(|event| {
            let (names, actor) = (event.names.clone()?, Label::fitted(event.actor.as_str())?);
            Some(Rename { at: event.at, actor, names })
        })
        .take(RENAMES_SHOWN)
        .collect();
    last.reverse();
    last
}

//! What an operator is shown, made at one moment from journal, records and samples.

use lucia_people::host_api::{
    DeviceView, Message, NodeLine, NodeView, NodesView, OnboardingView, Rename, RenameStep, TaskView,
};
use lucia_proto::base::bounded::Label;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::RENEW_UNDER;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, FrozenRow, Journal};
use lucia_proto::node::enrollment::Lineage;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;

use super::nodes::NodeState;
use super::{Controller, clone_calls};
use crate::bridge::queue::QueuedRequest;
use crate::bridge::worker;
use crate::lock::lock;
use crate::refusal::Refusal;

/// Renames of one node that are shown.
const RENAMES_SHOWN: usize = 8;

impl Controller {
    /// Window, worker and the devices that are no nodes yet.
    pub fn onboarding(&self) -> OnboardingView {
        let now = self.clock.now();
        let journal = self.journal.read();
        let queue = lock(&self.queue);
        let mut devices: Vec<DeviceView> = journal
            .devices
            .iter()
            .filter(|device| device.phase != DevicePhase::Managed)
            .map(|device| DeviceView {
                device_id: device.device_id.clone(),
                fingerprint: device.fingerprint,
                verification_code: device.verification_code.clone(),
                phase: device.phase,
                address: Some(device.address),
                discovered_at: device.discovered_at,
                expires_at: device.expires_at,
                inventory_revision: device.inventory_revision,
                inventory: device.inventory.clone(),
                running: device.running,
                task: task_view(&journal, device, || queue.asked(&device.device_id)),
                message: device.message.as_ref().and_then(|text| Message::fitted(text.as_str())),
                barred: self.bars(&device.fingerprint),
            })
            .collect();
        devices.sort_by_key(|device| device.discovered_at);
        let worker = worker::view(queue.responses(), now);
        OnboardingView { server_time: now, window_expires_at: self.window_until(), worker, devices }
    }

    /// Every node.
    pub fn nodes(&self) -> NodesView {
        let now = self.clock.now();
        let journal = self.journal.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut nodes: Vec<NodeLine> = managed.filter_map(|device| self.line(device, now)).collect();
        nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
        self.with_requests(nodes.iter_mut(), now);
        NodesView { server_time: now, nodes, next: None }
    }

    /// At most `limit` nodes whose name comes after `after`.
    pub fn nodes_after(&self, after: Option<&Hostname>, limit: usize) -> NodesView {
        let mut view = self.nodes();
        let begin = after.map_or(0, |after| view.nodes.partition_point(|node| node.hostname <= *after));
        view.nodes.drain(..begin);
        if view.nodes.len() > limit {
            view.nodes.truncate(limit);
            view.next = view.nodes.last().map(|node| node.hostname.clone());
        }
        view
    }

    /// One node with its last hour.
    ///
    /// # Errors
    /// `unknown_node`.
    pub fn node(&self, id: &NodeId) -> Result<NodeView, Refusal> {
        let now = self.clock.now();
        let unknown = || {
            // Who was removed is told apart: whoever asks may look at everything that says so.
            self.removed(id).map_or_else(
                || Refusal::unknown_node(id),
                |removed| Refusal::new(Code::UnknownNode, removed.to_string()),
            )
        };
        let journal = self.journal.read();
        let device = journal.device(id).filter(|device| device.phase == DevicePhase::Managed).ok_or_else(unknown)?;
        let task_id = device.task_id.clone().ok_or_else(unknown)?;
        let refused = self.refuses(id);
        let view = self.with_state(device, |state| {
            let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
            Some(NodeView {
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
                holder: lineage(state).and_then(clone_calls::holder),
                frozen: frozen(device, state),
                kept: device.kept.clone(),
                last_refused: lineage(state).and_then(|lineage| lineage.last_refused.clone()),
                renames: renames(&journal, id),
                orders: heartbeat.and_then(|heartbeat| heartbeat.orders.as_ref()).map(|report| self.held(id, report)),
            })
        });
        let mut view = view.ok_or_else(unknown)?;
        self.with_requests(std::iter::once(&mut view.node), now);
        Ok(view)
    }

    /// Adds what became of their requests for a certificate to those that wait for one: who is renamed, or late to renew.
    /// The others cost no look at the queue.
    pub(super) fn with_requests<'a>(&self, lines: impl Iterator<Item = &'a mut NodeLine>, now: UnixTime) {
        let is_late = |until: UnixTime| until.since(now) < RENEW_UNDER;
        let waits =
            |line: &&mut NodeLine| line.former_hostname.is_some() || line.certificate_expires_at.is_none_or(is_late);
        for line in lines.filter(waits) {
            let certified = self.nodes.get(&line.node_id).and_then(|known| {
                let state = lock(&known.state);
                state.record.as_ref().map(|record| record.hostname.clone())
            });
            let asked = lock(&self.queue).asked(&line.node_id);
            let is_for_new = asked.as_ref().is_some_and(|asked| asked.hostname == line.hostname);
            let refused = asked.as_ref().and_then(|asked| Message::fitted(asked.refused.as_ref()?));
            let renewed = certified.as_ref() == Some(&line.hostname);
            line.rename_step = line.former_hostname.as_ref().map(|_| match (is_for_new, &asked, &refused) {
                (_, _, _) if renewed => RenameStep::Heartbeat,
                (true, _, Some(_)) => RenameStep::Refused,
                (true, Some(asked), None) if asked.is_granted => RenameStep::Heartbeat,
                (true, ..) => RenameStep::Worker,
                (false, ..) => RenameStep::Node,
            });
            // A name that it is no longer to have may be refused: nothing waits for that.
            line.refused = refused.filter(|_| is_for_new);
        }
    }

    pub(super) fn line(&self, device: &DeviceRow, now: UnixTime) -> Option<NodeLine> {
        let refused = self.refuses(&device.device_id);
        self.with_state(device, |state| line(device, state, refused, now))
    }

    pub(super) fn with_state<T>(&self, device: &DeviceRow, view: impl FnOnce(&NodeState) -> Option<T>) -> Option<T> {
        let known = self.nodes.get(&device.device_id)?;
        let state = lock(&known.state);
        view(&state)
    }
}

/// A node of a list; `refused` is one that the worker bars.
pub(super) fn line(device: &DeviceRow, state: &NodeState, refused: bool, now: UnixTime) -> Option<NodeLine> {
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

fn task_view(journal: &Journal, device: &DeviceRow, asked: impl FnOnce() -> Option<QueuedRequest>) -> Option<TaskView> {
    let task = journal.task(device.task_id.as_ref()?)?;
    let awaits = device.phase == DevicePhase::AwaitingEnrollment;
    let asked = if awaits { asked() } else { None };
    Some(TaskView {
        task_id: task.task_id.clone(),
        phase: task.phase,
        hostname: task.hostname.clone(),
        disk_id: task.disk_id.clone(),
        replaces: task.replaces.clone(),
        authority_expires_at: task.authority_expires_at,
        progress_expires_at: task.grant.as_ref().map(|grant| grant.progress_expires_at),
        enrollment_pending_since: asked.as_ref().map(|asked| asked.since),
        refused: asked.and_then(|asked| Message::fitted(&asked.refused?)),
    })
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

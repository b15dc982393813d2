//! What people are shown of machines that are no nodes yet, and of requests that wait for the worker.

use lucia_people::host_api::{DeviceView, Message, NodeLine, OnboardingView, RenameStep, TaskView};
use lucia_proto::base::limits::RENEW_UNDER;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, Journal};
use lucia_proto::node::phase::DevicePhase;

use super::Enrollment;
use crate::bridge::queue::QueuedRequest;
use crate::bridge::worker;
use crate::lock::lock;

impl Enrollment {
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
                barred: self.fleet.bars(&device.fingerprint),
            })
            .collect();
        devices.sort_by_key(|device| device.discovered_at);
        let worker = worker::view(queue.responses(), now);
        OnboardingView { server_time: now, window_expires_at: self.window_until(), worker, devices }
    }

    /// Adds what became of their requests for a certificate to those that wait for one: who is renamed, or late to renew.
    /// The others cost no look at the queue.
    pub(crate) fn with_requests<'a>(&self, lines: impl Iterator<Item = &'a mut NodeLine>, now: UnixTime) {
        let is_late = |until: UnixTime| until.since(now) < RENEW_UNDER;
        let waits =
            |line: &&mut NodeLine| line.former_hostname.is_some() || line.certificate_expires_at.is_none_or(is_late);
        for line in lines.filter(waits) {
            let certified = self.fleet.certified_name(&line.node_id);
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

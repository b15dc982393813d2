//! The calls under `/api/host`: what an operator decides.

use lucia_durable::crash_point;
use lucia_people::host_api::{ApproveForm, Minutes};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::files::journal::Journal;

use super::Controller;
use super::journal::{self, Approval};
use super::nodes::NodeState;
use crate::bridge::queue::Queue;
use crate::lock::lock;
use crate::refusal::Refusal;

impl Controller {
    /// Opens the discovery window, or sets its end anew.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn open_window(&self, minutes: Minutes, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let span = minutes.duration();
        let until = self.clock.since_boot().saturating_add(span);
        let mut window = lock(&self.window);
        self.journal.change(|journal| journal::open_window(journal, now.plus(span), actor, now))?;
        *window = Some(until);
        Ok(())
    }

    /// Closes the discovery window; one that is closed stays so.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn close_window(&self, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let mut window = lock(&self.window);
        // Closed at once, whatever becomes of the journal.
        *window = None;
        self.journal.change(|journal| journal::close_window(journal, Act::WindowClosed, actor, now))
    }

    /// Approves an installation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn approve(&self, id: &NodeId, form: &ApproveForm, actor: &str) -> Result<(), Refusal> {
        self.may_be_approved(id)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Refusal::logged(Code::PersistenceFailed, "No randomness.", error.to_string()))?;
        let task_id = TaskId::from_random(random);
        let approval = Approval { id, form, actor, task_id, own_names: &self.names, tasks_max: self.limits.tasks };
        let now = self.clock.now();
        let queue = lock(&self.queue);
        // The removal of the node whose place it takes, in the order of any removal.
        let old = form
            .replaces
            .as_ref()
            .filter(|old| self.journal.read().device(old).is_some_and(|row| row.phase.needs_task() && *old != id));
        if let Some(old) = old {
            queue.announce_removal(old)?;
        }
        if let Err(refusal) = self.journal.change(|journal| journal::approve(journal, approval, now)) {
            if let Some(old) = old {
                queue.withdraw_removal(old)?;
            }
            return Err(refusal);
        }
        crash_point!("controller/approved", queue.path()).map_err(|crashed| Refusal::persistence(&crashed))?;
        if let Some(old) = old {
            self.drop_node(&queue, old)?;
        }
        // Nothing of the same machine's former life is meant any more: not its certificate, not its removal.
        self.forget_record(&queue, id)?;
        queue.withdraw_removal(id)
    }

    /// Rejects a discovered device.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn reject(&self, id: &NodeId, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.journal.change(|journal| journal::reject(journal, id, actor, now))
    }

    /// Puts a rejected device back on the list.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn restore(&self, id: &NodeId, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.journal.change(|journal| journal::restore(journal, id, actor, now))
    }

    /// Takes a device off the list that is discovered, rejected or failed.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn dismiss(&self, id: &NodeId, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let queue = lock(&self.queue);
        self.journal.change(|journal| journal::dismiss(journal, id, actor, now))?;
        self.drop_node(&queue, id)
    }

    /// Removes a node, or a device in any phase, for good.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn remove(&self, id: &NodeId, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.remove_by(id, |journal| journal::remove(journal, id, actor, now))
    }

    /// The removal by this move of the journal.
    pub(super) fn remove_by(
        &self,
        id: &NodeId,
        remove: impl FnOnce(&mut Journal) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let queue = lock(&self.queue);
        if self.journal.read().device(id).is_none() {
            return Err(Refusal::new(Code::UnknownNode, format!("There is no node or device {id}.")));
        }
        queue.announce_removal(id)?;
        crash_point!("controller/removal-announced", queue.path()).map_err(|crashed| Refusal::persistence(&crashed))?;
        let removed = self.journal.change(remove);
        if let Err(refusal) = removed {
            queue.withdraw_removal(id)?;
            return Err(refusal);
        }
        crash_point!("controller/removed", queue.path()).map_err(|crashed| Refusal::persistence(&crashed))?;
        self.drop_node(&queue, id)
    }

    /// Forgets everything of a device that the journal no longer has.
    fn drop_node(&self, queue: &Queue, id: &NodeId) -> Result<(), Refusal> {
        self.forget_record(queue, id)?;
        self.nodes.forget(id);
        Ok(())
    }

    /// Forgets that a device ever had a certificate, and what it asked for.
    fn forget_record(&self, queue: &Queue, id: &NodeId) -> Result<(), Refusal> {
        let records = lock(&self.records);
        if let Some(node) = self.nodes.get(id) {
            *lock(&node.state) = NodeState::default();
        }
        records.remove(id).map_err(|error| Refusal::persistence(&error))?;
        crash_point!("controller/record-removed", queue.path()).map_err(|crashed| Refusal::persistence(&crashed))?;
        queue.forget(id)
    }
}

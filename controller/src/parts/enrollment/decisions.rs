//! What people decide: the discovery window, who becomes a node, its name, and its removal.
//!
//! A renamed node may call under either name until it is heard under the new one. Which certificate it kept last nobody
//! knows here: an answer that was collected may have been lost on its way, and one that was lost may be asked for again.

use lucia_durable::crash_point;
use lucia_people::host_api::{ApproveForm, Minutes, RenameForm};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;

use super::Enrollment;
use crate::bridge::queue::Queue;
use crate::lock::lock;
use crate::parts::journal::{self, Approval, Renamed};
use crate::refusal::Refusal;

impl Enrollment {
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

    /// Until when the window is open; nothing when it is closed.
    pub(crate) fn window_until(&self) -> Option<UnixTime> {
        lock(&self.window).filter(|until| self.clock.since_boot() < *until)?;
        self.journal.read().window_expires_at.filter(|until| self.clock.now() < *until)
    }

    pub(super) fn window_is_open(&self) -> Result<(), Refusal> {
        if self.window_until().is_some() {
            return Ok(());
        }
        Err(Refusal::new(Code::AdmissionClosed, "The discovery window is closed; an operator has to open it."))
    }

    pub(super) fn expire(&self) {
        let now = self.clock.now();
        let mut window = lock(&self.window);
        let over = window.is_some_and(|until| until <= self.clock.since_boot());
        let expired = if journal::is_anything_over(&self.journal.read(), over, now) {
            self.journal.change(|journal| journal::expire(journal, over, now))
        } else {
            Ok(())
        };
        if self.journal.read().window_expires_at.is_none() || over {
            *window = None;
        }
        drop(window);
        if let Err(refusal) = expired {
            tracing::error!(code = refusal.code.as_str(), "what ran out is not written: {refusal}");
        }
    }

    /// Approves an installation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn approve(&self, id: &NodeId, form: &ApproveForm, actor: &str) -> Result<(), Refusal> {
        self.may_be_approved(id)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(Refusal::no_randomness)?;
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
        crash_point!("controller/approved", queue.path()).map_err(Refusal::persistence)?;
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
        crash_point!("controller/removal-announced", queue.path()).map_err(Refusal::persistence)?;
        let removed = self.journal.change(remove);
        if let Err(refusal) = removed {
            queue.withdraw_removal(id)?;
            return Err(refusal);
        }
        crash_point!("controller/removed", queue.path()).map_err(Refusal::persistence)?;
        self.drop_node(&queue, id)
    }

    /// Forgets everything of a device that the journal no longer has.
    fn drop_node(&self, queue: &Queue, id: &NodeId) -> Result<(), Refusal> {
        self.forget_record(queue, id)?;
        self.fleet.forget(id);
        Ok(())
    }

    /// Forgets that a device ever had a certificate, and what it asked for.
    fn forget_record(&self, queue: &Queue, id: &NodeId) -> Result<(), Refusal> {
        self.fleet.forget_record(id)?;
        crash_point!("controller/record-removed", queue.path()).map_err(Refusal::persistence)?;
        queue.forget(id)
    }

    /// Removes a frozen identity for good, whoever holds it.
    ///
    /// # Errors
    /// `not_frozen`, and as [`Enrollment::remove`].
    pub fn split_clone(&self, id: &NodeId, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.fleet.write_freezes();
        let frozen = self.journal.read().device(id).map(|device| device.frozen.is_some());
        match frozen {
            None => return Err(Refusal::unknown_node(id)),
            Some(false) => return Err(journal::not_frozen(id)),
            Some(true) => {}
        }
        self.remove_by(id, |journal| journal::split(journal, id, actor, now))
    }

    /// Refuses to make a barred key a node again.
    fn may_be_approved(&self, id: &NodeId) -> Result<(), Refusal> {
        let journal = self.journal.read();
        match journal.device(id).filter(|device| self.fleet.bars(&device.fingerprint)) {
            None => Ok(()),
            Some(device) => Err(Refusal::new(
                Code::KeyBarred,
                format!(
                    "The node of this key was removed and the worker bars the key for good. Give the machine a new key \
                     (lucia-node-agent rekey, or install it again) and approve that one; reject this one: luciactl \
                     reject {}.",
                    device.verification_code
                ),
            )),
        }
    }

    /// Whether a node could be given this name now.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) fn may_rename(&self, id: &NodeId, hostname: &Hostname) -> Result<(), Refusal> {
        let reported = self.fleet.reported_name(id)?;
        let wanted = Renamed { id, hostname, reported: reported.as_ref(), own_names: &self.names, actor: "nobody yet" };
        journal::rename(&mut Journal::clone(&self.journal.read()), &wanted, self.clock.now())
    }

    /// Gives a node the name that its machine calls itself by, or takes a rename back that is under way.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn rename(&self, id: &NodeId, form: &RenameForm, actor: &str) -> Result<(), Refusal> {
        let now = self.clock.now();
        let reported = self.fleet.reported_name(id)?;
        self.fleet.write_freezes();
        // The queue's lock: a removal comes before or after this, and so does a request for a certificate.
        let queue = lock(&self.queue);
        let wanted =
            Renamed { id, hostname: &form.hostname, reported: reported.as_ref(), own_names: &self.names, actor };
        self.journal.change(|journal| journal::rename(journal, &wanted, now))?;
        drop(queue);
        self.fleet.follow_name(id);
        tracing::info!(node = %id, to = %form.hostname, "a node is given another name");
        Ok(())
    }
}

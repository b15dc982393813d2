//! The discovery window: while it is open, machines may introduce themselves.

use lucia_people::host_api::Minutes;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::time::UnixTime;

use super::Enrollment;
use crate::lock::lock;
use crate::parts::journal;
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
    pub(in crate::parts) fn window_until(&self) -> Option<UnixTime> {
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
}

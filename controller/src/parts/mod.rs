//! What the controller decides, in parts: `challenges`, `verifier`, `journal`, `audit`, `fleet`, `people`, `enrollment`,
//! `orders`. Each owns its locks and its files and calls only parts before it, so whoever holds a lock of one takes at most
//! those of parts before it.
//!
//! Methods that move the journal or ask the enrollment queue wait for the disk, so they are called where blocking is
//! allowed. What needs a part above another is made of what each answers, with no lock held ([`view`], [`readings`]).

mod audit;
mod challenges;
mod enrollment;
mod fleet;
mod journal;
mod open_error;
mod orders;
mod people;
mod readings;
#[cfg(test)]
pub(crate) mod tests;
mod verifier;
mod view;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use lucia_proto::base::acts::Act;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::Clock;
use lucia_proto::node::heartbeat::HeartbeatReply;
use lucia_proto::node::report::NodeCall;

use crate::bridge::owners::OwnerQueue;
use crate::bridge::queue::Queue;
use crate::config::Config;
use crate::store::audit_log::AuditLog;
use crate::store::drafts::DraftFiles;
use crate::store::journal_file::JournalFile;
use crate::store::layout::Layout;
use crate::store::records::Records;
use fleet::AcceptedHeartbeat;
use journal::CONTROLLER;

pub use crate::refusal::Refusal;
pub use audit::{Audit, AuditedChange, By};
pub use challenges::Challenges;
pub use enrollment::{Enrolled, Enrollment};
pub use fleet::{CertificateFacts, Fleet, NodeCounts, ServerRow};
pub use journal::Keeper;
pub use open_error::OpenError;
pub use orders::Orders;
pub use people::{Applicant, AskedPasskey, InSession, NewSession, OwnerCall, People, TokenHolder, WaitingPasskey};
pub use readings::Readings;
pub use verifier::{Verifier, read_root};

/// All of them. Share it through an [`Arc`].
pub struct Parts {
    pub clock: Arc<dyn Clock>,
    pub challenges: Arc<Challenges>,
    pub verifier: Arc<Verifier>,
    pub journal: Arc<Keeper>,
    pub audit: Arc<Audit>,
    pub fleet: Arc<Fleet>,
    pub people: Arc<People>,
    pub enrollment: Arc<Enrollment>,
    pub orders: Orders,
}

impl Parts {
    /// Takes the lease of the state directory and reads everything in it. The discovery window is closed then.
    ///
    /// `secret` is K of design.md I1: 32 random bytes, new at each start.
    ///
    /// # Errors
    /// Another controller holds the lease; state that is corrupt, torn, foreign or open to others; no root.
    pub fn open(config: &Config, clock: Arc<dyn Clock>, secret: [u8; 32]) -> Result<Self, OpenError> {
        let root = read_root(&config.root_file)?;
        let layout = Layout::open(config).map_err(OpenError::Layout)?;
        note_unsigned_keys(&config.state_dir);
        let Layout { onboarding, requests, removals, identities, responses, .. } = layout;
        let (orders, owner_requests) = (layout.orders, layout.owner_requests);
        let (file, journal) = JournalFile::open(onboarding).map_err(OpenError::Journal)?;
        // Whoever slept while another took the state over writes nothing of it any more, the journal or else (F-12).
        let passkeys = layout.passkeys.guarded(file.guard());
        let tokens = layout.tokens.guarded(file.guard());
        let [requests, removals, identities, orders, owner_requests] =
            [requests, removals, identities, orders, owner_requests].map(|dir| dir.guarded(file.guard()));
        let journal = Arc::new(Keeper::new(file, journal));
        let verifier = Arc::new(Verifier::new(root).map_err(OpenError::Random)?);
        let challenges = Arc::new(Challenges::new(&secret, config.source_binding, Arc::clone(&clock)));
        let now = clock.now();
        // Always closed at the start: an operator who opened it may not know that it was restarted.
        journal
            .change(|journal| journal::close_window(journal, Act::WindowClosedAtStart, CONTROLLER, now))
            .map_err(OpenError::Write)?;
        let below = (Arc::clone(&clock), Arc::clone(&challenges), Arc::clone(&verifier), Arc::clone(&journal));
        let fleet = Arc::new(Fleet::open(below.clone(), Records::new(identities))?);
        let queue = Queue::new(requests, removals, responses);
        let names = (config.names.clone(), config.limits);
        let enrollment = Enrollment::open(below, Arc::clone(&fleet), names, queue).map_err(OpenError::Write)?;
        let enrollment = Arc::new(enrollment);
        let owner_queue = Arc::new(OwnerQueue::new(owner_requests, layout.owner_responses));
        owner_queue.clean().map_err(OpenError::Write)?;
        let log = AuditLog::open(layout.audit, now).map_err(OpenError::Audit)?;
        let audit = Arc::new(Audit::new(Arc::clone(&clock), Arc::clone(&journal), Arc::clone(&owner_queue), log));
        let dir = Arc::new(orders);
        let people = People::open(
            (Arc::clone(&clock), Arc::clone(&challenges), Arc::clone(&verifier)),
            (Arc::clone(&audit), Arc::clone(&fleet)),
            (Arc::clone(&owner_queue), Arc::clone(&dir)),
            (passkeys, tokens),
        )?;
        let people = Arc::new(people);
        let orders = Orders::open(
            (Arc::clone(&clock), Arc::clone(&verifier), Arc::clone(&journal)),
            (Arc::clone(&audit), Arc::clone(&fleet), Arc::clone(&people), Arc::clone(&enrollment)),
            owner_queue,
            DraftFiles::new(dir),
        )?;
        // Before the first call: an owner is not to be refused for a second after each start.
        people.follow();
        orders.follow_trust();
        Ok(Self { clock, challenges, verifier, journal, audit, fleet, people, enrollment, orders })
    }

    /// A node is alive.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn heartbeat(&self, id: &NodeId, call: &NodeCall, from: IpAddr) -> Result<HeartbeatReply, Refusal> {
        let AcceptedHeartbeat { reply, orders, asker, caller, carries, at } = self.fleet.heartbeat(id, call, from)?;
        let orders = self.orders.relay(id, orders.as_ref(), (asker.as_ref(), caller, carries), at);
        Ok(HeartbeatReply { orders, ..reply })
    }

    /// What time brings about: call it every few seconds. Writes what heartbeats left to write, ends what expired,
    /// collects the worker's answers, forgets used challenges.
    pub fn tick(&self) {
        self.challenges.forget();
        if !self.journal.is_ours() {
            return;
        }
        self.fleet.write_freezes();
        self.enrollment.tick();
        self.fleet.follow_journal();
        self.people.tick();
        self.orders.tick();
        self.audit.tick();
        self.fleet.write_some();
    }

    /// Writes what ticks have left to write: for the end of the program, when no call comes any more.
    pub fn flush(&self) {
        self.fleet.flush();
        self.audit.note_the_last();
    }
}

/// A list of unsigned SSH keys is left alone, since going back to the version before needs it.
fn note_unsigned_keys(state_dir: &Path) {
    let path = state_dir.join("keys/ssh-keys.json");
    if path.symlink_metadata().is_ok() {
        let path = path.display();
        tracing::warn!(
            "{path} is no longer used: nodes take SSH keys from owners' signed orders alone (luciactl keys add). Remove it \
             once you no longer need to go back to the version before"
        );
    }
}

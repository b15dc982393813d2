//! Enrollment: from a machine that nobody knows to a node, its certificates, and to its removal.
//!
//! The discovery window is open in one process alone, and the queue is the worker's: of several controllers one would
//! have to have both.

mod certificates;
mod decisions;
mod devices;
mod view;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_people::host_api::WorkerView;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::INVENTORY_CHANGE_INTERVAL;
use lucia_proto::base::time::Clock;
use lucia_proto::files::journal::Journal;
use lucia_proto::pki::endpoint_names::EndpointNames;

use super::challenges::Challenges;
use super::fleet::Fleet;
use super::journal::Keeper;
use super::verifier::Verifier;
use crate::bridge::queue::Queue;
use crate::bridge::worker;
use crate::config::Limits;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::source::{Buckets, Rate};

pub use certificates::Enrolled;

/// Time between two looks through the queue for requests that ran out: each reads every request and answer in it.
const QUEUE_LOOK: Duration = Duration::from_secs(60);

/// Who becomes a node and who stays one.
///
/// Locks are taken in this order: `window`, `queue`, then those of the parts below.
pub struct Enrollment {
    clock: Arc<dyn Clock>,
    challenges: Arc<Challenges>,
    verifier: Arc<Verifier>,
    journal: Arc<Keeper>,
    fleet: Arc<Fleet>,
    names: EndpointNames,
    limits: Limits,
    /// Until when the discovery window is open, as time since boot: no step of the wall clock opens it for longer.
    window: Mutex<Option<Duration>>,
    queue: Mutex<Queue>,
    /// When the queue was last looked through, by time since boot.
    queue_looked_at: Mutex<Option<Duration>>,
    /// How often a device may report another inventory: each is a write of the whole journal, and so dear to all others.
    changes: Mutex<Buckets<NodeId>>,
    /// Nodes whose new address went into the journal within the last minute.
    moves: Mutex<Buckets<NodeId>>,
}

impl Enrollment {
    /// Takes the queue as a former controller left it.
    pub(super) fn open(
        (clock, challenges, verifier, journal): (Arc<dyn Clock>, Arc<Challenges>, Arc<Verifier>, Arc<Keeper>),
        fleet: Arc<Fleet>,
        (names, limits): (EndpointNames, Limits),
        queue: Queue,
    ) -> Result<Self, Refusal> {
        settle_queue(&queue, &journal.read())?;
        let changes = || Buckets::new(Rate::new(1, INVENTORY_CHANGE_INTERVAL), usize::MAX);
        Ok(Self {
            clock,
            challenges,
            verifier,
            journal,
            fleet,
            names,
            limits,
            window: Mutex::default(),
            queue: Mutex::new(queue),
            queue_looked_at: Mutex::default(),
            changes: Mutex::new(changes()),
            moves: Mutex::new(changes()),
        })
    }

    /// What time ends: the window, sessions, approvals, and requests of the queue.
    pub(super) fn tick(&self) {
        self.expire();
        [&self.changes, &self.moves].iter().for_each(|each| lock(each).forget(self.clock.since_boot()));
        if self.is_queue_due()
            && let Err(refusal) = lock(&self.queue).expire(self.clock.now())
        {
            tracing::warn!(code = refusal.code.as_str(), "requests of the queue that ran out stay: {refusal}");
        }
    }

    /// Whether a minute has passed since the last look through the queue.
    fn is_queue_due(&self) -> bool {
        let now = self.clock.since_boot();
        let mut last = lock(&self.queue_looked_at);
        let due = last.is_none_or(|at| now >= at + QUEUE_LOOK);
        if due {
            *last = Some(now);
        }
        due
    }

    /// Asks the worker for the endpoint's certificate: idempotent for the same CSR.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn endpoint_request(&self, csr_pem: &str) -> Result<(), Refusal> {
        lock(&self.queue).endpoint_request(csr_pem)
    }

    /// The worker's answer to the last [`Enrollment::endpoint_request`]: chain in PEM, or nothing yet.
    ///
    /// # Errors
    /// `node_worker_unavailable`, `node_enrollment_failed` with the worker's reason.
    pub fn endpoint_answer(&self) -> Result<Option<String>, Refusal> {
        lock(&self.queue).endpoint_answer(self.clock.now())
    }

    /// Most devices and tasks there may be.
    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    /// How the enrollment worker looks.
    pub(crate) fn worker(&self) -> WorkerView {
        worker::view(lock(&self.queue).responses(), self.clock.now())
    }
}

/// A removal that was announced and did not reach the journal did not happen.
fn settle_queue(queue: &Queue, journal: &Journal) -> Result<(), Refusal> {
    queue.clean()?;
    for id in queue.removals()? {
        if journal.device(&id).is_some_and(|device| device.phase.needs_task()) {
            queue.withdraw_removal(&id)?;
        } else if journal.device(&id).is_none() {
            queue.forget(&id)?;
        }
    }
    Ok(())
}

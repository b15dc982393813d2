//! What the controller decides: one [`Controller`], shared by every connection.
//!
//! Each method is one call of the table in `lucia_proto::api`, from checked body to answer. It never waits for a
//! peer. Methods that move the journal or ask the enrollment queue wait for the disk, so call them where blocking
//! is allowed; `next_challenge`, `boot_challenge`, `device_state`, `installation`, `onboarding`, `nodes`, `node`,
//! `events` and, in the steady state, `heartbeat` do not.

mod audit;
mod by;
mod challenges;
mod changes;
mod clone_calls;
mod clones;
mod device_calls;
mod journal;
mod node_calls;
mod nodes;
mod operator;
mod owners;
mod page_view;
mod readings;
mod refused_calls;
mod removed;
mod rename;
mod sign_in;
mod start;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;
mod upkeep;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::challenge::{NextChallenge, Scope};
use lucia_proto::pki::endpoint_names::EndpointNames;
use tokio::sync::watch;

use crate::bridge::queue::Queue;
use crate::config::{Config, Limits};
use crate::store::audit_log::AuditLog;
use crate::store::records::Records;
use challenges::Challenges;
use changes::Changes;
use journal::Keeper;
use nodes::Nodes;
use owners::Owners;
use refused_calls::RefusedCalls;
use sign_in::SignIns;
use tokens::Tokens;

pub use crate::refusal::Refusal;
pub use audit::AuditedChange;
pub use by::By;
pub use owners::{Applicant, OwnerCall};
pub use page_view::{CertificateFacts, ServerRow};
pub use readings::Readings;
pub use sign_in::{AskedPasskey, InSession, NewSession, WaitingPasskey};
pub use start::{OpenError, read_root};
pub use tokens::Looking;

/// The deciding half of the controller. Share it through an [`Arc`].
///
/// Locks are taken in this order, each for as short as it can be: `window`, `queue`, `records`, the state of one node; the
/// journal's writer is taken inside either of the first two, never the other way round.
pub struct Controller {
    clock: Arc<dyn Clock>,
    names: EndpointNames,
    limits: Limits,
    challenges: Challenges,
    nodes: Nodes,
    keeper: Keeper,
    queue: Mutex<Queue>,
    records: Mutex<Records>,
    /// Until when the discovery window is open, as time since boot: no step of the wall clock opens it for longer.
    window: Mutex<Option<Duration>>,
    /// The node whose record was written last.
    last_written: Mutex<Option<NodeId>>,
    /// When the queue was last looked through, by time since boot.
    queue_looked_at: Mutex<Option<Duration>>,
    /// Nodes whose identity is frozen in memory and not in the journal yet.
    to_freeze: Mutex<BTreeSet<NodeId>>,
    /// The generation of the journal that `nodes` follows.
    followed: AtomicU64,
    changes: Changes,
    /// Nodes whose new address went into the journal within the last minute.
    moves: Changes,
    /// Nodes that told a new start which their record's file does not have yet, in the order they did.
    new_starts: Mutex<VecDeque<NodeId>>,
    owners: Owners,
    sign_ins: SignIns,
    tokens: Tokens,
    /// Taken last but one, before the journal's writer alone.
    audit: Mutex<AuditLog>,
    /// Held for itself alone.
    refused_calls: Mutex<RefusedCalls>,
    heartbeats: AtomicU64,
}

/// What became of a request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// The worker has not answered yet.
    Pending,
    /// The worker's signed answer.
    Ready(SignedAnswer),
}

/// Numbers since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Signatures verified and chains built.
    pub public_key_operations: u64,
    /// Heartbeats accepted.
    pub heartbeats: u64,
    /// Used challenges remembered now.
    pub used_challenges: u64,
}

impl Controller {
    /// Takes the lease of the state directory and reads everything in it. The discovery window is closed then.
    ///
    /// `secret` is K of design.md I1: 32 random bytes, new at each start.
    ///
    /// # Errors
    /// Another controller holds the lease; state that is corrupt, torn, foreign or open to others; no root.
    pub fn open(config: &Config, clock: Arc<dyn Clock>, secret: [u8; 32]) -> Result<Self, OpenError> {
        start::open(config, clock, &secret)
    }

    /// A challenge for `scope`, to travel in each answer and each refusal with `challenge_refused`; also the answer to
    /// `GET .../challenge` of a device or node, whatever its id.
    pub fn next_challenge(&self, scope: &Scope, from: IpAddr) -> NextChallenge {
        self.challenges.issue(scope, from)
    }

    /// Whether a first contact from this address can be answered at all, whatever machine it is of: before anything of it
    /// is read.
    ///
    /// # Errors
    /// `admission_closed`, `registry_full`.
    pub fn may_discover(&self, from: IpAddr) -> Result<(), Refusal> {
        self.window_is_open()?;
        self.has_room_for(from)
    }

    /// Whether the next heartbeat of this node, if it is accepted, moves the journal and so waits for the disk.
    pub fn heartbeat_waits(&self, id: &NodeId) -> bool {
        self.nodes.get(id).is_some_and(|known| {
            let state = lock(&known.state);
            state.record.is_some() && (!state.managed || state.renaming().is_some())
        })
    }

    /// Whether the journal can still be written: after a failure that leaves open what the disk holds, only a new start
    /// can. Waits for a write in progress.
    pub fn writes(&self) -> bool {
        self.keeper.writes()
    }

    /// Changes with each event; its value is the newest sequence number.
    pub fn events_changed(&self) -> watch::Receiver<u64> {
        self.keeper.events_changed()
    }

    /// Asks the worker for the endpoint's certificate: idempotent for the same CSR.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn endpoint_request(&self, csr_pem: &str) -> Result<(), Refusal> {
        lock(&self.queue).endpoint_request(csr_pem)
    }

    /// The worker's answer to the last [`Controller::endpoint_request`]: chain in PEM, or nothing yet.
    ///
    /// # Errors
    /// `node_worker_unavailable`, `node_enrollment_failed` with the worker's reason.
    pub fn endpoint_answer(&self) -> Result<Option<String>, Refusal> {
        lock(&self.queue).endpoint_answer(self.clock.now())
    }

    /// Where nodes last called from, as their records say.
    pub fn node_addresses(&self) -> Vec<IpAddr> {
        let nodes = self.nodes.all();
        nodes.iter().filter_map(|(_, node)| lock(&node.state).record.as_ref()?.address).collect()
    }

    /// The time by its clock.
    pub fn now(&self) -> UnixTime {
        self.clock.now()
    }

    /// What there is, in numbers: for metrics and health. Waits for the disk.
    pub fn readings(&self) -> Readings {
        self.read()
    }

    /// Numbers since the start.
    pub fn counters(&self) -> Counters {
        Counters {
            public_key_operations: self.nodes.operations(),
            heartbeats: self.heartbeats.load(Ordering::Relaxed),
            used_challenges: u64::try_from(self.challenges.remembered()).unwrap_or(u64::MAX),
        }
    }

    /// Until when the window is open; nothing when it is closed.
    fn window_until(&self) -> Option<UnixTime> {
        lock(&self.window).filter(|until| self.clock.since_boot() < *until)?;
        self.keeper.read().window_expires_at.filter(|until| self.clock.now() < *until)
    }
}

/// A lock whose holder panicked is taken all the same: what it guards is replaced as a whole or not at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

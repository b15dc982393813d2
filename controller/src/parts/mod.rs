//! What the controller decides: one [`Controller`], shared by every connection.
//!
//! Each method is one call of the table in `lucia_proto::api`, from checked body to answer. It never waits for a
//! peer. Methods that move the journal or ask the enrollment queue wait for the disk, so call them where blocking
//! is allowed; `next_challenge`, `boot_challenge`, `device_state`, `installation`, `onboarding`, `nodes`, `node`,
//! `events` and, in the steady state, `heartbeat` do not.

mod audit;
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
mod removed;
mod rename;
mod sign_in;
mod start;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;
mod upkeep;
mod verifier;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::pki::endpoint_names::EndpointNames;

use crate::bridge::queue::Queue;
use crate::config::{Config, Limits};
use crate::lock::lock;
use crate::store::records::Records;
use changes::Changes;
use nodes::Nodes;
use owners::Owners;
use sign_in::SignIns;
use tokens::Tokens;

pub use crate::refusal::Refusal;
pub use audit::{Audit, AuditedChange, By};
pub use challenges::Challenges;
pub use journal::Keeper;
pub use owners::{Applicant, OwnerCall};
pub use page_view::{CertificateFacts, ServerRow};
pub use readings::Readings;
pub use sign_in::{AskedPasskey, InSession, NewSession, WaitingPasskey};
pub use start::{OpenError, read_root};
pub use tokens::Looking;
pub use verifier::Verifier;

/// The deciding half of the controller. Share it through an [`Arc`].
///
/// Locks are taken in this order, each for as short as it can be: `window`, `queue`, `records`, the state of one node; the
/// journal's writer is taken inside either of the first two, never the other way round.
pub struct Controller {
    pub clock: Arc<dyn Clock>,
    names: EndpointNames,
    limits: Limits,
    pub challenges: Arc<Challenges>,
    pub verifier: Arc<Verifier>,
    nodes: Nodes,
    pub journal: Arc<Keeper>,
    pub audit: Arc<Audit>,
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

    /// What there is, in numbers: for metrics and health. Waits for the disk.
    pub fn readings(&self) -> Readings {
        self.read()
    }

    /// Numbers since the start.
    pub fn counters(&self) -> Counters {
        Counters {
            public_key_operations: self.verifier.operations(),
            heartbeats: self.heartbeats.load(Ordering::Relaxed),
            used_challenges: u64::try_from(self.challenges.remembered()).unwrap_or(u64::MAX),
        }
    }

    /// Until when the window is open; nothing when it is closed.
    fn window_until(&self) -> Option<UnixTime> {
        lock(&self.window).filter(|until| self.clock.since_boot() < *until)?;
        self.journal.read().window_expires_at.filter(|until| self.clock.now() < *until)
    }
}

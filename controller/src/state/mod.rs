//! What the controller decides: one [`Controller`], shared by every connection.
//!
//! Each method is one call of the table in `lucia_proto::api`, from checked body to answer. It never waits for a
//! peer. Methods that move the journal or ask the enrollment queue wait for the disk, so call them where blocking
//! is allowed; `next_challenge`, `boot_challenge`, `device_state`, `installation`, `onboarding`, `nodes`, `node`,
//! `events` and, in the steady state, `heartbeat` do not.

use std::net::IpAddr;
use std::sync::Arc;

use lucia_proto::answer::SignedAnswer;
use lucia_proto::api::{Accepted, DeviceState, Discovered, Grant, Installation};
use lucia_proto::challenge::{Challenge, NextChallenge, Scope};
use lucia_proto::code::Code;
use lucia_proto::heartbeat::HeartbeatReply;
use lucia_proto::host_api::{ApproveForm, EventsView, Minutes, NodeView, NodesView, OnboardingView};
use lucia_proto::ids::NodeId;
use lucia_proto::report::{DeviceCall, DiscoverCall, HeaderProof, NodeCall};
use lucia_proto::time::Clock;
use thiserror::Error;
use tokio::sync::watch;

use crate::config::Config;

/// The deciding half of the controller. Share it through an [`Arc`].
pub struct Controller {
    events: watch::Sender<u64>,
}

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{log}")]
pub struct Refusal {
    /// The contract.
    pub code: Code,
    /// For the peer.
    pub message: String,
    /// For the log; never leaves this machine.
    pub log: String,
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
    /// Signature verifications with a node's or device's key, and chain buildings.
    pub public_key_operations: u64,
    /// Heartbeats accepted.
    pub heartbeats: u64,
    /// Refusals by code, in the order of [`Code::ALL`]; codes never used are absent.
    pub refusals: Vec<(Code, u64)>,
    /// Used challenges remembered now.
    pub used_challenges: u64,
}

/// Why the controller does not start.
#[derive(Debug, Error)]
pub enum OpenError {}

impl Controller {
    /// Takes the lease of the state directory and reads everything in it. The discovery window is closed then.
    ///
    /// `secret` is K of design.md I1: 32 random bytes, new at each start.
    ///
    /// # Errors
    /// Another controller holds the lease; state that is corrupt, torn, foreign or open to others; no root.
    pub fn open(_config: &Config, _clock: Arc<dyn Clock>, _secret: [u8; 32]) -> Result<Self, OpenError> {
        Ok(Self { events: watch::Sender::new(0) })
    }

    /// A challenge for `scope`, to travel in each answer and each refusal with `challenge_refused`; also the answer to
    /// `GET .../challenge` of a device or node, whatever its id.
    pub fn next_challenge(&self, _scope: &Scope, _from: IpAddr) -> NextChallenge {
        todo!()
    }

    /// A challenge for first contact.
    ///
    /// # Errors
    /// `admission_closed`.
    pub fn boot_challenge(&self, _from: IpAddr) -> Result<Challenge, Refusal> {
        todo!()
    }

    /// First contact. The same key and inventory get the same answer.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn discover(&self, _call: DiscoverCall, _from: IpAddr) -> Result<Discovered, Refusal> {
        todo!()
    }

    /// What became of a device.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn device_state(&self, _id: &NodeId, _proof: &HeaderProof, _from: IpAddr) -> Result<DeviceState, Refusal> {
        todo!()
    }

    /// What a device may install.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn installation(&self, _id: &NodeId, _proof: &HeaderProof, _from: IpAddr) -> Result<Installation, Refusal> {
        todo!()
    }

    /// The one-time permission to install.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn grant(&self, _id: &NodeId, _call: DeviceCall, _from: IpAddr) -> Result<Grant, Refusal> {
        todo!()
    }

    /// How far the installer is.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn progress(&self, _id: &NodeId, _call: DeviceCall, _from: IpAddr) -> Result<Accepted, Refusal> {
        todo!()
    }

    /// The first certificate.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn enroll(&self, _id: &NodeId, _call: DeviceCall, _from: IpAddr) -> Result<Enrolled, Refusal> {
        todo!()
    }

    /// A node is alive.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn heartbeat(&self, _id: &NodeId, _call: NodeCall, _from: IpAddr) -> Result<HeartbeatReply, Refusal> {
        todo!()
    }

    /// The next certificate; the only call a lapsed leaf may make.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn renew(&self, _id: &NodeId, _call: NodeCall, _from: IpAddr) -> Result<Enrolled, Refusal> {
        todo!()
    }

    /// Opens the discovery window, or sets its end anew.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn open_window(&self, _minutes: Minutes, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Closes the discovery window; one that is closed stays so.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn close_window(&self, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Approves an installation.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn approve(&self, _id: &NodeId, _form: &ApproveForm, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Rejects a discovered device.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn reject(&self, _id: &NodeId, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Takes a device off the list that is discovered, rejected or failed.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn dismiss(&self, _id: &NodeId, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Puts a rejected device back on the list.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn restore(&self, _id: &NodeId, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Removes a node, or a device in any phase, for good.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn remove(&self, _id: &NodeId, _actor: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// Window, worker and the devices that are no nodes yet.
    pub fn onboarding(&self) -> OnboardingView {
        todo!()
    }

    /// Every node.
    pub fn nodes(&self) -> NodesView {
        todo!()
    }

    /// One node with its last hour.
    ///
    /// # Errors
    /// `unknown_node`.
    pub fn node(&self, _id: &NodeId) -> Result<NodeView, Refusal> {
        todo!()
    }

    /// At most `limit` events with a sequence over `after`.
    pub fn events(&self, _after: u64, _limit: usize) -> EventsView {
        todo!()
    }

    /// Changes with each event; its value is the newest sequence number.
    pub fn events_changed(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    /// Asks the worker for the endpoint's certificate: idempotent for the same CSR.
    ///
    /// # Errors
    /// `persistence_failed`.
    pub fn endpoint_request(&self, _csr_pem: &str) -> Result<(), Refusal> {
        todo!()
    }

    /// The worker's answer to the last [`Controller::endpoint_request`]: chain in PEM, or nothing yet.
    ///
    /// # Errors
    /// `node_worker_unavailable`, `node_enrollment_failed` with the worker's reason.
    pub fn endpoint_answer(&self) -> Result<Option<String>, Refusal> {
        todo!()
    }

    /// What time brings about: call it every few seconds. Writes what heartbeats left to write, ends what expired,
    /// collects the worker's answers, forgets used challenges.
    pub fn tick(&self) {
        todo!()
    }

    /// Numbers since the start.
    pub fn counters(&self) -> Counters {
        todo!()
    }
}

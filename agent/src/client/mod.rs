//! One conversation with the controller: take a challenge, sign, send, read the answer.
//!
//! Each loop has its own [`Client`] with its own connection and its own next challenge (design.md I2). A GET that gets no
//! answer is tried three times, a POST never blindly. A refused challenge is signed over once more with the fresh
//! one that came with the refusal; everything else is the caller's to wait for ([`retry::Pace`]).

pub mod clock;
pub mod config;
pub mod cure;
pub mod proxy;
pub mod retry;
pub mod tls;
pub mod transport;

use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::code::{Code, ErrorBody};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{ANSWER_MAX, CHALLENGE_LIFETIME, JSON_DEPTH_MAX};
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::{Challenge, NextChallenge};
use lucia_proto::node::report::{DeviceCall, DiscoverCall, HeaderProof, NodeCall, Proof, ProofError, Report};
use lucia_proto::pki::key::NodeKey;
use serde::de::DeserializeOwned;
use thiserror::Error;

use self::clock::ServerClock;
use self::transport::{Request, Response, Transport, TransportError};

/// Tries of a GET in all.
const GET_TRIES: u32 = 3;
/// Time between them, growing by as much each time.
const GET_STEP: Duration = Duration::from_millis(250);
/// A challenge is used until this long before it would be too old: the way to the controller takes time as well.
const CHALLENGE_MARGIN: Duration = Duration::from_secs(10);
/// What is repeated of a refusal: all of a worker's words, which end with the cure.
const REFUSAL_MAX: usize = 600;

/// Why a call gave nothing.
#[derive(Debug, Error)]
pub enum CallError {
    /// No answer came.
    #[error("the controller did not answer")]
    Unreachable(#[source] TransportError),
    /// An answer came that the controller does not give.
    #[error("something other than the controller answered (HTTP {status})")]
    Stranger {
        /// Its status.
        status: u16,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The controller refused.
    #[error("the controller refused with {}: {message}", code.as_str())]
    Refused {
        /// Why.
        code: Code,
        /// The controller's words, fit to be shown.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The controller accepted, in words that are not those of this protocol.
    #[error("the controller's answer to {0:?} cannot be read")]
    BadAnswer(Endpoint, #[source] json::JsonError),
    /// The report could not be signed; a mistake in the agent.
    #[error("the report cannot be signed")]
    Unsigned(#[source] ProofError),
    /// A node's call without a certificate; a mistake in the agent.
    #[error("this call needs a certificate, and there is none")]
    NoCertificate,
}

impl CallError {
    /// When the other side wants to be asked again.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::Stranger { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The refusal, if it is one.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// What the controller said to a call it accepted.
#[derive(Debug)]
pub struct ControllerAnswer {
    call: Endpoint,
    status: u16,
    body: Vec<u8>,
}

impl ControllerAnswer {
    /// Whether the answer is still to come (202).
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        self.status == 202
    }

    /// Reads the answer strictly.
    ///
    /// # Errors
    /// [`CallError::BadAnswer`].
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        json::from_slice(&self.body, ANSWER_MAX, JSON_DEPTH_MAX)
            .map_err(|source| CallError::BadAnswer(self.call, source))
    }
}

/// A challenge that was not used yet.
#[derive(Debug)]
struct UnusedChallenge {
    challenge: Challenge,
    /// Boot scope, or this node's.
    boot: bool,
    since: Duration,
}

/// One conversation.
pub struct Client<T> {
    transport: T,
    key: Arc<NodeKey>,
    node_id: NodeId,
    clock: Arc<dyn Clock>,
    server: Arc<ServerClock>,
    held: Option<UnusedChallenge>,
}

impl<T: Transport> Client<T> {
    /// A conversation of the node that `key` is.
    #[must_use]
    pub fn new(transport: T, key: Arc<NodeKey>, clock: Arc<dyn Clock>, server: Arc<ServerClock>) -> Self {
        let node_id = key.public().fingerprint().node_id();
        Self { transport, key, node_id, clock, server, held: None }
    }

    /// This node.
    #[must_use]
    pub const fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Arc<NodeKey> {
        Arc::clone(&self.key)
    }

    /// The time at the controller, if it is known.
    #[must_use]
    pub fn server_now(&self) -> Option<UnixTime> {
        self.server.now(self.clock.as_ref())
    }

    /// Asks for a challenge unless one is held for this node's calls, so that the controller's time is known before
    /// anything is decided by it.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn prepare(&mut self, call: Endpoint) -> Result<UnixTime, CallError> {
        let fresh = self.take_or_fetch(call).await?;
        self.held = Some(fresh);
        Ok(self.server_now().unwrap_or_else(|| self.clock.now()))
    }

    /// Makes a call; `certificate` is the chain that a node's call carries.
    ///
    /// # Errors
    /// Any [`CallError`]. A call that failed without an answer may have reached the controller: every report is
    /// made so that sending it again does no harm.
    pub async fn call<R: Report>(
        &mut self,
        call: Endpoint,
        report: &R,
        certificate: Option<&str>,
    ) -> Result<ControllerAnswer, CallError> {
        let held = self.take_or_fetch(call).await?;
        let first = self.sign_and_send(call, report, certificate, &held.challenge).await;
        match first {
            Err(CallError::Refused { code: Code::ChallengeRefused, .. }) => {}
            other => return other,
        }
        // The refusal brought the next challenge; it is used on the same connection, once.
        let held = self.take_or_fetch(call).await?;
        self.sign_and_send(call, report, certificate, &held.challenge).await
    }

    async fn sign_and_send<R: Report>(
        &mut self,
        call: Endpoint,
        report: &R,
        certificate: Option<&str>,
        challenge: &Challenge,
    ) -> Result<ControllerAnswer, CallError> {
        let proof = Proof::sign(report, challenge, &self.key).map_err(CallError::Unsigned)?;
        let request = self.request(call, proof, certificate)?;
        let response = self.send(call, &request).await?;
        self.understand(call, response)
    }

    fn request(&self, call: Endpoint, proof: Proof, certificate: Option<&str>) -> Result<Request, CallError> {
        let path = call.path_for(&self.node_id);
        let certificate_pem = match (call.caller(), certificate) {
            (Caller::Node, None) => return Err(CallError::NoCertificate),
            (Caller::Node, Some(pem)) => Some(pem.to_owned()),
            _ => None,
        };
        if call.method() == "GET" {
            let proof = HeaderProof { certificate_pem, proof }.to_header();
            return Ok(Request { method: call.method(), path, proof: Some(proof), body: None });
        }
        let text = match certificate_pem {
            Some(certificate_pem) => json::to_string(&NodeCall { certificate_pem, proof }),
            None if call == Endpoint::Discover => json::to_string(&DiscoverCall {
                challenge_id: proof.challenge_id,
                public_key_pem: self.key.public().to_pem(),
                report_json: proof.report_json,
                signature: proof.signature,
            }),
            None => json::to_string(&DeviceCall { proof }),
        };
        let text = text.map_err(|source| CallError::BadAnswer(call, source))?;
        Ok(Request { method: call.method(), path, proof: None, body: Some(text.into_bytes()) })
    }

    async fn take_or_fetch(&mut self, call: Endpoint) -> Result<UnusedChallenge, CallError> {
        let boot = call.caller() == Caller::WindowOpen;
        let now = self.clock.since_boot();
        let young = CHALLENGE_LIFETIME - CHALLENGE_MARGIN;
        if let Some(held) = self.held.take()
            && held.boot == boot
            && now.saturating_sub(held.since) < young
        {
            return Ok(held);
        }
        let ask = match call.caller() {
            Caller::WindowOpen => Endpoint::BootChallenge,
            Caller::Node => Endpoint::NodeChallenge,
            _ => Endpoint::DeviceChallenge,
        };
        let request = Request { method: ask.method(), path: ask.path_for(&self.node_id), proof: None, body: None };
        let response = self.send(ask, &request).await?;
        let answer = self.understand(ask, response)?;
        let challenge: Challenge = answer.json()?;
        // It was made a moment ago, so its end says the controller's time.
        self.server.measure(challenge.expires_at.minus(CHALLENGE_LIFETIME), self.clock.as_ref());
        Ok(UnusedChallenge { challenge, boot, since: self.clock.since_boot() })
    }

    async fn send(&mut self, call: Endpoint, request: &Request) -> Result<Response, CallError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.transport.send(request).await {
                Ok(response) => return Ok(response),
                Err(error) if call.method() == "GET" && tried < GET_TRIES => {
                    tracing::debug!("{call:?}: {}", crate::host::chain(&error));
                    tokio::time::sleep(GET_STEP * tried).await;
                }
                Err(error) => return Err(CallError::Unreachable(error)),
            }
        }
    }

    /// Tells the controller's answers from everybody else's.
    fn understand(&mut self, call: Endpoint, response: Response) -> Result<ControllerAnswer, CallError> {
        let Response { status, json, next_challenge, retry_after, body } = response;
        let stranger = CallError::Stranger { status, retry_after };
        if !json {
            return Err(stranger);
        }
        let ours = matches!(status, 200 | 202);
        let refusal = (!ours).then(|| json::from_slice::<ErrorBody>(&body, ANSWER_MAX, JSON_DEPTH_MAX).ok()).flatten();
        let refusal = refusal.filter(|body| body.error.code.status() == status);
        if !ours && refusal.is_none() {
            return Err(stranger);
        }
        if let Some(next) = next_challenge.and_then(|value| NextChallenge::from_header(&value).ok()) {
            self.server.measure(next.server_time, self.clock.as_ref());
            self.held = Some(UnusedChallenge {
                challenge: next.challenge(),
                boot: call.caller() == Caller::WindowOpen,
                since: self.clock.since_boot(),
            });
        }
        match refusal {
            None => Ok(ControllerAnswer { call, status, body }),
            Some(ErrorBody { error }) => Err(CallError::Refused {
                code: error.code,
                message: lucia_proto::base::text::shown(&error.message).chars().take(REFUSAL_MAX).collect(),
                retry_after,
            }),
        }
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

//! The network of a story: from the agent's transport to the controller's real HTTP edge, through memory.
//!
//! Whatever a story does not decide goes through an unruly network, as threats.md F-26 has it: 5 % of good challenges
//! are refused, 5 % of the calls find the controller busy, 1 % of the answers are cut, each takes up to two seconds.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use lucia_agent::client::transport::{Request, Response, Transport, TransportError};
use lucia_proto::base::code::{Code, ErrorBody, ErrorKind, ErrorText};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::{Caller, Endpoint};
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::report::PROOF_HEADER;
use lucia_tests::hostile_controller::Deed;
use tokio::time::{sleep, timeout};

use super::twisted::response;
use super::{Program, World};

/// How long a transport waits for an answer that never comes.
const NEVER: Duration = Duration::from_secs(15);

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tamper {
    /// It arrives, and so does its answer.
    Pass,
    /// So do both, each so many seconds later.
    Slow(u64),
    /// It never arrives.
    LoseRequest,
    /// It arrives, its answer does not.
    LoseAnswer,
    /// It arrives, its answer ends in the middle.
    Cut,
    /// Its challenge is refused though it is good.
    RefuseChallenge,
    /// The controller is busy.
    Busy,
    /// Somebody else answers with this status and a page.
    Page(u16),
    /// Somebody else answers with this status and JSON of another kind.
    OtherJson(u16),
    /// It arrives, and the agent dies before the answer does.
    AgentDies,
    /// The agent dies before it is sent.
    AgentDiesBefore,
    /// It arrives; the controller dies before it answers, and starts again.
    ControllerDies,
    /// The worker dies and starts again, then it arrives.
    WorkerDies,
}

/// One request as it went over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) call: Endpoint,
    pub(crate) node: NodeId,
    pub(crate) from: IpAddr,
    pub(crate) at: UnixTime,
    pub(crate) act: Tamper,
    pub(crate) request: Request,
    /// The answer's status, if one came.
    pub(crate) status: Option<u16>,
}

/// Decides what the story does not: SplitMix64 over its seed.
pub(crate) struct Chaos {
    pub(crate) on: bool,
    state: u64,
}

impl Chaos {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { on: true, state: seed }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    pub(crate) fn decide(&mut self, call: Endpoint) -> (Tamper, Duration) {
        if !self.on {
            return (Tamper::Pass, Duration::ZERO);
        }
        let act = match self.draw(100) {
            0..5 if is_signed(call) => Tamper::RefuseChallenge,
            5..10 => Tamper::Busy,
            10 => Tamper::Cut,
            _ => Tamper::Pass,
        };
        (act, Duration::from_millis(self.draw(2000)))
    }
}

/// Whether a call is signed over a challenge.
fn is_signed(call: Endpoint) -> bool {
    matches!(call.caller(), Caller::Device | Caller::Node) || call == Endpoint::Discover
}

/// One connection of one machine. Whatever is sent over it must be a call of the protocol.
pub(crate) struct Wire {
    world: World,
    node: NodeId,
    from: IpAddr,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// An answer with all its headers.
pub(crate) type Raw = hyper::Response<Bytes>;

impl Wire {
    pub(crate) fn new(world: &World, node: &NodeId, from: IpAddr) -> Self {
        Self { world: world.clone(), node: node.clone(), from, kept: None }
    }

    pub(crate) const fn from(&self) -> IpAddr {
        self.from
    }

    fn call_of(&self, request: &Request) -> Endpoint {
        let found =
            Endpoint::ALL.iter().find(|row| row.method() == request.method && row.path_for(&self.node) == request.path);
        *found.unwrap_or_else(|| {
            panic!("the agent sent {} {}, which is no call of its own", request.method, request.path)
        })
    }

    /// Sends a request as it is: no story, no chaos.
    pub(crate) async fn raw(&mut self, request: &Request) -> Result<Raw, TransportError> {
        let mut kept = self.kept.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let mut message =
            hyper::Request::builder().method(request.method).uri(&request.path).header(HOST, "controller.test:8443");
        if let Some(proof) = &request.proof {
            message = message.header(PROOF_HEADER, proof);
        }
        if request.body.is_some() {
            message = message.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(request.body.clone().unwrap_or_default()));
        let cut = |error: hyper::Error| TransportError::Cut(error.into());
        let answer = sender.send_request(message.body(body).unwrap()).await.map_err(cut)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(cut)?.to_bytes();
        self.kept = Some(sender);
        Ok(hyper::Response::from_parts(head, body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, TransportError> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        if !self.world.accept(theirs, self.from) {
            return Err(down());
        }
        let (sender, connection) =
            handshake(TokioIo::new(ours)).await.map_err(|error| TransportError::Cut(error.into()))?;
        // Its end is seen at the next send.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn deliver(&mut self, call: Endpoint, request: &Request) -> Result<Response, TransportError> {
        if self.world.deaths().is_dead(Program::Agent) {
            return std::future::pending().await;
        }
        self.world.before(call);
        self.world.mend_controller().await;
        let answer = self.raw(request).await;
        self.world.after(call);
        if self.world.mend_controller().await {
            return Err(TransportError::Cut("the controller died".into()));
        }
        match self.world.twist(call, &self.node, answer?) {
            Deed::Say(reply) => response(reply),
            Deed::Cut(..) => {
                self.kept = None;
                Err(TransportError::Cut("the controller cut it".into()))
            }
            Deed::Withhold => {
                self.kept = None;
                sleep(NEVER).await;
                Err(TransportError::Timeout(NEVER))
            }
        }
    }

    async fn act(&mut self, act: Tamper, call: Endpoint, request: &Request) -> Result<Response, TransportError> {
        match act {
            Tamper::Pass => self.deliver(call, request).await,
            Tamper::Slow(seconds) => {
                let way = Duration::from_secs(seconds);
                let there_and_back = async {
                    sleep(way).await;
                    let answer = self.deliver(call, request).await;
                    sleep(way).await;
                    answer
                };
                match timeout(NEVER, there_and_back).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        self.kept = None;
                        Err(TransportError::Timeout(NEVER))
                    }
                }
            }
            Tamper::LoseRequest => {
                self.kept = None;
                sleep(NEVER).await;
                Err(TransportError::Timeout(NEVER))
            }
            Tamper::LoseAnswer => {
                let _ = self.deliver(call, request).await;
                self.kept = None;
                sleep(NEVER).await;
                Err(TransportError::Timeout(NEVER))
            }
            Tamper::Cut => {
                let _ = self.deliver(call, request).await;
                self.kept = None;
                Err(TransportError::Cut("the story cut it".into()))
            }
            Tamper::RefuseChallenge => {
                Ok(refusal(call, Code::ChallengeRefused, self.world.challenge(&self.scope(call), self.from)))
            }
            Tamper::Busy => Ok(refusal(call, Code::Busy, None)),
            Tamper::Page(status) => Ok(Response {
                status,
                json: false,
                next_challenge: None,
                retry_after: None,
                body: b"<html><h1>Access denied by the proxy</h1></html>".to_vec(),
            }),
            Tamper::OtherJson(status) => Ok(Response {
                status,
                json: true,
                next_challenge: None,
                retry_after: None,
                body: br#"{"message":"no such tenant"}"#.to_vec(),
            }),
            Tamper::AgentDies => {
                let _ = self.deliver(call, request).await;
                self.world.agent_dies();
                std::future::pending().await
            }
            Tamper::AgentDiesBefore => {
                self.world.agent_dies();
                std::future::pending().await
            }
            Tamper::ControllerDies => {
                let _ = self.deliver(call, request).await;
                self.world.restart_controller().await;
                Err(TransportError::Cut("the controller died".into()))
            }
            Tamper::WorkerDies => {
                self.world.restart_worker();
                self.deliver(call, request).await
            }
        }
    }

    fn scope(&self, call: Endpoint) -> Scope {
        if call.caller() == Caller::WindowOpen { Scope::Boot } else { Scope::Node(self.node.clone()) }
    }
}

impl Transport for Wire {
    async fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        let call = self.call_of(request);
        let (act, delay) = self.world.decide(call);
        let at = self.world.see(call, &self.node, self.from, act, request);
        sleep(delay).await;
        let answer = self.act(act, call, request).await;
        if let Ok(answer) = &answer {
            self.world.answered(at, answer.status);
        }
        answer
    }
}

fn down() -> TransportError {
    TransportError::Connect("controller.test".to_owned(), std::io::ErrorKind::ConnectionRefused.into())
}

fn refusal(call: Endpoint, code: Code, next_challenge: Option<String>) -> Response {
    let kind = if call.path().starts_with("/api/boot") { ErrorKind::DiscoveryError } else { ErrorKind::NodeError };
    let body = ErrorBody { error: ErrorText { code, message: "chaos".to_owned(), kind } };
    Response {
        status: code.status(),
        json: true,
        next_challenge,
        retry_after: (code == Code::Busy).then_some(Duration::from_secs(1)),
        body: serde_json::to_vec(&body).unwrap(),
    }
}

//! The HTTP edge: who may be connected, what is refused before it is read, and which method answers.
//!
//! A request passes, in this order: a place (`gate`), the handshake (`accept`), the raw head (`head`, in the stream of
//! `pace`), the caller's address (`source`), method, path and content (`edge`, `route`), what else head and address decide,
//! room for its body (`budget`), the body under the row's limit (`edge`), for `/api/host` over the network an owner's proof (`owners`), and then the one method of
//! [`Parts`] that its row names (`calls`). Whatever refuses,
//! refuses in one shape (`error`), with one line in the log.

mod accept;
mod budget;
mod calls;
mod documents;
mod edge;
mod error;
mod gate;
mod head;
mod live;
mod memory;
mod observe;
#[cfg(test)]
mod openapi;
mod operator;
mod pace;
mod page;
mod refusals;
mod route;
mod source;
mod token;
mod who;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use lucia_people::calls::People;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_proto::orders::owner::{OwnerId, PageOrigin};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use self::budget::{Budget, Hold, Holder};
use self::error::ApiError;
use self::gate::{Gate, Permit};
use self::live::{Body, Hub};
use self::pace::Pace;
use self::refusals::Refusals;
use self::route::{RouteTarget, Row, Side};
use crate::config::{Config, Network};
use crate::parts::{By, Parts, Refusal};
use crate::source::Source;
use crate::tls::EndpointCertificate;

pub use self::accept::{bind_tls, serve_stream, serve_tls};
pub use self::memory::beyond_unit;
pub use self::observe::serve_observers;
pub use self::operator::{SocketError, bind as bind_operator, serve_operator};

/// The description of every call that people make; how it is made is in `openapi`.
const DESCRIPTION: &[u8] = include_bytes!("../../openapi.json");

/// How long each part of a connection may take (design.md T1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The TLS handshake.
    pub handshake: Duration,
    /// A request's head, from its first byte; on a new connection from the handshake.
    pub head: Duration,
    /// A whole request from its first byte; and then its answer, from when it is ready.
    pub request: Duration,
    /// Between two requests. Longer than two minutes, so that a node's connection outlives a few lost heartbeats.
    pub idle: Duration,
    /// What calls in progress get when the controller stops.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            request: Duration::from_secs(15),
            idle: Duration::from_secs(150),
            drain: Duration::from_secs(10),
        }
    }
}

/// What every connection shares.
#[derive(Clone)]
pub struct Edge {
    shared: Arc<Shared>,
    /// What the body of the call takes that is answered over this one.
    held: Option<Arc<Hold>>,
}

struct Shared {
    controller: Arc<Parts>,
    certificate: Arc<EndpointCertificate>,
    started_at: UnixTime,
    gate: Arc<Gate>,
    budget: Arc<Budget>,
    refusals: Refusals,
    observed: observe::Observed,
    /// Who watches what changes.
    hub: Arc<Hub>,
    proxies: Vec<Network>,
    allowed: Vec<Network>,
    /// Where the page is; nothing where it cannot be.
    origin: Option<PageOrigin>,
    timeouts: Timeouts,
    stop: watch::Receiver<bool>,
}

impl Edge {
    /// The edge of `controller`, started at `now`; everything it serves ends in order when `stop` turns true.
    #[must_use]
    pub fn new(
        controller: Arc<Parts>,
        certificate: Arc<EndpointCertificate>,
        config: &Config,
        now: UnixTime,
        timeouts: Timeouts,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let gate = Gate::new(config.connections, config.trusted_proxies.clone());
        gate.remember(controller.fleet.node_addresses(), Instant::now());
        let shared = Shared {
            controller,
            certificate,
            started_at: now,
            gate,
            budget: Arc::default(),
            refusals: Refusals::new(Instant::now()),
            observed: observe::Observed::default(),
            hub: Arc::default(),
            proxies: config.trusted_proxies.clone(),
            allowed: config.allowed_networks.clone(),
            origin: config.page_origin(),
            timeouts,
            stop,
        };
        Self { shared: Arc::new(shared), held: None }
    }

    /// Connections turned away since this was last asked.
    #[must_use]
    pub fn take_refused(&self) -> u64 {
        self.shared.gate.take_refused()
    }

    /// Refusals that got no line of their own since this was last asked, by code.
    #[must_use]
    pub fn take_counted(&self) -> Option<String> {
        self.shared.refusals.take_counted()
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
enum Peer {
    /// Somebody on the network.
    Network(Arc<Permit>, IpAddr),
    /// The operator, by user id.
    Operator(u32),
    /// Whoever reads metrics and health on this machine.
    Observer,
}

/// An answer that is not a refusal.
#[derive(Debug)]
struct HttpAnswer {
    status: StatusCode,
    /// What is borrowed is part of the program and takes no memory of its own.
    body: Cow<'static, [u8]>,
    /// Beside those that all answers have.
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

impl HttpAnswer {
    fn ok<T: Serialize>(value: &T) -> Self {
        Self::with(StatusCode::OK, value)
    }

    fn with<T: Serialize>(status: StatusCode, value: &T) -> Self {
        // Types of ours always serialize: strings, numbers, lists, and maps with text keys.
        Self { status, body: serde_json::to_vec(value).unwrap_or_default().into(), headers: Vec::new() }
    }

    /// The same with one more header, or another value of one that all have.
    fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// A JSON answer with the headers that all of them have.
fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    respond(HttpAnswer::with(status, value))
}

fn respond(answer: HttpAnswer) -> Response<Body> {
    let mut response = Response::new(match answer.body {
        Cow::Borrowed(bytes) => Body::File(Full::new(Bytes::from_static(bytes))),
        Cow::Owned(bytes) => Body::Whole(Full::from(bytes)),
    });
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in answer.headers {
        headers.insert(name, value);
    }
    response
}

/// Waits until the controller is stopped, or whoever could stop it is gone.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Runs a method that may wait for the disk where waiting is allowed.
async fn blocking<T, F>(edge: &Edge, call: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Parts) -> Result<T, Refusal> + Send + 'static,
{
    let controller = Arc::clone(&edge.shared.controller);
    // Whoever hangs up meanwhile leaves the call where it waits, and what was read of it.
    let held = edge.held.clone();
    let call = move || {
        let result = call(&controller);
        drop(held);
        result
    };
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(error) => Err(ApiError::new(Code::Busy, "the controller is stopping").log(error.to_string())),
    }
}

impl Edge {
    /// Counts and logs what was refused before it was a request.
    fn refused_unread(&self, code: Code, peer: &Peer) {
        let error = ApiError::new(code, "the HTTP library could not read the head");
        if self.shared.refusals.gets_line(code, Instant::now()) {
            log_refusal(&error, peer, None, None);
        }
    }

    /// Answers one request, whatever it is.
    async fn answer(mut self, peer: Peer, pace: &Pace, request: Request<Incoming>) -> Response<Body> {
        let arrived = pace.arrived();
        let (parts, body) = request.into_parts();
        let side = match peer {
            Peer::Network(..) => Side::Network,
            Peer::Operator(_) => Side::Operator,
            Peer::Observer => return observe::answer(&self, pace, arrived, &parts).await,
        };
        let mut from = None;
        let mut target = None;
        let result: Result<Response<Body>, ApiError> = async {
            let source = self.source(&peer, &parts.headers)?;
            from = source;
            if let (Peer::Network(permit, _), Some(source)) = (&peer, source)
                && !permit.may_call(source, Instant::now())
            {
                return Err(ApiError::new(Code::TooManyRequests, "too many calls from one source").closing());
            }
            let found = target.insert(edge::route(side, arrived.verdict, &parts)?);
            if let Some(source) = source {
                self.admit(found.row, &parts.headers, source)?;
            }
            let max = edge::announced(found.row, &body);
            self.held = self.shared.budget.take(|| holder(&peer, source), max)?.map(Arc::new);
            let body = edge::body(body, max, arrived.until).await?;
            match (&peer, source) {
                (Peer::Network(permit, _), Some(source)) => {
                    let mut person = None;
                    let answer = match found.row.person() {
                        // What a token opens knows nobody and changes nothing.
                        Some(person) if token::is_presented(&parts.headers) => {
                            let by = token::of(&self, person, &parts.headers, source)?;
                            respond(calls::answer(&self, found, &parts.headers, &body, &by).await?)
                        }
                        Some(asks) => {
                            let by = who::of(&self, found.row, asks, &parts, &body, source)?;
                            let answer = self.host_answer(found, &parts, &body, &by).await?;
                            if let By::Owner { id, .. } = by {
                                person = Some(id);
                            }
                            answer
                        }
                        None => {
                            let by = calls::Asking::Stranger(source);
                            respond(calls::answer(&self, found, &parts.headers, &body, &by).await?)
                        }
                    };
                    if found.row.proves() {
                        let node = || found.id.as_ref().filter(|_| found.row.person().is_none()).map(NodeId::as_str);
                        let name = person.as_ref().map(OwnerId::as_str).or_else(node);
                        permit.proved(source, name, Instant::now());
                    }
                    Ok(answer)
                }
                (Peer::Operator(uid), _) => self.host_answer(found, &parts, &body, &By::Operator(*uid)).await,
                (Peer::Network(..) | Peer::Observer, _) => Err(ApiError::new(Code::InvalidRequest, "no address")),
            }
        }
        .await
        .and_then(|response| self.charge(|| holder(&peer, from), response));
        let close = match &result {
            Ok(answer) if matches!(answer.body(), Body::Events(_)) => pace.streaming(),
            Ok(_) => pace.answering(false),
            Err(error) => pace.answering(error.close),
        };
        let refused_challenge = result.as_ref().is_err_and(|error| error.code == Code::ChallengeRefused);
        let mut response = match result {
            Ok(answer) => answer,
            Err(error) => {
                if self.shared.refusals.gets_line(error.code, Instant::now()) {
                    log_refusal(&error, &peer, from, target.as_ref());
                }
                let document = (side == Side::Network).then(|| page::not_there(&self, &error, &parts)).flatten();
                document.unwrap_or_else(|| error::response(&error, parts.uri.path()))
            }
        };
        if close {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let (Some(from), Some(target)) = (from, &target)
            && (target.row.is_signed() || refused_challenge)
        {
            let next = self.shared.controller.challenges.issue(&target.scope(), from);
            if let Ok(value) = HeaderValue::from_str(&next.to_header()) {
                response.headers_mut().insert(NEXT_CHALLENGE_HEADER, value);
            }
        }
        response
    }

    /// What head and address decide, before a byte of a body is read.
    ///
    /// # Errors
    /// `actor_required` for what somebody of the roster may call, when nobody says that they are; as
    /// `Enrollment::may_discover`.
    fn admit(&self, row: Row, headers: &http::HeaderMap, source: IpAddr) -> Result<(), ApiError> {
        if row == Row::Node(Endpoint::Discover) {
            return self.shared.controller.enrollment.may_discover(source).map_err(ApiError::from);
        }
        if row.person().is_none() || token::is_presented(headers) || who::is_named(self, headers) {
            return Ok(());
        }
        Err(Refusal::actor("no owner's proof and no session").into())
    }

    /// The same answer, which takes its part of the budget until the last byte of it is written.
    ///
    /// # Errors
    /// As [`Budget::take`].
    fn charge(
        &self,
        holder: impl FnOnce() -> Holder,
        mut response: Response<Body>,
    ) -> Result<Response<Body>, ApiError> {
        if let Body::Whole(body) = response.body_mut()
            && let Some(bytes) = std::mem::take(body).into_inner()
        {
            *body = Full::new(match self.shared.budget.take(holder, bytes.len())? {
                Some(hold) => hold.around(bytes),
                None => bytes,
            });
        }
        Ok(response)
    }

    /// The answer to somebody who is the operator or of the roster.
    async fn host_answer(
        &self,
        target: &RouteTarget,
        parts: &http::request::Parts,
        body: &[u8],
        by: &By,
    ) -> Result<Response<Body>, ApiError> {
        if target.row == Row::People(People::Stream) {
            return live::watch(self, by, &parts.headers);
        }
        let by = calls::Asking::Person(by.clone());
        calls::answer(self, target, &parts.headers, body, &by).await.map(respond)
    }

    /// The caller's address; nothing for the operator.
    fn source(&self, peer: &Peer, headers: &http::HeaderMap) -> Result<Option<IpAddr>, ApiError> {
        let Peer::Network(_, peer) = peer else { return Ok(None) };
        let Some(source) = source::of(*peer, headers, &self.shared.proxies) else {
            let message = "the proxy in front sent no usable X-Forwarded-For";
            return Err(ApiError::new(Code::InvalidRequest, message).closing());
        };
        if !self.shared.allowed.iter().any(|network| network.contains(source)) {
            return Err(ApiError::new(Code::NetworkNotAllowed, "this address is not in allowed-networks")
                .log(format!("{source} is not in allowed-networks"))
                .closing());
        }
        Ok(Some(source))
    }
}

/// Whose bytes a call's are.
fn holder(peer: &Peer, source: Option<IpAddr>) -> Holder {
    match (peer, source) {
        (Peer::Network(permit, _), Some(source)) => match permit.prover() {
            Some(number) => Holder::Proven(number),
            None if permit.knows(source, Instant::now()) => Holder::Known(Source::of(source)),
            None => Holder::Stranger(Source::of(source)),
        },
        (Peer::Network(_, peer), None) => Holder::Stranger(Source::of(*peer)),
        (Peer::Operator(_) | Peer::Observer, _) => Holder::Operator,
    }
}

/// The one line of a refusal. Nothing in it can end the line or colour it.
fn log_refusal(error: &ApiError, peer: &Peer, from: Option<IpAddr>, target: Option<&RouteTarget>) {
    let from = match (peer, from) {
        (_, Some(source)) => source.to_string(),
        (Peer::Network(_, peer), None) => peer.to_string(),
        (Peer::Operator(uid), None) => format!("operator:{uid}"),
        (Peer::Observer, None) => "observer".to_owned(),
    };
    let id = target.and_then(|target| target.id.as_ref()).map_or("-", |id| id.as_str());
    let call = target.map_or_else(|| "-".to_owned(), |target| format!("{:?}", target.row));
    tracing::warn!(code = error.code.as_str(), from, id, call, "refused: {}", shown(&error.log));
}

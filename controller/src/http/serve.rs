//! One request, from its head to the answer.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use lucia_people::calls::PeopleCall;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::text::shown;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_proto::orders::owner::OwnerId;
use tokio::time::Instant;

use super::answer::respond;
use super::body::Body;
use super::budget::Holder;
use super::error::{self, ApiError};
use super::pace::Pace;
use super::route::{RouteTarget, Row, Side};
use super::site::{Edge, Peer, holder};
use super::{calls, edge, live, observe, page, source, token, who};
use crate::parts::{By, Refusal};

impl Edge {
    /// Counts and logs what was refused before it was a request.
    pub(super) fn refused_unread(&self, code: Code, peer: &Peer) {
        let error = ApiError::new(code, "the HTTP library could not read the head");
        if self.shared.refusals.gets_line(code, Instant::now()) {
            log_refusal(&error, peer, None, None);
        }
    }

    /// Answers one request, whatever it is.
    pub(super) async fn answer(mut self, peer: Peer, pace: &Pace, request: Request<Incoming>) -> Response<Body> {
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
            let next = self.shared.parts.challenges.issue(&target.scope(), from);
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
            return self.shared.parts.enrollment.may_discover(source).map_err(ApiError::from);
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
        if target.row == Row::People(PeopleCall::Stream) {
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

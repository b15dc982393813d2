//! `/api/boot` and `/api/nodes`: what a machine asks from its first contact on, and a managed node.

use http::StatusCode;
use lucia_proto::calls::on;
use lucia_proto::node::challenge::{Challenge, Scope};
use lucia_proto::node::first_contact::{Accepted, DeviceState, Discovered, Grant, Installation, Pending, PendingState};
use lucia_proto::node::heartbeat::HeartbeatReply;

use super::asked::{Asked, whole};
use crate::http::answer::HttpAnswer;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};
use crate::parts::Enrolled;

pub(super) fn boot_challenge(edge: &Edge, asked: &Asked<'_>) -> Result<Challenge, ApiError> {
    edge.shared.parts.enrollment.boot_challenge(asked.from()?).map_err(ApiError::from)
}

pub(super) async fn discover(edge: &Edge, asked: &Asked<'_>) -> Result<Discovered, ApiError> {
    let (call, from) = (asked.read::<on::Discover>()?, asked.from()?);
    blocking(edge, move |parts| parts.enrollment.discover(call, from)).await
}

pub(super) async fn device_state(edge: &Edge, asked: &Asked<'_>) -> Result<DeviceState, ApiError> {
    let (id, proof, from) = (asked.id()?.clone(), asked.proof()?, asked.from()?);
    blocking(edge, move |parts| parts.enrollment.device_state(&id, &proof, from)).await
}

pub(super) async fn installation(edge: &Edge, asked: &Asked<'_>) -> Result<Installation, ApiError> {
    let (id, proof, from) = (asked.id()?.clone(), asked.proof()?, asked.from()?);
    blocking(edge, move |parts| parts.enrollment.installation(&id, &proof, from)).await
}

pub(super) async fn grant(edge: &Edge, asked: &Asked<'_>) -> Result<Grant, ApiError> {
    let (id, call, from) = (asked.id()?.clone(), asked.read::<on::Grant>()?, asked.from()?);
    blocking(edge, move |parts| parts.enrollment.grant(&id, &call, from)).await
}

pub(super) async fn progress(edge: &Edge, asked: &Asked<'_>) -> Result<Accepted, ApiError> {
    let (id, call, from) = (asked.id()?.clone(), asked.read::<on::Progress>()?, asked.from()?);
    blocking(edge, move |parts| parts.enrollment.progress(&id, &call, from)).await
}

pub(super) async fn enroll(edge: &Edge, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    let (id, call, from) = (asked.id()?.clone(), asked.read::<on::Enroll>()?, asked.from()?);
    enrolled(blocking(edge, move |parts| parts.enrollment.enroll(&id, &call, from)).await?)
}

/// The challenge of a device or node: the same for every id, known or not (design.md I1).
pub(super) fn challenge(edge: &Edge, asked: &Asked<'_>) -> Result<Challenge, ApiError> {
    let scope = Scope::Node(asked.id()?.clone());
    Ok(edge.shared.parts.challenges.issue(&scope, asked.from()?).challenge())
}

/// Answered in place, since it waits for nothing; but for a node's first one, which moves the journal.
pub(super) async fn heartbeat(edge: &Edge, asked: &Asked<'_>) -> Result<HeartbeatReply, ApiError> {
    let parts = &edge.shared.parts;
    let (id, call, from) = (asked.id()?, asked.read::<on::Heartbeat>()?, asked.from()?);
    let reply = if parts.fleet.heartbeat_waits(id) {
        let id = id.clone();
        blocking(edge, move |parts| parts.heartbeat(&id, &call, from)).await?
    } else {
        parts.heartbeat(id, &call, from).map_err(ApiError::from)?
    };
    if reply.frozen && parts.fleet.freezes_wait() {
        // On disk before it is told.
        blocking(edge, |parts| {
            parts.fleet.write_freezes();
            Ok(())
        })
        .await?;
    }
    Ok(reply)
}

pub(super) async fn renew(edge: &Edge, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    let (id, call, from) = (asked.id()?.clone(), asked.read::<on::Renew>()?, asked.from()?);
    enrolled(blocking(edge, move |parts| parts.enrollment.renew(&id, &call, from)).await?)
}

/// 202 while the worker has not answered, then its answer as it signed it.
fn enrolled(state: Enrolled) -> Result<HttpAnswer, ApiError> {
    match state {
        Enrolled::Pending => Ok(HttpAnswer::with(StatusCode::ACCEPTED, &Pending { state: PendingState::Pending })),
        Enrolled::Ready(answer) => whole::<on::Enroll>(Ok(answer)),
    }
}

//! `/api/nodes`: what a managed node asks.

use std::net::IpAddr;

use http::StatusCode;
use lucia_proto::api::{Pending, PendingState};
use lucia_proto::base::ids::NodeId;
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::report::NodeCall;

use super::error::ApiError;
use super::{Edge, HttpAnswer, blocking};
use crate::parts::Enrolled;

/// `GET .../challenge` of a device or node: the same for every id, known or not (design.md I1).
pub(super) fn challenge(edge: &Edge, id: &NodeId, from: IpAddr) -> HttpAnswer {
    HttpAnswer::ok(&edge.shared.controller.challenges.issue(&Scope::Node(id.clone()), from).challenge())
}

/// `POST /api/nodes/{id}/heartbeat`: answered in place, since it waits for nothing; but for a node's first one, which
/// moves the journal.
pub(super) async fn heartbeat(edge: &Edge, id: &NodeId, call: NodeCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    let controller = &edge.shared.controller;
    let reply = if controller.fleet.heartbeat_waits(id) {
        let id = id.clone();
        blocking(edge, move |controller| controller.heartbeat(&id, &call, from)).await?
    } else {
        controller.heartbeat(id, &call, from).map_err(ApiError::from)?
    };
    if reply.frozen && controller.fleet.freezes_wait() {
        // On disk before it is told.
        blocking(edge, |controller| {
            controller.fleet.write_freezes();
            Ok(())
        })
        .await?;
    }
    Ok(HttpAnswer::ok(&reply))
}

/// `POST /api/nodes/{id}/renew`.
pub(super) async fn renew(edge: &Edge, id: &NodeId, call: NodeCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.renew(&id, &call, from)).await.map(|state| enrolled(&state))
}

/// 202 while the worker has not answered, then its answer as it signed it.
pub(super) fn enrolled(state: &Enrolled) -> HttpAnswer {
    match state {
        Enrolled::Pending => HttpAnswer::with(StatusCode::ACCEPTED, &Pending { state: PendingState::Pending }),
        Enrolled::Ready(answer) => HttpAnswer::ok(answer),
    }
}

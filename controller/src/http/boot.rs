//! `/api/boot`: what a machine asks from its first contact until it has a certificate.

use std::net::IpAddr;

use lucia_proto::base::ids::NodeId;
use lucia_proto::node::report::{DeviceCall, DiscoverCall, HeaderProof};

use super::error::ApiError;
use super::node::enrolled;
use super::{Edge, HttpAnswer, blocking};

/// `GET /api/boot/challenge`.
pub(super) fn challenge(edge: &Edge, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    edge.shared
        .controller
        .enrollment
        .boot_challenge(from)
        .map(|challenge| HttpAnswer::ok(&challenge))
        .map_err(ApiError::from)
}

/// `POST /api/boot/discover`.
pub(super) async fn discover(edge: &Edge, call: DiscoverCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    blocking(edge, move |controller| controller.enrollment.discover(call, from))
        .await
        .map(|found| HttpAnswer::ok(&found))
}

/// `GET /api/boot/devices/{id}`.
pub(super) async fn device_state(
    edge: &Edge,
    id: &NodeId,
    proof: HeaderProof,
    from: IpAddr,
) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.device_state(&id, &proof, from))
        .await
        .map(|state| HttpAnswer::ok(&state))
}

/// `GET /api/boot/devices/{id}/installation`.
pub(super) async fn installation(
    edge: &Edge,
    id: &NodeId,
    proof: HeaderProof,
    from: IpAddr,
) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.installation(&id, &proof, from))
        .await
        .map(|found| HttpAnswer::ok(&found))
}

/// `POST /api/boot/devices/{id}/grant`.
pub(super) async fn grant(edge: &Edge, id: &NodeId, call: DeviceCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.grant(&id, &call, from))
        .await
        .map(|grant| HttpAnswer::ok(&grant))
}

/// `POST /api/boot/devices/{id}/progress`.
pub(super) async fn progress(edge: &Edge, id: &NodeId, call: DeviceCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.progress(&id, &call, from))
        .await
        .map(|accepted| HttpAnswer::ok(&accepted))
}

/// `POST /api/boot/devices/{id}/enroll`.
pub(super) async fn enroll(edge: &Edge, id: &NodeId, call: DeviceCall, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.enrollment.enroll(&id, &call, from)).await.map(|state| enrolled(&state))
}

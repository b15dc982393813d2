//! Who owners are: the proof of a call, applications, the roster and names of nodes as the worker signed them.

use std::net::IpAddr;

use http::request::Parts;
use lucia_people::audit::AuditVia;
use lucia_people::calls::on;
use lucia_people::owner_api::{Applied, NamesView, RosterView};
use lucia_proto::node::challenge::{Challenge, Scope};
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::owner_proof::Method;

use super::{Asked, not_here};
use crate::http::error::ApiError;
use crate::http::{Edge, blocking, edge};
use crate::parts::{By, OwnerCall};

/// Who of the roster makes this very call, if they may.
///
/// # Errors
/// As `edge::owner_proof` and `People::owner`; `role_required`.
pub(in crate::http) fn prove(
    edge: &Edge,
    role: Role,
    parts: &Parts,
    body: &[u8],
    from: IpAddr,
) -> Result<By, ApiError> {
    let proof = edge::owner_proof(&parts.headers)?;
    let method = Method::of_word(parts.method.as_str()).ok_or_else(not_here)?;
    let target = parts.uri.path_and_query().ok_or_else(not_here)?.as_str();
    let verified = edge.shared.controller.people.owner(&OwnerCall { proof: &proof, method, target, body }, from)?;
    let owner = verified.owner();
    verified.may(role).map_err(|code| {
        ApiError::new(code, "this is for owners; a viewer may look only").log(format!("{} is a viewer", owner.name))
    })?;
    Ok(By::Owner { id: owner.id.clone(), name: owner.name.clone(), from, via: AuditVia::Key })
}

/// The same for everybody.
pub(super) fn challenge(edge: &Edge, asked: &Asked<'_>) -> Result<Challenge, ApiError> {
    Ok(edge.shared.controller.challenges.issue(&Scope::Owner, asked.from()?).challenge())
}

pub(super) async fn apply(edge: &Edge, asked: &Asked<'_>) -> Result<Applied, ApiError> {
    let (application, from) = (asked.read::<on::Apply>()?, asked.from()?);
    blocking(edge, move |controller| controller.people.apply(application, from)).await
}

pub(super) async fn roster(edge: &Edge) -> Result<RosterView, ApiError> {
    blocking(edge, |controller| Ok(controller.people.roster())).await
}

/// The very bytes that the worker signed.
pub(super) async fn names(edge: &Edge) -> Result<NamesView, ApiError> {
    blocking(edge, |controller| Ok(controller.people.signed_names())).await
}

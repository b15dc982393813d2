//! Who owners are: the proof of a call, applications, the roster and names of nodes as the worker signed them.

use lucia_people::audit::AuditActor;
use lucia_people::calls::{CallerView, on};
use lucia_people::owner_api::{Applied, NamesView, RosterView};
use lucia_proto::node::challenge::{Challenge, Scope};

use super::asked::Asked;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};
use crate::parts::By;

/// The same for everybody.
pub(super) fn challenge(edge: &Edge, asked: &Asked<'_>) -> Result<Challenge, ApiError> {
    Ok(edge.shared.parts.challenges.issue(&Scope::Owner, asked.from()?).challenge())
}

pub(super) async fn apply(edge: &Edge, asked: &Asked<'_>) -> Result<Applied, ApiError> {
    let (application, from) = (asked.read::<on::Apply>()?, asked.from()?);
    blocking(edge, move |parts| parts.people.apply(application, from)).await
}

/// Who this call is made as, by the roster as it is now.
pub(super) fn me(edge: &Edge, asked: &Asked<'_>) -> Result<CallerView, ApiError> {
    Ok(match asked.by()? {
        By::Operator(uid) => CallerView { actor: AuditActor::Operator(*uid), role: None, via: None },
        By::Owner { id, name, via, .. } => CallerView {
            actor: AuditActor::Owner(id.clone(), name.clone()),
            role: edge.shared.parts.people.role_of(id),
            via: Some(*via),
        },
    })
}

pub(super) async fn roster(edge: &Edge) -> Result<RosterView, ApiError> {
    blocking(edge, |parts| Ok(parts.people.roster())).await
}

/// The very bytes that the worker signed.
pub(super) async fn names(edge: &Edge) -> Result<NamesView, ApiError> {
    blocking(edge, |parts| Ok(parts.people.signed_names())).await
}

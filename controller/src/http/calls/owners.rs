//! Who owners are: the proof of a call, applications, the roster and names of nodes as the worker signed them.

use lucia_people::calls::on;
use lucia_people::owner_api::{Applied, NamesView, RosterView};
use lucia_proto::node::challenge::{Challenge, Scope};

use super::asked::Asked;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};

/// The same for everybody.
pub(super) fn challenge(edge: &Edge, asked: &Asked<'_>) -> Result<Challenge, ApiError> {
    Ok(edge.shared.parts.challenges.issue(&Scope::Owner, asked.from()?).challenge())
}

pub(super) async fn apply(edge: &Edge, asked: &Asked<'_>) -> Result<Applied, ApiError> {
    let (application, from) = (asked.read::<on::Apply>()?, asked.from()?);
    blocking(edge, move |parts| parts.people.apply(application, from)).await
}

pub(super) async fn roster(edge: &Edge) -> Result<RosterView, ApiError> {
    blocking(edge, |parts| Ok(parts.people.roster())).await
}

/// The very bytes that the worker signed.
pub(super) async fn names(edge: &Edge) -> Result<NamesView, ApiError> {
    blocking(edge, |parts| Ok(parts.people.signed_names())).await
}

//! Automation tokens: whose they are, made and removed.

use lucia_people::calls::on;
use lucia_people::token::{TokenMade, TokensView};

use super::asked::Asked;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};

pub(super) async fn all(edge: &Edge, asked: &Asked<'_>) -> Result<TokensView, ApiError> {
    let by = asked.by()?.clone();
    blocking(edge, move |parts| Ok(parts.people.tokens(&by))).await
}

pub(super) async fn make(edge: &Edge, asked: &Asked<'_>) -> Result<TokenMade, ApiError> {
    let (form, by) = (asked.read::<on::MakeToken>()?, asked.by()?.clone());
    blocking(edge, move |parts| parts.people.make_token(form, &by)).await
}

/// The answer is what is left.
pub(super) async fn remove(edge: &Edge, asked: &Asked<'_>) -> Result<TokensView, ApiError> {
    let (by, code) = (asked.by()?.clone(), asked.code()?.clone());
    blocking(edge, move |parts| parts.people.remove_token(&code, &by)).await?;
    all(edge, asked).await
}

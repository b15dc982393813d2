//! Drafts of orders, and signatures under them.

use lucia_people::calls::on;
use lucia_people::owner_api::{DraftView, DraftsView};

use super::asked::Asked;
use super::query::code_after;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};

/// The newest, or those older than the one whose code is `after`.
pub(super) async fn drafts(edge: &Edge, asked: &Asked<'_>) -> Result<DraftsView, ApiError> {
    let after = code_after(asked.query())?;
    blocking(edge, move |parts| parts.orders.drafts(after.as_ref())).await
}

pub(super) async fn add_draft(edge: &Edge, asked: &Asked<'_>) -> Result<DraftView, ApiError> {
    let (draft, by) = (asked.read::<on::AddDraft>()?, asked.by()?.clone());
    blocking(edge, move |parts| parts.orders.add_draft(draft, &by)).await
}

pub(super) async fn make_draft(edge: &Edge, asked: &Asked<'_>) -> Result<DraftView, ApiError> {
    let (form, by) = (asked.read::<on::MakeDraft>()?, asked.by()?.clone());
    blocking(edge, move |parts| parts.orders.make_draft(form, &by)).await
}

pub(super) async fn draft(edge: &Edge, asked: &Asked<'_>) -> Result<DraftView, ApiError> {
    let code = asked.code()?.clone();
    blocking(edge, move |parts| parts.orders.draft(&code)).await
}

/// The signature is its own proof of who signs.
pub(super) async fn sign(edge: &Edge, asked: &Asked<'_>) -> Result<DraftView, ApiError> {
    let (code, signature, by) = (asked.code()?.clone(), asked.read::<on::Sign>()?, asked.by()?.clone());
    blocking(edge, move |parts| parts.orders.sign(&code, signature, &by)).await
}

/// The answer is what is left.
pub(super) async fn drop_draft(edge: &Edge, asked: &Asked<'_>) -> Result<DraftsView, ApiError> {
    let (code, by) = (asked.code()?.clone(), asked.by()?.clone());
    blocking(edge, move |parts| parts.orders.drop_draft(&code, &by)).await?;
    drafts(edge, asked).await
}

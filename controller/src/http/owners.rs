//! What is an owner's: the proof of a call, and the calls that the operator's table does not have.

use std::net::IpAddr;

use http::request::Parts;
use lucia_people::audit::AuditVia;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::AUDIT_PER_ANSWER_MAX;
use lucia_proto::node::challenge::Scope;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::owner_proof::Method;
use lucia_proto::orders::{Draft, OrderSignature};
use lucia_proto::pki::key::VerificationCode;

use super::error::ApiError;
use super::host::Wanted;
use super::{Edge, HttpAnswer, blocking, edge};
use crate::parts::{By, OwnerCall};

/// Who of the roster makes this very call, if they may.
///
/// # Errors
/// As `edge::owner_proof` and `People::owner`; `role_required`.
pub(super) fn prove(edge: &Edge, role: Role, parts: &Parts, body: &[u8], from: IpAddr) -> Result<By, ApiError> {
    let proof = edge::owner_proof(&parts.headers)?;
    let unknown = || ApiError::new(Code::NotFound, "there is nothing at this path");
    let method = Method::of_word(parts.method.as_str()).ok_or_else(unknown)?;
    let target = parts.uri.path_and_query().ok_or_else(unknown)?.as_str();
    let verified = edge.shared.controller.people.owner(&OwnerCall { proof: &proof, method, target, body }, from)?;
    let owner = verified.owner();
    verified.may(role).map_err(|code| {
        ApiError::new(code, "this is for owners; a viewer may look only").log(format!("{} is a viewer", owner.name))
    })?;
    Ok(By::Owner { id: owner.id.clone(), name: owner.name.clone(), from, via: AuditVia::Key })
}

/// `GET /api/host/challenge`: the same for everybody.
pub(super) fn challenge(edge: &Edge, from: IpAddr) -> HttpAnswer {
    HttpAnswer::ok(&edge.shared.controller.challenges.issue(&Scope::Owner, from).challenge())
}

/// `POST /api/host/owners/applications`.
pub(super) async fn apply(edge: &Edge, asked: Application, from: IpAddr) -> Result<HttpAnswer, ApiError> {
    blocking(edge, move |controller| controller.people.apply(asked, from)).await.map(|applied| HttpAnswer::ok(&applied))
}

/// `GET /api/host/roster`.
pub(super) async fn roster(edge: &Edge) -> Result<HttpAnswer, ApiError> {
    blocking(edge, |controller| Ok(controller.people.roster())).await.map(|view| HttpAnswer::ok(&view))
}

/// `GET /api/host/names`: the very bytes that the worker signed.
pub(super) async fn names(edge: &Edge) -> Result<HttpAnswer, ApiError> {
    blocking(edge, |controller| Ok(controller.people.signed_names())).await.map(|view| HttpAnswer::ok(&view))
}

/// `GET /api/host/intents`: the newest, or those older than the one whose code is `after`.
pub(super) async fn drafts(edge: &Edge, query: Option<&str>) -> Result<HttpAnswer, ApiError> {
    let after = after(query.unwrap_or_default())?;
    blocking(edge, move |controller| controller.orders.drafts(after.as_ref())).await.map(|view| HttpAnswer::ok(&view))
}

/// Reads `after=CODE`, once at most.
fn after(query: &str) -> Result<Option<VerificationCode>, ApiError> {
    if query.is_empty() {
        return Ok(None);
    }
    let code = query.strip_prefix("after=").and_then(|text| text.parse().ok());
    let message = "drafts are asked for with after alone, the code of a draft";
    code.map(Some).ok_or_else(|| ApiError::new(Code::InvalidOnboardingRequest, message))
}

/// `POST /api/host/intents`.
pub(super) async fn add_draft(edge: &Edge, draft: Draft, by: &By) -> Result<HttpAnswer, ApiError> {
    let by = by.clone();
    blocking(edge, move |controller| controller.orders.add_draft(draft, &by)).await.map(|view| HttpAnswer::ok(&view))
}

/// `GET /api/host/intents/{code}`.
pub(super) async fn draft(edge: &Edge, code: &VerificationCode) -> Result<HttpAnswer, ApiError> {
    let code = code.clone();
    blocking(edge, move |controller| controller.orders.draft(&code)).await.map(|view| HttpAnswer::ok(&view))
}

/// `POST /api/host/intents/{code}/signatures`: the signature is its own proof of who signs.
pub(super) async fn sign(
    edge: &Edge,
    code: &VerificationCode,
    signature: OrderSignature,
    by: &By,
) -> Result<HttpAnswer, ApiError> {
    let (code, by) = (code.clone(), by.clone());
    blocking(edge, move |controller| controller.orders.sign(&code, signature, &by))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

/// `DELETE /api/host/intents/{code}`; the answer is what is left.
pub(super) async fn drop_draft(edge: &Edge, code: &VerificationCode, by: &By) -> Result<HttpAnswer, ApiError> {
    let (code, by) = (code.clone(), by.clone());
    blocking(edge, move |controller| controller.orders.drop_draft(&code, &by)).await?;
    drafts(edge, None).await
}

/// `GET /api/host/audit`: what came after `after`.
pub(super) async fn audit(edge: &Edge, query: Option<&str>) -> Result<HttpAnswer, ApiError> {
    let Wanted { after, limit, wait } = Wanted::parse(query.unwrap_or_default())?;
    if !wait.is_zero() {
        return Err(ApiError::new(Code::InvalidOnboardingRequest, "the audit is asked for with after and limit alone"));
    }
    blocking(edge, move |controller| controller.audit.entries(after, limit.min(AUDIT_PER_ANSWER_MAX)))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

//! Signing in to the page, its sessions and passkeys.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderValue};
use lucia_people::sign_in::{PasskeyForm, SignIn};
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner::PageOrigin;
use lucia_proto::pki::key::VerificationCode;

use super::error::ApiError;
use super::{Edge, HttpAnswer, blocking, edge, who};
use crate::parts::By;
use crate::refusal::Refusal;

/// Where the page is; passkeys are of no use without.
fn origin(edge: &Edge) -> Result<&PageOrigin, ApiError> {
    let message = "this controller has no page: names in its settings has no DNS name, and page-origin is not set";
    edge.shared.origin.as_ref().ok_or_else(|| ApiError::new(Code::NotFound, message))
}

fn with_cookie(answer: HttpAnswer, token: Option<&str>) -> HttpAnswer {
    // A cookie of ours is plain ASCII.
    match HeaderValue::from_str(&who::cookie(token)) {
        Ok(value) => answer.header(header::SET_COOKIE, value),
        Err(_) => answer,
    }
}

/// `POST /api/host/sessions`.
pub(super) async fn sign_in(
    edge: &Edge,
    form: SignIn,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<HttpAnswer, ApiError> {
    let origin = origin(edge)?.clone();
    who::is_from(Some(&origin), headers)?;
    let begun = blocking(edge, move |controller| controller.people.sign_in(&form, &origin, from)).await?;
    Ok(with_cookie(HttpAnswer::ok(&begun.answer), Some(&begun.token)))
}

/// `GET /api/host/sessions`.
pub(super) async fn sessions(edge: &Edge, by: &By, headers: &HeaderMap) -> Result<HttpAnswer, ApiError> {
    let (by, token) = (by.clone(), who::token(headers).map(str::to_owned));
    blocking(edge, move |controller| Ok(controller.people.sessions(&by, token.as_deref())))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

/// `DELETE /api/host/sessions` and `DELETE /api/host/sessions/{code}`; the answer is what is left.
pub(super) async fn end(
    edge: &Edge,
    code: Option<&VerificationCode>,
    by: &By,
    headers: &HeaderMap,
) -> Result<HttpAnswer, ApiError> {
    let (ended, code) = (by.clone(), code.cloned());
    blocking(edge, move |controller| controller.people.end_sessions(&ended, code.as_ref())).await?;
    let answer = sessions(edge, by, headers).await?;
    let gone = who::token(headers).is_some_and(|token| !edge.shared.controller.people.session_goes_on(token));
    Ok(if gone { with_cookie(answer, None) } else { answer })
}

/// `POST /api/host/passkeys`.
pub(super) async fn ask(
    edge: &Edge,
    form: PasskeyForm,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<HttpAnswer, ApiError> {
    who::is_from(Some(origin(edge)?), headers)?;
    blocking(edge, move |controller| controller.people.ask_passkey(form, from))
        .await
        .map(|asked| HttpAnswer::ok(&asked))
}

/// `GET /api/host/passkeys`.
pub(super) async fn passkeys(edge: &Edge, by: &By) -> Result<HttpAnswer, ApiError> {
    let by = by.clone();
    blocking(edge, move |controller| Ok(controller.people.passkeys(&by))).await.map(|view| HttpAnswer::ok(&view))
}

/// `POST /api/host/passkeys/{code}`.
pub(super) async fn approve(
    edge: &Edge,
    code: &VerificationCode,
    by: &By,
    headers: &HeaderMap,
) -> Result<HttpAnswer, ApiError> {
    // The very proof that let the call in; over the socket there is none, and the operator has no passkeys.
    let key = match by {
        By::Owner { .. } => edge::owner_proof(headers)?.key,
        By::Operator(_) => return Err(Refusal::actor("the operator has no passkeys").into()),
    };
    let (by, code) = (by.clone(), code.clone());
    blocking(edge, move |controller| controller.people.approve_passkey(&code, &by, &key))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

/// `DELETE /api/host/passkeys/{code}`; the answer is what is left.
pub(super) async fn remove(edge: &Edge, code: &VerificationCode, by: &By) -> Result<HttpAnswer, ApiError> {
    let (who, code) = (by.clone(), code.clone());
    blocking(edge, move |controller| controller.people.remove_passkey(&code, &who)).await?;
    passkeys(edge, by).await
}

//! Signing in to the page, its sessions and passkeys.

use http::header::{self, HeaderValue};
use lucia_people::calls::on;
use lucia_people::sign_in::{PasskeyAsked, PasskeyView, PasskeysView, SessionsView};
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner::PageOrigin;

use super::asked::{Asked, whole};
use crate::http::answer::HttpAnswer;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};
use crate::http::{edge, who};
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

pub(super) async fn sign_in(edge: &Edge, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    let (origin, form, from) = (origin(edge)?.clone(), asked.read::<on::SignIn>()?, asked.from()?);
    who::is_from(Some(&origin), asked.headers)?;
    let begun = blocking(edge, move |parts| parts.people.sign_in(&form, &origin, from)).await?;
    Ok(with_cookie(whole::<on::SignIn>(Ok(begun.answer))?, Some(&begun.token)))
}

pub(super) async fn sessions(edge: &Edge, asked: &Asked<'_>) -> Result<SessionsView, ApiError> {
    let (by, token) = (asked.by()?.clone(), who::token(asked.headers).map(str::to_owned));
    blocking(edge, move |parts| Ok(parts.people.sessions(&by, token.as_deref()))).await
}

/// Ends one session or all; the answer is what is left.
pub(super) async fn end(edge: &Edge, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    let (by, code) = (asked.by()?.clone(), asked.target.code.clone());
    blocking(edge, move |parts| parts.people.end_sessions(&by, code.as_ref())).await?;
    let answer = whole::<on::EndSessions>(sessions(edge, asked).await)?;
    let gone = who::token(asked.headers).is_some_and(|token| !edge.shared.parts.people.session_goes_on(token));
    Ok(if gone { with_cookie(answer, None) } else { answer })
}

pub(super) async fn ask(edge: &Edge, asked: &Asked<'_>) -> Result<PasskeyAsked, ApiError> {
    let (form, from) = (asked.read::<on::AskPasskey>()?, asked.from()?);
    who::is_from(Some(origin(edge)?), asked.headers)?;
    blocking(edge, move |parts| parts.people.ask_passkey(form, from)).await
}

pub(super) async fn passkeys(edge: &Edge, asked: &Asked<'_>) -> Result<PasskeysView, ApiError> {
    let by = asked.by()?.clone();
    blocking(edge, move |parts| Ok(parts.people.passkeys(&by))).await
}

pub(super) async fn approve(edge: &Edge, asked: &Asked<'_>) -> Result<PasskeyView, ApiError> {
    let (by, code) = (asked.by()?.clone(), asked.code()?.clone());
    // The very proof that let the call in; over the socket there is none, and the operator has no passkeys.
    let key = match by {
        By::Owner { .. } => edge::owner_proof(asked.headers)?.key,
        By::Operator(_) => return Err(Refusal::actor("the operator has no passkeys").into()),
    };
    blocking(edge, move |parts| parts.people.approve_passkey(&code, &by, &key)).await
}

/// The answer is what is left.
pub(super) async fn remove(edge: &Edge, asked: &Asked<'_>) -> Result<PasskeysView, ApiError> {
    let (by, code) = (asked.by()?.clone(), asked.code()?.clone());
    blocking(edge, move |parts| parts.people.remove_passkey(&code, &by)).await?;
    passkeys(edge, asked).await
}

//! The page: which document answers which path, for whom, and under which headers.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use lucia_proto::base::code::Code;

use super::answer::{HttpAnswer, respond};
use super::body::Body;
use super::documents::DocumentCall;
use super::error::ApiError;
use super::pages::{BACKGROUND, Page};
use super::route::RouteTarget;
use super::site::{Edge, blocking};
use super::who;
use crate::page::{Asset, Frame, Trouble, Who, render};

/// What a browser is told about every document and file: nothing from elsewhere, nothing inline, in no frame.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action \
         'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), publickey-credentials-get=(self), \
         publickey-credentials-create=(self)",
    ),
];

fn answer_of(status: StatusCode, kind: &'static str, body: Cow<'static, [u8]>) -> HttpAnswer {
    let mut answer = HttpAnswer { status, body, headers: Vec::new() };
    for (name, value) in HEADERS {
        answer = answer.header(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer.header(header::CONTENT_TYPE, HeaderValue::from_static(kind))
}

fn html(status: StatusCode, body: String) -> HttpAnswer {
    answer_of(status, "text/html; charset=utf-8", body.into_bytes().into())
}

/// A file: the same for everybody and soon asked for again.
fn file(asset: Asset) -> HttpAnswer {
    answer_of(StatusCode::OK, asset.kind(), asset.text().as_bytes().into())
        .header(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"))
}

fn elsewhere(path: &'static str) -> HttpAnswer {
    html(StatusCode::SEE_OTHER, String::new()).header(header::LOCATION, HeaderValue::from_static(path))
}

/// Whether a browser asks for a document, by what it takes; a program that takes anything asks for none.
fn is_for_people(parts: &Parts) -> bool {
    let takes = parts.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut takes = takes.flat_map(|value| value.split(',')).filter_map(|one| one.split(';').next());
    // Whatever is called by programs stays theirs.
    let is_api = ["/api", "/v1"].iter().any(|api| parts.uri.path().strip_prefix(api).is_some_and(is_end_of_part));
    parts.method == Method::GET && !is_api && takes.any(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
}

fn is_end_of_part(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// What a person sees at an address that is not there; nothing for programs, and where there is no page.
pub(super) fn not_there(edge: &Edge, error: &ApiError, parts: &Parts) -> Option<Response<Body>> {
    if error.code != Code::NotFound || edge.shared.origin.is_none() || !is_for_people(parts) {
        return None;
    }
    let controller = &edge.shared.parts;
    let session = who::token(&parts.headers).and_then(|token| controller.people.session(token, false).ok());
    let who = session.map(|session| Who { name: session.name, role: session.role });
    let frame = Frame::new("Not there", "", who, controller.clock.now());
    let message =
        "There is nothing at this address: it was typed or cut wrong, or it is of another version of this page.";
    let text = render(&Trouble::new(frame, message)).ok()?;
    Some(respond(html(StatusCode::NOT_FOUND, text)))
}

/// Answers a document or file.
///
/// # Errors
/// `not_found` where there is no page; a template of ours that cannot be filled in.
pub(super) async fn answer(
    edge: &Edge,
    page: Page,
    target: &RouteTarget,
    headers: &HeaderMap,
) -> Result<HttpAnswer, ApiError> {
    if let Page::File(asset) = page {
        return Ok(file(asset));
    }
    let message = "this controller has no page: names in its settings has no DNS name, and page-origin is not set";
    let origin = edge.shared.origin.clone().ok_or_else(|| ApiError::new(Code::NotFound, message))?;
    let token = who::token(headers).map(str::to_owned);
    let uses = !headers.contains_key(BACKGROUND);
    let session = token.as_deref().and_then(|token| edge.shared.parts.people.session(token, uses).ok());
    if session.is_none() && !page.is_for_anyone() {
        return Ok(elsewhere("/sign-in"));
    }
    let asked = DocumentCall { page, target: target.clone(), session, token, origin };
    let who = asked.who();
    match blocking(edge, move |controller| asked.document(controller)).await {
        Ok(text) => Ok(html(StatusCode::OK, text)),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let frame = Frame::new("Not there", page.path(), who, edge.shared.parts.clock.now());
            let text = render(&Trouble::new(frame, &error.message));
            text.map(|text| html(status, text)).map_err(|_| error)
        }
    }
}

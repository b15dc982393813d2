//! What is refused before any call looks at it: the head, then the body as it arrives.

use http::request::Parts;
use http::{HeaderMap, Method, Version, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use lucia_proto::base::code::Code;
use lucia_proto::base::json;
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use lucia_proto::calls::Call;
use lucia_proto::node::report::{HeaderProof, PROOF_HEADER};
use lucia_proto::orders::owner_proof::{OWNER_PROOF_HEADER, OwnerProof};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::error::ApiError;
use super::head::Verdict;
use super::route::{NoRoute, RouteTarget, Row, Side, find};
use crate::refusal::Refusal;

/// Checks the head and finds the row that answers.
///
/// # Errors
/// `invalid_request`, `not_found`, `method_not_allowed`, `unsupported_content`, `body_too_large`.
pub(super) fn route(side: Side, verdict: Verdict, parts: &Parts) -> Result<RouteTarget, ApiError> {
    let malformed = |reason: &str| {
        ApiError::new(Code::InvalidRequest, "this is not a well-formed HTTP/1.1 request").log(reason).closing()
    };
    let length = match verdict {
        Verdict::Bad(reason) => return Err(malformed(reason.as_str())),
        Verdict::Length(length) => Some(length),
        Verdict::Chunked => None,
    };
    if parts.version != Version::HTTP_11 {
        return Err(malformed("not HTTP/1.1"));
    }
    if parts.method == Method::CONNECT || parts.uri.authority().is_some() || parts.uri.scheme().is_some() {
        return Err(malformed("not the origin form of a path"));
    }
    if !parts.headers.get(header::HOST).is_some_and(|host| is_host(host.as_bytes())) {
        return Err(malformed("the Host is not a host"));
    }
    let mut target = find(side, parts.method.as_str(), parts.uri.path()).map_err(|none| match none {
        NoRoute::Path => ApiError::new(Code::NotFound, "there is nothing at this path").closing(),
        NoRoute::Method(methods) => {
            let mut error = ApiError::new(Code::MethodNotAllowed, "this path has another method").closing();
            error.allow = Some(methods.join(", "));
            error
        }
    })?;
    let row = target.row;
    if parts.uri.query().is_some() && !row.is_queried() {
        return Err(ApiError::new(Code::NotFound, "there is nothing at this path").log("query string").closing());
    }
    check_content(row, length, &parts.headers)?;
    target.query = parts.uri.query().map(str::to_owned);
    Ok(target)
}

/// A host with or without a port: no user, no path, no list.
pub(super) fn is_host(text: &[u8]) -> bool {
    !text.is_empty()
        && text.len() <= 255 + 6
        && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']'))
}

fn check_content(row: Row, length: Option<u64>, headers: &HeaderMap) -> Result<(), ApiError> {
    let max = row.body_max();
    match length {
        Some(0) if max == 0 => return Ok(()),
        Some(length) if usize::try_from(length).is_ok_and(|length| length <= max) => {}
        // The end of chunks is not known yet: they are counted as they come.
        None if max > 0 => {}
        Some(_) | None => return Err(too_large(max)),
    }
    let unsupported = |log: &str| {
        ApiError::new(Code::UnsupportedContent, "the body must be plain application/json").log(log).closing()
    };
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(unsupported("Content-Encoding"));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    match (types.next(), types.next()) {
        (Some(one), None) if is_json(one.as_bytes()) => Ok(()),
        _ => Err(unsupported("Content-Type")),
    }
}

fn is_json(content_type: &[u8]) -> bool {
    let text = content_type.to_ascii_lowercase();
    matches!(
        text.trim_ascii(),
        b"application/json" | b"application/json; charset=utf-8" | b"application/json;charset=utf-8"
    )
}

fn too_large(max: usize) -> ApiError {
    ApiError::new(Code::BodyTooLarge, &format!("this call takes a body of at most {max} bytes")).closing()
}

/// The bytes that the body of a call may have, as its head says: all that the row takes where it does not say.
pub(super) fn announced(row: Row, body: &Incoming) -> usize {
    let max = row.body_max();
    body.size_hint().exact().map_or(max, |length| usize::try_from(length).map_or(max, |length| length.min(max)))
}

/// Reads a body of at most `max` bytes, until `until` at the latest.
///
/// # Errors
/// `body_too_large`, `request_timeout`, `invalid_request`.
pub(super) async fn body(body: Incoming, max: usize, until: Instant) -> Result<Vec<u8>, ApiError> {
    if max == 0 {
        return Ok(Vec::new());
    }
    tokio::time::timeout_at(until, collect(body, max))
        .await
        .unwrap_or_else(|_| Err(ApiError::new(Code::RequestTimeout, "the request took too long to arrive").closing()))
}

async fn collect(mut body: Incoming, max: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::with_capacity(max);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::new(Code::InvalidRequest, "the body ended before its end").log(error.to_string()).closing()
        })?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > max {
                return Err(too_large(max));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

/// Reads a body as strict JSON.
///
/// # Errors
/// `invalid_body`, naming the place but no value of it.
pub(super) fn read<C: Call<Request: DeserializeOwned>>(bytes: &[u8]) -> Result<C::Request, ApiError> {
    json::from_person(bytes, C::BODY_MAX, JSON_DEPTH_MAX)
        .map_err(|error| ApiError::new(Code::InvalidBody, &format!("the body is refused: {error}")))
}

/// The proof in the header of a GET.
///
/// # Errors
/// `invalid_body` when there is not exactly one, or it is not a proof.
pub(super) fn proof(headers: &HeaderMap) -> Result<HeaderProof, ApiError> {
    let mut values = headers.get_all(PROOF_HEADER).iter();
    let refused = |log: String| {
        ApiError::new(Code::InvalidBody, &format!("this call takes one proof in {PROOF_HEADER}")).log(log)
    };
    match (values.next(), values.next()) {
        (Some(one), None) => HeaderProof::from_header(one.as_bytes()).map_err(|error| refused(error.to_string())),
        (None, _) => Err(refused("no proof header".to_owned())),
        (Some(_), Some(_)) => Err(refused("more than one proof header".to_owned())),
    }
}

/// The proof of somebody of the roster.
///
/// # Errors
/// `actor_required` when there is none, `invalid_request` when there is more than one or it is not a proof.
pub(super) fn owner_proof(headers: &HeaderMap) -> Result<OwnerProof, ApiError> {
    let mut values = headers.get_all(OWNER_PROOF_HEADER).iter();
    match (values.next(), values.next()) {
        (Some(one), None) => OwnerProof::from_header(one.as_bytes()).map_err(|error| {
            ApiError::new(error.code(), &format!("{OWNER_PROOF_HEADER}: {error}")).log(error.to_string())
        }),
        (None, _) => Err(Refusal::actor("no owner's proof").into()),
        (Some(_), Some(_)) => {
            let message = format!("this call takes one proof in {OWNER_PROOF_HEADER}");
            Err(ApiError::new(Code::InvalidRequest, &message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::BadHead;
    use lucia_proto::calls::Endpoint;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(length: Verdict, request: http::request::Builder, want: Result<Endpoint, Code>) {
        let want = want.map(Row::Node);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let got = route(Side::Network, length, &parts);
        assert_eq!(got.as_ref().map(|target| target.row).map_err(|error| error.code), want, "{parts:?}");
        assert!(got.is_ok() || got.is_err_and(|error| error.close), "what was refused is not read on");
    }

    fn post(path: &str) -> http::request::Builder {
        http::Request::post(path).header("host", "c.example:8443")
    }

    // spec: HT-12
    #[test]
    fn only_plain_json_within_the_row_s_limit_is_read() {
        let heartbeat = format!("/api/nodes/{ID}/heartbeat");
        let challenge = format!("/api/nodes/{ID}/challenge");
        let json = || post(&heartbeat).header("content-type", "application/json");
        let max = u64::try_from(Endpoint::Heartbeat.body_max()).unwrap();
        check(Verdict::Length(2), json(), Ok(Endpoint::Heartbeat));
        check(Verdict::Length(max), json(), Ok(Endpoint::Heartbeat));
        check(Verdict::Length(max + 1), json(), Err(Code::BodyTooLarge));
        check(Verdict::Length(u64::MAX), json(), Err(Code::BodyTooLarge));
        check(Verdict::Chunked, json(), Ok(Endpoint::Heartbeat));
        check(Verdict::Length(2), json().header("content-encoding", "gzip"), Err(Code::UnsupportedContent));
        check(Verdict::Length(2), json().header("content-encoding", "identity"), Err(Code::UnsupportedContent));
        check(Verdict::Length(2), post(&heartbeat), Err(Code::UnsupportedContent));
        check(Verdict::Length(2), post(&heartbeat).header("content-type", "text/json"), Err(Code::UnsupportedContent));
        check(Verdict::Length(2), json().header("content-type", "application/json"), Err(Code::UnsupportedContent));
        let get = || http::Request::get(&challenge).header("host", "c.example");
        check(Verdict::Length(0), get(), Ok(Endpoint::NodeChallenge));
        check(Verdict::Length(1), get(), Err(Code::BodyTooLarge));
        check(Verdict::Chunked, get(), Err(Code::BodyTooLarge));
    }

    // spec: HT-4
    #[test]
    fn h_4_only_the_origin_form_for_one_plain_host() {
        let path = format!("/api/nodes/{ID}/challenge");
        let get = |uri: &str, host: &str| http::Request::get(uri).header("host", host);
        check(Verdict::Length(0), get(&path, "[2001:db8::1]:8443"), Ok(Endpoint::NodeChallenge));
        for host in ["user@c.example", "a, b", "c.example/x", "", "c example"] {
            check(Verdict::Length(0), get(&path, host), Err(Code::InvalidRequest));
        }
        check(Verdict::Length(0), get(&format!("https://c.example{path}"), "c.example"), Err(Code::InvalidRequest));
        check(Verdict::Length(0), get(&format!("{path}?a=b"), "c.example"), Err(Code::NotFound));
        check(Verdict::Length(0), get(&format!("{path}?"), "c.example"), Err(Code::NotFound));
        check(Verdict::Bad(BadHead::Hosts), get(&path, "c.example"), Err(Code::InvalidRequest));
        check(Verdict::Length(0), get(&path, "c.example").version(Version::HTTP_10), Err(Code::InvalidRequest));
        check(Verdict::Length(0), post(&path), Err(Code::MethodNotAllowed));
    }
}

//! The one shape of a refusal: a code and a message for the peer, a text for the log.

use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use lucia_proto::base::code::{Code, ErrorBody, ErrorKind, ErrorText};

use super::answer::json;
use super::body::Body;
use crate::parts::Refusal;

/// A call that is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    /// The contract.
    pub(super) code: Code,
    /// For the peer.
    pub(super) message: String,
    /// For the log; never leaves this machine.
    pub(super) log: String,
    /// What was not read of the request is not worth reading: the connection ends with the answer.
    pub(super) close: bool,
    /// The methods there are, with `method_not_allowed`.
    pub(super) allow: Option<String>,
}

impl ApiError {
    /// A refusal whose log has nothing to add to its message.
    pub(super) fn new(code: Code, message: &str) -> Self {
        Self { code, message: message.to_owned(), log: message.to_owned(), close: false, allow: None }
    }

    /// The same, ending the connection.
    pub(super) fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    /// The same, with its own words for the log.
    pub(super) fn log(mut self, log: impl Into<String>) -> Self {
        self.log = log.into();
        self
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message, log: refusal.log, close: false, allow: None }
    }
}

/// Which side of the interface refuses, by the path as it came.
fn kind(path: &str, status: StatusCode) -> ErrorKind {
    if path.starts_with("/api/boot") {
        ErrorKind::DiscoveryError
    } else if path.starts_with("/api/nodes") {
        ErrorKind::NodeError
    } else if status.is_server_error() {
        ErrorKind::ServerError
    } else {
        ErrorKind::InvalidRequestError
    }
}

/// Seconds after which trying again makes sense.
const fn retry_after(status: StatusCode) -> Option<&'static str> {
    match status {
        // A second is what the rate of a node is counted in.
        StatusCode::TOO_MANY_REQUESTS => Some("1"),
        // The worker looks at its queue every 5 s and counts as gone after 45.
        StatusCode::SERVICE_UNAVAILABLE => Some("15"),
        _ => None,
    }
}

/// The refusal as an answer.
pub(super) fn response(error: &ApiError, path: &str) -> Response<Body> {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body =
        ErrorBody { error: ErrorText { code: error.code, message: error.message.clone(), kind: kind(path, status) } };
    let mut response = json(status, &body);
    let headers = response.headers_mut();
    if let Some(seconds) = retry_after(status) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    if let Some(allow) = error.allow.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(header::ALLOW, allow);
    }
    response
}

/// The refusal of what nobody could read, as the bytes that travel.
pub(super) fn unread(code: Code) -> Vec<u8> {
    let message = match code {
        Code::HeadersTooLarge => "the headers are longer than allowed, or too many",
        _ => "this is not a well-formed HTTP/1.1 request",
    };
    let (parts, body) = response(&ApiError::new(code, message), "").into_parts();
    let mut bytes = format!("HTTP/1.1 {}\r\nconnection: close\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let body = body.whole();
    bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HT-11
    #[test]
    fn every_code_travels_in_one_shape_and_the_log_text_stays() {
        for code in Code::ALL.iter().copied() {
            let error = ApiError::new(code, "for the peer").log("for the log");
            for (path, kind) in
                [("/api/boot/x", "discovery_error"), ("/api/nodes/x", "node_error"), ("/api/host/x", "")]
            {
                let response = response(&error, path);
                assert_eq!(response.status().as_u16(), code.status());
                let kind = match (kind, code.status()) {
                    ("", 500..) => "server_error",
                    ("", _) => "invalid_request_error",
                    (kind, _) => kind,
                };
                let want =
                    format!(r#"{{"error":{{"code":"{}","message":"for the peer","type":"{kind}"}}}}"#, code.as_str());
                let Body::Whole(body) = response.body() else { panic!("a refusal is whole") };
                assert_eq!(body.clone().into_inner().unwrap(), want.as_bytes());
                assert_eq!(response.headers()["cache-control"], "no-store");
                assert_eq!(response.headers().contains_key("retry-after"), matches!(code.status(), 429 | 503));
            }
        }
    }
}

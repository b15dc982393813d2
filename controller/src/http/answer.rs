//! An answer, whole or going on.

use std::borrow::Cow;

use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;

use super::body::Body;

/// An answer that is not a refusal.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    /// What is borrowed is part of the program and takes no memory of its own.
    pub(super) body: Cow<'static, [u8]>,
    /// Beside those that all answers have.
    pub(super) headers: Vec<(header::HeaderName, HeaderValue)>,
}

impl HttpAnswer {
    pub(super) fn ok<T: Serialize>(value: &T) -> Self {
        Self::with(StatusCode::OK, value)
    }

    pub(super) fn with<T: Serialize>(status: StatusCode, value: &T) -> Self {
        // Types of ours always serialize: strings, numbers, lists, and maps with text keys.
        Self { status, body: serde_json::to_vec(value).unwrap_or_default().into(), headers: Vec::new() }
    }

    /// The same with one more header, or another value of one that all have.
    pub(super) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// A JSON answer with the headers that all of them have.
pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    respond(HttpAnswer::with(status, value))
}

pub(super) fn respond(answer: HttpAnswer) -> Response<Body> {
    let mut response = Response::new(match answer.body {
        Cow::Borrowed(bytes) => Body::File(Full::new(Bytes::from_static(bytes))),
        Cow::Owned(bytes) => Body::Whole(Full::from(bytes)),
    });
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in answer.headers {
        headers.insert(name, value);
    }
    response
}

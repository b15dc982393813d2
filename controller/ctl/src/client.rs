//! One call over the controller's Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use lucia_proto::api::Endpoint;
use lucia_proto::code::ErrorBody;
use lucia_proto::host_api::{EVENTS_WAIT_MAX, HOST_ANSWER_MAX};
use lucia_proto::ids::NodeId;
use lucia_proto::json;
use lucia_proto::limits::JSON_DEPTH_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::UnixStream;

/// How long an answer may take beyond what was asked to be waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// Nobody listens there, or we may not.
    #[error("no controller answers on {path} ({err}); is it running, and are you root or its user?")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        err: std::io::Error,
    },
    /// The connection ended without an answer.
    #[error("the controller closed the connection: it takes calls from root and from its own user only")]
    Closed,
    /// No answer in time.
    #[error("the controller did not answer in time; its log may say why")]
    Silent,
    /// The answer is not one.
    #[error("the controller's answer is not understood ({0}); is luciactl of the same version?")]
    Strange(String),
    /// The controller said no.
    #[error("{} ({})", lucia_proto::text::shown(&.0.error.message), .0.error.code.as_str())]
    Refused(ErrorBody),
}

/// The controller, by its socket.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    socket: &'a Path,
}

impl<'a> Client<'a> {
    pub(crate) const fn new(socket: &'a Path) -> Self {
        Self { socket }
    }

    /// A call without a form.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint,
        id: Option<&NodeId>,
    ) -> Result<T, CallError> {
        self.send(endpoint, &path(endpoint, id), None).await
    }

    /// A call with a form.
    pub(crate) async fn post<F: Serialize, T: DeserializeOwned>(
        &self,
        endpoint: Endpoint,
        id: Option<&NodeId>,
        form: &F,
    ) -> Result<T, CallError> {
        let form = json::to_string(form).map_err(|error| CallError::Strange(error.to_string()))?;
        self.send(endpoint, &path(endpoint, id), Some(form)).await
    }

    /// Events after `after`; with `wait`, not before there are some or 25 s are over.
    pub(crate) async fn events<T: DeserializeOwned>(&self, after: u64, wait: bool) -> Result<T, CallError> {
        let wait = if wait { EVENTS_WAIT_MAX.as_secs() } else { 0 };
        let path = format!("{}?after={after}&limit=500&wait={wait}", Endpoint::Events.path());
        self.send(Endpoint::Events, &path, None).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint,
        path: &str,
        form: Option<String>,
    ) -> Result<T, CallError> {
        let unreachable = |err| CallError::Unreachable { path: self.socket.to_owned(), err };
        let stream = UnixStream::connect(self.socket).await.map_err(unreachable)?;
        let patience = PATIENCE + EVENTS_WAIT_MAX;
        tokio::time::timeout(patience, exchange(stream, endpoint, path, form)).await.map_err(|_| CallError::Silent)?
    }
}

fn path(endpoint: Endpoint, id: Option<&NodeId>) -> String {
    id.map_or_else(|| endpoint.path().to_owned(), |id| endpoint.path_for(id))
}

async fn exchange<T: DeserializeOwned>(
    stream: UnixStream,
    endpoint: Endpoint,
    path: &str,
    form: Option<String>,
) -> Result<T, CallError> {
    let strange = |error: &dyn std::fmt::Display| CallError::Strange(error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .map_err(|_| CallError::Closed)?;
    let request = Request::builder().method(endpoint.method()).uri(path).header(header::HOST, "localhost");
    let request = match &form {
        Some(_) => request.header(header::CONTENT_TYPE, "application/json"),
        None => request,
    };
    let request = request.body(Full::from(form.unwrap_or_default())).map_err(|error| strange(&error))?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|_| CallError::Closed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), HOST_ANSWER_MAX);
        let body = body.collect().await.map_err(|error| CallError::Strange(error.to_string()))?;
        Ok((status, body.to_bytes()))
    };
    // The connection does the work that the answer waits for; it ends by itself when the sender is gone.
    let (answer, _) = tokio::join!(answer, connection);
    let (status, body) = answer?;
    if status == StatusCode::OK {
        json::from_slice(&body, HOST_ANSWER_MAX, JSON_DEPTH_MAX).map_err(|error| strange(&error))
    } else {
        let refused = json::from_slice(&body, HOST_ANSWER_MAX, JSON_DEPTH_MAX);
        Err(refused.map_or_else(|_| CallError::Strange(format!("status {status}")), CallError::Refused))
    }
}

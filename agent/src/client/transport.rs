//! The seam between the protocol and the network: one request, one answer. One real implementation (`tls`), and
//! those of tests.

use std::future::Future;
use std::time::Duration;

use thiserror::Error;

use super::proxy::ProxyError;

/// A request as it goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// Value of `X-Lucia-Node-Proof`.
    pub proof: Option<String>,
    /// JSON body of a POST.
    pub body: Option<Vec<u8>>,
}

/// An answer, whoever gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Whether its type is JSON.
    pub json: bool,
    /// Value of `Lucia-Challenge`.
    pub next_challenge: Option<String>,
    /// Value of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// At most 64 KiB.
    pub body: Vec<u8>,
}

/// No answer came. Each text says what was tried; the cure is [`TransportError::cure`].
#[derive(Debug, Error)]
pub enum TransportError {
    /// No address of the controller took the connection.
    #[error("cannot connect to {0}")]
    Connect(String, #[source] std::io::Error),
    /// Whoever answers there is not the controller by its certificate.
    #[error("{to} does not prove to be {name}")]
    Stranger {
        /// Host and port.
        to: String,
        /// The name it must have.
        name: String,
        /// What is wrong with its certificate.
        #[source]
        source: std::io::Error,
    },
    /// The certificate is right but not now: a wrong clock here, or an expired controller.
    #[error("the controller's certificate is not valid at the time of this machine's clock")]
    Clock(#[source] std::io::Error),
    /// The proxy in between gave no way.
    #[error("the proxy {0} gives no way to the controller")]
    Proxy(String, #[source] ProxyError),
    /// The connection ended or the answer was cut.
    #[error("the connection to the controller ended before the answer was whole")]
    Cut(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No whole answer in time.
    #[error("no whole answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// An answer longer than any of ours.
    #[error("an answer of over 64 KiB, which the controller never gives")]
    TooLarge,
}

impl TransportError {
    /// What cures it, in one line.
    #[must_use]
    pub const fn cure(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "check that the controller runs and this machine reaches it; it is tried again",
            Self::Stranger { .. } => {
                "check controller-url, controller-name and root-file in /etc/lucia/agent.toml, and who answers at that address; a proxy that opens TLS has to leave this connection closed"
            }
            Self::Proxy(_, source) => source.cure(),
            Self::Clock { .. } => "set the clock (timedatectl); if it is right, the controller's certificate expired",
            Self::Cut(_) | Self::Timeout { .. } => "nothing; it is tried again",
            Self::TooLarge => "check for a proxy between this machine and the controller",
        }
    }
}

/// Sends one request over the one connection that is kept.
pub trait Transport {
    /// Waits for the whole answer, 15 s at most.
    fn send(&mut self, request: &Request) -> impl Future<Output = Result<Response, TransportError>>;
}

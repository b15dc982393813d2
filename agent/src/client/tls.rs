//! The one real transport: HTTP/1.1 over TLS, to whoever proves to be the controller by the pinned root.
//!
//! No redirect, no cookie, no resumption; one connection, kept, straight or through the one proxy of the settings. The
//! machine's own trust store has no say, and neither have `HTTPS_PROXY` and its like.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER};
use hyper_util::rt::TokioIo;
use lucia_daemon::reach::{Reach, Unreached};
use lucia_daemon::tls::{Failure, failure, trusting_for_http};
use lucia_proto::base::limits::ANSWER_MAX;
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_proto::node::report::PROOF_HEADER;
use lucia_proto::pki::chain;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::Config;
use super::proxy::{ProxyError, Stream, Way, authority};
use super::retry::retry_after;
use super::transport::{Request, Response, Transport, TransportError};
use crate::host::failed::{Failed, OrFailed as _};

/// To have a TCP connection and its TLS handshake, over all addresses.
const CONNECT: Duration = Duration::from_secs(10);
/// One try, from connecting to the last byte of the answer.
const TRY: Duration = Duration::from_secs(15);

const BAD_TLS: &str =
    "TLS cannot be set up with this root and name; check root-file and controller-name in /etc/lucia/agent.toml";

/// One kept connection to the controller.
pub struct TlsTransport {
    server: Server,
    /// To the controller, or to the proxy.
    reach: Reach,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// The controller, and the way to it.
#[derive(Clone)]
struct Server {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: TlsConnector,
    proxy: Option<Arc<Way>>,
}

/// TLS settings that believe `root` alone. Shared by all loops.
///
/// # Errors
/// When rustls refuses the root.
pub fn settings(root: &chain::Root) -> Result<Arc<ClientConfig>, Failed> {
    trusting_for_http(root).map(Arc::new).or_failed(BAD_TLS)
}

impl TlsTransport {
    /// A transport that has not connected yet.
    ///
    /// # Errors
    /// When the name is no TLS name, which no checked name is.
    pub fn new(config: &Config, tls: &Arc<ClientConfig>) -> Result<Self, Failed> {
        let name = ServerName::try_from(config.name.to_string()).or_failed(BAD_TLS)?;
        let proxy = config.proxy.as_ref().map(Way::new).transpose().or_failed(BAD_TLS)?.map(Arc::new);
        let tls = TlsConnector::from(Arc::clone(tls));
        Ok(Self::to(Server { host: config.host.clone(), port: config.port, name, tls, proxy }))
    }

    fn to(server: Server) -> Self {
        let (host, port) = server.proxy.as_ref().map_or((&server.host, server.port), |way| way.proxy.at());
        Self { reach: Reach::new(host, port), server, kept: None }
    }

    /// What makes one transport after the other, so that only the first can fail.
    ///
    /// # Errors
    /// As [`TlsTransport::new`].
    pub fn maker(config: &Config, tls: &Arc<ClientConfig>) -> Result<impl Fn() -> Self + use<>, Failed> {
        let Self { server, .. } = Self::new(config, tls)?;
        Ok(move || Self::to(server.clone()))
    }

    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>, TransportError> {
        let Self { server, reach, .. } = self;
        let connected = reach.connect(CONNECT, async |address, tcp| server.speak(address, tcp).await).await;
        connected.map_err(|failure| match failure {
            Unreached::Late => TransportError::Connect(server.to(), io::ErrorKind::TimedOut.into()),
            Unreached::Name(source) => server.unconnected(server.to(), source, ProxyError::Name),
            Unreached::Closed { address, source } => {
                server.unconnected(server.to_address(address), source, ProxyError::Connect)
            }
            Unreached::Unusable { error, .. } => error,
        })
    }
}

impl Server {
    fn to(&self) -> String {
        let way = self.proxy.as_ref().map(|way| format!(" through the proxy {}", way.proxy.url())).unwrap_or_default();
        format!("{} port {}{way}", self.host, self.port)
    }

    fn to_address(&self, address: SocketAddr) -> String {
        format!("{} ({address})", self.to())
    }

    /// Why there is no connection to whoever comes first on the way: the proxy, or the controller.
    fn unconnected(&self, to: String, source: io::Error, as_proxy: fn(io::Error) -> ProxyError) -> TransportError {
        match &self.proxy {
            Some(way) => TransportError::Proxy(way.proxy.url(), as_proxy(source)),
            None => TransportError::Connect(to, source),
        }
    }

    /// Asks a proxy for a tunnel, has the controller prove itself, and begins HTTP.
    async fn speak(&self, address: SocketAddr, tcp: TcpStream) -> Result<SendRequest<Full<Bytes>>, TransportError> {
        let stream: Box<dyn Stream> = match &self.proxy {
            None => Box::new(tcp),
            Some(way) => {
                let refused = |source| TransportError::Proxy(way.proxy.url(), source);
                way.tunnel(tcp, &authority(&self.host, self.port)).await.map_err(refused)?
            }
        };
        let tls = self.tls.connect(self.name.clone(), stream).await;
        let tls = tls.map_err(|source| self.tls_refused(self.to_address(address), source))?;
        // Boxed: so one kind of HTTP connection serves the tunnel's CONNECT as well.
        let tls: Box<dyn Stream> = Box::new(tls);
        let (sender, connection) =
            handshake(TokioIo::new(tls)).await.map_err(|error| TransportError::Cut(error.into()))?;
        // It ends with its sender, or with its peer; either is seen at the next send.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("connection: {}", crate::host::chain(&error));
            }
        });
        Ok(sender)
    }

    fn tls_refused(&self, to: String, source: io::Error) -> TransportError {
        match failure(&source) {
            Failure::Time => TransportError::Clock(source),
            Failure::Certificate => TransportError::Stranger { to, name: self.name.to_str().into_owned(), source },
            Failure::Protocol | Failure::Connection => TransportError::Connect(to, source),
        }
    }
}

impl TlsTransport {
    async fn exchange(&mut self, request: &Request) -> Result<Response, TransportError> {
        // A connection that its peer has ended meanwhile is seen here, before anything is sent over it.
        let mut kept = self.kept.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let message = self.message(request)?;
        let cut = |error: hyper::Error| TransportError::Cut(error.into());
        let answer = sender.send_request(message).await.map_err(cut)?;
        let (head, body) = answer.into_parts();
        let body = match Limited::new(body, ANSWER_MAX).collect().await {
            Ok(body) => body.to_bytes().to_vec(),
            Err(error) if error.is::<LengthLimitError>() => return Err(TransportError::TooLarge),
            Err(error) => return Err(TransportError::Cut(error)),
        };
        self.kept = Some(sender);
        Ok(Response {
            status: head.status.as_u16(),
            json: text(&head.headers, CONTENT_TYPE.as_str()).is_some_and(is_json),
            next_challenge: text(&head.headers, NEXT_CHALLENGE_HEADER).map(str::to_owned),
            retry_after: text(&head.headers, RETRY_AFTER.as_str()).and_then(retry_after),
            body,
        })
    }

    fn message(&self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, TransportError> {
        let host = self.server.name.to_str();
        let mut message = hyper::Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header(HOST, format!("{host}:{}", self.server.port))
            .header(ACCEPT, "application/json");
        if let Some(proof) = &request.proof {
            message = message.header(PROOF_HEADER, proof);
        }
        if request.body.is_some() {
            message = message.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(request.body.clone().unwrap_or_default()));
        message.body(body).map_err(|error| TransportError::Cut(error.into()))
    }
}

impl Transport for TlsTransport {
    async fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        match tokio::time::timeout(TRY, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::Timeout(TRY)),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests;

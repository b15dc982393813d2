//! The way through an HTTP proxy: one CONNECT, and then a tunnel that the proxy cannot look into.
//!
//! A proxy is believed nothing but that it passes bytes on. Inside the tunnel the controller proves itself by the
//! pinned root and its exact name as on the direct way; the CA of an `https://` proxy counts for the proxy alone. The
//! agent has no password for a proxy: one that asks for it is told apart (407), with the cure.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::Builder;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use lucia_daemon::tls::{Failure, failure, trusting_these};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::host::failed::Failed;

/// Longest head of an answer to CONNECT.
const HEAD_MAX: usize = 8 * 1024;
/// Header lines of it at most.
const LINES_MAX: usize = 63;
/// Certificates of one CA file at most.
const CERTIFICATES_MAX: usize = 16;

/// A proxy, as the settings name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Host name or address to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// The CA that vouches for it, where it is spoken to over TLS.
    pub ca: Option<ProxyCa>,
}

/// The CA of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyCa {
    /// Where it lies.
    pub file: PathBuf,
    /// What is in it, once it was read.
    pub pem: String,
}

impl Proxy {
    /// Where to connect to.
    pub(super) const fn at(&self) -> (&String, u16) {
        (&self.host, self.port)
    }

    /// As the settings have it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", authority(&self.host, self.port))
    }
}

/// `host:port`, an IPv6 address in brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The file of a proxy's CA has no usable certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("1 to 16 certificates in PEM")]
pub struct BadCa;

/// Why a proxy gave no way to the controller.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// Its name has no address.
    #[error("its name is not found")]
    Name(#[source] io::Error),
    /// Nothing listens there, or it cannot be reached.
    #[error("it takes no connection")]
    Connect(#[source] io::Error),
    /// Whoever answers there is not the proxy by its certificate.
    #[error("it does not prove to be {name} by its ca-file")]
    Stranger {
        /// The name in its url.
        name: String,
        /// What is wrong with its certificate.
        #[source]
        source: io::Error,
    },
    /// The certificate is right but not now: a wrong clock here, or an expired proxy.
    #[error("its certificate is not valid at the time of this machine's clock")]
    Clock(#[source] io::Error),
    /// It speaks no TLS, or none that the agent speaks, or wants a certificate of the agent's.
    #[error("there is no TLS with it")]
    Tls(#[source] io::Error),
    /// The connection broke.
    #[error("the connection to it broke")]
    Cut(#[source] io::Error),
    /// It went away without an answer.
    #[error("it ended the connection before its answer was whole")]
    Closed,
    /// It said no.
    #[error("it answered CONNECT with {0}")]
    Refused(u16),
    /// It said something that is no answer to CONNECT.
    #[error("what it answered is no answer to CONNECT: {0}")]
    Strange(BadHead),
}

/// What is wrong with an answer to CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadHead {
    /// Longer than the agent reads.
    #[error("its head is over 8 KiB, or over 64 lines")]
    TooLong,
    /// Something else.
    #[error("it is not HTTP/1")]
    NotHttp,
    /// Something follows the head, where the first word is the agent's.
    #[error("bytes before the tunnel")]
    BytesAfter,
}

impl ProxyError {
    /// What cures it, in one line.
    #[must_use]
    pub const fn cure(&self) -> &'static str {
        match self {
            Self::Name(_) => "check the url of [proxy] in /etc/lucia/agent.toml and the name server; it is tried again",
            Self::Connect(_) => {
                "check that the proxy runs at the url of [proxy] in /etc/lucia/agent.toml; it is tried again"
            }
            Self::Stranger { .. } => "check url and ca-file of [proxy] in /etc/lucia/agent.toml, and who answers there",
            Self::Clock(_) => {
                "set this machine's clock (timedatectl); if it is right, the proxy needs a new certificate: its own has ended"
            }
            Self::Tls(_) => {
                "see that the proxy speaks TLS 1.2 or 1.3 at that port and asks for no certificate of this machine; one that speaks plain HTTP there has an http:// url in [proxy] of /etc/lucia/agent.toml, and no ca-file"
            }
            Self::Cut(_) => {
                "check the network between this machine and the proxy: the connection broke; the agent tries again"
            }
            Self::Closed => "look at the proxy's log; the agent tries again",
            Self::Refused(407) => "let the proxy admit this machine by its address: the agent has no password for it",
            Self::Refused(403 | 405) => {
                "let the proxy allow CONNECT to the controller's host and port (squid: an http_access rule for that port)"
            }
            Self::Refused(502..=504) => {
                "check controller-url as the proxy sees it: it finds no way there; it is tried again"
            }
            Self::Refused { .. } => "look at the proxy's log for why it refuses CONNECT; it is tried again",
            Self::Strange(_) => "check that an HTTP proxy answers at the url of [proxy] in /etc/lucia/agent.toml",
        }
    }
}

/// What TLS to the controller may run over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A proxy with all that is needed to go through it.
pub(super) struct Way {
    pub(super) proxy: Proxy,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// The certificates in a CA file.
pub(super) fn certificates(pem: &str) -> Result<RootCertStore, BadCa> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).take(CERTIFICATES_MAX + 1) {
        certificate.map_err(|_| BadCa).and_then(|der| roots.add(der).map_err(|_| BadCa))?;
    }
    if roots.is_empty() || roots.len() > CERTIFICATES_MAX { Err(BadCa) } else { Ok(roots) }
}

impl Way {
    /// # Errors
    /// A CA or a name that TLS does not take; checked settings have none such.
    pub(super) fn new(proxy: &Proxy) -> Result<Self, Failed> {
        let tls = match &proxy.ca {
            None => None,
            Some(ca) => {
                let mut config = trusting_these(certificates(&ca.pem)?)?;
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some((TlsConnector::from(Arc::new(config)), ServerName::try_from(proxy.host.clone())?))
            }
        };
        Ok(Self { proxy: proxy.clone(), tls })
    }

    /// Asks the proxy behind `tcp` for a tunnel to `to`. The caller limits the time.
    pub(super) async fn tunnel(&self, tcp: TcpStream, to: &str) -> Result<Box<dyn Stream>, ProxyError> {
        let name = &self.proxy.host;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some((tls, server)) => {
                let connected = tls.connect(server.clone(), tcp).await;
                Box::new(connected.map_err(|error| broke(failure(&error), error.kind(), error, name))?)
            }
        };
        ask(stream, to, name).await
    }
}

/// Why a connection to a proxy broke, over TLS or not.
fn broke(why: Failure, kind: io::ErrorKind, source: io::Error, name: &str) -> ProxyError {
    match why {
        Failure::Certificate => ProxyError::Stranger { name: name.to_owned(), source },
        Failure::Time => ProxyError::Clock(source),
        Failure::Protocol => ProxyError::Tls(source),
        // Over TLS: ended without a farewell.
        Failure::Connection if kind == io::ErrorKind::UnexpectedEof => ProxyError::Closed,
        Failure::Connection => ProxyError::Cut(source),
    }
}

fn refused(error: hyper::Error, name: &str) -> ProxyError {
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(io) => broke(failure(io), io.kind(), io::Error::other(error), name),
        None if error.is_parse_too_large() => ProxyError::Strange(BadHead::TooLong),
        // Without a cause: it went away. With one it spoke before it was asked.
        None if !error.is_parse() && error.source().is_none() => ProxyError::Closed,
        None => ProxyError::Strange(BadHead::NotHttp),
    }
}

/// One CONNECT. In the tunnel the first word is ours, so what the proxy sends ahead of it comes from nobody we asked.
async fn ask(stream: Box<dyn Stream>, to: &str, name: &str) -> Result<Box<dyn Stream>, ProxyError> {
    let request = Request::connect(to).header(HOST, to).body(Full::<Bytes>::default());
    let request = request.map_err(|error| ProxyError::Cut(io::Error::other(error)))?;
    let refused = |error| refused(error, name);
    let mut how = Builder::new();
    how.max_headers(LINES_MAX).max_buf_size(HEAD_MAX).title_case_headers(true);
    let connected = how.handshake(TokioIo::new(stream)).await;
    let (mut sender, mut connection) = connected.map_err(refused)?;
    let mut answer = pin!(sender.send_request(request));
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        // It is over once the tunnel is open, or nothing more can come; either is told by the answer.
        _ = poll_fn(|context| connection.poll_without_shutdown(context)) => answer.await,
    };
    match answer.map_err(refused)?.status() {
        StatusCode::OK => {}
        status => return Err(ProxyError::Refused(status.as_u16())),
    }
    let parts = connection.into_parts();
    if parts.read_buf.is_empty() { Ok(parts.io.into_inner()) } else { Err(ProxyError::Strange(BadHead::BytesAfter)) }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What a test tells refusals apart by.
    #[derive(Debug, PartialEq)]
    enum Refusal {
        Status(u16),
        Head(BadHead),
        Closed,
    }

    impl Refusal {
        fn of(error: &ProxyError) -> Self {
            match error {
                ProxyError::Refused(status) => Self::Status(*status),
                ProxyError::Strange(head) => Self::Head(*head),
                ProxyError::Closed => Self::Closed,
                error => panic!("{error:?}"),
            }
        }
    }

    /// What becomes of an answer that comes in pieces of `size`.
    fn answered(answer: &[u8], size: usize) -> Result<(), Refusal> {
        let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
        rt.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
            let pieces = async {
                let mut asked = [0; 256];
                let count = theirs.read(&mut asked).await.unwrap_or(0);
                for piece in answer.chunks(size) {
                    if theirs.write_all(piece).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                drop(theirs);
                String::from_utf8_lossy(&asked[..count]).into_owned()
            };
            // Whoever is told nothing more goes away.
            let (asked, result) =
                tokio::join!(pieces, async { ask(Box::new(ours), "c.example:8443", "p").await.map(drop) });
            assert_eq!(asked, "CONNECT c.example:8443 HTTP/1.1\r\nHost: c.example:8443\r\n\r\n");
            result.map_err(|error| Refusal::of(&error))
        })
    }

    // spec: AG-81
    #[test]
    fn only_a_plain_200_and_nothing_behind_it_opens_the_tunnel() {
        for answer in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200\r\n\r\n",
            "HTTP/1.1 200 OK\r\nVia: 1.1 proxy\r\nContent-Length: 0\r\nX:\r\n\r\n",
        ] {
            for size in [1, 7, 4096] {
                assert_eq!(answered(answer.as_bytes(), size), Ok(()), "{answer:?}");
            }
        }
        use BadHead::{BytesAfter, NotHttp};
        use Refusal::{Closed, Head, Status};
        for (answer, why) in [
            ("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno", Status(407)),
            ("HTTP/1.1 403 Forbidden\r\n\r\n<html>", Status(403)),
            ("HTTP/1.1 204 No Content\r\n\r\n", Status(204)),
            ("HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\n\r\n", Status(302)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\n", Status(403)),
            ("HTTP/1.1 103 Early Hints\r\n\r\n", Closed),
            ("HTTP/1.1 200 OK\r\n\r\n\u{16}\u{3}\u{3}", Head(BytesAfter)),
            ("HTTP/1.1 200 OK\r\n\r\n\r\n", Head(BytesAfter)),
            ("HTTP/2 200\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 2000\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 +20\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1  200 OK\r\n\r\n", Head(NotHttp)),
            ("SSH-2.0-OpenSSH_9.9\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n folded: x\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\nA: \u{1b}[31m\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\rA: b\r\n\r\n", Head(NotHttp)),
            ("HTTP/1.1 200 OK\r\n", Closed),
            ("", Closed),
        ] {
            // In one piece: what stands behind the head is seen with it.
            assert_eq!(answered(answer.as_bytes(), 4096), Err(why), "{answer:?}");
        }
    }

    // spec: AG-81
    #[tokio::test]
    async fn who_speaks_first_is_no_proxy() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.unwrap();
        let refused = ask(Box::new(ours), "c.example:8443", "p").await.map(drop);
        assert_eq!(Refusal::of(&refused.unwrap_err()), Refusal::Head(BadHead::NotHttp));
    }

    // spec: AG-81
    #[test]
    fn an_endless_head_ends_at_eight_kilobytes() {
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "X: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(2000));
        assert_eq!(answered(endless.as_bytes(), 1000), Err(Refusal::Head(BadHead::TooLong)));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: a\r\n".repeat(64));
        assert_eq!(answered(many.as_bytes(), 4096), Err(Refusal::Head(BadHead::TooLong)));
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: a\r\n".repeat(63));
        assert_eq!(answered(most.as_bytes(), 4096), Ok(()));
    }

    // spec: AG-81
    #[test]
    fn no_changed_byte_opens_a_tunnel_that_was_refused_or_panics() {
        let answer = b"HTTP/1.1 200 OK\r\nVia: 1.1 p\r\n\r\n".to_vec();
        for at in 0..answer.len() {
            for byte in 0..=u8::MAX {
                let mut changed = answer.clone();
                changed[at] = byte;
                let is_200 = changed.starts_with(b"HTTP/1.1 200") || changed.starts_with(b"HTTP/1.0 200");
                assert!(is_200 || answered(&changed, 4096).is_err(), "{at} {byte}");
            }
            assert!(answered(&answer[..at], 4096).is_err(), "cut at {at}");
        }
    }

    // spec: AG-82
    #[test]
    fn every_failure_has_its_own_cure() {
        let io = || io::Error::from(io::ErrorKind::Other);
        let mut cures = std::collections::BTreeSet::new();
        // A variant that is new has no place here and does not build; a place that no case fills is found below.
        let place = |error: &ProxyError| match error {
            ProxyError::Name(_) => 0,
            ProxyError::Connect(_) => 1,
            ProxyError::Stranger { .. } => 2,
            ProxyError::Clock(_) => 3,
            ProxyError::Tls(_) => 4,
            ProxyError::Cut(_) => 5,
            ProxyError::Closed => 6,
            ProxyError::Refused { .. } => 7,
            ProxyError::Strange(_) => 8,
        };
        let mut places = std::collections::BTreeSet::new();
        // Beside each the setting or command that its cure names; where there is none, what cures it is elsewhere.
        for (error, word) in [
            (ProxyError::Name(io()), "/etc/lucia/agent.toml"),
            (ProxyError::Connect(io()), "/etc/lucia/agent.toml"),
            (ProxyError::Stranger { name: "p".to_owned(), source: io() }, "ca-file"),
            (ProxyError::Clock(io()), "timedatectl"),
            (ProxyError::Tls(io()), "http://"),
            (ProxyError::Cut(io()), ""),
            (ProxyError::Closed, ""),
            (ProxyError::Refused(407), ""),
            (ProxyError::Refused(403), "CONNECT"),
            (ProxyError::Refused(502), "controller-url"),
            (ProxyError::Refused(500), "CONNECT"),
            (ProxyError::Strange(BadHead::NotHttp), "/etc/lucia/agent.toml"),
        ] {
            places.insert(place(&error));
            let cure = error.cure();
            assert!(!cure.is_empty() && cure.contains(word) && cures.insert(cure), "{error}: {cure}");
        }
        assert_eq!(places, (0..9).collect());
    }
}

//! The hostile controller on a port: TLS with the endpoint's own key, a real controller behind it, and a trick between.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::{Deed, Moment, Reply, Tape, Trick};
use crate::sim::{Failure, Target};

/// A running one; it ends with the runtime.
#[derive(Clone)]
pub struct Hostile {
    /// Where it listens.
    pub address: SocketAddr,
    mind: Arc<Mutex<Mind>>,
}

#[derive(Default)]
struct Mind {
    tape: Tape,
    trick: Option<Trick>,
    now: Option<UnixTime>,
    twisted: usize,
}

impl Hostile {
    fn mind(&self) -> MutexGuard<'_, Mind> {
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it does this, at this time; honest without one.
    pub fn play(&self, trick: Option<Trick>, now: UnixTime) {
        let mut mind = self.mind();
        (mind.trick, mind.now, mind.twisted) = (trick, Some(now), 0);
    }

    /// Calls since the last [`play`](Self::play).
    #[must_use]
    pub fn calls(&self) -> usize {
        self.mind().twisted
    }
}

/// Listens on a port of loopback's with this certificate and key, in front of the controller at `behind`.
///
/// # Errors
/// When certificate or key cannot be read, or no port is free.
pub async fn serve(certificate_pem: &str, key_pem: &str, behind: Target) -> Result<Hostile, Failure> {
    let acceptor = acceptor(certificate_pem, key_pem)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let hostile = Hostile { address: listener.local_addr()?, mind: Arc::default() };
    let shared = hostile.clone();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (acceptor, hostile, behind) = (acceptor.clone(), shared.clone(), behind.clone());
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let service =
                    hyper::service::service_fn(move |request| answer(hostile.clone(), behind.clone(), request));
                // A connection that was cut is what was wanted.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
            });
        }
    });
    Ok(hostile)
}

/// TLS with this certificate and key.
pub(super) fn acceptor(certificate_pem: &str, key_pem: &str) -> Result<TlsAcceptor, Failure> {
    let chain = CertificateDer::pem_slice_iter(certificate_pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(hostile: Hostile, behind: Target, request: Request<Incoming>) -> Result<Response<Said>, Infallible> {
    let called = called(&request);
    let Ok(honest) = forward(&behind, request).await else {
        let mut down = Response::new(Said::default());
        *down.status_mut() = hyper::StatusCode::BAD_GATEWAY;
        return Ok(down);
    };
    let deed = match called {
        Some((call, node)) => twist(&mut hostile.mind(), call, &node, honest),
        None => Deed::Say(honest),
    };
    Ok(match deed {
        Deed::Say(reply) => reply.map(|body| Said { length: body.len(), data: Some(body), cut: false }),
        Deed::Cut(reply, at) => reply.map(|body| {
            let whole = body.len();
            Said { length: whole.max(at + 1), data: Some(body.slice(..at.min(whole))), cut: true }
        }),
        Deed::Withhold => std::future::pending().await,
    })
}

fn twist(mind: &mut Mind, call: Endpoint, node: &NodeId, honest: Reply) -> Deed {
    let Mind { tape, trick, now, twisted } = mind;
    *twisted += 1;
    let deed = match (trick, *now) {
        (Some(trick), Some(now)) => trick.twist(Moment { call, node, honest: honest.clone(), tape, now }),
        _ => Deed::Say(honest.clone()),
    };
    tape.record(call, node, &honest);
    deed
}

/// Which call of which node it is. Without an id in its path it is nobody's.
pub(super) fn called(request: &Request<Incoming>) -> Option<(Endpoint, NodeId)> {
    let path = request.uri().path();
    let node: NodeId = path.split('/').find_map(|part| part.parse().ok())?;
    let call =
        Endpoint::ALL.iter().find(|call| call.method() == request.method().as_str() && call.path_for(&node) == path)?;
    Some((*call, node))
}

async fn forward(behind: &Target, request: Request<Incoming>) -> Result<Reply, Failure> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut sender = behind.connect().await?;
    let (head, body) = sender.send_request(Request::from_parts(head, Full::new(body))).await?.into_parts();
    let mut reply = Response::from_parts(head, body.collect().await?.to_bytes());
    // Length and connection are hyper's to say again.
    for name in ["content-length", "connection", "transfer-encoding"] {
        reply.headers_mut().remove(name);
    }
    Ok(reply)
}

/// A body that may end before its length.
#[derive(Default)]
struct Said {
    data: Option<Bytes>,
    length: usize,
    cut: bool,
}

impl Body for Said {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.data.take() {
            Some(data) if !data.is_empty() => Poll::Ready(Some(Ok(Frame::data(data)))),
            _ if self.cut => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        !self.cut && self.data.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.length).unwrap_or(u64::MAX))
    }
}

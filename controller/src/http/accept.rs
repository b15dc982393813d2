//! The TLS listener: our own accept loop, because bare hyper waits for ever (threats.md, decision 2).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::head::HEAD_MAX;
use super::memory::{SOCKET_IN, SOCKET_OUT, TLS_OUT};
use super::pace::{Ended, LINGER, Pace, Paced, RequestWait, Watch};
use super::site::{Edge, Peer, stopped};

/// Header lines of a request at most.
const HEADERS_MAX: usize = 64;
/// Connections that wait to be accepted at most.
const BACKLOG: u32 = 1024;
/// Pause after the system could not give a connection (no file descriptors): without it the loop would spin.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Listens for devices and nodes. What the system keeps of each connection is bounded as well: it counts as the
/// controller's own.
///
/// # Errors
/// The address is taken, or not one of this machine.
pub fn bind_tls(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_recv_buffer_size(SOCKET_IN)?;
    socket.set_send_buffer_size(SOCKET_OUT)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves devices and nodes until the edge's stop signal, then until every call in progress is answered or the time
/// to drain is over.
pub async fn serve_tls(listener: TcpListener, tls: Arc<rustls::ServerConfig>, edge: Edge) {
    let acceptor = TlsAcceptor::from(tls);
    let mut stop = edge.shared.stop.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let source = address.ip();
                    // Turned away before the handshake: a place is cheaper than a public-key operation.
                    let Some(permit) = edge.shared.gate.enter(source, Instant::now()) else { continue };
                    let peer = Peer::Network(Arc::new(permit), source);
                    let (acceptor, edge) = (acceptor.clone(), edge.clone());
                    connections.spawn(async move {
                        let _ = stream.set_nodelay(true);
                        match timeout(edge.shared.timeouts.handshake, acceptor.accept_with(stream, bounded)).await {
                            Ok(Ok(stream)) => connection(stream, edge, peer).await,
                            Ok(Err(error)) => ended(source, &error.to_string()),
                            Err(_) => ended(source, "no TLS handshake in time"),
                        }
                    });
                }
                Err(error) => accept_failed(&error).await,
            },
        }
    }
    drop(listener);
    drain(connections, &edge).await;
}

/// Waits for what is still being answered, for the time to drain at most.
pub(super) async fn drain(mut connections: JoinSet<()>, edge: &Edge) {
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(edge.shared.timeouts.drain, all).await.is_err() {
        tracing::warn!("connections were cut: their calls did not end in time");
    }
}

/// The system could not give us a connection; the listener itself is fine.
pub(super) async fn accept_failed(error: &io::Error) {
    tracing::warn!("cannot accept a connection: {error}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Keeps what waits to be written, encrypted, to what [`super::memory`] reckons with.
fn bounded(tls: &mut rustls::ServerConnection) {
    tls.set_buffer_limit(Some(TLS_OUT));
}

/// A connection that never became a request: below the level of refusals, since every port scan makes some.
fn ended(from: IpAddr, reason: &str) {
    tracing::debug!(%from, "connection ended: {}", lucia_proto::base::text::shown(reason));
}

/// Serves one connection that somebody else accepted from `source`, if there is a place for it: how whole stories reach
/// the edge without a network.
pub async fn serve_stream<S>(stream: S, source: IpAddr, edge: Edge)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Some(permit) = edge.shared.gate.enter(source, Instant::now()) {
        connection(stream, edge, Peer::Network(Arc::new(permit), source)).await;
    }
}

/// Serves one connection to its end.
pub(super) async fn connection<S>(stream: S, edge: Edge, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Pace::new(edge.shared.timeouts);
    let mut stop = edge.shared.stop.clone();
    let from = match &peer {
        Peer::Network(_, address) => *address,
        Peer::Operator(_) | Peer::Observer => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    };
    let mut builder = hyper::server::conn::http1::Builder::new();
    // The stream keeps the deadlines (see `pace`).
    builder.half_close(false).header_read_timeout(None).max_headers(HEADERS_MAX).max_buf_size(HEAD_MAX);
    let service = service_fn(|request: Request<Incoming>| {
        let (edge, peer, pace) = (edge.clone(), peer.clone(), Arc::clone(&pace));
        async move { Ok::<_, std::convert::Infallible>(edge.answer(peer, &pace, request).await) }
    });
    let alarm = pin!(sleep_until(Instant::now()));
    let stopped = pin!(stopped(&mut stop));
    let mut watch = Watch::new(&pace, alarm, stopped);
    let mut stream = Paced::new(stream, Arc::clone(&pace));
    loop {
        match watch.begun(&mut stream).await {
            RequestWait::Yes => {}
            RequestWait::Closed => return,
            RequestWait::TooSlow => return ended(from, "too slow"),
            RequestWait::Stopping => {
                // The other side learns that no answer was lost; it has a moment for it and no more.
                let _ = timeout(LINGER, stream.shutdown()).await;
                return;
            }
        }
        let ended_how = watch.drive(builder.serve_connection(TokioIo::new(stream), &service)).await;
        if let Some(code) = pace.refused() {
            edge.refused_unread(code, &peer);
        }
        match ended_how {
            Ended::Answered(again) => stream = again,
            Ended::Closed => return,
            Ended::Broken(error) => return ended(from, &error.to_string()),
            Ended::TooSlow => return ended(from, "too slow"),
        }
    }
}

//! The real transport against real TLS on loopback: who is believed, what is read, when a connection is kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

mod proxy;

const NAME: &str = "controller.test";

struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2090, 1, 1);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn root(&self) -> chain::Root {
        let certificate: &rcgen::Certificate = self.0.as_ref();
        chain::Root::from_pem(&certificate.pem().replace("\r\n", "\n")).unwrap()
    }

    /// A server's settings with a certificate of these names and years.
    fn server(&self, name: &str, (from, until): (i32, i32)) -> ServerConfig {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        self.serving(params, None)
    }

    /// One that asks its callers for a certificate.
    fn asking(&self, name: &str) -> ServerConfig {
        let certificate: &rcgen::Certificate = self.0.as_ref();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let asks = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        self.serving(CertificateParams::new(vec![name.to_owned()]).unwrap(), Some(asks))
    }

    fn serving(&self, params: CertificateParams, asks: Option<Arc<dyn ClientCertVerifier>>) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.signed_by(&key, &self.0).unwrap().der().clone()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12]).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = match asks {
            Some(asks) => config.with_client_cert_verifier(asks),
            None => config.with_no_client_auth(),
        };
        config.with_single_cert(chain, key).unwrap()
    }
}

const GOOD: (i32, i32) = (2020, 2090);

/// Answers every request with the same bytes; `each` requests a connection, then closes it.
async fn serve(config: ServerConfig, answer: Vec<u8>, each: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let (acceptor, count) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&connections));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(mut tls) = acceptor.accept(tcp).await else { return };
                let mut buf = [0; 4096];
                for _ in 0..each {
                    // Requests of these tests are one TLS record.
                    if tls.read(&mut buf).await.unwrap_or(0) == 0 || tls.write_all(&answer).await.is_err() {
                        return;
                    }
                    let _ = tls.flush().await;
                }
                let _ = tls.shutdown().await;
            });
        }
    });
    (port, connections)
}

fn http(head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn transport(root: &chain::Root, port: u16) -> TlsTransport {
    through(root, port, None)
}

fn through(root: &chain::Root, port: u16, proxy: Option<super::super::proxy::Proxy>) -> TlsTransport {
    let name = NAME.parse().unwrap();
    let config = Config { host: "127.0.0.1".into(), port, name, root_file: "/etc/lucia/root.pem".into(), proxy };
    TlsTransport::new(&config, &settings(root).unwrap()).unwrap()
}

fn get() -> Request {
    Request { method: "GET", path: "/api/x".into(), proof: None, body: None }
}

// spec: AG-26
#[tokio::test]
async fn only_the_pinned_root_and_the_exact_name_are_believed() {
    let (ours, other) = (Ca::new(), Ca::new());
    let answer = http("200 OK\r\ncontent-type: application/json", "{}");
    for (what, server) in [
        ("another root", other.server(NAME, GOOD)),
        ("another name", ours.server("controller.test.evil", GOOD)),
        ("a name below", ours.server("x.controller.test", GOOD)),
        ("a wildcard above", ours.server("*.test.x", GOOD)),
    ] {
        let (port, _) = serve(server, answer.clone(), 1).await;
        let refused = transport(&ours.root(), port).send(&get()).await;
        assert!(matches!(refused, Err(TransportError::Stranger { .. })), "{what}: {refused:?}");
    }
    for years in [(2020, 2021), (2080, 2090)] {
        let (port, _) = serve(ours.server(NAME, years), answer.clone(), 1).await;
        let refused = transport(&ours.root(), port).send(&get()).await;
        assert!(matches!(refused, Err(TransportError::Clock { .. })), "{years:?}: {refused:?}");
    }
    let (port, _) = serve(ours.server(NAME, GOOD), answer, 1).await;
    assert_eq!(transport(&ours.root(), port).send(&get()).await.unwrap().status, 200);
}

// spec: AG-27
#[tokio::test]
async fn one_connection_is_kept_and_made_anew_when_its_peer_has_ended_it() {
    let ca = Ca::new();
    let answer =
        http("200 OK\r\ncontent-type: application/json; charset=utf-8\r\nlucia-challenge: abc\r\nretry-after: 7", "{}");
    let (port, connections) = serve(ca.server(NAME, GOOD), answer, 3).await;
    let mut transport = transport(&ca.root(), port);
    let post = Request { method: "POST", body: Some(b"{}".to_vec()), ..get() };
    for sent in 1..=7 {
        let get = get();
        let response = transport.send(if sent % 2 == 0 { &post } else { &get }).await.unwrap();
        assert!(response.json && response.next_challenge.as_deref() == Some("abc"));
        assert_eq!(response.retry_after, Some(Duration::from_secs(7)));
        if sent % 3 == 0 {
            // The peer ends the connection now; wait until that has arrived.
            let mut kept = transport.kept.take().unwrap();
            let ended = async {
                while kept.ready().await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the peer ends the connection");
            transport.kept = Some(kept);
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

// spec: AG-28
#[tokio::test]
async fn answers_are_capped_and_redirects_are_not_followed() {
    let ca = Ca::new();
    let body = "x".repeat(ANSWER_MAX);
    let (port, _) = serve(ca.server(NAME, GOOD), http("200 OK", &body), 1).await;
    assert_eq!(transport(&ca.root(), port).send(&get()).await.unwrap().body.len(), ANSWER_MAX);
    let (port, _) = serve(ca.server(NAME, GOOD), http("200 OK", &format!("{body}x")), 1).await;
    let refused = transport(&ca.root(), port).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::TooLarge)), "{refused:?}");
    let (port, connections) = serve(ca.server(NAME, GOOD), http("302 Found\r\nlocation: /y", ""), 9).await;
    let response = transport(&ca.root(), port).send(&get()).await.unwrap();
    assert_eq!((response.status, response.json, connections.load(Ordering::SeqCst)), (302, false, 1));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec();
    let (port, _) = serve(ca.server(NAME, GOOD), cut, 1).await;
    let refused = transport(&ca.root(), port).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::Cut(_))), "{refused:?}");
}

#[tokio::test]
async fn nobody_there_is_told_from_a_stranger() {
    let ca = Ca::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = transport(&ca.root(), port).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::Connect { .. })), "{refused:?}");
}

// spec: AG-13
#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_left_after_ten_seconds() {
    let ca = Ca::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let begun = tokio::time::Instant::now();
    let refused = transport(&ca.root(), port).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::Connect { .. })), "{refused:?}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

/// An address whose packets are dropped: its queue is full, and nobody takes anything out of it.
async fn silent() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    (address, queued, listener)
}

// spec: AG-322
#[tokio::test]
async fn a_controller_that_moved_from_an_address_that_drops_packets_is_found() {
    let ca = Ca::new();
    let (port, _) = serve(ca.server(NAME, GOOD), http("200 OK\r\ncontent-type: application/json", "{}"), 1).await;
    let (old, _queued, _listener) = silent().await;
    let mut transport = transport(&ca.root(), port);
    transport.reach = transport.reach.after(old);
    assert_eq!(transport.send(&get()).await.unwrap().status, 200);
}

//! Through a proxy on loopback, plain and over TLS, that does what a test tells it.

use std::sync::Mutex;

use super::super::super::config::{Config, Trust};
use super::super::super::proxy::{BadHead, Proxy, ProxyCa};
use super::*;

/// What the proxy does with a CONNECT.
#[derive(Clone)]
enum Does {
    /// Passes bytes on to this port.
    Tunnels(u16),
    /// Says this, and waits for the other side to go.
    Says(Vec<u8>),
    /// Says this, and goes.
    SaysAndGoes(&'static str),
    /// Begins an answer and never ends it.
    NeverEnds,
    /// Says nothing.
    Waits,
}

/// A proxy; gives its port and what it was asked.
async fn proxy(tls: Option<ServerConfig>, does: Does) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (acceptor, seen) = (tls.map(|tls| TlsAcceptor::from(Arc::new(tls))), Arc::clone(&asked));
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (acceptor, does, seen) = (acceptor.clone(), does.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                match acceptor {
                    None => serve_one(tcp, does, &seen).await,
                    Some(acceptor) => {
                        if let Ok(tls) = acceptor.accept(tcp).await {
                            serve_one(tls, does, &seen).await;
                        }
                    }
                }
            });
        }
    });
    (port, asked)
}

async fn serve_one<S>(mut stream: S, does: Does, seen: &Mutex<Vec<String>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
    let mut rest = Vec::new();
    match does {
        Does::Tunnels(port) => {
            let mut onward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n").await.unwrap();
            stream.flush().await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut onward).await;
        }
        Does::Says(text) => {
            let _ = stream.write_all(&text).await;
            let _ = stream.flush().await;
            let _ = stream.read_to_end(&mut rest).await;
        }
        Does::SaysAndGoes(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Does::NeverEnds => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
            while stream.write_all(b"X-More: and more\r\n").await.is_ok() {
                let _ = stream.flush().await;
            }
        }
        Does::Waits => {
            let _ = stream.read_to_end(&mut rest).await;
        }
    }
}

fn at(port: u16, ca: Option<&Ca>) -> Proxy {
    let ca = ca.map(|ca| {
        let certificate: &rcgen::Certificate = ca.0.as_ref();
        ProxyCa { file: "/etc/lucia/proxy-ca.pem".into(), pem: certificate.pem() }
    });
    Proxy { host: "127.0.0.1".into(), port, ca }
}

/// What came of a call through the proxy at `port`: its own failure, told as this proxy's and with a cure.
#[track_caller]
fn of_proxy(refused: Result<Response, TransportError>, port: u16) -> ProxyError {
    let error = refused.unwrap_err();
    let cure = error.cure();
    let TransportError::Proxy(proxy, source) = error else { panic!("{error:?}") };
    assert!(proxy.ends_with(&format!("127.0.0.1:{port}")), "{proxy}");
    assert!(!cure.is_empty(), "{source:?}");
    source
}

// spec: AG-83
#[tokio::test]
async fn through_a_proxy_the_controller_proves_itself_as_ever() {
    let (ours, proxys, other) = (Ca::new(), Ca::new(), Ca::new());
    let answer = http("200 OK\r\ncontent-type: application/json", "{}");
    let (good, connections) = serve(ours.server(NAME, GOOD), answer.clone(), 9).await;
    let (stranger, _) = serve(other.server(NAME, GOOD), answer.clone(), 1).await;
    // The proxy's own CA vouches for the proxy alone, whatever name the certificate has.
    let (lookalike, _) = serve(proxys.server(NAME, GOOD), answer, 1).await;
    for tls in [false, true] {
        let server = || tls.then(|| proxys.server("127.0.0.1", GOOD));
        let ca = tls.then_some(&proxys);
        let (port, asked) = proxy(server(), Does::Tunnels(good)).await;
        let before = connections.load(Ordering::SeqCst);
        let mut transport = through(&ours.root(), 8443, Some(at(port, ca)));
        for _ in 0..3 {
            assert_eq!(transport.send(&get()).await.unwrap().status, 200, "tls {tls}");
        }
        // One tunnel, kept; the proxy learns host and port and nothing else.
        assert_eq!(connections.load(Ordering::SeqCst), before + 1);
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked, ["CONNECT 127.0.0.1:8443 HTTP/1.1\r\nHost: 127.0.0.1:8443\r\n\r\n"]);
        for impostor in [stranger, lookalike] {
            let (port, _) = proxy(server(), Does::Tunnels(impostor)).await;
            let refused = through(&ours.root(), 8443, Some(at(port, ca))).send(&get()).await;
            assert!(matches!(refused, Err(TransportError::Stranger { .. })), "tls {tls}: {refused:?}");
        }
    }
}

// spec: AG-84
#[tokio::test]
async fn a_proxy_over_tls_proves_itself_by_its_own_ca() {
    let (ours, theirs) = (Ca::new(), Ca::new());
    let (good, _) = serve(ours.server(NAME, GOOD), http("200 OK", ""), 1).await;
    for (what, server, is_clock) in [
        ("another CA", Ca::new().server("127.0.0.1", GOOD), false),
        ("another name", theirs.server("proxy.example", GOOD), false),
        ("the fleet's own root is not the proxy's CA", ours.server("127.0.0.1", GOOD), false),
        ("over", theirs.server("127.0.0.1", (2020, 2021)), true),
        ("not yet", theirs.server("127.0.0.1", (2080, 2090)), true),
    ] {
        let (port, asked) = proxy(Some(server), Does::Tunnels(good)).await;
        let refused = through(&ours.root(), 8443, Some(at(port, Some(&theirs)))).send(&get()).await;
        match of_proxy(refused, port) {
            ProxyError::Clock(_) => assert!(is_clock, "{what}"),
            ProxyError::Stranger { name, .. } => assert!(!is_clock && name == "127.0.0.1", "{what}"),
            error => panic!("{what}: {error:?}"),
        }
        assert!(asked.lock().unwrap().is_empty(), "{what}: it is told nothing");
    }
}

/// What is no certificate's fault is not told as one.
// spec: AG-86
#[tokio::test]
async fn a_proxy_without_tls_is_told_from_a_stranger() {
    let (ours, theirs) = (Ca::new(), Ca::new());
    let with = |change: &dyn Fn(&mut ServerConfig)| {
        let mut server = theirs.server("127.0.0.1", GOOD);
        change(&mut server);
        server
    };
    let alpn = with(&|server| server.alpn_protocols = vec![b"h2".to_vec()]);
    let (no_common, _) = proxy(Some(alpn), Does::Waits).await;
    let (wants_certificate, _) = proxy(Some(theirs.asking("127.0.0.1")), Does::Waits).await;
    // A plain proxy where the settings say https: it answers the hello as the bad request that it is, or goes.
    let plain = says_first(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let (goes, garbage) = (says_first(b"").await, says_first(&[0x16, 3, 3, 0, 4, 2, 0, 0, 0]).await);
    for (what, port, goes) in [
        ("no protocol in common", no_common, false),
        ("wants a certificate", wants_certificate, false),
        ("plain", plain, false),
        ("garbage", garbage, false),
        ("goes", goes, true),
    ] {
        let refused = through(&ours.root(), 8443, Some(at(port, Some(&theirs)))).send(&get()).await;
        match of_proxy(refused, port) {
            ProxyError::Tls(_) => assert!(!goes, "{what}"),
            ProxyError::Closed => assert!(goes, "{what}"),
            error => panic!("{what}: {error:?}"),
        }
    }
}

/// Somebody who reads a hello, says this, and goes.
async fn says_first(text: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut hello = [0; 4096];
        // A hello is one segment here; what is unread at the end would make a reset of the farewell.
        let _ = tcp.read(&mut hello).await;
        let _ = tcp.write_all(text).await;
        let _ = tcp.shutdown().await;
        let _ = tcp.read_to_end(&mut Vec::new()).await;
    });
    port
}

// spec: AG-85
#[tokio::test]
async fn what_a_proxy_answers_instead_is_told_with_its_cure() {
    let ca = Ca::new();
    let says = |text: &str| Does::Says(text.as_bytes().to_vec());
    type IsWhy = fn(&ProxyError) -> bool;
    let bytes_after: IsWhy = |why| matches!(why, ProxyError::Strange(BadHead::BytesAfter));
    let closed: IsWhy = |why| matches!(why, ProxyError::Closed);
    let cases: [(Does, IsWhy); 9] = [
        (says("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"), |why| {
            matches!(why, ProxyError::Refused(407))
        }),
        (says("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"), |why| matches!(why, ProxyError::Refused(403))),
        (says("HTTP/1.1 502 Bad Gateway\r\n\r\n"), |why| matches!(why, ProxyError::Refused(502))),
        (says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 504 Gateway Timeout\r\n\r\n"), |why| {
            matches!(why, ProxyError::Refused(504))
        }),
        (says("HTTP/1.1 200 OK\r\n\r\n<html>"), bytes_after),
        (says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), bytes_after),
        (Does::NeverEnds, |why| matches!(why, ProxyError::Strange(BadHead::TooLong))),
        (Does::SaysAndGoes("HTTP/1.1 200 O"), closed),
        (Does::SaysAndGoes(""), closed),
    ];
    for (does, is_why) in cases {
        for tls in [false, true] {
            let server = tls.then(|| ca.server("127.0.0.1", GOOD));
            let (port, _) = proxy(server, does.clone()).await;
            let refused = through(&ca.root(), 8443, Some(at(port, tls.then_some(&ca)))).send(&get()).await;
            let why = of_proxy(refused, port);
            assert!(is_why(&why), "{why:?}");
        }
    }
    // Closed in the middle of the tunnel: cut, and made anew at the next call.
    let (port, _) = proxy(None, Does::SaysAndGoes("HTTP/1.1 200 OK\r\n\r\n")).await;
    let refused = through(&ca.root(), 8443, Some(at(port, None))).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::Connect { .. })), "{refused:?}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap().port();
    drop(listener);
    let refused = through(&ca.root(), 8443, Some(at(gone, None))).send(&get()).await;
    assert!(matches!(of_proxy(refused, gone), ProxyError::Connect(_)));
    // No name server has to be asked to know that there is no such name.
    let nowhere = Proxy { host: "x".repeat(70), port: 3128, ca: None };
    let refused = through(&ca.root(), 8443, Some(nowhere)).send(&get()).await;
    assert!(matches!(refused, Err(TransportError::Proxy(_, ProxyError::Name(_)))), "{refused:?}");
}

// spec: AG-85
#[tokio::test(start_paused = true)]
async fn a_proxy_that_says_nothing_is_left_after_ten_seconds() {
    let ca = Ca::new();
    let (port, _) = proxy(None, Does::Waits).await;
    let begun = tokio::time::Instant::now();
    let refused = through(&ca.root(), 8443, Some(at(port, None))).send(&get()).await;
    let Err(TransportError::Connect(to, _)) = refused else { panic!("{refused:?}") };
    assert!(to.contains(&format!("http://127.0.0.1:{port}")), "{to}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

// spec: AG-80
#[test]
fn the_ca_of_a_proxy_is_read_with_the_settings() {
    let scratch = crate::host::scratch::Scratch::new();
    let ca = Ca::new();
    let certificate: &rcgen::Certificate = ca.0.as_ref();
    scratch.put("etc/lucia/root.pem", &certificate.pem().replace("\r\n", "\n"));
    scratch.put(
        "etc/lucia/agent.toml",
        "controller-url = \"https://c:1\"\ncontroller-name = \"c\"\n[proxy]\nurl = \"https://p:1\"\n\
         ca-file = \"/etc/p.pem\"\n",
    );
    let load = || Trust::load(&scratch.root());
    let missing = load().unwrap_err();
    assert!(missing.to_string().contains("p.pem"), "{missing:?}");
    for bad in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        scratch.put("etc/p.pem", bad);
        let error = load().unwrap_err();
        assert!(error.to_string().contains("p.pem: proxy.ca-file"), "{bad:?}: {error}");
    }
    // As tools write them: with a text before it, CRLF, and more than one.
    let pem = certificate.pem().replace("\r\n", "\n").replace('\n', "\r\n");
    scratch.put("etc/p.pem", &format!("our proxy\r\n{pem}{pem}"));
    let config: Config = load().unwrap().config;
    assert!(!config.proxy.unwrap().ca.unwrap().pem.is_empty());
}

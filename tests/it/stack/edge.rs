//! Group H: what a client of HTTP and TLS may do.

use lucia_proto::base::limits::{BODY_MAX, DISCOVER_BODY_MAX};
use lucia_proto::calls::Endpoint;
use lucia_tests::programs::CONTROLLER_NAME;
use lucia_tests::sim::Target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Stack, open_window, raw};

/// Name, the bytes, the status that must come.
fn rows(id: &str) -> Vec<(String, Vec<u8>, u16)> {
    let mut rows: Vec<(String, Vec<u8>, u16)> = Vec::new();
    let beat = format!("/api/nodes/{id}/heartbeat");
    let json = "Content-Type: application/json\r\n";
    for (name, headers) in [
        ("H-3 CL and TE", "Host: c\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        ("H-3 TE and CL", "Host: c\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n"),
        ("H-3 gzip, chunked", "Host: c\r\nTransfer-Encoding: gzip, chunked\r\n"),
        ("H-3 two CL", "Host: c\r\nContent-Length: 2\r\nContent-Length: 3\r\n"),
        ("H-3 two CL alike", "Host: c\r\nContent-Length: 2\r\nContent-Length: 2\r\n"),
        ("H-3 CL +2", "Host: c\r\nContent-Length: +2\r\n"),
        ("H-3 CL list", "Host: c\r\nContent-Length: 2, 2\r\n"),
        ("H-4 no host", "Content-Length: 2\r\n"),
        ("H-4 two hosts", "Host: c\r\nHost: c\r\nContent-Length: 2\r\n"),
        ("H-4 host with user", "Host: user@c\r\nContent-Length: 2\r\n"),
        ("H-5 bare LF", "Host: c\r\nX: a\nContent-Length: 2\r\n"),
        ("H-5 folded", "Host: c\r\nX: a\r\n b\r\nContent-Length: 2\r\n"),
        ("H-5 NUL", "Host: c\r\nX: a\0b\r\nContent-Length: 2\r\n"),
        ("H-5 8 bit", "Host: c\r\nX: \u{e9}\r\nContent-Length: 2\r\n"),
    ] {
        let text = format!("POST {beat} HTTP/1.1\r\n{json}{headers}\r\n{{}}");
        rows.push((name.to_owned(), text.into_bytes(), 400));
    }
    let elsewhere = format!("GET https://elsewhere.test{beat} HTTP/1.1\r\nHost: {CONTROLLER_NAME}\r\n\r\n");
    rows.push(("H-4 absolute".to_owned(), elsewhere.into_bytes(), 400));
    for (path, max) in [(beat.clone(), BODY_MAX), ("/api/boot/discover".to_owned(), DISCOVER_BODY_MAX)] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: c\r\n{json}");
        let by_length = format!("{head}Content-Length: {}\r\n\r\n", max + 1);
        rows.push((format!("H-6 {path} by length"), by_length.into_bytes(), 413));
        let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
        let endless = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(max / 0x1000 + 2));
        rows.push((format!("H-6 {path} endless"), endless.into_bytes(), 413));
    }
    let gzip =
        format!("POST {beat} HTTP/1.1\r\nHost: c\r\n{json}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}");
    rows.push(("H-7 gzip".to_owned(), gzip.into_bytes(), 415));
    for path in [
        format!("/api/nodes/{}/challenge", id.to_uppercase()),
        format!("/api/nodes/%2e%2e/nodes/{id}/challenge"),
        format!("/api/nodes//{id}/challenge"),
        format!("/api/nodes/{id}%00/challenge"),
        format!("/api/nodes/{id};x/challenge"),
        format!("/api/nodes/{id}/challenge?token=x"),
        "/metrics".to_owned(),
    ] {
        rows.push((format!("H-8 {path}"), format!("GET {path} HTTP/1.1\r\nHost: c\r\n\r\n").into_bytes(), 404));
    }
    // For owners: nobody gets in without a proof.
    rows.push(("B-1 /api/host/nodes".to_owned(), b"GET /api/host/nodes HTTP/1.1\r\nHost: c\r\n\r\n".to_vec(), 403));
    rows
}

// spec: TS-60
#[tokio::test]
async fn group_h_is_refused_and_changes_nothing() {
    let Some(mut stack) = Stack::up("stack-edge").await else { return };
    // While it is closed no body of a first contact is read.
    open_window(&stack.site);
    let before = stack.files();
    let rows = rows(stack.id().as_str());
    assert!(rows.len() > 25);
    for (name, bytes, status) in rows {
        let said = raw(&stack.target, &bytes).await;
        let line = String::from_utf8_lossy(&said[..said.len().min(12)]).into_owned();
        assert_eq!(line, format!("HTTP/1.1 {status}"), "{name}");
    }
    // H-9: nobody listed is a proxy, so that a forwarded address is nothing but a header.
    let mut stranger = stack.stranger().await;
    let challenge = stranger.challenge(stack.id()).await;
    let proof = stack.prove(stack.key(), &challenge, &stack.beat);
    let call = lucia_proto::node::report::NodeCall { certificate_pem: String::new(), proof };
    let request = hyper::Request::post(Endpoint::Heartbeat.path_for(stack.id()))
        .header("host", CONTROLLER_NAME)
        .header("content-type", "application/json")
        .header("x-forwarded-for", "192.0.2.1")
        .body(http_body_util::Full::new(serde_json::to_vec(&call).unwrap().into()))
        .unwrap();
    let reply = stranger.send(request).await;
    assert_eq!(reply.code(), Some(lucia_proto::base::code::Code::NodeIdentityInvalid), "H-9: {reply:?}");
    stack.is_unchanged(&before);
    stack.is_well().await;
}

// spec: TS-60
#[tokio::test]
async fn group_h_ends_at_the_handshake_what_is_no_tls_of_ours() {
    let Some(mut stack) = Stack::up("stack-tls").await else { return };
    let before = stack.files();
    let elsewhere = Target::new(stack.site.address, "elsewhere.test", &stack.site.root_pem().unwrap()).unwrap();
    assert!(elsewhere.secure().await.is_err(), "H-10 another name");
    for version in [1, 2] {
        // A ClientHello of TLS 1.0 or 1.1 with one suite of those days.
        let hello = [&[3, version][..], &[7; 32], &[0, 0, 2, 0xc0, 0x09, 1, 0]].concat();
        let length = u8::try_from(hello.len()).unwrap();
        let message = [&[1, 0, 0, length][..], &hello].concat();
        let said = plain(&stack.target, &[&[22, 3, 1, 0, length + 4][..], &message].concat()).await;
        assert_eq!(said.first(), Some(&21), "H-10 TLS 1.{}: an alert, not {said:?}", version - 1);
    }
    let said = plain(&stack.target, b"GET / HTTP/1.1\r\nHost: c\r\n\r\n").await;
    assert!(!said.starts_with(b"HTTP"), "H-10 plain HTTP: {said:?}");
    stack.is_unchanged(&before);
    stack.is_well().await;
}

async fn plain(target: &Target, bytes: &[u8]) -> Vec<u8> {
    let mut stream = target.dial().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    let _ = tokio::time::timeout(std::time::Duration::from_secs(10), stream.read_to_end(&mut said)).await;
    said
}

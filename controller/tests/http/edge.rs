//! threats.md group H as raw bytes. After each row the journal is what it was and a good request is answered.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use lucia_controller::http::Timeouts;
use lucia_proto::base::limits::{BODY_MAX, DISCOVER_BODY_MAX};
use lucia_proto::calls::Endpoint;

use crate::machine::Machine;
use crate::site::{NAME, Site, answer, closed, exchange, request};

const ID: &str = "0123456789abcdef0123456789abcdef";

/// A request that must be refused with `status`, and end its connection.
#[track_caller]
fn refused(site: &Site, bytes: &[u8], status: u16) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    let before = site.journal();
    let mut stream = site.tls();
    let answer = exchange(&mut stream, bytes).unwrap_or_else(|| panic!("no answer to {shown:?}"));
    assert_eq!(answer.status, status, "{shown:?} {answer:?}");
    assert!(closed(&mut stream), "{shown:?} leaves its connection open");
    assert_eq!(site.journal(), before, "{shown:?}");
    assert_eq!(site.send(&request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "")).status, 200, "{shown:?}");
}

// spec: HT-3
#[test]
fn h_3_to_h_5_a_head_with_two_readings_is_refused() {
    let site = Site::new();
    let path = format!("/api/nodes/{ID}/heartbeat");
    for headers in [
        "Host: c\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Host: c\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Host: c\r\nTransfer-Encoding: gzip, chunked\r\n",
        "Host: c\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n",
        "Host: c\r\nContent-Length: 2\r\nContent-Length: 2\r\n",
        "Host: c\r\nContent-Length: 2\r\nContent-Length: 3\r\n",
        "Host: c\r\nContent-Length: +2\r\n",
        "Host: c\r\nContent-Length: 2, 2\r\n",
        "Host: c\r\nContent-Length : 2\r\n",
        "Content-Length: 2\r\n",
        "Host: c\r\nHost: c\r\nContent-Length: 2\r\n",
        "Host: user@c\r\nContent-Length: 2\r\n",
        "Host: a, b\r\nContent-Length: 2\r\n",
        "Host: c\r\nX: a\nContent-Length: 2\r\n",
        "Host: c\r\nX: a\r\n b\r\nContent-Length: 2\r\n",
        "Host: c\r\nX: a\0b\r\nContent-Length: 2\r\n",
        "Host: c\r\nX: \u{e9}\r\nContent-Length: 2\r\n",
    ] {
        refused(
            &site,
            format!("POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n{{}}").as_bytes(),
            400,
        );
    }
    for line in [
        format!("GET https://elsewhere.test{path} HTTP/1.1"),
        format!("GET http://{NAME}/api/nodes/{ID}/challenge HTTP/1.1"),
        format!("GET /api/nodes/{ID}/challenge HTTP/1.0"),
        "CONNECT elsewhere.test:443 HTTP/1.1".to_owned(),
        "OPTIONS * HTTP/1.1".to_owned(),
    ] {
        let status = if line.starts_with("OPTIONS") { 404 } else { 400 };
        refused(&site, format!("{line}\r\nHost: {NAME}\r\n\r\n").as_bytes(), status);
    }
}

// spec: HT-12
#[test]
fn h_6_and_h_7_a_body_is_capped_before_it_is_read_and_never_unpacked() {
    let site = Site::new();
    // While it is closed no body of a first contact is read at all.
    site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    let json = ("Content-Type", "application/json");
    for (path, max) in [
        (format!("/api/nodes/{ID}/heartbeat"), BODY_MAX),
        (format!("/api/boot/devices/{ID}/grant"), BODY_MAX),
        ("/api/boot/discover".to_owned(), DISCOVER_BODY_MAX),
    ] {
        // Refused by its length alone: not one byte of it is sent.
        let length = (max + 1).to_string();
        refused(&site, &request("POST", &path, &[json, ("Content-Length", &length)], ""), 413);
        // An endless one in chunks: refused when it passes the limit.
        let mut endless = request("POST", &path, &[json, ("Transfer-Encoding", "chunked")], "");
        let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
        (0..max / 0x1000 + 1).for_each(|_| endless.extend_from_slice(chunk.as_bytes()));
        refused(&site, &endless, 413);
    }
    let path = format!("/api/nodes/{ID}/heartbeat");
    refused(&site, &request("POST", &path, &[("Content-Encoding", "gzip")], "{}"), 415);
    refused(&site, &request("POST", &path, &[("Content-Type", "text/plain"), ("Content-Length", "2")], ""), 415);
    refused(&site, &request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "{}"), 413);
    let many: Vec<(String, String)> = (0..150).map(|n| (format!("X-{n}"), "a".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    refused(&site, &request("GET", &format!("/api/nodes/{ID}/challenge"), &many, ""), 431);
    // Past the limit nobody waits for the end: hyper's answer, or a cut while we were still sending.
    let mut stream = site.tls();
    let long = request("GET", "/", &[("X", &"a".repeat(500_000))], "");
    assert!(exchange(&mut stream, &long).is_none_or(|answer| answer.status == 431));
}

// spec: HT-10
#[test]
fn h_8_another_spelling_of_a_path_is_like_one_that_never_was() {
    let site = Site::new();
    let unknown = site.send(&request("GET", "/api/nodes/nothing", &[], ""));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
    for path in [
        "/api/nodes/0123456789ABCDEF0123456789ABCDEF/challenge".to_owned(),
        format!("/api/nodes/%2e%2e/nodes/{ID}/challenge"),
        format!("/api/nodes//{ID}/challenge"),
        format!("/api/nodes/{ID}%00/challenge"),
        format!("/api/nodes/{ID};x/challenge"),
        format!("/api/nodes/{ID}/challenge/"),
        format!("/api/nodes/{ID}/challenge?token=x"),
        format!("/api/nodes/{ID}/challenge?"),
    ] {
        refused(&site, &request("GET", &path, &[], ""), 404);
        let answer = site.send(&request("GET", &path, &[], ""));
        assert_eq!(answer.body, unknown.body, "{path}");
    }
    let other = site.send(&request("DELETE", &format!("/api/nodes/{ID}/challenge"), &[], ""));
    assert_eq!((other.status, other.header("allow")), (405, Some("GET")));
}

// spec: HT-9
#[test]
fn h_9_a_forwarded_address_counts_only_from_a_listed_proxy() {
    // The challenge is bound to the address it was asked from, so an accepted proof shows whose address was taken.
    let forwarded = |site: &Site, asks: &str, answers: &str| {
        let machine = Machine::new(1);
        let path = Endpoint::NodeChallenge.path_for(machine.id());
        let challenge = site.send(&request("GET", &path, &[("X-Forwarded-For", asks)], "")).read();
        let proof = lucia_proto::node::report::Proof::sign(&machine.beat(), &challenge, &machine.node.key).unwrap();
        let call = lucia_proto::node::report::NodeCall { certificate_pem: String::new(), proof };
        let body = lucia_proto::base::json::to_string(&call).unwrap();
        let path = Endpoint::Heartbeat.path_for(machine.id());
        site.send(&request("POST", &path, &[("X-Forwarded-For", answers)], &body)).code()
    };
    let direct = Site::new();
    assert_eq!(forwarded(&direct, "10.1.1.1", "10.2.2.2"), "node_identity_invalid", "the peer's own address is used");
    let proxied = Site::with("trusted-proxies = [\"127.0.0.1\"]\n", Timeouts::default());
    assert_eq!(forwarded(&proxied, "10.1.1.1", "10.1.1.1"), "node_identity_invalid");
    assert_eq!(forwarded(&proxied, "10.1.1.1", "10.2.2.2"), "challenge_refused");
    assert_eq!(forwarded(&proxied, "10.9.9.9, 10.1.1.1", "10.1.1.1"), "node_identity_invalid", "from the right");
    assert_eq!(forwarded(&proxied, "10.1.1.1", "::ffff:10.1.1.1"), "node_identity_invalid", "mapped is the same");
    let path = format!("/api/nodes/{ID}/challenge");
    let ask = |from| proxied.send(&request("GET", &path, &[("X-Forwarded-For", from)], "")).code();
    assert_eq!(ask("garbage"), "invalid_request");
    assert_eq!(ask("192.0.2.1"), "network_not_allowed");
    assert_eq!(ask("10.0.0.1, 192.0.2.1"), "network_not_allowed");
}

// spec: HT-15
#[test]
fn h_10_tls_is_1_2_or_1_3_for_our_name_and_http_1_1_alone() {
    let site = Site::new();
    assert_eq!(site.tls().protocol().as_deref(), Some(&b"http/1.1"[..]));
    assert!(site.dial("elsewhere.test").is_err(), "another name gets an alert");
    for version in [1, 2] {
        // A ClientHello of TLS 1.0 or 1.1 with one suite of those days.
        let hello = [&[3, version][..], &[7; 32], &[0, 0, 2, 0xc0, 0x09, 1, 0]].concat();
        let length = u8::try_from(hello.len()).unwrap();
        let message = [&[1, 0, 0, length][..], &hello].concat();
        let record = [&[22, 3, 1, 0, length + 4][..], &message].concat();
        let mut stream = site.plain().unwrap();
        stream.write_all(&record).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said.first(), Some(&21), "an alert, not {said:?}");
    }
    let mut plain = site.plain().unwrap();
    plain.write_all(&request("GET", "/", &[], "")).unwrap();
    assert!(answer(&mut plain_end(plain)).is_none(), "plain HTTP gets no HTTP");
    assert_eq!(site.send(&request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "")).status, 200);
}

/// What a TLS listener says to plain text, without anything that looks like HTTP.
fn plain_end(mut stream: TcpStream) -> std::io::Cursor<Vec<u8>> {
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    std::io::Cursor::new(said)
}

// spec: HT-8
#[test]
fn h_2_one_source_has_its_own_limit() {
    let site = Site::with("connections = { max = 64, per-source = 4, reserved = 16 }\n", Timeouts::default());
    let mut held: Vec<_> = (0..4).map(|_| site.tls()).collect();
    for _ in 0..8 {
        assert!(site.dial(NAME).is_err(), "a fifth is turned away before the handshake");
    }
    let path = format!("/api/nodes/{ID}/challenge");
    for stream in &mut held {
        assert_eq!(exchange(stream, &request("GET", &path, &[], "")).unwrap().status, 200);
    }
    drop(held);
    crate::slow::wait_until("a place is free again", || site.dial(NAME).is_ok());
}

// spec: HT-223
#[test]
fn calls_of_one_source_beyond_its_rate_are_refused_before_their_body_is_read() {
    let site = Site::with("connections = { max = 64, per-source = 4, reserved = 16 }\n", Timeouts::default());
    let mut statuses = Vec::new();
    let mut last = None;
    // Sixteen at once, the connection being one of them; time gives some more meanwhile.
    let mut stream = site.tls();
    for _ in 0..200 {
        let Some(answer) = exchange(&mut stream, &request("POST", "/api/boot/discover", &[], "{}")) else { break };
        statuses.push(answer.status);
        if answer.status == 429 {
            last = Some(answer);
            break;
        }
    }
    let last = last.unwrap_or_else(|| panic!("none of {} was refused", statuses.len()));
    assert!(statuses.len() >= 16, "{statuses:?}");
    assert_eq!(last.code(), "too_many_requests");
    assert_eq!((last.header("retry-after"), last.header("connection")), (Some("1"), Some("close")));
    assert!(closed(&mut stream));
}

// spec: HT-7
#[test]
fn a_request_sent_ahead_of_its_turn_is_not_read() {
    let site = Site::new();
    let one = request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "");
    let mut stream = site.tls();
    let first = exchange(&mut stream, &[one.clone(), one.clone()].concat()).unwrap();
    assert_eq!((first.status, first.header("connection")), (200, Some("close")));
    assert!(closed(&mut stream));
    // One after the other is what a node does, over one connection.
    let mut stream = site.tls();
    for _ in 0..3 {
        assert_eq!(exchange(&mut stream, &one).unwrap().status, 200);
    }
}

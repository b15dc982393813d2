//! What a request's head decides before its body is read, and how many bytes of bodies are held at once.

use std::io::{Read, Write};

use lucia_controller::http::Timeouts;
use lucia_proto::base::limits::{BODY_MAX, DISCOVER_BODY_MAX};

use crate::machine::Machine;
use crate::observe::{METRICS, get, value};
use crate::site::{Site, Tls, answer, closed, exchange, request};

const ID: &str = "0123456789abcdef0123456789abcdef";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A head that announces a body of `length` bytes.
fn head(path: &str, length: usize, more: &[(&str, &str)]) -> Vec<u8> {
    let length = length.to_string();
    request("POST", path, &[&[JSON, ("Content-Length", &length)], more].concat(), "")
}

/// The answer to a head whose body was never sent, and that it ended its connection.
#[track_caller]
fn refused(site: &Site, head: &[u8]) -> (u16, String) {
    let mut stream = site.tls();
    let answer = exchange(&mut stream, head).unwrap();
    assert!(closed(&mut stream), "{answer:?}");
    (answer.status, answer.code())
}

/// A connection whose body is waited for: the controller has said that it may come.
fn waited_for(site: &Site, path: &str, length: usize) -> Result<Tls, (u16, String)> {
    waited_for_on(site.tls(), path, length)
}

fn waited_for_on<S: Read + Write>(mut stream: S, path: &str, length: usize) -> Result<S, (u16, String)> {
    stream.write_all(&head(path, length, &[("Expect", "100-continue")])).unwrap();
    let mut said = [0; 25];
    stream.read_exact(&mut said).unwrap();
    if said.starts_with(b"HTTP/1.1 100 Continue\r\n\r\n") {
        return Ok(stream);
    }
    let answer = answer(&mut std::io::Cursor::new(said).chain(&mut stream)).unwrap();
    Err((answer.status, answer.code()))
}

// spec: HT-210
#[test]
fn what_the_head_decides_is_answered_before_a_body_is_read() {
    let settings = "trusted-proxies = [\"127.0.0.1\"]\nlimits = { devices = 1, tasks = 1 }\n";
    let site = Site::with(settings, Timeouts::default());
    let discover = head("/api/boot/discover", DISCOVER_BODY_MAX, &[]);
    assert_eq!(refused(&site, &discover), (409, "admission_closed".to_owned()));
    let chunked = request("POST", "/api/boot/discover", &[JSON, ("Transfer-Encoding", "chunked")], "");
    assert_eq!(refused(&site, &chunked), (409, "admission_closed".to_owned()));
    site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    for (path, length, want) in [
        ("/api/host/orders", BODY_MAX, (403, "actor_required")),
        ("/api/host/onboarding/window", 100, (403, "actor_required")),
        ("/api/boot/discover", DISCOVER_BODY_MAX + 1, (413, "body_too_large")),
        ("/api/boot/nothing", 100, (404, "not_found")),
        ("/api/boot/challenge", 100, (405, "method_not_allowed")),
    ] {
        assert_eq!(refused(&site, &head(path, length, &[])), (want.0, want.1.to_owned()), "{path}");
    }
    // The one row is taken by a machine elsewhere: no other machine can appear, and only that one come again.
    assert_eq!(Machine::new(1).discover(&site).status, 200);
    let elsewhere = head("/api/boot/discover", DISCOVER_BODY_MAX, &[("X-Forwarded-For", "10.0.0.9")]);
    assert_eq!(refused(&site, &elsewhere), (503, "registry_full".to_owned()));
    assert!(waited_for(&site, "/api/boot/discover", DISCOVER_BODY_MAX).is_ok(), "its own address may come again");
}

// spec: HT-211
#[test]
fn bodies_in_flight_of_one_stranger_are_bounded_in_bytes() {
    let site = Site::new();
    site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    let mut held = Vec::new();
    let refused = (0..64).find_map(|_| match waited_for(&site, "/api/boot/discover", DISCOVER_BODY_MAX) {
        Ok(stream) => {
            held.push(stream);
            None
        }
        Err(refused) => Some(refused),
    });
    assert_eq!(refused, Some((429, "too_many_requests".to_owned())), "{} bodies were waited for", held.len());
    assert!(!held.is_empty() && held.len() * DISCOVER_BODY_MAX <= 1024 * 1024, "{}", held.len());
    // A small body takes nothing of it, so heartbeats go on.
    let beat = request("POST", &format!("/api/nodes/{ID}/heartbeat"), &[], "{}");
    assert_eq!(site.send(&beat).code(), "invalid_body");
    // The operator's socket has its part too.
    let mut orders = Vec::new();
    let refused = (0..64).find_map(|_| match waited_for_on(site.operator(), "/api/host/orders", BODY_MAX) {
        Ok(stream) => {
            orders.push(stream);
            None
        }
        Err(refused) => Some(refused),
    });
    assert_eq!(refused, Some((429, "too_many_requests".to_owned())), "{} orders were waited for", orders.len());
    drop(orders);
    // What is given back is there again.
    held.clear();
    crate::slow::wait_until("room for a body", || waited_for(&site, "/api/boot/discover", DISCOVER_BODY_MAX).is_ok());
}

// spec: HT-212
#[test]
fn what_the_http_library_refuses_has_our_shape_a_line_and_a_count() {
    let site = Site::with(METRICS, Timeouts::default());
    let many: Vec<(String, String)> = (0..150).map(|n| (format!("X-{n}"), "a".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let path = format!("/api/nodes/{ID}/challenge");
    for (bytes, status, code) in [
        (request("GET", &path, &many, ""), 431, "headers_too_large"),
        (b"GET /a\"b HTTP/1.1\r\nHost: c\r\nBad Name: x\r\n\r\n".to_vec(), 400, "invalid_request"),
        (b"G@T / HTTP/1.1\r\nHost: c\r\n\r\n".to_vec(), 400, "invalid_request"),
        (b"GET / HTTP/9.9\r\nHost: c\r\n\r\n".to_vec(), 400, "invalid_request"),
    ] {
        let mut stream = site.tls();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let answer = exchange(&mut stream, &bytes).unwrap();
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{shown:?}");
        for (name, value) in
            [("content-type", "application/json"), ("cache-control", "no-store"), ("connection", "close")]
        {
            assert_eq!(answer.header(name), Some(value), "{shown:?}");
        }
        assert!(closed(&mut stream), "{shown:?}");
    }
    let page = get(&site, "/metrics").body;
    for (code, count) in [("headers_too_large", 1.0), ("invalid_request", 3.0)] {
        assert_eq!(value(&page, &format!("lucia_controller_refusals_total{{code=\"{code}\"}}")), Some(count), "{page}");
    }
}

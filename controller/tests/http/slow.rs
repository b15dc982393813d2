//! threats.md H-1 and the end of a controller, with deadlines shortened so that a test can meet them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use lucia_controller::http::Timeouts;
use lucia_people::host_api::EventsView;
use tokio::time::Instant;

use crate::site::{Site, Tls, answer, closed, exchange, request, until_closed};

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Waits until `condition` holds; says `what` did not come about otherwise.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what} did not come about");
        std::thread::yield_now();
    }
}

fn quick() -> Timeouts {
    let millis = Duration::from_millis;
    Timeouts { handshake: millis(300), head: millis(400), request: millis(600), idle: millis(1500), drain: millis(800) }
}

/// How long the other side takes to end the connection.
fn ends_after(stream: &mut impl std::io::Read) -> Duration {
    let start = Instant::now();
    until_closed(stream);
    start.elapsed()
}

// spec: HT-6
#[test]
fn h_1_who_is_slow_is_let_go() {
    let limits = quick();
    let slack = Duration::from_secs(5);
    let site = Site::with("", limits);
    let before = site.journal();
    let path = format!("/api/nodes/{ID}/heartbeat");

    let mut silent = site.plain().unwrap();
    let took = ends_after(&mut silent);
    assert!(took >= limits.handshake / 2 && took < slack, "no handshake: {took:?}");

    let mut no_request = site.tls();
    let took = ends_after(&mut no_request);
    assert!(took >= limits.head / 2 && took < slack, "no request: {took:?}");

    // A byte now and then does not prolong a head.
    let mut drip = site.tls();
    let start = Instant::now();
    let head = format!("GET {path} HTTP/1.1\r\nHost: c\r\nX: {}", "a".repeat(4000));
    for byte in head.bytes() {
        if drip.write_all(&[byte]).and_then(|()| drip.flush()).is_err() || start.elapsed() > slack {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let took = start.elapsed();
    assert!(took >= limits.head / 2 && took < slack, "a dripping head: {took:?}");

    let mut body = site.tls();
    body.write_all(&request("POST", &path, &[("Content-Type", "application/json"), ("Content-Length", "100")], ""))
        .unwrap();
    body.write_all(b"{").unwrap();
    let late = answer(&mut body).unwrap();
    assert_eq!((late.status, late.code().as_str()), (408, "request_timeout"));
    assert!(closed(&mut body));

    // Between two requests there is more time than for a head.
    let mut idle = site.tls();
    let one = request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "");
    assert_eq!(exchange(&mut idle, &one).unwrap().status, 200);
    let took = ends_after(&mut idle);
    assert!(took > limits.head && took < slack, "idle: {took:?}");
    assert_eq!(site.journal(), before);
    assert_eq!(site.send(&one).status, 200);
}

// spec: HT-16
#[test]
fn a_long_poll_outlives_the_deadlines_and_ends_with_an_event_or_the_stop() {
    let mut site = Site::with("", quick());
    let last = site.order("GET", "/api/host/events", "").read::<EventsView>().last_sequence;
    let mut waiting = site.operator();
    waiting.write_all(&request("GET", &format!("/api/host/events?after={last}&wait=25"), &[], "")).unwrap();
    waiting.set_read_timeout(Some(quick().idle * 2)).unwrap();
    let silent = waiting.read(&mut [0; 1]).unwrap_err();
    assert!(matches!(silent.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{silent}");
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    site.order("POST", "/api/host/onboarding/window", r#"{"minutes":5}"#);
    let view: EventsView = answer(&mut waiting).unwrap().read();
    assert_eq!(view.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [last + 1]);

    let mut waiting = site.operator();
    waiting.write_all(&request("GET", &format!("/api/host/events?after={}&wait=25", last + 1), &[], "")).unwrap();
    // Known to be at work once it has answered another call over the same door after this one was accepted.
    assert_eq!(site.order("GET", "/api/host/nodes", "").status, 200);
    site.stopping();
    // The stop ends the wait with a whole answer, of nothing new; a connection that was cut has none.
    let view: EventsView = answer(&mut waiting).expect("an answer at the stop").read();
    assert_eq!((view.events.len(), view.last_sequence), (0, last + 1));
    site.stop();
}

/// A call whose body has not come yet.
fn begun(site: &Site) -> Tls {
    let mut stream = site.tls();
    let path = format!("/api/nodes/{ID}/heartbeat");
    let length = [("Content-Type", "application/json"), ("Content-Length", "2")];
    stream.write_all(&request("POST", &path, &length, "")).unwrap();
    stream
}

// spec: HT-17
#[test]
fn a_stop_answers_the_call_in_progress_and_takes_no_other() {
    // Nothing but the stop may end one of them, however busy this machine is.
    let patient = Duration::from_secs(20);
    let limits = Timeouts { handshake: patient, head: patient, request: patient, idle: patient, drain: patient };
    let mut site = Site::with("", limits);
    let mut calls: Vec<_> = (0..40).map(|_| begun(&site)).collect();
    assert_eq!(site.send(&request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "")).status, 200);
    site.stopping();
    wait_until("the port closes", || TcpStream::connect(site.address).is_err());
    // One after the other, so that the last of them has waited for a while.
    for stream in &mut calls {
        stream.write_all(b"{}").unwrap();
        let answer = answer(stream).expect("the answer to a call in progress");
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
        assert!(closed(stream));
    }
    site.stop();
}

// spec: HT-17
#[test]
fn a_call_that_never_ends_holds_up_a_stop_for_the_time_to_drain_and_no_longer() {
    let mut site = Site::with("", Timeouts { request: Duration::from_secs(3600), ..quick() });
    let mut stream = begun(&site);
    assert_eq!(site.send(&request("GET", &format!("/api/nodes/{ID}/challenge"), &[], "")).status, 200);
    site.stop();
    assert!(answer(&mut stream).is_none());
}

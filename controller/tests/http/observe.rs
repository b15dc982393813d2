//! Metrics and health from outside: on their own port, of numbers alone, and bounded like every other connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use lucia_controller::http::Timeouts;

use crate::machine::Machine;
use crate::site::{Answer, Site, answer, closed, exchange, request, until_closed};
use crate::slow::wait_until;

pub(crate) const METRICS: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";

fn dial(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(site.metrics.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub(crate) fn get(site: &Site, path: &str) -> Answer {
    // Another interface than the one that is described, whatever the path.
    let mut stream = dial(site);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n").as_bytes()).unwrap();
    answer(&mut stream).unwrap()
}

pub(crate) fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

// spec: OB-5
#[test]
fn metrics_count_what_happens_and_name_nobody() {
    let site = Site::with(METRICS, Timeouts::default());
    let node = Machine::managed(&site, 1);
    node.heartbeat(&site);
    let strange = request("GET", "/api/nodes/nobody/challenge", &[], "");
    assert_eq!(site.send(&strange).status, 404);
    // A page is a second old at most.
    wait_until("the page", || {
        value(&get(&site, "/metrics").body, "lucia_controller_nodes{state=\"online\"}") == Some(1.0)
    });
    let answer = get(&site, "/metrics");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    let page = answer.body;
    assert!(value(&page, "lucia_controller_heartbeats_total").unwrap() >= 2.0, "{page}");
    assert_eq!(value(&page, "lucia_controller_refusals_total{code=\"not_found\"}"), Some(1.0), "{page}");
    assert_eq!(value(&page, "lucia_controller_devices{phase=\"managed\"}"), Some(1.0), "{page}");
    assert_eq!(value(&page, "lucia_controller_ready"), Some(1.0), "{page}");
    // Counters begin with the process; where the journal stands is another number.
    let writes = value(&page, "lucia_controller_journal_writes_total").unwrap();
    let generation = value(&page, "lucia_controller_journal_generation").unwrap();
    assert!(writes >= 1.0 && generation >= writes, "{page}");
    for secret in [node.id().as_str(), "192.0.2.", "n1", "BEGIN"] {
        assert!(!page.contains(secret), "{secret}");
    }
    // As many series as before the first node.
    let empty = get(&Site::with(METRICS, Timeouts::default()), "/metrics").body;
    assert_eq!(page.lines().count(), empty.lines().count());
    // Nothing of it on the endpoint, nothing of the endpoint on it.
    assert_eq!(site.send(&request("GET", "/metrics", &[], "")).status, 404);
    assert_eq!(get(&site, "/api/host/status").status, 404);
    assert!(Site::new().metrics.is_none(), "off unless asked for");
}

// spec: OB-6
#[test]
fn health_is_live_at_once_and_ready_with_worker_and_certificate() {
    let site = Site::with(METRICS, Timeouts::default());
    assert_eq!(
        (get(&site, "/health/live").status, get(&site, "/health/live").body.as_str()),
        (200, r#"{"live":true}"#)
    );
    wait_until("readiness", || get(&site, "/health/ready").status == 200);
    std::fs::remove_file(site.file("nodes/enrollment-responses/enrollment-worker.json")).unwrap();
    wait_until("the worker's absence", || get(&site, "/health/ready").status == 503);
    let answer = get(&site, "/health/ready");
    assert_eq!(answer.body, r#"{"ready":false,"journal":true,"worker":false,"certificate":true}"#);
    site.worker_is_there();
    wait_until("readiness", || get(&site, "/health/ready").status == 200);
}

// spec: OB-7
#[test]
fn the_port_has_the_endpoint_s_care() {
    let millis = Duration::from_millis;
    let limits = Timeouts {
        handshake: millis(300),
        head: millis(400),
        request: millis(600),
        idle: millis(1500),
        drain: millis(800),
    };
    let site = Site::with(METRICS, limits);
    for (bytes, status) in [
        ("GET /metrics HTTP/1.1\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", 413),
    ] {
        let mut stream = dial(&site);
        assert_eq!(exchange(&mut stream, bytes.as_bytes()).unwrap().status, status, "{bytes:?}");
        assert!(closed(&mut stream), "{bytes:?}");
    }
    // Who says nothing, or half of it, is let go.
    let mut half = dial(&site);
    half.write_all(b"GET /metr").unwrap();
    assert!(matches!(half.read(&mut [0; 64]), Ok(0) | Err(_)));
    let mut silent = dial(&site);
    assert!(closed(&mut silent));
}

/// Who holds every place there is, with deadlines that nobody can wait for, holds up nobody else.
// spec: OB-8
#[test]
fn nobody_blinds_the_others_by_holding_connections() {
    let site = Site::with(METRICS, Timeouts { head: Duration::from_secs(600), ..Timeouts::default() });
    let mut held: Vec<_> = (0..40).map(|_| dial(&site)).collect();
    for _ in 0..3 {
        assert_eq!(get(&site, "/health/live").status, 200);
    }
    // The oldest had to give way, and the newest did not.
    until_closed(&mut held[0]);
    let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(exchange(held.last_mut().unwrap(), request).unwrap().status, 200);
}

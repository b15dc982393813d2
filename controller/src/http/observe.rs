//! The port of metrics and health: plain HTTP on loopback, three paths, nothing that could be changed over it.
//!
//! It goes through the same stream, head scan and deadlines as every other connection. A page is made at most once a
//! second, however often it is asked for, so that no program of this machine costs nodes their heartbeats by scraping.

use std::collections::VecDeque;
use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, Instant, timeout};

use super::accept::{accept_failed, connection, drain};
use super::body::Body;
use super::edge::is_host;
use super::head::Verdict;
use super::memory::OBSERVERS_MAX;
use super::pace::{Arrived, Pace};
use super::site::{Edge, Peer, blocking, stopped};
use crate::metrics::{self, Health};

/// How long one look serves every asker.
const LOOK: Duration = Duration::from_secs(1);
/// How long an asker waits for a look that the disk holds up; then nothing here is ready.
const PATIENCE: Duration = Duration::from_secs(3);
/// Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves metrics and health until the edge's stop signal, as [`super::serve_tls`] does.
pub async fn serve_observers(listener: TcpListener, edge: Edge) {
    let mut stop = edge.shared.stop.clone();
    let mut connections = JoinSet::new();
    let mut oldest_first = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    oldest_first.retain(|connection: &AbortHandle| !connection.is_finished());
                    if oldest_first.len() >= OBSERVERS_MAX
                        && let Some(oldest) = oldest_first.pop_front()
                    {
                        oldest.abort();
                    }
                    oldest_first.push_back(connections.spawn(connection(stream, edge.clone(), Peer::Observer)));
                }
                Err(error) => accept_failed(&error).await,
            },
        }
    }
    drop(listener);
    drain(connections, &edge).await;
}

/// Answers one request.
pub(super) async fn answer(edge: &Edge, pace: &Pace, arrived: Arrived, parts: &Parts) -> Response<Body> {
    let answer = match wanted(arrived.verdict, parts) {
        Err(status) => Err(status),
        Ok(Page::Live) => Ok((StatusCode::OK, "application/json", Bytes::from_static(b"{\"live\":true}"))),
        Ok(page) => match edge.observe().await {
            None => Err(StatusCode::SERVICE_UNAVAILABLE),
            Some((metrics, _)) if page == Page::Metrics => Ok((StatusCode::OK, TEXT, metrics)),
            Some((_, health)) => {
                let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                Ok((status, "application/json", Bytes::from(health.to_json())))
            }
        },
    };
    let close = pace.answering(answer.is_err());
    let (status, kind, body) = answer.unwrap_or_else(|status| (status, TEXT, Bytes::new()));
    let mut response = Response::new(Body::Whole(Full::new(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
    }
    if close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Metrics,
    Live,
    Ready,
}

/// The page that is asked for, or the status that refuses.
fn wanted(verdict: Verdict, parts: &Parts) -> Result<Page, StatusCode> {
    match verdict {
        Verdict::Bad(_) => return Err(StatusCode::BAD_REQUEST),
        Verdict::Length(0) => {}
        Verdict::Length(_) | Verdict::Chunked => return Err(StatusCode::PAYLOAD_TOO_LARGE),
    }
    if parts.version != Version::HTTP_11 || parts.uri.authority().is_some() || parts.uri.scheme().is_some() {
        return Err(StatusCode::BAD_REQUEST);
    }
    if !parts.headers.get(header::HOST).is_some_and(|host| is_loopback(host.as_bytes())) {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    let page = match (parts.uri.path(), parts.uri.query()) {
        ("/metrics", None) => Page::Metrics,
        ("/health/live", None) => Page::Live,
        ("/health/ready", None) => Page::Ready,
        _ => return Err(StatusCode::NOT_FOUND),
    };
    if parts.method == Method::GET { Ok(page) } else { Err(StatusCode::METHOD_NOT_ALLOWED) }
}

/// A Host that names this machine: a page in somebody's browser here, whose own name was pointed at us, does not.
fn is_loopback(host: &[u8]) -> bool {
    let Some(text) = is_host(host).then(|| std::str::from_utf8(host).ok()).flatten() else { return false };
    let name = match text.rsplit_once(':') {
        Some((name, port)) if !text.ends_with(']') && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => text,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

impl Edge {
    /// What there is, seen within the last second; nothing while a disk or a lock holds the look up.
    async fn observe(&self) -> Option<(Bytes, Health)> {
        // Whoever comes meanwhile waits for the one look there is.
        let mut last = timeout(PATIENCE, Arc::clone(&self.shared.observed.0).lock_owned()).await.ok()?;
        if let Some((at, metrics, health)) = last.as_ref()
            && at.elapsed() < LOOK
        {
            return Some((metrics.clone(), *health));
        }
        let edge = self.clone();
        // A task of its own: who gives up waiting leaves no second look beside this one.
        let look = tokio::spawn(async move {
            let readings = blocking(&edge, |controller| Ok((controller.readings(), controller.clock.now()))).await;
            let (readings, now) = readings.ok()?;
            let seen = metrics::MetricsInput {
                readings: &readings,
                refusals: &edge.shared.refusals.totals(),
                places: edge.shared.gate.places(),
                started_at: edge.shared.started_at,
                certificate_until: edge.shared.certificate.not_after(),
                now,
            };
            let (page, health) = (Bytes::from(metrics::page(&seen)), seen.health());
            *last = Some((Instant::now(), page.clone(), health));
            Some((page, health))
        });
        timeout(PATIENCE, look).await.ok()?.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::BadHead;

    // spec: OB-2
    #[test]
    fn only_a_host_that_names_this_machine_is_answered() {
        for host in ["127.0.0.1:9464", "127.0.0.1", "localhost", "LocalHost:9464", "[::1]:9464", "[::1]", "127.1.2.3:1"]
        {
            assert!(is_loopback(host.as_bytes()), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example:9464", "10.0.0.1:9464", "localhost.evil:1", "a@localhost"]
        {
            assert!(!is_loopback(host.as_bytes()), "{host}");
        }
    }

    // spec: OB-2
    #[test]
    fn three_pages_by_get_and_nothing_else() {
        let check = |verdict, method: &str, uri: &str| {
            let request = http::Request::builder().method(method).uri(uri).header("host", "127.0.0.1:9464");
            wanted(verdict, &request.body(()).unwrap().into_parts().0).map_err(|status| status.as_u16())
        };
        let none = Verdict::Length(0);
        assert_eq!(check(none, "GET", "/metrics"), Ok(Page::Metrics));
        assert_eq!(check(none, "GET", "/health/live"), Ok(Page::Live));
        assert_eq!(check(none, "GET", "/health/ready"), Ok(Page::Ready));
        for (verdict, method, uri, want) in [
            (none, "POST", "/metrics", 405),
            (none, "HEAD", "/metrics", 405),
            (none, "GET", "/", 404),
            (none, "GET", "/metrics/", 404),
            (none, "GET", "/metrics?a=b", 404),
            (none, "GET", "/api/host/status", 404),
            (none, "GET", "http://127.0.0.1:9464/metrics", 400),
            (Verdict::Length(1), "GET", "/metrics", 413),
            (Verdict::Chunked, "GET", "/metrics", 413),
            (Verdict::Bad(BadHead::Hosts), "GET", "/metrics", 400),
        ] {
            assert_eq!(check(verdict, method, uri), Err(want), "{method} {uri}");
        }
    }
}

//! What changes, as it changes: one look at all nodes every two seconds while anybody watches, rendered once for all who
//! do, as Server-Sent Events.
//!
//! Whoever does not read in time is let go and comes again. A stream in a session ends with it and keeps nobody signed
//! in; one by proof ends after an hour, and at once when the roster has its owner no more, or not by that key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{self, HeaderMap, HeaderValue};
use hyper::body::Bytes;
use lucia_people::audit::AuditVia;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::body::Body;
use super::error::ApiError;
use super::hub::{WatchGrant, Watcher};
use super::site::{Edge, blocking, stopped};
use super::{edge, who};
use crate::page::{Cells, cells};
use crate::parts::By;
use crate::refusal::Refusal;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Looks between two ticks, by which a browser knows that what it shows is live.
const LOOKS_PER_TICK: u32 = 2;
/// A row as it is sent.
#[derive(Serialize)]
struct LiveRow<'a> {
    id: &'a NodeId,
    #[serde(flatten)]
    cells: &'a Cells,
}

/// What was seen at the last look.
#[derive(Debug, Default)]
struct LastSent {
    rows: BTreeMap<NodeId, Cells>,
    sequence: u64,
}

fn event(name: &str, data: &impl Serialize) -> String {
    // Types of ours always serialize, and JSON has no line ends in it.
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(data).unwrap_or_default())
}

fn nodes<'a>(rows: impl Iterator<Item = (&'a NodeId, &'a Cells)>) -> Option<String> {
    let rows: Vec<LiveRow<'a>> = rows.map(|(id, cells)| LiveRow { id, cells }).collect();
    (!rows.is_empty()).then(|| event("nodes", &BTreeMap::from([("rows", rows)])))
}

/// What is told to those who know `old`: the rows that changed, and that the list did.
fn news(old: &LastSent, new: &LastSent) -> String {
    let changed = new.rows.iter().filter(|(id, cells)| old.rows.get(*id) != Some(*cells));
    let mut text = nodes(changed).unwrap_or_default();
    if old.sequence != new.sequence {
        text.push_str(&list(new));
    }
    text
}

/// That the list is now after this event.
fn list(seen: &LastSent) -> String {
    event("list", &BTreeMap::from([("sequence", seen.sequence)]))
}

/// That the controller is there: its clock, and within how many seconds it says so again.
fn tick(now: UnixTime) -> String {
    #[derive(Serialize)]
    struct Tick {
        at: UnixTime,
        every: u64,
    }
    event("tick", &Tick { at: now, every: LOOK.as_secs().saturating_mul(u64::from(LOOKS_PER_TICK)) })
}

/// What is told to who comes: every row, after which event that is, and a tick. Whoever has a document from before asks
/// for a new one.
fn whole(seen: &LastSent, now: UnixTime) -> String {
    nodes(seen.rows.iter()).unwrap_or_default() + &list(seen) + &tick(now)
}

/// `GET /api/host/stream`.
///
/// # Errors
/// `too_many_requests`; `actor_required` for an owner who came by nothing that is known here.
pub(super) fn watch(edge: &Edge, by: &By, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    let held = match by {
        By::Operator(_) => WatchGrant::Socket,
        By::Owner { id, via: AuditVia::Key, .. } => WatchGrant::Key(id.clone(), edge::owner_proof(headers)?.key),
        By::Owner { via: AuditVia::Session, .. } => {
            let token = who::token(headers).ok_or_else(|| Refusal::actor("a session without its cookie"))?;
            WatchGrant::Session(token.to_owned())
        }
    };
    let events = edge.shared.hub.join(by, held, Instant::now())?;
    let mut response = Response::new(Body::Events(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

impl Edge {
    /// Looks and tells until the controller stops, then lets everybody go.
    pub async fn live(self) {
        let mut stop = self.shared.stop.clone();
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = LastSent::default();
        let mut looks = 0_u32;
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                _ = look.tick() => {
                    looks = looks.wrapping_add(1);
                    seen = self.look(seen, looks.is_multiple_of(LOOKS_PER_TICK)).await;
                }
            }
        }
        self.shared.hub.with(Vec::clear);
    }

    async fn look(&self, seen: LastSent, ticks: bool) -> LastSent {
        let hub = Arc::clone(&self.shared.hub);
        let now = Instant::now();
        let parts = &self.shared.parts;
        let goes_on = |watcher: &Watcher| match &watcher.held {
            WatchGrant::Session(token) => parts.people.session_goes_on(token),
            WatchGrant::Key(owner, key) => now < watcher.until && parts.people.is_key_of(owner, key),
            WatchGrant::Socket => now < watcher.until,
        };
        if hub.with(|watchers| {
            watchers.retain(goes_on);
            watchers.is_empty()
        }) {
            return LastSent::default();
        }
        let looked = blocking(self, move |parts| {
            let now = parts.clock.now();
            let rows = parts
                .servers()
                .into_iter()
                .map(|row| {
                    let cells = cells(&row, now);
                    (row.line.node_id, cells)
                })
                .collect();
            let new = LastSent { rows, sequence: parts.journal.events(u64::MAX, 1).last_sequence };
            let mut told = news(&seen, &new);
            if ticks {
                told.push_str(&tick(now));
            }
            hub.tell(
                &Bytes::from(whole(&new, now)),
                Some(told).filter(|told| !told.is_empty()).map(Bytes::from).as_ref(),
            );
            Ok(new)
        });
        looked.await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::hub::{Hub, WAITING_MAX};
    use lucia_proto::base::code::Code;
    use lucia_proto::base::limits::{STREAMS_MAX, STREAMS_PER_OWNER_MAX};
    use tokio::sync::mpsc;

    fn cell(load: &str) -> Cells {
        let text = str::to_owned;
        Cells {
            name: text("n1"),
            silent: false,
            state: text("Online"),
            tone: crate::page::Tone::Ok,
            load: text(load),
            spark: text("M55 15h0"),
            memory: text("1 %"),
            storage: text("2 %"),
            temperature: text("–"),
            certificate: text("6 days"),
            look: String::new(),
        }
    }

    fn seen(rows: &[(&str, &str)], sequence: u64) -> LastSent {
        let rows = rows.iter().map(|(id, load)| (id.repeat(32).parse().unwrap(), cell(load)));
        LastSent { rows: rows.collect(), sequence }
    }

    // spec: PG-14, PG-37
    #[test]
    fn only_what_changed_is_told_and_to_everybody_the_same() {
        let old = seen(&[("1", "0.1"), ("2", "0.2")], 7);
        assert_eq!(news(&old, &seen(&[("1", "0.1"), ("2", "0.2")], 7)), "");
        let told = news(&old, &seen(&[("1", "0.1"), ("2", "0.3")], 8));
        assert!(told.starts_with("event: nodes\ndata: {\"rows\":[{\"id\":\"2222") && told.contains("\"load\":\"0.3\""));
        assert!(!told.contains("1111") && told.ends_with("event: list\ndata: {\"sequence\":8}\n\n"), "{told}");
        // Who comes hears of everything, and after which event: a document from before it is out of date.
        let now = UnixTime::from_secs(1_795_982_400);
        let tick = "event: tick\ndata: {\"at\":\"2026-11-29T20:00:00Z\",\"every\":4}\n\n";
        let all = whole(&seen(&[("1", "0.1")], 9), now);
        assert!(all.contains("1111") && all.ends_with(tick), "{all}");
        assert_eq!(whole(&seen(&[], 9), now), format!("event: list\ndata: {{\"sequence\":9}}\n\n{tick}"));
        let hub = Hub::default();
        let (all, told) = (Bytes::from_static(b"all"), Bytes::from_static(b"news"));
        let mut one = hub.join(&By::Operator(1), WatchGrant::Socket, Instant::now()).unwrap();
        hub.tell(&all, Some(&told));
        let mut two = hub.join(&By::Operator(2), WatchGrant::Socket, Instant::now()).unwrap();
        hub.tell(&all, Some(&told));
        hub.tell(&all, None);
        let read = |events: &mut mpsc::Receiver<Bytes>| events.try_recv().ok();
        assert_eq!((read(&mut one), read(&mut one), read(&mut one)), (Some(all.clone()), Some(told.clone()), None));
        assert_eq!((read(&mut two), read(&mut two)), (Some(all.clone()), None));
        // Who does not read is let go; who is gone is forgotten.
        for _ in 0..WAITING_MAX {
            hub.tell(&all, Some(&told));
        }
        drop(two);
        hub.tell(&all, Some(&told));
        assert!(hub.with(|watchers| watchers.is_empty()));
    }

    // spec: PG-15
    #[test]
    fn few_watch_in_all_and_fewer_of_one_person() {
        let hub = Hub::default();
        let join = |uid: u32| hub.join(&By::Operator(uid), WatchGrant::Socket, Instant::now());
        let mut there = Vec::new();
        for _ in 0..STREAMS_PER_OWNER_MAX {
            there.push(join(1000).unwrap());
        }
        assert_eq!(join(1000).unwrap_err().code, Code::TooManyRequests);
        for uid in (0..).take(STREAMS_MAX - STREAMS_PER_OWNER_MAX) {
            there.push(join(uid).unwrap());
        }
        assert_eq!(join(2000).unwrap_err().code, Code::TooManyRequests);
        there.pop();
        assert!(join(2000).is_ok());
    }
}

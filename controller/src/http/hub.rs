//! Who watches what changes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{STREAMS_MAX, STREAMS_PER_OWNER_MAX};
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::pki::key::Fingerprint;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::error::ApiError;
use crate::parts::By;

/// A stream by proof ends after this long; whoever watches on proves again.
const PROVED_FOR: Duration = Duration::from_secs(3600);
/// Messages that wait for a slow reader.
pub(super) const WAITING_MAX: usize = 8;

/// What lets somebody watch on.
#[derive(Clone, Debug)]
pub(super) enum WatchGrant {
    /// The Unix socket.
    Socket,
    /// A session of the page.
    Session(String),
    /// A key of somebody's of the roster, by which they proved who they are.
    Key(OwnerId, Fingerprint),
}

/// Somebody who watches.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Where events go.
    pub(super) send: mpsc::Sender<Bytes>,
    /// Whose it is, as the journal has them.
    pub(super) whose: String,
    /// By what.
    pub(super) held: WatchGrant,
    /// When it ends at the latest; a session knows that itself.
    pub(super) until: Instant,
    /// It has not been told everything yet.
    pub(super) is_new: bool,
}

/// All who watch.
#[derive(Debug, Default)]
pub(super) struct Hub(Mutex<Vec<Watcher>>);

impl Hub {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Vec<Watcher>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn join(&self, by: &By, held: WatchGrant, now: Instant) -> Result<mpsc::Receiver<Bytes>, ApiError> {
        let whose = by.actor();
        self.with(|watchers| {
            watchers.retain(|watcher| !watcher.send.is_closed());
            let own = watchers.iter().filter(|watcher| watcher.whose == whose).count();
            if watchers.len() >= STREAMS_MAX || own >= STREAMS_PER_OWNER_MAX {
                let message = format!("at most {STREAMS_PER_OWNER_MAX} streams a person, {STREAMS_MAX} in all");
                return Err(ApiError::new(Code::TooManyRequests, &message));
            }
            let (send, events) = mpsc::channel(WAITING_MAX);
            watchers.push(Watcher { send, whose, held, until: now + PROVED_FOR, is_new: true });
            Ok(events)
        })
    }

    /// Sends `all` to whoever is new and `news` to the others; whoever has gone, or reads too slowly, leaves.
    pub(super) fn tell(&self, all: &Bytes, news: Option<&Bytes>) {
        self.with(|watchers| {
            watchers.retain_mut(|watcher| {
                let message = if std::mem::take(&mut watcher.is_new) { Some(all) } else { news };
                message.is_none_or(|message| watcher.send.try_send(message.clone()).is_ok())
            });
        });
    }
}

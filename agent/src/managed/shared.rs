//! What the loops share: the certificate in force, the status, and who made progress when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lucia_daemon::notify::Notify;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::Clock;
use lucia_proto::node::heartbeat::DirectoryReport;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::clock::ServerClock;
use crate::client::{CallError, cure};
use crate::directory::Orders;
use crate::host::state::State;
use crate::host::status::{Reason, Refusal, Status, StatusFile, gist};
use crate::identity::Certificate;
use crate::keys::OrderedKeys;
use crate::managed::usage::Readings;

/// A loop that is at work this long, or asleep this much longer than it said, makes no progress.
pub const SLACK: Duration = Duration::from_secs(150);

/// How the node stands to the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryStanding {
    /// Whether heartbeats may go out: it worked once, or there is none.
    pub open: bool,
    /// What heartbeats and `status` say of it; nothing where there is none.
    pub report: Option<DirectoryReport>,
}

/// Shared by all loops of one daemon.
pub struct Shared {
    /// The private directory, held for as long as the daemon runs.
    pub state: State,
    /// The machine's clocks.
    pub clock: Arc<dyn Clock>,
    /// The controller's clock.
    pub server: Arc<ServerClock>,
    /// The certificate in force or lapsed, as the certificate loop last had it.
    pub certificate: watch::Sender<Option<Arc<Certificate>>>,
    /// What the usage loop last read.
    pub readings: watch::Sender<Option<Readings>>,
    /// What the worker's answer says of a directory.
    pub orders: watch::Sender<Orders>,
    /// How the node stands to it.
    pub standing: watch::Sender<DirectoryStanding>,
    /// The keys that owners ordered; sent with each reply, so that an account which only now is there gets its keys.
    pub keys: watch::Sender<Arc<OrderedKeys>>,
    /// What `/etc/hostname` says, once the controller said that it is the approved name and no certificate is for it yet.
    pub approved: watch::Sender<Option<Hostname>>,
    notify: Notify,
    status: Mutex<(StatusFile, Status)>,
    due: Mutex<BTreeMap<&'static str, Instant>>,
}

impl Shared {
    /// The shared part of a daemon that starts with `status`.
    #[must_use]
    pub fn new(state: State, file: StatusFile, status: Status, clock: Arc<dyn Clock>, notify: Notify) -> Self {
        Self {
            state,
            clock,
            server: Arc::new(ServerClock::new()),
            certificate: watch::Sender::new(None),
            readings: watch::Sender::new(None),
            orders: watch::Sender::new(Orders::Unknown),
            standing: watch::Sender::new(DirectoryStanding::default()),
            keys: watch::Sender::new(Arc::new(OrderedKeys::unknown())),
            approved: watch::Sender::new(None),
            notify,
            status: Mutex::new((file, status)),
            due: Mutex::new(BTreeMap::new()),
        }
    }

    /// systemd's ear.
    #[must_use]
    pub const fn notify(&self) -> &Notify {
        &self.notify
    }

    /// The status as it is.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.status).1.clone()
    }

    /// Changes the status and writes it where it belongs.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        let mut status = lock(&self.status);
        let (file, status) = &mut *status;
        let before = status.line();
        change(status);
        status.clock_offset_seconds = self.server.offset_seconds(self.clock.as_ref());
        let line = status.line();
        if line != before {
            self.notify.status(&line);
        }
        file.write(&self.state, status);
    }

    /// Notes that a call was refused or not answered, and logs it when that is new.
    pub fn refused(&self, call: &'static str, what: String, cure: &str) {
        self.held_up(call, what, cure, None);
    }

    fn held_up(&self, call: &'static str, what: String, cure: &str, reason: Option<Reason>) {
        self.update(|status| {
            let before = status.refusals.iter().position(|last| last.call == call);
            let before = before.map(|at| status.refusals.remove(at));
            if before.as_ref().is_none_or(|last| gist(&last.what) != gist(&what)) {
                tracing::warn!("{call}: {what}; {cure}");
            }
            let at = self.clock.now();
            // Since it first failed, whatever the reason was then.
            let since = before.and_then(|last| last.since).or(Some(at));
            let refusal = Refusal { at, since, call: call.to_owned(), reason, what, cure: cure.to_owned() };
            status.refusals.push(refusal);
            status.refusals.sort_by(|one, two| one.call.cmp(&two.call));
        });
    }

    /// Notes a failed call.
    pub fn failed(&self, call: &'static str, error: &CallError) {
        self.held_up(call, crate::host::chain(error), cure::of(error), cure::reason(error));
    }

    /// Notes that a call succeeded: what was refused of it is over.
    pub fn succeeded(&self, call: &'static str, change: impl FnOnce(&mut Status)) {
        self.update(|status| {
            let before = status.refusals.len();
            status.refusals.retain(|last| last.call != call);
            if status.refusals.len() < before {
                tracing::info!("{call}: works again");
            }
            change(status);
        });
    }

    /// Loop `name` will be heard of again within `span` and [`SLACK`].
    pub fn expect_within(&self, name: &'static str, span: Duration) {
        lock(&self.due).insert(name, Instant::now() + span + SLACK);
    }

    /// The first loop that is overdue.
    #[must_use]
    pub fn overdue(&self) -> Option<&'static str> {
        let now = Instant::now();
        lock(&self.due).iter().find(|(_, due)| **due < now).map(|(name, _)| *name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is guarded here is ever half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

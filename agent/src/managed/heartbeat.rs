//! The heartbeat loop: every 30 seconds, over one kept connection, from readings that were taken beside its path.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::bounded::OutOfBounds;
use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::HEARTBEAT_INTERVAL;
use lucia_proto::base::names::Hostname;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::agent;
use lucia_proto::node::heartbeat::{DirectoryReport, Heartbeat, HeartbeatFields};
use lucia_proto::node::report::Purpose;
use lucia_proto::orders::exchange::OrdersReport;
use thiserror::Error;
use tokio::time::{sleep, timeout};

use super::ended::Ended;
use super::names;
use super::reply::Reply;
use super::shared::Shared;
use super::usage::Readings;
use crate::client::retry::{Backoff, Pace};
use crate::client::transport::Transport;
use crate::client::{CallError, Client};
use crate::host::failed::Failed;
use crate::host::random;
use crate::host::status::Doing;
use crate::identity::Certificate;
use crate::identity::starts::Starts;
use crate::orders::carry::Facts;
use crate::owners::offer::Offer;
use crate::owners::{Ending, Owners};

/// Longest wait for something that another loop brings, so that this loop is seen to be alive.
const LISTEN: Duration = Duration::from_secs(60);

/// Time until the readings are looked for again.
const NO_READINGS: Duration = Duration::from_secs(5);

/// Time between two tries to say the last word of an identity that is removed, or of a holder that stops.
const FAREWELL_EVERY: Duration = Duration::from_secs(10);

/// What cures a start that cannot be written.
const STARTS_CURE: &str = "free space on the disk of /var/lib/lucia; it is tried again";

/// How a turn ended.
enum Beat {
    Accepted,
    Lapsed,
    NoReadings,
}

/// The report of one reading.
///
/// # Errors
/// A reading out of bounds, naming it.
pub fn heartbeat(
    node_id: &NodeId,
    hostname: &Hostname,
    readings: &Readings,
    starts: Option<&Starts>,
    directory: Option<DirectoryReport>,
    (orders, extensions): (Option<OrdersReport>, Extensions),
) -> Result<Heartbeat, OutOfBounds> {
    Heartbeat::try_from(HeartbeatFields {
        node_id: node_id.clone(),
        purpose: Purpose::Heartbeat,
        hostname: hostname.clone(),
        new_hostname: names::other(hostname, readings.machine_name.as_deref()),
        os_version: readings.os_version.clone(),
        uptime_seconds: readings.uptime_seconds,
        load_average: readings.load_average,
        memory_total_bytes: readings.memory_total_bytes,
        memory_available_bytes: readings.memory_available_bytes,
        storage_total_bytes: readings.storage_total_bytes,
        storage_available_bytes: readings.storage_available_bytes,
        runtime: None,
        updates: None,
        agent_release: None,
        cpu_percent: readings.cpu_percent,
        cpu_temperature_celsius: readings.cpu_temperature_celsius,
        gpu_percent: readings.gpu_percent,
        gpu_temperature_celsius: readings.gpu_temperature_celsius,
        features: agent::features(),
        start_id: starts.map(|starts| starts.start_id().clone()),
        former_starts: starts.map_or_else(Vec::new, |starts| starts.former_starts().to_vec()),
        chain: starts.and_then(Starts::chain),
        boot_id: readings.boot_id.clone(),
        directory,
        orders,
        extensions,
    })
}

/// Says that the node is alive.
pub struct HeartbeatLoop<T> {
    client: Client<T>,
    backoff: Backoff,
    shared: Arc<Shared>,
    owners: Rc<RefCell<Owners>>,
    /// This start, once the first heartbeat is about to be sent.
    starts: Option<Starts>,
}

/// Why a turn sent nothing or was not heard.
#[derive(Debug, Error)]
enum Unheard {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Disk(#[from] Failed),
}

impl<T: Transport> HeartbeatLoop<T> {
    /// The loop of the node that `client` speaks for.
    #[must_use]
    pub const fn new(client: Client<T>, backoff: Backoff, shared: Arc<Shared>, owners: Rc<RefCell<Owners>>) -> Self {
        Self { client, backoff, shared, owners, starts: None }
    }

    /// One turn; says how long to wait for the next.
    ///
    /// # Errors
    /// When nobody knows what the disk holds: the daemon ends, and its next start reads what is really there.
    pub async fn turn(&mut self) -> Result<Duration, Failed> {
        let mut certificates = self.shared.certificate.subscribe();
        let Some(certificate) = certificates.borrow_and_update().clone() else {
            // Woken by the certificate itself: the first heartbeat follows it at once.
            let _ = timeout(LISTEN, certificates.changed()).await;
            return Ok(Duration::ZERO);
        };
        let mut standing = self.shared.standing.subscribe();
        if !standing.borrow_and_update().open {
            // Owners who can log in come before the first word that the node is there (design.md N4).
            if self.shared.status().doing == Doing::Certified {
                self.shared.update(|status| status.doing = Doing::AwaitingDirectory);
            }
            let _ = timeout(LISTEN, standing.changed()).await;
            return Ok(Duration::ZERO);
        }
        match self.beat(&certificate).await {
            Ok(Beat::Accepted) => {
                self.backoff.reset();
                Ok(self.backoff.around(HEARTBEAT_INTERVAL))
            }
            Ok(Beat::Lapsed) => {
                // The certificate loop recovers it; until then nothing but its renewal is sent.
                let _ = timeout(LISTEN, certificates.changed()).await;
                Ok(Duration::ZERO)
            }
            Ok(Beat::NoReadings) => Ok(NO_READINGS),
            Err(Unheard::Call(error)) => {
                self.shared.failed("heartbeat", &error);
                Ok(self.backoff.next(Pace::after(&error), error.retry_after()))
            }
            Err(Unheard::Disk(error)) => {
                self.shared.refused("heartbeat", crate::host::chain(&*error), STARTS_CURE);
                if error.is_doubtful() { Err(error) } else { Ok(self.backoff.around(HEARTBEAT_INTERVAL)) }
            }
        }
    }

    /// Sends one heartbeat, if there is something to send and a certificate in force to send it with.
    async fn beat(&mut self, certificate: &Certificate) -> Result<Beat, Unheard> {
        names::note(&self.shared, &certificate.hostname);
        // The challenge held or fetched here tells the controller's time, and that alone decides whether it is over.
        let now = self.client.prepare(Endpoint::Heartbeat).await?;
        if now > certificate.not_after {
            return Ok(Beat::Lapsed);
        }
        let Some(report) = self.report(&certificate.hostname)? else { return Ok(Beat::NoReadings) };
        let answer = self.client.call(Endpoint::Heartbeat, &report, Some(&certificate.pem)).await?;
        let Reply { chain, frozen, hostname, orders, .. } = answer.json()?;
        names::told(&self.shared, &certificate.hostname, hostname);
        let offer = orders.as_ref().map(Offer::of).unwrap_or_default();
        self.owners(&certificate.hostname, report.orders.as_ref(), offer)?;
        // Written beside this path: a disk or a directory that is slow delays no heartbeat.
        self.shared.keys.send_replace(self.owners.borrow().keys());
        let at = self.client.server_now();
        let (start_id, first_start) = (report.start_id.clone(), report.former_starts.is_empty());
        let since_boot = self.shared.clock.since_boot();
        self.shared.succeeded("heartbeat", |status| {
            if let Some(run) = &mut status.run {
                run.heartbeat = Some(since_boot.as_secs());
            }
            status.ended = None;
            status.doing = Doing::Heartbeating;
            status.heartbeats = status.heartbeats.saturating_add(1);
            status.last_heartbeat = at;
            (status.start_id, status.first_start) = (start_id, first_start);
            if frozen && !status.frozen {
                tracing::warn!("{}", status.frozen_words());
            }
            status.frozen = frozen;
        });
        if let Some(starts) = &mut self.starts {
            let since_boot = self.shared.clock.since_boot();
            let noted = starts.answered(&self.shared.state, chain);
            // While it is frozen this start is the one that a person decides about.
            let grown =
                noted.and_then(|()| if frozen { Ok(()) } else { starts.grow_old(&self.shared.state, since_boot) });
            // A full disk costs nothing here: this start goes on as one that was not answered, or as it is.
            if let Err(error) = grown {
                tracing::warn!("{}", crate::host::chain(&*error));
                if error.is_doubtful() {
                    return Err(error.into());
                }
            }
        }
        Ok(Beat::Accepted)
    }

    /// What is to be said, with a start that is on the disk.
    fn report(&mut self, hostname: &Hostname) -> Result<Option<Heartbeat>, Failed> {
        let Some(readings) = self.shared.readings.borrow().clone() else { return Ok(None) };
        let directory = self.shared.standing.borrow().report.clone();
        let starts = match &mut self.starts {
            Some(starts) => starts,
            none => none.insert(Starts::begin(&self.shared.state, self.shared.clock.since_boot())?),
        };
        let since_boot = self.shared.clock.since_boot();
        let mut owners = self.owners.borrow_mut();
        // Without randomness nothing is asked, so no order is taken, and the heartbeat goes out all the same.
        let drawn = owners.asks(since_boot).then(random::bytes).transpose();
        let drawn = drawn.inspect_err(|error| tracing::warn!("{}", crate::host::chain(error))).ok().flatten();
        let orders = owners.report(drawn.as_deref(), since_boot);
        let told = (Some(orders), agent::extensions(env!("CARGO_PKG_VERSION"), &owners.rules()));
        let report = heartbeat(self.client.node_id(), hostname, &readings, Some(starts), directory, told);
        let unsent = |error: &OutOfBounds| tracing::warn!("this machine's readings cannot be sent: {error}");
        Ok(report.inspect_err(unsent).ok())
    }

    /// What a reply to `said` brought about orders, and what became of it.
    fn owners(&self, hostname: &Hostname, said: Option<&OrdersReport>, offer: Offer) -> Result<(), Failed> {
        let (state, clock) = (&self.shared.state, &self.shared.clock);
        let start_id = self.starts.as_ref().map(Starts::start_id);
        let former_starts = self.starts.as_ref().map_or(&[][..], Starts::former_starts);
        let mut owners = self.owners.borrow_mut();
        if let Some(said) = said
            && let Err(error) = owners.told(state, said)
        {
            tracing::warn!("{}", crate::host::chain(&error));
            if error.is_doubtful() {
                return Err(error.into());
            }
        }
        let machine = names::machine(&self.shared).and_then(|name| name.parse::<Hostname>().ok());
        let machine = machine.as_ref();
        let me = Facts { hostname, machine, start_id, former_starts, since_boot: clock.since_boot(), now: clock.now() };
        let notes = owners.take(state, offer, me)?;
        let told = owners.status();
        drop(owners);
        let before = self.shared.status();
        for note in notes {
            match note.refused {
                Some(error) => self.shared.refused(note.call, crate::host::chain(&error), error.cure()),
                None if before.refusals.iter().any(|last| last.call == note.call) => {
                    self.shared.succeeded(note.call, |_| {});
                }
                None => {}
            }
        }
        if before.owners.as_ref() != Some(&told) {
            self.shared.update(|status| status.owners = Some(told));
        }
        Ok(())
    }

    /// Turns for ever, or until an owner's word ends the daemon.
    pub async fn run(mut self) -> Ended {
        loop {
            self.shared.expect_within("heartbeat", LISTEN);
            let is_leaving = self.owners.borrow().is_leaving();
            if is_leaving {
                self.owners.borrow_mut().count_farewell();
            }
            let done = self.turn().await;
            match self.owners.borrow().ending() {
                Some(Ending::Stopped(why)) => return Ended::Stopped(why),
                Some(Ending::Remove) => return Ended::Removed,
                None => {}
            }
            match done {
                Ok(pause) => {
                    // The last word is said soon, or not at all.
                    let pause = if self.owners.borrow().is_leaving() { pause.min(FAREWELL_EVERY) } else { pause };
                    self.shared.expect_within("heartbeat", pause);
                    sleep(pause).await;
                }
                Err(error) => {
                    return Ended::Broke(format!(
                        "{}; the daemon restarts to read what is on the disk",
                        crate::host::chain(&*error)
                    ));
                }
            }
        }
    }
}

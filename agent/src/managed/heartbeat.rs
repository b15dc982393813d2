//! The heartbeat loop: every 30 seconds, over one kept connection, from readings that were taken beside its path.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::api::Endpoint;
use lucia_proto::bounded::OutOfBounds;
use lucia_proto::feature::Features;
use lucia_proto::heartbeat::{Heartbeat, HeartbeatFields, HeartbeatReply};
use lucia_proto::ids::NodeId;
use lucia_proto::limits::HEARTBEAT_INTERVAL;
use lucia_proto::names::Hostname;
use lucia_proto::report::Purpose;
use tokio::time::{sleep, timeout};

use super::shared::Shared;
use super::usage::Readings;
use crate::client::retry::{Backoff, Pace};
use crate::client::transport::Transport;
use crate::client::{CallError, Client};
use crate::host::status::{self, Doing};
use crate::identity::Certificate;
use crate::identity::starts::{Starts, StartsError};

/// Longest wait for something that another loop brings, so that this loop is seen to be alive.
const LISTEN: Duration = Duration::from_secs(60);

/// Time until the readings are looked for again.
const NO_READINGS: Duration = Duration::from_secs(5);

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
) -> Result<Heartbeat, OutOfBounds> {
    Heartbeat::try_from(HeartbeatFields {
        node_id: node_id.clone(),
        purpose: Purpose::Heartbeat,
        hostname: hostname.clone(),
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
        gpu_percent: None,
        gpu_temperature_celsius: None,
        features: Features::default(),
        start_id: starts.map(|starts| starts.start_id().clone()),
        former_starts: starts.map_or_else(Vec::new, |starts| starts.former_starts().to_vec()),
        chain: starts.and_then(Starts::chain),
        boot_id: readings.boot_id.clone(),
        extensions: BTreeMap::new(),
    })
}

/// Says that the node is alive.
pub struct HeartbeatLoop<T> {
    client: Client<T>,
    hostname: Hostname,
    backoff: Backoff,
    shared: Arc<Shared>,
    /// This start, once the first heartbeat is about to be sent.
    starts: Option<Starts>,
}

/// Why a turn sent nothing or was not heard.
enum Unheard {
    Call(CallError),
    Starts(StartsError),
}

impl From<CallError> for Unheard {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<StartsError> for Unheard {
    fn from(error: StartsError) -> Self {
        Self::Starts(error)
    }
}

impl<T: Transport> HeartbeatLoop<T> {
    /// The loop of the node that `client` speaks for.
    #[must_use]
    pub const fn new(client: Client<T>, hostname: Hostname, backoff: Backoff, shared: Arc<Shared>) -> Self {
        Self { client, hostname, backoff, shared, starts: None }
    }

    /// One turn; says how long to wait for the next.
    ///
    /// # Errors
    /// When nobody knows what the disk holds; the daemon ends, and its next start reads what is really there.
    pub async fn turn(&mut self) -> Result<Duration, StartsError> {
        let mut certificates = self.shared.certificate.subscribe();
        let Some(certificate) = certificates.borrow_and_update().clone() else {
            // Woken by the certificate itself: the first heartbeat follows it at once.
            let _ = timeout(LISTEN, certificates.changed()).await;
            return Ok(Duration::ZERO);
        };
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
            Err(Unheard::Starts(error)) => {
                self.shared.refused("heartbeat", crate::host::chain(&error), STARTS_CURE);
                if error.is_doubtful() { Err(error) } else { Ok(self.backoff.around(HEARTBEAT_INTERVAL)) }
            }
        }
    }

    /// Sends one heartbeat, if there is something to send and a certificate in force to send it with.
    async fn beat(&mut self, certificate: &Certificate) -> Result<Beat, Unheard> {
        // The challenge held or fetched here tells the controller's time, and that alone decides whether it is over.
        let now = self.client.prepare(Endpoint::Heartbeat).await?;
        if now > certificate.not_after {
            return Ok(Beat::Lapsed);
        }
        let Some(report) = self.report()? else { return Ok(Beat::NoReadings) };
        let answer = self.client.call(Endpoint::Heartbeat, &report, Some(&certificate.pem)).await?;
        // Its members beyond these are for later steps.
        let HeartbeatReply { chain, frozen, .. } = answer.json()?;
        let at = self.client.server_now();
        let start_id = report.start_id.clone();
        self.shared.succeeded("heartbeat", |status| {
            status.doing = Doing::Heartbeating;
            status.heartbeats = status.heartbeats.saturating_add(1);
            status.last_heartbeat = at;
            status.start_id = start_id;
            if frozen && !status.frozen {
                tracing::warn!("{}", status::FROZEN);
            }
            status.frozen = frozen;
        });
        if let Some(starts) = &mut self.starts {
            let since_boot = self.shared.clock.since_boot();
            let noted = starts.answered(&self.shared.state, chain);
            // A full disk costs nothing here: this start goes on as one that was not answered, or as it is.
            if let Err(error) = noted.and_then(|()| starts.grow_old(&self.shared.state, since_boot)) {
                tracing::warn!("{}", crate::host::chain(&error));
                if error.is_doubtful() {
                    return Err(error.into());
                }
            }
        }
        Ok(Beat::Accepted)
    }

    /// What is to be said, with a start that is on the disk.
    fn report(&mut self) -> Result<Option<Heartbeat>, StartsError> {
        let Some(readings) = self.shared.readings.borrow().clone() else { return Ok(None) };
        let starts = match &mut self.starts {
            Some(starts) => starts,
            none => none.insert(Starts::begin(&self.shared.state, self.shared.clock.since_boot())?),
        };
        let report = heartbeat(self.client.node_id(), &self.hostname, &readings, Some(starts));
        let told = |error: &OutOfBounds| tracing::warn!("this machine's readings cannot be sent: {error}");
        Ok(report.inspect_err(told).ok())
    }

    /// Turns for ever.
    pub async fn run(mut self) -> String {
        loop {
            self.shared.expect_within("heartbeat", LISTEN);
            match self.turn().await {
                Ok(pause) => {
                    self.shared.expect_within("heartbeat", pause);
                    sleep(pause).await;
                }
                Err(error) => return format!("{}; the daemon ends to read it anew", crate::host::chain(&error)),
            }
        }
    }
}

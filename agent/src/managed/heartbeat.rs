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
use crate::host::status::Doing;
use crate::identity::Certificate;

/// Longest wait for something that another loop brings, so that this loop is seen to be alive.
const LISTEN: Duration = Duration::from_secs(60);

/// Time until the readings are looked for again.
const NO_READINGS: Duration = Duration::from_secs(5);

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
pub fn heartbeat(node_id: &NodeId, hostname: &Hostname, readings: &Readings) -> Result<Heartbeat, OutOfBounds> {
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
        extensions: BTreeMap::new(),
    })
}

/// Says that the node is alive.
pub struct HeartbeatLoop<T> {
    client: Client<T>,
    hostname: Hostname,
    backoff: Backoff,
    shared: Arc<Shared>,
}

impl<T: Transport> HeartbeatLoop<T> {
    /// The loop of the node that `client` speaks for.
    #[must_use]
    pub const fn new(client: Client<T>, hostname: Hostname, backoff: Backoff, shared: Arc<Shared>) -> Self {
        Self { client, hostname, backoff, shared }
    }

    /// One turn; says how long to wait for the next.
    pub async fn turn(&mut self) -> Duration {
        let mut certificates = self.shared.certificate.subscribe();
        let Some(certificate) = certificates.borrow_and_update().clone() else {
            // Woken by the certificate itself: the first heartbeat follows it at once.
            let _ = timeout(LISTEN, certificates.changed()).await;
            return Duration::ZERO;
        };
        match self.beat(&certificate).await {
            Ok(Beat::Accepted) => {
                self.backoff.reset();
                self.backoff.around(HEARTBEAT_INTERVAL)
            }
            Ok(Beat::Lapsed) => {
                // The certificate loop recovers it; until then nothing but its renewal is sent.
                let _ = timeout(LISTEN, certificates.changed()).await;
                Duration::ZERO
            }
            Ok(Beat::NoReadings) => NO_READINGS,
            Err(error) => {
                self.shared.failed("heartbeat", &error);
                self.backoff.next(Pace::after(&error), error.retry_after())
            }
        }
    }

    /// Sends one heartbeat, if there is something to send and a certificate in force to send it with.
    async fn beat(&mut self, certificate: &Certificate) -> Result<Beat, CallError> {
        // The challenge held or fetched here tells the controller's time, and that alone decides whether it is over.
        let now = self.client.prepare(Endpoint::Heartbeat).await?;
        if now > certificate.not_after {
            return Ok(Beat::Lapsed);
        }
        let Some(report) = self.report() else { return Ok(Beat::NoReadings) };
        let answer = self.client.call(Endpoint::Heartbeat, &report, Some(&certificate.pem)).await?;
        // Its members beyond `accepted` are for later steps.
        let HeartbeatReply { .. } = answer.json()?;
        let at = self.client.server_now();
        self.shared.succeeded("heartbeat", |status| {
            status.doing = Doing::Heartbeating;
            status.heartbeats = status.heartbeats.saturating_add(1);
            status.last_heartbeat = at;
        });
        Ok(Beat::Accepted)
    }

    fn report(&self) -> Option<Heartbeat> {
        let readings = self.shared.readings.borrow().clone()?;
        let report = heartbeat(self.client.node_id(), &self.hostname, &readings);
        report.inspect_err(|error| tracing::warn!("this machine's readings cannot be sent: {error}")).ok()
    }

    /// Turns for ever.
    pub async fn run(mut self) -> String {
        loop {
            self.shared.expect_within("heartbeat", LISTEN);
            let pause = self.turn().await;
            self.shared.expect_within("heartbeat", pause);
            sleep(pause).await;
        }
    }
}

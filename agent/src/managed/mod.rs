//! `managed-run`: starts every loop, in this file and nowhere else (design.md N3).
//!
//! | loop | does | interval |
//! |---|---|---|
//! | `usage` | reads load, memory, storage, processor and temperature | 30 s |
//! | `certificate` | first certificate, renewal, recovery of a lapsed one | 60 s ± a tenth, or its back-off |
//! | `heartbeat` | says that the node is alive | 30 s ± a tenth, or its back-off |
//! | `watchdog` | tells systemd that the loops make progress | half of `WatchdogSec=` |
//!
//! A loop that ends ends the daemon; systemd starts it again. The daemon has no settings of its own.

pub mod certificate;
pub mod heartbeat;
pub mod shared;
pub mod start;
pub mod usage;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::key::NodeKey;
use lucia_proto::time::Clock;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use self::certificate::CertificateLoop;
use self::heartbeat::HeartbeatLoop;
use self::shared::Shared;
use self::start::Installed;
use self::usage::Sampler;
use crate::client::Client;
use crate::client::clock::ServerClock;
use crate::client::retry::Backoff;
use crate::client::transport::Transport;
use crate::identity::Identity;

/// Time between two readings.
const SAMPLE_EVERY: Duration = Duration::from_secs(30);
/// The watchdog's interval where systemd wants none: the overdue loop is then only logged.
const WATCH_EVERY: Duration = Duration::from_secs(60);

/// What one daemon is made of. `transport` makes a connection for each loop that talks.
pub struct Daemon<F> {
    /// Shared by the loops.
    pub shared: Arc<Shared>,
    /// The node's key.
    pub key: Arc<NodeKey>,
    /// Who the node is.
    pub identity: Identity,
    /// Makes a transport.
    pub transport: F,
    /// Reads the machine.
    pub sampler: Sampler,
    /// Where jitter comes from.
    pub seed: u64,
}

/// Runs until a loop ends, which is why the daemon must: says which and why. The proof is what lets it start.
pub async fn run<T, F>(_installed: &Installed, daemon: Daemon<F>) -> String
where
    T: Transport + 'static,
    F: Fn() -> T,
{
    let Daemon { shared, key, identity, transport, sampler, seed } = daemon;
    let client = || {
        let clock: Arc<dyn Clock> = Arc::clone(&shared.clock);
        let server: Arc<ServerClock> = Arc::clone(&shared.server);
        Client::new(transport(), Arc::clone(&key), clock, server)
    };
    let hostname = identity.hostname().clone();
    let certificate = CertificateLoop::new(client(), identity, Backoff::new(seed.wrapping_mul(3)), Arc::clone(&shared));
    let heartbeat =
        HeartbeatLoop::new(client(), hostname, Backoff::new(seed.wrapping_mul(5).wrapping_add(1)), Arc::clone(&shared));

    let mut loops = JoinSet::new();
    let local = LocalSet::new();
    start(&mut loops, &local, "usage", usage_loop(sampler, Arc::clone(&shared)));
    start(&mut loops, &local, "certificate", certificate.run());
    start(&mut loops, &local, "heartbeat", heartbeat.run());
    start(&mut loops, &local, "watchdog", watchdog(Arc::clone(&shared)));
    shared.notify().ready();
    shared.notify().status(&shared.status().line());
    local
        .run_until(async move {
            match loops.join_next().await {
                Some(Ok(why)) => why,
                Some(Err(error)) => format!("a loop broke: {error}"),
                None => "there is no loop".to_owned(),
            }
        })
        .await
}

fn start(
    loops: &mut JoinSet<String>,
    local: &LocalSet,
    name: &'static str,
    run: impl Future<Output = String> + 'static,
) {
    loops.spawn_local_on(async move { format!("the {name} loop ended: {}", run.await) }, local);
}

async fn usage_loop(mut sampler: Sampler, shared: Arc<Shared>) -> String {
    loop {
        if let Some(readings) = sampler.sample() {
            shared.readings.send_replace(Some(readings));
        }
        shared.expect_within("usage", SAMPLE_EVERY);
        sleep(SAMPLE_EVERY).await;
    }
}

async fn watchdog(shared: Arc<Shared>) -> String {
    let every = shared.notify().watchdog_interval().map_or(WATCH_EVERY, |longest| longest / 2);
    loop {
        match shared.overdue() {
            None => shared.notify().alive(),
            Some(name) => tracing::error!("the {name} loop makes no progress; systemd is not told that all is well"),
        }
        sleep(every).await;
    }
}

#[cfg(test)]
mod tests;

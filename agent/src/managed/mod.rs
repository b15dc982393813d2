//! `managed-run`: starts every loop, in this file and nowhere else (design.md N3).
//!
//! | loop | does | interval |
//! |---|---|---|
//! | `usage` | reads load, memory, storage, processor and temperature | 30 s |
//! | `certificate` | first certificate, renewal, recovery of a lapsed one | 60 s ± a tenth, or its back-off |
//! | `directory` | sets sssd and sshd up as the worker's answer says | 15 min ± a tenth, or its back-off |
//! | `heartbeat` | says that the node is alive | 30 s ± a tenth, or its back-off |
//! | `keys` | writes the SSH keys that owners signed, and removes all others | at the start and with each reply |
//! | `watchdog` | tells systemd that the loops make progress | half of `WatchdogSec=` |
//!
//! A loop that ends ends the daemon; systemd starts it again, unless an owner's word ended it. The daemon has no settings
//! of its own.

pub mod certificate;
pub mod directory;
mod ended;
pub mod heartbeat;
pub mod keys;
mod names;
mod reply;
pub mod shared;
pub mod start;
pub mod usage;

use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::time::Clock;
use lucia_proto::pki::key::NodeKey;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use self::certificate::CertificateLoop;
use self::directory::{DirectoryLoop, Parts};
pub use self::ended::Ended;
use self::heartbeat::HeartbeatLoop;
use self::keys::KeysLoop;
use self::shared::Shared;
use self::start::Installed;
use self::usage::Sampler;
use crate::client::Client;
use crate::client::clock::ServerClock;
use crate::client::retry::Backoff;
use crate::client::transport::Transport;
use crate::directory::ldap::Directory;
use crate::host::root::Root;
use crate::host::status::{Doing, Status};
use crate::identity::Identity;
use crate::orders::remove_identity;
use crate::owners::Owners;
use crate::units::Runner;

/// Time between two readings.
const SAMPLE_EVERY: Duration = Duration::from_secs(30);
/// The watchdog's interval where systemd wants none: the overdue loop is then only logged.
const WATCH_EVERY: Duration = Duration::from_secs(60);

/// What one daemon is made of. `transport` makes a connection for each loop that talks.
pub struct Daemon<F, R, D> {
    /// Shared by the loops.
    pub shared: Arc<Shared>,
    /// The node's key.
    pub key: Arc<NodeKey>,
    /// Who the node is.
    pub identity: Identity,
    /// Makes a transport.
    pub transport: F,
    /// Runs programs.
    pub runner: R,
    /// Asks the fleet's directory.
    pub directory: D,
    /// Stands for `/`.
    pub root: Root,
    /// Where the fleet's root lies on the node.
    pub root_file: PathBuf,
    /// Reads the machine.
    pub sampler: Sampler,
    /// Where jitter comes from.
    pub seed: u64,
}

/// Runs until a loop ends, which is why the daemon must: says which and why. The proof is what lets it start.
pub async fn run<T, F, R, D>(_installed: &Installed, daemon: Daemon<F, R, D>) -> Ended
where
    T: Transport + 'static,
    F: Fn() -> T,
    R: Runner + 'static,
    D: Directory + 'static,
{
    let Daemon { shared, key, identity, transport, runner, directory, root, root_file, sampler, seed } = daemon;
    let runner = Rc::new(runner);
    let client = || {
        let clock: Arc<dyn Clock> = Arc::clone(&shared.clock);
        let server: Arc<ServerClock> = Arc::clone(&shared.server);
        Client::new(transport(), Arc::clone(&key), clock, server)
    };
    let parts = Parts {
        runner: Rc::clone(&runner),
        directory,
        root: root.clone(),
        root_file: root_file.to_string_lossy().into_owned(),
        key: Arc::clone(&key),
        node_id: identity.node_id().clone(),
    };
    let mut identity = identity;
    let (trust, node_id) = (identity.root().clone(), identity.node_id().clone());
    let mut owners = Owners::open(&shared.state, &root, trust, node_id, identity.bundle().cloned());
    match owners.answered(&shared.state, None, identity.take_roster()) {
        Err(error) if error.is_doubtful() => return Ended::Broke(crate::host::chain(&error)),
        // A full disk: the controller has the roster as well, and heartbeats go on.
        Err(error) => tracing::warn!("{}", crate::host::chain(&error)),
        Ok(()) => {}
    }
    shared.update(|status| status.owners = Some(owners.status()));
    let ordered = owners.keys();
    let owners = Rc::new(RefCell::new(owners));
    let backoff = Backoff::new(seed.wrapping_mul(3));
    let certificate = CertificateLoop::new(client(), identity, backoff, Arc::clone(&shared), Rc::clone(&owners));
    let backoff = Backoff::new(seed.wrapping_mul(7).wrapping_add(2));
    let directory = DirectoryLoop::new(parts, backoff, Arc::clone(&shared));
    let keys = KeysLoop::new(Rc::clone(&runner), root.clone(), Arc::clone(&shared));
    // What owners signed holds whether or not the controller answers, and so does that they signed nothing.
    shared.keys.send_replace(ordered);
    let backoff = Backoff::new(seed.wrapping_mul(5).wrapping_add(1));
    let heartbeat = HeartbeatLoop::new(client(), backoff, Arc::clone(&shared), owners);

    let mut loops = JoinSet::new();
    let local = LocalSet::new();
    start(&mut loops, &local, "usage", usage_loop(sampler, Arc::clone(&shared)));
    start(&mut loops, &local, "certificate", certificate.run());
    start(&mut loops, &local, "directory", directory.run());
    start(&mut loops, &local, "heartbeat", heartbeat.run());
    start(&mut loops, &local, "keys", keys.run());
    start(&mut loops, &local, "watchdog", watchdog(Arc::clone(&shared)));
    shared.notify().ready();
    shared.notify().status(&shared.status().line());
    let ended = local
        .run_until(async move {
            match loops.join_next().await {
                Some(Ok(ended)) => ended,
                Some(Err(error)) => Ended::Broke(format!("a loop broke: {error}")),
                None => Ended::Broke("there is no loop".to_owned()),
            }
        })
        .await;
    // No loop writes any more.
    drop(local);
    match ended {
        Ended::Broke(why) => Ended::Broke(why),
        Ended::Stopped(why) => {
            shared.update(|status| status.doing = Doing::Stopped);
            Ended::Stopped(why)
        }
        Ended::Removed => match remove_identity::remove(&root, &shared.state, &runner).await {
            Ok(()) => {
                shared.update(|status| *status = Status { doing: Doing::Removed, ..Status::default() });
                Ended::Removed
            }
            Err(error) => Ended::Broke(format!("{}; the next start goes on", crate::host::chain(&*error))),
        },
    }
}

fn start(
    loops: &mut JoinSet<Ended>,
    local: &LocalSet,
    name: &'static str,
    run: impl Future<Output: Into<Ended>> + 'static,
) {
    let named = async move {
        match run.await.into() {
            Ended::Broke(why) => Ended::Broke(format!("the {name} loop ended: {why}")),
            ended @ (Ended::Stopped(_) | Ended::Removed) => ended,
        }
    };
    loops.spawn_local_on(named, local);
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
    let every = shared.notify().watchdog().unwrap_or(WATCH_EVERY);
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

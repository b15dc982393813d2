//! `managed-run`: the four conditions, then the loops, until systemd says stop.

use std::sync::Arc;

use lucia_proto::time::Clock;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::Exit;
use crate::client::config::Trust;
use crate::client::tls::{self, TlsTransport};
use crate::host::clock::SystemClock;
use crate::host::notify::Notify;
use crate::host::root::Root;
use crate::host::state::State;
use crate::host::status::{Status, StatusFile};
use crate::host::{random, secrets};
use crate::identity::{Identity, key};
use crate::managed::shared::Shared;
use crate::managed::start::{self, Facts};
use crate::managed::usage::Sampler;
use crate::managed::{self, Daemon};

pub(super) fn run(root: &Root) -> Result<(), Exit> {
    secrets::protect().map_err(Exit::failed)?;
    let facts = Facts::read(root).map_err(Exit::failed)?;
    // A copy of the program that lies elsewhere is told so before it looks at anything of the node's.
    start::check_program(&facts).map_err(|error| Exit::with(error.exit_code(), &error))?;
    let left = start::installed_facts(root).map_err(Exit::failed)?;
    let installed = start::check(&facts, left).map_err(|error| Exit::with(error.exit_code(), &error))?;
    let state = State::hold(root, "managed-run").map_err(Exit::failed)?;
    let trust = Trust::load(root).map_err(Exit::config)?;
    let key = Arc::new(key::load(&state).map_err(Exit::failed)?);
    let orders = installed.facts();
    let fingerprint = key.public().fingerprint();
    if fingerprint.node_id() != orders.node_id {
        return Err(Exit::said(
            1,
            format!(
                "the key in {} is not the one that was installed (node {}); restore it from a backup, or install anew; after `rekey`, \
                 have this machine approved and run `lucia-node-agent rekey --finish`",
                state.path().display(),
                orders.node_id
            ),
        ));
    }
    let tls = tls::settings(&trust.root).map_err(Exit::config)?;
    let identity = Identity::open(&state, &key, &orders.hostname, &orders.task_id, trust.root.clone());
    let identity = identity.map_err(Exit::failed)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = &trust.config;
    let status = Status {
        node_id: Some(orders.node_id.clone()),
        verification_code: Some(fingerprint.verification_code()),
        hostname: Some(orders.hostname.clone()),
        controller: Some(config.controller()),
        ..Status::default()
    };
    let seed = u64::from_be_bytes(*random::bytes().map_err(Exit::failed)?);
    let shared =
        Arc::new(Shared::new(state, StatusFile::new(root), status, Arc::clone(&clock), Notify::from_environment()));
    let transport = TlsTransport::maker(config, &tls).map_err(Exit::config)?;
    let daemon = Daemon { shared: Arc::clone(&shared), key, identity, transport, sampler: Sampler::new(root), seed };
    tracing::info!("node {} ({}) starts", orders.node_id, orders.hostname);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::said(1, format!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return Err(Exit::said(1, "cannot listen for SIGTERM"));
        };
        tokio::select! {
            why = managed::run(&installed, daemon) => {
                return Err(Exit::said(1, format!("{why}; the service starts again")));
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shared.notify().stopping();
        Ok(())
    })
}

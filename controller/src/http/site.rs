//! What every connection shares, and who is at the other end of one.

use std::net::IpAddr;
use std::sync::Arc;

use lucia_proto::base::code::Code;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::PageOrigin;
use tokio::sync::watch;
use tokio::time::Instant;

use super::budget::{Budget, Hold, Holder};
use super::error::ApiError;
use super::gate::{Gate, Permit};
use super::health::Observed;
use super::hub::Hub;
use super::refusals::Refusals;
use super::timeouts::Timeouts;
use crate::config::{Config, Network};
use crate::parts::{Parts, Refusal};
use crate::source::Source;
use crate::tls::EndpointCertificate;

/// What every connection shares.
#[derive(Clone)]
pub struct Edge {
    pub(super) shared: Arc<Shared>,
    /// What the body of the call takes that is answered over this one.
    pub(super) held: Option<Arc<Hold>>,
}

pub(super) struct Shared {
    pub(super) parts: Arc<Parts>,
    pub(super) certificate: Arc<EndpointCertificate>,
    pub(super) started_at: UnixTime,
    pub(super) gate: Arc<Gate>,
    pub(super) budget: Arc<Budget>,
    pub(super) refusals: Refusals,
    pub(super) observed: Observed,
    /// Who watches what changes.
    pub(super) hub: Arc<Hub>,
    pub(super) proxies: Vec<Network>,
    pub(super) allowed: Vec<Network>,
    /// Where the page is; nothing where it cannot be.
    pub(super) origin: Option<PageOrigin>,
    pub(super) timeouts: Timeouts,
    pub(super) stop: watch::Receiver<bool>,
}

impl Edge {
    /// The edge of `controller`, started at `now`; everything it serves ends in order when `stop` turns true.
    #[must_use]
    pub fn new(
        parts: Arc<Parts>,
        certificate: Arc<EndpointCertificate>,
        config: &Config,
        now: UnixTime,
        timeouts: Timeouts,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let gate = Gate::new(config.connections, config.trusted_proxies.clone());
        gate.remember(parts.fleet.node_addresses(), Instant::now());
        let shared = Shared {
            parts,
            certificate,
            started_at: now,
            gate,
            budget: Arc::default(),
            refusals: Refusals::new(Instant::now()),
            observed: Observed::default(),
            hub: Arc::default(),
            proxies: config.trusted_proxies.clone(),
            allowed: config.allowed_networks.clone(),
            origin: config.page_origin(),
            timeouts,
            stop,
        };
        Self { shared: Arc::new(shared), held: None }
    }

    /// Connections turned away since this was last asked.
    #[must_use]
    pub fn take_refused(&self) -> u64 {
        self.shared.gate.take_refused()
    }

    /// Refusals that got no line of their own since this was last asked, by code.
    #[must_use]
    pub fn take_counted(&self) -> Option<String> {
        self.shared.refusals.take_counted()
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Somebody on the network.
    Network(Arc<Permit>, IpAddr),
    /// The operator, by user id.
    Operator(u32),
    /// Whoever reads metrics and health on this machine.
    Observer,
}

/// Waits until the controller is stopped, or whoever could stop it is gone.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Runs a method that may wait for the disk where waiting is allowed.
pub(super) async fn blocking<T, F>(edge: &Edge, call: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Parts) -> Result<T, Refusal> + Send + 'static,
{
    let parts = Arc::clone(&edge.shared.parts);
    // Whoever hangs up meanwhile leaves the call where it waits, and what was read of it.
    let held = edge.held.clone();
    let call = move || {
        let result = call(&parts);
        drop(held);
        result
    };
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(error) => Err(ApiError::new(Code::Busy, "the controller is stopping").log(error.to_string())),
    }
}

/// Whose bytes a call's are.
pub(super) fn holder(peer: &Peer, source: Option<IpAddr>) -> Holder {
    match (peer, source) {
        (Peer::Network(permit, _), Some(source)) => match permit.prover() {
            Some(number) => Holder::Proven(number),
            None if permit.knows(source, Instant::now()) => Holder::Known(Source::of(source)),
            None => Holder::Stranger(Source::of(source)),
        },
        (Peer::Network(_, peer), None) => Holder::Stranger(Source::of(*peer)),
        (Peer::Operator(_) | Peer::Observer, _) => Holder::Operator,
    }
}

//! One running controller: opens the state, serves both sides, lets time pass, and ends in order.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucia_daemon::notify::Notify;
use lucia_proto::base::time::Clock;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::Config;
use crate::http::{
    Edge, SocketError, Timeouts, beyond_unit, bind_operator, bind_tls, serve_observers, serve_operator, serve_tls,
    stopped,
};
use crate::parts::{OpenError, Parts};
use crate::refusal::chain;
use crate::tls::{EndpointCertificate, TlsError, server_config};

/// Time between two turns of [`Parts::tick`] and looks at the certificate.
const TICK: Duration = Duration::from_secs(1);

/// Why a controller does not run, or no longer.
#[derive(Debug, Error)]
pub enum AppError {
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
    /// The state.
    #[error("the controller's state cannot be opened")]
    State(#[source] OpenError),
    /// The endpoint's key.
    #[error("the endpoint's key cannot be used")]
    Tls(#[source] TlsError),
    /// The operator's socket.
    #[error("the operator's socket cannot be used")]
    Socket(#[source] SocketError),
    /// The TLS port.
    #[error(
        "cannot listen on {address}; is another program there, or does `listen` name an address of another machine? A port \
         other than 8443 takes SocketBindAllow= in the unit: systemctl edit lucia-controller"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// The port of metrics.
    #[error(
        "cannot listen on {address} (metrics.listen); is another program there? A port other than 9464 takes \
         SocketBindAllow= in the unit: systemctl edit lucia-controller"
    )]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// The signals.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// A write failed in such a way that nobody knows what the disk holds (threats.md F-6).
    #[error(
        "the journal could not be written, and what its disk holds now is open; look at the disk (dmesg). The next start \
         reads what is there"
    )]
    Doubtful,
    /// A part of the controller ended though nobody stopped it.
    #[error("{part} ended by itself, which it never should; the log above says why")]
    Ended {
        /// Which part.
        part: &'static str,
    },
    /// `--ready-file` cannot be written.
    #[error("cannot write {path}")]
    ReadyFile {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        err: io::Error,
    },
}

/// A controller that is open and bound, and serves nobody yet.
pub struct App {
    controller: Arc<Parts>,
    certificate: Arc<EndpointCertificate>,
    edge: Edge,
    tls: TcpListener,
    operator: tokio::net::UnixListener,
    metrics: Option<TcpListener>,
    stop: watch::Sender<bool>,
}

impl App {
    /// Opens the state, makes the operator's socket and binds the TLS port.
    ///
    /// # Errors
    /// See [`AppError`]; nothing is served then.
    pub async fn open(config: &Config, clock: Arc<dyn Clock>, timeouts: Timeouts) -> Result<Self, AppError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| AppError::Random)?;
        let now = clock.now();
        if let Some(mebibytes) = beyond_unit(config) {
            tracing::warn!(
                "connections.max and limits.devices allow the controller {mebibytes} MiB of memory, and its unit gives less: \
                 set MemoryMax={mebibytes}M with systemctl edit lucia-controller"
            );
        }
        let controller = Arc::new(Parts::open(config, clock, secret).map_err(AppError::State)?);
        let certificate = EndpointCertificate::open(&config.state_dir, config.names.clone()).map_err(AppError::Tls)?;
        let certificate = Arc::new(certificate);
        let operator = bind_operator(&config.socket).map_err(AppError::Socket)?;
        let listen = |err| AppError::Listen { address: config.listen, err };
        let tls = bind_tls(config.listen).map_err(listen)?;
        let metrics = match config.metrics {
            Some(address) => {
                let failed = |err| AppError::Metrics { address, err };
                Some(TcpListener::bind(address).await.map_err(failed)?)
            }
            None => None,
        };
        let (stop, stop_signal) = watch::channel(false);
        // The port that was given where 0 was asked for: the page's own address names it.
        let mut bound = config.clone();
        bound.listen = tls.local_addr().map_err(listen)?;
        let edge = Edge::new(Arc::clone(&controller), Arc::clone(&certificate), &bound, now, timeouts, stop_signal);
        Ok(Self { controller, certificate, edge, tls, operator, metrics, stop })
    }

    /// Where the TLS port is: of use when port 0 was asked for.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tls.local_addr()
    }

    /// Where metrics and health are, if anywhere.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// What stops it: send `true`.
    #[must_use]
    pub fn stopper(&self) -> watch::Sender<bool> {
        self.stop.clone()
    }

    /// Serves until it is stopped, then drains.
    ///
    /// The TLS side begins with the first certificate: before it there is nothing to prove who we are with.
    ///
    /// # Errors
    /// A part of it ended by itself.
    pub async fn serve(self, notify: &Notify) -> Result<(), AppError> {
        let Self { controller, certificate, edge, tls, operator, metrics, stop } = self;
        let tls_config = server_config(Arc::clone(&certificate)).map_err(AppError::Tls)?;
        let mut stop_signal = stop.subscribe();
        let mut parts = JoinSet::new();
        let operator_edge = edge.clone();
        parts.spawn(async move {
            serve_operator(operator, operator_edge).await;
            "the operator's side"
        });
        let live_edge = edge.clone();
        parts.spawn(async move {
            live_edge.live().await;
            "what tells the page of changes"
        });
        if let Some(listener) = metrics {
            let observed = edge.clone();
            parts.spawn(async move {
                serve_observers(listener, observed).await;
                "metrics and health"
            });
        }
        let mut waiting = Some((tls, tls_config));
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watchdog = interval(notify.watchdog().unwrap_or(Duration::from_secs(3600)));
        let mut said = String::new();
        notify.ready();
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop_signal) => break,
                Some(part) = parts.join_next() => {
                    // A part may hear of the stop before this loop does.
                    if *stop.borrow() {
                        break;
                    }
                    let _ = stop.send(true);
                    return Err(AppError::Ended { part: part.unwrap_or("a part") });
                }
                _ = watchdog.tick() => notify.alive(),
                _ = tick.tick() => {
                    let (status, writes) = turn(&controller, &certificate, &edge).await;
                    if !writes {
                        let _ = stop.send(true);
                        break;
                    }
                    if certificate.not_after().is_some()
                        && let Some((listener, config)) = waiting.take()
                    {
                        let edge = edge.clone();
                        parts.spawn(async move {
                            serve_tls(listener, config, edge).await;
                            "the TLS side"
                        });
                    }
                    if status != said {
                        tracing::info!("{status}");
                        notify.status(&status);
                        said = status;
                    }
                }
            }
        }
        tracing::info!("stopping: no new calls, those in progress are answered");
        notify.stopping();
        while parts.join_next().await.is_some() {}
        // What heartbeats left to write.
        let writes = tokio::task::spawn_blocking(move || {
            controller.flush();
            controller.journal.writes()
        });
        let writes = writes.await.unwrap_or(true);
        tracing::info!("stopped");
        if writes { Ok(()) } else { Err(AppError::Doubtful) }
    }
}

/// Lets time pass once, and says how the endpoint stands, and whether the journal can still be written.
async fn turn(controller: &Arc<Parts>, certificate: &Arc<EndpointCertificate>, edge: &Edge) -> (String, bool) {
    let refused = edge.take_refused();
    if refused > 0 {
        tracing::warn!(refused, "connections were turned away: too many at once");
    }
    if let Some(counted) = edge.take_counted() {
        tracing::warn!("refused as well, without a line each: {counted}");
    }
    let (controller, certificate) = (Arc::clone(controller), Arc::clone(certificate));
    let status = tokio::task::spawn_blocking(move || {
        controller.tick();
        if !controller.journal.writes() {
            // What lies in the state directory may be another's by now.
            return ("nothing is written any more".to_owned(), false);
        }
        (renew_endpoint(&controller, &certificate), controller.journal.writes())
    });
    status.await.unwrap_or_else(|_| ("the last turn ended early".to_owned(), true))
}

/// Asks the worker for the endpoint's certificate, takes what it answered, and what a person put in place.
///
/// The request is the same bytes each time, so asking again is asking once; the worker signs anew each day.
fn renew_endpoint(controller: &Parts, certificate: &EndpointCertificate) -> String {
    let mut trouble = None;
    match certificate.reload() {
        Ok(true) => tracing::info!("the endpoint's certificate was reloaded from its file"),
        Ok(false) => {}
        Err(error) => trouble = Some(chain(&error)),
    }
    if let Err(refusal) = controller.enrollment.endpoint_request(certificate.csr()) {
        trouble = Some(refusal.log);
    }
    match controller.enrollment.endpoint_answer() {
        Ok(Some(answer)) => match certificate.take(&answer) {
            Ok(true) => tracing::info!("the endpoint has a new certificate"),
            Ok(false) => {}
            Err(error) => trouble = Some(chain(&error)),
        },
        Ok(None) => {}
        Err(refusal) => trouble = Some(refusal.log),
    }
    let state = match certificate.not_after() {
        Some(until) => format!("serving, certificate until {until}"),
        None => "waiting for the enrollment worker to sign the endpoint's first certificate".to_owned(),
    };
    match trouble {
        Some(trouble) => format!("{state}; {trouble}"),
        None => state,
    }
}

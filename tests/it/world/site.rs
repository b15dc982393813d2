//! The controller's and the worker's host: their directories, their starts and their ends.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use lucia_controller::config::Config;
use lucia_controller::http::{Edge, Timeouts, serve_stream};
use lucia_controller::parts::Parts;
use lucia_controller::tls::EndpointCertificate;
use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::test_support::TestCa;
use lucia_worker::config::Settings;
use lucia_worker::ledger::Ledger;
use lucia_worker::turn::Worker;
use nix::unistd::{Gid, Uid};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Program, START, World};

/// Starts that a plan may end one after the other: far more than there are durable steps in one.
const STARTS: usize = 1000;

/// A running controller and its connections.
pub(super) struct Serving {
    pub(super) controller: Arc<Parts>,
    certificate: Arc<EndpointCertificate>,
    edge: Edge,
    stop: watch::Sender<bool>,
    connections: JoinSet<()>,
}

/// The worker, if it runs.
#[derive(Default)]
pub(super) struct Enrolling {
    worker: Option<Worker>,
    /// Whether its service is started: a worker that died starts again.
    wanted: bool,
    /// Why it does not run, or what it last died of.
    trouble: Option<String>,
}

/// Lays directories and settings, and begins a fleet with a CA that the story knows.
pub(super) fn lay(dir: &Path, ca: &TestCa) {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    for (sub, mode) in [
        ("", 0o755),
        ("controller", 0o2750),
        ("controller/nodes", 0o2750),
        ("controller/nodes/enrollment-responses", 0o2750),
        ("controller/nodes/owner-responses", 0o2750),
        ("worker", 0o700),
        ("worker/ca", 0o700),
        ("worker/receipts", 0o700),
    ] {
        fs::create_dir_all(dir.join(sub)).unwrap();
        fs::set_permissions(dir.join(sub), fs::Permissions::from_mode(mode)).unwrap();
    }
    let settings = format!(
        "names = [\"controller.test\"]\nstate-dir = {:?}\nroot-file = {:?}\nsocket = {:?}\ngroup = \"{gid}\"\n\
         worker-user = \"{uid}\"\n",
        dir.join("controller"),
        dir.join("worker/ca/root.pem"),
        dir.join("controller.sock"),
    );
    fs::write(dir.join("controller.toml"), settings).unwrap();
    let settings = format!(
        "state-dir = {:?}\ncontroller-state = {:?}\ncontroller-user = \"{uid}\"\ngroup = \"{gid}\"\n\
         endpoint-names = [\"controller.test\"]\n",
        dir.join("worker"),
        dir.join("controller"),
    );
    fs::write(dir.join("worker.toml"), settings).unwrap();

    let bundle = serde_json::to_vec(&ca.signed_bundle(1, START)).unwrap();
    for (file, bytes) in [
        ("worker/ca/root.pem", ca.root_pem().into_bytes()),
        ("worker/ca/issuing.pem", ca.issuing_pem().into_bytes()),
        ("worker/ca/issuing.key", ca.issuing_key.to_pem().unwrap().as_bytes().to_vec()),
        ("worker/worker.key", ca.worker_key.to_pem().unwrap().as_bytes().to_vec()),
        ("worker/bundle.json", bundle),
    ] {
        fs::write(dir.join(file), bytes).unwrap();
        fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let home = PrivateDir::open(&dir.join("worker"), DirRules::private()).unwrap();
    Ledger::create(&home, ca.root().sha256(), START).unwrap();
}

impl Serving {
    pub(super) fn accept(&mut self, stream: DuplexStream, from: IpAddr) {
        while self.connections.try_join_next().is_some() {}
        self.connections.spawn(serve_stream(stream, from, self.edge.clone()));
    }
}

impl World {
    /// Starts it; one that dies at its start is started again, as systemd does.
    pub(crate) fn start_controller(&self) {
        let text = fs::read_to_string(self.path("controller.toml")).unwrap();
        let config = Config::parse(&text).unwrap();
        for _ in 0..STARTS {
            self.0.deaths.revive(Program::Controller);
            match self.open_controller(&config) {
                Ok(serving) => return *self.0.controller.borrow_mut() = Some(serving),
                Err(why) => assert!(self.0.deaths.is_dead(Program::Controller), "{why}"),
            }
        }
        panic!("the controller died at each of {STARTS} starts");
    }

    fn open_controller(&self, config: &Config) -> Result<Serving, String> {
        let starts = self.0.starts.get().wrapping_add(1);
        self.0.starts.set(starts);
        let clock: Arc<dyn Clock> = Arc::<super::StoryClock>::clone(&self.0.controller_clock);
        let now = clock.now();
        // A new secret at each start, as the program has it.
        let controller = Parts::open(config, clock, [starts; 32]).map_err(|error| lucia_worker::chain(&error))?;
        let controller = Arc::new(controller);
        let certificate = EndpointCertificate::open(&config.state_dir, config.names.clone());
        let certificate = Arc::new(certificate.map_err(|error| lucia_worker::chain(&error))?);
        let (stop, stopped) = watch::channel(false);
        let (kept, shown) = (Arc::clone(&controller), Arc::clone(&certificate));
        let edge = Edge::new(kept, shown, config, now, Timeouts::default(), stopped);
        Ok(Serving { controller, certificate, edge, stop, connections: JoinSet::new() })
    }

    /// A controller that a plan killed is started again.
    pub(crate) async fn mend_controller(&self) -> bool {
        let dead = self.0.deaths.is_dead(Program::Controller);
        if dead {
            self.restart_controller().await;
        }
        dead
    }

    /// What the controller does each second for its endpoint's certificate. Says whether it has one.
    pub(crate) fn endpoint_turn(&self) -> bool {
        let serving = self.0.controller.borrow();
        let Serving { controller, certificate, .. } = serving.as_ref().unwrap();
        // What fails is tried again the next second.
        let _ = controller.enrollment.endpoint_request(certificate.csr());
        if let Ok(Some(answer)) = controller.enrollment.endpoint_answer() {
            let _ = certificate.take(&answer);
        }
        certificate.not_after().is_some()
    }

    /// The controller dies as if killed: no call is answered any more, nothing is written at the end.
    pub(crate) async fn kill_controller(&self) {
        let Some(serving) = self.0.controller.borrow_mut().take() else { return };
        let Serving { controller, certificate, edge, stop, mut connections } = serving;
        connections.shutdown().await;
        drop((edge, stop, certificate));
        // A call that waits for the disk holds on to it for a moment longer.
        for _ in 0..60_000 {
            if Arc::strong_count(&controller) == 1 {
                return;
            }
            tokio::task::yield_now().await;
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        panic!("a call of the controller's did not come back from the disk within a minute");
    }

    pub(crate) async fn restart_controller(&self) {
        self.kill_controller().await;
        self.start_controller();
    }

    /// The running controller: the operator's side of it.
    pub(crate) fn controller(&self) -> Arc<Parts> {
        Arc::clone(&self.0.controller.borrow().as_ref().unwrap().controller)
    }

    pub(crate) fn controller_is_up(&self) -> bool {
        self.0.controller.borrow().is_some()
    }

    pub(crate) fn start_worker(&self) {
        self.0.worker.borrow_mut().wanted = true;
    }

    pub(crate) fn stop_worker(&self) {
        let mut enrolling = self.0.worker.borrow_mut();
        enrolling.wanted = false;
        enrolling.worker = None;
    }

    pub(crate) fn restart_worker(&self) {
        self.stop_worker();
        self.start_worker();
    }

    /// One turn of the worker, if its service is started; one that died starts again at its next turn.
    pub(crate) fn worker_turn(&self, now: UnixTime) {
        let mut enrolling = self.0.worker.borrow_mut();
        if !enrolling.wanted {
            return;
        }
        if enrolling.worker.is_none() {
            self.0.deaths.revive(Program::Worker);
            let text = fs::read_to_string(self.path("worker.toml")).unwrap();
            let admission = self.path("admission.toml");
            let more = fs::read_to_string(admission).unwrap_or_default();
            let config = Settings::parse(&format!("{text}{more}")).unwrap().resolve().unwrap();
            match Worker::open(config) {
                Ok(worker) => enrolling.worker = Some(worker),
                Err(error) => enrolling.trouble = Some(lucia_worker::chain(&error)),
            }
        }
        let Some(worker) = &mut enrolling.worker else { return };
        match worker.turn(now) {
            Ok(_) if self.0.deaths.is_dead(Program::Worker) => enrolling.worker = None,
            Ok(_) => enrolling.trouble = None,
            Err(error) => {
                enrolling.trouble = Some(lucia_worker::chain(&error));
                enrolling.worker = None;
            }
        }
    }

    /// What the worker last died of, if it did not come up since.
    pub(crate) fn worker_trouble(&self) -> Option<String> {
        self.0.worker.borrow().trouble.clone()
    }

    /// The worker's ledger, a line each; without where the journal stood, and what a crash cut off.
    pub(crate) fn ledger(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.path("worker/ledger.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| !["journalSeen", "tornLineDropped"].contains(&line["kind"].as_str().unwrap())).collect()
    }
}

//! The site of the demo: controller, worker and directory, each under its user, one network.

use std::fs;
use std::time::Duration;

use lucia_people::host_api::StatusView;
use serde::de::DeserializeOwned;

use super::DemoError;
use super::daemon::{Daemon, ran};
use super::directory::Directory;
use super::door::{Door, PAGE_NAME};
use super::place::{NAME, Place};
use super::screen::{Screen, Who, room};
use super::step_ca::StepCa;
use crate::network::Network;
use crate::program::Program;
use crate::wait::wait_every;

/// Between two questions to a program.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(200);
/// For everything that should take a moment.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// Worker, controller, directory and their network. Dropping it ends all of them.
pub(super) struct Site {
    /// Where everything is.
    pub(super) place: Place,
    controller: Daemon,
    worker: Daemon,
    /// Where another CA than the worker's own signs.
    _step_ca: Option<Daemon>,
    /// Nothing while it is down.
    pub(super) directory: Option<Directory>,
    /// Where browsers of this machine come in.
    pub(super) door: Door,
    /// Where the controller listens and nodes are plugged in. Last, so that it outlives them.
    pub(super) network: Network,
}

impl Site {
    /// Begins a fleet and starts both programs; returns when the controller has its certificate.
    pub(super) fn start(place: Place, mut door: Door, screen: &Screen) -> Result<Self, DemoError> {
        let network = Network::start(&place.helper)?;
        let holder = network.holder_pid();
        place.commands(holder).map_err(|err| DemoError::Place { path: place.dir.clone(), err })?;
        let step_ca = begin_fleet(&place, holder, screen)?;
        let directory = Some(Directory::start(&place, holder, screen)?);
        let start = |seat, name, program| {
            let config = place.path(&format!("etc/{name}.toml"));
            let arguments = ["run", "--config", &config.to_string_lossy()];
            Daemon::start(&place, &seat, name, &place.program(program), &arguments)
        };
        let worker = start(place.worker_seat(holder), "worker", "lucia-enrollment-worker")?;
        let controller = start(place.controller_seat(holder), "controller", "lucia-controller")?;
        let opened = door.open(holder, (network.host_address(), 8443).into());
        opened.map_err(|err| DemoError::Door { port: door.port(), err })?;
        let mut site = Self { place, controller, worker, _step_ca: step_ca, directory, door, network };
        let until = site.wait("the controller's certificate", SOON, |site| {
            let status = site.ctl_json::<StatusView>(&["status"]).ok()?;
            status.certificate_expires_at.filter(|_| status.worker_available)
        })?;
        screen.say(Who::Worker, "signed the certificate of the controller's endpoint");
        screen.say(Who::Controller, &format!("listens at 10.73.0.1:8443 as {NAME}, certificate until {until}"));
        Ok(site)
    }

    /// Waits until `ready` gives something. A program that ends meanwhile is told with its last words.
    pub(super) fn wait<T>(
        &mut self,
        what: &'static str,
        limit: Duration,
        mut ready: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, DemoError> {
        let found = wait_every(ASK_EVERY, limit, || {
            if let Err(ended) = self.lives() {
                return Some(Err(ended));
            }
            ready(self).map(Ok)
        });
        let said = || format!("{}\n{}", self.controller.last_words(), self.worker.last_words());
        found.unwrap_or_else(|| Err(DemoError::Waited { what, seconds: limit.as_secs(), said: said() }))
    }

    fn lives(&mut self) -> Result<(), DemoError> {
        self.controller.lives()?;
        self.worker.lives()?;
        self.directory.as_mut().map_or(Ok(()), Directory::lives)
    }

    /// What `luciactl` prints.
    pub(super) fn ctl(&self, arguments: &[&str]) -> Result<String, DemoError> {
        ran(Program::Built(self.place.path("luciactl")).command().env("COLUMNS", room().to_string()).args(arguments))
    }

    /// The answer of `luciactl --json`.
    pub(super) fn ctl_json<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T, DemoError> {
        parsed(&self.ctl(&[&["--json"], arguments].concat())?)
    }

    /// What the worker's log says of a request that waits for the directory.
    pub(super) fn worker_waits(&self) -> Option<String> {
        let log = fs::read_to_string(self.place.path("log/worker.log")).ok()?;
        log.lines().find(|line| line.contains(" waits: ")).map(str::to_owned)
    }

    /// What `lucia-enrollment-worker` prints, as the worker's user.
    pub(super) fn worker(&self, arguments: &[&str]) -> Result<String, DemoError> {
        ran(Program::Built(self.place.path("worker")).command().args(arguments))
    }
}

/// `init` on the worker's host, and the root brought to the controller's: by hand, never through the controller.
fn begin_fleet(place: &Place, holder: u32, screen: &Screen) -> Result<Option<Daemon>, DemoError> {
    let step_ca = place.step_ca.as_ref().map(|program| StepCa::make(place, program)).transpose()?;
    let given = step_ca.as_ref().map(StepCa::given).unwrap_or_default();
    let said =
        ran(Program::Built(place.path("worker")).command().args(["init", "--names", NAME, PAGE_NAME]).args(given))?;
    let step_ca = step_ca.map(|step_ca| step_ca.start(place, holder)).transpose()?;
    let fingerprint = said.lines().find_map(|line| line.strip_prefix("root fingerprint")).unwrap_or_default().trim();
    let by = if step_ca.is_some() { "of step-ca" } else { "of its own" };
    screen.say(
        Who::Worker,
        &format!("began a fleet: root and issuing CA {by}, its key; root fingerprint\n{fingerprint}"),
    );
    let root = place.root_file();
    let copied = fs::read(place.path("state/worker/ca/root.pem")).and_then(|pem| fs::write(&root, pem));
    copied.map_err(|err| DemoError::Place { path: root, err })?;
    screen.say(Who::Operator, "takes the root certificate to the controller's host and into the installer, by hand");
    Ok(step_ca)
}

pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, DemoError> {
    serde_json::from_str(text).map_err(|err| DemoError::Answer { said: text.trim().to_owned(), err })
}

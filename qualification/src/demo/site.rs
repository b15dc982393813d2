//! The controller's host and the worker's host of the demo: both programs under their users, one network.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lucia_proto::host_api::StatusView;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::DemoError;
use super::place::{NAME, Place};
use super::screen::{Screen, Who};
use crate::network::Network;
use crate::program::Program;
use crate::seat::Seat;
use crate::wait::wait_every;

/// Between two questions to a program.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(200);
/// For everything that should take a moment.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// Worker, controller and their network. Dropping it ends all three.
pub(super) struct Site {
    /// Where everything is.
    pub(super) place: Place,
    controller: Daemon,
    worker: Daemon,
    /// Where the controller listens and nodes are plugged in. Last, so that it outlives them.
    pub(super) network: Network,
}

impl Site {
    /// Begins a fleet and starts both programs; returns when the controller has its certificate.
    pub(super) fn start(place: Place, screen: &Screen) -> Result<Self, DemoError> {
        let network = Network::start(&place.helper)?;
        begin_fleet(&place, screen)?;
        let worker = Daemon::start(&place, &place.worker_seat(), "lucia-enrollment-worker", "worker")?;
        let seat = place.controller_seat(network.holder_pid());
        let controller = Daemon::start(&place, &seat, "lucia-controller", "controller")?;
        let mut site = Self { place, controller, worker, network };
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
            if let Err(ended) = self.controller.lives().and_then(|()| self.worker.lives()) {
                return Some(Err(ended));
            }
            ready(self).map(Ok)
        });
        let said = || format!("{}\n{}", self.controller.last_words(), self.worker.last_words());
        found.unwrap_or_else(|| Err(DemoError::Waited { what, seconds: limit.as_secs(), said: said() }))
    }

    /// What `luciactl` prints.
    pub(super) fn ctl(&self, arguments: &[&str]) -> Result<String, DemoError> {
        ran(Program::Built(self.place.path("luciactl")).command().args(arguments))
    }

    /// The answer of `luciactl --json`.
    pub(super) fn ctl_json<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T, DemoError> {
        parsed(&self.ctl(&[&["--json"], arguments].concat())?)
    }

    /// What `lucia-enrollment-worker` prints, as the worker's user.
    pub(super) fn worker(&self, arguments: &[&str]) -> Result<String, DemoError> {
        ran(Program::Built(self.place.path("worker")).command().args(arguments))
    }
}

/// `init` on the worker's host, and the root brought to the controller's: by hand, never through the controller.
fn begin_fleet(place: &Place, screen: &Screen) -> Result<(), DemoError> {
    let said = ran(Program::Built(place.path("worker")).command().args(["init", "--names", NAME]))?;
    let fingerprint = said.lines().find_map(|line| line.strip_prefix("root fingerprint")).unwrap_or_default().trim();
    screen.say(Who::Worker, &format!("began a fleet: root, issuing CA, its own key; root fingerprint\n{fingerprint}"));
    let root = place.root_file();
    let copied = fs::read(place.path("state/worker/ca/root.pem")).and_then(|pem| fs::write(&root, pem));
    copied.map_err(|err| DemoError::Place { path: root, err })?;
    screen.say(Who::Operator, "takes the root certificate to the controller's host and into the installer, by hand");
    Ok(())
}

/// What a command printed on its standard output.
pub(super) fn ran(command: &mut Command) -> Result<String, DemoError> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|err| DemoError::NotRun { program: program.clone(), err })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    Err(DemoError::Refused {
        command: format!("{} {}", program.display(), arguments.join(" ")),
        status: output.status.to_string(),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, DemoError> {
    serde_json::from_str(text).map_err(|err| DemoError::Answer { said: text.trim().to_owned(), err })
}

/// A running program of the workspace. Dropping it asks it to end, and waits.
struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(place: &Place, seat: &Seat, program: &str, name: &'static str) -> Result<Self, DemoError> {
        let log = place.path(&format!("log/{name}.log"));
        let config = place.path(&format!("etc/{name}.toml"));
        let program = place.program(program);
        let not_run = |err| DemoError::NotRun { program: program.clone(), err };
        let out = File::create(&log).map_err(|err| DemoError::Place { path: log.clone(), err })?;
        let mut command = seat
            .command(&place.helper, &program, &["run", "--config", &config.to_string_lossy()])
            .map_err(|err| not_run(err.into()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone().map_err(not_run)?).stderr(out).process_group(0);
        Ok(Self { name, child: command.spawn().map_err(not_run)?, log })
    }

    fn lives(&mut self) -> Result<(), DemoError> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                Err(DemoError::Ended { name: self.name, status: status.to_string(), said: self.last_words() })
            }
            _ => Ok(()),
        }
    }

    fn last_words(&self) -> String {
        last_lines(&self.log)
    }
}

/// The last few lines of a log, with its path.
fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    format!("{}:\n{}", log.display(), lines.get(lines.len().saturating_sub(8)..).unwrap_or_default().join("\n"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM); // it may have ended by itself
        }
        let _ = self.child.wait();
    }
}

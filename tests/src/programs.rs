//! The built programs, started in a directory of the test's own and ended by their process id.
//!
//! Everything listens on loopback. A program that does not come up within a bounded time is an error that carries
//! what it last said.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};

use crate::sim::Failure;

/// Where the controller is called by nodes.
pub const CONTROLLER_NAME: &str = "controller.test";

/// The one place of this crate that starts programs.
#[expect(clippy::disallowed_methods, reason = "tests and benchmarks drive the built binaries; nothing here is shipped")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// How long a program may take that runs to its end by itself, or was asked to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at one.
const STEP: Duration = Duration::from_millis(10);

/// Runs `program` to its end, for a minute at most.
///
/// # Errors
/// When it cannot be started, does not end or does not exit with 0; the error holds what it said.
pub fn run(program: &Path, args: &[&str]) -> Result<Output, Failure> {
    run_within(program, args, PATIENCE)
}

/// Runs `program` to its end, for `patience` at most.
///
/// # Errors
/// As [`run`].
pub fn run_within(program: &Path, args: &[&str], patience: Duration) -> Result<Output, Failure> {
    let mut command = command(program);
    let child = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = output_of(child, patience)?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} {}: {}: {said}", program.display(), args.join(" "), output.status).into())
}

/// What a program said whose output is piped, once it has ended; one that does not in time is killed, which its status
/// tells.
fn output_of(child: Child, patience: Duration) -> io::Result<Output> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (done, is_done) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        // Nothing is ever sent: the sender goes once the program was waited for.
        if is_done.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output();
    drop(done);
    let _ = guard.join();
    output
}

/// A running program; dropping it ends it.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `program` with `args`; what it says goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, args: &[&str], log: &Path) -> io::Result<Self> {
        Self::start_with(program, args, log, fs::File::create(log)?)
    }

    /// The same with the log opened before: where `program` starts it may have no path.
    pub(crate) fn start_with(program: &Path, args: &[&str], log: &Path, out: fs::File) -> io::Result<Self> {
        let child = command(program).args(args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Sends it a signal, as SIGSTOP; one that has ended gets none.
    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid()), signal);
    }

    /// What it said so far.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Running {
    /// Asks it to end, and waits for that: for a minute, after which it is killed, and that is said.
    pub fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may end by itself in this moment; then there is nothing to end.
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        }
        if self.ended().is_none() {
            eprintln!("{}: no end within a minute of SIGTERM: {}", self.log.display(), self.said());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, once it has: by itself, or since it was asked to. Waits for a minute at most.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            // Another process has no paused clock, and nothing wakes this one early.
            thread::park_timeout(STEP);
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A directory that is gone when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new empty directory whose name starts with `name`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(name: &str) -> io::Result<Self> {
        let template = std::env::temp_dir().join(format!("lucia-{name}-XXXXXX"));
        Ok(Self(nix::unistd::mkdtemp(&template)?))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind at worst: it is below the system's own temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A worker and a controller that know one another, with their configuration in one directory.
pub struct Site {
    /// Where the built programs are.
    pub bin: PathBuf,
    /// Everything the site writes.
    pub dir: Scratch,
    /// Where the controller listens.
    pub address: SocketAddr,
}

impl Site {
    /// Lays configuration and state directories, and runs the worker's `init`.
    ///
    /// # Errors
    /// When a directory cannot be made or `init` fails.
    pub fn lay(bin: &Path, name: &str, devices: usize, admission: &str) -> Result<Self, Failure> {
        let dir = Scratch::new(name)?;
        let at = |sub: &str| dir.path().join(sub);
        let (uid, gid) = (Uid::effective(), Gid::effective());
        for (sub, mode) in [
            ("", 0o755),
            ("worker", 0o700),
            ("controller", 0o2750),
            ("controller/onboarding", 0o2750),
            ("controller/nodes", 0o2750),
            ("controller/nodes/enrollment-requests", 0o2750),
            ("controller/nodes/enrollment-responses", 0o2750),
            ("controller/nodes/owner-requests", 0o2750),
            ("controller/nodes/owner-responses", 0o2750),
        ] {
            fs::create_dir_all(at(sub))?;
            fs::set_permissions(at(sub), fs::Permissions::from_mode(mode))?;
        }
        // The port is free now and taken a moment later: the kernel does not hand it out again that soon.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        fs::write(
            at("controller.toml"),
            format!(
                "listen = \"{address}\"\nnames = [\"{CONTROLLER_NAME}\"]\nstate-dir = {:?}\nroot-file = {:?}\nsocket = {:?}\n\
                 group = \"{gid}\"\nworker-user = \"{uid}\"\nallowed-networks = [\"127.0.0.0/8\"]\n\
                 [limits]\ndevices = {devices}\ntasks = {devices}\n[connections]\nmax = 8192\nper-source = 8192\n",
                at("controller"),
                at("worker/ca/root.pem"),
                at("controller.sock"),
            ),
        )?;
        fs::write(
            at("worker.toml"),
            format!(
                "state-dir = {:?}\ncontroller-state = {:?}\ncontroller-user = \"{uid}\"\ngroup = \"{gid}\"\n\
                 endpoint-names = [\"{CONTROLLER_NAME}\"]\nadmission = \"{admission}\"\n\
                 new-nodes-per-hour = 16384\ncertificates-per-hour = 16384\n",
                at("worker"),
                at("controller"),
            ),
        )?;
        let site = Self { bin: bin.to_path_buf(), dir, address };
        site.run("lucia-enrollment-worker", &["init", "--config", &site.file("worker.toml")])?;
        Ok(site)
    }

    /// The path of a file of the site, as text.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    /// Starts a program of the site with `args`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, program: &str, args: &[&str]) -> io::Result<Running> {
        Running::start(&self.bin.join(program), args, &self.dir.path().join(format!("{program}.log")))
    }

    /// Runs a program of the site to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not exit with 0; the error holds what it said.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<Output, Failure> {
        run(&self.bin.join(program), args)
    }

    /// `luciactl` over the site's socket.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn ctl(&self, args: &[&str]) -> Result<Output, Failure> {
        let socket = self.file("controller.sock");
        self.run("luciactl", &[&["--socket", &socket], args].concat())
    }

    /// The root that nodes pin.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn root_pem(&self) -> io::Result<String> {
        fs::read_to_string(self.dir.path().join("worker/ca/root.pem"))
    }

    /// Starts worker and controller and waits until a TLS connection succeeds.
    ///
    /// # Errors
    /// When one does not come up within 20 seconds; the error holds what both said.
    pub async fn up(&self) -> Result<(Running, Running), Failure> {
        // In this order the worker's first look finds the request for the endpoint's certificate.
        let controller = self.start("lucia-controller", &["run", "--config", &self.file("controller.toml")])?;
        for _ in 0..100 {
            if self.dir.path().join("controller/nodes/enrollment-requests/endpoint.json").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let worker = self.start("lucia-enrollment-worker", &["run", "--config", &self.file("worker.toml")])?;
        let target = crate::sim::Target::new(self.address, CONTROLLER_NAME, &self.root_pem()?)?;
        let mut last = String::new();
        for _ in 0..400 {
            match target.connect().await {
                Ok(_) => return Ok((worker, controller)),
                Err(err) => last = err.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(format!("not up after 20 s: {last}\nworker: {}\ncontroller: {}", worker.said(), controller.said()).into())
    }
}

//! The real binary: its verbs, its exit codes, and how it starts and ends.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lucia_proto::base::time::UnixTime;
use lucia_proto::test_support::TestCa;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "the tests of a program start it")]
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lucia-controller"))
}

/// A run that ends by itself: what does not within twenty seconds is killed, which its status tells.
fn run(args: &[&str]) -> Output {
    let child = program().args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        // Nothing is ever sent: the sender goes once the program was waited for.
        if is_done.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    guard.join().unwrap();
    output
}

const PATIENCE: Duration = Duration::from_secs(20);

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let dir = Self(nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-cli-XXXXXX")).unwrap());
        let root = TestCa::new(UnixTime::from_secs(1_795_982_400)).root_pem();
        std::fs::write(dir.0.join("root.pem"), root).unwrap();
        let settings = format!(
            "listen = \"127.0.0.1:0\"\nnames = [\"controller.test\"]\nstate-dir = \"{0}/state\"\nroot-file = \"{0}/root.pem\"\n\
             socket = \"{0}/socket\"\ngroup = \"\"\nworker-user = \"\"\n",
            dir.0.display()
        );
        std::fs::write(dir.0.join("controller.toml"), settings).unwrap();
        dir
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn end(&mut self) -> Option<i32> {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "no end within {PATIENCE:?} of SIGTERM");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

#[track_caller]
fn wait_for(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(Instant::now() < until, "{} does not come", path.display()),
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

// spec: CT-3
#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let dir = Scratch::new();
    let settings = dir.file("controller.toml");
    std::fs::write(dir.0.join("wrong.toml"), "no-such-setting = 1\n").unwrap();
    let rootless = "names = [\"controller.test\"]\nroot-file = \"/nowhere/root.pem\"\n";
    std::fs::write(dir.0.join("rootless.toml"), rootless).unwrap();
    let (wrong, nowhere) = (dir.file("wrong.toml"), dir.file("nowhere.toml"));
    let rootless = dir.file("rootless.toml");
    for (args, code, says) in [
        (vec!["--help"], 0, "Examples:"),
        (vec!["--version"], 0, "lucia-controller"),
        (vec![], 64, "Usage:"),
        (vec!["dance"], 64, "dance"),
        (vec!["run", "--no-such-flag"], 64, "--no-such-flag"),
        (vec!["doctor", "--restore", "4"], 64, "4"),
        (vec!["check-config", &settings], 0, "controller.toml"),
        (vec!["check-config", &rootless], 0, "/nowhere/root.pem"),
        (vec!["check-config", &wrong], 78, "no-such-setting"),
        (vec!["check-config", &nowhere], 78, "nowhere.toml"),
        (vec!["run", "--config", &wrong], 78, "no-such-setting"),
        (vec!["doctor", "--config", &settings], 1, "onboarding"),
        (vec!["audit"], 64, "verify"),
        (vec!["audit", "verify", "--config", &settings], 1, "audit"),
    ] {
        let output = run(&args);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

// spec: HT-25
#[test]
fn it_starts_tells_systemd_and_ends_in_order_on_sigterm() {
    let dir = Scratch::new();
    let socket = UnixDatagram::bind(dir.0.join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let ready = dir.file("ready");
    let child = program()
        .args(["run", "--config", &dir.file("controller.toml"), "--ready-file", &ready])
        .env("NOTIFY_SOCKET", dir.file("notify"))
        .env("WATCHDOG_USEC", "200000")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let mut wanted = vec!["READY=1", "WATCHDOG=1", "STATUS="];
    let mut buffer = [0; 4096];
    // The watchdog goes on for as long as the program runs.
    for _ in 0..200 {
        if wanted.is_empty() {
            break;
        }
        let count = socket.recv(&mut buffer).unwrap();
        let said = String::from_utf8_lossy(&buffer[..count]).into_owned();
        wanted.retain(|want| !said.starts_with(want));
    }
    assert!(wanted.is_empty(), "systemd was never told {wanted:?}");
    assert!(wait_for(Path::new(&ready)).starts_with("127.0.0.1:"));
    let mode = std::fs::metadata(dir.0.join("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = std::fs::read_to_string(dir.0.join("state/tls/endpoint.key")).unwrap();
    assert_eq!(std::fs::metadata(dir.0.join("state/tls/endpoint.key")).unwrap().permissions().mode() & 0o777, 0o600);

    // A second one on the same directory is refused, naming who holds it.
    let second = run(&["run", "--config", &dir.file("controller.toml")]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains(&running.0.id().to_string()), "{second:?}");

    assert_eq!(running.end(), Some(0));
    let mut log = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
    let doctor = run(&["doctor", "--config", &dir.file("controller.toml")]);
    assert_eq!(doctor.status.code(), Some(0), "{doctor:?}");
    let verify = || run(&["audit", "verify", "--config", &dir.file("controller.toml")]);
    let whole = verify();
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    assert!(String::from_utf8_lossy(&whole.stdout).contains(&"0".repeat(64)), "{whole:?}");
    let audit = dir.0.join("state/audit/audit.jsonl");
    std::fs::write(&audit, "{}\n").unwrap();
    let edited = verify();
    assert_eq!(edited.status.code(), Some(1), "{edited:?}");
    assert!(String::from_utf8_lossy(&edited.stderr).contains("line 1"), "{edited:?}");
    std::fs::write(&audit, "").unwrap();

    // The key is the same at the next start.
    std::fs::remove_file(&ready).unwrap();
    let child = program()
        .args(["run", "--config", &dir.file("controller.toml"), "--ready-file", &ready])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    wait_for(Path::new(&ready));
    assert_eq!(std::fs::read_to_string(dir.0.join("state/tls/endpoint.key")).unwrap(), key);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let dir = Scratch::new();
    let ready = dir.file("ready");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = program()
        .args(["run", "--config", &dir.file("controller.toml"), "--ready-file", &ready])
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    wait_for(Path::new(&ready));
    assert_eq!(running.end(), Some(0));
}

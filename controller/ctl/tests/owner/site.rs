//! A fleet, an owner's machine, and the real `luciactl` on it.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lucia_people::owner_api::RosterView;
use lucia_proto::base::json;
use lucia_proto::base::limits::HOST_BODY_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::OrderWorld;
use serde::Deserialize;

/// Places made so far: each has its own directory.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Where certificates are good: they are checked by the real clock.
#[expect(clippy::disallowed_methods, reason = "the certificates of these tests have to be valid now")]
fn now() -> UnixTime {
    let span = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    UnixTime::from_secs(span.as_secs())
}

/// A world of now.
pub(crate) fn world() -> Arc<OrderWorld> {
    Arc::new(OrderWorld::new(now()))
}

/// The roster as a controller hands it out.
pub(crate) fn roster(world: &OrderWorld) -> RosterView {
    RosterView { roster: Some(world.roster.signed().clone()), bundle: Some(world.bundle.signed().clone()) }
}

/// The program itself.
#[expect(clippy::disallowed_methods, reason = "the tests of a program start it")]
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}

/// An owner's machine.
pub(crate) struct Site {
    pub(crate) dir: PathBuf,
}

impl Site {
    /// Without a context, with the root in a file.
    pub(crate) fn bare(world: &OrderWorld) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("luciactl-owner-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        let site = Self { dir };
        site.write("given.pem", &world.ca.root_pem(), 0o644);
        site
    }

    /// With alice's context, whose key has no passphrase.
    pub(crate) fn alice(world: &OrderWorld, port: u16) -> Self {
        let site = Self::bare(world);
        site.write("owner.key", &world.alice.key.to_pem().unwrap(), 0o600);
        site.write("luciactl.toml", &config(port), 0o600);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// A run on a terminal of its own, at which somebody answers each question once it stands there.
    pub(crate) fn on_terminal(&self, args: &[&str], answers: &[&str]) -> (bool, String) {
        let command = [&[env!("CARGO_BIN_EXE_luciactl")], args].concat().join(" ");
        let mut script = program("script");
        script.env("LUCIACTL_CONFIG", self.path("luciactl.toml")).args(["-q", "-e", "-c", &command, "/dev/null"]);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        let mut answers = answers.iter();
        let mut seen = 0;
        loop {
            let count = output.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            if asks(&text[seen..])
                && let Some(answer) = answers.next()
            {
                seen = text.len();
                // What ends with Ctrl-D is whole: one more line would be the answer to what is asked next.
                let end = if answer.ends_with('\u{4}') { "" } else { "\r" };
                input.write_all(format!("{answer}{end}").as_bytes()).unwrap();
            }
        }
        (child.wait().unwrap().success(), text)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = program(env!("CARGO_BIN_EXE_luciactl"));
        command.env_clear().env("LUCIACTL_CONFIG", self.path("luciactl.toml"));
        command.args(args).stdin(Stdio::null()).output().unwrap()
    }

    /// A run that fails: by its exit status, and by the code that programs get. Gives back everything it wrote.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str], exit: i32, code: &str) -> String {
        let output = self.run(&[args, &["--json"]].concat());
        let text = said(&output);
        assert_eq!((output.status.code(), refusal_code(&text).as_str()), (Some(exit), code), "{text}");
        assert!(output.stdout.is_empty(), "{text}");
        assert!(!text.contains(UNSAFE), "{text:?}");
        text
    }

    /// The roster as it is shown, or the code of its refusal.
    #[track_caller]
    pub(crate) fn owners(&self, want: Result<&str, &str>) {
        match want {
            Ok(shown) => ended(&self.run(&["owners"]), 0, shown),
            Err(code) => drop(self.refused(&["owners"], 1, code)),
        }
    }
}

/// Whether somebody is waited for: behind a question, or for a text that is pasted.
fn asks(text: &str) -> bool {
    text.ends_with(": ") || text.contains("Ctrl-D")
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Alice's context.
pub(crate) fn config(port: u16) -> String {
    format!(
        "current = \"home\"\n\n[contexts.home]\ncontroller = \"https://localhost:{port}\"\nroot = \"given.pem\"\nname = \
         \"alice\"\nkey = \"owner.key\"\n"
    )
}

/// The error that programs get, the last line of what was written.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalText,
}

#[derive(Deserialize)]
struct RefusalText {
    code: String,
    message: String,
}

/// The code in the last line, which is JSON beside a sentence for people.
#[track_caller]
pub(crate) fn refusal_code(text: &str) -> String {
    let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap();
    let Refusal { error } = json::from_str(line.trim_end(), HOST_BODY_MAX, 4).unwrap();
    assert!(error.message.len() > 4, "{line}");
    error.code
}

/// Nothing that commands a terminal or reorders its text.
const UNSAFE: [char; 4] = ['\u{1b}', '\u{7}', '\t', '\u{202e}'];

/// The text with what differs from run to run in the place of something as wide: the time of the world, and codes.
pub(crate) fn steady(world: &OrderWorld, text: &str, codes: &[&VerificationCode]) -> String {
    let text = text.replace(&world.now.to_string(), "2026-01-01T00:00:00Z");
    let codes = codes.iter().enumerate();
    codes.fold(text, |text, (at, code)| text.replace(code.as_str(), &format!("0000-0000-000{at}")))
}

/// Everything a run wrote.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8([output.stdout.as_slice(), output.stderr.as_slice()].concat()).unwrap()
}

/// A run that ended as it should.
#[track_caller]
pub(crate) fn ended(output: &Output, code: i32, says: &str) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(says), "{says:?} in {text}");
    assert!(!text.contains(UNSAFE), "{text:?}");
}

/// A file's path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

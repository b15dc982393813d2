//! A program of the demo that runs on, under its user, with its own log.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::DemoError;
use super::place::Place;
use crate::seat::Seat;

/// A running program. Dropping it asks it to end, and waits.
pub(super) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it in its seat; what it says goes to `log/NAME.log`.
    pub(super) fn start(
        place: &Place,
        seat: &Seat,
        name: &'static str,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Self, DemoError> {
        let log = place.path(&format!("log/{name}.log"));
        let not_run = |err| DemoError::NotRun { program: program.to_owned(), err };
        let out = File::options().create(true).append(true).open(&log);
        let out = out.map_err(|err| DemoError::Place { path: log.clone(), err })?;
        let mut command = seat.command(&place.helper, program, arguments).map_err(|err| not_run(err.into()))?;
        command.stdin(Stdio::null()).stdout(out.try_clone().map_err(not_run)?).stderr(out).process_group(0);
        Ok(Self { name, child: command.spawn().map_err(not_run)?, log })
    }

    /// Fails once it has ended, with its last words.
    pub(super) fn lives(&mut self) -> Result<(), DemoError> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                Err(DemoError::Ended { name: self.name, status: status.to_string(), said: self.last_words() })
            }
            _ => Ok(()),
        }
    }

    /// The last few lines of its log, with its path.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default().join("\n");
        format!("{}:\n{last}", self.log.display())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM); // it may have ended by itself
        }
        let _ = self.child.wait();
    }
}

/// What a command printed on its standard output, given `input` on its standard input.
pub(super) fn ran_with(command: &mut Command, input: &[u8]) -> Result<String, DemoError> {
    use std::io::Write as _;
    let program = PathBuf::from(command.get_program());
    let not_run = |err| DemoError::NotRun { program: program.clone(), err };
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(not_run)?;
    if let Some(mut to) = child.stdin.take() {
        let _ = to.write_all(input); // one that ended before it read says why
    }
    let output = child.wait_with_output().map_err(not_run)?;
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

/// What a command printed on its standard output.
pub(super) fn ran(command: &mut Command) -> Result<String, DemoError> {
    ran_with(command, &[])
}

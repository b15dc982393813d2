//! What of the demo would run on after it: what a person started by its commands, and nobody waits for.
//!
//! A process id alone may be another program's by now. What is ended must run the demo's own copy of the program, which
//! nobody else has.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::wait_for;

/// For a server to end.
const LIMIT: Duration = Duration::from_secs(10);

/// Ends the process that this file names, if it runs this program, and waits until it is gone.
pub(super) fn end(pid_file: &Path, program: &Path) {
    let named = fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let Some(pid) = named.filter(|pid| runs(*pid, program)) else { return };
    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM); // it may end by itself meanwhile
    wait_for(LIMIT, || (!runs(pid, program)).then_some(()));
}

fn runs(pid: i32, program: &Path) -> bool {
    pid > 1 && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}

/// Programs below this directory that run, with their process ids.
pub(super) fn running(dir: &Path) -> Vec<(i32, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let below =
        |pid: i32| Some((pid, fs::read_link(format!("/proc/{pid}/exe")).ok()?)).filter(|of| of.1.starts_with(dir));
    pids.filter_map(below).collect()
}

/// What the demo says last: that nothing runs any more only where it is so.
pub(super) fn last_word(left: &[(i32, PathBuf)]) -> String {
    if left.is_empty() {
        return "nothing of it runs any more".to_owned();
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let each: Vec<_> = left.iter().map(|(pid, path)| format!("{} (process {pid})", name(path))).collect();
    format!(
        "ended, but for what was started beside it and still runs: {}; end it where it was started",
        each.join(", ")
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "something has to run that can be ended")]

    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A program that waits for its standard input, as a copy in a directory of its own.
    fn waits(dir: &Path) -> (PathBuf, Child) {
        fs::create_dir_all(dir).unwrap();
        let program = dir.join("waits");
        fs::copy("/bin/cat", &program).unwrap();
        let child = Command::new(&program).stdin(Stdio::piped()).spawn().unwrap();
        (program, child)
    }

    // spec: SD-90
    #[test]
    fn what_is_ended_is_what_the_file_names_and_runs_the_demos_copy() {
        let dir = std::env::temp_dir().join(format!("lucia-left-{}", std::process::id()));
        let (program, mut child) = waits(&dir);
        let pid = i32::try_from(child.id()).unwrap();
        let file = dir.join("pid");
        for (text, of) in
            [("", &program), ("1\n", &program), ("-1\n", &program), (&*format!("{pid}\n"), &dir.join("other"))]
        {
            fs::write(&file, text).unwrap();
            end(&file, of);
            assert!(child.try_wait().unwrap().is_none(), "{text:?}");
        }
        assert_eq!(running(&dir), [(pid, program.clone())]);
        assert!(last_word(&running(&dir)).contains(&pid.to_string()));
        fs::write(&file, format!("{pid}\n")).unwrap();
        end(&file, &program);
        assert!(!child.wait().unwrap().success());
        assert!(running(&dir).is_empty());
        assert!(!last_word(&[]).contains(&pid.to_string()));
        fs::remove_dir_all(dir).unwrap();
    }
}

//! `make setup`: what it lays so that no daemon starts is gone when it ends, however it ends.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use lucia_qualification::program::Program;
use lucia_qualification::skip::workspace;
use lucia_qualification::wait::wait_for;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

const LIMIT: Duration = Duration::from_secs(20);

/// What setup.sh does around its installation, with a program of the test's as apt. A shell cannot take back signals that
/// whoever started the test ignores, as `nohup` does.
const SCRIPT: &str = r#"#!/usr/bin/env -S --default-signal=INT,HUP,TERM bash
set -euo pipefail
say() { printf '%s\n' "$*"; }
. "$1/qualification/without-daemons.sh"
no_leftover "$2"
install() { "$@"; }
without_daemons "$2" install "${@:3}" || exit
"#;

struct Story(PathBuf);

impl Story {
    fn new(name: &str) -> Self {
        let path = workspace().join(format!("target/setup-test-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("sbin")).unwrap();
        let story = Self(path);
        story.put("run", SCRIPT);
        // "apt" says its process id, and ends when it is ended or after a minute.
        story.put("apt", "#!/bin/sh\n\"$1/sbin/policy-rc.d\" || echo $? >\"$1/said\"\necho $$ >\"$1/at\"\nmv \"$1/at\" \"$1/pid\"\nexec sleep 60\n");
        story.put("quick", "#!/bin/sh\n\"$1/sbin/policy-rc.d\" || echo $? >\"$1/said\"\nexit 7\n");
        story
    }

    fn put(&self, name: &str, text: &str) {
        // Another program writes it: what this process has open for writing, a child of another test's may hold for a moment,
        // and such a file cannot be run (ETXTBSY).
        let mut install = Program::Install.command();
        install.args(["-m", "755", "/dev/stdin"]).arg(self.0.join(name)).stdin(Stdio::piped());
        let mut install = install.spawn().unwrap();
        install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(install.wait().unwrap().success());
    }

    fn said_no(&self) -> PathBuf {
        self.0.join("sbin/policy-rc.d")
    }

    /// Starts a run in a process group of its own.
    fn start(&self, apt: &str) -> Child {
        let mut command = Program::Built(self.0.join("run")).command();
        command.arg(workspace()).arg(self.said_no()).arg(self.0.join(apt)).arg(&self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn().unwrap()
    }

    /// A whole run with an apt that ends by itself; its status and what it said.
    fn run(&self) -> (Option<i32>, String) {
        let mut child = self.start("quick");
        let status = ended(&mut child);
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        (status.code(), said)
    }

    /// Starts a run and waits until its apt is at work, which has asked the file; gives the apt's process id.
    fn at_work(&self) -> (Child, Pid) {
        let child = self.start("apt");
        let pid = wait_for(LIMIT, || fs::read_to_string(self.0.join("pid")).ok()).expect("apt");
        fs::remove_file(self.0.join("pid")).unwrap();
        assert_eq!(fs::read_to_string(self.0.join("said")).unwrap(), "101\n");
        (child, Pid::from_raw(pid.trim().parse().unwrap()))
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    wait_for(LIMIT, || child.try_wait().unwrap()).expect("an end")
}

fn group(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

// spec: SD-21
#[test]
fn an_interrupted_setup_leaves_nothing_that_keeps_daemons_from_starting() {
    let story = Story::new("signals");
    assert_eq!(story.run(), (Some(7), String::new()));
    assert_eq!(
        (fs::read_to_string(story.0.join("said")).unwrap().as_str(), entries(&story.0.join("sbin"))),
        ("101\n", 0)
    );
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut child, _) = story.at_work();
        // As a terminal does at Ctrl-C: to everybody in the group.
        killpg(group(&child), signal).unwrap();
        let status = ended(&mut child);
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
        let gone = wait_for(LIMIT, || (entries(&story.0.join("sbin")) == 0).then_some(()));
        assert!(gone.is_some(), "{signal}");
    }
}

// spec: SD-21
#[test]
fn what_a_killed_setup_left_goes_with_the_next_one_and_an_administrator_s_file_never() {
    let story = Story::new("killed");
    let (mut child, _) = story.at_work();
    killpg(group(&child), Signal::SIGKILL).unwrap();
    ended(&mut child);
    assert!(story.said_no().exists());
    let (status, said) = story.run();
    assert!(status == Some(7) && said.contains("removed") && said.contains("policy-rc.d"), "{said}");
    assert_eq!(entries(&story.0.join("sbin")), 0);

    // An apt that outlives its make setup keeps the file until it is done.
    let (mut child, apt) = story.at_work();
    for shell in shells_of(&child) {
        kill(shell, Signal::SIGKILL).unwrap();
    }
    ended(&mut child);
    let (_, said) = story.run();
    assert!(said.contains("still installs") && story.said_no().exists(), "{said}");
    kill(apt, Signal::SIGKILL).unwrap();
    let free = wait_for(LIMIT, || story.run().1.contains("removed").then_some(()));
    assert!(free.is_some() && entries(&story.0.join("sbin")) == 0);

    for theirs in ["#!/bin/sh\nexit 101\n", "#!/bin/sh\n# mine\nexit 0\n", ""] {
        story.put("sbin/policy-rc.d", theirs);
        assert_eq!(story.run(), (Some(7), String::new()));
        assert_eq!(fs::read_to_string(story.said_no()).unwrap(), theirs);
    }
    fs::remove_file(story.said_no()).unwrap();
    symlink("/nowhere", story.said_no()).unwrap();
    assert_eq!(story.run().0, Some(7));
    assert!(story.said_no().is_symlink());
}

/// The shells of a run: its leader, and the leader's child that holds the traps.
fn shells_of(child: &Child) -> Vec<Pid> {
    let leader = group(child);
    let children = fs::read_to_string(format!("/proc/{leader}/task/{leader}/children")).unwrap();
    let mut all: Vec<Pid> = children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect();
    all.push(leader);
    all
}

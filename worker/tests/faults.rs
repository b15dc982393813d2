//! What befalls the worker's host (threats.md F-3, F-5, F-7, F-21), by the real binary: killed at any moment, a full or a
//! read-only disk, no inotify, directories that are replaced.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this is a test, whose helpers stand outside of test functions"
)]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;
#[allow(dead_code, reason = "shared with the tests beside this one")]
mod site;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lucia_proto::test_support::TestNode;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::time::{ClockId, clock_gettime};
use site::{BINARY, Site, command};

/// A request is answered within this, with inotify or without.
const ANSWERED: Duration = Duration::from_secs(10);

/// Notes that a test is skipped where it takes root: `make test` counts the note, and it is a failure under CI.
fn is_root(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(test), format!("{test}: it mounts, which takes root. Cure: run the tests as root\n"))
        .unwrap();
    false
}

fn issued(site: &Site) -> usize {
    let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    ledger.matches("\"kind\":\"issued\"").count()
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

fn wait(millis: u16) {
    // A signal only ends the wait early.
    let _ = nix::poll::poll(&mut [], millis);
}

/// A small file system of this test's thread alone, gone with it.
fn small_disk(at: &Path, options: &str) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
}

/// Takes the place of the directory by one of the same contents on a small disk.
fn on_small_disk(dir: &Path, options: &str) {
    let aside = dir.with_extension("aside");
    std::fs::rename(dir, &aside).unwrap();
    std::fs::create_dir(dir).unwrap();
    small_disk(dir, options);
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    copy(&aside, dir);
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            std::fs::set_permissions(&to, entry.metadata().unwrap().permissions()).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

// spec: WK-80 F-3
#[test]
fn a_worker_that_is_killed_at_any_moment_leaves_one_leaf_a_node() {
    let mut site = Site::new("admission = \"journal\"");
    let nodes: Vec<TestNode> = (1..=4).map(TestNode::new).collect();
    for (number, node) in nodes.iter().enumerate() {
        site.controller.approve(node);
        site.controller.ask(node);
        // From before it has begun to well after it is done.
        for delay in 0..8_u16 {
            let mut child = command()
                .args(["once", "--config"])
                .arg(site.path("worker.toml"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            wait(1 + delay * 2 + u16::try_from(number).unwrap());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    site.once().done(0, &[("refused", 0)]);
    for node in &nodes {
        site.accept(node);
    }
    assert_eq!(issued(&site), nodes.len(), "one line, and so one leaf, a node");
    site.run(&["status"]).exit(0);
}

// spec: WK-81 F-5
#[test]
fn a_full_disk_loses_nothing_wherever_it_ends_and_is_over_when_there_is_room() {
    if !is_root("worker-full-disk") {
        return;
    }
    for free_pages in 0..9_u64 {
        let mut site = Site::new("admission = \"journal\"");
        let node = TestNode::new(1);
        site.controller.approve(&node);
        on_small_disk(&site.path("worker"), "size=256k,mode=700");
        let filler = site.path("worker/filler");
        fill(&filler, free_pages);
        site.controller.ask(&node);
        let before = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
        let said = site.run(&["once"]);
        let has_answer = site.controller.answer(&node.node_id).is_some();
        if said.code == Some(0) {
            assert!(has_answer, "{free_pages}");
        } else {
            said.expect(1, "space");
            assert!(!has_answer, "{free_pages}");
            let after = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
            assert!(after.starts_with(&before), "{free_pages}: what was there stands");
        }
        std::fs::remove_file(&filler).unwrap();
        site.once().done(0, &[("refused", 0)]);
        site.accept(&node);
        assert_eq!(issued(&site), 1, "{free_pages}");
    }
}

/// Takes all room but so many pages of 4096 bytes.
fn fill(filler: &Path, free_pages: u64) {
    let mut file = std::fs::File::create(filler).unwrap();
    let page = [0_u8; 4096];
    let pages = (0..4096).take_while(|_| std::io::Write::write_all(&mut file, &page).is_ok()).count();
    assert!(pages < 4096, "{} is on no small disk", filler.display());
    let length = file.metadata().unwrap().len() / 4096 * 4096;
    file.set_len(length.saturating_sub(free_pages * 4096)).unwrap();
}

// spec: WK-81 F-7
#[test]
fn a_disk_without_inodes_and_a_read_only_one_lose_nothing() {
    if !is_root("worker-read-only") {
        return;
    }
    let mut site = Site::new("admission = \"journal\"");
    let node = TestNode::new(1);
    site.controller.approve(&node);
    on_small_disk(&site.path("worker"), "size=1m,nr_inodes=40,mode=700");
    site.controller.ask(&node);
    let before = std::fs::read(site.path("worker/ledger.jsonl")).unwrap();
    let mut fillers = 0;
    while std::fs::File::create(site.path(&format!("worker/filler{fillers}"))).is_ok() {
        fillers += 1;
        assert!(fillers < 4096, "no small disk");
    }
    site.run(&["once"]).expect(1, "space");
    assert!(site.controller.answer(&node.node_id).is_none());
    assert_eq!(std::fs::read(site.path("worker/ledger.jsonl")).unwrap(), before);
    for number in 0..fillers {
        std::fs::remove_file(site.path(&format!("worker/filler{number}"))).unwrap();
    }
    let none: Option<&str> = None;
    let again = |flags| mount(none, &site.path("worker"), none, MsFlags::MS_REMOUNT | flags, none).unwrap();
    again(MsFlags::MS_RDONLY);
    site.run(&["once"]).expect(1, "worker");
    assert!(site.controller.answer(&node.node_id).is_none());
    assert_eq!(std::fs::read(site.path("worker/ledger.jsonl")).unwrap(), before);
    again(MsFlags::empty());
    site.once().done(0, &[("issued", 1)]);
    site.accept(&node);
}

/// The worker as a daemon, ended with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn plain(site: &Site) -> Self {
        Self::start(command().args(["run", "--config"]).arg(site.path("worker.toml")))
    }
}

/// Until the worker has taken its first turn.
fn await_status(site: &Site) {
    await_file(&site.path("controller/nodes/enrollment-responses/enrollment-worker.json"));
}

fn await_file(path: &Path) -> Duration {
    let start = monotonic();
    while !path.exists() {
        assert!(monotonic() - start < ANSWERED * 2, "{} never came", path.display());
        wait(20);
    }
    monotonic() - start
}

#[track_caller]
fn is_answered(site: &mut Site, number: u8) {
    let node = TestNode::new(number);
    site.controller.approve(&node);
    site.controller.ask(&node);
    let took = await_file(&site.controller.answer_path(&node.node_id));
    assert!(took < ANSWERED, "{took:?}");
    site.accept(&node);
}

// spec: WK-82 F-21
#[test]
fn without_inotify_a_request_is_answered_within_ten_seconds() {
    if !is_root("worker-no-inotify") {
        return;
    }
    for limit in ["max_inotify_instances", "max_inotify_watches"] {
        let mut site = Site::new("admission = \"journal\"");
        let script = format!("echo 0 >/proc/sys/user/{limit} && exec \"$0\" run --config \"$1\"");
        let _daemon = Daemon::start(
            unshare_command().args(["-U", "-r", "sh", "-c", &script, BINARY]).arg(site.path("worker.toml")),
        );
        await_status(&site);
        is_answered(&mut site, 1);
    }
}

#[expect(clippy::disallowed_methods, reason = "a namespace in which the limits of inotify are the test's own")]
fn unshare_command() -> Command {
    Command::new("unshare")
}

// spec: WK-82 F-21
#[test]
fn directories_that_are_replaced_and_a_queue_of_events_that_ran_over_cost_a_poll_at_most() {
    let mut site = Site::new("admission = \"journal\"");
    let daemon = Daemon::plain(&site);
    await_status(&site);
    is_answered(&mut site, 1);
    // As a restore or a bind mount does it: another directory under the same name.
    let requests = site.path("controller/nodes/enrollment-requests");
    std::fs::rename(&requests, requests.with_extension("former")).unwrap();
    std::fs::create_dir(&requests).unwrap();
    std::fs::set_permissions(&requests, std::fs::Permissions::from_mode(0o2750)).unwrap();
    is_answered(&mut site, 2);
    // More events than the kernel keeps, while nobody reads them.
    let pid = nix::unistd::Pid::from_raw(daemon.0.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let outside = site.path("moved");
    std::fs::write(&outside, b"{}").unwrap();
    for _ in 0..17_000 {
        std::fs::rename(&outside, requests.join("moved")).unwrap();
        std::fs::rename(requests.join("moved"), &outside).unwrap();
    }
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    is_answered(&mut site, 3);
}

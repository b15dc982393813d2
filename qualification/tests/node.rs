//! The container node itself: it is a real systemd Debian, boots in seconds, and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test where it stands")]

use std::fs;
use std::path::{Path, PathBuf};

use common::{Scratch, said, skipped};
use lucia_qualification::network::Network;
use lucia_qualification::node::{Node, NodeError, NodeSpec};
use lucia_qualification::program::Program;

mod common;

/// Everything of a node named `name` that this machine still shows: cgroups, mounts, processes' namespaces.
fn left_of(name: &str) -> Vec<String> {
    let mut left = Vec::new();
    let mut look = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = look.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&format!("lucia-{name}-{}-", std::process::id())) {
                    left.push(entry.path().display().to_string());
                }
                look.push(entry.path());
            }
        }
    }
    let own = format!("node-tests/{}-", std::process::id());
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // One line for each mount that any process still sees, in whatever namespace.
        let mounts = fs::read_to_string(process.path().join("mountinfo")).unwrap_or_default();
        left.extend(mounts.lines().filter(|line| line.contains(&own) && line.contains(name)).map(str::to_owned));
    }
    left
}

// spec: SD-1
#[test]
fn a_node_is_a_running_systemd_debian_of_its_own() {
    if skipped("a_node_is_a_running_systemd_debian_of_its_own") {
        return;
    }
    let scratch = Scratch::new("running");
    let node = Node::boot(scratch.spec("running")).unwrap();
    assert_eq!(said(&node, &["systemctl", "is-system-running", "--wait"]), "running", "{:?}", failed(&node));
    assert_eq!(said(&node, &["hostname"]), "running");
    assert_eq!(said(&node, &["cat", "/proc/1/comm"]), "systemd");
    assert_eq!(said(&node, &["cat", "/proc/sys/kernel/random/boot_id"]), node.boot_id());
    let clock = node.exec(&["date", "-s", "@0"]).unwrap();
    assert!(!clock.status.success(), "{clock:?}");
    node.stop().unwrap();
}

fn failed(node: &Node) -> String {
    said(node, &["systemctl", "--failed", "--plain"])
}

// spec: SD-2
#[test]
fn a_second_boot_keeps_the_files_and_has_another_boot_id() {
    if skipped("a_second_boot_keeps_the_files_and_has_another_boot_id") {
        return;
    }
    let scratch = Scratch::new("twice");
    let first = Node::boot(scratch.spec("twice")).unwrap();
    let (boot, machine) = (first.boot_id().to_owned(), said(&first, &["cat", "/etc/machine-id"]));
    assert_eq!(machine.len(), 32);
    assert!(first.exec(&["touch", "/var/lib/kept"]).unwrap().status.success());
    first.stop().unwrap();

    let second = Node::boot(scratch.spec("twice")).unwrap();
    assert_ne!(second.boot_id(), boot);
    assert_eq!(said(&second, &["cat", "/proc/sys/kernel/random/boot_id"]), second.boot_id());
    assert_eq!(said(&second, &["cat", "/etc/machine-id"]), machine);
    assert_eq!(said(&second, &["ls", "/var/lib/kept"]), "/var/lib/kept");
    // A service with its own /proc sees the node's boot id too: the guard of managed-run reads it there.
    let in_sandbox = ["systemd-run", "-q", "--wait", "--pipe", "-p", "ProtectProc=invisible", "cat"];
    let seen = said(&second, &[in_sandbox.as_slice(), &["/proc/sys/kernel/random/boot_id"]].concat());
    assert_eq!(seen, second.boot_id());
}

// spec: SD-3
#[test]
fn a_stopped_a_dropped_and_a_failed_node_leave_nothing() {
    if skipped("a_stopped_a_dropped_and_a_failed_node_leave_nothing") {
        return;
    }
    let scratch = Scratch::new("nothing");
    let stopped = Node::boot(scratch.spec("gone-stopped")).unwrap();
    // A search that finds no running node would prove nothing.
    assert!(!left_of("gone-stopped").is_empty());
    stopped.stop().unwrap();
    assert_eq!(left_of("gone-stopped"), Vec::<String>::new());

    drop(Node::boot(scratch.spec("gone-dropped")).unwrap());
    assert_eq!(left_of("gone-dropped"), Vec::<String>::new());

    let lower = scratch.0.join("not-debian");
    fs::create_dir_all(lower.join("sbin")).unwrap();
    fs::write(lower.join("sbin/init"), "").unwrap();
    let failed = Node::boot(NodeSpec { lower, ..scratch.spec("gone-failed") });
    assert!(matches!(failed, Err(NodeError::NotStarted { .. })), "{failed:?}");
    assert_eq!(left_of("gone-failed"), Vec::<String>::new());
}

// spec: SD-4
#[test]
fn nodes_reach_the_host_of_their_network_and_one_another() {
    if skipped("nodes_reach_the_host_of_their_network_and_one_another") {
        return;
    }
    let scratch = Scratch::new("network");
    let network = Network::start(Path::new(env!("CARGO_BIN_EXE_lucia-qualification"))).unwrap();
    let plugged =
        |name, number| Node::boot(NodeSpec { network: Some(network.plug(number)), ..scratch.spec(name) }).unwrap();
    let (one, two) = (plugged("one", 1), plugged("two", 2));
    let to_host = one.exec(&["ping", "-c1", "-W5", &network.host_address().to_string()]).unwrap();
    assert!(to_host.status.success(), "{to_host:?}");
    let across = two.exec(&["ping", "-c1", "-W5", "10.73.0.11"]).unwrap();
    assert!(across.status.success(), "{across:?}");
    let from_host = network.command(&Program::Ip).args(["neighbour", "show", "10.73.0.11"]).output().unwrap();
    assert!(String::from_utf8_lossy(&from_host.stdout).contains("lucia0"), "{from_host:?}");
    let links = fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!links.contains("lucia0") && !links.contains("node11"), "{links}");
}

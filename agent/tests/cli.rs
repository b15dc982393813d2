//! The real binary: help, wrong usage, a refused start.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test of the program has to start it")]

use std::process::{Command, Output};

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lucia-node-agent")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_names_every_verb_and_exit_code() {
    let help = agent(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    for word in [
        "inspect",
        "discover",
        "status",
        "why",
        "wait-install",
        "installation-guard",
        "stage-managed",
        "rekey",
        "policy",
        "managed-run",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert_eq!(agent(&["--version"]).status.code(), Some(0));
}

// spec: MR-8
#[test]
fn wrong_usage_is_64() {
    for arguments in
        [&["frobnicate"][..], &["managed-run", "--now"], &["stage-managed"], &[], &["status", "--json", "x"]]
    {
        let output = agent(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(agent(&["policy", "allow", "admit"]).status.code(), Some(64), "no node carries it out");
    assert_eq!(agent(&["stage-managed", "--root", "relative"]).status.code(), Some(64));
    assert_eq!(agent(&["stage-managed", "--root", "/"]).status.code(), Some(64));
}

// spec: MR-2
#[test]
fn a_copy_elsewhere_does_not_run_as_the_daemon() {
    let output = agent(&["managed-run"]);
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("/usr/lib/lucia/agent/lucia-node-agent"));
}

#[test]
fn the_exit_code_is_the_same_where_nothing_can_be_said() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_lucia-node-agent")).arg("managed-run").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(10));
}

//! Commands as root types them, and every command of the worker that a program or a page prints.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests stop the test where it stands")]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the unit tests, which use all of it")]
mod fixture;
#[allow(dead_code, reason = "shared with the tests beside this one")]
mod site;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::unistd::{Gid, Uid, chown, geteuid};
use site::{Ran, Site, command, run_with};

/// The worker's user and the controller's: neither is root.
const WORKER: u32 = 64_999;
const CONTROLLER: u32 = 64_997;

/// Every verb, with arguments that reach the worker's directory.
const VERBS: [&[&str]; 24] = [
    &["status"],
    &["status", "--json"],
    &["once"],
    &["pending"],
    &["admit", "1a2b-3c4d-5e6f", "--fingerprint", "00"],
    &["confirm-removals"],
    &["confirm-removals", "--all"],
    &["resume", "--all"],
    &["accept-journal", "--generation", "1"],
    &["release-lapse", "n1", "--code", "1a2b-3c4d-5e6f"],
    &["rename", "n1", "n2"],
    &["owner", "pending"],
    &["owner", "list"],
    &["owner", "approve", "1a2b-3c4d-5e6f", "--fingerprint", "00"],
    &["owner", "reject", "1a2b-3c4d-5e6f"],
    &["owner", "remove", "alice", "--yes"],
    &["roster", "show"],
    &["roster", "policy", "show"],
    &["roster", "policy", "set", "ssh-key=two-owners", "--yes"],
    &["roster", "page-kinds"],
    &["audit", "anchors"],
    &["audit", "accept"],
    &["prepare-directory", "--check"],
    &["sign-directory", "--csr", "-", "--out", "-"],
];

fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_path_buf()];
    if fs::symlink_metadata(dir).unwrap().is_dir() {
        found.extend(fs::read_dir(dir).unwrap().flat_map(|entry| all(&entry.unwrap().path())));
    }
    found
}

fn give(dir: &Path, uid: u32, gid: u32) {
    all(dir).iter().for_each(|path| chown(path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).unwrap());
}

#[track_caller]
fn nothing_is_roots(dir: &Path, verb: &[&str]) {
    for path in all(dir) {
        assert_eq!(fs::symlink_metadata(&path).unwrap().uid(), WORKER, "{verb:?}: {}", path.display());
    }
}

/// A site as `make install` lays one: three users, and this test is root. None where it is not.
fn laid(test: &str) -> Option<Site> {
    if !geteuid().is_root() {
        let notes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
        fs::create_dir_all(&notes).unwrap();
        fs::write(notes.join(test), format!("{test}: it takes root\n")).unwrap();
        return None;
    }
    let site = Site::bare("");
    fs::set_permissions(site.scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let settings = site.path("worker.toml");
    let group = format!("group = {WORKER}");
    let text: String = fs::read_to_string(&settings).unwrap().lines().fold(String::new(), |text, line| {
        let line = match line.split(" = ").next() {
            Some("controller-user") => &format!("controller-user = {CONTROLLER}"),
            Some("group") => &group,
            _ => line,
        };
        text + line + "\n"
    });
    fs::write(&settings, text).unwrap();
    fs::set_permissions(&settings, PermissionsExt::from_mode(0o644)).unwrap();
    give(&site.path("controller"), CONTROLLER, WORKER);
    for answers in ["enrollment-responses", "owner-responses"] {
        let path = site.path("controller/nodes").join(answers);
        if path.exists() {
            give(&path, WORKER, WORKER);
        }
    }
    for path in all(&site.path("controller")) {
        let mode = if path.is_dir() { 0o2750 } else { 0o640 };
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    fs::create_dir_all(site.path("worker")).unwrap();
    fs::set_permissions(site.path("worker"), PermissionsExt::from_mode(0o700)).unwrap();
    give(&site.path("worker"), WORKER, WORKER);
    Some(site)
}

/// The same command by the worker's own user, as systemd, `sudo -u` and `runuser` start it.
fn by_its_user(settings: &Path, args: &[&str]) -> Ran {
    use std::os::unix::process::CommandExt as _;
    let output = command().args(args).arg("--config").arg(settings).uid(WORKER).gid(WORKER).output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

// spec: WK-240
#[test]
fn every_verb_run_by_root_is_the_workers_users_own() {
    let Some(site) = laid("every_verb_run_by_root_is_the_workers_users_own") else { return };
    let (home, settings) = (site.path("worker"), site.path("worker.toml"));
    site.run(&["init"]).exit(0);
    nothing_is_roots(&home, &["init"]);
    for verb in VERBS {
        let by_root = run_with(&settings, verb);
        nothing_is_roots(&home, verb);
        let by_user = by_its_user(&settings, verb);
        assert_eq!(by_root.code, by_user.code, "{verb:?}: {}{}\n{}", by_root.out, by_root.err, by_user.err);
        for said in [&by_root, &by_user] {
            let text = said.out.clone() + &said.err;
            assert!(!text.contains("chown"), "{verb:?}: {text}");
            assert!(!text.contains("ermission denied") && !text.contains("uid 0"), "{verb:?}: {text}");
        }
    }
    // What the caller names is the caller's: the worker's user cannot read this one.
    let key = site.path("root.key");
    fs::copy(home.join("ca/root.key"), &key).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    run_with(&settings, &["retire-key", "--root-key", key.to_str().unwrap()]).expect(0, "bundle 2");
    nothing_is_roots(&home, &["retire-key"]);
    run_with(&settings, &["once"]).exit(0);
    nothing_is_roots(&home, &["once"]);
}

// spec: WK-241
#[test]
fn root_begins_no_fleet_where_no_directory_says_whose_it_is() {
    let Some(site) = laid("root_begins_no_fleet_where_no_directory_says_whose_it_is") else { return };
    fs::remove_dir_all(site.path("worker")).unwrap();
    for verb in [&["init"][..], &["status"], &["run"], &["once"]] {
        site.run(verb).expect(1, "systemd-tmpfiles --create");
        assert!(!site.path("worker").exists(), "{verb:?}");
    }
}

/// A directory that was given away names both users, and hands nothing to who asks.
// spec: WK-242
#[test]
fn no_cure_hands_the_workers_files_to_the_caller() {
    let Some(site) = laid("no_cure_hands_the_workers_files_to_the_caller") else { return };
    site.run(&["init"]).exit(0);
    give(&site.path("worker/ca"), 0, 0);
    fs::set_permissions(site.path("worker/ca"), PermissionsExt::from_mode(0o755)).unwrap();
    for said in [site.run(&["status"]), by_its_user(&site.path("worker.toml"), &["status"])] {
        said.expect(1, "uid 0").expect(1, &format!("uid {WORKER}"));
        assert!(!said.out.contains("chown"), "{}", said.out);
    }
}

/// The controller's user moves nothing that leads to the queues, or `status` says that it can; what it shuts of its own is said
/// and holds up nothing else.
// spec: QU-241
#[test]
fn what_leads_to_the_queues_is_roots_and_a_shut_queue_is_said() {
    let Some(site) = laid("what_leads_to_the_queues_is_roots_and_a_shut_queue_is_said") else { return };
    site.run(&["init"]).exit(0);
    let own = |path: &str, uid| chown(&site.path(path), Some(Uid::from_raw(uid)), None).unwrap();
    site.run(&["once"]).exit(0);
    // As it was laid before: the worker goes on, and a person is told.
    site.run(&["status"]).expect(0, "systemd-tmpfiles --create");
    own("controller", 0);
    site.run(&["status"]).expect(0, "systemd-tmpfiles --create");
    own("controller/nodes", 0);
    site.run(&["once"]).exit(0);
    assert!(!site.run(&["status"]).exit(0).out.contains("systemd-tmpfiles"));
    own("controller/nodes", WORKER);
    site.run(&["once"]).expect(1, site.path("controller/nodes").to_str().unwrap());
    own("controller/nodes", 0);
    for shut in ["removals", "enrollment-requests"] {
        let path = site.path("controller/nodes").join(shut);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        let status = site.path("controller/nodes/enrollment-responses/enrollment-worker.json");
        fs::remove_file(&status).unwrap();
        site.run(&["once"]).expect(0, shut);
        assert!(status.exists(), "{shut}: the turn was not taken to its end");
        site.run(&["status"]).expect(1, shut);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o2750)).unwrap();
    }
    site.run(&["status"]).exit(0);
}

/// Sources in which a command for the worker's host may stand: all that a person reads.
const PRINTED: [&str; 10] = [
    "worker/src",
    "worker/worker.toml",
    "controller/src",
    "controller/page",
    "controller/templates",
    "controller/ctl/src",
    "proto/src",
    "agent/src",
    "docs",
    "systemd/README.md",
];
const PROGRAM: &str = "lucia-enrollment-worker ";

fn texts(path: &Path) -> Vec<(PathBuf, String)> {
    let is_test = |file: &PathBuf| file.strip_prefix(path).is_ok_and(|file| file.to_string_lossy().contains("tests"));
    let files = all(path).into_iter().filter(|file| file.is_file() && !is_test(file));
    files.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

/// A text as it is read: no line that goes on in the next, and a word in the place of each expression in braces.
fn plain(text: &str) -> String {
    let joined = text.replace("\\\\\n", "\\\n").split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("");
    let mut out = String::new();
    let mut depth = 0_u32;
    for part in joined.chars() {
        match part {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.push('X');
                }
            }
            _ if depth > 0 && part != '\n' => {}
            '\n' => {
                depth = 0;
                out.push('\n');
            }
            _ => out.push(part),
        }
    }
    out
}

/// Commands, each up to where its sentence or its quotation ends.
fn printed() -> Vec<(PathBuf, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (path, text) in PRINTED.iter().flat_map(|place| texts(&root.join(place))) {
        for line in text_of_lines(&path, &text).lines() {
            let parts: Vec<_> = line.split(PROGRAM).collect();
            for (before, rest) in parts.iter().zip(parts.iter().skip(1)) {
                // A unit's name after systemctl is no command of the worker's.
                if before.contains("systemctl") {
                    continue;
                }
                let end = rest.find(['`', '"', ';', ',', ')', '<', '>', '|', '&', '\'', '#']).unwrap_or(rest.len());
                let words = rest[..end].split_whitespace();
                let words = words.map(|word| word.trim_end_matches(['.', ':', '\\']).to_owned());
                let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
                if words.first().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
                {
                    found.push((path.clone(), words));
                }
            }
        }
    }
    found
}

/// What a program prints of a source: no tests, no tags, and a word for each expression.
fn text_of_lines(path: &Path, text: &str) -> String {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("rs") => plain(text.split("#[cfg(test)]").next().unwrap_or_default()),
        Some("html" | "js") => plain(&text.replace("<span id=\"orders-code\"></span>", "X")),
        _ => text.to_owned(),
    }
}

// spec: WK-243
#[test]
fn every_printed_command_of_the_worker_is_one() {
    let printed = printed();
    let nowhere = Path::new("/nonexistent/worker.toml");
    let mut bad = Vec::new();
    for (path, words) in &printed {
        // What follows the command in its sentence is no part of it: the longest beginning that is a command counts.
        let is_one = (1..=words.len()).rev().any(|count| {
            let mut command = command();
            command.args(&words[..count]).arg("--config").arg(nowhere).stdin(Stdio::null());
            let code = command.output().unwrap().status.code();
            code.is_some_and(|code| code != 64)
        });
        if !is_one {
            bad.push(format!("{}: {}", path.display(), words.join(" ")));
        }
    }
    assert!(printed.len() > 60, "{}", printed.len());
    assert_eq!(bad, Vec::<String>::new());
}

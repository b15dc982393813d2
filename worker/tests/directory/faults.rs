//! What befalls a real directory (threats.md F-3, F-16): full, restored from an old copy, and a worker that dies between the
//! directory and its own receipt.

use std::path::Path;

use lucia_durable::crash_point::{Fate, ask_at, crash_at};
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::Answer;
use lucia_proto::node::directory::DirectoryAccess;
use lucia_proto::test_support::TestNode;
use lucia_worker::config::{Config, Settings};
use lucia_worker::directory::ldap::PASSWORD_FILE;
use lucia_worker::init::init;
use lucia_worker::turn::Worker;
use zeroize::Zeroizing;

use crate::fixture::{Controller, Scratch, secs};
use crate::now;
use crate::slapd::{self, ADMIN_PASSWORD, Slapd};

struct Site {
    scratch: Scratch,
    controller: Controller,
    config: Config,
    now: UnixTime,
}

impl Site {
    /// A fleet with a directory that is prepared.
    fn start(test: &str) -> Option<(Self, Slapd)> {
        let (now, scratch) = (now(), Scratch::new());
        let controller = Controller::new(&scratch.path().join("controller"), now);
        let state = scratch.path().join("worker");
        let text = controller.settings(&state, "admission = \"journal\"");
        let mut config: Config = Settings::parse(&text).unwrap().resolve().unwrap();
        init(&config, now).unwrap();
        let slapd = slapd::start(test, now, Some(&state))?;
        slapd.with_services();
        let path = state.join(PASSWORD_FILE);
        std::fs::write(&path, ADMIN_PASSWORD).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        config.directory = Some(slapd.site(&slapd.uri()));
        Some((Self { scratch, controller, config, now }, slapd))
    }

    fn ask(&mut self, number: u8) -> TestNode {
        let node = TestNode::new(number);
        self.controller.approve(&node);
        self.controller.ask(&node);
        node
    }

    fn worker(&self) -> Worker {
        Worker::open(self.config.clone()).unwrap()
    }

    /// What the node was told of the directory, and its password in clear.
    fn access(&self, node: &TestNode) -> (DirectoryAccess, Zeroizing<String>) {
        let signed = self.controller.answer(&node.node_id).unwrap().answer.unwrap();
        let answer: Answer = json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap();
        let access = answer.directory.unwrap();
        let password = access.bind_password.open(&node.key, &node.node_id, &node.csr_sha256()).unwrap();
        (access, Zeroizing::new(String::from_utf8(password.to_vec()).unwrap()))
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // In place: the files stay those of slapd's user.
        let bytes = std::fs::read(entry.path()).unwrap();
        std::fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
}

// spec: LD-8 F-16
#[test]
fn a_reader_that_an_old_backup_does_not_have_is_made_again() {
    let Some((mut site, mut slapd)) = Site::start("worker-directory-backup") else { return };
    let backup = Scratch::new();
    slapd.stop();
    copy(&slapd.database(), backup.path());
    slapd.start_again();
    let node = site.ask(1);
    let mut worker = site.worker();
    assert_eq!(worker.turn(site.now).unwrap().issued, 1);
    let (access, password) = site.access(&node);
    slapd.binds(&access.bind_dn, &password).unwrap();
    slapd.stop();
    copy(backup.path(), &slapd.database());
    slapd.start_again();
    assert!(slapd.binds(&access.bind_dn, &password).is_err(), "the backup is from before the node");
    // Readers are looked at every ten minutes.
    worker.turn(site.now.plus(secs(601))).unwrap();
    slapd.binds(&access.bind_dn, &password).unwrap();
}

// spec: LD-9 F-16
#[test]
fn a_full_directory_is_waited_out() {
    let Some((mut site, slapd)) = Site::start("worker-directory-full") else { return };
    // Entries until there is no room for another one.
    let ldap = slapd.ldap();
    let filler: String = "x".repeat(30_000);
    let mut made = Vec::new();
    loop {
        let dn = format!("cn=filler{},ou=Groups,dc=lucia,dc=home,dc=arpa", made.len()).parse().unwrap();
        let gid = (30_000 + made.len()).to_string();
        let entry = [
            ("objectClass", vec!["posixGroup"]),
            ("gidNumber", vec![gid.as_str()]),
            ("description", vec![filler.as_str()]),
        ];
        match ldap.with(async |asking| asking.add(&dn, &entry).await) {
            Ok(_) => made.push(dn),
            Err(_) => break,
        }
        assert!(made.len() < 1000, "it never was full");
    }
    // Also the last pages: small entries until nothing goes in.
    for number in 0..2000 {
        let dn = format!("ou=small{number},dc=lucia,dc=home,dc=arpa").parse().unwrap();
        let name = format!("small{number}");
        let entry = [("objectClass", vec!["organizationalUnit"]), ("ou", vec![name.as_str()])];
        if ldap.with(async |asking| asking.add(&dn, &entry).await).is_err() {
            break;
        }
    }
    let node = site.ask(1);
    let mut worker = site.worker();
    let summary = worker.turn(site.now).unwrap();
    assert_eq!(summary.issued, 0);
    assert!(summary.problems.iter().any(|text| text.contains("LDAP")), "{summary:?}");
    assert!(site.controller.answer(&node.node_id).is_none());
    for dn in made {
        ldap.with(async |asking| asking.delete(&dn).await).unwrap();
    }
    assert_eq!(worker.turn(site.now.plus(secs(6))).unwrap().issued, 1);
    let (access, password) = site.access(&node);
    slapd.binds(&access.bind_dn, &password).unwrap();
}

// spec: LD-6 F-3
#[test]
fn a_worker_that_dies_around_the_directory_leaves_one_reader_with_the_password_the_node_has() {
    let Some((mut site, slapd)) = Site::start("worker-directory-crash") else { return };
    let node = site.ask(1);
    // Between the directory's write and the CA, after the CA, between receipt, ledger and answer.
    for nth in 0..12 {
        let mut worker = site.worker();
        let plan = crash_at(site.scratch.path(), nth);
        let outcome = worker.turn(site.now);
        let is_whole = outcome.is_ok();
        drop((plan, worker));
        let readers = slapd.readers();
        assert!(readers.len() <= 1 && readers.keys().all(|id| *id == node.node_id), "{nth}: {readers:?}");
        if is_whole {
            break;
        }
    }
    site.worker().turn(site.now.plus(secs(5))).unwrap();
    let (access, password) = site.access(&node);
    slapd.binds(&access.bind_dn, &password).unwrap();
    assert_eq!(slapd.readers().len(), 1);
    let ledger = std::fs::read_to_string(site.scratch.path().join("worker/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"kind\":\"issued\"").count(), 1, "{ledger}");
}

// spec: LD-16 F-3
#[test]
fn a_reader_whose_node_never_got_its_answer_goes_with_the_node() {
    let Some((mut site, slapd)) = Site::start("worker-directory-orphan") else { return };
    let node = site.ask(1);
    // Dead right after the directory was written.
    let plan = ask_at(site.scratch.path(), |step, _| if step == "worker/reader" { Fate::Die } else { Fate::Live });
    site.worker().turn(site.now).unwrap_err();
    drop(plan);
    assert_eq!(slapd.readers().keys().collect::<Vec<_>>(), [&node.node_id]);
    assert!(site.controller.answer(&node.node_id).is_none());
    // The operator gives it up before it asks again: its reader is nobody's, and goes.
    site.controller.remove(&node.node_id);
    std::fs::remove_file(site.controller.dir.join(format!("nodes/enrollment-requests/{}.json", node.node_id))).unwrap();
    let mut worker = site.worker();
    for later in [5, 10] {
        worker.turn(site.now.plus(secs(later))).unwrap();
    }
    assert!(slapd.readers().is_empty());
}

/// The exit code of a turn, which asks a directory and so ends within a minute or never.
fn ended(mut child: std::process::Child) -> Option<i32> {
    for _ in 0..6000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        let _ = nix::poll::poll(&mut [], 10_u16);
    }
    child.kill().unwrap();
    panic!("a turn did not end within a minute");
}

// spec: LD-6 F-3
#[test]
#[expect(clippy::disallowed_methods, reason = "the real binary, to be killed")]
fn a_worker_that_is_killed_at_any_moment_leaves_one_reader_and_one_leaf() {
    let Some((mut site, slapd)) = Site::start("worker-directory-kill") else { return };
    let more = format!("admission = \"journal\"\n[directory]\nkind = \"ldap\"\nuri = {:?}", slapd.uri());
    let config = site.scratch.path().join("worker.toml");
    std::fs::write(&config, site.controller.settings(&site.scratch.path().join("worker"), &more)).unwrap();
    let start = || {
        std::process::Command::new(env!("CARGO_BIN_EXE_lucia-enrollment-worker"))
            .args(["once", "--config"])
            .arg(&config)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let nodes = [site.ask(1), site.ask(2)];
    // From before it has begun to well after it is done.
    for delay in 0..20_u16 {
        let mut child = start();
        let _ = nix::poll::poll(&mut [], 1 + delay * 4);
        child.kill().unwrap();
        child.wait().unwrap();
        let readers = slapd.readers();
        assert!(readers.keys().all(|id| nodes.iter().any(|node| node.node_id == *id)), "{readers:?}");
    }
    assert_eq!(ended(start()), Some(0));
    assert_eq!(slapd.readers().len(), nodes.len());
    for node in &nodes {
        let (access, password) = site.access(node);
        slapd.binds(&access.bind_dn, &password).unwrap();
    }
    // A leaf that was signed right before a death, and not stored, was seen by nobody and is signed anew. What was handed
    // out is the only one from then on.
    let issued = || {
        let ledger = std::fs::read_to_string(site.scratch.path().join("worker/ledger.jsonl")).unwrap();
        let of = |node: &&TestNode| {
            ledger.lines().filter(|line| line.contains("\"issued\"") && line.contains(node.node_id.as_str())).count()
        };
        nodes.iter().map(|node| of(&node)).collect::<Vec<_>>()
    };
    let before = issued();
    assert!(before.iter().all(|leaves| (1..=20).contains(leaves)), "{before:?}");
    let handed_out = nodes.each_ref().map(|node| site.controller.answer(&node.node_id));
    assert_eq!(ended(start()), Some(0));
    assert_eq!(issued(), before);
    assert_eq!(nodes.each_ref().map(|node| site.controller.answer(&node.node_id)), handed_out);
}

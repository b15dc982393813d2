//! The real binary against a queue folder: every command, its words and its exit codes.

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

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use expect_test::expect_file;
use fixture::{request, secs};
use lucia_proto::files::worker_status::WorkerStatus;
use lucia_proto::orders::owner;
use lucia_proto::test_support::{TestNode, TestOwner};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use site::{Site, command, now, run_with};

// spec: WK-50
#[test]
fn init_begins_a_fleet_once_and_touches_nothing_that_is_there() {
    let site = Site::bare("");
    let first = site.run(&["init"]);
    first.expect(0, &site.root().sha256().to_string()).expect(0, "/etc/lucia/root.pem");
    expect_file!["snapshots/init.txt"].assert_eq(&site.plain(&first.out));
    let read = || std::fs::read(site.path("worker/ca/root.key")).unwrap();
    let before = read();
    site.run(&["init"]).exit(1);
    assert_eq!(read(), before);
    // The root's key is needed by nothing but init.
    std::fs::remove_file(site.path("worker/ca/root.key")).unwrap();
    site.once().done(0, &[("issued", 0)]);
}

// spec: WK-51
#[test]
fn init_writes_settings_with_the_endpoints_names_only_where_there_are_none() {
    let site = Site::bare("endpoint-names = [\"a.example\"]");
    site.run(&["init", "--names", "b.example"]).expect(78, "endpoint-names");
    assert!(!site.path("worker/ca").exists());
    site.run(&["init", "--names", "A b"]).expect(78, "endpoint-names");
    site.run(&["init", "--names", "a.example"]).exit(0);
    let fresh = site.path("fresh.toml");
    let said = run_with(&fresh, &["init", "--names", "controller.example", "192.0.2.7"]);
    // The defaults name users this machine may not have; the file is there in any case.
    assert!(said.out.contains("endpoint-names"), "{}{}", said.out, said.err);
    let text = std::fs::read_to_string(&fresh).unwrap();
    assert!(text.contains("\nendpoint-names = [\"controller.example\", \"192.0.2.7\"]\n"), "{text}");
}

// spec: WK-52, AO-94
#[test]
fn a_node_is_admitted_by_code_and_whole_fingerprint() {
    let mut site = Site::new("");
    let node = TestNode::new(1);
    let (code, fingerprint) = (node.fingerprint.verification_code().to_string(), node.fingerprint.to_string());
    site.run(&["pending"]).exit(0);
    site.run(&["admit", &code, "--fingerprint", &fingerprint]).expect(1, "`pending`");
    site.controller.approve(&node);
    site.controller.ask(&node);
    site.once().done(0, &[("awaiting", 1)]);
    assert!(site.controller.answer(&node.node_id).is_none());
    let [first, second] = node.fingerprint.rows();
    site.run(&["pending"])
        .expect(0, &format!("    {first}\n    {second}\n"))
        .expect(0, &format!("admit {code} --fingerprint {fingerprint}"))
        .expect(0, "n1");
    let json: serde_json::Value = serde_json::from_str(&site.run(&["pending", "--json"]).out).unwrap();
    assert_eq!(json["requests"][0]["outlook"], "awaitsAdmission");
    assert_eq!(json["requests"][0]["fingerprint"], fingerprint.as_str());

    // Same code, another fingerprint: what somebody could brute-force.
    let forged = format!("{}{}", &fingerprint[..12], "0".repeat(52));
    site.run(&["admit", &code, "--fingerprint", &forged]).expect(1, "64 digits");
    site.run(&["admit", "0000-0000-0000", "--fingerprint", &fingerprint]).expect(1, "`pending`");
    site.run(&["admit", "0000", "--fingerprint", &fingerprint]).expect(64, "CODE");
    site.run(&["admit", &code, "--fingerprint", &fingerprint[..40]]).expect(64, "--fingerprint");
    site.once().done(0, &[("issued", 0)]);

    let typed = (code.to_uppercase(), fingerprint.to_uppercase());
    let said = site.run(&["admit", &typed.0, "--fingerprint", &typed.1]);
    said.expect(0, "n1").expect(0, node.node_id.as_str());
    assert_eq!(site.ledger_kinds("admitted"), 1);
    // Both rows as they stand on a screen, pasted.
    let rows = format!("{first}\n    {second}\n");
    for typed in [&fingerprint, &rows] {
        site.run(&["admit", &code, "--fingerprint", typed]).exit(0);
    }
    assert_eq!(site.ledger_kinds("admitted"), 1);
    site.once().done(0, &[("issued", 1)]);
    site.accept(&node);
    site.run(&["pending"]).exit(0);
}

// spec: WK-340
#[test]
fn pending_lists_what_waits_for_somebody_and_nothing_else() {
    let mut site = Site::new("admission = \"journal\"");
    let (healthy, reserved) = (TestNode::new(1), {
        let mut node = TestNode::new(2);
        node.hostname = "controller".parse().unwrap();
        node
    });
    let listed = |site: &Site| {
        let json: serde_json::Value = serde_json::from_str(&site.run(&["pending", "--json"]).out).unwrap();
        json["requests"].as_array().unwrap().iter().map(|row| row["hostname"].to_string()).collect::<Vec<_>>()
    };
    site.controller.approve(&healthy);
    site.controller.ask(&healthy);
    site.once().done(0, &[("issued", 1)]);
    assert_eq!(listed(&site), Vec::<String>::new());
    // Ten minutes later its request still lies there, for the node to fetch its answer again.
    site.controller.put_request(&request(&healthy, now().minus(secs(1))));
    assert_eq!(listed(&site), Vec::<String>::new());
    site.controller.approve(&reserved);
    site.controller.ask(&reserved);
    assert_eq!(listed(&site), ["\"controller\""]);
}

// spec: WK-53
#[test]
fn forged_requests_are_refused_naming_the_field() {
    let mut site = Site::new("admission = \"journal\"");
    let node = TestNode::new(1);
    site.controller.approve(&node);
    let good = || request(&node, now().plus(secs(600)));
    let mut cases = vec![];
    let mut forged = good();
    forged.hostname = "controller".parse().unwrap();
    cases.push(("subjectAltName", forged));
    let mut forged = good();
    forged.expires_at = now().plus(secs(3600));
    cases.push(("expiresAt", forged));
    let mut forged = good();
    forged.task_id = TestNode::new(2).task_id;
    cases.push(("taskId", forged));
    let mut forged = good();
    forged.public_key_fingerprint = TestNode::new(2).fingerprint;
    cases.push(("nodeId", forged));
    let mut forged = good();
    forged.csr_pem = request(&TestNode::new(2), now()).csr_pem;
    cases.push(("subjectPublicKey", forged));
    for (field, forged) in cases {
        site.controller.put_request(&forged);
        site.run(&["pending"]).expect(0, field);
        site.once().done(0, &[("refused", 1)]);
        let message = site.controller.answer(&node.node_id).unwrap().message;
        assert!(message.as_str().contains(field), "{field}: {message}");
    }
    site.controller.put_request(&good());
    site.once().done(0, &[("issued", 1)]);
    site.accept(&node);
}

// spec: WK-54, AO-104
#[test]
fn status_says_what_is_wrong_and_what_cures_it() {
    let site = Site::bare("");
    std::fs::remove_dir(site.path("worker")).unwrap();
    site.run(&["status"]).expect(1, site.path("worker").to_str().unwrap());
    let _ = site.controller.settings(&site.path("worker"), "");
    site.run(&["init"]).exit(0);
    site.run(&["status"]).expect(1, "systemctl start lucia-enrollment-worker");
    site.run(&["once"]).exit(0);
    site.run(&["status"]).exit(0);
    let json: serde_json::Value = serde_json::from_str(&site.run(&["status", "--json"]).out).unwrap();
    assert_eq!((&json["ready"], &json["admission"]), (&true.into(), &"operator".into()));
    assert_eq!(json["fleet"], site.root().sha256().to_string());
    site.controller.put("onboarding/state.json", b"{}");
    site.run(&["once"]).expect(1, "lucia-controller doctor");
    site.run(&["status"]).expect(1, "lucia-controller doctor");
    // What a crash cut off is nobody's work; what was answered on is.
    let ledger = site.path("worker/ledger.jsonl");
    let mut text = std::fs::read_to_string(&ledger).unwrap();
    text.push_str("{\"seq\":");
    std::fs::write(&ledger, &text).unwrap();
    // None, or nothing, has no row; each value begins in one column.
    let shown = site.run(&["status"]);
    shown.exit(1);
    for none in ["torn lines", "lapsed", "orphaned", "awaiting", "of them removed", "accepted by"] {
        assert!(!shown.out.contains(none), "{none}: {}", shown.out);
    }
    let rows: Vec<_> = shown.out.lines().take_while(|line| !line.is_empty()).map(str::as_bytes).collect();
    assert!(rows.len() > 8 && rows.iter().all(|row| row[18..20] == *b"  " && row[20] != b' '), "{}", shown.out);
    site.run(&["once"]).exit(1);
    let json: serde_json::Value = serde_json::from_str(&site.run(&["status", "--json"]).out).unwrap();
    assert_eq!((&json["ledgerTorn"], &json["nodes"]), (&1.into(), &0.into()));
    let text = std::fs::read_to_string(&ledger).unwrap();
    std::fs::write(&ledger, &text[..text.len() - 20]).unwrap();
    for verb in ["once", "status"] {
        site.run(&[verb]).expect(1, "ledger.head");
    }
}

// spec: WK-55
#[test]
fn usage_and_settings_have_their_own_exit_codes() {
    let site = Site::bare("");
    site.run(&["check-config"]).exit(0);
    site.run(&["dance"]).expect(64, "dance");
    site.run(&["admit"]).expect(64, "CODE");
    assert_eq!(command().arg("--help").output().unwrap().status.code(), Some(0));
    let help = String::from_utf8(command().arg("--help").output().unwrap().stdout).unwrap();
    expect_file!["snapshots/help.txt"].assert_eq(&help);
    let bad = site.path("bad.toml");
    std::fs::write(&bad, "polling = 3\n").unwrap();
    for verb in ["check-config", "run", "once", "status", "pending", "init"] {
        run_with(&bad, &[verb]).expect(78, "polling");
        run_with(&site.path("none.toml"), &[verb]).expect(78, "none.toml");
    }
}

/// The next message to systemd. A socket with a time limit is not restarted by the kernel when a signal comes between.
fn next_message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 512];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => return String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => unreachable!("no message in time: {error}"),
        }
    }
}

/// The worker as a daemon, ended with the test.
struct Daemon(Child);

impl Daemon {
    fn start(site: &Site) -> Self {
        let child = command()
            .arg("run")
            .arg("--config")
            .arg(site.path("worker.toml"))
            .env("NOTIFY_SOCKET", site.path("notify"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().unwrap())
    }

    /// Its exit code, within 20 s.
    fn ended(&mut self) -> Option<i32> {
        for _ in 0..2000 {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            let _ = nix::poll::poll(&mut [], 10_u16);
        }
        unreachable!("the worker did not end within 20 s of SIGTERM");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// spec: WK-56, QU-20
#[test]
fn run_tells_systemd_answers_within_the_poll_and_ends_at_sigterm() {
    let mut site = Site::new("admission = \"journal\"");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let heard = |want: &str| {
        let is_it = (0..20).any(|_| next_message(&socket).contains(want));
        assert!(is_it, "never heard {want}");
    };
    let mut daemon = Daemon::start(&site);
    heard("READY=1");
    heard("WATCHDOG=1");
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    // The turn that the file woke, or the one after it.
    for _ in 0..5 {
        heard("WATCHDOG=1");
        if site.controller.answer(&node.node_id).is_some() {
            break;
        }
    }
    site.accept(&node);
    let status = std::fs::read(site.path("controller/nodes/enrollment-responses/enrollment-worker.json")).unwrap();
    WorkerStatus::from_bytes(&status).unwrap().fresh(now()).unwrap();
    site.run(&["status"]).exit(0);
    site.run(&["once"]).expect(1, "pid");

    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    kill(daemon.pid(), Signal::SIGTERM).unwrap();
    heard("STOPPING=1");
    assert_eq!(daemon.ended(), Some(0));
}

// spec: WK-244
#[test]
fn what_appears_without_end_makes_no_turn_follow_the_other_at_once() {
    let mut site = Site::new("admission = \"journal\"");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut daemon = Daemon::start(&site);
    while !next_message(&socket).contains("WATCHDOG=1") {}
    // Renames for two seconds, as fast as they go; each turn tells the watchdog once.
    let (from, to) = (site.controller.dir.join("nodes/x"), site.controller.dir.join("nodes/removals/x"));
    let clock = || nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap();
    let end = clock() + Duration::from_secs(2);
    let (mut turns, mut renames) = (0, 0_u32);
    std::fs::write(&from, "").unwrap();
    socket.set_nonblocking(true).unwrap();
    while clock() < end {
        std::fs::rename(&from, &to).unwrap();
        std::fs::rename(&to, &from).unwrap();
        renames += 1;
        let mut buffer = [0; 512];
        turns += u32::from(socket.recv(&mut buffer).is_ok_and(|length| buffer[..length].starts_with(b"WATCHDOG=1")));
    }
    assert!(renames > 200 && (1..=8).contains(&turns), "{turns} turns in two seconds of {renames} renames");
    // A request is answered meanwhile all the same.
    socket.set_nonblocking(false).unwrap();
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    for _ in 0..5 {
        next_message(&socket);
        if site.controller.answer(&node.node_id).is_some() {
            break;
        }
    }
    site.accept(&node);
    kill(daemon.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(daemon.ended(), Some(0));
}

// spec: WK-57
#[test]
fn admit_works_beside_a_running_worker() {
    let mut site = Site::new("");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.ask(&node);
    let _daemon = Daemon::start(&site);
    next_message(&socket);
    let code = node.fingerprint.verification_code();
    let said = site.run(&["admit", code.as_str(), "--fingerprint", &node.fingerprint.to_string()]);
    said.expect(0, "n1");
    for _ in 0..6 {
        next_message(&socket);
        if site.controller.answer(&node.node_id).is_some() {
            break;
        }
    }
    site.accept(&node);
}

// spec: OA-17
#[test]
fn owners_come_and_go_beside_a_running_worker() {
    let site = Site::new("");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut daemon = Daemon::start(&site);
    next_message(&socket);
    for (number, name) in [(41, "alice"), (43, "bob"), (45, "victor")] {
        let who = TestOwner::new(name, number);
        site.controller.apply(&who);
        let (code, whole) = (owner::code(who.key.public()).to_string(), who.key.public().fingerprint().to_string());
        site.run(&["owner", "approve", &code, "--fingerprint", &whole]).exit(0);
        site.run(&["owner", "list"]).expect(0, name);
        site.run(&["status"]);
    }
    site.run(&["owner", "remove", "victor", "--yes"]).exit(0);
    let [own, published] = ["worker", "controller/nodes/owner-responses"].map(|dir| site.path(dir).join("roster.json"));
    for _ in 0..12 {
        if std::fs::read(&published).ok() == std::fs::read(&own).ok() {
            break;
        }
        next_message(&socket);
    }
    assert_eq!(std::fs::read(published).unwrap(), std::fs::read(own).unwrap());
    assert!(daemon.0.try_wait().unwrap().is_none(), "it runs on");
}

// spec: OA-91
#[test]
fn retire_key_takes_the_roots_key_and_a_stopped_worker() {
    let site = Site::new("");
    let root_key = site.path("worker/ca/root.key");
    let file = root_key.to_str().unwrap();
    site.run(&["retire-key"]).expect(64, "--root-key");
    site.run(&["retire-key", "--root-key", "/nowhere/root.key"]).expect(1, "/nowhere/root.key");
    site.run(&["retire-key", "--root-key", site.path("worker/worker.key").to_str().unwrap()]).expect(1, "ca/root.pem");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let daemon = Daemon::start(&site);
    next_message(&socket);
    site.run(&["retire-key", "--root-key", file]).expect(1, "systemctl stop lucia-enrollment-worker");
    drop(daemon);
    for version in [2, 3] {
        site.run(&["retire-key", "--root-key", file]).expect(0, &format!("bundle {version}"));
        site.once().done(0, &[("issued", 0)]);
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let site = Site::new("");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let config = site.path("worker.toml");
    // A request that is no request is a line of the log; so is the endpoint's, which is signed.
    let requests = site.path("controller/nodes/enrollment-requests");
    std::fs::write(requests.join("0123456789abcdef0123456789abcdef.json"), "{}").unwrap();
    let once = command().arg("once").arg("--config").arg(&config).stdout(full()).stderr(full()).status().unwrap();
    assert!(once.code().is_some_and(|code| code < 100), "{once}");
}

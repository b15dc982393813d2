//! Threats.md group Q by the real binary: what may lie in the shared directories besides what belongs there. Each row is
//! refused without a change of receipts, ledger and answers, and the node beside it is served.

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

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use fixture::{request, secs};
use lucia_proto::node::enrollment::{EnrollmentRequest, request_hash};
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::TestNode;
use nix::time::{ClockId, clock_gettime};
use site::{Ran, Site, now};

const REQUESTS: &str = "controller/nodes/enrollment-requests";
const ANSWERS: &str = "controller/nodes/enrollment-responses";
/// A turn with everything in its way: less than this.
const A_TURN: Duration = Duration::from_secs(20);

/// Of one row: the node that is served, and the one the row is about.
fn good() -> TestNode {
    TestNode::new(1)
}

fn bad() -> TestNode {
    TestNode::new(2)
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

fn file_of(node: &TestNode) -> String {
    format!("{}.json", node.node_id)
}

/// A site whose journal has both, and whose worker has seen it.
fn site() -> Site {
    let mut site = Site::new("admission = \"journal\"");
    for node in [good(), bad()] {
        site.controller.approve(&node);
    }
    site.once().done(0, &[("issued", 0)]);
    site
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// All that the worker did: receipts, lines of the ledger but its marks of the journal, answers but its own status.
fn done(site: &Site) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for dir in ["worker/receipts", ANSWERS] {
        for entry in std::fs::read_dir(site.path(dir)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name != "enrollment-worker.json" && entry.file_type().unwrap().is_file() {
                all.insert(format!("{dir}/{name}"), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    let lines = ledger.lines().filter(|line| !line.contains("\"journalSeen\""));
    all.insert("ledger".to_owned(), lines.collect::<Vec<_>>().join("\n").into_bytes());
    all
}

/// Runs one row: what it put there changes nothing, and the other node is served in time.
#[track_caller]
fn refused(name: &str, site: &Site) -> Ran {
    let before = done(site);
    let said = timed(name, site);
    assert_eq!(done(site), before, "{name} changed something: {}{}", said.out, said.err);
    site.controller.ask(&good());
    timed(name, site).done(0, &[("issued", 1)]);
    site.accept(&good());
    said
}

fn timed(name: &str, site: &Site) -> Ran {
    let start = monotonic();
    let said = site.once();
    assert!(monotonic() - start < A_TURN, "{name} took {:?}", monotonic() - start);
    said
}

const FORGED: &[u8] = br#"{"schemaVersion":1,"nodeId":"x","success":true}"#;

type Put = fn(&Site, &Path);

// spec: QU-24
#[test]
fn q1_q2_q3_q5_what_is_no_file_of_the_controllers_is_skipped_with_one_line() {
    let valid = || request(&bad(), now().plus(secs(600))).to_bytes().unwrap();
    let rows: Vec<(&str, &str, Put)> = vec![
        ("Q-1 FIFO", "", |_, at| nix::unistd::mkfifo(at, nix::sys::stat::Mode::from_bits_truncate(0o640)).unwrap()),
        ("Q-1 socket", "", |_, at| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
        ("Q-1 directory", "", |_, at| std::fs::create_dir(at).unwrap()),
        ("Q-1 link to /dev/zero", "", |_, at| symlink("/dev/zero", at).unwrap()),
        ("Q-1 link to the CA's key", "", |s, at| symlink(s.path("worker/ca/issuing.key"), at).unwrap()),
        ("Q-1 hard link to the root's key", "", |s, at| {
            std::fs::hard_link(s.path("worker/ca/root.key"), at).unwrap();
        }),
        ("Q-1 dangling link", "", |_, at| symlink("nowhere", at).unwrap()),
        ("Q-2 10 GB of nothing", "", |_, at| {
            std::fs::File::create(at).unwrap().set_len(10 << 30).unwrap();
            allow(at, 0o640);
        }),
        ("Q-2 one byte over the cap", "", |_, at| {
            std::fs::write(at, vec![b' '; EnrollmentRequest::MAX + 1]).unwrap();
            allow(at, 0o640);
        }),
        ("Q-5 no bytes", "", |_, at| {
            std::fs::write(at, b"").unwrap();
            allow(at, 0o640);
        }),
    ];
    for (name, want, put) in rows {
        let site = site();
        put(&site, &site.path(REQUESTS).join(file_of(&bad())));
        let said = refused(name, &site);
        let lines: Vec<&str> = said.err.lines().filter(|line| line.contains(bad().node_id.as_str())).collect();
        assert_eq!(lines.len(), 1, "{name}: {}", said.err);
        assert!(lines.iter().all(|line| line.contains("ignored") && line.contains(want)), "{name}: {lines:?}");
    }
    // Files under other names: a whole request in each of them.
    for (name, file) in [
        ("Q-3 not renamed yet", format!("{}.json.tmp", bad().node_id)),
        ("Q-3 upper case", format!("{}.json", bad().node_id.as_str().to_uppercase())),
        ("Q-3 a line end", format!("x\n{}", file_of(&bad()))),
        ("Q-3 255 bytes", format!("{}.json", "a".repeat(250))),
        ("Q-3 hidden", format!(".{}", file_of(&bad()))),
        ("Q-5 written beside", format!(".{}.pending", file_of(&bad()))),
    ] {
        let site = site();
        site.controller.put(&format!("nodes/enrollment-requests/{file}"), &valid());
        refused(name, &site);
    }
    let site = site();
    let name = std::ffi::OsStr::new("q3");
    let strange = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe.json");
    std::fs::write(site.path(REQUESTS).join(strange), valid()).unwrap();
    refused(name.to_str().unwrap(), &site);
    // Out of the directory: no such name can be made in it, and a link of that name leads nowhere the worker looks.
    let outside = site.path("outside.json");
    std::fs::write(&outside, valid()).unwrap();
    symlink("../../../outside.json", site.path(REQUESTS).join(file_of(&bad()))).unwrap();
    let before = done(&site);
    site.once().done(0, &[("issued", 0)]);
    assert_eq!(done(&site), before);
}

/// Ends the threads beside a test, however it ends.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

// spec: QU-24
#[test]
fn q2_q5_a_file_that_changes_while_it_is_read_is_answered_for_bytes_that_were_in_it() {
    let site = site();
    let at = site.path(REQUESTS).join(file_of(&bad()));
    let whole = request(&bad(), now().plus(secs(600))).to_bytes().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        // Two writers in place, which no controller of ours is: one grows and cuts, the other writes the whole.
        scope.spawn(|| {
            while !stop.load(order) {
                std::fs::write(&at, whole.get(..whole.len() / 2).unwrap()).unwrap();
                std::fs::write(&at, vec![b' '; 200_000]).unwrap();
                std::fs::write(&at, b"").unwrap();
            }
        });
        scope.spawn(|| {
            while !stop.load(order) {
                std::fs::write(&at, &whole).unwrap();
                allow(&at, 0o640);
            }
        });
        // Also when a turn below fails, or the scope would wait for the writers for ever.
        let _stop = Stop(&stop);
        for _ in 0..20 {
            timed("Q-2", &site);
        }
    });
    if let Some(answer) = site.controller.answer(&bad().node_id) {
        assert_eq!(answer.request_hash, request_hash(&whole), "only the whole of it is a request");
    }
    site.controller.put(&format!("nodes/enrollment-requests/{}", file_of(&bad())), &whole);
    timed("Q-2", &site);
    site.accept(&bad());
    let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"kind\":\"issued\"").count(), 1);
}

// spec: QU-24
#[test]
fn q4_100000_files_are_looked_at_in_part_and_somebody_is_told() {
    let site = site();
    let dir = site.path(REQUESTS);
    for number in 0..100_000_u32 {
        std::fs::File::create(dir.join(format!("rubbish-{number:06}"))).unwrap();
    }
    let before = done(&site);
    let said = timed("Q-4", &site);
    said.expect(0, "65536");
    assert!(said.err.lines().count() < 80, "{} lines", said.err.lines().count());
    assert_eq!(done(&site), before);
    for entry in std::fs::read_dir(&dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    refused("Q-4", &site);
}

type Change = fn(&mut Site, &mut EnrollmentRequest);

// spec: QU-24
#[test]
fn q6_what_the_journal_does_not_say_is_refused_by_field() {
    let rows: Vec<(&str, Change)> = vec![
        ("taskId", |_, asked| asked.task_id = TestNode::new(9).task_id),
        ("taskId", |site, _| {
            let task = site.controller.journal.tasks.iter_mut().find(|task| task.device_id == bad().node_id).unwrap();
            task.task_id = TestNode::new(9).task_id;
            let device = site.controller.journal.devices.iter_mut().find(|d| d.device_id == bad().node_id).unwrap();
            device.task_id = Some(TestNode::new(9).task_id);
        }),
        ("phase", |site, _| {
            let task = site.controller.journal.tasks.iter_mut().find(|task| task.device_id == bad().node_id).unwrap();
            task.phase = TaskPhase::Installing;
            let device = site.controller.journal.devices.iter_mut().find(|d| d.device_id == bad().node_id).unwrap();
            device.phase = DevicePhase::Installing;
        }),
        ("nodeId", |_, asked| asked.public_key_fingerprint = TestNode::new(9).fingerprint),
        ("hostname", |_, asked| {
            let mut named = bad();
            named.hostname = "n9".parse().unwrap();
            *asked = request(&named, asked.expires_at);
        }),
        ("progressExpiresAt", |site, _| {
            let at = site.controller.now.get();
            let task = site.controller.journal.tasks.iter_mut().find(|task| task.device_id == bad().node_id).unwrap();
            let grant = task.grant.as_mut().unwrap();
            (grant.granted_at, grant.progress_expires_at) = (at.minus(secs(7200)), at.minus(secs(1)));
            (task.approved_at, task.authority_expires_at) = (at.minus(secs(7300)), at.minus(secs(6400)));
        }),
        ("nodeId", |site, _| site.controller.forget(&bad().node_id)),
        ("expiresAt", |_, asked| asked.expires_at = now().minus(secs(1))),
        ("expiresAt", |_, asked| asked.expires_at = now().plus(secs(3600))),
        ("csrPem", |_, asked| asked.csr_pem = request(&TestNode::new(9), now()).csr_pem),
    ];
    for (number, (field, change)) in rows.into_iter().enumerate() {
        let mut site = site();
        let mut asked = request(&bad(), now().plus(secs(600)));
        change(&mut site, &mut asked);
        site.controller.write_journal();
        let name = format!("nodes/enrollment-requests/{}", file_of(&bad()));
        site.controller.put(&name, &asked.to_bytes().unwrap());
        let before = done(&site);
        timed(field, &site).done(0, &[("refused", 1)]);
        let answer = site.controller.answer(&bad().node_id).expect("an answer");
        assert!(!answer.success && answer.answer.is_none(), "{number} {field}");
        assert!(answer.message.as_str().contains(field), "{number} {field}: {}", answer.message);
        let mut after = done(&site);
        after.remove(&format!("{ANSWERS}/{}", file_of(&bad())));
        assert_eq!(after, before, "{number} {field}");
        site.controller.ask(&good());
        timed(field, &site).done(0, &[("issued", 1)]);
    }
    // Unreadable: no answer at all, and somebody is told.
    let site = site();
    site.controller.ask(&bad());
    site.controller.put("onboarding/state.json", b"{");
    let before = done(&site);
    timed("unreadable", &site).expect(1, "doctor");
    assert_eq!(done(&site), before);
}

// spec: QU-24
#[test]
fn q7_what_lies_in_the_place_of_an_answer_is_replaced_and_never_followed() {
    let rows: Vec<(&str, Put)> = vec![
        ("a forged answer", |_, at| std::fs::write(at, FORGED).unwrap()),
        ("an answer of an older request", |site, at| {
            site.controller.put_request(&request(&bad(), now().plus(secs(300))));
            site.once().done(0, &[("issued", 1)]);
            assert!(at.exists());
        }),
        ("a link", |site, at| {
            std::fs::write(site.path("target"), b"precious").unwrap();
            symlink(site.path("target"), at).unwrap();
        }),
        ("a dangling link", |_, at| symlink("nowhere", at).unwrap()),
        ("an empty directory", |_, at| std::fs::create_dir(at).unwrap()),
    ];
    for (name, put) in rows {
        let site = site();
        put(&site, &site.path(ANSWERS).join(file_of(&bad())));
        site.controller.ask(&good());
        site.controller.put_request(&request(&bad(), now().plus(secs(600))));
        let said = timed(name, &site);
        site.accept(&good());
        if name == "an empty directory" {
            // No program of ours makes one there; it stands in its own way only.
            assert!(said.err.contains(bad().node_id.as_str()), "{name}: {}", said.err);
            std::fs::remove_dir(site.path(ANSWERS).join(file_of(&bad()))).unwrap();
            timed(name, &site).done(0, &[("reused", 1)]);
        }
        site.accept(&bad());
        assert!(std::fs::read(site.path("target")).is_ok_and(|text| text == b"precious") || name != "a link", "{name}");
        let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
        assert_eq!(ledger.matches("\"kind\":\"issued\"").count(), 2, "{name}");
    }
}

// spec: QU-24
#[test]
fn q8_a_request_that_ran_out_gets_nothing_and_the_next_one_gets_the_leaf_there_is() {
    let site = site();
    site.controller.put_request(&request(&bad(), now().minus(secs(1))));
    timed("Q-8", &site).done(0, &[("refused", 1)]);
    assert!(!site.controller.answer(&bad().node_id).unwrap().success);
    site.controller.ask(&bad());
    timed("Q-8", &site).done(0, &[("issued", 1)]);
    site.accept(&bad());
    // The controller gave that answer up: it writes the request anew, and the same leaf goes out.
    std::fs::remove_file(site.path(ANSWERS).join(file_of(&bad()))).unwrap();
    site.controller.put_request(&request(&bad(), now().plus(secs(599))));
    timed("Q-8", &site).done(0, &[("reused", 1)]);
    site.accept(&bad());
    let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches("\"kind\":\"issued\"").count(), 1);
}

// spec: QU-240
#[test]
fn what_lies_in_the_place_of_what_the_worker_writes_is_said_and_holds_up_nothing_else() {
    let site = site();
    let owners = site.path("controller/nodes/owner-responses");
    // Directories, which no rename replaces: in the place of the status, of one answer and of what owners get.
    let mut stand = vec![site.path(ANSWERS).join("enrollment-worker.json"), site.path(ANSWERS).join(file_of(&bad()))];
    stand.extend(std::fs::read_dir(&owners).unwrap().map(|entry| entry.unwrap().path()));
    for place in &stand {
        let _ = std::fs::remove_file(place);
        std::fs::create_dir_all(place.join("full")).unwrap();
    }
    for node in [good(), bad()] {
        site.controller.put_request(&request(&node, now().plus(secs(600))));
    }
    site.once().done(0, &[("issued", 2)]).expect(0, "enrollment-worker.json");
    site.accept(&good());
    site.run(&["once"]).expect(0, "enrollment-worker.json");
    let status = site.run(&["status"]);
    for place in &stand {
        status.expect(1, place.to_str().unwrap());
    }
    // Once they are gone, the next turn writes what could not be written.
    stand.iter().for_each(|place| std::fs::remove_dir_all(place).unwrap());
    let ran = site.once();
    ran.done(0, &[("reused", 1)]).expect(0, "\"problems\": []");
    site.accept(&bad());
    site.run(&["status"]).exit(0);
}

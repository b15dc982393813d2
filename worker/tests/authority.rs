//! The real binary against a controller that is not to be believed: its journal and its queue are forged under its own
//! user, and the worker's answer names what it refuses (design.md W1, threats.md actor C).

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

use std::io::Write as _;
use std::process::Stdio;

use expect_test::expect_file;
use fixture::{request, secs};
use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::base::acts::Act;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::TestNode;
use lucia_worker::decide::Refusal;
use lucia_worker::ledger::{By, Entry, Ledger, NodeNames};
use site::{Site, command, now};

impl Site {
    /// These nodes are in the fleet.
    fn with_nodes(more: &str, numbers: std::ops::RangeInclusive<u8>) -> Self {
        let mut site = Self::new(more);
        for number in numbers.clone() {
            let node = TestNode::new(number);
            site.controller.approve(&node);
            site.controller.ask(&node);
        }
        for node in numbers.map(TestNode::new) {
            let (code, whole) = (node.fingerprint.verification_code().to_string(), node.fingerprint.to_string());
            if more.is_empty() {
                site.run(&["admit", &code, "--fingerprint", &whole]).exit(0);
            }
        }
        site.run(&["once"]).exit(0);
        site
    }

    fn message(&self, node: &TestNode) -> String {
        let answer = self.controller.answer(&node.node_id).expect("an answer");
        assert!(!answer.success);
        answer.message.to_string()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.run(&["status", "--json"]).out).unwrap()
    }

    fn pending(&self) -> serde_json::Value {
        serde_json::from_str(&self.run(&["pending", "--json"]).out).unwrap()
    }

    /// Asks once more, with other bytes.
    fn ask_again(&self, node: &TestNode) {
        let seconds = 500 + u64::try_from(std::fs::read_dir(self.path("worker/receipts")).unwrap().count()).unwrap();
        self.controller.put_request(&request(node, now().plus(secs(seconds))));
    }
}

fn named(number: u8, name: &str) -> TestNode {
    let mut node = TestNode::new(number);
    node.hostname = name.parse().unwrap();
    node
}

// spec: WK-66
#[test]
fn once_refuses_by_name_whatever_journal_and_queue_agree_on() {
    for more in ["", "admission = \"journal\""] {
        let mut site = Site::with_nodes(more, 1..=2);
        // A key that was removed is barred, and the journal has it again.
        site.controller.remove(&TestNode::new(2).node_id);
        site.once().done(0, &[("removed", 1)]);
        site.controller.approve(&TestNode::new(2));
        site.controller.happen();
        site.ask_again(&TestNode::new(2));
        // Another key under a name that is known; names that are the fleet's own.
        site.controller.forget(&TestNode::new(1).node_id);
        let forged = [named(3, "n1"), named(4, "controller"), named(5, "ldap-2")];
        for node in &forged {
            site.controller.approve(node);
            site.controller.ask(node);
        }
        site.once().done(0, &[("issued", 0), ("refused", 4)]);
        // A name that is another node's is said with that node, and what gives it away.
        let taken = Refusal::NameTaken { name: forged[0].hostname.clone(), owner: TestNode::new(1).node_id };
        for (node, want) in [
            (&TestNode::new(2), Refusal::Removed),
            (&forged[0], taken),
            (&forged[1], Refusal::Reserved { name: forged[1].hostname.clone() }),
            (&forged[2], Refusal::Reserved { name: forged[2].hostname.clone() }),
        ] {
            assert_eq!(site.message(node), lucia_worker::chain(&want));
        }
        assert_eq!(site.json()["barred"], 1);
        // Somebody new is let in by the settings, or waits for a person.
        let node = TestNode::new(6);
        site.controller.approve(&node);
        site.controller.ask(&node);
        let said = site.once();
        match more {
            "" => {
                said.done(0, &[("awaiting", 1)]).expect(0, "n6");
                assert!(site.controller.answer(&node.node_id).is_none());
            }
            _ => drop(said.done(0, &[("issued", 1)])),
        }
        // A journal that went back.
        site.controller.journal.generation -= 1;
        site.controller.write_journal();
        site.ask_again(&TestNode::new(1));
        site.once().done(1, &[("issued", 0)]).expect(1, "accept-journal");
        assert_eq!(site.json()["journal"]["continues"], false);
    }
}

// spec: WK-60
#[test]
fn accept_journal_shows_both_and_asks_for_the_generation() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=1);
    let old = site.controller.journal.clone();
    (0..4).for_each(|_| site.controller.happen());
    site.run(&["accept-journal"]).exit(0);
    site.run(&["once"]).exit(0);
    site.controller.journal = old;
    site.controller.forget(&TestNode::new(1).node_id);
    site.controller.write_journal();
    for verb in ["once", "status", "pending"] {
        let code = i32::from(verb != "pending");
        site.run(&[verb]).expect(code, "accept-journal");
    }
    let json = site.json();
    assert_eq!((&json["journal"]["seen"], &json["journal"]["generation"]), (&4.into(), &0.into()));
    assert_eq!(json["journal"]["continues"], false);
    site.run(&["accept-journal", "--generation", "4"]).exit(1);
    // Nothing typed; then the right number.
    site.run(&["accept-journal"]).exit(1);
    assert_eq!((&site.json()["journal"]["seen"], site.ledger_kinds("journalAccepted")), (&4.into(), 0));
    let mut child = command()
        .args(["accept-journal", "--config"])
        .arg(site.path("worker.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"0\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    expect_file!["snapshots/accept-journal.txt"].assert_eq(&site.plain(&said));
    site.run(&["once"]).exit(0);
    assert_eq!(site.json()["journal"]["acceptances"], 1);
}

// spec: WK-61 WK-85
#[test]
fn a_machine_with_a_new_key_gets_its_name_back_by_replaces() {
    for more in ["", "admission = \"journal\""] {
        let mut site = Site::with_nodes(more, 1..=1);
        let (old, new) = (TestNode::new(1), named(2, "n1"));
        let (code, whole) = (new.fingerprint.verification_code().to_string(), new.fingerprint.to_string());
        let admit = |replaces: &[&'static str]| {
            let mut args = vec!["admit", code.as_str(), "--fingerprint", whole.as_str()];
            args.extend_from_slice(replaces);
            args
        };
        site.controller.forget(&old.node_id);
        site.controller.approve(&new);
        site.controller.journal.tasks.last_mut().unwrap().replaces = Some(old.node_id.clone());
        site.controller.happen();
        site.controller.ask(&new);
        site.once().done(0, &[("awaiting", 1)]);
        let shown = site.run(&["pending"]);
        shown.expect(0, &format!("admit {code} --fingerprint HEX --replaces n1"));
        assert!(!shown.out.contains(&whole), "nothing to paste: {}", shown.out);
        site.run(&admit(&[])).expect(1, "--replaces n1");
        site.run(&admit(&["--replaces", "n9"])).expect(1, "n9");
        site.run(&admit(&["--replaces", "n1"])).expect(0, old.node_id.as_str());
        assert_eq!(site.json()["barred"], 1);
        assert!(!site.path(&format!("worker/receipts/{}.json", old.node_id)).exists());
        site.once().done(0, &[("issued", 1)]);
        site.accept(&new);
        // The old key is out, whatever is restored.
        site.controller.forget(&new.node_id);
        site.controller.approve(&old);
        site.controller.happen();
        site.ask_again(&old);
        site.once().done(0, &[("refused", 1)]);
        assert_eq!(site.message(&old), lucia_worker::chain(&Refusal::Removed));
        let free = TestNode::new(3);
        site.controller.approve(&free);
        site.controller.ask(&free);
        let (code, whole) = (free.fingerprint.verification_code().to_string(), free.fingerprint.to_string());
        let said = site.run(&["admit", &code, "--fingerprint", &whole, "--replaces", "n3"]);
        said.expect(1, if more.is_empty() { "--replaces" } else { "admission = \"journal\"" });
    }
}

// spec: WK-64
#[test]
fn removals_beyond_five_wait_for_a_person_who_bars_or_resumes() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=8);
    let before = site.controller.journal.clone();
    site.run(&["confirm-removals"]).exit(0);
    for number in 1..=8 {
        site.controller.remove(&TestNode::new(number).node_id);
    }
    site.once().done(0, &[("suspended", 8), ("removed", 5)]);
    site.once().done(0, &[("suspended", 0), ("removed", 0)]);
    let json = site.json();
    assert_eq!((&json["suspended"], &json["barred"], &json["removed"]), (&3.into(), &5.into(), &5.into()));
    assert!(json["acts"][0].as_str().unwrap().contains("confirm-removals"), "{json}");
    assert_eq!((&json["limits"][2]["used"], &json["limits"][2]["max"]), (&5.into(), &5.into()));
    let listed = site.run(&["confirm-removals"]).expect(0, "resume NODE").out.clone();
    let held: Vec<u8> = (1..=8).filter(|n| listed.contains(TestNode::new(*n).node_id.as_str())).collect();
    assert_eq!(held.len(), 3, "{listed}");
    let name = |at: usize| format!("n{}", held[at]);
    site.run(&["confirm-removals", &name(0), "n99"]).expect(1, "\"n99\"");
    assert_eq!(site.json()["barred"], 5);
    site.run(&["confirm-removals", &name(0)]).exit(0);
    assert_eq!(site.json()["barred"], 6);
    site.run(&["resume"]).expect(64, "--all");
    site.run(&["resume", &name(1)]).expect(1, &name(1));
    assert_eq!(site.json()["suspended"], 2);
    let generation = site.controller.journal.generation;
    let (events, id) = (site.controller.journal.clone(), site.controller.journal.last_event_id);
    assert_eq!(id, 8);
    site.controller.journal =
        lucia_proto::files::journal::Journal { devices: before.devices, tasks: before.tasks, ..events };
    site.controller.journal.generation = generation + 1;
    site.controller.write_journal();
    site.run(&["resume", "--all"]).exit(0);
    assert_eq!(site.json()["suspended"], 0);
    site.ask_again(&TestNode::new(held[1]));
    site.once().done(0, &[("suspended", 0)]);
    site.accept(&TestNode::new(held[1]));
    let json = site.json();
    assert_eq!((&json["suspended"], &json["barred"], &json["nodes"]), (&0.into(), &6.into(), &2.into()));
}

// spec: WK-260
#[test]
fn a_journal_of_before_a_removal_is_told_with_the_names_of_those_who_stay_barred() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=2);
    let before = site.controller.journal.clone();
    site.controller.forget(&TestNode::new(2).node_id);
    site.controller.say(Act::Removed, Some(&TestNode::new(2).node_id));
    site.once().done(0, &[("removed", 1)]);
    site.once().done(0, &[("removed", 0)]);
    assert_eq!(site.json()["barred"], 1);
    assert!(site.json().get("back").is_none());
    site.controller.journal = before;
    site.controller.write_journal();
    assert_eq!(site.json()["back"], serde_json::json!(["n2"]));
    site.run(&["accept-journal", "--generation", "7"]).expect(1, "remove NODE").expect(1, "n2");
    assert_eq!(site.ledger_kinds("journalAccepted"), 0);
    let generation = site.controller.journal.generation.to_string();
    site.run(&["accept-journal", "--generation", &generation]).exit(0);
    assert_eq!(site.ledger_kinds("journalAccepted"), 1);
    assert_eq!(site.json()["back"], serde_json::json!(["n2"]));
}

// spec: RN-30
#[test]
fn release_lapse_shows_the_evidence_and_asks_for_the_code() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=1);
    site.run(&["release-lapse", "n9"]).expect(1, "\"n9\"");
    site.run(&["release-lapse", "n1"]).expect(0, "max-lapse");
    // Node 2 was here long ago, by the worker's own record.
    let (node, long_ago) = (TestNode::new(2), now().minus(secs(41 * 24 * 3600)));
    let names =
        NodeNames { node_id: node.node_id.clone(), fingerprint: node.fingerprint, hostname: node.hostname.clone() };
    let dir = PrivateDir::open(&site.path("worker"), DirRules::private()).unwrap();
    let mut ledger = Ledger::load(&dir).unwrap();
    let mut transaction = ledger.begin(&dir, Ledger::hold(&dir).unwrap()).unwrap();
    let address = Some("192.0.2.9".parse().unwrap());
    for entry in [
        Entry::Admitted { node: names.clone(), by: By::Operator },
        Entry::Issued { node: names, serial: "7f".to_owned(), not_after: long_ago, address },
    ] {
        transaction.add(long_ago, entry).unwrap();
    }
    transaction.commit().unwrap();
    site.controller.approve(&node);
    site.controller.ask(&node);
    site.once().done(0, &[("refused", 1)]);
    let said = site.message(&node);
    for text in ["reapproval_needed", "41", "max-lapse", "30", "release-lapse n2"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert_eq!(site.json()["lapsed"], 1);
    let shown = site.run(&["release-lapse", "n2", "--code", "0000-0000-0000"]);
    shown.expect(1, "192.0.2.9").expect(1, "10.0.0.7");
    expect_file!["snapshots/release-lapse.txt"].assert_eq(&site.plain(&shown.out));
    site.once().done(0, &[("issued", 0)]);
    let code = node.fingerprint.verification_code().to_string();
    site.run(&["release-lapse", "n2", "--code", &code]).exit(0);
    assert_eq!(site.json()["lapsed"], 0);
    site.once().done(0, &[("issued", 1)]);
    site.accept(&node);
}

// spec: WK-67
#[test]
fn once_looks_at_the_longest_queue() {
    let site = Site::new("");
    // More than a hundred turns: every one of them looks at 128.
    for number in 0..13_000_u32 {
        let path = site.path(&format!("controller/nodes/enrollment-requests/{number:032x}.json"));
        std::fs::File::create(path).unwrap();
    }
    site.once().done(0, &[("issued", 0)]);
}

impl Site {
    /// The controller's journal gives node 1, which is managed, this name, and the node asks under it.
    fn renamed(&mut self, name: &str) -> TestNode {
        let node = named(1, name);
        let journal = &mut self.controller.journal;
        let device = journal.devices.iter_mut().find(|row| row.device_id == node.node_id).expect("a device");
        let task = journal.tasks.iter_mut().find(|row| row.task_id == node.task_id).expect("a task");
        (device.phase, task.phase) = (DevicePhase::Managed, TaskPhase::Managed);
        device.former_hostname = device.hostname.replace(node.hostname.clone());
        task.hostname = node.hostname.clone();
        self.controller.happen();
        self.ask_again(&node);
        node
    }
}

// spec: NN-9, NN-341
#[test]
fn a_journal_that_renames_waits_for_a_person_here_who_types_both_names() {
    let mut site = Site::with_nodes("", 1..=2);
    site.run(&["rename", "n1", "web"]).expect(1, "luciactl rename n1 web");
    let node = site.renamed("web");
    site.once().done(0, &[("awaiting", 1), ("issued", 0)]).expect(0, "rename n1 web");
    site.run(&["pending"]).expect(0, "rename n1 web");
    assert_eq!(site.pending()["requests"][0]["outlook"], "awaitsRename");
    site.run(&["status"]).expect(0, "`rename`");
    for (args, code, want) in [
        (["rename", "n1", "Web!"], 64, "NEW"),
        (["rename", "n9", "web"], 1, "\"n9\""),
        (["rename", "n2", "web"], 1, "luciactl rename n2 web"),
        (["rename", "n1", "mail"], 1, "luciactl rename n1 mail"),
    ] {
        site.run(&args).expect(code, want);
    }
    site.once().done(0, &[("issued", 0)]);
    assert_eq!(site.ledger_kinds("renamed"), 0);
    // Both names mean it until its certificate under the name before has ended.
    for name in ["n1", "web", "n1"] {
        site.run(&["rename", name, "web"]).exit(0);
        assert_eq!(site.ledger_kinds("renamed"), 1, "{name}");
    }
    site.run(&["release-lapse", "n1"]).expect(0, "web");
    site.once().done(0, &[("issued", 1)]);
    site.accept(&node);
    // Another machine does not get the name before, although the controller's journal has it free by now.
    let forged = named(3, "n1");
    site.controller.journal.devices.iter_mut().for_each(|row| row.former_hostname = None);
    site.controller.approve(&forged);
    site.controller.happen();
    site.controller.ask(&forged);
    site.once().done(0, &[("refused", 1)]);
    let said = site.message(&forged);
    assert!(said.starts_with("hostname: ") && said.contains(node.node_id.as_str()), "{said}");
    assert!(!said.contains("--replaces"), "another node has it: {said}");
    // Nor does a known node get a name that is the fleet's own, or another node's.
    for name in ["controller", "ldap-2", "n2"] {
        site.controller
            .journal
            .devices
            .retain(|row| name != "n2" || row.hostname.as_ref().is_none_or(|n| n.as_str() != "n2"));
        site.controller.journal.tasks.retain(|row| name != "n2" || row.hostname.as_str() != "n2");
        site.renamed(name);
        site.run(&["rename", "web", name]).expect(1, name);
        assert_eq!(site.ledger_kinds("renamed"), 1, "{name}");
    }
}

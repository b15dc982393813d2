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

use fixture::{request, secs};
use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::files::journal::EventKind;
use lucia_proto::node::phase::{DevicePhase, TaskPhase};
use lucia_proto::test_support::TestNode;
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
                site.run(&["admit", &code, "--fingerprint", &whole]).expect(0, "admitted");
            }
        }
        site.run(&["once"]).expect(0, "");
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
        site.run(&["once"]).expect(0, "removed 1");
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
        site.run(&["once"]).expect(0, "issued 0").expect(0, "refused 4");
        for (node, want) in [
            (&TestNode::new(2), "nodeId: this key was removed from the fleet and stays barred"),
            (&forged[0], "the worker's ledger has it for node"),
            (&forged[1], "hostname: controller is reserved"),
            (&forged[2], "hostname: ldap-2 is reserved"),
        ] {
            assert!(site.message(node).contains(want), "{want}: {}", site.message(node));
        }
        // Somebody new is let in by the settings, or waits for a person.
        let node = TestNode::new(6);
        site.controller.approve(&node);
        site.controller.ask(&node);
        let said = site.run(&["once"]);
        match more {
            "" => {
                said.expect(0, "awaiting admission 1").expect(0, "n6 waits for admission");
                assert!(site.controller.answer(&node.node_id).is_none());
            }
            _ => drop(said.expect(0, "issued 1")),
        }
        // A journal that went back.
        site.controller.journal.generation -= 1;
        site.controller.write_journal();
        site.ask_again(&TestNode::new(1));
        site.run(&["once"]).expect(1, "went back from generation").expect(1, "issued 0").expect(1, "accept-journal");
    }
}

// spec: WK-60
#[test]
fn accept_journal_shows_both_and_asks_for_the_generation() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=1);
    let old = site.controller.journal.clone();
    (0..4).for_each(|_| site.controller.happen());
    site.run(&["accept-journal"]).expect(0, "nothing to accept");
    site.run(&["once"]).expect(0, "");
    site.controller.journal = old;
    site.controller.forget(&TestNode::new(1).node_id);
    site.controller.write_journal();
    for verb in ["once", "status", "pending"] {
        let code = i32::from(verb != "pending");
        site.run(&[verb]).expect(code, "went back from generation 4 to 0");
    }
    let json = site.json();
    assert_eq!((&json["journal"]["seen"], &json["journal"]["generation"]), (&4.into(), &0.into()));
    assert_eq!(json["journal"]["continues"], false);
    site.run(&["accept-journal", "--generation", "4"]).expect(1, "that is not 0");
    // Nothing typed; then the right number.
    site.run(&["accept-journal"]).expect(1, "Type the generation");
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
    for text in
        ["from  generation 4, event 4", "to    generation 0, event 0", "does not have: n1", "accepted generation 0"]
    {
        assert!(said.contains(text), "{text}: {said}");
    }
    site.run(&["once"]).expect(0, "");
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
        site.run(&["once"]).expect(0, "awaiting admission 1");
        let shown = site.run(&["pending"]);
        shown.expect(0, &format!("admit {code} --fingerprint HEX --replaces n1")).expect(0, "the machine's own screen");
        assert!(!shown.out.contains(&whole), "nothing to paste: {}", shown.out);
        site.run(&admit(&[])).expect(1, "--replaces n1");
        site.run(&admit(&["--replaces", "n9"])).expect(1, "and not for n9");
        site.run(&admit(&["--replaces", "n1"])).expect(0, "is barred for ever").expect(0, "admitted n1");
        assert!(!site.path(&format!("worker/receipts/{}.json", old.node_id)).exists());
        site.run(&["once"]).expect(0, "issued 1");
        site.accept(&new);
        // The old key is out, whatever is restored.
        site.controller.forget(&new.node_id);
        site.controller.approve(&old);
        site.controller.happen();
        site.ask_again(&old);
        site.run(&["once"]).expect(0, "refused 1");
        assert!(site.message(&old).contains("stays barred"));
        let free = TestNode::new(3);
        site.controller.approve(&free);
        site.controller.ask(&free);
        let (code, whole) = (free.fingerprint.verification_code().to_string(), free.fingerprint.to_string());
        let said = site.run(&["admit", &code, "--fingerprint", &whole, "--replaces", "n3"]);
        said.expect(1, if more.is_empty() { "leave --replaces out" } else { "needs no admission" });
    }
}

// spec: WK-64
#[test]
fn removals_beyond_five_wait_for_a_person_who_bars_or_resumes() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=8);
    let before = site.controller.journal.clone();
    site.run(&["confirm-removals"]).expect(0, "No removal waits");
    for number in 1..=8 {
        site.controller.remove(&TestNode::new(number).node_id);
    }
    site.run(&["once"]).expect(0, "suspended 8, removed 5");
    site.run(&["once"]).expect(0, "suspended 0, removed 0");
    let json = site.json();
    assert_eq!((&json["suspended"], &json["barred"], &json["removed"]), (&3.into(), &5.into(), &5.into()));
    assert!(json["acts"][0].as_str().unwrap().contains("confirm-removals"), "{json}");
    assert_eq!(json["limits"][2], serde_json::json!({"what": "removals by the journal", "used": 5, "max": 5}));
    let listed = site.run(&["confirm-removals"]).expect(0, "resume NODE").out.clone();
    let held: Vec<u8> = (1..=8).filter(|n| listed.contains(TestNode::new(*n).node_id.as_str())).collect();
    assert_eq!(held.len(), 3, "{listed}");
    let name = |at: usize| format!("n{}", held[at]);
    site.run(&["confirm-removals", &name(0), "n99"]).expect(1, "\"n99\" is no suspended node");
    site.run(&["confirm-removals", &name(0)]).expect(0, "1 node barred");
    site.run(&["resume"]).expect(64, "--all");
    site.run(&["resume", &name(1)]).expect(1, "is not in the controller's journal");
    let generation = site.controller.journal.generation;
    let (events, id) = (site.controller.journal.clone(), site.controller.journal.last_event_id);
    assert_eq!(id, 8);
    site.controller.journal =
        lucia_proto::files::journal::Journal { devices: before.devices, tasks: before.tasks, ..events };
    site.controller.journal.generation = generation + 1;
    site.controller.write_journal();
    site.run(&["resume", "--all"]).expect(0, "2 nodes may go on");
    site.ask_again(&TestNode::new(held[1]));
    site.run(&["once"]).expect(0, "suspended 0");
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
    site.controller.say(EventKind::DeviceRemoved, Some(&TestNode::new(2).node_id));
    site.run(&["once"]).expect(0, "removed 1");
    site.run(&["once"]).expect(0, "removed 0");
    assert_eq!(site.json()["barred"], 1);
    assert!(site.json().get("back").is_none());
    site.controller.journal = before;
    site.controller.write_journal();
    assert_eq!(site.json()["back"], serde_json::json!(["n2"]));
    site.run(&["accept-journal", "--generation", "7"]).expect(1, "luciactl remove NODE): n2");
    let generation = site.controller.journal.generation.to_string();
    site.run(&["accept-journal", "--generation", &generation]).expect(0, "accepted generation");
    assert_eq!(site.json()["back"], serde_json::json!(["n2"]));
}

// spec: RN-30
#[test]
fn release_lapse_shows_the_evidence_and_asks_for_the_code() {
    let mut site = Site::with_nodes("admission = \"journal\"", 1..=1);
    site.run(&["release-lapse", "n9"]).expect(1, "no node of the ledger");
    site.run(&["release-lapse", "n1"]).expect(0, "renews by itself");
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
    site.run(&["once"]).expect(0, "refused 1");
    let said = site.message(&node);
    assert!(said.contains("reapproval_needed") && said.contains("ended 41 days ago, and max-lapse is 30"), "{said}");
    assert_eq!(site.json()["lapsed"], 1);
    let shown = site.run(&["release-lapse", "n2", "--code", "0000-0000-0000"]);
    for text in
        ["41 days ago", "address then         192.0.2.9", "address now          10.0.0.7", "is not this node's code"]
    {
        shown.expect(1, text);
    }
    site.run(&["once"]).expect(0, "issued 0");
    let code = node.fingerprint.verification_code().to_string();
    site.run(&["release-lapse", "n2", "--code", &code]).expect(0, "released: n2");
    assert_eq!(site.json()["lapsed"], 0);
    site.run(&["once"]).expect(0, "issued 1");
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
    site.run(&["once"]).expect(0, "issued 0");
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
    site.run(&["once"]).expect(0, "awaiting admission 1").expect(0, "rename n1 web").expect(0, "issued 0");
    site.run(&["pending"]).expect(0, "waits for its new name").expect(0, "lucia-enrollment-worker rename n1 web");
    site.run(&["status"]).expect(0, "1 node for `rename`");
    for (args, code, want) in [
        (["rename", "n1", "Web!"], 64, "NEW is not a hostname"),
        (["rename", "n9", "web"], 1, "\"n9\" is no node of the ledger"),
        (["rename", "n2", "web"], 1, "the controller's journal has n2 for this node"),
        (["rename", "n1", "mail"], 1, "the controller's journal has web for this node"),
    ] {
        site.run(&args).expect(code, want);
    }
    site.run(&["once"]).expect(0, "issued 0");
    site.run(&["rename", "n1", "web"]).expect(0, "is web from now on");
    // Both names mean it until its certificate under the name before has ended.
    site.run(&["rename", "web", "web"]).expect(0, "is web already");
    site.run(&["rename", "n1", "web"]).expect(0, "is web already");
    site.run(&["release-lapse", "n1"]).expect(0, "web renews by itself");
    site.run(&["once"]).expect(0, "issued 1");
    site.accept(&node);
    // Another machine does not get the name before, although the controller's journal has it free by now.
    let forged = named(3, "n1");
    site.controller.journal.devices.iter_mut().for_each(|row| row.former_hostname = None);
    site.controller.approve(&forged);
    site.controller.happen();
    site.controller.ask(&forged);
    site.run(&["once"]).expect(0, "refused 1");
    assert!(site.message(&forged).contains("has a certificate under that name until"), "{}", site.message(&forged));
    // Nor does a known node get a name that is the fleet's own, or another node's.
    for (name, want) in [("controller", "is reserved"), ("ldap-2", "is reserved"), ("n2", "nothing was renamed")] {
        site.controller
            .journal
            .devices
            .retain(|row| name != "n2" || row.hostname.as_ref().is_none_or(|n| n.as_str() != "n2"));
        site.controller.journal.tasks.retain(|row| name != "n2" || row.hostname.as_str() != "n2");
        site.renamed(name);
        site.run(&["rename", "web", name]).expect(1, want);
    }
}

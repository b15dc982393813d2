//! The real binary and owners: who becomes one, whose orders count, and what a controller that is not to be believed can
//! make of files and orders (design.md O2, O3, W1; threats.md actors C and O).

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
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

use expect_test::expect_file;
use fixture::{admit_body, draft, secs, signed};
use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile, RejectionFile};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner;
use lucia_proto::orders::{Draft, OrderCode, OrderId, SignedOrder};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, TestOwner, key};
use lucia_worker::applications::judge;
use site::{Ran, Site, command, now};

fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

fn bob() -> TestOwner {
    TestOwner::new("bob", 43)
}

fn mallory() -> TestOwner {
    TestOwner::new("mallory", 47)
}

fn code(who: &TestOwner) -> String {
    owner::code(who.key.public()).to_string()
}

fn whole(key: &NodeKey) -> String {
    key.public().fingerprint().to_string()
}

impl Site {
    /// Asks, and is approved.
    fn approve(&self, who: &TestOwner, role: &str) {
        self.controller.apply(who);
        self.approved(who, role).exit(0);
        let list = self.json(&["owner", "list", "--json"]);
        let row = list.as_array().unwrap().iter().find(|row| row["name"] == who.name).unwrap();
        assert_eq!(row["role"], role);
    }

    fn approved(&self, who: &TestOwner, role: &str) -> Ran {
        self.run(&["owner", "approve", &code(who), "--fingerprint", &whole(&who.key), "--role", role])
    }

    /// An order that lets node in.
    fn admit(&self, who: &TestOwner, node: &TestNode, nonce: u8) -> Draft {
        draft(who, self.root().sha256(), now(), &node.node_id, &admit_body(node, None), nonce)
    }

    fn asks(&mut self, number: u8) -> TestNode {
        let node = TestNode::new(number);
        self.controller.approve(&node);
        self.controller.happen();
        self.controller.ask(&node);
        node
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(args).out).unwrap()
    }

    fn refused(&self, id: OrderId) -> Option<OrderCode> {
        self.controller.outcome(id).expect("an outcome").outcome.refused
    }

    /// Changes the file of an application.
    fn forge(&self, who: &TestOwner, change: impl FnOnce(&mut ApplicationFile)) {
        let application = self.controller.application(who.name, &who.key);
        let mut file = ApplicationFile { schema_version: Version, application, expires_at: now().plus(secs(3000)) };
        change(&mut file);
        self.controller.put_owner(&OwnerFile::Application(who.id.clone()), &file.to_bytes().unwrap());
    }
}

// spec: OA-220
#[test]
fn an_application_is_rejected_by_its_code_and_may_be_made_again() {
    let site = Site::new("");
    site.controller.apply(&mallory());
    site.controller.apply(&alice());
    let waiting = || {
        let pending = site.json(&["owner", "pending", "--json"]);
        pending["open"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(waiting().len(), 2);
    assert_eq!(site.run(&["owner", "reject", "xyz"]).code, Some(64));
    assert_eq!(site.run(&["owner", "reject", &code(&bob())]).code, Some(1));
    assert_eq!(site.run(&["owner", "reject", &code(&mallory())]).code, Some(0));
    // It names the very bytes, so the controller drops nothing else; and it is gone here whatever the controller does.
    let of = OwnerFile::Application(mallory().id).name();
    let (asked, answer) = ("owner-requests", "owner-responses");
    let read = |dir: &str| std::fs::read(site.path(&format!("controller/nodes/{dir}/{of}"))).unwrap();
    let rejection = RejectionFile::from_bytes(&read(answer)).unwrap();
    assert_eq!(rejection.application, Digest::of(&read(asked)));
    assert_eq!(waiting(), ["alice"]);
    assert_eq!(site.run(&["owner", "reject", &code(&mallory())]).code, Some(1));
    // Who asks again, asks again.
    site.forge(&mallory(), |_| ());
    assert_eq!(waiting().len(), 2);
    site.approve(&alice(), "owner");
}

// spec: OA-3
#[test]
fn an_owner_is_approved_by_code_and_whole_fingerprint_and_leaves_by_name() {
    let site = Site::new("");
    let nobody =
        [["owner", "pending"], ["owner", "list"]].map(|args| site.run(&args).expect(0, "luciactl login").out.clone());
    site.run(&["roster", "show"]).expect(0, "owner pending");
    assert_eq!(site.json(&["roster", "show", "--json"]), serde_json::Value::Null);
    site.controller.apply(&alice());
    let shown = site.run(&["owner", "pending"]);
    shown.expect(0, &code(&alice())).expect(0, "owner approve").expect(0, "alice");
    let views = site.plain(&format!("{}\n{}", nobody[0], shown.out));
    expect_file!["snapshots/owner-pending.txt"].assert_eq(&views);
    assert!(!shown.out.contains(&whole(&alice().key)), "nothing to paste: {}", shown.out);
    site.run(&["status"]).expect(1, "owner pending");
    assert_eq!(site.json(&["status", "--json"])["applications"], 1);
    for (code, fingerprint, exit, want) in [
        ("xyz".to_owned(), whole(&alice().key), 64, "CODE"),
        (code(&alice()), whole(&alice().key)[..32].to_owned(), 64, "--fingerprint"),
        (code(&bob()), whole(&bob().key), 1, "owner pending"),
        (code(&alice()), whole(&bob().key), 1, "64 digits"),
    ] {
        site.run(&["owner", "approve", &code, "--fingerprint", &fingerprint]).expect(exit, want);
    }
    site.approved(&alice(), "viewer").expect(1, "--role viewer");
    assert!(!site.path("worker/roster.json").exists());
    // Both rows of a screen, in capitals, as somebody may type them.
    let typed = alice().key.public().fingerprint().rows().join("\n").to_uppercase();
    let said = site.run(&["owner", "approve", &code(&alice()), "--fingerprint", &typed]);
    said.expect(0, "luciactl sign");
    let version = || site.json(&["roster", "show", "--json"])["version"].as_u64().unwrap();
    assert_eq!(version(), 1);
    site.approved(&alice(), "owner").exit(0);
    assert_eq!(version(), 1);
    // The same name with another key, and a node's key.
    let second = TestOwner { name: "alice", ..bob() };
    let named = site.controller.application("alice", &bob().key);
    site.forge(&bob(), |file| file.application = named);
    site.approved(&second, "owner").expect(1, "--for alice");
    assert_eq!(version(), 1);
    site.approve(&bob(), "viewer");
    let list = site.json(&["owner", "list", "--json"]);
    let row = |at: usize| (list[at]["name"].clone(), list[at]["role"].clone());
    assert_eq!((row(0), row(1)), (("alice".into(), "owner".into()), ("bob".into(), "viewer".into())));
    assert_eq!(list[0]["keys"][0]["fingerprint"], whole(&alice().key));
    let views = site.plain(&format!("{}\n{}", nobody[1], site.run(&["owner", "list"]).exit(0).out));
    expect_file!["snapshots/owner-list.txt"].assert_eq(&views);
    let roster = site.json(&["roster", "show", "--json"]);
    assert_eq!((&roster["version"], &roster["policy"]["default"]), (&2.into(), &"allow".into()));
    assert_eq!(roster["pageKinds"], serde_json::json!([]));
    site.run(&["once"]).exit(0);
    let status = site.json(&["status", "--json"]);
    assert_eq!((&status["rosterVersion"], &status["admission"]), (&2.into(), &"owner".into()));
    assert_eq!(status["owners"], serde_json::json!(["alice"]));

    site.run(&["owner", "remove", "Bob", "--yes"]).expect(64, "NAME");
    site.run(&["owner", "remove", "carol", "--yes"]).expect(1, "owner list");
    site.run(&["owner", "remove", "alice", "--yes"]).expect(1, "--last");
    // Nothing typed; then the name.
    site.run(&["owner", "remove", "bob"]).exit(1);
    assert_eq!(version(), 2);
    let mut child = command()
        .args(["owner", "remove", "bob", "--config"])
        .arg(site.path("worker.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"bob\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(version(), 3);
    site.run(&["owner", "remove", "alice", "--yes", "--last"]).exit(0);
    assert_eq!(version(), 4);
    site.run(&["once"]).exit(0);
    let status = site.json(&["status", "--json"]);
    assert_eq!((&status["rosterVersion"], &status["admission"]), (&4.into(), &"operator".into()));
    for (kind, count) in [("ownerApproved", 2), ("ownerRemoved", 2)] {
        assert_eq!(site.ledger_kinds(kind), count, "{kind}");
    }
    // The key of who was removed counts never again, under any name; with another one it is decided about again.
    for who in [alice(), TestOwner { name: "carol", ..bob() }] {
        site.controller.apply(&who);
        site.approved(&who, "owner").expect(1, "--context");
    }
    let again = TestOwner { name: "alice", ..mallory() };
    site.controller.apply(&again);
    site.approved(&again, "viewer").expect(1, "--role viewer");
    assert_eq!(version(), 4);
    site.approve(&again, "owner");
}

// spec: OA-14
#[test]
fn a_forged_application_makes_nobody_an_owner() {
    type Change<'a> = &'a dyn Fn(&mut ApplicationFile);
    let site = Site::new("");
    let (fleet, elsewhere) = (site.controller.fleet(), Digest::of(b"another root"));
    let signed = |fleet, at, key: &NodeKey| Application::sign("alice".parse().unwrap(), fleet, at, key);
    let days = secs(3 * 24 * 3600);
    let cases: [(&str, Change<'_>); 9] = [
        ("Key", &|f| f.application.name = "root".parse().unwrap()),
        ("Key", &|f| f.application.public_key_pem = key(47).public().to_pem()),
        ("Key", &|f| f.application.signature = "A".repeat(86) + "=="),
        ("OtherKey", &|f| {
            f.application = signed(fleet, now(), &key(47));
        }),
        ("Expired", &|f| f.expires_at = now().minus(secs(1))),
        ("TooFarAhead", &|f| f.expires_at = now().plus(secs(4000 + 300))),
        ("Elsewhere(OtherFleet", &|f| f.application = signed(elsewhere, now(), &alice().key)),
        ("Elsewhere(OtherTime", &|f| f.application = signed(fleet, now().minus(days), &alice().key)),
        ("Elsewhere(OtherTime", &|f| f.application = signed(fleet, now().plus(days), &alice().key)),
    ];
    for (want, change) in cases {
        site.forge(&alice(), change);
        let of = OwnerFile::Application(alice().id).name();
        let bytes = std::fs::read(site.path("controller/nodes/owner-requests").join(&of)).unwrap();
        let why = judge(&alice().id, &bytes, &fleet, now()).unwrap_err();
        assert!(format!("{why:?}").starts_with(want), "{want}: {why:?}");
        let pending = site.json(&["owner", "pending", "--json"]);
        assert_eq!(pending["open"], serde_json::json!([]), "{want}");
        assert!(pending["problems"][0].as_str().unwrap().contains(&of), "{want}: {pending}");
        for who in [alice(), mallory()] {
            site.approved(&who, "owner").expect(1, "owner pending");
        }
    }
    // Under the right name of file, with a code that the operator did not see: what is typed decides.
    site.controller.apply(&mallory());
    site.approved(&alice(), "owner").expect(1, "owner pending");
    site.run(&["owner", "approve", &code(&mallory()), "--fingerprint", &whole(&alice().key)]).expect(1, "64 digits");
    assert_eq!(site.json(&["owner", "list", "--json"]), serde_json::json!([]));
    // A node's key is one for one use.
    let mut site = Site::new("admission = \"journal\"");
    let node = site.asks(1);
    site.once().done(0, &[("issued", 1)]);
    let double = TestOwner { id: owner::OwnerId::of(&node.fingerprint), name: "eve", key: node.key, passkey: key(9) };
    site.controller.apply(&double);
    site.approved(&double, "owner").expect(1, node.node_id.as_str());
    assert_eq!(site.json(&["owner", "list", "--json"]), serde_json::json!([]));
}

// spec: OA-13
#[test]
fn with_an_owner_the_journal_admits_nobody_and_pending_says_what_does() {
    for (more, admission, waits) in [
        ("", "owner", true),
        ("admission = \"owner\"", "owner", true),
        ("admission = \"operator\"", "operator", true),
        ("admission = \"journal\"", "journal", false),
    ] {
        let mut site = Site::new(more);
        site.approve(&alice(), "owner");
        let node = site.asks(1);
        let said = site.once();
        let status = site.json(&["status", "--json"]);
        assert_eq!(
            (&status["admission"], &status["awaiting"]),
            (&admission.into(), &i32::from(waits).into()),
            "{more}"
        );
        if !waits {
            said.done(0, &[("issued", 1)]);
            continue;
        }
        said.done(0, &[("awaiting", 1), ("issued", 0)]);
        assert!(site.controller.answer(&node.node_id).is_none());
        let by_owner = admission == "owner";
        let pending = site.json(&["pending", "--json"]);
        let outlook = if by_owner { "awaitsOwner" } else { "awaitsAdmission" };
        assert_eq!(pending["requests"][0]["outlook"], outlook);
        for verb in ["pending", "status"] {
            let said = site.run(&[verb]);
            assert_eq!(said.exit(0).out.contains("luciactl sign"), by_owner, "{verb}: {}", said.out);
        }
        // Who has a shell here has the ledger: his command goes on counting.
        let code = node.fingerprint.verification_code().to_string();
        site.run(&["admit", &code, "--fingerprint", &node.fingerprint.to_string()]).expect(0, "n1");
        site.once().done(0, &[("issued", 1)]);
    }
}

// spec: OA-14
#[test]
fn no_order_but_an_owners_own_for_this_fleet_and_now_admits_anybody() {
    let mut site = Site::new("");
    site.approve(&alice(), "owner");
    site.approve(&bob(), "viewer");
    let node = site.asks(1);
    let good = site.admit(&alice(), &node, 1);
    let of = |draft: &Draft, by: &TestOwner| signed(draft, &[by]);
    let with = |mut order: SignedOrder, change: &dyn Fn(&mut SignedOrder)| {
        change(&mut order);
        order
    };
    let elsewhere = draft(&alice(), Digest::of(b"another root"), now(), &node.node_id, &admit_body(&node, None), 2);
    let old =
        draft(&alice(), site.root().sha256(), now().minus(secs(7200)), &node.node_id, &admit_body(&node, None), 3);
    let ahead =
        draft(&alice(), site.root().sha256(), now().plus(secs(900)), &node.node_id, &admit_body(&node, None), 4);
    let stranger = site.admit(&mallory(), &node, 5);
    let viewer = site.admit(&bob(), &node, 6);
    let other = site.admit(&alice(), &TestNode::new(2), 7);
    for (name, order, code) in [
        ("unsigned", signed(&good, &[]), OrderCode::Malformed),
        ("a stranger's", of(&stranger, &mallory()), OrderCode::OwnerUnknown),
        ("a viewer's", of(&viewer, &bob()), OrderCode::NotAnOwner),
        ("an owner's, signed by a stranger", of(&good, &mallory()), OrderCode::OwnerUnknown),
        ("of another fleet", of(&elsewhere, &alice()), OrderCode::OtherFleet),
        ("one that ran out", of(&old, &alice()), OrderCode::Expired),
        ("one of tomorrow", of(&ahead, &alice()), OrderCode::NotYet),
        (
            "with another body",
            with(of(&good, &alice()), &|order| order.body.clone_from(&other.body)),
            OrderCode::BodyMismatch,
        ),
        (
            "the signature of another",
            with(of(&good, &alice()), &|order| order.signatures = vec![alice().sign(&other)]),
            OrderCode::SignatureInvalid,
        ),
        (
            "for another node",
            with(of(&other, &alice()), &|order| {
                order.intent_json = order.intent_json.replace(TestNode::new(2).node_id.as_str(), node.node_id.as_str());
            }),
            OrderCode::SignatureInvalid,
        ),
    ] {
        let id = site.controller.order(&order);
        site.once().done(0, &[("ordered", 0), ("ordersRefused", 1), ("issued", 0)]);
        assert_eq!(site.refused(id), Some(code), "{name}");
        std::fs::remove_file(site.path(&format!("controller/nodes/owner-requests/intent-{id}.json"))).unwrap();
    }
    // An owner who was removed: what was signed before counts no more.
    site.approve(&mallory(), "owner");
    site.run(&["owner", "remove", "mallory", "--yes"]).exit(0);
    let id = site.controller.order(&of(&stranger, &mallory()));
    site.once().done(0, &[("ordered", 0), ("issued", 0)]);
    assert_eq!(site.refused(id), Some(OrderCode::OwnerUnknown));
    // The good one, and the same again under the name of another.
    let id = site.controller.order(&of(&good, &alice()));
    site.once().done(0, &[("ordered", 1), ("issued", 1)]);
    assert_eq!(site.refused(id), None);
    site.accept(&node);
    let ledger = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    let replay = OwnerFile::OrderHead(OrderId::of("{}"));
    site.controller.put_owner(&replay, &of(&good, &alice()).to_bytes().unwrap());
    site.once().done(0, &[("ordered", 0)]).expect(0, &replay.name());
    // One of the same nonce is the same.
    let twice = site.admit(&alice(), &TestNode::new(2), 1);
    let id = site.controller.order(&of(&twice, &alice()));
    site.once().done(0, &[("ordered", 0), ("ordersRefused", 1)]);
    assert_eq!(site.refused(id), Some(OrderCode::AlreadyDone));
    let lines = |text: &str| text.lines().filter(|line| !line.contains("\"journalSeen\"")).count();
    let after = std::fs::read_to_string(site.path("worker/ledger.jsonl")).unwrap();
    assert_eq!(lines(&after), lines(&ledger), "nothing of it is in the ledger");
}

// spec: OA-4
#[test]
fn a_roster_that_was_put_back_stops_every_start_and_names_the_cure() {
    let site = Site::new("");
    site.approve(&alice(), "owner");
    site.approve(&mallory(), "owner");
    let path = site.path("worker/roster.json");
    let with_mallory = std::fs::read(&path).unwrap();
    site.run(&["owner", "remove", "mallory", "--yes"]).exit(0);
    site.run(&["once"]).exit(0);
    let right = std::fs::read(&path).unwrap();
    std::fs::write(&path, with_mallory).unwrap();
    for args in [&["once"][..], &["run"], &["owner", "list"], &["roster", "show"], &["status"]] {
        site.run(args).expect(1, "nodes/owner-responses/roster.json");
    }
    site.controller.apply(&bob());
    site.approved(&bob(), "owner").expect(1, "nodes/owner-responses/roster.json");
    assert_eq!(std::fs::read(site.path("controller/nodes/owner-responses/roster.json")).unwrap(), right);
    std::fs::copy(site.path("controller/nodes/owner-responses/roster.json"), &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    site.run(&["once"]).exit(0);
}

// spec: OA-15
#[test]
fn what_is_no_file_of_the_controllers_in_the_owners_queue_is_skipped_and_the_others_are_served() {
    type Put = fn(&Site, &Path);
    let rows: Vec<(&str, Put)> = vec![
        ("FIFO", |_, at| nix::unistd::mkfifo(at, nix::sys::stat::Mode::from_bits_truncate(0o640)).unwrap()),
        ("directory", |_, at| std::fs::create_dir(at).unwrap()),
        ("link to /dev/zero", |_, at| symlink("/dev/zero", at).unwrap()),
        ("link to the worker's key", |s, at| symlink(s.path("worker/worker.key"), at).unwrap()),
        ("hard link to the root's key", |s, at| std::fs::hard_link(s.path("worker/ca/root.key"), at).unwrap()),
        ("10 GB of nothing", |_, at| {
            std::fs::File::create(at).unwrap().set_len(10 << 30).unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o640)).unwrap();
        }),
        ("no bytes", |_, at| {
            std::fs::write(at, b"").unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o640)).unwrap();
        }),
        ("open to all", |_, at| {
            std::fs::write(at, b"{}").unwrap();
            std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    let bad = [
        OwnerFile::Application(mallory().id),
        OwnerFile::Freshness(TestNode::new(2).node_id),
        OwnerFile::OrderHead(OrderId::of("bad")),
    ];
    let mut site = Site::new("");
    site.approve(&alice(), "owner");
    let node = site.asks(1);
    site.controller.order(&signed(&site.admit(&alice(), &node, 1), &[&alice()]));
    site.once().done(0, &[("issued", 1)]);
    for (number, (name, put)) in rows.into_iter().enumerate() {
        let paths = bad.each_ref().map(|of| site.path("controller/nodes/owner-requests").join(of.name()));
        paths.iter().for_each(|path| put(&site, path));
        for strange in [format!("{}.tmp", bad[2].name()), bad[1].name().to_uppercase(), "x\ny.json".to_owned()] {
            site.controller.put(&format!("nodes/owner-requests/{strange}"), b"{}");
        }
        let random = u8::try_from(number + 1).unwrap();
        let asked = site.controller.question(&node.node_id, random);
        let second = TestNode::new(100 + random);
        let id = site.controller.order(&signed(&site.admit(&alice(), &second, 100 + random), &[&alice()]));
        let said = site.once();
        said.done(0, &[("ordered", 1), ("ordersRefused", 0)]);
        for of in &bad[1..] {
            let lines = said.err.lines().filter(|line| line.contains(&of.name()) && line.contains("ignored")).count();
            assert!(lines >= 1, "{name}: {}", said.err);
            assert!(!site.path("controller/nodes/owner-responses").join(of.name()).exists(), "{name}");
        }
        assert_eq!(site.controller.freshness(&node.node_id).unwrap().nonce, asked.nonce, "{name}");
        assert_eq!(site.refused(id), None, "{name}");
        site.controller.apply(&bob());
        let pending = site.run(&["owner", "pending"]);
        pending.expect(0, &code(&bob())).expect(0, &bad[0].name());
        assert!(!pending.out.contains("PRIVATE") && !said.err.contains("x\ny"), "{name}");
        for path in paths {
            let gone = if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) };
            gone.unwrap();
        }
    }
    // In the place of an answer lies a directory: that one waits, and the rest goes on.
    let asked = site.controller.question(&node.node_id, 77);
    let answer = site.path("controller/nodes/owner-responses").join(OwnerFile::Freshness(node.node_id.clone()).name());
    std::fs::remove_file(&answer).unwrap();
    std::fs::create_dir(&answer).unwrap();
    let name = answer.file_name().unwrap().to_str().unwrap();
    assert!(site.once().exit(0).err.contains(name));
    assert!(site.controller.freshness(&node.node_id).is_none());
    std::fs::remove_dir(&answer).unwrap();
    site.run(&["once"]).exit(0);
    assert_eq!(site.controller.freshness(&node.node_id).unwrap().nonce, asked.nonce);
}

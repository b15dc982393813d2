//! The real binary and what the roster asks of orders: further keys, the policy, the kinds of the page (design.md O2, O3, O5).

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
use fixture::{admit_body, draft, secs, signed};
use lucia_proto::base::bounded::Version;
use lucia_proto::files::owner_queue::{ApplicationFile, OwnerFile};
use lucia_proto::orders::OrderCode;
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, CredentialId, PageOrigin};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, TestOwner, key};
use site::{Ran, Site, command, now};

fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

fn bob() -> TestOwner {
    TestOwner::new("bob", 43)
}

/// Alice on another machine: another key, and the id it would have by itself.
fn laptop() -> TestOwner {
    let key = key(44);
    TestOwner { id: owner::OwnerId::of(&key.public().fingerprint()), name: "alice", key, passkey: self::key(45) }
}

fn code(key: &NodeKey) -> String {
    owner::code(key.public()).to_string()
}

fn whole(key: &NodeKey) -> String {
    key.public().fingerprint().to_string()
}

impl Site {
    fn approve(&self, who: &TestOwner, more: &[&str]) -> Ran {
        self.controller.apply(who);
        let (code, whole) = (code(&who.key), whole(&who.key));
        self.run(&[&["owner", "approve", &code, "--fingerprint", &whole][..], more].concat())
    }

    fn owned() -> Self {
        let site = Self::new("");
        site.is_at(1, &site.approve(&alice(), &[]));
        site
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(args).out).unwrap()
    }

    /// Runs a command and types this.
    fn typed(&self, args: &[&str], line: &str) -> Ran {
        let config = self.path("worker.toml");
        let mut child = command()
            .args(args)
            .arg("--config")
            .arg(config)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: said.status.code(), out: text(said.stdout), err: text(said.stderr) }
    }

    fn version(&self) -> u64 {
        self.json(&["roster", "show", "--json"]).get("version").and_then(serde_json::Value::as_u64).unwrap()
    }

    /// The command was carried out, and a roster of this version is in force.
    #[track_caller]
    fn is_at(&self, version: u64, ran: &Ran) {
        ran.exit(0);
        assert_eq!(self.version(), version, "{}{}", ran.out, ran.err);
    }
}

// spec: OA-43
#[test]
fn a_further_key_speaks_for_the_same_person_and_is_taken_away_for_good() {
    let mut site = Site::owned();
    // Not without the word, and not under another name.
    site.approve(&laptop(), &[]).expect(1, "--for alice");
    site.approve(&laptop(), &["--for", "bob"]).expect(1, "owner list");
    site.approve(&bob(), &["--for", "alice"]).expect(1, "--name alice");
    site.approve(&laptop(), &["--for", "alice", "--role", "viewer"]).expect(64, "--role");
    assert_eq!(site.version(), 1);
    // A second time it is there already.
    for _ in 0..2 {
        site.is_at(2, &site.approve(&laptop(), &["--for", "alice"]));
    }
    let list = site.run(&["owner", "list"]);
    for key in [&alice().key, &laptop().key] {
        list.expect(0, &whole(key)).expect(0, &code(key));
    }
    let row = &site.json(&["roster", "show", "--json"])["owners"][0];
    assert_eq!((row["owner"].as_str(), row["keys"].as_array().unwrap().len()), (Some(alice().id.as_str()), 2));

    // It orders as alice; beside her other key it is no second owner.
    let both = |site: &Site, node: &TestNode, by: &[&TestOwner], nonce| {
        let order = draft(&alice(), site.root().sha256(), now(), &node.node_id, &admit_body(node, None), nonce);
        let read = order.read().unwrap();
        read.signed(by.iter().map(|who| read.sign(alice().id, &who.key)).collect())
    };
    let refused = |site: &Site, id| site.controller.outcome(id).unwrap().outcome.refused;
    site.is_at(3, &site.run(&["roster", "policy", "set", "admit=two-owners", "--yes"]));
    let node = TestNode::new(1);
    site.controller.approve(&node);
    site.controller.happen();
    let id = site.controller.order(&both(&site, &node, &[&alice(), &laptop()], 1));
    site.once().done(0, &[("ordersRefused", 1)]);
    assert_eq!(refused(&site, id), Some(OrderCode::SecondOwnerNeeded));
    site.is_at(4, &site.run(&["roster", "policy", "set", "admit=allow", "--yes"]));
    let id = site.controller.order(&both(&site, &node, &[&laptop()], 2));
    // The first one lies there still, and is enough by now.
    site.once().done(0, &[("ordered", 2)]);
    assert_eq!(refused(&site, id), None);

    // Gone for good, by fingerprint or code, after the name was typed; the last one goes with its owner alone.
    let args = ["owner", "remove", "alice", "--key", &whole(&laptop().key)];
    site.typed(&args, "bob\n").exit(1);
    site.typed(&["owner", "remove", "alice", "--yes", "--key", &whole(&bob().key)], "").expect(1, "owner list");
    assert_eq!(site.version(), 4);
    site.is_at(5, &site.typed(&args, "alice\n"));
    let last = ["owner", "remove", "alice", "--yes", "--key", &code(&alice().key)];
    site.run(&last).expect(1, "owner remove alice");
    site.approve(&laptop(), &["--for", "alice"]).expect(1, "--context");
    let id = site.controller.order(&both(&site, &TestNode::new(2), &[&laptop()], 3));
    site.once().done(0, &[("ordersRefused", 1)]);
    assert_eq!(refused(&site, id), Some(OrderCode::KeyUnknown));
    assert_eq!(site.version(), 5);
    // With its owner all of them go.
    site.controller.apply(&bob());
    let third = TestOwner { key: key(46), ..laptop() };
    let third = TestOwner { id: owner::OwnerId::of(&third.key.public().fingerprint()), ..third };
    site.is_at(6, &site.approve(&third, &["--for", "alice"]));
    site.is_at(7, &site.run(&["owner", "remove", "alice", "--yes", "--last"]));
    site.approve(&third, &[]).expect(1, "--context");
    assert_eq!(site.version(), 7);
}

// spec: OA-43
#[test]
fn nobody_has_more_keys_than_a_roster_may_hold() {
    let site = Site::owned();
    let further = |number: u8| {
        let key = key(number);
        TestOwner { id: owner::OwnerId::of(&key.public().fingerprint()), name: "alice", key, passkey: self::key(1) }
    };
    for number in 50..57 {
        site.is_at(u64::from(number) - 48, &site.approve(&further(number), &["--for", "alice"]));
    }
    site.approve(&further(57), &["--for", "alice"]).expect(1, "owner remove alice");
    assert_eq!(site.version(), 8);
}

fn set<'a>(rules: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["roster", "policy", "set"], rules, more].concat()
}

fn page<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["roster", "page-kinds"], args].concat()
}

// spec: OA-44
#[test]
fn what_is_asked_of_orders_is_changed_by_a_yes_and_told_first() {
    let bare = Site::new("");
    bare.run(&["roster", "policy", "set", "admit=forbid", "--yes"]).expect(1, "owner pending");
    let site = Site::owned();
    for (rules, word) in [
        (&["admit"][..], "KIND=RULE"),
        (&["admit=yes"], "two-owners"),
        (&["exec=allow"], "\"exec\""),
        (&["admit=forbid", "Admit=allow"], "\"Admit\""),
        (&[], "<KIND=RULE>"),
    ] {
        site.run(&set(rules, &["--yes"])).expect(64, word);
    }
    // Each change is told before it is asked for; what changes nothing asks nothing.
    let mut told = String::new();
    site.is_at(1, &site.run(&set(&["admit=allow"], &[])));
    let said = site.typed(&set(&["admit=two-owners", "ssh-key=forbid"], &[]), "no\n");
    told.push_str(&said.exit(1).out);
    assert_eq!(site.version(), 1);
    let said = site.typed(&set(&["admit=two-owners", "ssh-key=forbid", "default=forbid"], &[]), "yes\n");
    site.is_at(2, &said);
    told.push_str(&said.out);
    let policy = site.json(&["roster", "policy", "show", "--json"]);
    let want = serde_json::json!({"default": "forbid", "admit": "two-owners", "ssh-key": "forbid"});
    assert_eq!(policy, want, "what was not named goes by the default");
    let said = site.run(&["roster", "policy", "show"]);
    expect_file!["snapshots/policy.txt"].assert_eq(&said.exit(0).out);
    let said = site.run(&set(&["admit=allow", "ssh-key=two-owners"], &["--yes"]));
    site.is_at(3, said.expect(0, "WIDER"));
    told.push_str(&said.out);
    // And it counts: a kind that is forbidden for all is not carried out for its owner.
    site.is_at(4, &site.run(&set(&["admit=forbid"], &["--yes"])));
    let node = TestNode::new(1);
    let order = draft(&alice(), site.root().sha256(), now(), &node.node_id, &admit_body(&node, None), 1);
    let id = site.controller.order(&signed(&order, &[&alice()]));
    site.once().done(0, &[("ordersRefused", 1)]);
    assert_eq!(site.controller.outcome(id).unwrap().outcome.refused, Some(OrderCode::KindForbidden));

    // The kinds of the page.
    site.run(&page(&[])).expect(0, "none");
    site.run(&page(&["ssh-key", "--yes"])).expect(64, "https://NAME:PORT");
    site.run(&page(&["ssh-key", "--origin", "http://c", "--yes"])).expect(64, "--origin");
    site.run(&page(&["--origin", "https://c.example", "--yes"])).exit(64);
    site.run(&page(&["everything", "--yes"])).expect(64, "\"everything\"");
    let named = ["ssh-key", "clone-decision", "ssh-key", "--origin", "https://c.example:8443"];
    site.typed(&page(&named), "\n").expect(1, "WIDER");
    assert_eq!(site.version(), 4);
    let said = site.typed(&page(&named), "yes\n");
    site.is_at(5, said.expect(0, "https://c.example:8443"));
    told.push_str(&said.out);
    site.run(&page(&[])).expect(0, "ssh-key clone-decision");
    let shown = site.json(&["roster", "show", "--json"]);
    assert_eq!(shown["pageKinds"], serde_json::json!(["ssh-key", "clone-decision"]));
    assert_eq!(shown["pageOrigin"], "https://c.example:8443");
    let said = site.run(&page(&["none", "--yes"]));
    site.is_at(6, &said);
    told.push_str(&said.out);
    expect_file!["snapshots/roster-change.txt"].assert_eq(&told);
    assert_eq!(site.json(&["roster", "show", "--json"])["pageOrigin"], serde_json::Value::Null);
    site.once().done(0, &[("issued", 0)]);
}

/// design.md O2: a passkey for orders, from its owner's word to the order that it signs.
// spec: OA-45
#[test]
fn a_passkey_that_its_owner_confirmed_signs_the_kinds_of_the_page_and_nothing_else() {
    let site = Site::owned();
    let origin: PageOrigin = "https://c.example:8443".parse().unwrap();
    let passkey = alice().passkey;
    let ask = |by: &NodeKey, name: &str| {
        let id = CredentialId::from_bytes(vec![7; 20]).unwrap();
        let of = (alice().id, name.parse().unwrap());
        let application = Application::confirm(of, (site.root().sha256(), now()), (passkey.public(), id), by);
        let file = ApplicationFile { schema_version: Version, application, expires_at: now().plus(secs(3000)) };
        let owner = owner::OwnerId::of(&passkey.public().fingerprint());
        site.controller.put_owner(&OwnerFile::Application(owner), &file.to_bytes().unwrap());
    };
    let approve = |more: &[&str]| {
        let (code, whole) = (code(&passkey), whole(&passkey));
        site.run(&[&["owner", "approve", &code, "--fingerprint", &whole][..], more].concat())
    };
    // By nobody, by itself, by a key that alice does not have, and under another name.
    for (by, name) in [(&key(47), "alice"), (&passkey, "alice"), (&alice().key, "bob")] {
        ask(by, name);
        let ran = approve(&[]);
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert_eq!(site.version(), 1);
    }
    ask(&alice().key, "alice");
    let pending = site.json(&["owner", "pending", "--json"]);
    assert_eq!(pending["open"][0]["passkeyOf"], alice().id.as_str(), "{pending}");
    approve(&["--for", "alice"]).expect(1, "--for");
    assert_eq!(site.version(), 1);
    site.is_at(2, approve(&[]).expect(0, "roster page-kinds"));
    site.is_at(2, &approve(&[]));
    let shown = site.run(&["roster", "show"]);
    shown.expect(0, &whole(&passkey));
    expect_file!["snapshots/roster.txt"].assert_eq(&site.plain(&shown.out));
    // It is no owner key: it makes nobody an owner, and is not the one that must stay.
    site.run(&["owner", "remove", "alice", "--yes", "--key", &whole(&alice().key)]).expect(1, "owner remove alice");
    assert_eq!(site.version(), 2);

    let order = |number: u8, nonce| {
        let node = TestNode::new(number);
        let draft = draft(&alice(), site.root().sha256(), now(), &node.node_id, &admit_body(&node, None), nonce);
        let signature = alice().touch(&draft, &origin);
        let id = site.controller.order(&draft.read().unwrap().signed(vec![signature]));
        site.run(&["once"]);
        site.controller.outcome(id).unwrap().outcome.refused
    };
    assert_eq!(order(1, 1), Some(OrderCode::PageNotAllowed));
    let page = ["roster", "page-kinds", "ssh-key", "--yes", "--origin", origin.as_str()];
    site.is_at(3, &site.run(&page));
    assert_eq!(order(2, 2), Some(OrderCode::PageNotAllowed), "another kind");
    let page = ["roster", "page-kinds", "ssh-key", "admit", "--yes"];
    site.is_at(4, &site.run(&page));
    assert_eq!(order(3, 3), None);
    site.is_at(5, &site.run(&["owner", "remove", "alice", "--yes", "--key", &code(&passkey)]));
    assert_eq!(order(4, 4), Some(OrderCode::KeyUnknown));
    approve(&[]).expect(1, "--context");
    assert_eq!(site.version(), 5);
}

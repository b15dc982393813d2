//! What can be foreseen is refused before anything is shown, and what fails later says how far the order came.

use std::sync::Arc;

use lucia_people::owner_api::RosterView;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::{Roster, SignedRoster};
use lucia_proto::orders::{OrderKind, Rule};
use lucia_proto::pki::bundle::SignedBundle;
use lucia_proto::test_support::{OrderWorld, TestCa};

use crate::orders::{add, nodes, onboarding, view, who};
use crate::server::{By, Server, Step, get, refusal, step};
use crate::site::{Site, config, ended, world};

/// The roster of the world, changed.
fn changed(world: &OrderWorld, change: impl FnOnce(&mut Roster)) -> Step {
    let mut roster = world.roster.roster().clone();
    change(&mut roster);
    let signed = SignedRoster::sign(&roster, &world.ca.worker_key).unwrap();
    get("GET /api/host/roster", &RosterView { roster: Some(signed), bundle: Some(world.bundle.signed().clone()) })
}

// spec: LC-90
#[test]
fn whoever_may_not_sign_hears_so_before_anything_is_shown() {
    let world = world();
    let site = Site::bare(&world);
    site.write("new.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA", 0o644);
    let file = site.path("new.pub").to_str().unwrap().to_owned();
    let (code, hex) = (world.node.fingerprint.verification_code(), world.node.fingerprint.to_string());
    let (code, name, start) = (code.as_str(), world.node.hostname.as_str(), "09".repeat(16));
    let verbs: [(OrderKind, Vec<&str>); 9] = [
        (OrderKind::Admit, vec!["approve", code, "--fingerprint", &hex, "--hostname", name, "--disk", "wwn-0x5"]),
        (OrderKind::Admit, vec!["admit", code, "--fingerprint", &hex, "--hostname", name]),
        (OrderKind::SshKey, vec!["keys", "add", "alice", &file, "--label", "desk", "--all"]),
        (OrderKind::SshKey, vec!["keys", "remove", "alice", "SHA256:x", "--all"]),
        (OrderKind::CloneDecision, vec!["clone", "keep", name, "--start", &start]),
        (OrderKind::CloneDecision, vec!["clone", "split", name]),
        (OrderKind::ReleaseLapse, vec!["release-lapse", name]),
        (OrderKind::RemoveIdentity, vec!["remove", name]),
        (OrderKind::RemoveIdentity, vec!["sign", code]),
    ];
    let forbidden = world.draft(OrderKind::RemoveIdentity, |_| ());
    for (kind, args) in verbs {
        let refused = |roster: Step, more: Vec<Step>, args: &[&str], code: &str, cure: &str| {
            let server = Server::new(world.clone(), [roster].into_iter().chain(more).collect());
            let text = Site::alice(&world, server.port).refused(args, 1, code);
            // The refusal alone: no order was shown before it.
            assert!(text.lines().count() == 1 && text.contains(cure), "{args:?}: {text}");
            server.done();
        };
        let viewer = changed(&world, |roster| roster.owners[0].role = Role::Viewer);
        refused(viewer, vec![], &args, "role_required", "luciactl owners");
        let gone = changed(&world, |roster| drop(roster.owners.remove(0)));
        refused(gone, vec![], &args, "not_in_roster", "luciactl login");
        let forbids = changed(&world, |roster| roster.policy = roster.policy.clone().with(kind, Rule::Forbid));
        let its = forbidden.read().unwrap().code();
        let (args, more) = match args[0] {
            "sign" => {
                (vec!["sign", its.as_str()], vec![get(format!("GET /api/host/orders/{its}"), &view(forbidden.clone()))])
            }
            "remove" => (args, vec![nodes(&world)]),
            _ => (args, vec![]),
        };
        refused(forbids, more, &args, "kind_forbidden", &format!("policy set {}=allow", kind.as_str()));
    }
    // Nobody signs over the socket, whoever may be there.
    for args in [&["sign", code][..], &["admit", code, "--yes"], &["release-lapse", name]] {
        ended(&site.run(&[&["--socket", "/nowhere/s"], args].concat()), 64, "luciactl login");
    }
}

// spec: LC-90
#[test]
fn an_order_whose_time_is_over_is_not_shown() {
    let world = world();
    let late = world.draft(OrderKind::RemoveIdentity, |intent| {
        let hour = std::time::Duration::from_secs(3600);
        let (from, until) = (world.now.minus(hour * 2), world.now.minus(hour));
        let lucia_proto::orders::Terms::Once { nonce, .. } = intent.terms.clone() else { panic!("{intent:?}") };
        intent.issued_at = from;
        intent.terms = lucia_proto::orders::Terms::Once { not_after: until, nonce };
    });
    let code = late.read().unwrap().code();
    let server =
        Server::new(world.clone(), vec![who(&world), get(format!("GET /api/host/orders/{code}"), &view(late))]);
    let text = Site::alice(&world, server.port).refused(&["sign", code.as_str(), "--yes"], 1, "expired");
    assert_eq!(text.lines().count(), 1, "{text}");
    server.done();
}

// spec: LC-91
#[test]
fn what_fails_after_an_order_was_shown_says_how_far_it_came() {
    let world = world();
    let draft = world.draft(OrderKind::RemoveIdentity, |_| ());
    let (code, name) = (draft.read().unwrap().code(), world.node.hostname.as_str());
    let look = || get(format!("GET /api/host/orders/{code}"), &view(draft.clone()));
    let refuse = |line: &str, status, code: &str| {
        let refusal = refusal(code);
        step(line, By::Alice, move |_, _| (status, refusal))
    };
    let sign = "POST /api/host/orders/*/signatures";
    // What is signed, and whether it arrived or was taken, is cured by signing again.
    let again = |text: &str| text.contains("luciactl sign ");
    for (args, more, exit, refusal, signed) in [
        (vec!["sign", code.as_str()], vec![look()], 64, "usage", false),
        (vec!["remove", name], vec![nodes(&world)], 64, "usage", false),
        (
            vec!["remove", name, "--yes"],
            vec![nodes(&world), refuse("POST /api/host/orders", 503, "registry_full")],
            1,
            "registry_full",
            false,
        ),
        (
            vec!["remove", name, "--yes"],
            vec![nodes(&world), add(), refuse(sign, 409, "intent_refused")],
            1,
            "intent_refused",
            true,
        ),
        (
            vec!["sign", code.as_str(), "--yes"],
            vec![look(), step(sign, By::Alice, |_, _| (302, String::new()))],
            1,
            "answer_invalid",
            true,
        ),
    ] {
        let server = Server::new(world.clone(), [who(&world)].into_iter().chain(more).collect());
        let text = Site::alice(&world, server.port).refused(&args, exit, refusal);
        assert_eq!(again(&text), signed, "{args:?}: {text}");
        server.done();
    }
    // An answer that is cut off comes after the signature was taken.
    let script = vec![who(&world), look(), step(sign, By::Alice, |_, _| (200, "{".to_owned()))];
    let server = Server::new(world.clone(), script);
    ended(&Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]), 0, code.as_str());
    server.done();
    // An approval that was not made orders nothing; one whose order was not taken says what it waits for.
    let key = world.node.fingerprint;
    let (device, hex) = (key.verification_code(), key.to_string());
    let args = ["approve", device.as_str(), "--fingerprint", &hex, "--hostname", name, "--disk", "wwn-0x5", "--yes"];
    let seen = || get("GET /api/host/onboarding", &onboarding(&world, "Discovered", ""));
    let line = format!("POST /api/host/devices/{}/approve-install", world.node.node_id);
    let server =
        Server::new(world.clone(), vec![who(&world), seen(), nodes(&world), refuse(&line, 409, "hostname_in_use")]);
    let text = Site::alice(&world, server.port).refused(&args, 1, "hostname_in_use");
    assert!(!again(&text), "{text}");
    let approved = get(line, &onboarding(&world, "Approved", ""));
    let script = vec![who(&world), seen(), nodes(&world), approved, add(), refuse(sign, 409, "intent_refused")];
    let server = Server::new(world.clone(), script);
    let text = Site::alice(&world, server.port).refused(&args, 1, "intent_refused");
    assert!(again(&text) && !text.contains("luciactl admit"), "{text}");
    server.done();
}

// spec: LC-92
#[test]
fn a_bundle_that_is_older_than_one_that_was_seen_is_not_believed() {
    let world = world();
    let at = |version: u64, roster: u64| {
        let mut bundle = world.bundle.bundle().clone();
        bundle.version = version;
        let mut content = world.roster.roster().clone();
        content.version = roster;
        RosterView {
            roster: Some(SignedRoster::sign(&content, &world.ca.worker_key).unwrap()),
            bundle: Some(SignedBundle::sign(&bundle, &world.ca.root_key).unwrap()),
        }
    };
    let other = {
        let mut bundle = world.bundle.bundle().clone();
        (bundle.version, bundle.issued) = (9, world.now.plus(std::time::Duration::from_secs(1)));
        RosterView { bundle: Some(SignedBundle::sign(&bundle, &world.ca.root_key).unwrap()), ..at(9, 7) }
    };
    // A roster that no worker of a newer bundle signed is refused, and the bundle counts all the same.
    let foreign =
        RosterView { roster: Some(SignedRoster::sign(world.roster.roster(), &world.mallory.key).unwrap()), ..at(9, 7) };
    let cases = [
        (at(7, 5), Ok("Roster 5")),
        (at(8, 6), Ok("Roster 6")),
        // What a thief of a retired worker's key brings: a roster that is newer, by a bundle of before.
        (at(7, 99), Err("bundle_older")),
        (at(8, 6), Ok("Roster 6")),
        (foreign, Err("roster_signature_invalid")),
        (at(8, 7), Err("bundle_older")),
        (other, Err("bundle_conflict")),
        (at(9, 7), Ok("Roster 7")),
    ];
    let last = get("GET /api/host/roster", &cases[7].0);
    let script = cases.iter().map(|(view, _)| get("GET /api/host/roster", view)).chain([last]).collect();
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    for (_, want) in &cases {
        site.owners(*want);
    }
    let note = format!("owner.bundle-{}", &world.fleet.to_string()[..16]);
    assert_eq!(site.mode(&note), 0o600);
    assert!(site.read(&note).contains(r#""version":9"#), "{}", site.read(&note));
    site.write(&note, "{}", 0o600);
    ended(&site.run(&["owners"]), 1, "owner.bundle-");
    server.done();
}

/// Two fleets, one key: contexts that somebody wrote by hand.
// spec: LC-92
#[test]
fn each_fleet_has_its_own_marks_and_runs_at_a_time_do_not_undo_each_other() {
    let world = world();
    let mut other = OrderWorld::new(world.now);
    other.ca = TestCa::with_keys(world.now, 211);
    other.fleet = other.ca.root().sha256();
    other.bundle = other.ca.signed_bundle(1, world.now).verify(&other.ca.root()).unwrap();
    let roster = Roster { version: 1, fleet: other.fleet, ..world.roster.roster().clone() };
    let signed = SignedRoster::sign(&roster, &other.ca.worker_key).unwrap();
    other.roster = signed.verify(&other.bundle, &other.fleet).unwrap();
    let other = Arc::new(other);
    let server = Server::new(world.clone(), (0..9).map(|_| who(&world)).collect());
    let second = Server::new(other.clone(), vec![who(&other)]);
    let site = Site::alice(&world, server.port);
    site.write("other.pem", &other.ca.root_pem(), 0o600);
    let entry = config(second.port).split_once('\n').unwrap().1.replace(".home]", ".away]").replace("given", "other");
    site.write("luciactl.toml", &format!("{}{entry}", config(server.port)), 0o600);
    let run = || site.run(&["owners"]);
    let runs: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for output in runs {
        ended(&output, 0, "Roster 5");
    }
    ended(&site.run(&["--context", "away", "owners"]), 0, "Roster 1");
    ended(&run(), 0, "Roster 5");
    server.done();
    second.done();
}

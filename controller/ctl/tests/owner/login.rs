//! Becoming an owner: the key, its passphrase, the application, the waiting.

use lucia_people::owner_api::{Applied, RosterView};
use lucia_people::sign_in::PasskeyForm;
use lucia_proto::base::json;
use lucia_proto::base::limits::{APPLICATION_LIFETIME, HOST_BODY_MAX};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{self, CredentialId, OwnerId, Role};
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::pki::key::{Fingerprint, NodeKey};
use lucia_proto::test_support::{OrderWorld, TestCa};

use crate::server::{Asked, By, Server, Step, get, refusal, step};
use crate::site::{Site, arg, ended, program, refusal_code, roster, said, world};

const APPLY: &str = "POST /api/host/owners/applications";
const PASSPHRASE: &str = "correct horse battery";

/// The answer of an honest controller.
fn applied(world: &OrderWorld, asked: &Asked) -> (u16, String) {
    let application: Application = json::from_str(&asked.body, HOST_BODY_MAX, 8).unwrap();
    let key = application.verify_in(Some(&world.roster)).unwrap();
    let expires_at = world.now.plus(APPLICATION_LIFETIME);
    (200, json::to_string(&Applied { verification_code: owner::code(&key), expires_at }).unwrap())
}

fn apply() -> Step {
    step(APPLY, By::Anyone, applied)
}

fn login(site: &Site, port: u16, more: &[&str]) -> std::process::Output {
    let controller = format!("https://localhost:{port}");
    let root = site.path("given.pem");
    let args = ["login", "--controller", &controller, "--root", arg(&root), "--name", "alice"];
    site.run(&[&args[..], more].concat())
}

fn with_passphrase(site: &Site, port: u16, more: &[&str]) -> std::process::Output {
    site.write("passphrase", &format!("{PASSPHRASE}\n"), 0o600);
    let file = site.path("passphrase");
    login(site, port, &[&["--passphrase-file", arg(&file)], more].concat())
}

/// The roster with this key in it: whoever runs the worker approved it.
fn with(world: &OrderWorld, key: &NodeKey) -> RosterView {
    let mut roster = world.roster.roster().clone();
    let mut entry = world.alice.entry(Role::Owner);
    entry.id = OwnerId::of(&key.public().fingerprint());
    entry.name = "alice".parse().unwrap();
    entry.keys[0].public_key_pem = key.public().to_pem();
    entry.keys.truncate(1);
    roster.owners[0] = entry;
    let signed = SignedRoster::sign(&roster, &world.ca.worker_key).unwrap();
    RosterView { roster: Some(signed), bundle: Some(world.bundle.signed().clone()) }
}

// spec: LC-3, LC-4
#[test]
fn a_login_makes_a_key_that_only_its_owner_can_use() {
    let world = world();
    let server = Server::new(world.clone(), vec![apply()]);
    let site = Site::bare(&world);
    let output = with_passphrase(&site, server.port, &["--no-wait"]);
    ended(&output, 0, "lucia-enrollment-worker owner approve");
    let asked = server.done();
    let application: Application = json::from_str(&asked[0].body, HOST_BODY_MAX, 8).unwrap();
    let key = application.verify().unwrap();
    let (code, fingerprint) = (owner::code(&key), key.fingerprint());
    let line = format!("lucia-enrollment-worker owner approve {code} --fingerprint {fingerprint}");
    assert!(said(&output).contains(&line), "{}", said(&output));
    assert_eq!(application.name.as_str(), "alice");

    for (name, mode) in
        [("luciactl.toml", 0o600), ("localhost", 0o700), ("localhost/owner.key", 0o600), ("localhost/root.pem", 0o600)]
    {
        assert_eq!(site.mode(name), mode, "{name}");
    }
    assert_eq!(site.read("localhost/root.pem"), world.ca.root_pem());
    let sealed = site.read("localhost/owner.key");
    assert!(sealed.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "{sealed}");
    assert!(!said(&output).contains(PASSPHRASE));

    // Any other tool opens it with the passphrase, and with nothing else.
    let open = |passphrase: &str| {
        let mut openssl = program("openssl");
        openssl.args([
            "pkcs8",
            "-in",
            arg(&site.path("localhost/owner.key")),
            "-passin",
            &format!("pass:{passphrase}"),
        ]);
        openssl.output().unwrap()
    };
    let opened = open(PASSPHRASE);
    let text = String::from_utf8(opened.stdout).unwrap();
    assert_eq!(NodeKey::from_pem(&text).unwrap().public(), &key, "{}", String::from_utf8_lossy(&opened.stderr));
    assert!(!open("another").status.success());

    // And so do we; without a terminal somebody has to say from where.
    let wrong = site.path("wrong");
    site.write("wrong", "another phrase\n", 0o600);
    site.refused(&["nodes", "--passphrase-file", arg(&wrong)], 1, "passphrase_wrong");
    ended(&site.run(&["nodes", "--passphrase-file", arg(&site.path("nowhere"))]), 1, "nowhere");
    site.write("wrong", &format!("{PASSPHRASE}\n"), 0o644);
    ended(&site.run(&["nodes", "--passphrase-file", arg(&wrong)]), 1, "chmod 600");
    assert_eq!(server.asked().len(), 1);
}

// spec: LC-4
#[test]
fn the_same_login_asks_again_with_the_same_key() {
    let world = world();
    let server = Server::new(world.clone(), vec![apply(), apply()]);
    let site = Site::bare(&world);
    ended(&with_passphrase(&site, server.port, &["--no-wait"]), 0, "");
    let key = site.read("localhost/owner.key");
    ended(&with_passphrase(&site, server.port, &["--no-wait", "--json"]), 0, "\"verificationCode\"");
    assert_eq!(site.read("localhost/owner.key"), key);
    let asked = server.done();
    let who = |asked: &Asked| json::from_str::<Application>(&asked.body, HOST_BODY_MAX, 8).unwrap().public_key_pem;
    assert_eq!(who(&asked[0]), who(&asked[1]));

    // Another name or root under the same context is somebody else's: nothing is sent, nothing written over.
    let config = site.read("luciactl.toml");
    let mallory = TestCa::with_keys(world.now, 211);
    site.write("other.pem", &mallory.root_pem(), 0o600);
    let controller = format!("https://localhost:{}", server.port);
    let (root, other, passphrase) = (site.path("given.pem"), site.path("other.pem"), site.path("passphrase"));
    for (root, name, exit, code) in [(&root, "bob", 64, "context_taken"), (&other, "alice", 1, "root_mismatch")] {
        let args = ["login", "--controller", &controller, "--root", arg(root), "--name", name];
        site.refused(&[&args[..], &["--passphrase-file", arg(&passphrase), "--no-wait"]].concat(), exit, code);
    }
    assert_eq!((site.read("luciactl.toml"), site.read("localhost/owner.key")), (config, key));
    assert_eq!(server.asked().len(), 2);
}

// spec: LC-3
#[test]
fn a_key_without_a_passphrase_is_made_only_when_told_so() {
    let world = world();
    let server = Server::new(world.clone(), vec![apply()]);
    let site = Site::bare(&world);
    // Without a terminal nobody can be asked, and a short one is none.
    let port = server.port;
    site.write("short", "short\n", 0o600);
    let short = site.path("short");
    let output = login(&site, port, &["--no-wait", "--json", "--passphrase-file", arg(&short)]);
    assert_eq!((output.status.code(), refusal_code(&said(&output)).as_str()), (Some(1), "passphrase_too_short"));
    assert!(!site.path("localhost/owner.key").exists() && !site.path("luciactl.toml").exists());
    assert!(server.asked().is_empty());
    ended(&login(&site, port, &["--no-wait", "--no-passphrase"]), 0, "Warning");
    assert!(site.read("localhost/owner.key").starts_with("-----BEGIN PRIVATE KEY-----"));
    assert_eq!(site.mode("localhost/owner.key"), 0o600);
    server.done();
}

// spec: LC-4
#[test]
fn a_key_that_lies_there_is_not_taken_for_somebody_elses() {
    let world = world();
    let server = Server::new(world.clone(), vec![apply(), get("GET /api/host/roster", &roster(&world))]);
    let site = Site::bare(&world);
    std::fs::create_dir(site.path("localhost")).unwrap();
    std::fs::set_permissions(site.path("localhost"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    site.write("localhost/owner.key", &world.alice.key.to_pem().unwrap(), 0o600);
    let (root, controller) = (site.path("given.pem"), format!("https://localhost:{}", server.port));
    let args = ["login", "--controller", &controller, "--root", arg(&root), "--name", "bob"];
    // What it asked for stands on standard output by then.
    let output = site.run(&[&args[..], &["--json"]].concat());
    assert_eq!((output.status.code(), refusal_code(&said(&output)).as_str()), (Some(1), "name_mismatch"));
    server.done();
}

// spec: LC-4
#[test]
fn an_answer_about_another_key_ends_the_login() {
    let world = world();
    let other = |world: &OrderWorld, _: &Asked| {
        let verification_code = owner::code(world.mallory.key.public());
        (200, json::to_string(&Applied { verification_code, expires_at: world.now }).unwrap())
    };
    let server = Server::new(world.clone(), vec![step(APPLY, By::Anyone, other)]);
    let site = Site::bare(&world);
    let output = with_passphrase(&site, server.port, &["--json"]);
    let text = said(&output);
    assert_eq!((output.status.code(), refusal_code(&text).as_str()), (Some(1), "code_mismatch"), "{text}");
    assert!(!text.contains("owner approve"), "{text}");
    assert!(!site.path("luciactl.toml").exists());
    server.done();
}

// spec: LC-5
#[test]
fn the_waiting_ends_with_a_roster_that_has_the_key_and_counts() {
    let world = world();
    let known = |world: &OrderWorld, key: &NodeKey| json::to_string(&with(world, key)).unwrap();
    type Make = fn(&OrderWorld, &NodeKey) -> RosterView;
    let forged: [(Make, &str); 4] = [
        (|world, key| RosterView { bundle: None, ..with(world, key) }, "bundle_missing"),
        (
            |world, key| {
                let mallory = TestCa::with_keys(world.now, 211);
                let bundle = Some(mallory.signed_bundle(9, world.now));
                RosterView { bundle, ..with(world, key) }
            },
            "bundle_invalid",
        ),
        (
            |world, key| {
                let roster = with(world, key).roster.unwrap();
                let payload = roster.parts().payload().to_vec();
                let signature = world.mallory.key.sign_der(&[b"lucia-roster-v1\n", payload.as_slice()].concat());
                RosterView { roster: Some(SignedRoster::from_parts(payload, signature)), ..with(world, key) }
            },
            "roster_signature_invalid",
        ),
        (
            |world, key| {
                let mut other = with(world, key);
                let mut roster = world.roster.roster().clone();
                roster.fleet = lucia_proto::base::digest::Digest::of(b"another root");
                other.roster = Some(SignedRoster::sign(&roster, &world.ca.worker_key).unwrap());
                other
            },
            "other_fleet",
        ),
    ];
    // The key is the one of alice's context, so that the roster can have it before the application comes.
    let run = |answer: String| {
        let look = step("GET /api/host/roster", By::Alice, move |_, _| (200, answer));
        let server = Server::new(world.clone(), vec![apply(), look]);
        let site = Site::bare(&world);
        std::fs::create_dir(site.path("localhost")).unwrap();
        site.write("localhost/owner.key", &world.alice.key.to_pem().unwrap(), 0o600);
        let output = login(&site, server.port, &["--json"]);
        server.done();
        output
    };
    ended(&run(known(&world, &world.alice.key)), 0, "alice");
    for (make, code) in forged {
        let output = run(json::to_string(&make(&world, &world.alice.key)).unwrap());
        let text = said(&output);
        assert_eq!((output.status.code(), refusal_code(&text).as_str()), (Some(1), code), "{text}");
    }
}

// spec: LC-5
#[test]
fn whoami_and_owners_go_by_the_checked_roster() {
    let world = world();
    let look = |view: RosterView| {
        let text = json::to_string(&view).unwrap();
        step("GET /api/host/roster", By::Alice, move |_, _| (200, text))
    };
    let server = Server::new(world.clone(), vec![look(roster(&world)), look(roster(&world))]);
    let site = Site::alice(&world, server.port);
    let fingerprint: Fingerprint = world.alice.key.public().fingerprint();
    ended(&site.run(&["whoami"]), 0, "owner");
    let output = site.run(&["owners", "-o", "wide"]);
    ended(&output, 0, &fingerprint.to_string());
    for name in ["alice", "bob", "victor", "viewer", "passkey"] {
        assert!(said(&output).contains(name), "{name}: {}", said(&output));
    }
    server.done();

    let gone = step("GET /api/host/roster", By::Alice, |_, _| (403, refusal("actor_required")));
    let server = Server::new(world.clone(), vec![gone]);
    let output = Site::alice(&world, server.port).run(&["whoami"]);
    ended(&output, 0, "alice");
    let text = said(&output);
    let role = text.lines().find(|line| line.trim_start().starts_with("role ")).unwrap();
    assert!(!role.contains("owner") && !role.contains("viewer"), "{role}");
    let forged =
        RosterView { bundle: Some(TestCa::with_keys(world.now, 211).signed_bundle(9, world.now)), ..roster(&world) };
    let server = Server::new(world.clone(), vec![look(forged)]);
    let text = Site::alice(&world, server.port).refused(&["owners"], 1, "bundle_invalid");
    assert!(!text.contains("victor"), "{text}");
}

// spec: LC-3
#[test]
fn a_passphrase_is_typed_unseen_and_twice_when_it_is_new() {
    let world = world();
    let server = Server::new(world.clone(), vec![apply()]);
    let site = Site::bare(&world);
    let controller = format!("https://localhost:{}", server.port);
    let root = site.path("given.pem");
    let args = ["login", "--controller", &controller, "--root", arg(&root), "--name", "alice", "--no-wait"];
    let in_json = [&args[..], &["--json"]].concat();
    let (done, text) = site.on_terminal(&in_json, &[PASSPHRASE, "another phrase"]);
    assert!(!done && refusal_code(&text) == "passphrase_mismatch", "{text}");
    let (done, text) = site.on_terminal(&in_json, &["\u{3}"]);
    assert!(!done && refusal_code(&text) == "passphrase_missing", "{text}");
    assert!(!site.path("localhost/owner.key").exists());
    let (done, text) = site.on_terminal(&args, &[PASSPHRASE, PASSPHRASE]);
    assert!(done && !text.contains(PASSPHRASE), "{text}");
    assert!(site.read("localhost/owner.key").starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
    server.done();
    let (done, text) = site.on_terminal(&["nodes", "--json"], &["another phrase"]);
    assert!(!done && refusal_code(&text) == "passphrase_wrong" && !text.contains("another phrase"), "{text}");
}

/// What the page showed is confirmed with the owner key; the page itself sends nothing.
// spec: LC-51, LC-99
#[test]
fn a_passkey_for_orders_is_asked_for_with_the_owner_key_after_a_yes() {
    let world = world();
    let passkey = lucia_proto::test_support::key(77);
    let form = PasskeyForm {
        label: lucia_proto::base::bounded::KeyLabel::fitted("phone").unwrap(),
        credential_id: CredentialId::from_bytes(vec![7; 20]).unwrap(),
        public_key: passkey.public().der().to_vec(),
    };
    let roster = || get("GET /api/host/roster", &roster(&world));
    let server = Server::new(world.clone(), vec![roster(), roster(), apply(), roster(), roster()]);
    let site = Site::alice(&world, server.port);
    site.write("passkey.json", &json::to_string(&form).unwrap(), 0o600);
    site.write("broken.json", "{}", 0o600);
    let file = |name: &str| site.path(name).to_str().unwrap().to_owned();
    ended(&site.run(&["passkey", "orders", &file("broken.json"), "--yes"]), 1, "broken.json");
    let output = site.run(&["passkey", "orders", &file("passkey.json"), "--yes"]);
    let (code, whole) = (owner::code(passkey.public()), passkey.public().fingerprint());
    ended(&output, 0, &format!("lucia-enrollment-worker owner approve {code} --fingerprint {whole}"));
    let output = site.run(&["passkey", "orders", &file("passkey.json")]);
    ended(&output, 64, "--yes");
    let [first, second] = whole.rows();
    assert!(said(&output).contains(&format!("Fingerprint  {first}\n             {second}\n")), "{}", said(&output));
    // Pasted at a terminal, which is told what it waits for.
    let pasted = format!("{}\r\u{4}", json::to_string(&form).unwrap());
    let (done, text) = site.on_terminal(&["passkey", "orders", "-", "--json"], &[&pasted, "no"]);
    assert!(!done && text.contains("Ctrl-D") && refusal_code(&text) == "not_confirmed", "{text}");
    let asked: Application = json::from_str(&server.done()[2].body, HOST_BODY_MAX, 8).unwrap();
    assert_eq!(asked.verify_in(Some(&world.roster)).unwrap(), *passkey.public());
    assert_eq!(asked.passkey.unwrap().owner, world.alice.id);
}

// spec: LC-5
#[test]
fn a_roster_that_is_older_than_one_that_was_seen_is_not_believed() {
    let world = world();
    let at = |version: u64, page: bool| {
        let mut roster = world.roster.roster().clone();
        roster.version = version;
        if page {
            roster.page_kinds = vec![lucia_proto::orders::OrderKind::Admit].into();
        }
        let signed = SignedRoster::sign(&roster, &world.ca.worker_key).unwrap();
        let view = RosterView { roster: Some(signed), bundle: Some(world.bundle.signed().clone()) };
        get("GET /api/host/roster", &view)
    };
    let script = vec![
        at(5, false),
        at(7, false),
        at(7, false),
        at(6, false),
        at(7, true),
        at(8, true),
        at(8, true),
        at(8, true),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    for want in
        [Ok("Roster 5"), Ok("Roster 7"), Ok("Roster 7"), Err("roster_older"), Err("roster_conflict"), Ok("Roster 8")]
    {
        site.owners(want);
    }
    let note = format!("owner.roster-{}", &world.fleet.to_string()[..16]);
    assert_eq!(site.mode(&note), 0o600);
    // A note of before there was one for each fleet counts as long as there is no other.
    let former = site.read(&note).replace(r#""version":8"#, r#""version":9"#);
    std::fs::remove_file(site.path(&note)).unwrap();
    site.write("owner.roster", &former, 0o600);
    site.owners(Err("roster_older"));
    site.write(&note, "{}", 0o600);
    ended(&site.run(&["owners"]), 1, &note);
    server.done();
}

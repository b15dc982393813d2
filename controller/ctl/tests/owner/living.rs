//! Waiting for one's turn, a node as it lives, sessions, and a fingerprint that is typed.

use expect_test::expect_file;
use lucia_people::owner_api::{DraftState, DraftsView, GoneNode};
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::{OrderCode, OrderKind};
use lucia_proto::test_support::OrderWorld;

use crate::orders::{drafts, node, nodes, onboarding, read, who};
use crate::server::{By, Server, Step, get, refusal, step};
use crate::site::{Site, ended, refusal_code, said, steady, world};

/// A call that comes too soon.
fn busy(line: &str) -> Step {
    step(line, By::Alice, |_, _| (429, refusal("too_many_requests")))
}

// spec: LC-40
#[test]
fn a_call_that_comes_too_soon_is_made_again_in_its_turn() {
    let world = world();
    let line = "GET /api/host/nodes";
    let server = Server::new(world.clone(), vec![busy(line), busy(line), nodes(&world)]);
    let output = Site::alice(&world, server.port).run(&["nodes"]);
    ended(&output, 0, world.node.hostname.as_str());
    // It is said once that somebody waits, however often the call is made.
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{}", said(&output));
    server.done();
}

fn sampled(world: &OrderWorld) -> Step {
    let sample = format!(
        r#""samples":[{{"at":"{}","loadAverage":0.5,"memoryTotalBytes":1000,"memoryAvailableBytes":250}}]"#,
        world.now
    );
    let (id, node) = (&world.node.node_id, &world.node);
    let text = format!(
        r#"{{"serverTime":"{}","node":{{"nodeId":"{id}","hostname":"{}","verificationCode":"{}","state":"Online"}},
        "fingerprint":"{}","taskId":"00000000-0000-4000-8000-000000000000",{sample}}}"#,
        world.now,
        node.hostname,
        node.fingerprint.verification_code(),
        node.fingerprint,
    );
    get(format!("GET /api/host/nodes/{id}"), &read::<lucia_people::host_api::NodeView>(&text))
}

// spec: CT-60
#[test]
fn a_node_is_shown_as_it_lives() {
    let world = world();
    let name = world.node.hostname.as_str();
    let over =
        step(format!("GET /api/host/nodes/{}", world.node.node_id), By::Alice, |_, _| (404, refusal("unknown_node")));
    // What is no terminal gets one look after the other, until there is none any more.
    let server = Server::new(world.clone(), vec![nodes(&world), sampled(&world), sampled(&world), over]);
    let output = Site::alice(&world, server.port).run(&["node", name, "--watch", "--every", "1"]);
    ended(&output, 1, "unknown_node");
    assert_eq!(said(&output).matches("▆  75.0 %, 75.0 to 75.0").count(), 2, "{}", said(&output));
    server.done();
    // Looked at once, the hour stands above its samples.
    let server = Server::new(world.clone(), vec![nodes(&world), sampled(&world)]);
    let output = Site::alice(&world, server.port).run(&["node", name]);
    ended(&output, 0, "█  0.5, 0.5 to 0.5");
    assert!(said(&output).contains("MEMORY FREE"), "{}", said(&output));
    server.done();
    ended(&Site::alice(&world, 1).run(&["node", name, "--every", "1"]), 64, "--watch");
}

// spec: LC-41
#[test]
fn sessions_are_listed_and_ended_after_a_yes() {
    let world = world();
    let (code, other) = ("1a2b-3c4d-5e6f", "aaaa-bbbb-cccc");
    let list = format!(
        r#"{{"serverTime":"{now}","sessions":[{{"code":"{code}","owner":"alice","role":"owner","passkey":"{other}",
        "address":"192.0.2.7","since":"{now}","usedAt":"{now}","expiresAt":"{}","current":false}}]}}"#,
        world.now.plus(std::time::Duration::from_secs(3600)),
        now = world.now,
    );
    let none = format!(r#"{{"serverTime":"{}","sessions":[]}}"#, world.now);
    let (one, all) = (none.clone(), none);
    let server = Server::new(
        world.clone(),
        vec![
            step("GET /api/host/sessions", By::Alice, move |_, _| (200, list.clone())),
            step(format!("DELETE /api/host/sessions/{code}"), By::Alice, move |_, _| (200, one.clone())),
            step("DELETE /api/host/sessions", By::Alice, move |_, _| (200, all.clone())),
        ],
    );
    let site = Site::alice(&world, server.port);
    let output = site.run(&["session", "list"]);
    ended(&output, 0, "192.0.2.7");
    assert!(said(&output).contains("1 h 0 min") && said(&output).contains(other), "{}", said(&output));
    ended(&site.run(&["session", "end", code]), 64, "--yes");
    let (done, text) = site.on_terminal(&["session", "end", code, "--json"], &["no"]);
    assert!(!done && text.contains(code) && refusal_code(&text) == "not_confirmed", "{text}");
    ended(&site.run(&["session", "end", code, "--yes"]), 0, "");
    ended(&site.run(&["session", "end", "--all", "--yes"]), 0, "");
    ended(&site.run(&["session", "end", "--yes"]), 64, "CODE");
    server.done();
}

// spec: LC-13
#[test]
fn a_passkey_is_confirmed_by_an_owner_key_after_a_yes() {
    let world = world();
    let code = "1a2b-3c4d-5e6f";
    let one = format!(r#"{{"code":"{code}","owner":"alice","label":"laptop","addedAt":"{}"}}"#, world.now);
    let (shown, list) = (one.clone(), format!(r#"{{"passkeys":[{one}]}}"#));
    let listed = list.clone();
    let script = vec![
        step(format!("POST /api/host/passkeys/{code}"), By::Alice, move |_, _| (200, shown.clone())),
        step("GET /api/host/passkeys", By::Alice, move |_, _| (200, listed.clone())),
        step(format!("DELETE /api/host/passkeys/{code}"), By::Alice, |_, _| (200, r#"{"passkeys":[]}"#.to_owned())),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["passkey", "approve", code, "--json"], &["no"]);
    assert!(!done && refusal_code(&text) == "not_confirmed", "{text}");
    ended(&site.run(&["passkey", "approve", code, "--yes"]), 0, "laptop");
    ended(&site.run(&["passkey", "list"]), 0, code);
    ended(&site.run(&["passkey", "remove", code]), 64, "--yes");
    ended(&site.run(&["passkey", "remove", code, "--yes"]), 0, "luciactl passkey approve CODE");
    server.done();
}

// spec: LC-7, LC-97
#[test]
fn a_fingerprint_that_was_not_given_is_typed() {
    let world = world();
    let (code, name) = (world.node.fingerprint.verification_code(), world.node.hostname.as_str());
    let seen = || get("GET /api/host/onboarding", &onboarding(&world, "AwaitingEnrollment", ""));
    let base = ["admit", code.as_str(), "--hostname", name];
    // With nobody to type it, and with --yes, it has to be given.
    for more in [&[][..], &["--yes"]] {
        let server = Server::new(world.clone(), vec![who(&world), seen()]);
        ended(&Site::alice(&world, server.port).run(&[&base[..], more].concat()), 64, "--fingerprint HEX");
        server.done();
    }
    let in_json = [&base[..], &["--json"]].concat();
    for (typed, code) in
        [(world.other.fingerprint.to_string(), "fingerprint_mismatch"), ("1a2b".to_owned(), "fingerprint_invalid")]
    {
        let server = Server::new(world.clone(), vec![who(&world), seen()]);
        let (done, text) = Site::alice(&world, server.port).on_terminal(&in_json, &[&typed]);
        assert!(!done && refusal_code(&text) == code, "{text}");
        // Before it was typed there is nothing to copy.
        let before = text.split(&typed).next().unwrap();
        let [first, second] = world.node.fingerprint.rows();
        for own in [&world.node.fingerprint.to_string(), &first, &second] {
            assert!(!before.contains(own), "{text}");
        }
        server.done();
    }
    let server = Server::new(world.clone(), vec![who(&world), seen(), crate::orders::add(), crate::orders::signed()]);
    let typed = world.node.fingerprint.to_string().to_uppercase();
    let answers = [typed.as_str(), "yes"];
    let (done, text) = Site::alice(&world, server.port).on_terminal(&base, &answers);
    assert!(done && text.contains("(admit)"), "{text}");
    server.done();
    // In the two rows that the screen shows, one after the other.
    let script = vec![who(&world), seen(), crate::orders::add(), crate::orders::signed()];
    let server = Server::new(world.clone(), script);
    let [first, second] = world.node.fingerprint.rows();
    let answers = [first.as_str(), &second, "yes"];
    let (done, text) = Site::alice(&world, server.port).on_terminal(&base, &answers);
    assert!(done && text.contains("(admit)"), "{text}");
    server.done();
}

// spec: LC-42
#[test]
fn why_says_whether_a_node_takes_orders_now() {
    let world = world();
    let drafts = DraftsView { server_time: world.now, drafts: Vec::new() };
    let orders = r#","orders":{"bundleVersion":1,"rosterVersion":5,"rosterNewest":5,"asks":true}"#;
    let server =
        Server::new(world.clone(), vec![nodes(&world), node(&world, "", orders), get("GET /api/host/orders", &drafts)]);
    let output = Site::alice(&world, server.port).run(&["why", world.node.hostname.as_str()]);
    ended(&output, 0, "");
    expect_file!["snapshots/why.txt"].assert_eq(&said(&output));
    server.done();
}

/// An answer with events, to a question that the controller takes: it takes no number that JSON does not keep.
fn events(after: u64, events: &str, last: u64) -> Step {
    assert!(after <= 1 << 53);
    let line = format!("GET /api/host/events?after={after}&limit=500&wait=0");
    let answer = format!(r#"{{"events":[{events}],"lastSequence":{last}}}"#);
    step(line, By::Alice, move |_, _| (200, answer))
}

// spec: PG-91, LC-100
#[test]
fn why_and_node_of_a_removed_node_say_what_the_controller_says_of_it() {
    let world = world();
    let id = format!("1a2b3c4d5e6f{}", "f".repeat(20));
    let event = |sequence: u64, kind: &str, id: &str, name: &str| {
        format!(
            r#"{{"sequence":{sequence},"at":"{}","kind":"{kind}","actor":"owner:alice","deviceId":"{id}"{name}}}"#,
            world.now
        )
    };
    let named = r#","hostname":"old-1""#;
    let first = event(600, "DeviceRemoved", &"e".repeat(32), named);
    let second = [event(699, "DeviceRemoved", &id, named), event(700, "DeviceRejected", &"d".repeat(32), "")].join(",");
    let said = r#"{"error":{"code":"unknown_node","message":"SAID-OF-IT","type":"invalid_request_error"}}"#;
    for verb in ["why", "node"] {
        for text in ["old-1", id.as_str(), "1a2b-3c4d-5e6f"] {
            let server = Server::new(
                world.clone(),
                vec![
                    nodes(&world),
                    get("GET /api/host/onboarding", &onboarding(&world, "Discovered", "")),
                    events(0, &first, 700),
                    events(600, &second, 700),
                    step(format!("GET /api/host/nodes/{id}"), By::Alice, move |_, _| (404, said.to_owned())),
                ],
            );
            let output = Site::alice(&world, server.port).run(&[verb, text]);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && told.contains("SAID-OF-IT"), "{verb} {text}: {told}");
            server.done();
        }
    }
}

// spec: LC-100
#[test]
fn events_that_cannot_be_had_are_no_unknown_node() {
    let world = world();
    let server = Server::new(
        world.clone(),
        vec![
            nodes(&world),
            get("GET /api/host/onboarding", &onboarding(&world, "Discovered", "")),
            step("GET /api/host/events?after=0&limit=500&wait=0", By::Alice, |_, _| {
                (400, refusal("invalid_onboarding_request"))
            }),
        ],
    );
    Site::alice(&world, server.port).refused(&["why", "old-1"], 1, "invalid_onboarding_request");
    server.done();
}

// spec: LC-100
#[test]
fn why_and_node_of_a_machine_that_is_no_node_yet_say_what_comes_next() {
    let world = world();
    let code = world.node.fingerprint.verification_code();
    for verb in ["why", "node"] {
        for text in [code.as_str(), world.node.node_id.as_str(), "demo-2"] {
            let no_nodes = format!(r#"{{"serverTime":"{}","nodes":[]}}"#, world.now);
            let view: lucia_people::host_api::NodesView = read(&no_nodes);
            let task = format!(
                r#","task":{{"taskId":"00000000-0000-4000-8000-000000000000","phase":"Approved","hostname":"demo-2",
                "diskId":"wwn-0x5","authorityExpiresAt":"{0}","progressExpiresAt":"{0}"}}"#,
                world.now.plus(std::time::Duration::from_secs(600))
            );
            let machine = onboarding(&world, "Approved", &task);
            let server = Server::new(
                world.clone(),
                vec![get("GET /api/host/nodes", &view), get("GET /api/host/onboarding", &machine)],
            );
            let output = Site::alice(&world, server.port).run(&[verb, text]);
            ended(&output, 0, "10 min");
            expect_file!["snapshots/machine.txt"].assert_eq(&steady(&world, &said(&output), &[]));
            server.done();
        }
    }
}

// spec: PG-90, PG-98
#[test]
fn an_order_nobody_is_left_for_or_that_was_replaced_is_told_so_in_the_list() {
    let world = world();
    let [first, second] = [OrderKind::SshKey, OrderKind::CloneDecision].map(|kind| world.draft(kind, |_| ()));
    let later = Some(OrderCode::OlderRevision);
    let replaced = Outcome { node_id: world.node.node_id.clone(), at: world.now, refused: later };
    let states = [(&first, DraftState::NobodyLeft, vec![]), (&second, DraftState::Replaced, vec![replaced])];
    let mut list = drafts(&world, &states);
    let hostname = Some("web-1".parse().unwrap());
    list.drafts[0].gone = vec![GoneNode { node_id: world.node.node_id.clone(), hostname, removed_at: Some(world.now) }];
    let server = Server::new(world.clone(), vec![get("GET /api/host/orders", &list), who(&world), nodes(&world)]);
    let output = Site::alice(&world, server.port).run(&["drafts"]);
    ended(&output, 0, &world.now.to_string());
    let told = said(&output);
    assert!(told.contains("nobody left") && told.contains("web-1") && told.contains("replaced"), "{told}");
    // Nobody has anything to cure.
    assert!(!told.contains("refused") && !told.contains(OrderCode::OlderRevision.as_str()), "{told}");
    server.done();
}

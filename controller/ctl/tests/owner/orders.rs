//! What an owner signs: exactly what was shown, in a form that who carries it out takes.

use std::sync::{Arc, Mutex};

use lucia_people::agents::{AgentKind, AgentLine, AgentsView};
use lucia_people::host_api::{ApproveForm, NodeView, NodesView, OnboardingView};
use lucia_people::owner_api::{DraftLine, DraftState, DraftView, DraftsView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{ANSWER_MAX, HOST_BODY_MAX};
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::owner::{KeyUse, OwnerKey};
use lucia_proto::orders::{Body, Decision, Draft, OrderKind, OrderSignature, Rule, SignedOrder, Terms};
use lucia_proto::test_support::{OrderWorld, TestNode, key};
use serde::de::DeserializeOwned;

use crate::server::{AGENTS, Asked, By, Server, Step, get, refusal, stale, step};
use crate::site::{Site, ended, refusal_code, roster, said, world};

const SIGN: &str = "POST /api/host/orders/*/signatures";
const ADD: &str = "POST /api/host/orders";

pub(crate) fn read<T: DeserializeOwned>(text: &str) -> T {
    json::from_str(text, ANSWER_MAX, 24).unwrap()
}

pub(crate) fn written<T: serde::Serialize>(value: &T) -> String {
    json::to_string(value).unwrap()
}

/// The answer with one draft.
pub(crate) fn view(draft: Draft) -> DraftView {
    DraftView { draft, signatures: Vec::new() }
}

/// The roster of the world, which is asked for before anything is signed.
pub(crate) fn who(world: &OrderWorld) -> Step {
    get("GET /api/host/roster", &roster(world))
}

/// Takes a draft as it is.
pub(crate) fn add() -> Step {
    step(ADD, By::Alice, |_, asked| (200, written(&view(read(&asked.body)))))
}

/// Takes a signature.
pub(crate) fn signed() -> Step {
    step(SIGN, By::Alice, |_, _| (200, "{}".to_owned()))
}

/// The nodes of the world, a line each.
pub(crate) fn nodes(world: &OrderWorld) -> Step {
    get("GET /api/host/nodes", &lines(world))
}

fn lines(world: &OrderWorld) -> NodesView {
    let line = |node: &TestNode| {
        format!(
            r#"{{"nodeId":"{}","hostname":"{}","verificationCode":"{}","state":"Online"}}"#,
            node.node_id,
            node.hostname,
            node.fingerprint.verification_code()
        )
    };
    read(&format!(r#"{{"serverTime":"{}","nodes":[{},{}]}}"#, world.now, line(&world.node), line(&world.other)))
}

/// A node, with more of its view.
pub(crate) fn node(world: &OrderWorld, more_of_line: &str, more: &str) -> Step {
    let node = &world.node;
    let text = format!(
        r#"{{"serverTime":"{}","node":{{"nodeId":"{id}","hostname":"{}","verificationCode":"{}","state":"Online"{more_of_line}}},
        "fingerprint":"{}","taskId":"00000000-0000-4000-8000-000000000000","samples":[]{more}}}"#,
        world.now,
        node.hostname,
        node.fingerprint.verification_code(),
        node.fingerprint,
        id = node.node_id,
    );
    get(format!("GET /api/host/nodes/{}", node.node_id), &read::<NodeView>(&text))
}

pub(crate) fn onboarding(world: &OrderWorld, phase: &str, more: &str) -> OnboardingView {
    let node = &world.node;
    read(&format!(
        r#"{{"serverTime":"{now}","worker":{{"ready":true}},"devices":[{{"deviceId":"{id}","fingerprint":"{}",
        "verificationCode":"{}","phase":"{phase}","discoveredAt":"{now}","expiresAt":"{later}","inventoryRevision":1,
        "inventory":{{"architecture":"x86_64","bootMode":"Uefi","logicalCpuCount":4,"memoryBytes":8589934592,
        "interfaces":[{{"name":"eth0","macAddress":"52:54:00:12:34:56","addresses":[]}}],
        "disks":[{{"id":"wwn-0x5","path":"/dev/vda","sizeBytes":1099511627776,"isRemovable":false,"isReadOnly":false}}]}}{more}}}]}}"#,
        node.fingerprint,
        node.fingerprint.verification_code(),
        id = node.node_id,
        now = world.now,
        later = world.now.plus(std::time::Duration::from_secs(1800)),
    ))
}

/// The order that was handed in and signed in these calls.
pub(crate) fn order(asked: &[Asked]) -> SignedOrder {
    let draft: Draft = asked.iter().find(|asked| asked.line == ADD).map(|asked| read(&asked.body)).unwrap();
    let signature = asked.iter().find(|asked| asked.line.ends_with("/signatures")).unwrap();
    let code = draft.read().unwrap().code();
    assert_eq!(signature.line, format!("POST /api/host/orders/{code}/signatures"));
    let signature: OrderSignature = json::from_str(&signature.body, HOST_BODY_MAX, 8).unwrap();
    SignedOrder { intent_json: draft.intent_json, body: draft.body, signatures: vec![signature] }
}

/// Who carries it out takes it.
pub(crate) fn taken(world: &OrderWorld, order: &SignedOrder, kind: OrderKind) -> (Body, Vec<NodeId>, Terms) {
    let refused = order.check(&world.checker(kind)).err();
    assert!(refused.is_none(), "{kind:?}: {refused:?}");
    let draft = Draft { intent_json: order.intent_json.clone(), body: order.body.clone() };
    let read = draft.read().unwrap();
    (read.body().clone(), read.intent().nodes.clone(), read.intent().terms.clone())
}

pub(crate) fn drafts(world: &OrderWorld, of: &[(&Draft, DraftState, Vec<Outcome>)]) -> DraftsView {
    let line = |(draft, state, outcomes): &(&Draft, DraftState, Vec<Outcome>)| {
        let read = draft.read().unwrap();
        DraftLine {
            code: read.code(),
            intent: lucia_proto::orders::OrderId::of(&draft.intent_json),
            kind: read.intent().kind,
            about: read.body().about(None),
            owner: read.intent().owner.clone(),
            signers: vec![world.bob.id.clone()],
            state: *state,
            handed_out: *state == DraftState::Signed,
            at: world.now,
            drafted_by: "owner:alice".parse().unwrap(),
            outcomes: outcomes.clone(),
            gone: Vec::new(),
        }
    };
    DraftsView { server_time: world.now, drafts: of.iter().map(line).collect() }
}

// spec: LC-6
#[test]
fn what_is_signed_is_what_was_shown() {
    let world = world();
    // What somebody else drafted of an admission is signed by who typed the fingerprint alone: see `typed.rs`.
    for kind in OrderKind::ALL.iter().filter(|kind| **kind != OrderKind::Admit) {
        let draft = world.draft(*kind, |_| ());
        let code = draft.read().unwrap().code();
        let look = || get(format!("GET /api/host/orders/{code}"), &view(draft.clone()));
        let kept: Arc<Mutex<Option<OrderSignature>>> = Arc::default();
        let keep = Arc::clone(&kept);
        let sign = step(format!("POST /api/host/orders/{code}/signatures"), By::Alice, move |_, asked| {
            *keep.lock().unwrap() = Some(json::from_str(&asked.body, HOST_BODY_MAX, 8).unwrap());
            (200, "{}".to_owned())
        });
        let server = Server::new(world.clone(), vec![who(&world), look(), sign]);
        let site = Site::alice(&world, server.port);
        let output = site.run(&["sign", &code.to_string().to_uppercase(), "--yes"]);
        ended(&output, 0, kind.as_str());
        for line in draft.read().unwrap().words() {
            assert!(said(&output).contains(&line), "{line:?} in {}", said(&output));
        }
        server.done();
        let signature = kept.lock().unwrap().take().unwrap();
        taken(&world, &world.signed(&draft, vec![signature]), *kind);

        // Nobody to ask: everything is shown, nothing is signed.
        let server = Server::new(world.clone(), vec![who(&world), look()]);
        let output = Site::alice(&world, server.port).run(&["sign", code.as_str()]);
        ended(&output, 64, "--yes");
        for line in draft.read().unwrap().words() {
            assert!(said(&output).contains(&line), "{line:?} in {}", said(&output));
        }
        server.done();
    }
}

// spec: LC-6
#[test]
fn a_person_is_asked_and_only_yes_is_a_yes() {
    let world = world();
    let draft = world.draft(OrderKind::RemoveIdentity, |_| ());
    let code = draft.read().unwrap().code();
    let look = || get(format!("GET /api/host/orders/{code}"), &view(draft.clone()));
    for (answer, signs) in [("yes", true), ("y", false), ("YES", false), ("", false), ("yes please", false)] {
        let script = if signs { vec![who(&world), look(), signed()] } else { vec![who(&world), look()] };
        let server = Server::new(world.clone(), script);
        let site = Site::alice(&world, server.port);
        let (done, text) = site.on_terminal(&["sign", code.as_str(), "--json"], &[answer]);
        assert_eq!(done, signs, "{answer}: {text}");
        assert!(signs || refusal_code(&text) == "not_confirmed", "{answer}: {text}");
        server.done();
    }
}

// spec: LC-6
#[test]
fn a_second_owner_signs_and_nobody_twice() {
    let world = world();
    let draft = world.draft(OrderKind::RemoveIdentity, |intent| intent.owner = world.bob.id.clone());
    let code = draft.read().unwrap().code();
    let with = |signature| DraftView { draft: draft.clone(), signatures: vec![signature] };
    let line = format!("GET /api/host/orders/{code}");
    let bob = {
        let read = draft.read().unwrap();
        read.sign(world.bob.id.clone(), &world.bob.key)
    };
    let server = Server::new(world.clone(), vec![who(&world), get(line.clone(), &with(bob)), signed()]);
    ended(&Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]), 0, world.bob.name);
    server.done();
    let server = Server::new(world.clone(), vec![who(&world), get(line, &with(world.alice.sign(&draft)))]);
    Site::alice(&world, server.port).refused(&["sign", code.as_str(), "--yes"], 1, "already_signed");
    server.done();
}

/// Somebody with two machines: the key of the second one was given to the same person.
// spec: LC-50
#[test]
fn a_further_key_signs_as_its_owner_once_it_was_seen_whose_it_is() {
    let mut world = Arc::into_inner(world()).unwrap();
    let further = key(77);
    let public_key_pem = further.public().to_pem();
    world.change_roster(|roster| {
        roster.owners[0].keys.push(OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem, credential_id: None });
    });
    let world = Arc::new(world);
    let draft = world.draft(OrderKind::RemoveIdentity, |_| ());
    let code = draft.read().unwrap().code();
    let line = format!("GET /api/host/orders/{code}");
    let server = Server::new(
        world.clone(),
        vec![
            get("GET /api/host/roster", &roster(&world)),
            get(line.clone(), &view(draft.clone())),
            signed(),
            who(&world),
            get(line, &DraftView { draft: draft.clone(), signatures: vec![world.alice.sign(&draft)] }),
        ],
    );
    let site = Site::alice(&world, server.port);
    site.write("owner.key", &further.to_pem().unwrap(), 0o600);
    // As `login` leaves it.
    site.write("owner.id", "asked", 0o600);
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, "");
    assert_eq!((site.read("owner.id"), site.mode("owner.id")), (world.alice.id.to_string(), 0o600));
    site.refused(&["sign", code.as_str(), "--yes"], 1, "already_signed");
    let signature: OrderSignature = read(&server.done()[2].body);
    assert_eq!((&signature.owner, signature.key), (&world.alice.id, further.public().fingerprint()));
    let order = SignedOrder { intent_json: draft.intent_json.clone(), body: draft.body, signatures: Vec::new() };
    order.check_signature(&signature, OrderKind::RemoveIdentity, &world.roster).unwrap();
}

// spec: LC-7
#[test]
fn an_approval_brings_the_order_that_admits_the_machine() {
    let world = world();
    let (code, key) = (world.node.fingerprint.verification_code(), world.node.fingerprint.to_string());
    let hostname = world.node.hostname.to_string();
    let seen = || get("GET /api/host/onboarding", &onboarding(&world, "Discovered", ""));
    let done = written(&onboarding(&world, "Approved", ""));
    let approve =
        step(format!("POST /api/host/devices/{}/approve-install", world.node.node_id), By::Alice, move |_, _| {
            (200, done)
        });
    let server = Server::new(world.clone(), vec![who(&world), seen(), nodes(&world), approve, add(), signed()]);
    let base = ["approve", code.as_str(), "--fingerprint", &key, "--hostname", &hostname, "--disk", "wwn-0x5"];
    let output = Site::alice(&world, server.port).run(&[&base[..], &["--erase", "ERASE"]].concat());
    ended(&output, 0, "(admit)");
    let [first, second] = world.node.fingerprint.rows();
    assert!(said(&output).contains(&format!("  {first}\n  {second}\n")), "{}", said(&output));
    let asked = server.done();
    let form: ApproveForm = read(&asked[3].body);
    assert_eq!(form.hostname, world.node.hostname);
    let given = order(&asked);
    let (body, named, _) = taken(&world, &given, OrderKind::Admit);
    let draft = Draft { intent_json: given.intent_json, body: given.body };
    for words in draft.read().unwrap().words() {
        assert!(said(&output).contains(&words), "{words}: {}", said(&output));
    }
    // And who gave it is called by the name in the roster.
    assert!(said(&output).contains(world.alice.name), "{}", said(&output));
    let Body::Admit(admit) = body else { panic!("{body:?}") };
    assert_eq!((admit.fingerprint, admit.hostname, admit.replaces), (world.node.fingerprint, form.hostname, None));
    assert_eq!(named, std::slice::from_ref(&world.node.node_id));

    // Another fingerprint, or nobody who says yes: nothing is approved and nothing ordered.
    let server = Server::new(world.clone(), vec![who(&world), seen()]);
    let other = world.other.fingerprint.to_string();
    let args =
        ["approve", code.as_str(), "--fingerprint", &other, "--hostname", &hostname, "--disk", "wwn-0x5", "--yes"];
    Site::alice(&world, server.port).refused(&args, 1, "fingerprint_mismatch");
    server.done();
    let server = Server::new(world.clone(), vec![who(&world), seen(), nodes(&world)]);
    ended(&Site::alice(&world, server.port).run(&base), 64, "--yes");
    server.done();

    // An approval that was refused orders nothing.
    let line = format!("POST /api/host/devices/{}/approve-install", world.node.node_id);
    let refuse = step(line, By::Alice, |_, _| (409, crate::server::refusal("hostname_in_use")));
    let server = Server::new(world.clone(), vec![who(&world), seen(), nodes(&world), refuse]);
    ended(&Site::alice(&world, server.port).run(&[&base[..], &["--yes"]].concat()), 1, "hostname_in_use");
    server.done();
}

// spec: LC-340
#[test]
fn what_the_controller_would_refuse_is_said_before_an_order_is_shown() {
    let world = world();
    let (code, key) = (world.node.fingerprint.verification_code(), world.node.fingerprint.to_string());
    let (free, taken) = (world.node.hostname.to_string(), world.other.hostname.to_string());
    let seen = |phase: &str| get("GET /api/host/onboarding", &onboarding(&world, phase, ""));
    for (phase, hostname, disk, asks) in [
        ("Discovered", &taken, "wwn-0x5", true),
        ("Discovered", &free, "wwn-0x9", false),
        ("Approved", &free, "wwn-0x5", false),
    ] {
        let mut script = vec![who(&world), seen(phase)];
        script.extend(asks.then(|| nodes(&world)));
        let server = Server::new(world.clone(), script);
        let args = ["approve", code.as_str(), "--fingerprint", &key, "--hostname", hostname, "--disk", disk, "--yes"];
        let text = Site::alice(&world, server.port).refused(&args, 1, "not_approved");
        assert_eq!(text.lines().count(), 1, "{text}");
        server.done();
    }
}

// spec: LC-7
#[test]
fn admit_signs_no_name_and_no_replacement_that_nobody_read_or_typed() {
    let world = world();
    let (code, key) = (world.node.fingerprint.verification_code(), world.node.fingerprint.to_string());
    let task = |replaces: &str| {
        format!(
            r#","task":{{"taskId":"00000000-0000-4000-8000-000000000000","phase":"AwaitingEnrollment","hostname":"{}",
            "diskId":"wwn-0x5","authorityExpiresAt":"{}"{replaces}}}"#,
            world.node.hostname, world.now
        )
    };
    let replaces = task(&format!(r#","replaces":"{}""#, world.other.node_id));
    let task = task("");
    let seen = |more: &str| get("GET /api/host/onboarding", &onboarding(&world, "AwaitingEnrollment", more));
    let base = ["admit", code.as_str(), "--fingerprint", &key];
    let (name, other) = (world.node.hostname.as_str(), world.other.node_id.as_str());
    for (more, args, script, replaced) in [
        (&task, &["--hostname", name][..], vec![], None),
        (&replaces, &["--hostname", name, "--replaces", other], vec![nodes(&world), nodes(&world)], Some(other)),
    ] {
        let script = [who(&world), seen(more)].into_iter().chain(script).chain([add(), signed()]).collect();
        let server = Server::new(world.clone(), script);
        ended(&Site::alice(&world, server.port).run(&[&base[..], args, &["--yes"]].concat()), 0, "(admit)");
        let (body, _, _) = taken(&world, &order(&server.done()), OrderKind::Admit);
        let Body::Admit(admit) = body else { panic!("{body:?}") };
        assert_eq!(admit.hostname, world.node.hostname);
        assert_eq!(admit.replaces.as_ref().map(NodeId::as_str), replaced);
    }
    // Where somebody reads it, the approved name is enough.
    let server = Server::new(world.clone(), vec![who(&world), seen(&task), add(), signed()]);
    let (done, text) = Site::alice(&world, server.port).on_terminal(&base, &["yes"]);
    assert!(done && text.contains(name), "{text}");
    server.done();

    for (more, args, code, says) in [
        ("", &["--yes"][..], 1, "--hostname NAME"),
        (&task, &["--yes"], 1, &format!("--hostname {name}")),
        (&task, &["--yes", "--hostname", "elsewhere"], 1, "elsewhere"),
        (&replaces, &["--yes", "--hostname", name], 1, &format!("--replaces {other}")),
        (&replaces, &[], 1, &format!("--replaces {other}")),
        (&task, &[], 64, "--yes"),
    ] {
        let server = Server::new(world.clone(), vec![who(&world), seen(more)]);
        ended(&Site::alice(&world, server.port).run(&[&base[..], args].concat()), code, says);
        server.done();
    }
}

// spec: LC-9
#[test]
fn what_is_decided_about_a_node_is_an_order() {
    let world = world();
    let start = "09".repeat(16);
    let holder =
        |start: &str| format!(r#"{{"startId":"{start}","address":"192.0.2.1","firstSeenAt":"{}"}}"#, world.now);
    let frozen =
        format!(r#","frozen":{{"at":"{}","holders":[{},{}]}}"#, world.now, holder(&start), holder(&"0b".repeat(16)));
    let ended_at = world.now.minus(std::time::Duration::from_secs(40 * 24 * 3600));
    let lapsed = format!(r#","certificateExpiresAt":"{ended_at}","address":"192.0.2.7""#);
    let name = world.node.hostname.to_string();
    let keep = ["clone", "keep", &name, "--start", &start, "--yes"];
    let split = ["clone", "split", &name, "--yes"];
    let remove = ["remove", &name, "--yes"];
    let release = ["release-lapse", &name, "--yes"];
    let rename = ["rename", &name, "web-2", "--yes"];
    let kinds = vec![AgentKind { kind: "rename".parse().unwrap(), carried: true, rule: Some(Rule::Allow) }];
    let (node_id, hostname) = (world.node.node_id.clone(), world.node.hostname.clone());
    let line = AgentLine { node_id, hostname, version: None, kinds };
    let agents = AgentsView { server_time: world.now, agents: vec![line], next: None };
    let cases: [(&[&str], Vec<Step>, OrderKind); 5] = [
        (&rename, vec![nodes(&world), get(AGENTS, &agents)], OrderKind::Rename),
        (&keep, vec![nodes(&world), node(&world, "", &frozen)], OrderKind::CloneDecision),
        (&split, vec![nodes(&world), node(&world, "", &frozen)], OrderKind::CloneDecision),
        (&remove, vec![nodes(&world)], OrderKind::RemoveIdentity),
        (&release, vec![nodes(&world), node(&world, &lapsed, "")], OrderKind::ReleaseLapse),
    ];
    for (args, mut script, kind) in cases {
        script.insert(0, who(&world));
        script.extend([add(), signed()]);
        let server = Server::new(world.clone(), script);
        let output = Site::alice(&world, server.port).run(args);
        ended(&output, 0, kind.as_str());
        let given = order(&server.done());
        let (body, named, _) = taken(&world, &given, kind);
        let draft = Draft { intent_json: given.intent_json, body: given.body };
        for words in draft.read().unwrap().words() {
            assert!(said(&output).contains(&words), "{words}: {}", said(&output));
        }
        assert_eq!(named, std::slice::from_ref(&world.node.node_id), "{args:?}");
        match body {
            Body::CloneDecision(body) => {
                let keeps = body.decision == Decision::Keep;
                assert_eq!(body.start_id.map(|id| id.to_string()), keeps.then(|| start.clone()), "{args:?}");
                assert_eq!(keeps, args.contains(&"keep"));
            }
            Body::ReleaseLapse(body) => {
                assert_eq!((body.fingerprint, body.ended_at), (world.node.fingerprint, ended_at));
            }
            Body::Rename(body) => {
                assert_eq!((body.hostname, body.new_hostname.as_str()), (world.node.hostname.clone(), "web-2"))
            }
            Body::RemoveIdentity(body) => assert_eq!(body.hostname, world.node.hostname),
            other => panic!("{args:?}: {other:?}"),
        }
    }
    let server = Server::new(world.clone(), vec![who(&world), nodes(&world), node(&world, "", "")]);
    Site::alice(&world, server.port).refused(&release, 1, "no_certificate");
    server.done();
    let server = Server::new(world.clone(), vec![who(&world), nodes(&world), node(&world, "", "")]);
    Site::alice(&world, server.port).refused(&split, 1, "not_frozen");
    server.done();
}

// spec: VE-406
#[test]
fn where_the_agent_or_the_controller_is_of_the_version_before_a_rename_is_the_call_of_before() {
    let world = world();
    let name = world.node.hostname.to_string();
    let line = format!("POST /api/host/nodes/{}/rename", world.node.node_id);
    let refused = refusal("invalid_onboarding_request");
    let renamed = step(line, By::Alice, move |_, asked| {
        assert_eq!(asked.body, r#"{"hostname":"web-2"}"#);
        (400, refused)
    });
    // The controller has no call that tells of agents, so no order is drafted; it was asked, and said no.
    let server = Server::new(world.clone(), vec![who(&world), nodes(&world), nodes(&world), renamed]);
    Site::alice(&world, server.port).refused(&["rename", &name, "web-2", "--yes"], 1, "invalid_onboarding_request");
    server.done();
}

// spec: LC-10
#[test]
fn every_request_is_signed_once_and_once_more_where_its_challenge_is_refused() {
    let world = world();
    let line = "GET /api/host/nodes";
    let server = Server::new(world.clone(), vec![stale(line), get(line, &lines(&world))]);
    ended(&Site::alice(&world, server.port).run(&["nodes"]), 0, world.node.hostname.as_str());
    server.done();
    let server = Server::new(world.clone(), vec![stale(line), stale(line)]);
    ended(&Site::alice(&world, server.port).run(&["nodes"]), 1, "challenge_refused");
    server.done();
}

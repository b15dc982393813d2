//! SSH keys: what an owner orders about an account, and on what that is built.

use lucia_people::agents::{AgentKind, AgentLine, AgentsView};
use lucia_people::owner_api::{DraftState, DraftView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::orders::{Body, Draft, OrderKind, OrderSignature, Rule, Terms};
use lucia_proto::test_support::OrderWorld;

use crate::orders::{add, drafts, nodes, order, signed, taken};
use crate::server::{AGENTS, Server, Step, get};
use crate::site::{Site, arg, ended, roster, said, world};

const NEW_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA";

/// The roster of the world.
fn roster_step(world: &OrderWorld) -> Step {
    get("GET /api/host/roster", &roster(world))
}

// spec: VE-406
#[test]
fn what_a_node_will_refuse_is_said_before_the_signature_with_the_line_that_changes_it() {
    let world = world();
    let line = |id: &NodeId, name: &Hostname, carried: bool| AgentLine {
        node_id: id.clone(),
        hostname: name.clone(),
        version: None,
        kinds: vec![AgentKind { kind: "ssh-key".parse().unwrap(), carried, rule: Some(Rule::Forbid) }],
    };
    // The order is not for the second.
    let (node, other) = (&world.node, &world.other);
    let lines = vec![line(&node.node_id, &node.hostname, true), line(&other.node_id, &other.hostname, false)];
    let agents = AgentsView { server_time: world.now, agents: lines, next: None };
    let last = world.draft(OrderKind::SshKey, |_| ());
    let view = DraftView { draft: last.clone(), signatures: vec![world.alice.sign(&last)] };
    let script = vec![
        roster_step(&world),
        get("GET /api/host/orders", &drafts(&world, &[(&last, DraftState::Done, vec![])])),
        get(format!("GET /api/host/orders/{}", last.read().unwrap().code()), &view),
        nodes(&world),
        get(AGENTS, &agents),
        add(),
        signed(),
    ];
    let Body::SshKey(held) = last.read().unwrap().body().clone() else { unreachable!() };
    let server = Server::new(world.clone(), script);
    let output = Site::alice(&world, server.port).run(&[
        "keys",
        "remove",
        "alice",
        &held.keys[0].key.key().fingerprint(),
        "--yes",
    ]);
    ended(&output, 0, "(ssh-key)");
    server.done();
    let said = said(&output);
    assert!(said.contains("lucia-node-agent policy allow ssh-key"), "{said}");
    assert!(!said.contains("update lucia-node-agent"), "{said}");
}

// spec: LC-8
#[test]
fn keys_are_ordered_account_by_account_with_a_rising_revision() {
    let world = world();
    let at = |revision: u64| {
        world.draft(OrderKind::SshKey, |intent| {
            intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
        })
    };
    // The newest is nobody's, so neither its number nor its keys count; the next was signed and not given yet.
    let (unsigned, open, last) = (at(9), at(6), world.draft(OrderKind::SshKey, |_| ()));
    let list = drafts(
        &world,
        &[
            (&unsigned, DraftState::Done, vec![]),
            (&open, DraftState::Drafted, vec![]),
            (&last, DraftState::Done, vec![]),
        ],
    );
    let past = |draft: &Draft, signatures: Vec<OrderSignature>| {
        let code = draft.read().unwrap().code();
        get(format!("GET /api/host/orders/{code}"), &DraftView { draft: draft.clone(), signatures })
    };
    // A viewer's signature, a stranger's, and one under another order are none.
    let none = vec![world.victor.sign(&unsigned), world.mallory.sign(&unsigned), world.alice.sign(&last)];
    let before = || {
        vec![
            roster_step(&world),
            get("GET /api/host/orders", &list),
            past(&unsigned, none.clone()),
            past(&open, vec![world.bob.sign(&open)]),
            past(&last, vec![world.alice.sign(&last)]),
        ]
    };
    let script = |more: Vec<Step>| before().into_iter().chain([nodes(&world)]).chain(more).collect::<Vec<_>>();

    let server = Server::new(world.clone(), script(vec![add(), signed()]));
    let site = Site::alice(&world, server.port);
    site.write("new.pub", &format!("{NEW_KEY} alice@desk\n"), 0o644);
    let file = site.path("new.pub");
    let args = ["keys", "add", "alice", arg(&file), "--label", "desk", "--all", "--yes"];
    let output = site.run(&args);
    ended(&output, 0, "(ssh-key)");
    for node in [&world.node, &world.other] {
        assert!(said(&output).contains(&format!("{}  {}", node.node_id, node.hostname)), "{}", said(&output));
    }
    let (body, named, terms) = taken(&world, &order(&server.done()), OrderKind::SshKey);
    let Body::SshKey(keys) = body else { panic!("{body:?}") };
    let labels: Vec<_> = keys.keys.iter().map(|key| key.label.to_string()).collect();
    assert_eq!(labels, ["laptop", "desk"]);
    assert_eq!(terms, Terms::State { subject: "alice".parse().unwrap(), revision: 7 });
    let mut all = vec![world.node.node_id.clone(), world.other.node_id.clone()];
    all.sort();
    assert_eq!(named, all);

    // A removal goes where the last order went.
    let fingerprint = keys.keys[0].key.key().fingerprint();
    let server = Server::new(world.clone(), script(vec![add(), signed()]));
    let remove = ["keys", "remove", "alice", &fingerprint, "--revision", "9", "--yes"];
    ended(&Site::alice(&world, server.port).run(&remove), 0, "Takes all SSH keys from account alice");
    let (_, named, terms) = taken(&world, &order(&server.done()), OrderKind::SshKey);
    assert_eq!(named, std::slice::from_ref(&world.node.node_id));
    assert_eq!(terms, Terms::State { subject: "alice".parse().unwrap(), revision: 9 });

    // Of an account that was never ordered about nothing is known: not whom it is for.
    let server = Server::new(world.clone(), script(vec![]));
    let site = Site::alice(&world, server.port);
    site.write("new.pub", NEW_KEY, 0o644);
    let file = site.path("new.pub");
    ended(&site.run(&["keys", "add", "bob", arg(&file), "--label", "desk", "--yes"]), 1, "--nodes NODE,...");
    server.done();
}

// spec: CL-400
#[test]
fn without_an_owner_s_context_keys_names_the_command_that_makes_one() {
    let world = world();
    let site = Site::alice(&world, 1);
    site.write("new.pub", NEW_KEY, 0o644);
    let file = site.path("new.pub");
    let verbs: [&[&str]; 4] = [
        &["list"],
        &["add", "alice", arg(&file), "--label", "desk"],
        &["add", "alice", arg(&file), "--label", "desk", "--all", "--yes"],
        &["remove", "alice", "SHA256:x", "--yes"],
    ];
    for verb in verbs {
        ended(&site.run(&[&["--socket", "/nowhere/s", "keys"][..], verb].concat()), 64, "luciactl login");
    }
}

// spec: LC-8
#[test]
fn keys_are_listed_as_owners_ordered_them() {
    let world = world();
    let at = |revision: u64| {
        world.draft(OrderKind::SshKey, |intent| {
            intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
        })
    };
    let (waiting, forged, given, before) = (at(9), at(8), at(7), at(6));
    let list = drafts(
        &world,
        &[
            (&waiting, DraftState::Drafted, vec![]),
            (&forged, DraftState::Done, vec![]),
            (&given, DraftState::Signed, vec![]),
            (&before, DraftState::Done, vec![]),
        ],
    );
    let past = |draft: &Draft, signature: OrderSignature| {
        let code = draft.read().unwrap().code();
        get(format!("GET /api/host/orders/{code}"), &DraftView { draft: draft.clone(), signatures: vec![signature] })
    };
    let script = vec![
        roster_step(&world),
        get("GET /api/host/orders", &list),
        past(&waiting, world.bob.sign(&waiting)),
        past(&forged, world.mallory.sign(&forged)),
        past(&given, world.bob.sign(&given)),
        past(&before, world.bob.sign(&before)),
    ];
    let server = Server::new(world.clone(), script);
    let output = Site::alice(&world, server.port).run(&["keys", "list"]);
    ended(&output, 0, given.read().unwrap().code().as_str());
    assert_eq!(said(&output).lines().count(), 2, "{}", said(&output));
    server.done();
    let none = drafts(&world, &[]);
    let server = Server::new(world.clone(), vec![roster_step(&world), get("GET /api/host/orders", &none)]);
    ended(&Site::alice(&world, server.port).run(&["keys", "list"]), 0, "luciactl keys add");
    server.done();
}

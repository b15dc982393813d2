//! Controllers that lie, and strangers in their place: nothing is signed for them.

use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::ANSWER_MAX;
use lucia_proto::orders::{Draft, OrderKind};
use lucia_proto::test_support::{OrderWorld, TestCa};

use crate::orders::{nodes, view, who};
use crate::server::{By, NAME, Server, Step, get, step};
use crate::site::{Site, ended, world};

fn order(world: &OrderWorld) -> Draft {
    world.draft(OrderKind::SshKey, |_| ())
}

// spec: LC-6
#[test]
fn nothing_is_signed_but_the_order_of_the_code() {
    let world = world();
    let asked = order(&world);
    let code = asked.read().unwrap().code();
    let edited = |from: &str, to: &str| {
        let mut draft = order(&world);
        assert!(draft.body.contains(from), "{}", draft.body);
        draft.body = draft.body.replacen(from, to, 1);
        draft
    };
    let lies: Vec<(Draft, &str)> = vec![
        (world.draft(OrderKind::SshKey, |intent| intent.nodes = vec![world.other.node_id.clone()]), "order_mismatch"),
        (world.draft(OrderKind::RemoveIdentity, |_| ()), "order_mismatch"),
        (edited("laptop", "lapdog"), "body_mismatch"),
        (edited("\"alice\"", "\"mallory\""), "body_mismatch"),
        (edited("{", "{ "), "body_mismatch"),
        (Draft { intent_json: "{}".to_owned(), body: order(&world).body }, "malformed"),
        (Draft { intent_json: "\u{202e}\t".to_owned(), body: order(&world).body }, "malformed"),
        (Draft { intent_json: "\u{1b}[2J".to_owned(), body: order(&world).body }, "answer_invalid"),
        (Draft { intent_json: format!("{} ", order(&world).intent_json), body: order(&world).body }, "order_mismatch"),
    ];
    for (lie, refusal) in lies {
        let look = || get(format!("GET /api/host/orders/{code}"), &view(lie.clone()));
        let server = Server::new(world.clone(), vec![who(&world), look(), who(&world), look()]);
        let site = Site::alice(&world, server.port);
        site.refused(&["sign", code.as_str(), "--yes"], 1, refusal);
        // And what a person reads commands no terminal.
        ended(&site.run(&["sign", code.as_str(), "--yes"]), 1, "");
        server.done();
    }
    // Of another fleet, by its own right code.
    let foreign = world.draft(OrderKind::SshKey, |intent| intent.fleet = Digest::of(b"another root"));
    let code = foreign.read().unwrap().code();
    let server =
        Server::new(world.clone(), vec![who(&world), get(format!("GET /api/host/orders/{code}"), &view(foreign))]);
    Site::alice(&world, server.port).refused(&["sign", code.as_str(), "--yes"], 1, "other_fleet");
    server.done();
}

// spec: LC-9
#[test]
fn a_controller_that_keeps_another_draft_gets_no_signature() {
    let world = world();
    let name = world.node.hostname.to_string();
    type Change = fn(&OrderWorld, Draft) -> Draft;
    let lies: [Change; 3] = [
        |world, _| world.draft(OrderKind::RemoveIdentity, |_| ()),
        |_, draft| Draft { body: draft.body.replacen('{', "{ ", 1), ..draft },
        |_, draft| Draft { intent_json: draft.intent_json.replacen('{', "{ ", 1), ..draft },
    ];
    for lie in lies {
        let add = step("POST /api/host/orders", By::Alice, move |world, asked| {
            let draft: Draft = json::from_str(&asked.body, ANSWER_MAX, 8).unwrap();
            (200, json::to_string(&view(lie(world, draft))).unwrap())
        });
        let server = Server::new(world.clone(), vec![who(&world), nodes(&world), add]);
        Site::alice(&world, server.port).refused(&["remove", &name, "--yes"], 1, "draft_mismatch");
        server.done();
    }
    // One that answers about another node than the one that was asked for.
    let other: Step = {
        let line = format!("GET /api/host/nodes/{}", world.node.node_id);
        let text = format!(
            r#"{{"serverTime":"{}","node":{{"nodeId":"{}","hostname":"n7","verificationCode":"1a2b-3c4d-5e6f","state":"Online"}},
            "fingerprint":"{}","taskId":"00000000-0000-4000-8000-000000000000","samples":[]}}"#,
            world.now, world.other.node_id, world.other.fingerprint
        );
        step(line, By::Alice, move |_, _| (200, text))
    };
    let server = Server::new(world.clone(), vec![who(&world), nodes(&world), other]);
    Site::alice(&world, server.port).refused(&["release-lapse", &name, "--yes"], 1, "node_mismatch");
    server.done();
}

// spec: LC-10
#[test]
fn nobody_but_the_controller_of_the_root_is_spoken_to() {
    let world = world();
    let mallory = TestCa::with_keys(world.now, 211);
    for (what, ca, name) in [
        ("another root's", &mallory, NAME),
        ("another name", &world.ca, "controller.test"),
        ("a name below", &world.ca, "www.localhost"),
    ] {
        let server = Server::stranger(world.clone(), ca, name);
        Site::alice(&world, server.port).refused(&["nodes"], 1, "server_unverified");
        assert!(server.asked().is_empty(), "{what}");
    }
    // Nobody there at all.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    ended(&Site::alice(&world, port).run(&["nodes"]), 69, "localhost");
}

// spec: LC-10
#[test]
fn what_a_controller_says_neither_leads_elsewhere_nor_commands_the_terminal() {
    let world = world();
    let line = "GET /api/host/nodes";
    for (status, body, code, cure) in [
        (302, "", "answer_invalid", "302"),
        (200, "\u{1b}[2J", "answer_invalid", ""),
        (200, "{\"\\u001b[2J\":1}", "answer_invalid", ""),
        (
            503,
            "{\"error\":{\"code\":\"busy\",\"message\":\"\\u202e\\u0009\",\"type\":\"server_error\"}}",
            "busy",
            "busy",
        ),
        (
            403,
            "{\"error\":{\"code\":\"role_required\",\"message\":\"no\",\"type\":\"server_error\"}}",
            "role_required",
            "luciactl owners",
        ),
        (
            403,
            "{\"error\":{\"code\":\"actor_required\",\"message\":\"no\",\"type\":\"server_error\"}}",
            "actor_required",
            "luciactl login",
        ),
    ] {
        let answer = || step(line, By::Alice, move |_, _| (status, body.to_owned()));
        let server = Server::new(world.clone(), vec![answer(), answer()]);
        let site = Site::alice(&world, server.port);
        ended(&site.run(&["nodes"]), 1, cure);
        site.refused(&["nodes"], 1, code);
        server.done();
    }
}

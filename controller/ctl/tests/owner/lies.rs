//! Controllers that lie, and strangers in their place: nothing is signed for them.

use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::ANSWER_MAX;
use lucia_proto::orders::{Draft, OrderKind};
use lucia_proto::test_support::{OrderWorld, TestCa};

use crate::orders::{nodes, view, who};
use crate::server::{By, NAME, Server, Step, get, step};
use crate::site::{Site, ended, said, world};

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
        (world.draft(OrderKind::SshKey, |intent| intent.nodes = vec![world.other.node_id.clone()]), "was asked for"),
        (world.draft(OrderKind::RemoveIdentity, |_| ()), "was asked for"),
        (edited("laptop", "lapdog"), "somebody changed it"),
        (edited("\"alice\"", "\"mallory\""), "somebody changed it"),
        (edited("{", "{ "), "somebody changed it"),
        (Draft { intent_json: "{}".to_owned(), body: order(&world).body }, "malformed"),
        (Draft { intent_json: "\u{202e}\t".to_owned(), body: order(&world).body }, "malformed"),
        (Draft { intent_json: "\u{1b}[2J".to_owned(), body: order(&world).body }, "not understood"),
        (Draft { intent_json: format!("{} ", order(&world).intent_json), body: order(&world).body }, "was asked for"),
    ];
    for (lie, says) in lies {
        let server =
            Server::new(world.clone(), vec![who(&world), get(format!("GET /api/host/intents/{code}"), &view(lie))]);
        let output = Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]);
        ended(&output, 1, says);
        assert!(!said(&output).contains("Signed order"), "{}", said(&output));
        server.done();
    }
    // Of another fleet, by its own right code.
    let foreign = world.draft(OrderKind::SshKey, |intent| intent.fleet = Digest::of(b"another root"));
    let code = foreign.read().unwrap().code();
    let server =
        Server::new(world.clone(), vec![who(&world), get(format!("GET /api/host/intents/{code}"), &view(foreign))]);
    ended(&Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]), 1, "for the fleet of root");
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
        let add = step("POST /api/host/intents", By::Alice, move |world, asked| {
            let draft: Draft = json::from_str(&asked.body, ANSWER_MAX, 8).unwrap();
            (200, json::to_string(&view(lie(world, draft))).unwrap())
        });
        let server = Server::new(world.clone(), vec![who(&world), nodes(&world), add]);
        ended(&Site::alice(&world, server.port).run(&["remove", &name, "--yes"]), 1, "keeps another draft");
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
    ended(&Site::alice(&world, server.port).run(&["release-lapse", &name, "--yes"]), 1, "about another node");
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
        let site = Site::alice(&world, server.port);
        let output = site.run(&["nodes"]);
        ended(&output, 1, "does not prove to be localhost");
        assert!(server.asked().is_empty(), "{what}");
    }
    // Nobody there at all.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    ended(&Site::alice(&world, port).run(&["nodes"]), 69, "no controller answers at localhost");
}

// spec: LC-10
#[test]
fn what_a_controller_says_neither_leads_elsewhere_nor_commands_the_terminal() {
    let world = world();
    let line = "GET /api/host/nodes";
    for (status, body, says) in [
        (302, "", "status 302"),
        (200, "\u{1b}[2J", "not understood"),
        (200, "{\"\\u001b[2J\":1}", "not understood"),
        (503, "{\"error\":{\"code\":\"busy\",\"message\":\"\\u202e\\u0009\",\"type\":\"server_error\"}}", "(busy)"),
        (403, "{\"error\":{\"code\":\"role_required\",\"message\":\"no\",\"type\":\"server_error\"}}", "Ask an owner"),
        (
            403,
            "{\"error\":{\"code\":\"actor_required\",\"message\":\"no\",\"type\":\"server_error\"}}",
            "luciactl login",
        ),
    ] {
        let server = Server::new(world.clone(), vec![step(line, By::Alice, move |_, _| (status, body.to_owned()))]);
        ended(&Site::alice(&world, server.port).run(&["nodes"]), 1, says);
        server.done();
    }
}

//! The list of orders: in parts, with what became of each, and what can still be thrown away.

use expect_test::expect_file;
use lucia_people::host_api::EventsView;
use lucia_people::owner_api::DraftState;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::{Draft, OrderCode, OrderKind};

use crate::orders::{drafts, node, nodes, who};
use crate::server::{By, Server, get, refusal, step};
use crate::site::{Site, ended, refusal_code, said, steady, world};

// spec: LC-11
#[test]
fn a_long_list_comes_in_parts() {
    let world = world();
    let all: Vec<Draft> = (0..101)
        .map(|number| {
            let at = world.now.minus(std::time::Duration::from_secs(number));
            world.draft(OrderKind::SshKey, |intent| intent.issued_at = at)
        })
        .collect();
    let part = |drafts_of: &[Draft]| {
        drafts(&world, &drafts_of.iter().map(|draft| (draft, DraftState::Done, vec![])).collect::<Vec<_>>())
    };
    let after = all[99].read().unwrap().code();
    let script = vec![
        get("GET /api/host/orders", &part(&all[..100])),
        get(format!("GET /api/host/orders?after={after}"), &part(&all[100..])),
        who(&world),
    ];
    let server = Server::new(world.clone(), script);
    let last = all[100].read().unwrap().code();
    ended(&Site::alice(&world, server.port).run(&["drafts"]), 0, last.as_str());
    server.done();
    // Orders for hundreds of nodes come a few at a time.
    let told = |number: u16| Outcome {
        node_id: format!("{number:032x}").parse().unwrap(),
        at: world.now,
        refused: Some(OrderCode::NoFreshness),
    };
    let told: Vec<Outcome> = (0..512).map(told).collect();
    let many: Vec<_> = all[..7].iter().map(|draft| (draft, DraftState::Signed, told.clone())).collect();
    let after = all[6].read().unwrap().code();
    let script = vec![
        get("GET /api/host/orders", &drafts(&world, &many)),
        get(format!("GET /api/host/orders?after={after}"), &part(&all[100..])),
        who(&world),
        nodes(&world),
        get("GET /api/host/events?after=0&limit=500&wait=0", &EventsView { events: Vec::new(), last_sequence: 0 }),
    ];
    let server = Server::new(world.clone(), script);
    ended(&Site::alice(&world, server.port).run(&["drafts"]), 0, last.as_str());
    server.done();
}

// spec: CT-441
#[test]
fn a_controller_of_the_version_before_this_one_is_asked_at_its_own_path() {
    let world = world();
    let list = drafts(&world, &[(&world.draft(OrderKind::RemoveIdentity, |_| ()), DraftState::Drafted, vec![])]);
    let script = vec![
        step("GET /api/host/orders", By::Alice, |_, _| (404, refusal("not_found"))),
        get("GET /api/host/intents", &list),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    let output = site.run(&["orders", "--json"]);
    ended(&output, 0, list.drafts[0].code.as_str());
    assert_eq!(server.done()[1].line, "GET /api/host/intents");
}

// spec: LC-11, LC-99, LC-104
#[test]
fn orders_are_listed_with_what_became_of_them() {
    let world = world();
    let open = world.draft(OrderKind::RemoveIdentity, |_| ());
    let refused = world.draft(OrderKind::SshKey, |_| ());
    let handed = world.draft(OrderKind::ReleaseLapse, |_| ());
    let outcome = Outcome { node_id: world.node.node_id.clone(), at: world.now, refused: Some(OrderCode::NoFreshness) };
    let mut list = drafts(
        &world,
        &[
            (&open, DraftState::Drafted, vec![]),
            (&refused, DraftState::Refused, vec![outcome]),
            (&handed, DraftState::Signed, vec![]),
        ],
    );
    list.drafts[1].about = Some("alice: +laptop".parse().unwrap());
    let (open, code) = (open.read().unwrap().code(), refused.read().unwrap().code());
    let out = handed.read().unwrap().code();
    let line = "GET /api/host/orders";
    let drop = step(format!("DELETE /api/host/orders/{open}"), By::Alice, |_, _| (200, "{}".to_owned()));
    let script = vec![
        get(line, &list),
        who(&world),
        nodes(&world),
        get(line, &list),
        who(&world),
        who(&world),
        get(line, &list),
        who(&world),
        get(line, &list),
        drop,
        get(line, &list),
        nodes(&world),
        who(&world),
        get(line, &list),
        who(&world),
        get(line, &list),
        nodes(&world),
        node(&world, "", ""),
        get(line, &list),
    ];
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    // Both names are those of one verb.
    let output = site.run(&["orders"]);
    let told = said(&output);
    // People are called by their names; each order stands there, and a refusal with its node and cure.
    assert!(told.contains("  bob  ") && !told.contains(&world.bob.id.as_str()[..8]), "{told}");
    for code in [&open, &code, &out] {
        assert!(told.contains(code.as_str()), "{code}: {told}");
    }
    assert!(told.contains(world.node.hostname.as_str()) && told.contains("no_freshness"), "{told}");
    ended(&output, 0, OrderCode::NoFreshness.cure());
    expect_file!["snapshots/orders.txt"].assert_eq(&steady(&world, &told, &[&open, &code, &out]));
    let output = site.run(&["sign", "--list"]);
    ended(&output, 0, open.as_str());
    assert!(!said(&output).contains(code.as_str()), "{}", said(&output));
    let (done, text) = site.on_terminal(&["drop", open.as_str(), "--json"], &["no"]);
    assert!(!done && refusal_code(&text) == "not_confirmed", "{text}");
    for part in [open.as_str(), "remove-identity", "alice", &world.now.to_string()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    ended(&site.run(&["drop", open.as_str(), "--yes"]), 0, "");
    site.refused(&["drop", "ffff-ffff-ffff", "--yes"], 1, "not_found");
    // What cannot be called back is not asked about.
    site.refused(&["drop", out.as_str()], 1, "cannot_drop");
    let output = site.run(&["why", world.node.hostname.as_str()]);
    ended(&output, 0, OrderCode::NoFreshness.cure());
    assert!(said(&output).contains("no_freshness") && said(&output).contains("lucia-enrollment-worker pending"));
    server.done();
}

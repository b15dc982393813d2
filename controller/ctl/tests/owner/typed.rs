//! What a person types before anything is signed that they cannot see: the digits of an admission, and the code of a node that
//! no believed name says anything about.

use std::time::Duration;

use lucia_proto::intent::{Draft, IntentKind};
use lucia_proto::limits::LIST_AGE_MAX;
use lucia_proto::lists::{NamedNode, SignedList};
use lucia_proto::owner_api::NamesView;
use lucia_proto::test_support::{OrderWorld, key};

use crate::orders::{signed, view, who};
use crate::server::{By, NAMES, Server, Step, get, names, names_of, refusal, step};
use crate::site::{Site, ended, said, world};

fn look(draft: &Draft) -> Step {
    let code = draft.read().unwrap().code();
    get(format!("GET /api/host/intents/{code}"), &view(draft.clone()))
}

/// A lying controller makes an order for a thief's key, says that alice drafted it, and says nothing else.
// spec: LC-260
#[test]
fn an_admission_is_signed_by_whoever_typed_its_digits_and_by_no_yes() {
    let world = world();
    let draft = world.draft(IntentKind::Admit, |_| ());
    let code = draft.read().unwrap().code();
    let print = world.node.fingerprint;
    let shows = |text: &str| print.rows().iter().any(|row| text.contains(row)) || text.contains(&print.to_string());
    for args in [&["sign", code.as_str(), "--yes"][..], &["sign", code.as_str()]] {
        let server = Server::new(world.clone(), vec![who(&world), look(&draft)]);
        let output = Site::alice(&world, server.port).run(args);
        let device = print.verification_code();
        ended(&output, 64, &format!("luciactl admit {device} --fingerprint"));
        assert!(!shows(&said(&output)), "what is to be typed is nowhere to be copied: {}", said(&output));
        server.done();
    }
    let (question, second, yes) = ("own screen shows it: ", "second row: ", ("Type yes to go on: ", "yes"));
    let [first, other] = print.rows();
    let thief = world.other.fingerprint.rows();
    let script = || vec![who(&world), look(&draft)];
    let server = Server::new(world.clone(), script());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[(question, &thief[0]), (second, &thief[1])]);
    assert!(!done && text.contains("another machine") && !text.contains("Signed order") && !shows(&text), "{text}");
    server.done();
    let server = Server::new(world.clone(), script().into_iter().chain([signed()]).collect());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[(question, &first), (second, &other), yes]);
    assert!(done && text.contains("Signed order"), "{text}");
    server.done();
}

/// Names beside the ids, by the worker's signature.
// spec: LC-261
#[test]
fn names_stand_beside_the_ids_and_a_node_that_is_new_here_is_marked_until_an_order_for_it_was_signed() {
    let world = world();
    let draft = world.draft(IntentKind::SshKey, |_| ());
    let code = draft.read().unwrap().code();
    let script = || vec![who(&world), look(&draft), get(NAMES, &names(&world)), signed()];
    let server = Server::new(world.clone(), script().into_iter().chain(script()).collect());
    let site = Site::alice(&world, server.port);
    let line = |text: &str| {
        let id = world.node.node_id.as_str();
        text.lines().rev().find(|line| line.trim_start().starts_with(id)).unwrap().to_owned()
    };
    let first = site.run(&["sign", code.as_str(), "--yes"]);
    ended(&first, 0, "Signed order");
    assert!(line(&said(&first)).contains(world.node.hostname.as_str()), "{}", said(&first));
    assert!(line(&said(&first)).contains("first seen"), "{}", said(&first));
    let again = site.run(&["sign", code.as_str(), "--yes"]);
    assert!(line(&said(&again)).contains(world.node.hostname.as_str()) && !said(&again).contains("first seen"));
    server.done();
    // What was not signed was not seen.
    let server = Server::new(world.clone(), vec![who(&world), look(&draft)]);
    let site = Site::alice(&world, server.port);
    ended(&site.run(&["sign", code.as_str()]), 64, "first seen");
    let server = Server::new(world.clone(), script());
    site.write("luciactl.toml", &crate::site::config(server.port), 0o600);
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, "first seen");
}

/// No name is shown, and somebody types the code of each node: by an old list, and by whatever else is not the worker's.
// spec: LC-262
#[test]
fn without_a_believed_list_of_the_last_day_each_code_is_typed() {
    let world = world();
    let draft = world.draft(IntentKind::SshKey, |_| ());
    let code = draft.read().unwrap().code();
    let node = &world.node;
    let thief = NamedNode { id: node.node_id.clone(), hostname: "db-1".parse().unwrap() };
    let with = |change: &dyn Fn(&mut lucia_proto::lists::List<NamedNode>)| {
        names_of(&world, |list| {
            list.entries = vec![thief.clone()];
            change(list);
        })
    };
    let by = |number: u8| {
        let list =
            lucia_proto::lists::List { fleet: world.fleet, number: 9, time: world.now, entries: vec![thief.clone()] };
        let signed = SignedList::sign(&list, &key(number)).unwrap();
        NamesView { names: Some(signed), bundle: Some(world.bundle.signed().clone()) }
    };
    let other = OrderWorld::new(world.now.minus(Duration::from_secs(1)));
    let old = |list: &mut lucia_proto::lists::List<NamedNode>| {
        list.time = list.time.minus(LIST_AGE_MAX + Duration::from_secs(60));
    };
    let cases: Vec<(&str, NamesView)> = vec![
        ("old", with(&old)),
        ("ahead", with(&|list| list.time = list.time.plus(Duration::from_secs(3600)))),
        ("another worker", by(93)),
        ("another fleet", with(&|list| list.fleet = lucia_proto::digest::Digest::of(b"another root"))),
        ("none", NamesView { names: None, bundle: Some(other.bundle.signed().clone()) }),
        ("no bundle", NamesView { bundle: None, ..with(&|_| ()) }),
        ("without the node", with(&|list| list.entries.clear())),
    ];
    let right = node.fingerprint.verification_code();
    for (what, view) in &cases {
        let script = || vec![who(&world), look(&draft), get(NAMES, view)];
        let server = Server::new(world.clone(), script());
        let output = Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]);
        ended(&output, 64, "type its code");
        assert!(!said(&output).contains("db-1"), "{what}: {}", said(&output));
        server.done();
    }
    let script = || vec![who(&world), look(&draft), get(NAMES, &cases[0].1)];
    let question = "from its own screen: ";
    let wrong = world.other.fingerprint.verification_code();
    let server = Server::new(world.clone(), script());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[(question, wrong.as_str())]);
    assert!(!done && !text.contains("Signed order"), "{text}");
    server.done();
    let server = Server::new(world.clone(), script().into_iter().chain([signed()]).collect());
    let site = Site::alice(&world, server.port);
    let yes = ("Type yes to go on: ", "yes");
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[(question, right.as_str()), yes]);
    assert!(done && text.contains("Signed order"), "{text}");
    server.done();
    // A controller of before these lists.
    let gone = step(NAMES, By::Alice, |_, _| (404, refusal("not_found")));
    let server = Server::new(world.clone(), vec![who(&world), look(&draft), gone]);
    ended(&Site::alice(&world, server.port).run(&["sign", code.as_str(), "--yes"]), 64, "type its code");
}

// spec: LC-263
#[test]
fn a_list_that_is_older_than_one_that_was_seen_is_not_believed() {
    let world = world();
    let draft = world.draft(IntentKind::SshKey, |_| ());
    let code = draft.read().unwrap().code();
    let at = |number: u64| {
        let named = NamedNode { id: world.node.node_id.clone(), hostname: format!("n-{number}").parse().unwrap() };
        names_of(&world, |list| (list.number, list.entries) = (number, vec![named]))
    };
    let script = |number: u64| vec![who(&world), look(&draft), get(NAMES, &at(number))];
    let steps = script(7).into_iter().chain([signed()]).chain(script(6)).chain(script(7)).chain([signed()]);
    let server = Server::new(world.clone(), steps.collect());
    let site = Site::alice(&world, server.port);
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, "n-7");
    let older = site.run(&["sign", code.as_str(), "--yes"]);
    ended(&older, 64, "type its code");
    assert!(!said(&older).contains("n-6"));
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, "n-7");
    server.done();
}

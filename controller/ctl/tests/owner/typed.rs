//! What a person types before anything is signed that they cannot see: the digits of an admission, and the code of a node that
//! no believed name says anything about. And what they typed on the command line: a name, by which a lying controller finds another
//! node.

use std::time::Duration;

use lucia_people::host_api::{NodeView, NodesView};
use lucia_people::owner_api::{DraftsView, NamesView};
use lucia_proto::base::limits::LIST_AGE_MAX;
use lucia_proto::orders::lists::{NamedNode, SignedList};
use lucia_proto::orders::{Body, Draft, OrderKind};
use lucia_proto::test_support::{OrderWorld, TestNode, key};

use crate::orders::{add, drafts, onboarding, order, read, signed, taken, view, who};
use crate::server::{By, NAMES, Server, Step, get, names, names_of, refusal, step};
use crate::site::{Site, arg, ended, refusal_code, said, world};

fn look(draft: &Draft) -> Step {
    let code = draft.read().unwrap().code();
    get(format!("GET /api/host/orders/{code}"), &view(draft.clone()))
}

/// A lying controller makes an order for a thief's key, says that alice drafted it, and says nothing else.
// spec: LC-260
#[test]
fn an_admission_is_signed_by_whoever_typed_its_digits_and_by_no_yes() {
    let world = world();
    let draft = world.draft(OrderKind::Admit, |_| ());
    let code = draft.read().unwrap().code();
    let print = world.node.fingerprint;
    let shows = |text: &str| print.rows().iter().any(|row| text.contains(row)) || text.contains(&print.to_string());
    for args in [&["sign", code.as_str(), "--yes"][..], &["sign", code.as_str()]] {
        let server = Server::new(world.clone(), vec![who(&world), look(&draft)]);
        let text = Site::alice(&world, server.port).refused(args, 64, "fingerprint_needed");
        let cure = format!("luciactl admit {} --fingerprint", print.verification_code());
        // What is to be typed is nowhere to be copied.
        assert!(text.contains(&cure) && !shows(&text), "{text}");
        server.done();
    }
    let [first, other] = print.rows();
    let thief = world.other.fingerprint.rows();
    let script = || vec![who(&world), look(&draft)];
    let server = Server::new(world.clone(), script());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str(), "--json"], &[&thief[0], &thief[1]]);
    assert!(!done && refusal_code(&text) == "fingerprint_mismatch" && !shows(&text), "{text}");
    server.done();
    let server = Server::new(world.clone(), script().into_iter().chain([signed()]).collect());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[&first, &other, "yes"]);
    assert!(done, "{text}");
    server.done();
}

/// Names beside the ids, by the worker's signature.
// spec: LC-261
#[test]
fn names_stand_beside_the_ids_and_a_node_that_is_new_here_is_marked_until_an_order_for_it_was_signed() {
    let world = world();
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let code = draft.read().unwrap().code();
    let script = || vec![who(&world), look(&draft), get(NAMES, &names(&world)), signed()];
    let server = Server::new(world.clone(), script().into_iter().chain(script()).collect());
    let site = Site::alice(&world, server.port);
    let line = |text: &str| {
        let id = world.node.node_id.as_str();
        text.lines().rev().find(|line| line.trim_start().starts_with(id)).unwrap().to_owned()
    };
    let first = site.run(&["sign", code.as_str(), "--yes"]);
    ended(&first, 0, "");
    assert!(line(&said(&first)).contains(world.node.hostname.as_str()), "{}", said(&first));
    assert!(line(&said(&first)).contains(NEW), "{}", said(&first));
    let again = site.run(&["sign", code.as_str(), "--yes"]);
    assert!(line(&said(&again)).contains(world.node.hostname.as_str()) && !said(&again).contains(NEW));
    server.done();
    // What was not signed was not seen.
    let server = Server::new(world.clone(), vec![who(&world), look(&draft)]);
    let site = Site::alice(&world, server.port);
    ended(&site.run(&["sign", code.as_str()]), 64, NEW);
    let server = Server::new(world.clone(), script());
    site.write("luciactl.toml", &crate::site::config(server.port), 0o600);
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, NEW);
}

/// The mark of a node that no order was signed for here.
const NEW: &str = "first seen";

/// No name is shown, and somebody types the code of each node: by an old list, and by whatever else is not the worker's.
// spec: LC-262
#[test]
fn without_a_believed_list_of_the_last_day_each_code_is_typed() {
    let world = world();
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let code = draft.read().unwrap().code();
    let node = &world.node;
    let thief = NamedNode { id: node.node_id.clone(), hostname: "db-1".parse().unwrap() };
    let with = |change: &dyn Fn(&mut lucia_proto::orders::lists::List<NamedNode>)| {
        names_of(&world, |list| {
            list.entries = vec![thief.clone()];
            change(list);
        })
    };
    let by = |number: u8| {
        let list = lucia_proto::orders::lists::List {
            fleet: world.fleet,
            number: 9,
            time: world.now,
            entries: vec![thief.clone()],
        };
        let signed = SignedList::sign(&list, &key(number)).unwrap();
        NamesView { names: Some(signed), bundle: Some(world.bundle.signed().clone()) }
    };
    let other = OrderWorld::new(world.now.minus(Duration::from_secs(1)));
    let old = |list: &mut lucia_proto::orders::lists::List<NamedNode>| {
        list.time = list.time.minus(LIST_AGE_MAX + Duration::from_secs(60));
    };
    let cases: Vec<(&str, NamesView)> = vec![
        ("old", with(&old)),
        ("ahead", with(&|list| list.time = list.time.plus(Duration::from_secs(3600)))),
        ("another worker", by(93)),
        ("another fleet", with(&|list| list.fleet = lucia_proto::base::digest::Digest::of(b"another root"))),
        ("none", NamesView { names: None, bundle: Some(other.bundle.signed().clone()) }),
        ("no bundle", NamesView { bundle: None, ..with(&|_| ()) }),
        ("without the node", with(&|list| list.entries.clear())),
    ];
    let right = node.fingerprint.verification_code();
    for (what, view) in &cases {
        let script = || vec![who(&world), look(&draft), get(NAMES, view)];
        let server = Server::new(world.clone(), script());
        let text = Site::alice(&world, server.port).refused(&["sign", code.as_str(), "--yes"], 64, "code_needed");
        assert!(!text.contains("db-1"), "{what}: {text}");
        server.done();
    }
    let script = || vec![who(&world), look(&draft), get(NAMES, &cases[0].1)];
    let wrong = world.other.fingerprint.verification_code();
    let server = Server::new(world.clone(), script());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str(), "--json"], &[wrong.as_str()]);
    assert!(!done && refusal_code(&text) == "code_mismatch", "{text}");
    server.done();
    let server = Server::new(world.clone(), script().into_iter().chain([signed()]).collect());
    let site = Site::alice(&world, server.port);
    let (done, text) = site.on_terminal(&["sign", code.as_str()], &[right.as_str(), "yes"]);
    assert!(done, "{text}");
    server.done();
    // A controller of before these lists.
    let gone = step(NAMES, By::Alice, |_, _| (404, refusal("not_found")));
    let server = Server::new(world.clone(), vec![who(&world), look(&draft), gone]);
    Site::alice(&world, server.port).refused(&["sign", code.as_str(), "--yes"], 64, "code_needed");
}

// spec: LC-263
#[test]
fn a_list_that_is_older_than_one_that_was_seen_is_not_believed() {
    let world = world();
    let draft = world.draft(OrderKind::SshKey, |_| ());
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
    assert!(!site.refused(&["sign", code.as_str(), "--yes"], 64, "code_needed").contains("n-6"));
    ended(&site.run(&["sign", code.as_str(), "--yes"]), 0, "n-7");
    server.done();
}

/// A node's line, by these names.
fn line(node: &TestNode, hostname: &str, former: Option<&str>) -> String {
    let former = former.map(|name| format!(r#","formerHostname":"{name}""#)).unwrap_or_default();
    let code = node.fingerprint.verification_code();
    format!(
        r#"{{"nodeId":"{}","hostname":"{hostname}","verificationCode":"{code}","state":"Online"{former}}}"#,
        node.node_id
    )
}

fn listed(world: &OrderWorld, lines: &[String]) -> Step {
    let text = format!(r#"{{"serverTime":"{}","nodes":[{}]}}"#, world.now, lines.join(","));
    get("GET /api/host/nodes", &read::<NodesView>(&text))
}

fn about(world: &OrderWorld, node: &TestNode, line: &str, more: &str) -> Step {
    let text = format!(
        r#"{{"serverTime":"{}","node":{line},"fingerprint":"{}","taskId":"00000000-0000-4000-8000-000000000000",
        "samples":[]{more}}}"#,
        world.now, node.fingerprint
    );
    get(format!("GET /api/host/nodes/{}", node.node_id), &read::<NodeView>(&text))
}

/// What a lying controller does with a rename that is none: it finds another node by the name that was typed.
// spec: LC-360
#[test]
fn a_name_that_is_neither_signed_nor_the_workers_ends_no_other_node() {
    let world = world();
    let (meant, victim) = (world.node.hostname.to_string(), world.other.hostname.to_string());
    let lie = line(&world.other, &meant, Some(&victim));
    // The code of the machine that was meant, on another's line.
    let own = |node: &TestNode| node.fingerprint.verification_code().to_string();
    let code = own(&world.node);
    let by_code = line(&world.other, &victim, None).replace(&own(&world.other), &code);
    let holder = |start: &str| {
        format!(r#"{{"startId":"{}","address":"192.0.2.1","firstSeenAt":"{}"}}"#, start.repeat(16), world.now)
    };
    let frozen = format!(r#","frozen":{{"at":"{}","holders":[{},{}]}}"#, world.now, holder("09"), holder("0b"));
    let ended_at = world.now.minus(Duration::from_secs(40 * 24 * 3600));
    let lapsed = lie.replace(r#""state""#, &format!(r#""certificateExpiresAt":"{ended_at}","state""#));
    let start = "09".repeat(16);
    let cases: [(&[&str], Vec<Step>, &str); 5] = [
        (&["remove", &meant], vec![], &lie),
        (&["remove", &code], vec![], &by_code),
        (&["clone", "split", &meant], vec![about(&world, &world.other, &lie, &frozen)], &lie),
        (&["clone", "keep", &meant, "--start", &start], vec![about(&world, &world.other, &lie, &frozen)], &lie),
        (&["release-lapse", &meant], vec![about(&world, &world.other, &lapsed, "")], &lie),
    ];
    for (args, more, lie) in cases {
        let script = [who(&world), listed(&world, &[lie.to_owned()])].into_iter().chain(more).collect();
        let server = Server::new(world.clone(), script);
        let text = Site::alice(&world, server.port).refused(&[args, &["--yes"]].concat(), 64, "name_mismatch");
        assert!(text.contains(&victim), "{text}");
        server.done();
    }
    // A person is told both names, and types the one that is signed.
    for (answer, goes_on) in [("yes", false), (meant.as_str(), false), (victim.as_str(), true)] {
        let script = [who(&world), listed(&world, std::slice::from_ref(&lie))].into_iter();
        let script = script.chain(goes_on.then(|| [add(), signed()]).into_iter().flatten()).collect();
        let server = Server::new(world.clone(), script);
        let (done, text) = Site::alice(&world, server.port).on_terminal(&["remove", &meant], &[answer, "yes"]);
        assert_eq!(done, goes_on, "{answer}: {text}");
        // The question, once the answer that was typed is gone, names both; the next one the node that is removed.
        let (told, asked) = text.split_once(&format!("{answer}\r\n")).unwrap();
        assert!(told.contains(&meant) && told.contains(&victim), "{text}");
        assert_eq!(asked.contains(&format!("removes {victim} ")), goes_on, "{text}");
        assert!(!asked.contains(&format!("removes {meant} ")), "{text}");
        server.done();
    }
}

/// While the worker knows the former name alone.
// spec: LC-361
#[test]
fn the_worker_s_name_of_a_node_that_is_renamed_is_enough_and_the_next_one_is_not() {
    let world = world();
    let (former, next) = (world.node.hostname.as_str(), "next-name");
    let renamed = line(&world.node, next, Some(former));
    let id = world.node.node_id.as_str();
    let code = world.node.fingerprint.verification_code();
    for named in [former, id, code.as_str()] {
        let script = vec![who(&world), listed(&world, std::slice::from_ref(&renamed)), add(), signed()];
        let server = Server::new(world.clone(), script);
        ended(&Site::alice(&world, server.port).run(&["remove", named, "--yes"]), 0, "");
        let (body, ids, _) = taken(&world, &order(&server.done()), OrderKind::RemoveIdentity);
        let Body::RemoveIdentity(body) = body else { panic!("{body:?}") };
        assert_eq!((body.hostname.as_str(), ids), (former, vec![world.node.node_id.clone()]), "{named}");
    }
    // Once the certificate has the next name, it is signed, and the worker's list may still have the former one.
    let done = renamed.replace(r#""state""#, r#""renameStep":"heartbeat","state""#);
    let script = vec![who(&world), listed(&world, &[done]), add(), signed()];
    let server = Server::new(world.clone(), script);
    let output = Site::alice(&world, server.port).run(&["remove", former, "--yes"]);
    ended(&output, 0, "WARNING");
    server.done();
    let script = vec![who(&world), listed(&world, &[renamed])];
    let server = Server::new(world.clone(), script);
    let text = Site::alice(&world, server.port).refused(&["remove", next, "--yes"], 64, "name_mismatch");
    assert!(text.contains(former), "{text}");
    server.done();
}

/// An order about SSH keys has no name that worker or node could compare.
// spec: LC-362
#[test]
fn ssh_keys_go_to_a_named_node_by_the_worker_s_word_or_its_code() {
    let world = world();
    let (meant, victim) = (world.node.hostname.to_string(), world.other.hostname.to_string());
    let none: DraftsView = drafts(&world, &[]);
    let script = |lines: &[String], signs: bool| {
        let script = [who(&world), get("GET /api/host/orders", &none), listed(&world, lines)].into_iter();
        script.chain(signs.then(|| [add(), signed()]).into_iter().flatten()).collect::<Vec<_>>()
    };
    let lie = || [line(&world.other, &meant, None), line(&world.node, &victim, None)];
    let run = |lines: &[String], signs, answers: Option<&[&str]>| {
        let server = Server::new(world.clone(), script(lines, signs));
        let site = Site::alice(&world, server.port);
        site.write("new.pub", KEY, 0o644);
        let file = site.path("new.pub");
        let args = ["keys", "add", "alice", arg(&file), "--label", "desk", "--nodes", &meant, "--json"];
        let (code, text) = match answers {
            Some(answers) => {
                let (done, text) = site.on_terminal(&args, answers);
                (if done { Some(0) } else { Some(1) }, text)
            }
            None => {
                let output = site.run(&[&args[..], &["--yes"]].concat());
                (output.status.code(), said(&output))
            }
        };
        (code, text, server.done())
    };
    let (code, text, _) = run(&lie(), false, None);
    assert_eq!((code, refusal_code(&text).as_str()), (Some(64), "name_unverified"), "{text}");
    // The one who was meant is not the one who would get the key.
    let [own, other] = [&world.node, &world.other].map(|node| node.fingerprint.verification_code());
    let (code, text, _) = run(&lie(), false, Some(&[own.as_str()]));
    assert_eq!((code, refusal_code(&text).as_str()), (Some(1), "code_mismatch"), "{text}");
    let (code, text, asked) = run(&lie(), true, Some(&[other.as_str(), "yes"]));
    assert_eq!(code, Some(0), "{text}");
    assert!(order(&asked).intent_json.contains(world.other.node_id.as_str()));
    let honest = [line(&world.node, &meant, None), line(&world.other, &victim, None)];
    let (code, text, asked) = run(&honest, true, None);
    assert_eq!(code, Some(0), "{text}");
    let (_, ids, _) = taken(&world, &order(&asked), OrderKind::SshKey);
    assert_eq!(ids, std::slice::from_ref(&world.node.node_id));
}

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA";

/// An admission bars the key of the node whose place it takes.
// spec: LC-363
#[test]
fn a_node_is_replaced_by_the_worker_s_name_its_id_or_its_code() {
    let world = world();
    let device = world.node.fingerprint.verification_code();
    let print = world.node.fingerprint.to_string();
    let third = TestNode::new(78);
    let (victim, its_code) = (third.node_id.clone(), third.fingerprint.verification_code());
    let view = names_of(&world, |list| {
        list.entries = vec![
            NamedNode { id: world.other.node_id.clone(), hostname: world.other.hostname.clone() },
            NamedNode { id: victim.clone(), hostname: third.hostname.clone() },
        ];
    });
    let meant = world.other.hostname.as_str();
    let base = ["admit", device.as_str(), "--fingerprint", &print, "--hostname", "new-1", "--replaces"];
    let lie = line(&third, meant, None);
    let script = |names: bool, signs: bool| {
        let seen = get("GET /api/host/onboarding", &onboarding(&world, "AwaitingEnrollment", ""));
        let nodes = || listed(&world, std::slice::from_ref(&lie));
        let script = [who(&world), seen, nodes(), nodes()].into_iter().chain(names.then(|| get(NAMES, &view)));
        script.chain(signs.then(|| [add(), signed()]).into_iter().flatten()).collect()
    };
    let server = Server::new(world.clone(), script(true, false));
    Site::alice(&world, server.port).refused(&[&base[..], &[meant, "--yes"]].concat(), 64, "name_unverified");
    server.done();
    let approve = ["approve", device.as_str(), "--fingerprint", &print, "--hostname", "new-1", "--disk", "wwn-0x5"];
    let seen = get("GET /api/host/onboarding", &onboarding(&world, "Discovered", ""));
    let nodes = || listed(&world, std::slice::from_ref(&lie));
    let server = Server::new(world.clone(), vec![who(&world), seen, nodes(), nodes(), nodes(), get(NAMES, &view)]);
    let args = [&approve[..], &["--replaces", meant, "--yes"]].concat();
    Site::alice(&world, server.port).refused(&args, 64, "name_unverified");
    server.done();
    for (typed, signs) in [(device.as_str(), false), (its_code.as_str(), true)] {
        let server = Server::new(world.clone(), script(true, signs));
        let site = Site::alice(&world, server.port);
        let (done, text) = site.on_terminal(&[&base[..], &[meant]].concat(), &[typed, "yes"]);
        assert_eq!(done, signs, "{text}");
        server.done();
    }
    for plain in [victim.as_str(), its_code.as_str()] {
        let server = Server::new(world.clone(), script(false, true));
        let output = Site::alice(&world, server.port).run(&[&base[..], &[plain, "--yes"]].concat());
        ended(&output, 0, "(admit)");
        server.done();
    }
}

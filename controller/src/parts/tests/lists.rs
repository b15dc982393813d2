//! The worker's lists at the controller: whom it refuses by them, what every view says of that, and what it carries.

use lucia_people::why::{Finding, Next, findings};
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::LIST_INTERVAL;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::OrderKind;
use lucia_proto::orders::lists::{List, ListEntry, NamedNode, SignedBarred, SignedList, SignedNames};
use lucia_proto::pki::key::Fingerprint;
use lucia_proto::test_support::{OrderWorld, key};

use super::bench::{Machine, World, code, write};
use super::owners::{fleet, publish};
use crate::parts::OpenError;
use crate::store::JsonFileError;

/// A list as the worker of `fleet` signs it.
fn list<E: ListEntry>(fleet: &OrderWorld, number: u64, entries: Vec<E>) -> List<E> {
    List { fleet: fleet.fleet, number, time: fleet.now, entries }
}

fn signed<E: ListEntry>(fleet: &OrderWorld, number: u64, entries: Vec<E>) -> SignedList<E> {
    SignedList::sign(&list(fleet, number, entries), &fleet.ca.worker_key).unwrap()
}

/// The worker publishes this, and the controller looks.
fn says<E: ListEntry>(world: &World, file: &str, list: &SignedList<E>) {
    write(&world.file(&format!("nodes/owner-responses/{file}.json")), &list.to_bytes().unwrap());
    world.parts.tick();
}

fn bars(world: &World, fleet: &OrderWorld, number: u64, machines: &[&Machine]) {
    let mut keys: Vec<Fingerprint> = machines.iter().map(|machine| machine.node.fingerprint).collect();
    keys.sort();
    says(world, "barred", &signed(fleet, number, keys));
}

fn refused(world: &World, machine: &Machine) -> Option<Code> {
    world.advance(1);
    code(machine.heartbeat(world))
}

fn state(world: &World, machine: &Machine) -> SnapshotState {
    world.parts.node(machine.id()).unwrap().node.state
}

// spec: CO-260
#[test]
fn a_barred_key_is_refused_whatever_the_journal_says_and_every_view_marks_it() {
    let world = World::new();
    let (gone, stays, fleet) = (world.node(7), world.node(8), fleet(&world));
    publish(&world, &fleet);
    assert_eq!((refused(&world, &gone), state(&world, &gone)), (None, SnapshotState::Online));
    bars(&world, &fleet, 5, &[&gone]);
    // As any identity failure: one code, one message, and no more work than an unknown key is.
    let stranger = Machine { certificate: gone.certificate.clone(), ..Machine::new(9) };
    let cost = |machine: &Machine| {
        let before = world.parts.counters().public_key_operations;
        world.advance(1);
        let refusal = machine.heartbeat(&world).unwrap_err();
        (refusal.code, refusal.message, world.parts.counters().public_key_operations - before)
    };
    assert_eq!(cost(&gone), cost(&stranger));
    assert_eq!(cost(&gone).0, Code::NodeIdentityInvalid);
    world.advance(1);
    assert_eq!(code(gone.renew(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(code(gone.installation(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(refused(&world, &stays), None);
    // The views.
    assert_eq!((state(&world, &gone), state(&world, &stays)), (SnapshotState::Barred, SnapshotState::Online));
    let lines = world.parts.nodes().nodes;
    let barred = lines.iter().filter(|line| line.state == SnapshotState::Barred);
    let barred: Vec<_> = barred.map(|line| line.node_id.clone()).collect();
    assert_eq!(barred, [gone.id().clone()]);
    let line = lines.into_iter().find(|line| line.node_id == *gone.id()).unwrap();
    assert_eq!(findings(&line, None, None, world.now()), [Finding::Barred(gone.node.hostname.clone())]);
    let servers = world.parts.servers();
    assert!(servers.iter().any(|row| row.line.node_id == *gone.id() && row.line.state == SnapshotState::Barred));
    let nodes = world.parts.readings().nodes;
    assert_eq!((nodes.barred, nodes.online, nodes.stale), (1, 1, 0));
    // After a restart with nothing of the worker's there but the bundle, which says who signed it.
    std::fs::remove_file(world.file("nodes/owner-responses/barred.json")).unwrap();
    let world = world.restart();
    assert_eq!((refused(&world, &gone), refused(&world, &stays)), (Some(Code::NodeIdentityInvalid), None));
    // It can be removed again, and is forgotten then.
    world.parts.enrollment.remove(gone.id(), super::bench::OPERATOR).unwrap();
    assert_eq!(world.parts.nodes().nodes.len(), 1);
}

// spec: CO-370
#[test]
fn keys_stay_barred_through_a_restart_that_has_no_bundle_or_another_workers() {
    let world = World::new();
    let (gone, stays, fleet) = (world.node(7), world.node(8), fleet(&world));
    publish(&world, &fleet);
    bars(&world, &fleet, 5, &[&gone]);
    let bundle = world.file("nodes/owner-responses/bundle.json");
    let (by_worker, kept) = (std::fs::read(&bundle).unwrap(), std::fs::read(world.file("orders/barred.json")).unwrap());
    std::fs::remove_file(&bundle).unwrap();
    std::fs::remove_file(world.file("nodes/owner-responses/barred.json")).unwrap();
    let world = world.restart();
    let says = |world: &World, what: &str| {
        assert_eq!(refused(world, &gone), Some(Code::NodeIdentityInvalid), "{what}");
        assert_eq!(refused(world, &stays), None, "{what}");
        assert_eq!(state(world, &gone), SnapshotState::Barred, "{what}");
    };
    says(&world, "no bundle");
    world.parts.tick();
    says(&world, "no bundle, after a turn");
    // The worker's bundle is back, and its list is not; then a list of its own takes the kept one's place.
    write(&bundle, &by_worker);
    world.parts.tick();
    says(&world, "the bundle and no list");
    // A bundle whose worker did not sign what is kept.
    let other = SignedList::sign(&list(&fleet, 9, vec![gone.node.fingerprint]), &key(93)).unwrap();
    std::fs::write(world.file("orders/barred.json"), other.to_bytes().unwrap()).unwrap();
    let world = world.restart();
    for _ in 0..2 {
        world.parts.tick();
        says(&world, "another worker's");
    }
    bars(&world, &fleet, 6, &[]);
    assert_eq!(refused(&world, &gone), None);
    assert_ne!(std::fs::read(world.file("orders/barred.json")).unwrap(), kept);
}

// spec: CO-371
#[test]
fn a_kept_list_that_is_none_stops_the_start() {
    let world = World::new();
    let fleet = fleet(&world);
    publish(&world, &fleet);
    bars(&world, &fleet, 5, &[]);
    let kept = SignedBarred::from_parts(b"{}".to_vec(), key(93).sign_der(b"{}"));
    std::fs::write(world.file("orders/barred.json"), kept.to_bytes().unwrap()).unwrap();
    let refused = super::durability::refused(&super::durability::stopped(world));
    let OpenError::RosterMark(JsonFileError::Damaged { path, .. }) = &refused else { panic!("{refused:?}") };
    assert!(path.ends_with("barred.json"), "{path:?}");
}

// spec: CO-261
#[test]
fn no_list_but_a_newer_one_of_this_fleets_worker_is_taken() {
    let world = World::new();
    let (gone, fleet) = (world.node(7), fleet(&world));
    publish(&world, &fleet);
    bars(&world, &fleet, 5, &[&gone]);
    let none = |number| list::<Fingerprint>(&fleet, number, Vec::new());
    let by_worker = |list: &List<Fingerprint>| SignedList::sign(list, &fleet.ca.worker_key).unwrap();
    let other_fleet = List { fleet: lucia_proto::base::digest::Digest::of(b"another root"), ..none(6) };
    let later = List { time: fleet.now.plus(LIST_INTERVAL), ..none(5) };
    let edited = {
        let good = by_worker(&none(6));
        let text = String::from_utf8(good.parts().payload().to_vec()).unwrap().replace("\"number\":6", "\"number\":7");
        SignedBarred::from_parts(text.into_bytes(), good.parts().signature().to_vec())
    };
    let unknown_member = {
        let text = String::from_utf8(by_worker(&none(6)).parts().payload().to_vec()).unwrap();
        let text = text.replacen('{', r#"{"more":1,"#, 1);
        let text = [b"lucia-barred-v1\n", text.as_bytes()].concat();
        SignedBarred::from_parts(text[16..].to_vec(), fleet.ca.worker_key.sign_der(&text))
    };
    let world = [
        ("older", by_worker(&none(4))),
        ("another of the same number", by_worker(&later)),
        ("another fleet's", by_worker(&other_fleet)),
        ("another's", SignedList::sign(&none(6), &key(93)).unwrap()),
        ("edited", edited),
        ("unknown member", unknown_member),
    ]
    .into_iter()
    .fold(world, |world, (what, list)| {
        says(&world, "barred", &list);
        assert_eq!(refused(&world, &gone), Some(Code::NodeIdentityInvalid), "{what}");
        let world = world.restart();
        world.parts.tick();
        assert_eq!(refused(&world, &gone), Some(Code::NodeIdentityInvalid), "{what}, after a restart");
        world
    });
    for bytes in [&b"{}"[..], &vec![b' '; lucia_proto::base::limits::LIST_FILE_MAX + 1]] {
        write(&world.file("nodes/owner-responses/barred.json"), bytes);
        world.parts.tick();
        assert_eq!(refused(&world, &gone), Some(Code::NodeIdentityInvalid));
    }
    says(&world, "barred", &by_worker(&none(6)));
    assert_eq!(refused(&world, &gone), None);
}

// spec: CO-262
#[test]
fn a_barred_key_is_marked_in_discovery_and_cannot_be_approved() {
    let world = World::new();
    let (barred, other, fleet) = (Machine::new(7), Machine::new(8), fleet(&world));
    publish(&world, &fleet);
    bars(&world, &fleet, 5, &[&barred]);
    world.window();
    barred.discover(&world).unwrap();
    other.discover(&world).unwrap();
    let view = world.parts.enrollment.onboarding();
    let of = |machine: &Machine| view.devices.iter().find(|device| device.device_id == *machine.id()).unwrap();
    assert!(of(&barred).barred && !of(&other).barred);
    assert_eq!(Next::of(of(&barred), world.now()), Next::Barred);
    let journal = world.journal();
    let refusal = barred.approve(&world).unwrap_err();
    assert_eq!(refusal.code, Code::KeyBarred);
    assert!(refusal.message.contains(of(&barred).verification_code.as_str()), "{refusal}");
    assert_eq!(world.journal(), journal);
    assert!(barred.state(&world).is_ok(), "it hears that it waits");
    other.approve(&world).unwrap();
    // One that was approved before its key was barred gets no further.
    bars(&world, &fleet, 6, &[&barred, &other]);
    assert_eq!(code(other.installation(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(code(other.grant_with(&world, &other.grant_request())), Some(Code::NodeIdentityInvalid));
}

// spec: CO-263
#[test]
fn a_node_that_an_order_ends_is_heard_until_it_knows() {
    let world = World::new();
    let (node, fleet) = (world.node(7), fleet(&world));
    publish(&world, &fleet);
    let draft = fleet.draft(OrderKind::RemoveIdentity, |_| ());
    let order = super::relay::ordered(&world, &fleet, &draft);
    // The worker bars its key and says so before the node heard of anything.
    bars(&world, &fleet, 5, &[&node]);
    assert_eq!((refused(&world, &node), state(&world, &node)), (None, SnapshotState::Online));
    super::relay::worker_says(&world, &node, order, None);
    assert_eq!(super::relay::handed(&world, &node, &fleet), Some(order));
    super::relay::tells(&world, &node, &fleet, order, None);
    assert!(world.parts.nodes().nodes.is_empty());
}

// spec: CO-264
#[test]
fn names_are_carried_as_the_worker_signed_them() {
    let world = World::new();
    let (node, fleet) = (world.node(7), fleet(&world));
    assert!(world.parts.people.signed_names().names.is_none());
    publish(&world, &fleet);
    let named = NamedNode { id: node.id().clone(), hostname: "web-1".parse().unwrap() };
    let names: SignedNames = signed(&fleet, 5, vec![named]);
    says(&world, "names", &names);
    let view = world.parts.people.signed_names();
    assert_eq!((view.names.as_ref(), view.bundle.as_ref()), (Some(&names), Some(fleet.bundle.signed())));
    says(&world, "names", &signed::<NamedNode>(&fleet, 4, Vec::new()));
    assert_eq!(world.parts.people.signed_names().names, Some(names));
}

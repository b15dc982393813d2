use std::time::Duration;

use super::*;
use crate::base::limits::LIST_INTERVAL;
use crate::pki::signed::signed_text;
use crate::test_support::{OrderWorld, TestCa, TestNode, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn barred(world: &OrderWorld) -> List<Fingerprint> {
    let mut entries = vec![world.node.fingerprint, TestNode::new(8).fingerprint];
    entries.sort();
    List { fleet: world.fleet, number: 5, time: NOW, entries }
}

fn names(world: &OrderWorld) -> List<NamedNode> {
    let named = |node: TestNode| NamedNode { id: node.node_id, hostname: node.hostname };
    let mut entries = vec![named(TestNode::new(7)), named(TestNode::new(8))];
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    List { fleet: world.fleet, number: 5, time: NOW, entries }
}

/// Both lists hold to the same rules; whatever is wrong refuses the whole.
fn holds_to_the_rules<E: ListEntry + PartialEq + std::fmt::Debug>(good: &List<E>) {
    let world = OrderWorld::new(NOW);
    let sign = |list: &List<E>| SignedList::sign(list, &world.ca.worker_key).unwrap();
    let verify = |signed: &SignedList<E>| signed.verify(&world.bundle, &world.fleet);
    let with = |change: &dyn Fn(&mut List<E>)| {
        let mut list = good.clone();
        change(&mut list);
        verify(&sign(&list))
    };
    let signed = sign(good);
    let read = SignedList::<E>::from_bytes(&signed.to_bytes().unwrap()).unwrap();
    let list = verify(&read).unwrap();
    assert_eq!((list.list(), list.signed()), (good, &signed));
    assert!(good.entries.iter().all(|entry| list.get(entry.key()) == Some(entry)));
    assert!(with(&|list| list.entries.clear()).is_ok());
    assert!(matches!(with(&|list| list.number = 0), Err(ListError::Number(_))));
    assert!(matches!(with(&|list| list.fleet = Digest::of(b"x")), Err(ListError::OtherFleet { .. })));
    assert!(matches!(with(&|list| list.entries.reverse()), Err(ListError::Order(_))));
    let twice = with(&|list| list.entries.insert(0, list.entries.first().cloned().unwrap()));
    assert!(matches!(twice, Err(ListError::Order(_))));
    let many = with(&|list| list.entries = vec![good.entries.first().cloned().unwrap(); LIST_ENTRIES_MAX + 1]);
    assert!(matches!(many, Err(ListError::Count { .. })));

    // Who signed, and what.
    for (who, other) in [("another", key(93)), ("the root", TestCa::new(NOW).root_key)] {
        let forged = SignedList::sign(good, &other).unwrap();
        assert!(matches!(verify(&forged), Err(ListError::Signature(_))), "{who}");
    }
    let payload = signed.parts().payload();
    let edited = String::from_utf8(payload.to_vec()).unwrap().replacen("\"number\":5", "\"number\":6", 1);
    let signature = signed.parts().signature().to_vec();
    let edited = SignedList::<E>::from_parts(edited.into_bytes(), signature);
    assert!(matches!(verify(&edited), Err(ListError::Signature(_))), "edited");
    for tag in [&b"lucia-roster-v1\n"[..], b"lucia-barred-v1\n", b"lucia-names-v1\n", b"lucia-answer-v1\n", b""] {
        let signature = world.ca.worker_key.sign_der(&signed_text(tag, payload));
        let signed = SignedList::<E>::from_parts(payload.to_vec(), signature);
        assert_eq!(verify(&signed).is_ok(), tag == E::TAG, "{}", String::from_utf8_lossy(tag));
    }
    // Payloads that a worker signed and that are no such list.
    let text = String::from_utf8(payload.to_vec()).unwrap();
    for bad in [
        text.replacen('{', r#"{"more":1,"#, 1),
        text.replacen("\"number\":5,", "", 1),
        text.replacen("\"number\":5", "\"number\":5,\"number\":5", 1),
        format!("{text} x"),
        " ".repeat(LIST_PAYLOAD_MAX) + &text,
    ] {
        let signature = world.ca.worker_key.sign_der(&signed_text(E::TAG, bad.as_bytes()));
        let signed = SignedList::<E>::from_parts(bad.into_bytes(), signature);
        assert!(matches!(verify(&signed), Err(ListError::Json { .. })));
    }
    let more = String::from_utf8(signed.to_bytes().unwrap()).unwrap().replacen('{', r#"{"more":1,"#, 1);
    assert!(SignedList::<E>::from_bytes(more.as_bytes()).is_err());
    assert!(SignedList::<E>::from_bytes(&vec![b' '; LIST_FILE_MAX + 1]).is_err());

    // The number only rises, and one number is one list.
    let at = |number: u64, time: UnixTime| {
        let mut list = good.clone();
        (list.number, list.time) = (number, time);
        verify(&sign(&list)).unwrap()
    };
    let held = list.taken();
    assert!(at(5, NOW).supersedes(Some(held), &world.bundle).is_ok());
    assert!(at(6, NOW).supersedes(Some(held), &world.bundle).is_ok());
    assert!(at(1, NOW).supersedes(None, &world.bundle).is_ok());
    let older = at(4, NOW).supersedes(Some(held), &world.bundle);
    assert!(matches!(older, Err(ListError::Older { current: 5, offered: 4, .. })));
    let other = at(5, NOW.plus(LIST_INTERVAL)).supersedes(Some(held), &world.bundle);
    assert!(matches!(other, Err(ListError::Conflict { number: 5, .. })));
    let former = world.ca.signed_bundle(2, NOW).verify(&world.ca.root()).unwrap();
    let before = signed.verify(&former, &world.fleet).unwrap().supersedes(Some(held), &former);
    assert!(matches!(before, Err(ListError::OlderBundle { current: 3, offered: 2, .. })));

    // Its time.
    let second = Duration::from_secs(1);
    for (now, want) in [
        (NOW, true),
        (NOW.plus(LIST_AGE_MAX), true),
        (NOW.plus(LIST_AGE_MAX + second), false),
        (NOW.minus(LIST_AHEAD), true),
        (NOW.minus(LIST_AHEAD + second), false),
    ] {
        assert_eq!(list.is_fresh(now), want, "{now}");
    }
}

// spec: LI-260, LI-261, LI-262
#[test]
fn both_lists_are_of_this_fleet_by_its_worker_whole_in_order_and_never_older() {
    let world = OrderWorld::new(NOW);
    holds_to_the_rules(&barred(&world));
    holds_to_the_rules(&names(&world));
    let listed = SignedList::sign(&names(&world), &world.ca.worker_key).unwrap();
    let listed = listed.verify(&world.bundle, &world.fleet).unwrap();
    assert_eq!(listed.get(&TestNode::new(7).node_id).map(|node| &node.hostname), Some(&TestNode::new(7).hostname));
    assert_eq!(listed.get(&TestNode::new(9).node_id), None);
}

// spec: LI-263
#[test]
fn the_longest_lists_have_room() {
    let world = OrderWorld::new(NOW);
    let id = |at: usize| format!("{at:032x}");
    let longest: Hostname = "a".repeat(63).parse().unwrap();
    let named = |at| NamedNode { id: id(at).parse().unwrap(), hostname: longest.clone() };
    let list = List {
        fleet: world.fleet,
        number: u64::MAX >> 11,
        time: NOW,
        entries: (0..LIST_ENTRIES_MAX).map(named).collect(),
    };
    let signed = SignedList::sign(&list, &world.ca.worker_key).unwrap();
    let bytes = signed.to_bytes().unwrap();
    assert!(signed.parts().payload().len() <= LIST_PAYLOAD_MAX && bytes.len() <= LIST_FILE_MAX);
    assert!(SignedNames::from_bytes(&bytes).unwrap().verify(&world.bundle, &world.fleet).is_ok());
    let keys = |at: usize| format!("{at:064x}").parse::<Fingerprint>().unwrap();
    let entries = (0..LIST_ENTRIES_MAX).map(keys).collect();
    let list = List { fleet: world.fleet, number: list.number, time: NOW, entries };
    let signed = SignedList::sign(&list, &world.ca.worker_key).unwrap();
    assert!(signed.to_bytes().unwrap().len() <= LIST_FILE_MAX && signed.verify(&world.bundle, &world.fleet).is_ok());
}

fn golden<E: ListEntry + PartialEq + std::fmt::Debug>(list: &List<E>, text: &str, payload: &str) {
    let world = OrderWorld::new(NOW);
    let signed = SignedList::<E>::from_bytes(text.as_bytes()).unwrap();
    assert_eq!(signed.to_bytes().unwrap(), text.as_bytes());
    assert_eq!(signed.parts().payload(), payload.as_bytes());
    assert_eq!(signed, SignedList::sign(list, &world.ca.worker_key).unwrap());
    assert_eq!(signed.verify(&world.bundle, &world.fleet).unwrap().list(), list);
}

macro_rules! vector {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/vectors/lists-v1/", $name))
    };
}

// spec: LI-264
#[test]
fn the_golden_lists_never_change() {
    let world = OrderWorld::new(NOW);
    golden(&barred(&world), vector!("barred.json"), vector!("barred-payload.json"));
    golden(&names(&world), vector!("names.json"), vector!("names-payload.json"));
}

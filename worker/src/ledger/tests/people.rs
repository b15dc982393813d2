//! Lines about owners: what they ordered, the roster's versions, and whose each key is.

use super::*;

// spec: OA-1
#[test]
fn an_order_is_one_line_that_is_whole_and_stands_once() {
    let heir = |number, name_of| NodeNames { hostname: names(name_of).hostname, ..names(number) };
    let admit = |order| ordered(2, order, OrderEffect::Admit { replaces: None });
    let replace = |number, of: u8, gone: u8| Entry::Ordered {
        node: heir(number, of),
        by: OrderedBy { intent: OrderId::of("replace"), signers: vec![owner(7)] },
        act: OrderEffect::Admit { replaces: Some(names(gone).node_id) },
    };
    let release = |serial: &str| ordered(1, 9, OrderEffect::Release { serial: serial.to_owned() });
    let bar = |order| ordered(1, order, OrderEffect::Bar);
    for (good, entries) in [
        (true, vec![admit(1)]),
        (false, vec![admit(1), admit(1)]),
        (false, vec![admit(1), admit(2)]),
        (false, vec![admitted(2), admit(1)]),
        (true, vec![replace(2, 1, 1)]),
        // From a node that does not have it, from nobody, to a node that is known.
        (false, vec![admitted(3), replace(2, 1, 3)]),
        (false, vec![replace(2, 1, 3)]),
        (false, vec![admitted(2), replace(2, 1, 1)]),
        (false, vec![replace(2, 1, 1), issued(1)]),
        (true, vec![issued(1), release("7f")]),
        (false, vec![issued(1), release("7e")]),
        (true, vec![bar(1)]),
        (false, vec![bar(1), bar(2)]),
        (false, vec![bar(1), issued(1)]),
        (true, vec![bar(1), ordered(1, 2, OrderEffect::Note)]),
        (false, vec![ordered(3, 2, OrderEffect::Note)]),
        (false, vec![ordered(1, 2, OrderEffect::Note), ordered(1, 2, OrderEffect::Bar)]),
    ] {
        let all: Vec<Entry> = [admitted(1)].into_iter().chain(entries.clone()).collect();
        assert_eq!(told(&all).is_ok(), good, "{entries:?}");
    }
    // A line that is none changes nothing: not even that a name was given away, or a key barred.
    for (known, line) in [(2, replace(2, 1, 1)), (3, replace(2, 1, 3))] {
        let mut records = told(&[admitted(1), admitted(known)]).unwrap();
        let before = records.clone();
        records.apply(NOW, &line).unwrap_err();
        assert_eq!(records, before, "{line:?}");
    }
    let moved = told(&[admitted(1), issued(1), replace(2, 1, 1)]).unwrap();
    assert_eq!(moved.owner_of(&names(1).hostname).unwrap().names, heir(2, 1));
    assert!(moved.is_barred(&names(1).fingerprint) && !moved.is_barred(&names(2).fingerprint));
    assert_eq!(moved.ordered_at(&OrderId::of("replace")), Some(NOW));
    assert!(moved.node(&names(2).node_id).unwrap().acted_since(NOW));
}

// spec: OA-2
#[test]
fn the_rosters_version_only_rises_and_only_who_is_in_it_leaves() {
    let come = |number: u8, version, role| Entry::OwnerApproved {
        owner: owner(number),
        name: name(),
        role,
        key: key(number).public().fingerprint(),
        roster: roster(version),
    };
    let go = |number, version| Entry::OwnerRemoved { owner: owner(number), name: name(), roster: roster(version) };
    for (has_owner, entries) in [
        (Some(false), vec![]),
        (Some(true), vec![come(7, 1, Role::Owner)]),
        (Some(false), vec![come(7, 1, Role::Viewer)]),
        (Some(true), vec![come(7, 1, Role::Owner), come(8, 2, Role::Owner), go(7, 3)]),
        (Some(false), vec![come(7, 1, Role::Owner), come(8, 2, Role::Viewer), go(7, 3)]),
        (None, vec![come(7, 1, Role::Owner), come(8, 1, Role::Owner)]),
        (None, vec![come(7, 2, Role::Owner), go(7, 1)]),
        (None, vec![come(7, 1, Role::Owner), go(8, 2)]),
        (None, vec![come(7, 1, Role::Owner), go(7, 2), go(7, 3)]),
    ] {
        assert_eq!(told(&entries).ok().map(|records| records.has_owner()), has_owner, "{entries:?}");
    }
}

// spec: OA-43
#[test]
fn a_key_is_somebodys_once_and_the_last_one_goes_with_its_owner_alone() {
    let print = |number: u8| key(number).public().fingerprint();
    let come = |number: u8, version| Entry::OwnerApproved {
        owner: owner(number),
        name: name(),
        role: Role::Owner,
        key: print(number),
        roster: roster(version),
    };
    let more = |number, of, version| Entry::OwnerKeyAdded {
        owner: owner(number),
        name: name(),
        key: print(of),
        roster: roster(version),
    };
    let less = |number, of, version| Entry::OwnerKeyRemoved {
        owner: owner(number),
        name: name(),
        key: print(of),
        roster: roster(version),
    };
    let go = |number, version| Entry::OwnerRemoved { owner: owner(number), name: name(), roster: roster(version) };
    let change = |version| Entry::RosterChanged { roster: roster(version) };
    for (left, entries) in [
        (Some(vec![]), vec![come(7, 1), more(7, 9, 2)]),
        (Some(vec![7]), vec![come(7, 1), more(7, 9, 2), less(7, 7, 3), change(4)]),
        (Some(vec![7, 9]), vec![come(7, 1), more(7, 9, 2), less(7, 7, 3), go(7, 4)]),
        (Some(vec![7, 9]), vec![come(7, 1), more(7, 9, 2), go(7, 3)]),
        // To nobody; twice; to another; one that left.
        (None, vec![more(7, 9, 2)]),
        (None, vec![come(7, 1), more(7, 7, 2)]),
        (None, vec![come(7, 1), come(8, 2), more(8, 7, 3)]),
        (None, vec![come(7, 1), more(7, 9, 2), less(7, 9, 3), more(7, 9, 4)]),
        // The last one; another's; under a version that is there.
        (None, vec![come(7, 1), less(7, 7, 2)]),
        (None, vec![come(7, 1), come(8, 2), more(8, 9, 3), less(7, 9, 4)]),
        (None, vec![come(7, 1), more(7, 9, 1)]),
        (None, vec![come(7, 1), more(7, 9, 2), less(7, 7, 2)]),
        (None, vec![come(7, 2), change(2)]),
    ] {
        let records = told(&entries).ok();
        let gone = |records: &Records| [7, 8, 9].into_iter().filter(|n| records.has_left(&print(*n))).collect();
        assert_eq!(records.as_ref().map(gone), left, "{entries:?}");
    }
}

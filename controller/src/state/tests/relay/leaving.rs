//! Orders of people who may order no more, and orders that somebody was handed.

use lucia_proto::code::Code;
use lucia_proto::intent::{IntentCode, IntentKind};
use lucia_proto::owner::Role;
use lucia_proto::owner_api::DraftState;

use super::super::bench::{World, code};
use super::super::owners::publish;
use super::{OPERATOR, OrderWorld, handed, keys, of_bob, ordered, owned, state_of, tells, worker_says};

/// The roster changes, and the controller looks.
fn change(world: &World, fleet: &mut OrderWorld, what: impl FnOnce(&mut lucia_proto::roster::Roster)) {
    fleet.change_roster(what);
    publish(world, fleet);
}

// spec: CO-43
#[test]
fn who_may_order_no_more_has_nothing_handed_out_any_more() {
    for (name, want) in
        [("left", IntentCode::OwnerUnknown), ("viewer", IntentCode::NotAnOwner), ("new key", IntentCode::KeyUnknown)]
    {
        let (world, mut fleet, node) = owned();
        let alice = fleet.alice.id.clone();
        let other = fleet.mallory.entry(Role::Owner).keys;
        let waits = ordered(&world, &fleet, &keys(&fleet, 4));
        let asked = ordered(&world, &fleet, &fleet.draft(IntentKind::ReleaseLapse, |_| ()));
        let request = world.file(&format!("nodes/owner-requests/intent-{asked}.json"));
        assert_eq!(handed(&world, &node, &fleet), Some(waits));
        assert!(request.exists());
        let owner = |roster: &mut lucia_proto::roster::Roster| match name {
            "left" => roster.owners.retain(|owner| owner.id != alice),
            _ => {
                let owner = roster.owners.iter_mut().find(|owner| owner.id == alice).unwrap();
                if name == "viewer" { owner.role = Role::Viewer } else { owner.keys = other }
            }
        };
        // At the very moment the roster is there, before any tick looked at the orders.
        fleet.change_roster(owner);
        for (file, text) in [
            ("bundle", lucia_proto::json::to_string(fleet.bundle.signed())),
            ("roster", lucia_proto::json::to_string(fleet.roster.signed())),
        ] {
            let path = world.file(&format!("nodes/owner-responses/{file}.json"));
            super::super::bench::write(&path, text.unwrap().as_bytes());
        }
        world.controller.follow_worker();
        assert_eq!(handed(&world, &node, &fleet), None, "{name}");
        world.controller.tick();
        assert!(!request.exists(), "{name}: the worker is asked no more");
        for order in [waits, asked] {
            let line = state_of(&world, order);
            assert_eq!((line.state, line.outcomes[0].refused), (DraftState::Refused, Some(want)), "{name}");
        }
        let world = world.restart();
        publish(&world, &fleet);
        assert_eq!(handed(&world, &node, &fleet), None, "{name}");
        assert!(!request.exists(), "{name}");
    }
}

// spec: CO-43
#[test]
fn what_was_done_before_its_owner_left_stays_done() {
    let (world, mut fleet, node) = owned();
    let done = ordered(&world, &fleet, &keys(&fleet, 4));
    tells(&world, &node, &fleet, done, None);
    let released = ordered(&world, &fleet, &fleet.draft(IntentKind::ReleaseLapse, |_| ()));
    worker_says(&world, &node, released, None);
    let alice = fleet.alice.id.clone();
    change(&world, &mut fleet, |roster| roster.owners.retain(|owner| owner.id != alice));
    for order in [done, released] {
        assert_eq!(state_of(&world, order).state, DraftState::Done);
    }
}

// spec: CO-44
#[test]
fn what_was_handed_out_is_not_called_back_and_says_so() {
    let (world, fleet, node) = owned();
    let draft = keys(&fleet, 4);
    let dropped = |draft: &lucia_proto::intent::Draft| {
        code(world.controller.drop_draft(&draft.read().unwrap().code(), &OPERATOR))
    };
    world.advance(1);
    let order = ordered(&world, &fleet, &draft);
    assert!(!state_of(&world, order).handed_out);
    // Nobody heard it: it is thrown away.
    assert_eq!(dropped(&draft), None);
    let order = ordered(&world, &fleet, &draft);
    assert_eq!(handed(&world, &node, &fleet), Some(order));
    assert!(state_of(&world, order).handed_out);
    assert_eq!(dropped(&draft), Some(Code::IntentRefused));
    assert_eq!(handed(&world, &node, &fleet), Some(order), "it waits for its outcome");
    // Refused by the only one who had it, it is nobody's.
    tells(&world, &node, &fleet, order, Some(IntentCode::KindForbidden));
    assert!(!state_of(&world, order).handed_out);
    assert_eq!(dropped(&draft), None);
    // The worker may have read what lies in its queue.
    let released = fleet.draft(IntentKind::ReleaseLapse, |_| ());
    let order = ordered(&world, &fleet, &released);
    assert!(state_of(&world, order).handed_out);
    assert_eq!(dropped(&released), Some(Code::IntentRefused));
    worker_says(&world, &node, order, Some(IntentCode::NotPossible));
    assert_eq!(dropped(&released), None);
    // Another node's heartbeat hands nothing out.
    let bobs = of_bob(&fleet);
    let order = ordered(&world, &fleet, &bobs);
    world.node(8);
    assert!(!state_of(&world, order).handed_out);
    tells(&world, &node, &fleet, order, None);
    assert_eq!(dropped(&bobs), Some(Code::IntentRefused), "what was carried out stays");
}

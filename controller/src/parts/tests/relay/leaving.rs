//! Orders of people who may order no more, and orders that somebody was handed.

use lucia_people::owner_api::DraftState;
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::{Actor, OrderCode, OrderHead, OrderKind, Rule, SignedOrder};

use super::super::bench::{World, code};
use super::super::owners::publish;
use super::{OPERATOR, OrderWorld, handed, keys, of_bob, ordered, owned, state_of, tells, told, worker_says};

/// The roster changes, and the controller looks.
fn change(world: &World, fleet: &mut OrderWorld, what: impl FnOnce(&mut lucia_proto::orders::roster::Roster)) {
    fleet.change_roster(what);
    publish(world, fleet);
}

// spec: CO-43
#[test]
fn who_may_order_no_more_has_nothing_handed_out_any_more() {
    for (name, want) in
        [("left", OrderCode::OwnerUnknown), ("viewer", OrderCode::NotAnOwner), ("new key", OrderCode::KeyUnknown)]
    {
        let (world, mut fleet, node) = owned();
        let alice = fleet.alice.id.clone();
        let other = fleet.mallory.entry(Role::Owner).keys;
        let waits = ordered(&world, &fleet, &keys(&fleet, 4));
        let asked = ordered(&world, &fleet, &fleet.draft(OrderKind::ReleaseLapse, |_| ()));
        let request = world.file(&format!("nodes/owner-requests/intent-{asked}.json"));
        assert_eq!(handed(&world, &node, &fleet), Some(waits));
        assert!(request.exists());
        let owner = |roster: &mut lucia_proto::orders::roster::Roster| match name {
            "left" => roster.owners.retain(|owner| owner.id != alice),
            _ => {
                let owner = roster.owners.iter_mut().find(|owner| owner.id == alice).unwrap();
                if name == "viewer" { owner.role = Role::Viewer } else { owner.keys = other }
            }
        };
        // At the very moment the roster is there, before any tick looked at the orders.
        fleet.change_roster(owner);
        for (file, text) in [
            ("bundle", lucia_proto::base::json::to_string(fleet.bundle.signed())),
            ("roster", lucia_proto::base::json::to_string(fleet.roster.signed())),
        ] {
            let path = world.file(&format!("nodes/owner-responses/{file}.json"));
            super::super::bench::write(&path, text.unwrap().as_bytes());
        }
        world.parts.people.follow();
        world.parts.orders.follow_trust();
        assert_eq!(handed(&world, &node, &fleet), None, "{name}");
        world.parts.tick();
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

/// Signed by alice, for whom it speaks, and by bob.
fn by_both(world: &World, fleet: &OrderWorld, draft: &lucia_proto::orders::Draft) -> lucia_proto::orders::OrderId {
    let order = ordered(world, fleet, draft);
    world.parts.orders.sign(&draft.read().unwrap().code(), fleet.bob.sign(draft), &OPERATOR).unwrap();
    order
}

/// An order stands by the signatures of those who may order, where theirs are enough.
// spec: CO-91
#[test]
fn a_signature_of_who_left_ends_no_order_that_the_others_are_enough_for() {
    for (name, two, want) in [("one is enough", false, None), ("two are asked", true, Some(OrderCode::OwnerUnknown))] {
        let (world, mut fleet, node) = owned();
        let waits = by_both(&world, &fleet, &keys(&fleet, 4));
        let asked = by_both(&world, &fleet, &fleet.draft(OrderKind::ReleaseLapse, |_| ()));
        let request = world.file(&format!("nodes/owner-requests/intent-{asked}.json"));
        let bob = fleet.bob.id.clone();
        change(&world, &mut fleet, |roster| {
            roster.owners.retain(|owner| owner.id != bob);
            if two {
                roster.policy = lucia_proto::orders::OrderPolicy::allow_all().with_default(Rule::TwoOwners);
            }
        });
        world.parts.tick();
        for order in [waits, asked] {
            let line = state_of(&world, order);
            let (state, signers) = if two { (DraftState::Refused, 2) } else { (DraftState::Signed, 1) };
            assert_eq!((line.state, line.signers.len()), (state, signers), "{name}");
            assert_eq!(line.outcomes.first().and_then(|outcome| outcome.refused), want, "{name}");
        }
        assert_eq!(handed(&world, &node, &fleet), want.is_none().then_some(waits), "{name}");
        assert_eq!(request.exists(), want.is_none(), "{name}");
        if two {
            continue;
        }
        // Those who carry it out take it: nothing that nobody knows stands under it any more.
        for signed in [signed_at(&request), told(&world, &node, &super::holding(&fleet)).intent.map(|order| *order)] {
            let signed = signed.unwrap();
            assert_eq!(signed.signatures.len(), 1, "{name}");
            signed.check_authority(kind_actor(&signed), &fleet.policy, &fleet.roster).unwrap();
        }
        let world = world.restart();
        publish(&world, &fleet);
        assert_eq!(handed(&world, &node, &fleet), Some(waits), "after a restart");
    }
}

/// What was done is told with everybody who ordered it, whoever of them left since.
// spec: CO-96
#[test]
fn an_order_that_was_done_keeps_the_signatures_of_all_who_gave_it() {
    let (world, mut fleet, node) = owned();
    let done = by_both(&world, &fleet, &keys(&fleet, 4));
    tells(&world, &node, &fleet, done, None);
    assert_eq!(state_of(&world, done).state, DraftState::Done);
    let bob = fleet.bob.id.clone();
    change(&world, &mut fleet, |roster| roster.owners.retain(|owner| owner.id != bob));
    world.parts.tick();
    assert_eq!(state_of(&world, done).signers.len(), 2);
    let world = world.restart();
    publish(&world, &fleet);
    world.parts.tick();
    let line = state_of(&world, done);
    assert_eq!((line.state, line.signers.len()), (DraftState::Done, 2));
}

/// The worker publishes the roster in the very turn in which it looks at its orders, and the controller hears of its refusal
/// first.
// spec: CO-91
#[test]
fn who_refused_it_for_that_signature_is_asked_anew() {
    let (world, mut fleet, node) = owned();
    let order = by_both(&world, &fleet, &fleet.draft(OrderKind::ReleaseLapse, |_| ()));
    let request = world.file(&format!("nodes/owner-requests/intent-{order}.json"));
    worker_says(&world, &node, order, Some(OrderCode::OwnerUnknown));
    assert_eq!(state_of(&world, order).state, DraftState::Refused);
    let bob = fleet.bob.id.clone();
    change(&world, &mut fleet, |roster| roster.owners.retain(|owner| owner.id != bob));
    world.parts.tick();
    world.parts.tick();
    assert_eq!(state_of(&world, order).state, DraftState::Signed);
    assert_eq!(signed_at(&request).unwrap().signatures.len(), 1);
    world.advance(1);
    worker_says(&world, &node, order, None);
    assert_eq!(state_of(&world, order).state, DraftState::Done);
    // A draft that nobody's order is yet loses the place too, for who may sign.
    let draft = keys(&fleet, 5);
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    change(&world, &mut fleet, |roster| roster.policy = roster.policy.clone().with_default(Rule::TwoOwners));
    let code = draft.read().unwrap().code();
    world.parts.orders.sign(&code, fleet.alice.sign(&draft), &OPERATOR).unwrap();
    let alices = fleet.alice.id.clone();
    let other = fleet.mallory.entry(Role::Owner).keys;
    change(&world, &mut fleet, |roster| {
        roster.owners.iter_mut().filter(|owner| owner.id == alices).for_each(|owner| owner.keys.clone_from(&other));
    });
    world.parts.tick();
    assert_eq!(world.parts.orders.draft(&code).unwrap().signatures.len(), 0);
}

fn signed_at(file: &std::path::Path) -> Option<SignedOrder> {
    SignedOrder::from_bytes(&std::fs::read(file).ok()?).ok()
}

fn kind_actor(signed: &SignedOrder) -> Actor {
    OrderHead::parse(&signed.intent_json).unwrap().kind.actors()[0]
}

// spec: CO-43
#[test]
fn what_was_done_before_its_owner_left_stays_done() {
    let (world, mut fleet, node) = owned();
    let done = ordered(&world, &fleet, &keys(&fleet, 4));
    tells(&world, &node, &fleet, done, None);
    let released = ordered(&world, &fleet, &fleet.draft(OrderKind::ReleaseLapse, |_| ()));
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
    let dropped = |draft: &lucia_proto::orders::Draft| {
        code(world.parts.orders.drop_draft(&draft.read().unwrap().code(), &OPERATOR))
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
    tells(&world, &node, &fleet, order, Some(OrderCode::KindForbidden));
    assert!(!state_of(&world, order).handed_out);
    assert_eq!(dropped(&draft), None);
    // The worker may have read what lies in its queue.
    let released = fleet.draft(OrderKind::ReleaseLapse, |_| ());
    let order = ordered(&world, &fleet, &released);
    assert!(state_of(&world, order).handed_out);
    assert_eq!(dropped(&released), Some(Code::IntentRefused));
    worker_says(&world, &node, order, Some(OrderCode::NotPossible));
    assert_eq!(dropped(&released), None);
    // Another node's heartbeat hands nothing out.
    let bobs = of_bob(&fleet);
    let order = ordered(&world, &fleet, &bobs);
    world.node(8);
    assert!(!state_of(&world, order).handed_out);
    tells(&world, &node, &fleet, order, None);
    assert_eq!(dropped(&bobs), Some(Code::IntentRefused), "what was carried out stays");
}

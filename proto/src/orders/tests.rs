use super::*;
use crate::base::digest::Digest;
use crate::base::limits::ORDER_AHEAD;
use crate::base::limits::ORDER_LIFETIME_MAX;
use crate::base::time::UnixTime;
use crate::test_support::{OrderWorld, hostile_intents};
use std::time::Duration;

mod contract;
mod memory;
mod passkey;
mod text;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const SECOND: Duration = Duration::from_secs(1);

fn world() -> OrderWorld {
    OrderWorld::new(NOW)
}

#[track_caller]
fn refused(signed: &SignedOrder, by: &Checker<'_>, code: OrderCode) {
    match signed.check(by) {
        Ok(_) => panic!("taken, where {code:?} was to refuse it"),
        Err(refusal) => assert_eq!(refusal.code(), code, "{}", crate::base::text::chain(&refusal)),
    }
}

// spec: IN-6
#[test]
fn an_owners_order_of_each_kind_is_taken_by_those_who_act_on_it() {
    let world = world();
    for kind in OrderKind::ALL {
        let order = world.order(*kind);
        let order = SignedOrder::from_bytes(&order.to_bytes().unwrap()).unwrap();
        for actor in [Actor::Node, Actor::Worker, Actor::Controller] {
            let checker = Checker { actor, ..world.checker(*kind) };
            if kind.actors().contains(&actor) {
                let verified = order.check(&checker).unwrap();
                assert_eq!((verified.id(), verified.intent().kind), (order.id(), *kind));
                assert_eq!(verified.signers(), std::slice::from_ref(&world.alice.id));
                let order = world.memory.clone().remember(verified).unwrap();
                assert_eq!(*order.body(), world.body(*kind));
                assert_eq!(order.intent().nodes.as_slice(), std::slice::from_ref(&world.node.node_id));
                assert_eq!(order.signers(), std::slice::from_ref(&world.alice.id));
            } else {
                refused(&order, &checker, OrderCode::KindElsewhere);
            }
        }
    }
}

// spec: IN-7
#[test]
fn no_forged_edited_or_redirected_order_is_taken() {
    let world = world();
    let table = hostile_intents(&world);
    assert!(table.len() > 150, "{} cases only", table.len());
    for case in table {
        let refusal = case.signed.check(&world.checker(case.kind)).expect_err(&case.name);
        assert_eq!(refusal.code(), case.code, "{}: {}", case.name, crate::base::text::chain(&refusal));
    }
}

// spec: IN-8
#[test]
fn the_checks_come_in_their_order_and_each_has_a_code_of_its_own() {
    let mut world = world();
    let good = world.order(OrderKind::RemoveIdentity);
    let draft = world.draft(OrderKind::RemoveIdentity, |intent| intent.issued_at = NOW.plus(SECOND));
    // Everything is wrong at once; one thing after the other is put right, and the next one refuses.
    let foreign = Digest::of(b"another root");
    let (strange, called) = (world.other.node_id.clone(), world.other.hostname.clone());
    let mut bad = SignedOrder { intent_json: format!("{} x", good.intent_json), ..good.clone() };
    bad.signatures = vec![world.mallory.sign(&draft)];
    bad.body.push(' ');
    let done = good.check(&world.checker(OrderKind::RemoveIdentity)).unwrap();
    assert!(world.memory.remember(done).is_ok());
    let later = NOW.plus(ORDER_LIFETIME_MAX).plus(SECOND);
    let forbid = OrderPolicy::forbid_all();
    let two = OrderPolicy::allow_all().with(OrderKind::RemoveIdentity, Rule::TwoOwners);
    let mut by = Checker {
        policy: &forbid,
        fleet: &foreign,
        node: &strange,
        hostname: &called,
        bundle_version: 2,
        time: None,
        ..world.checker(OrderKind::RemoveIdentity)
    };
    refused(&bad, &by, OrderCode::Malformed);
    bad.intent_json.clone_from(&good.intent_json);
    refused(&bad, &by, OrderCode::KindForbidden);
    by.policy = &two;
    refused(&bad, &by, OrderCode::SecondOwnerNeeded);
    by.policy = &world.policy;
    refused(&bad, &by, OrderCode::OtherFleet);
    by.fleet = &world.fleet;
    refused(&bad, &by, OrderCode::NotNamed);
    by.node = &world.node.node_id;
    refused(&bad, &by, OrderCode::OwnerUnknown);
    bad.signatures = vec![world.alice.sign(&draft)];
    refused(&bad, &by, OrderCode::SignatureInvalid);
    bad.signatures.clone_from(&good.signatures);
    refused(&bad, &by, OrderCode::NoFreshness);
    let at = |now, roster| Some(freshness::OrderTime::at_worker(now, 3, roster));
    by.time = at(NOW.minus(ORDER_AHEAD).minus(SECOND), 6);
    refused(&bad, &by, OrderCode::BundleBehind);
    by.bundle_version = 3;
    refused(&bad, &by, OrderCode::RosterBehind);
    let young = OrderMemory::begin(NOW.minus(ORDER_AHEAD).minus(SECOND));
    by.time = at(NOW.minus(ORDER_AHEAD).minus(SECOND), 5);
    refused(&bad, &Checker { memory: &young, ..by }, OrderCode::NotYet);
    by.time = at(later, 5);
    refused(&bad, &by, OrderCode::Expired);
    by.time = at(NOW, 5);
    refused(&bad, &by, OrderCode::BodyMismatch);
    bad.body.clone_from(&good.body);
    refused(&bad, &by, OrderCode::NameDiffers);
    by.hostname = &world.node.hostname;
    refused(&bad, &by, OrderCode::AlreadyDone);
}

// spec: IN-11
#[test]
fn what_was_taken_is_held_against_the_roster_of_now() {
    let mut world = world();
    let kind = OrderKind::RemoveIdentity;
    let good = world.order(kind);
    let code = |world: &OrderWorld, order: &SignedOrder, policy: &OrderPolicy| {
        order.check_authority(Actor::Node, policy, &world.roster).err().map(|refusal| refusal.code())
    };
    let allow = OrderPolicy::allow_all();
    assert_eq!(code(&world, &good, &allow), None);
    assert_eq!(code(&world, &good, &OrderPolicy::forbid_all()), Some(OrderCode::KindForbidden));
    assert_eq!(code(&world, &good, &allow.clone().with(kind, Rule::TwoOwners)), Some(OrderCode::SecondOwnerNeeded));
    let forged = SignedOrder { signatures: vec![world.mallory.sign(&world.draft(kind, |_| ()))], ..good.clone() };
    assert_eq!(code(&world, &forged, &allow), Some(OrderCode::OwnerUnknown));
    world.change_roster(|roster| roster.owners.first_mut().unwrap().role = owner::Role::Viewer);
    assert_eq!(code(&world, &good, &allow), Some(OrderCode::NotAnOwner));
    world.change_roster(|roster| drop(roster.owners.remove(0)));
    assert_eq!(code(&world, &good, &allow), Some(OrderCode::OwnerUnknown));
}

// spec: IN-9
#[test]
fn two_owners_are_two_persons_and_not_two_keys() {
    let mut world = world();
    world.policy = OrderPolicy::allow_all().with(OrderKind::SshKey, Rule::TwoOwners);
    world.change_roster(|roster| {
        roster.page_kinds = vec![OrderKind::SshKey].into();
        let second = owner::OwnerKey {
            key_use: owner::KeyUse::OwnerKey,
            public_key_pem: crate::test_support::key(51).public().to_pem(),
            credential_id: None,
        };
        roster.owners.first_mut().unwrap().keys.push(second);
    });
    let draft = world.draft(OrderKind::SshKey, |_| ());
    let by = world.checker(OrderKind::SshKey);
    let (alice, bob) = (world.alice.sign(&draft), world.bob.sign(&draft));
    let touch = world.alice.touch(&draft, &OrderWorld::origin());
    let second = draft.read().unwrap().sign(world.alice.id.clone(), &crate::test_support::key(51));
    for (name, signatures) in [
        ("one owner", vec![alice.clone()]),
        ("one signature twice", vec![alice.clone(), alice.clone()]),
        ("key and passkey of one owner", vec![alice.clone(), touch.clone()]),
        ("two keys of one owner", vec![alice.clone(), second.clone()]),
    ] {
        let refusal = world.signed(&draft, signatures).check(&by).expect_err(name);
        assert_eq!(refusal.code(), OrderCode::SecondOwnerNeeded, "{name}");
    }
    let viewer = world.signed(&draft, vec![alice.clone(), world.victor.sign(&draft)]);
    refused(&viewer, &by, OrderCode::NotAnOwner);
    for signatures in [vec![alice.clone(), bob.clone()], vec![bob.clone(), alice.clone()], vec![touch, bob]] {
        let verified = world.signed(&draft, signatures).check(&by).unwrap();
        assert_eq!(verified.signers().len(), 2);
    }
    // The roster's policy counts as the node's own.
    world.policy = OrderPolicy::allow_all();
    world.change_roster(|roster| roster.policy = OrderPolicy::allow_all().with(OrderKind::SshKey, Rule::TwoOwners));
    refused(
        &world.signed(&draft, vec![alice.clone()]),
        &world.checker(OrderKind::SshKey),
        OrderCode::SecondOwnerNeeded,
    );
    world.change_roster(|roster| roster.policy = OrderPolicy::forbid_all());
    refused(&world.signed(&draft, vec![alice]), &world.checker(OrderKind::SshKey), OrderCode::KindForbidden);
}

// spec: IN-10
#[test]
fn an_order_counts_from_its_first_second_to_its_last() {
    let mut world = world();
    let once = world.order(OrderKind::RemoveIdentity);
    let state = world.order(OrderKind::SshKey);
    world.memory = OrderMemory::begin(UnixTime::EPOCH);
    let day = ORDER_LIFETIME_MAX;
    for (now, of_once, of_state) in [
        (NOW.minus(ORDER_AHEAD).minus(SECOND), Some(OrderCode::NotYet), Some(OrderCode::NotYet)),
        (NOW.minus(ORDER_AHEAD), None, None),
        (NOW, None, None),
        (NOW.plus(day), None, None),
        (NOW.plus(day).plus(SECOND), Some(OrderCode::Expired), None),
        (NOW.plus(day * 1000), Some(OrderCode::Expired), None),
    ] {
        for (order, kind, want) in [(&once, OrderKind::RemoveIdentity, of_once), (&state, OrderKind::SshKey, of_state)]
        {
            let time = Some(freshness::OrderTime::at_worker(now, 3, 5));
            let got = order.check(&Checker { time, ..world.checker(kind) }).err();
            assert_eq!(got.map(|refusal| refusal.code()), want, "{kind:?} at {now}");
        }
    }
}

// spec: IN-11
#[test]
fn whoever_leaves_the_roster_orders_nothing_more() {
    let mut world = world();
    let (of_alice, of_bob) = (world.order(OrderKind::RemoveIdentity), {
        let draft = world.draft(OrderKind::RemoveIdentity, |intent| intent.owner = world.bob.id.clone());
        world.signed(&draft, vec![world.bob.sign(&draft)])
    });
    of_bob.check(&world.checker(OrderKind::RemoveIdentity)).unwrap();
    // The worker has taken bob out; the node is told of it first, and gets the roster later or never.
    world.time = Some(freshness::OrderTime::at_worker(NOW, 3, 6));
    refused(&of_bob, &world.checker(OrderKind::RemoveIdentity), OrderCode::RosterBehind);
    refused(&of_alice, &world.checker(OrderKind::RemoveIdentity), OrderCode::RosterBehind);
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "bob"));
    refused(&of_bob, &world.checker(OrderKind::RemoveIdentity), OrderCode::OwnerUnknown);
    of_alice.check(&world.checker(OrderKind::RemoveIdentity)).unwrap();
    // A key that was taken from an owner who stays, and an owner who may look only from now on.
    world.change_roster(|roster| {
        let alice = roster.owners.first_mut().unwrap();
        alice.keys.retain(|key| key.key_use == owner::KeyUse::OrderPasskey);
    });
    refused(&of_alice, &world.checker(OrderKind::RemoveIdentity), OrderCode::KeyUnknown);
    world.change_roster(|roster| roster.owners.first_mut().unwrap().role = owner::Role::Viewer);
    refused(&of_alice, &world.checker(OrderKind::RemoveIdentity), OrderCode::NotAnOwner);
}

// spec: IN-12
#[test]
fn every_code_has_one_text_and_a_cure() {
    let mut texts = std::collections::BTreeSet::new();
    for code in OrderCode::ALL {
        assert!(texts.insert(code.as_str()), "{code:?}");
        assert!(code.cure().len() > 10, "{code:?}");
        assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.as_str()));
        assert_eq!(code.is_repeat(), matches!(code, OrderCode::AlreadyDone | OrderCode::AlreadyHeld), "{code:?}");
    }
}

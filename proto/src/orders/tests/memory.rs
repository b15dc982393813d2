//! What was ordered before.

use super::*;
use crate::base::digest::Digest;
use crate::base::limits::{ORDER_LIFETIME_MAX, ORDER_NONCES_MAX, ORDER_SUBJECTS_MAX};
use crate::base::time::UnixTime;
use crate::node::challenge::Nonce;
use crate::orders::freshness::OrderTime;

const KIND: OrderKind = OrderKind::RemoveIdentity;

fn nonce(number: usize) -> Nonce {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Nonce::from_bytes(&bytes)
}

/// Alice's order with another nonce, issued at another time.
fn once(world: &OrderWorld, number: usize, issued_at: UnixTime) -> SignedOrder {
    let draft = world.draft(KIND, |intent| {
        intent.issued_at = issued_at;
        intent.terms = Terms::Once { not_after: issued_at.plus(ORDER_LIFETIME_MAX), nonce: nonce(number) };
    });
    world.signed(&draft, vec![world.alice.sign(&draft)])
}

fn state(world: &OrderWorld, subject: &str, revision: u64, issued_at: UnixTime) -> SignedOrder {
    let mut intent = world.intent(OrderKind::SshKey);
    intent.terms = Terms::State { subject: subject.parse().unwrap(), revision };
    intent.issued_at = issued_at;
    let account = subject.parse().unwrap();
    let draft = Draft::new(intent, &Body::SshKey(SshKeys { account, keys: Vec::new() })).unwrap();
    world.signed(&draft, vec![world.alice.sign(&draft)])
}

fn at(now: UnixTime) -> Option<OrderTime> {
    Some(OrderTime::at_worker(now, 3, 5))
}

fn take(world: &mut OrderWorld, order: &SignedOrder) -> Result<Order, OrderRefusal> {
    let kind = OrderHead::parse(&order.intent_json).unwrap().kind;
    let verified = order.check(&world.checker(kind))?;
    world.memory.remember(verified)
}

// spec: IN-13
#[test]
fn what_is_done_once_is_done_once_whoever_brings_it_and_whoever_signed_it() {
    let mut world = world();
    let order = once(&world, 1, NOW);
    let (first, second) = (order.check(&world.checker(KIND)).unwrap(), order.check(&world.checker(KIND)).unwrap());
    assert!(world.memory.remember(first).is_ok());
    // Two that were checked before either was remembered: one wins.
    assert_eq!(world.memory.remember(second).unwrap_err().code(), OrderCode::AlreadyDone);
    // Stored and read again, in the last second, under two signatures: still the same order.
    world.memory = OrderMemory::from_bytes(&world.memory.to_bytes().unwrap()).unwrap();
    world.time = at(NOW.plus(ORDER_LIFETIME_MAX));
    refused(&order, &world.checker(KIND), OrderCode::AlreadyDone);
    let draft = Draft { intent_json: order.intent_json.clone(), body: order.body.clone() };
    let both = world.signed(&draft, vec![world.alice.sign(&draft), world.bob.sign(&draft)]);
    refused(&both, &world.checker(KIND), OrderCode::AlreadyDone);
    // Another order with the same nonce is the same to whoever remembers nonces.
    let twin = once(&world, 1, NOW.plus(SECOND));
    refused(&twin, &world.checker(KIND), OrderCode::AlreadyDone);
    let fresh = once(&world, 2, NOW.plus(SECOND));
    assert!(take(&mut world, &fresh).is_ok());
}

/// threats.md C: whoever has the controller keeps an order that was refused until the way is free.
// spec: IN-90
#[test]
fn what_an_owner_ordered_once_and_was_refused_stays_refused() {
    let fresh = world();
    let order = once(&fresh, 1, NOW);
    let two = OrderPolicy::allow_all().with(KIND, Rule::TwoOwners);
    let forbid = OrderPolicy::forbid_all();
    let called = fresh.other.hostname.clone();
    for (name, by, want) in [
        ("forbidden", Checker { policy: &forbid, ..fresh.checker(KIND) }, Some(OrderCode::KindForbidden)),
        ("another name", Checker { hostname: &called, ..fresh.checker(KIND) }, Some(OrderCode::NameDiffers)),
        // What may come yet without a new order: a second owner's signature, an answer of the worker's.
        ("one owner of two", Checker { policy: &two, ..fresh.checker(KIND) }, None),
        ("no answer", Checker { time: None, ..fresh.checker(KIND) }, None),
        ("no answer, and forbidden", Checker { policy: &forbid, time: None, ..fresh.checker(KIND) }, None),
        ("for another node", Checker { policy: &forbid, node: &fresh.other.node_id, ..fresh.checker(KIND) }, None),
    ] {
        let refusal = order.check(&by).expect_err(name);
        let memory = order.remember_refused(&by, &refusal);
        assert_eq!(memory.is_some(), want.is_some(), "{name}");
        let mut world = world();
        let Some(memory) = memory else { continue };
        world.memory = OrderMemory::from_bytes(&memory.to_bytes().unwrap()).unwrap();
        let again = order.check(&world.checker(KIND)).expect_err("the way is free");
        assert!(matches!(again, OrderRefusal::RefusedBefore(code) if Some(code) == want), "{name}: {again}");
        assert_eq!(Some(again.code()), want, "{name}");
        assert_eq!(order.remember_refused(&world.checker(KIND), &again), None, "{name}");
        let anew = once(&world, 2, NOW);
        assert!(take(&mut world, &anew).is_ok(), "{name}");
    }
    // Nobody but an owner fills a memory.
    let by = Checker { policy: &forbid, ..fresh.checker(KIND) };
    let draft = Draft { intent_json: order.intent_json.clone(), body: order.body.clone() };
    for forged in [fresh.signed(&draft, vec![fresh.mallory.sign(&draft)]), SignedOrder { body: String::new(), ..order }]
    {
        let refusal = forged.check(&by).unwrap_err();
        assert_eq!((refusal.code(), forged.remember_refused(&by, &refusal)), (OrderCode::KindForbidden, None));
    }
    // A state waits for its way: what it says holds until a later revision says otherwise.
    let keys = state(&fresh, "alice", 1, NOW);
    let by = Checker { policy: &forbid, ..fresh.checker(OrderKind::SshKey) };
    let refusal = keys.check(&by).unwrap_err();
    assert_eq!((refusal.code(), keys.remember_refused(&by, &refusal)), (OrderCode::KindForbidden, None));
}

/// threats.md O: an owner who may not give an order alone takes the nonce of two others' draft for one that is refused.
// spec: IN-90
#[test]
fn a_refused_order_ends_no_other_of_the_same_nonce() {
    let mut world = world();
    let (order, theirs) = (once(&world, 1, NOW), once(&world, 1, NOW.plus(SECOND)));
    assert_ne!(order.id(), theirs.id());
    let forbid = OrderPolicy::forbid_all();
    let by = Checker { policy: &forbid, ..world.checker(KIND) };
    let memory = theirs.remember_refused(&by, &theirs.check(&by).unwrap_err()).unwrap();
    world.memory = OrderMemory::from_bytes(&memory.to_bytes().unwrap()).unwrap();
    assert!(take(&mut world, &order).is_ok());
    refused(&order, &world.checker(KIND), OrderCode::AlreadyDone);
    // Done is done for all of that nonce, and what was refused stays so.
    refused(&theirs, &world.checker(KIND), OrderCode::KindForbidden);
    refused(&once(&world, 1, NOW.plus(SECOND * 2)), &world.checker(KIND), OrderCode::AlreadyDone);
}

// spec: IN-14
#[test]
fn time_never_falls_below_what_an_order_bore_out_and_nothing_before_it_is_forgotten_too_early() {
    let mut world = world();
    let (early, late) = (once(&world, 1, NOW), once(&world, 2, NOW.plus(ORDER_LIFETIME_MAX)));
    assert!(take(&mut world, &early).is_ok());
    assert_eq!(world.memory.floor(), NOW);
    // A controller held an answer back for a day, so it seems later than it is; the first nonce is forgotten by that.
    world.time = at(NOW.plus(ORDER_LIFETIME_MAX).plus(SECOND));
    assert!(take(&mut world, &late).is_ok());
    assert_eq!(world.memory.floor(), NOW.plus(ORDER_LIFETIME_MAX).plus(SECOND));
    // Checked before, and brought to be remembered only now.
    let mut stale = OrderWorld::new(NOW);
    stale.memory = OrderMemory::begin(UnixTime::EPOCH);
    let checked = early.check(&stale.checker(KIND)).unwrap();
    assert_eq!(world.memory.remember(checked).unwrap_err().code(), OrderCode::Expired);
    // The next answer is quick and says what time it is. The first order stays over all the same.
    world.time = at(NOW.plus(SECOND));
    refused(&early, &world.checker(KIND), OrderCode::Expired);
    refused(&once(&world, 3, NOW), &world.checker(KIND), OrderCode::Expired);
    assert_eq!(world.memory.floor(), NOW.plus(ORDER_LIFETIME_MAX).plus(SECOND));
}

// spec: IN-14
#[test]
fn a_clock_that_runs_away_alone_raises_no_floor() {
    let mut world = world();
    let far = NOW.plus(ORDER_LIFETIME_MAX * 3650);
    world.time = at(far);
    refused(&once(&world, 1, NOW), &world.checker(KIND), OrderCode::Expired);
    let keys = state(&world, "alice", 1, NOW);
    assert!(take(&mut world, &keys).is_ok());
    // By the owner's time, not by the worker's.
    assert_eq!(world.memory.floor(), NOW);
    world.time = at(NOW);
    let order = once(&world, 1, NOW);
    assert!(take(&mut world, &order).is_ok());
    // An owner's clock that is ahead by what may be does not raise it over the worker's.
    let ahead = state(&world, "bob", 1, NOW.plus(ORDER_AHEAD));
    assert!(take(&mut world, &ahead).is_ok());
    assert_eq!(world.memory.floor(), NOW);
}

// spec: IN-15
#[test]
fn a_state_only_moves_forward_and_one_revision_is_one_order() {
    let mut world = world();
    let subject: Subject = "alice".parse().unwrap();
    let [four, five, other] =
        [(4, NOW), (5, NOW), (4, NOW.minus(SECOND))].map(|(revision, at)| state(&world, "alice", revision, at));
    assert!(take(&mut world, &four).is_ok());
    assert_eq!(take(&mut world, &four).unwrap_err().code(), OrderCode::AlreadyHeld);
    assert_eq!(take(&mut world, &other).unwrap_err().code(), OrderCode::RevisionConflict);
    assert_eq!(world.memory.held(OrderKind::SshKey, &subject), Some((4, four.id())));
    assert!(take(&mut world, &five).is_ok());
    for (order, code) in [(&four, OrderCode::OlderRevision), (&other, OrderCode::OlderRevision)] {
        assert_eq!(take(&mut world, order).unwrap_err().code(), code);
    }
    assert_eq!(world.memory.held(OrderKind::SshKey, &subject), Some((5, five.id())));
    // Each subject has revisions of its own.
    let bob = state(&world, "bob", 1, NOW);
    assert!(take(&mut world, &bob).is_ok());
    let raced = [6, 6].map(|revision| state(&world, "alice", revision, NOW));
    let [first, second] = raced.map(|order| order.check(&world.checker(OrderKind::SshKey)).unwrap());
    assert!(world.memory.remember(first).is_ok());
    assert_eq!(world.memory.remember(second).unwrap_err().code(), OrderCode::AlreadyHeld);
}

// spec: IN-28
#[test]
fn no_owner_can_order_a_last_revision() {
    let mut world = world();
    let leap = crate::base::limits::ORDER_REVISION_LEAP;
    let [over, first, next, last] =
        [leap + 1, leap, leap * 2, 1 << 53].map(|revision| state(&world, "alice", revision, NOW));
    assert_eq!(take(&mut world, &over).unwrap_err().code(), OrderCode::RevisionLeap);
    assert!(take(&mut world, &first).is_ok());
    assert_eq!(take(&mut world, &last).unwrap_err().code(), OrderCode::RevisionLeap);
    assert!(take(&mut world, &next).is_ok());
}

// spec: IN-16
#[test]
fn a_memory_that_was_lost_takes_no_order_from_before() {
    let mut world = world();
    let order = once(&world, 1, NOW);
    assert!(take(&mut world, &order).is_ok());
    world.memory = OrderMemory::begin(NOW.plus(SECOND));
    world.time = at(NOW.plus(SECOND));
    refused(&order, &world.checker(KIND), OrderCode::BeforeMemory);
    let order = once(&world, 2, NOW.plus(SECOND));
    assert!(take(&mut world, &order).is_ok());
}

// spec: IN-17
#[test]
fn a_memory_is_bounded_and_makes_room_for_what_comes_later() {
    let mut world = world();
    // Filled by hand: a thousand signatures would say no more.
    let text = String::from_utf8(world.memory.to_bytes().unwrap()).unwrap();
    let until = NOW.plus(SECOND);
    let nonces: Vec<_> = (0..ORDER_NONCES_MAX)
        .map(|at| {
            let of = Digest::of(&at.to_be_bytes());
            let refused = format!(r#""refused":"second_owner_needed","intent":"{of}""#);
            format!(r#"{{"nonce":"{}","until":"{until}",{refused}}}"#, nonce(at))
        })
        .collect();
    let states: Vec<_> = (0..ORDER_SUBJECTS_MAX)
        .map(|at| {
            format!(
                r#"{{"kind":"ssh-key","subject":"s{at}","revision":1,"intent":"{}"}}"#,
                Digest::of(&at.to_be_bytes())
            )
        })
        .collect();
    let text = text.replace("\"nonces\":[]", &format!("\"nonces\":[{}]", nonces.join(",")));
    let text = text.replace("\"states\":[]", &format!("\"states\":[{}]", states.join(",")));
    assert!(text.len() < crate::base::limits::ORDER_MEMORY_MAX, "{}", text.len());
    world.memory = OrderMemory::from_bytes(text.as_bytes()).unwrap();
    refused(&once(&world, 5000, NOW), &world.checker(KIND), OrderCode::MemoryFull);
    refused(&state(&world, "alice", 1, NOW), &world.checker(OrderKind::SshKey), OrderCode::MemoryFull);
    let known = state(&world, "s7", 2, NOW);
    // A subject that is there needs no room.
    assert!(take(&mut world, &known).is_ok());
    world.time = at(until);
    refused(&once(&world, 5000, NOW), &world.checker(KIND), OrderCode::MemoryFull);
    world.time = at(until.plus(SECOND));
    let order = once(&world, 5000, NOW);
    assert!(take(&mut world, &order).is_ok());
    let now = world.memory.to_bytes().unwrap();
    // What was over is forgotten.
    assert!(now.len() + ORDER_NONCES_MAX * 50 < text.len());
}

#[test]
fn a_damaged_memory_is_none() {
    let text = String::from_utf8(OrderMemory::begin(NOW).to_bytes().unwrap()).unwrap();
    assert!(OrderMemory::from_bytes(text.as_bytes()).is_ok());
    for (name, bad) in [
        ("cut", text[..text.len() - 1].to_owned()),
        ("another version", text.replace("\"schemaVersion\":1", "\"schemaVersion\":2")),
        ("a member more", text.replacen('{', "{\"x\":1,", 1)),
        ("empty", String::new()),
        ("too long", format!("{text}{}", " ".repeat(crate::base::limits::ORDER_MEMORY_MAX))),
    ] {
        assert!(OrderMemory::from_bytes(bad.as_bytes()).is_err(), "{name}");
    }
}

//! Who pushes out whom: nobody what another needs.

use lucia_people::owner_api::DraftState;
use lucia_proto::base::limits::{
    DRAFTS_MAX, DRAFTS_PER_ANSWER_MAX, DRAFTS_UNSIGNED_PER_PERSON_MAX, ORDER_LIFETIME_MAX, ORDERS_PER_OWNER_MAX,
};
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::{Draft, OrderId, OrderKind, Terms};
use lucia_proto::test_support::OrderWorld;

use super::super::super::tests::bench::World;
use super::{OPERATOR, SECOND, code_of, line, nth, owned, refused};
use crate::lock::lock;
use crate::parts::By;
use lucia_proto::base::code::Code;

/// The n-th person who drafts something.
fn person(fleet: &OrderWorld, n: usize) -> By {
    By::Owner {
        id: fleet.alice.id.clone(),
        name: format!("p{n}").parse().unwrap(),
        from: std::net::Ipv4Addr::LOCALHOST.into(),
        via: lucia_people::audit::AuditVia::Session,
    }
}

/// The n-th draft, by somebody whose list is not full.
fn add(world: &World, fleet: &OrderWorld, n: u64) {
    let by = person(fleet, usize::try_from(n).unwrap() / DRAFTS_UNSIGNED_PER_PERSON_MAX);
    world.parts.orders.add_draft(nth(fleet, n), &by).unwrap();
}

/// An order about alice's keys that was given and carried out.
fn carried_out(world: &World, fleet: &OrderWorld, revision: u64) -> Draft {
    let draft = fleet.draft(OrderKind::SshKey, |intent| {
        intent.terms = Terms::State { subject: "alice".parse().unwrap(), revision };
    });
    let code = code_of(&draft);
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    world.parts.orders.sign(&code, fleet.alice.sign(&draft), &OPERATOR).unwrap();
    let mut orders = lock(&world.parts.orders.book);
    let mut entry = orders.get(&OrderId::of(&draft.intent_json)).unwrap().clone();
    assert!(entry.note_node(Outcome { node_id: fleet.node.node_id.clone(), at: world.now(), refused: None }));
    orders.write(entry).unwrap();
    drop(orders);
    assert_eq!(line(world, &draft).state, DraftState::Done);
    draft
}

/// What `luciactl` and the page go by when they ask for the rest.
// spec: CO-97
#[test]
fn an_answer_that_has_no_room_for_all_nodes_says_that_it_goes_on() {
    let (world, fleet) = owned();
    let drafts: Vec<Draft> = (1..=20).map(|revision| carried_out(&world, &fleet, revision)).collect();
    for draft in drafts {
        let mut orders = lock(&world.parts.orders.book);
        let mut entry = orders.get(&OrderId::of(&draft.intent_json)).unwrap().clone();
        entry.row.nodes = (0..500)
            .map(|n| Outcome { node_id: format!("{n:032x}").parse().unwrap(), at: world.now(), refused: None })
            .collect();
        orders.write(entry).unwrap();
    }
    let (mut after, mut seen, mut answers) = (None, 0, 0);
    loop {
        let view = world.parts.orders.drafts(after.as_ref()).unwrap();
        (seen, answers) = (seen + view.drafts.len(), answers + 1);
        after = view.drafts.last().map(|line| line.code.clone());
        if !view.goes_on() {
            break;
        }
    }
    assert_eq!((seen, answers), (20, 3));
}

// spec: CO-11
#[test]
fn drafts_are_so_many_and_ended_ones_make_room_oldest_first() {
    let (world, fleet) = owned();
    let most = u64::try_from(DRAFTS_MAX).unwrap();
    (0..most).for_each(|n| add(&world, &fleet, n));
    refused(world.parts.orders.add_draft(nth(&fleet, most), &OPERATOR), Code::RegistryFull, "");
    // A page at a time, the newest first, each once.
    let mut seen = std::collections::BTreeSet::new();
    let mut after = None;
    loop {
        let page = world.parts.orders.drafts(after.as_ref()).unwrap().drafts;
        assert!(page.len() <= DRAFTS_PER_ANSWER_MAX);
        let Some(last) = page.last() else { break };
        after = Some(last.code.clone());
        for line in page {
            assert!(seen.insert(line.intent), "twice");
        }
    }
    assert_eq!(seen.len(), DRAFTS_MAX);
    world.parts.orders.drop_draft(&code_of(&nth(&fleet, 9)), &OPERATOR).unwrap();
    world.advance(1);
    world.parts.orders.add_draft(nth(&fleet, most), &OPERATOR).unwrap();
    // The day after all of them ran out but the last.
    world.advance(ORDER_LIFETIME_MAX.as_secs());
    world.parts.orders.add_draft(fleet.draft(OrderKind::SshKey, |_| ()), &OPERATOR).unwrap();
    assert_eq!(std::fs::read_dir(world.file("orders")).unwrap().count(), DRAFTS_MAX + 1, "and the mark");
    let known = |draft: &Draft| world.parts.orders.draft(&code_of(draft)).is_ok();
    assert!(known(&nth(&fleet, most)));
    let gone = (0..most).filter(|n| *n != 9 && !known(&nth(&fleet, *n))).count();
    assert_eq!(gone, 1, "no more than was needed");
}

// spec: CO-40
#[test]
fn one_persons_unsigned_drafts_push_out_nobody_elses() {
    let (world, fleet) = owned();
    let most = u64::try_from(DRAFTS_UNSIGNED_PER_PERSON_MAX).unwrap();
    let one = person(&fleet, 1);
    (0..most).for_each(|n| drop(world.parts.orders.add_draft(nth(&fleet, n), &one).unwrap()));
    refused(world.parts.orders.add_draft(nth(&fleet, most), &one), Code::RegistryFull, "owner:p1");
    // The same draft again is no more, and others are not kept from theirs.
    world.parts.orders.add_draft(nth(&fleet, 0), &one).unwrap();
    world.parts.orders.add_draft(nth(&fleet, most), &person(&fleet, 2)).unwrap();
    // What is signed is none of them.
    let first = nth(&fleet, 0);
    world.parts.orders.sign(&code_of(&first), fleet.alice.sign(&first), &one).unwrap();
    world.parts.orders.add_draft(nth(&fleet, most + 1), &one).unwrap();
    refused(world.parts.orders.add_draft(nth(&fleet, most + 2), &one), Code::RegistryFull, "owner:p1");
    // One's own that ran out leave for one's own, the oldest first, and no more than has to.
    world.advance(ORDER_LIFETIME_MAX.as_secs() + 1);
    world.parts.orders.add_draft(fleet.draft(OrderKind::SshKey, |_| ()), &one).unwrap();
    let known = |n: u64| world.parts.orders.draft(&code_of(&nth(&fleet, n))).is_ok();
    assert_eq!((1..most).chain([most + 1]).filter(|n| !known(*n)).count(), 1);
    assert!(known(0) && known(most));
}

// spec: CO-40
#[test]
fn one_owners_waiting_orders_are_so_many() {
    let (world, fleet) = owned();
    let most = u64::try_from(ORDERS_PER_OWNER_MAX).unwrap();
    for n in 0..most {
        let draft = nth(&fleet, n);
        world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
        world.parts.orders.sign(&code_of(&draft), fleet.alice.sign(&draft), &OPERATOR).unwrap();
    }
    let more = nth(&fleet, most);
    refused(world.parts.orders.add_draft(more, &OPERATOR), Code::RegistryFull, "256");
    let bobs = fleet.draft(OrderKind::SshKey, |intent| intent.owner = fleet.bob.id.clone());
    world.parts.orders.add_draft(bobs, &OPERATOR).unwrap();
}

// spec: CO-41
#[test]
fn the_last_order_about_a_subject_stays_when_others_make_room() {
    let (world, fleet) = owned();
    let held: Vec<Draft> = (1..=3)
        .map(|revision| {
            world.advance(1);
            carried_out(&world, &fleet, revision)
        })
        .collect();
    let most = u64::try_from(DRAFTS_MAX).unwrap();
    let known = |draft: &Draft| world.parts.orders.draft(&code_of(draft)).is_ok();
    world.advance(1);
    (3..most).for_each(|n| add(&world, &fleet, n));
    // Those that hold no more leave before anything that waits is refused a place; the one that holds never does.
    world.parts.orders.add_draft(nth(&fleet, most), &person(&fleet, 90)).unwrap();
    world.parts.orders.add_draft(nth(&fleet, most + 1), &person(&fleet, 90)).unwrap();
    assert_eq!(held.iter().map(known).collect::<Vec<_>>(), [false, false, true]);
    // With nothing else to leave it still does, so that the list is never full for good.
    world.parts.orders.add_draft(nth(&fleet, most + 2), &person(&fleet, 90)).unwrap();
    assert!(!known(&held[2]));
    // Where drafts ran out it stays: they are the first to leave.
    world.advance(ORDER_LIFETIME_MAX.as_secs() + SECOND.as_secs());
    let held = carried_out(&world, &fleet, 4);
    world.advance(1);
    let later = fleet.draft(OrderKind::SshKey, |intent| intent.issued_at = fleet.now.plus(SECOND));
    world.parts.orders.add_draft(later, &OPERATOR).unwrap();
    assert!(known(&held));
}

//! Drafts: handed in, signed, dropped, bounded, and what is left after a crash.

use std::time::Duration;

use lucia_durable::crash_point::{crash_at, record};
use lucia_people::owner_api::{DraftLine, DraftState};
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{ORDER_AHEAD, ORDER_LIFETIME_MAX};
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::ssh_key::BadSshKey;
use lucia_proto::orders::{Draft, OrderHead, OrderKind, OrderPolicy, Rule, Terms};
use lucia_proto::pki::key::VerificationCode;
use lucia_proto::test_support::OrderWorld;

use super::super::By;
use super::super::tests::bench::{World, code, start};
use super::super::tests::owners::{fleet, publish};
use crate::lock::lock;
use crate::parts::{OpenError, Refusal};
use crate::store::{DraftsError, JsonFileError};

mod about;
mod room;

const OPERATOR: By = By::Operator(0);
const SECOND: Duration = Duration::from_secs(1);

/// A fleet with its owners, whose node is there.
pub(crate) fn owned() -> (World, OrderWorld) {
    let world = World::new();
    world.node(7);
    let fleet = fleet(&world);
    publish(&world, &fleet);
    (world, fleet)
}

fn code_of(draft: &Draft) -> VerificationCode {
    draft.read().unwrap().code()
}

fn line(world: &World, draft: &Draft) -> DraftLine {
    let code = code_of(draft);
    world.parts.orders.drafts(None).unwrap().drafts.into_iter().find(|line| line.code == code).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Refusal>, code: Code, word: &str) {
    let refusal = answer.unwrap_err();
    assert_eq!(refusal.code, code, "{refusal:?}");
    assert!(refusal.message.starts_with(word), "{word}: {refusal:?}");
}

/// The n-th draft: each has a nonce of its own.
fn nth(fleet: &OrderWorld, n: u64) -> Draft {
    fleet.draft(OrderKind::ReleaseLapse, |intent| {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&n.to_be_bytes());
        let not_after = fleet.now.plus(ORDER_LIFETIME_MAX);
        intent.terms = Terms::Once { not_after, nonce: Nonce::from_bytes(&nonce) };
    })
}

// spec: CO-9, PG-102
#[test]
fn a_draft_is_taken_once_and_when_an_owner_could_sign_it() {
    let (world, mut fleet) = owned();
    let kind = OrderKind::SshKey;
    type Change<'a> = &'a dyn Fn(&mut OrderHead);
    let mallory = fleet.mallory.id.clone();
    let victor = fleet.victor.id.clone();
    let late = fleet.now.plus(ORDER_AHEAD).plus(SECOND);
    let changes: [(&str, Change<'_>); 4] = [
        ("other_fleet", &|intent| intent.fleet = lucia_proto::base::digest::Digest::of(b"another root")),
        ("owner_unknown", &|intent| intent.owner = mallory.clone()),
        ("not_an_owner", &|intent| intent.owner = victor.clone()),
        ("not_yet", &|intent| intent.issued_at = late),
    ];
    for (word, change) in changes {
        refused(world.parts.orders.add_draft(fleet.draft(kind, change), &OPERATOR), Code::IntentRefused, word);
    }
    let good = fleet.draft(kind, |_| ());
    let mut edited = good.clone();
    edited.body.push(' ');
    refused(world.parts.orders.add_draft(edited, &OPERATOR), Code::IntentRefused, "malformed");
    let mut bad = good.clone();
    bad.body = r#"{"account":"alice","keys":[{"label":"a","key":"ssh-dss AAAA"}]}"#.to_owned();
    bad.intent_json = bad.intent_json.replacen(
        &lucia_proto::base::digest::Digest::of(good.body.as_bytes()).to_string(),
        &lucia_proto::base::digest::Digest::of(bad.body.as_bytes()).to_string(),
        1,
    );
    let refusal = world.parts.orders.add_draft(bad, &OPERATOR).unwrap_err();
    assert_eq!(refusal.code, Code::IntentRefused);
    assert!(refusal.message.contains(&BadSshKey::Kind.to_string()), "{refusal:?}");
    let nowhere = fleet.draft(kind, |intent| intent.nodes = vec![fleet.other.node_id.clone()]);
    refused(world.parts.orders.add_draft(nowhere, &OPERATOR), Code::UnknownNode, "");
    let once = fleet.draft(OrderKind::RemoveIdentity, |_| ());
    world.advance(ORDER_LIFETIME_MAX.as_secs() + 1);
    refused(world.parts.orders.add_draft(once, &OPERATOR), Code::IntentRefused, "expired");
    let view = world.parts.orders.add_draft(good.clone(), &OPERATOR).unwrap();
    assert_eq!((&view.draft, view.signatures.len()), (&good, 0));
    assert_eq!(world.parts.orders.add_draft(good.clone(), &OPERATOR).unwrap(), view);
    assert_eq!(world.parts.orders.draft(&code_of(&good)).unwrap(), view);
    let line = line(&world, &good);
    assert_eq!((line.state, line.drafted_by.as_str(), line.kind), (DraftState::Drafted, "operator:0", kind));
    assert_eq!(world.parts.orders.drafts(None).unwrap().drafts.len(), 1);
    // Of two drafts with one code the second is refused: a person types the code.
    let second = fleet.draft(kind, |intent| intent.issued_at = fleet.now.minus(SECOND));
    lock(&world.parts.orders.book).claim(&code_of(&second), line.intent);
    refused(world.parts.orders.add_draft(second, &OPERATOR), Code::VerificationCodeCollision, "");
    assert_eq!(code(world.parts.orders.draft(&"0000-0000-0000".parse().unwrap())), Some(Code::DraftNotFound));
    fleet.change_roster(|roster| roster.policy = OrderPolicy::forbid_all());
    publish(&world, &fleet);
    let third = fleet.draft(kind, |intent| intent.issued_at = fleet.now.plus(SECOND));
    refused(world.parts.orders.add_draft(third.clone(), &OPERATOR), Code::IntentRefused, "kind_forbidden");
    let world = World::new();
    refused(world.parts.orders.add_draft(third, &OPERATOR), Code::NoRoster, "");
}

// spec: CO-10
#[test]
fn a_draft_becomes_an_order_when_enough_owners_of_the_roster_signed_it() {
    let (world, mut fleet) = owned();
    let draft = fleet.draft(OrderKind::ReleaseLapse, |_| ());
    let other = nth(&fleet, 5);
    let code = code_of(&draft);
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    let file = world.file(&format!("nodes/owner-requests/intent-{}.json", line(&world, &draft).intent));
    for (signature, word) in [
        (fleet.mallory.sign(&draft), "owner_unknown"),
        (fleet.victor.sign(&draft), "not_an_owner"),
        (fleet.alice.sign(&other), "signature_invalid"),
        (fleet.alice.touch(&draft, &OrderWorld::origin()), "page_not_allowed"),
        (draft.read().unwrap().sign(fleet.alice.id.clone(), &fleet.bob.key), "key_unknown"),
    ] {
        refused(world.parts.orders.sign(&code, signature, &OPERATOR), Code::IntentRefused, word);
    }
    assert_eq!(line(&world, &draft).state, DraftState::Drafted);
    // Another owner's signature is none of whoever orders.
    world.parts.orders.sign(&code, fleet.bob.sign(&draft), &OPERATOR).unwrap();
    assert_eq!(line(&world, &draft).state, DraftState::Drafted);
    assert!(!file.exists());
    let view = world.parts.orders.sign(&code, fleet.alice.sign(&draft), &OPERATOR).unwrap();
    assert_eq!(view.signatures.len(), 2);
    assert_eq!(line(&world, &draft).state, DraftState::Signed);
    let lying = lucia_proto::orders::SignedOrder::from_bytes(&std::fs::read(&file).unwrap()).unwrap();
    assert!(lying.check(&fleet.checker(OrderKind::ReleaseLapse)).is_ok(), "what the worker finds is the order");
    assert_eq!(world.parts.orders.sign(&code, fleet.alice.sign(&draft), &OPERATOR).unwrap(), view, "again is once");
    // Where the roster asks for two, one is not enough.
    fleet.change_roster(|roster| {
        roster.policy = OrderPolicy::allow_all().with(OrderKind::ReleaseLapse, Rule::TwoOwners);
    });
    publish(&world, &fleet);
    let second = nth(&fleet, 2);
    world.parts.orders.add_draft(second.clone(), &OPERATOR).unwrap();
    world.parts.orders.sign(&code_of(&second), fleet.alice.sign(&second), &OPERATOR).unwrap();
    assert_eq!(line(&world, &second).state, DraftState::Drafted);
    world.parts.orders.sign(&code_of(&second), fleet.bob.sign(&second), &OPERATOR).unwrap();
    assert_eq!(line(&world, &second).state, DraftState::Signed);
    // A draft that nobody was handed is thrown away; what the worker may have read is not.
    let handed_out = line(&world, &draft);
    assert!(handed_out.handed_out);
    refused(world.parts.orders.drop_draft(&code, &OPERATOR), Code::IntentRefused, "");
    assert_eq!(line(&world, &draft), handed_out);
    let fourth = nth(&fleet, 4);
    world.parts.orders.add_draft(fourth.clone(), &OPERATOR).unwrap();
    world.parts.orders.drop_draft(&code_of(&fourth), &OPERATOR).unwrap();
    refused(world.parts.orders.drop_draft(&code_of(&fourth), &OPERATOR), Code::DraftNotFound, "");
    // And one that nobody signed in time is no order any more.
    let third = nth(&fleet, 3);
    world.parts.orders.add_draft(third.clone(), &OPERATOR).unwrap();
    world.advance(ORDER_LIFETIME_MAX.as_secs() + 2);
    assert_eq!(line(&world, &third).state, DraftState::Expired);
    refused(
        world.parts.orders.sign(&code_of(&third), fleet.alice.sign(&third), &OPERATOR),
        Code::IntentRefused,
        "expired",
    );
}

// spec: CO-22
#[test]
fn what_nodes_are_handed_is_made_ready_while_heartbeats_go_on() {
    let (world, fleet) = owned();
    let draft = fleet.draft(OrderKind::SshKey, |_| ());
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    world.parts.orders.sign(&code_of(&draft), fleet.alice.sign(&draft), &OPERATOR).unwrap();
    let orders = lock(&world.parts.orders.book);
    // A heartbeat has the relay, and nothing here waits for it.
    let heartbeat = lock(&world.parts.orders.relay);
    let index = super::carry::index(&orders, world.now());
    drop(heartbeat);
    assert_eq!(index.waiting.get(&fleet.node.node_id).map(Vec::len), Some(1));
    assert!(index.decisions.is_empty());
}

// spec: CO-12
#[test]
fn what_was_signed_survives_a_crash_at_every_step() {
    let begin = || {
        let (world, fleet) = owned();
        let draft = fleet.draft(OrderKind::ReleaseLapse, |_| ());
        (world, fleet, draft)
    };
    let act = |world: &World, fleet: &OrderWorld, draft: &Draft| {
        world.parts.orders.add_draft(draft.clone(), &OPERATOR)?;
        world.parts.orders.sign(&code_of(draft), fleet.alice.sign(draft), &OPERATOR)
    };
    let steps = {
        let (world, fleet, draft) = begin();
        let plan = record(world.scratch.path());
        act(&world, &fleet, &draft).unwrap();
        plan.steps().len()
    };
    assert!(steps > 20, "{steps}");
    for at in 0..steps {
        let (world, fleet, draft) = begin();
        let plan = crash_at(world.scratch.path(), at);
        let answer = act(&world, &fleet, &draft);
        drop(plan);
        let world = world.restart();
        if answer.is_ok() {
            assert_eq!(line(&world, &draft).state, DraftState::Signed, "step {at}: acknowledged and lost");
        }
        act(&world, &fleet, &draft).unwrap();
        world.parts.tick();
        let line = line(&world, &draft);
        assert_eq!(line.state, DraftState::Signed, "step {at}");
        assert!(world.file(&format!("nodes/owner-requests/intent-{}.json", line.intent)).exists(), "step {at}");
    }
}

// spec: CO-12
#[test]
fn a_damaged_order_stops_the_start_and_says_what_cures_it() {
    let (world, fleet) = owned();
    let draft = fleet.draft(OrderKind::SshKey, |_| ());
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    let id = line(&world, &draft).intent;
    let path = world.file(&format!("orders/{id}.json"));
    let World { scratch, clock, ca: _, config, parts } = world;
    drop(parts);
    let good = std::fs::read_to_string(&path).unwrap();
    let other = path.with_file_name(format!("{}.json", "0".repeat(64)));
    let refused = || match start(&config, &clock, 9) {
        Err(OpenError::Drafts(refused)) => refused,
        end => panic!("another end: {:?}", end.err()),
    };
    for (name, text, is_read) in [
        ("torn", good[..good.len() / 2].to_owned(), false),
        ("empty", String::new(), false),
        ("one member more", good.replacen('{', r#"{"more":1,"#, 1), false),
        ("another body", good.replacen("laptop", "desktop", 1), true),
    ] {
        std::fs::write(&path, text).unwrap();
        let refused = refused();
        let is_right = match &refused {
            DraftsError::NoOrder { .. } => is_read,
            DraftsError::File(JsonFileError::Damaged { .. }) => !is_read,
            _ => false,
        };
        assert!(is_right && refused.to_string().contains("move"), "{name}: {refused:?}");
    }
    std::fs::rename(&path, &other).unwrap();
    std::fs::write(&other, &good).unwrap();
    let copied = refused();
    assert!(matches!(&copied, DraftsError::Other { found, .. } if *found == id), "{copied:?}");
    // What the advice says cures.
    std::fs::remove_file(&other).unwrap();
    drop(start(&config, &clock, 9).unwrap());
    drop(scratch);
}

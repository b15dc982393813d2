//! Owners' orders, from the draft to the one who carries them out: a real controller that carries them, a real worker and
//! real agents that check them; and a controller that is wholly hostile.

use std::time::Duration;

use lucia_people::owner_api::DraftState;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::{CHALLENGE_LIFETIME, ROSTER_PAYLOAD_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::orders::exchange::OrdersReply;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::{Roster, SignedRoster};
use lucia_proto::orders::{
    Admit, Body, Draft, OrderCode, OrderHead, OrderSignature, RemoveIdentity, SignedOrder, Terms,
};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::TestOwner;
use lucia_tests::hostile_controller::{Deed, Trick};

use crate::world::{Machine, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

fn bob() -> TestOwner {
    TestOwner::new("bob", 43)
}

/// A node in a fleet with two owners, which holds their roster and knows how late it is.
async fn owned(seed: u64) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::known(&world, 1);
    machine.join().await;
    world.approve_owner(&alice(), Role::Owner);
    world.approve_owner(&bob(), Role::Owner);
    machine.run_until(10 * MINUTE, |machine| is_fresh(machine, 2)).await;
    (world, machine)
}

/// Whether the node holds this roster and could take an order.
fn is_fresh(machine: &Machine, roster: u64) -> bool {
    let owners = machine.status().owners.unwrap_or_default();
    owners.roster_version == roster && owners.answered_at.is_some()
}

/// What the node holds of orders, as it lies on its disk.
fn record(machine: &Machine) -> Option<Vec<u8>> {
    machine.file("orders.json")
}

/// The member of a reply that speaks of orders, changed; what else it says stays.
fn with_orders(mut reply: lucia_tests::hostile_controller::Reply, orders: &OrdersReply) -> Deed {
    if let Ok(mut body) = serde_json::from_slice::<serde_json::Value>(reply.body())
        && let Some(members) = body.as_object_mut()
    {
        members.insert("orders".to_owned(), serde_json::to_value(orders).unwrap());
        *reply.body_mut() = serde_json::to_vec(&body).unwrap().into();
    }
    Deed::Say(reply)
}

// spec: OS-1, IN-27
#[tokio::test(start_paused = true)]
async fn an_owner_orders_keys_and_the_node_holds_them() {
    for seed in SEEDS {
        let (world, mut machine) = owned(seed).await;
        let first = world.keys(&alice(), &machine.id(), "alice", 1, 1);
        world.order(&alice(), &first);
        world.comes_to(&mut machine, &first, DraftState::Done).await;
        assert!(record(&machine).is_some_and(|held| {
            String::from_utf8(held).unwrap().contains(&first.intent_json.escape_default().to_string())
        }));
        let second = world.keys(&bob(), &machine.id(), "alice", 0, 2);
        world.order(&bob(), &second);
        world.comes_to(&mut machine, &second, DraftState::Done).await;
    }
}

// spec: OS-2, IN-27
#[tokio::test(start_paused = true)]
async fn a_new_node_is_let_in_by_an_owners_order_alone() {
    let (world, machine) = owned(SEEDS[0]).await;
    drop(machine);
    std::fs::write(world.path("admission.toml"), "").unwrap();
    world.restart_worker();
    let mut second = Machine::new(&world, 2);
    second.install().await;
    second.run(30 * MINUTE).await;
    assert_ne!(world.phase(&second.id()), Some(lucia_proto::node::phase::DevicePhase::Managed), "nobody let it in");
    let fingerprint = second.fingerprint();
    let body = |fingerprint| {
        let hostname = "n2".parse().unwrap();
        Body::Admit(Admit { fingerprint, hostname, replaces: None })
    };
    let admit = world.once(&alice(), &second.id(), &body(fingerprint), 1);
    world.order(&alice(), &admit);
    world.comes_to(&mut second, &admit, DraftState::Done).await;
    let id = second.id();
    let at = world.clone();
    let managed = move |_: &Machine| at.phase(&id) == Some(lucia_proto::node::phase::DevicePhase::Managed);
    second.run_until(2 * HOUR, managed).await;
    let admitted = world.ledger().into_iter().filter(|line| line["kind"] == "admitted").count();
    assert!(admitted >= 1);
}

// spec: OS-3
#[tokio::test(start_paused = true)]
async fn a_removed_owners_order_is_refused_at_the_next_heartbeat() {
    let (world, mut machine) = owned(SEEDS[1]).await;
    let unused = world.keys(&alice(), &machine.id(), "alice", 1, 1);
    let unused_signed = signed(&unused, vec![alice().sign(&unused)]);
    world.remove_owner(&alice());
    machine.run_until(10 * MINUTE, |machine| is_fresh(machine, 3)).await;
    let before = record(&machine);
    world.play(Some(offering("removed", vec![unused_signed])));
    machine.run_until(10 * MINUTE, |machine| refused_last(machine) == Some(OrderCode::OwnerUnknown)).await;
    assert_eq!(record(&machine), before);
}

/// threats.md W and C together: whoever has the worker's key and the controller makes themselves an owner, in a roster with a
/// version that no honest one ever reaches. With the bundle that retires the key all of it is over, by itself.
// spec: OS-90
#[tokio::test(start_paused = true)]
async fn a_stolen_workers_key_that_ran_ahead_ends_with_the_bundle_that_retires_it() {
    let (world, mut machine) = owned(SEEDS[2]).await;
    let (thief, mallory) = (world.worker_key(), TestOwner::new("mallory", 47));
    let honest = world.controller().people.roster().roster.unwrap();
    let mut roster: Roster =
        lucia_proto::base::json::from_slice(honest.parts().payload(), ROSTER_PAYLOAD_MAX, 16).unwrap();
    (roster.version, roster.owners) = (1 << 53, vec![mallory.entry(Role::Owner)]);
    let far = SignedRoster::sign(&roster, &thief).unwrap();
    let offers = |roster: SignedRoster| {
        Trick::on("a roster far ahead".to_owned(), &[Endpoint::Heartbeat], move |moment| {
            with_orders(moment.honest, &OrdersReply { roster: Some(roster.clone()), ..OrdersReply::default() })
        })
    };
    world.play(Some(offers(far.clone())));
    let owner = |machine: &Machine| machine.status().owners.map(|owners| (owners.roster_version, owners.believed));
    machine.run_until(10 * MINUTE, |machine| owner(machine) == Some((1 << 53, true))).await;
    world.play(None);
    machine.run(10 * MINUTE).await;
    assert_eq!(owner(&machine), Some((1 << 53, true)), "no honest roster is taken over it while its key counts");
    world.retire_worker_key();
    machine.run_until(10 * MINUTE, |machine| is_fresh(machine, 2) && owner(machine) == Some((2, true))).await;
    // Neither roster nor time of the thief's comes back, and owners order as before.
    world.play(Some(offers(far)));
    machine.run(10 * MINUTE).await;
    assert_eq!(owner(&machine), Some((2, true)));
    world.play(None);
    let keys = world.keys(&alice(), &machine.id(), "alice", 1, 1);
    world.order(&alice(), &keys);
    world.comes_to(&mut machine, &keys, DraftState::Done).await;
    machine.reboot(1);
    machine.run_until(10 * MINUTE, |machine| is_fresh(machine, 2)).await;
}

/// What a controller says that it is late, who began to lie then, at this true time.
type Says = fn(UnixTime, UnixTime) -> UnixTime;

/// Withholds all that is new of owners, says another time, repeats an old answer of the worker's, and offers this order.
fn lying(name: &str, began: UnixTime, says: Says, order: Option<&SignedOrder>) -> Trick {
    let intent = order.cloned().map(Box::new);
    Trick::on(name.to_owned(), &[Endpoint::Heartbeat, Endpoint::NodeChallenge, Endpoint::Renew], move |moment| {
        if moment.call == Endpoint::Renew {
            // The worker's answer would bring the roster.
            return Deed::Withhold;
        }
        let time = says(began, moment.now);
        let old = moment.tape.own(Endpoint::Heartbeat, moment.node).find_map(|beat| {
            let body: serde_json::Value = serde_json::from_slice(beat.reply.body()).ok()?;
            serde_json::from_value(body.pointer("/orders/freshness")?.clone()).ok()
        });
        let mut reply = moment.honest;
        let until = time.plus(CHALLENGE_LIFETIME);
        if let Some(mut next) = lucia_tests::hostile_controller::next_challenge(&reply) {
            (next.server_time, next.expires_at) = (time, until);
            reply.headers_mut().insert("lucia-challenge", next.to_header().parse().unwrap());
        }
        if moment.call == Endpoint::Heartbeat {
            return with_orders(
                reply,
                &OrdersReply { freshness: old, intent: intent.clone(), ..OrdersReply::default() },
            );
        }
        let mut body: serde_json::Value = serde_json::from_slice(reply.body()).unwrap();
        body["expiresAt"] = until.to_string().into();
        *reply.body_mut() = body.to_string().into();
        Deed::Say(reply)
    })
}

/// Within a day through one that withholds the roster, answers no question but with old answers, and lies about the time.
// spec: OS-4
#[tokio::test(start_paused = true)]
async fn and_within_a_day_through_a_controller_that_withholds_it() {
    // Whoever says that it is 2099 hears no heartbeats, since no certificate lasts that long: that one offers its order by
    // the true time, after a day.
    let lies: [(&str, Says, bool); 4] = [
        ("no time passes", |began, _| began, true),
        ("time goes back", |began, now| began.minus(now.since(began)), true),
        ("it is 1970", |_, _| UnixTime::EPOCH, true),
        ("it is 2099", |_, _| UnixTime::from_secs(4_070_908_800), false),
    ];
    for (name, says, is_heard) in lies {
        let (world, mut machine) = owned(SEEDS[2]).await;
        let unused = [1, 2].map(|revision| {
            let draft = world.keys(&alice(), &machine.id(), "alice", 1, revision);
            signed(&draft, vec![alice().sign(&draft)])
        });
        world.remove_owner(&alice());
        let began = world.now();
        let before = record(&machine);
        if is_heard {
            // It does not hold at once: what the node was told last is good for a day. Else what follows says nothing.
            world.play(Some(lying(name, began, says, unused.first())));
            machine.run_until(10 * MINUTE, |machine| record(machine) != before).await;
        }
        world.play(Some(lying(name, began, says, None)));
        while world.now().since(began) < 24 * HOUR {
            machine.run(MINUTE).await;
            world.sleep_through(HOUR - MINUTE).await;
            world.forget_seen();
        }
        let before = record(&machine);
        let late = unused.last().cloned().unwrap();
        world.play(Some(if is_heard { lying(name, began, says, Some(&late)) } else { offering(name, vec![late]) }));
        machine.run_until(HOUR, |machine| refused_last(machine) == Some(OrderCode::NoFreshness)).await;
        assert_eq!(record(&machine), before, "{name}");
        assert!(machine.ends.is_empty(), "{name}: {:?}", machine.ends);
    }
}

// spec: OS-16
#[tokio::test(start_paused = true)]
async fn nor_after_a_restart_nor_beside_an_answer_that_speaks_of_the_newer_roster() {
    let (world, mut machine) = owned(SEEDS[1]).await;
    let unused = world.keys(&alice(), &machine.id(), "alice", 1, 1);
    let order = signed(&unused, vec![alice().sign(&unused)]);
    world.remove_owner(&alice());
    let (began, before) = (world.now(), record(&machine));
    // What the worker once answered is no answer to the question of a new start.
    world.play(Some(lying("restarted", began, |began, _| began, Some(&order))));
    machine.kill();
    machine.run_until(10 * MINUTE, |machine| refused_last(machine) == Some(OrderCode::NoFreshness)).await;
    assert_eq!(record(&machine), before);
    // And a new one tells that there is a newer roster, whoever withholds that.
    world.play(Some(Trick::on("no roster", &[Endpoint::Heartbeat], move |moment| {
        let mut reply = moment.honest;
        let mut body: serde_json::Value = serde_json::from_slice(reply.body()).unwrap_or_default();
        if let Some(members) = body.as_object_mut() {
            let orders = members.entry("orders").or_insert_with(|| serde_json::json!({}));
            orders.as_object_mut().map(|orders| orders.remove("roster"));
            orders["intent"] = serde_json::to_value(&order).unwrap();
            *reply.body_mut() = body.to_string().into();
        }
        Deed::Say(reply)
    })));
    machine.run_until(10 * MINUTE, |machine| refused_last(machine) == Some(OrderCode::RosterBehind)).await;
    assert_eq!(record(&machine), before);
}

// spec: OS-5
#[tokio::test(start_paused = true)]
async fn nothing_that_a_hostile_controller_makes_of_orders_is_carried_out() {
    let (world, mut machine) = owned(SEEDS[0]).await;
    let (owner, id) = (alice(), machine.id());
    let good = world.keys(&owner, &id, "alice", 1, 5);
    world.order(&owner, &good);
    world.comes_to(&mut machine, &good, DraftState::Done).await;
    let before = record(&machine);
    let mallory = lucia_proto::test_support::key(77);
    let by = |draft: &Draft, key: &NodeKey| signed(draft, vec![draft.read().unwrap().sign(owner.id.clone(), key)]);
    let edited = |change: &dyn Fn(&mut SignedOrder)| {
        let draft = world.keys(&owner, &id, "alice", 0, 6);
        let mut order = signed(&draft, vec![owner.sign(&draft)]);
        change(&mut order);
        order
    };
    let redrafted = |change: &dyn Fn(&mut OrderHead)| {
        let draft = world.keys(&owner, &id, "alice", 0, 6);
        let mut intent = OrderHead::parse(&draft.intent_json).unwrap();
        change(&mut intent);
        let body = draft.read().unwrap().body().clone();
        Draft::new(intent, &body).unwrap()
    };
    let other = Machine::new(&world, 9).id();
    let wipe = Body::RemoveIdentity(RemoveIdentity { hostname: machine.hostname().parse().unwrap() });
    let wipe = world.once(&owner, &id, &wipe, 9);
    let next = world.keys(&owner, &id, "alice", 0, 6);
    let cases: Vec<(&str, Option<OrderCode>, SignedOrder)> = vec![
        ("signed by its own key", Some(OrderCode::KeyUnknown), by(&next, &mallory)),
        ("a wipe signed by its own key", Some(OrderCode::KeyUnknown), by(&wipe, &mallory)),
        ("of an owner it made up", Some(OrderCode::OwnerUnknown), {
            let stranger = TestOwner::new("mallory", 47);
            let draft = world.keys(&stranger, &id, "alice", 0, 6);
            signed(&draft, vec![stranger.sign(&draft)])
        }),
        ("without a signature", Some(OrderCode::Malformed), signed(&next, Vec::new())),
        (
            "another body",
            Some(OrderCode::BodyMismatch),
            edited(&|order| order.body = world.keys(&owner, &id, "alice", 1, 6).body),
        ),
        (
            "another revision",
            Some(OrderCode::SignatureInvalid),
            edited(&|order| order.intent_json = order.intent_json.replace(":6", ":7")),
        ),
        ("the signature of another order", Some(OrderCode::SignatureInvalid), signed(&next, vec![owner.sign(&good)])),
        (
            "the signature under a key of another owner",
            Some(OrderCode::OwnerUnknown),
            edited(&|order| order.signatures = vec![rename(&order.signatures)]),
        ),
        (
            "for another node",
            Some(OrderCode::NotNamed),
            sign(&owner, &redrafted(&|intent| intent.nodes = vec![other.clone()])),
        ),
        (
            "of another fleet",
            Some(OrderCode::OtherFleet),
            sign(&owner, &redrafted(&|intent| intent.fleet = Digest::of(b"another"))),
        ),
        (
            "an older revision",
            Some(OrderCode::OlderRevision),
            sign(&owner, &redrafted(&|intent| set_revision(intent, 4))),
        ),
        (
            "another under the same revision",
            Some(OrderCode::RevisionConflict),
            sign(&owner, &redrafted(&|intent| set_revision(intent, 5))),
        ),
        ("the last one once more", None, sign(&owner, &good)),
    ];
    for (name, code, order) in cases {
        world.play(Some(offering(name, vec![order])));
        machine.run(3 * MINUTE).await;
        assert!(world.played() > 0, "{name}: never asked");
        assert_eq!(record(&machine), before, "{name}");
        // What holds already is told as carried out, once more.
        assert!(code.is_none() || refused_last(&machine) == code, "{name}: {:?}", refused_last(&machine));
        assert!(machine.ends.is_empty(), "{name}: {:?}", machine.ends);
    }
    // And the honest one goes on.
    world.play(None);
    let honest = world.keys(&owner, &id, "alice", 0, 6);
    world.order(&owner, &honest);
    world.comes_to(&mut machine, &honest, DraftState::Done).await;
}

/// What the controller hands out with every heartbeat instead of what it should.
fn offering(name: &str, orders: Vec<SignedOrder>) -> Trick {
    let mut turn = 0;
    Trick::on(name.to_owned(), &[Endpoint::Heartbeat], move |moment| {
        let intent = orders.get(turn % orders.len()).cloned().map(Box::new);
        turn += 1;
        with_orders(moment.honest, &OrdersReply { intent, ..OrdersReply::default() })
    })
}

fn signed(draft: &Draft, signatures: Vec<OrderSignature>) -> SignedOrder {
    SignedOrder { intent_json: draft.intent_json.clone(), body: draft.body.clone(), signatures }
}

fn sign(owner: &TestOwner, draft: &Draft) -> SignedOrder {
    signed(draft, vec![owner.sign(draft)])
}

fn set_revision(intent: &mut OrderHead, to: u64) {
    if let Terms::State { revision, .. } = &mut intent.terms {
        *revision = to;
    }
}

/// The same signature, said to be bob's.
fn rename(signatures: &[OrderSignature]) -> OrderSignature {
    let mut signature = signatures[0].clone();
    signature.owner = bob().id;
    signature
}

/// The code of the last order that was refused.
fn refused_last(machine: &Machine) -> Option<OrderCode> {
    machine.status().owners.unwrap_or_default().orders.iter().rev().find_map(|seen| seen.refused)
}

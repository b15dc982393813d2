//! Removed is removed.

use std::time::Duration;

use lucia_agent::host::status::Reason;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::test_support::key;

use crate::world::{Hand, Machine, SEEDS, World};

const HOUR: Duration = Duration::from_secs(3600);

/// The next call of a removed node is refused as that of a machine that never was; it asks ever more rarely, for good,
/// and keeps what it has.
// spec: TS-7
#[tokio::test(start_paused = true)]
async fn a_removed_node_is_refused_at_its_next_call_and_asks_once_an_hour_for_good() {
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        let (id, before) = (machine.id(), machine.files());
        world.remove(&id);
        let removed = world.now();
        world.forget_seen();
        machine.run(12 * HOUR).await;
        let seen = world.seen();
        let calls = seen.iter().filter(|seen| seen.call != Endpoint::NodeChallenge);
        assert!(calls.clone().all(|seen| seen.status != Some(200)), "seed {seed}");
        let late = calls.filter(|seen| seen.at.since(removed) > 6 * HOUR && seen.call == Endpoint::Heartbeat).count();
        assert!((4..=24).contains(&late), "seed {seed}: {late} heartbeats in six hours");
        assert_eq!(machine.files(), before);
        assert_eq!(machine.ends, Vec::<String>::new());
        let refusal = machine.refusal("heartbeat").unwrap();
        assert!(
            refusal.what.contains("node_identity_invalid") && refusal.cure.contains("luciactl why NAME"),
            "{refusal:?}"
        );
        assert_eq!(world.phase(&id), None);
    }
}

/// threats.md B-7: the name is free for a new approval, and nothing else comes with it. The worker keeps the name with
/// the key that had it, so the new machine gets no certificate under it before somebody decides there.
// spec: TS-8
#[tokio::test(start_paused = true)]
async fn a_new_node_under_the_old_name_inherits_nothing() {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut old = Machine::new(&world, 1);
    old.join().await;
    let old_id = old.id();
    let mut hand = Hand::in_machine(&world, &old);
    let heartbeat = world.last_report(Endpoint::Heartbeat, &old_id);
    world.remove(&old_id);
    world.worker_turn(world.now());

    let mut new = Machine::new(&world, 2).called(old.hostname());
    new.install().await;
    let new_id = new.id();
    assert_eq!(world.phase(&new_id), Some(DevicePhase::AwaitingEnrollment));
    new.run(HOUR / 2).await;
    assert_eq!(new.file("certificate.pem"), None);
    let refusal = new.refusal("enroll").expect("the worker's refusal");
    assert_eq!(refusal.reason, Some(Reason::Worker), "{refusal:?}");
    assert!(refusal.what.contains(old_id.as_str()), "{refusal:?}");

    // The old node's key and certificate are worth nothing under either id.
    let stranger = Hand::in_machine(&world, &old).with_key(key(99)).say(Endpoint::Heartbeat, &heartbeat).await;
    assert_eq!(hand.say(Endpoint::Heartbeat, &heartbeat).await, stranger);
    let heartbeat = heartbeat.replace(old_id.as_str(), new_id.as_str());
    let mut hand = Hand::in_machine(&world, &old).calling(&new_id);
    assert_eq!(hand.say(Endpoint::Heartbeat, &heartbeat).await.code(), stranger.code());
    let node = world.controller().node(&new_id);
    assert!(node.is_err() || node.unwrap().samples.is_empty());
    assert_eq!(world.phase(&new_id), Some(DevicePhase::AwaitingEnrollment));
}

//! The next certificate, and the one after it.

use std::time::Duration;

use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;

use crate::world::{Machine, SEEDS, Tamper, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

async fn node(seed: u64) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    (world, machine)
}

fn leaves(world: &World) -> usize {
    world.ledger().iter().filter(|line| line["kind"] == "issued").count()
}

/// Longest time between two heartbeats that were accepted.
fn longest_silence(world: &World, from: UnixTime) -> Duration {
    let seen = world.seen();
    let heard =
        seen.iter().filter(|seen| seen.call == Endpoint::Heartbeat && seen.status == Some(200) && seen.at >= from);
    let times: Vec<UnixTime> = heard.map(|seen| seen.at).chain([world.now()]).collect();
    let starts = std::iter::once(from).chain(times.iter().copied());
    starts.zip(&times).map(|(former, next)| next.since(former)).max().unwrap()
}

/// A node that is well calls and is answered, hour after hour, with one certificate until the day is over.
// spec: TS-3
#[tokio::test(start_paused = true)]
async fn a_day_of_heartbeats_ends_with_a_renewal() {
    let (world, mut machine) = node(SEEDS[1]).await;
    let joined = world.now();
    let (key, csr, first) = (machine.file("node.key"), machine.file("node.csr"), machine.file("certificate.pem"));
    machine.run(5 * HOUR).await;
    assert!(longest_silence(&world, joined) < 3 * MINUTE);
    world.sleep_through(18 * HOUR).await;
    machine.run(HOUR / 2).await;
    assert_eq!(machine.file("certificate.pem"), first, "not before six days are left");
    machine.run(HOUR).await;
    assert_ne!(machine.file("certificate.pem"), first);
    assert_eq!((machine.file("node.key"), machine.file("node.csr"), leaves(&world)), (key, csr, 2));
    assert_eq!(machine.ends, Vec::<String>::new());
}

/// Looked at for half an hour each day.
// spec: TS-3
#[tokio::test(start_paused = true)]
async fn a_node_renews_about_once_a_day_with_one_key_and_one_request() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed).await;
        let (key, csr) = (machine.file("node.key"), machine.file("node.csr"));
        let mut requests = std::collections::BTreeSet::new();
        for day in 1..=5 {
            world.sleep_through(DAY - HOUR / 2).await;
            machine.run(HOUR / 2 + 2 * MINUTE).await;
            assert_eq!(leaves(&world), 1 + day, "seed {seed}, day {day}");
            requests.insert(world.last_report(Endpoint::Renew, &machine.id()));
            world.forget_seen();
        }
        assert_eq!(requests.len(), 1);
        assert_eq!((machine.file("node.key"), machine.file("node.csr")), (key, csr));
    }
}

/// threats.md F-15.
// spec: TS-4
#[tokio::test(start_paused = true)]
async fn a_node_lives_through_five_days_without_a_worker() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed).await;
        world.stop_worker();
        world.sleep_through(DAY).await;
        machine.run(3 * MINUTE).await;
        for day in 1..=5 {
            world.forget_seen();
            let from = world.now();
            machine.run(30 * MINUTE).await;
            assert!(longest_silence(&world, from) < 3 * MINUTE, "seed {seed}, day {day}");
            let refusal = machine.refusal("renew").expect("a refusal");
            assert!(refusal.cure.contains("lucia-enrollment-worker") || refusal.what.contains("chaos"), "{refusal:?}");
            if day > 1 {
                let tries = world.times(Endpoint::Renew, from).len();
                assert!((1..=5).contains(&tries), "seed {seed}, day {day}: {tries} tries in half an hour");
            }
            world.sleep_through(DAY - 30 * MINUTE).await;
        }
        assert_eq!(leaves(&world), 1);
        let first = machine.file("certificate.pem");
        world.start_worker();
        // Two questions at least, 15 minutes apart at most, and some of them meet the unruly network.
        machine.run_until(2 * HOUR, |machine| machine.file("certificate.pem") != first).await;
        assert_eq!(leaves(&world), 2);
        assert_eq!(machine.ends, Vec::<String>::new());
    }
}

/// A lost answer costs no second certificate: the same question gets the same leaf.
// spec: TS-5
#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answers_are_lost_ends_in_one_leaf() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed).await;
        world.sleep_through(DAY).await;
        let mut left = 6;
        world.script(move |coming| {
            let lost = coming.call == Endpoint::Renew && left > 0;
            left -= usize::from(lost);
            lost.then_some(Tamper::LoseAnswer)
        });
        let first = machine.file("certificate.pem");
        machine.run_until(2 * HOUR, |machine| machine.file("certificate.pem") != first).await;
        assert_eq!(leaves(&world), 2);
        let receipt = std::fs::read_to_string(world.path(&format!("worker/receipts/{}.json", machine.id()))).unwrap();
        let receipt: serde_json::Value = serde_json::from_str(&receipt).unwrap();
        assert_eq!(receipt["certificatePem"].as_str().unwrap(), machine.certificate_pem());
    }
}

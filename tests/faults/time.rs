//! F-8, F-9, F-13, F-14: wrong clocks, long sleeps, partitions, and everybody's return.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_agent::client::retry::{Backoff, Pace};
use lucia_agent::host::status::Doing;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;

use crate::world::{Coming, Machine, SEEDS, START, StoryClock, Tamper, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const TEN_YEARS: i64 = 3650 * 86_400;

async fn node(seed: u64) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    (world, machine)
}

/// Heartbeats since then, and how many of them were accepted.
fn beats(world: &World, from: UnixTime) -> (usize, usize) {
    let seen = world.seen();
    let beats: Vec<_> = seen.iter().filter(|seen| seen.call == Endpoint::Heartbeat && seen.at >= from).collect();
    (beats.len(), beats.iter().filter(|seen| seen.status == Some(200)).count())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Agent,
    Controller,
    Worker,
}

fn clock<'a>(whose: Whose, world: &'a World, machine: &'a Machine) -> &'a StoryClock {
    match whose {
        Whose::Agent => machine.clock(),
        Whose::Controller => world.controller_clock(),
        Whose::Worker => world.worker_clock(),
    }
}

/// threats.md F-8. One of the three has a wrong wall clock, from its boot on or from one moment to the next, over the time
/// of a renewal. Whatever it costs, it is nothing that lasts: two minutes after the clock is right, the node beats; its key
/// and its identity are what they were, and at most one certificate a day was signed.
// spec: FT-8
#[tokio::test(start_paused = true)]
async fn f_8_a_wrong_clock_of_anybody_costs_nothing_that_lasts() {
    let since_1970 = i64::try_from(START.secs()).unwrap();
    let day = 86_400;
    for (at, wrong_by) in [day, TEN_YEARS, -day, -since_1970].into_iter().enumerate() {
        for whose in [Whose::Agent, Whose::Controller, Whose::Worker] {
            for at_boot in [false, true] {
                let what = format!("{whose:?} {wrong_by} s, at boot: {at_boot}");
                let (world, mut machine) = node(SEEDS[at % SEEDS.len()]).await;
                let (id, key) = (machine.id(), machine.file("node.key"));
                machine.run(2 * MINUTE).await;
                clock(whose, &world, &machine).set_wrong_by(wrong_by);
                if at_boot {
                    match whose {
                        Whose::Agent => machine.reboot(0),
                        Whose::Controller => world.restart_controller().await,
                        Whose::Worker => world.restart_worker(),
                    }
                }
                machine.run(10 * MINUTE).await;
                world.sleep_through(DAY).await;
                machine.run(10 * MINUTE).await;
                // NTP comes by.
                clock(whose, &world, &machine).set_wrong_by(0);
                let right = world.now();
                machine.run(2 * MINUTE).await;
                assert!(beats(&world, right).1 >= 1, "{what}: {:?}", machine.status());
                machine.run(2 * HOUR).await;
                assert_eq!(machine.status().doing, Doing::Heartbeating, "{what}");
                assert_eq!(world.phase(&id), Some(DevicePhase::Managed), "{what}");
                assert_eq!(machine.file("node.key"), key, "{what}");
                let issued = world.ledger().iter().filter(|line| line["kind"] == "issued").count();
                assert!(issued <= 3, "{what}: {issued} certificates in a day");
                assert!(!machine.status().frozen, "{what}");
            }
        }
    }
}

/// threats.md F-9: suspended for eight hours or eight days, the node says it is there once and not a thousand times, and
/// one whose certificate ended meanwhile has a new one before it does.
// spec: FT-9
#[tokio::test(start_paused = true)]
async fn f_9_a_suspended_node_resumes_with_one_heartbeat() {
    for seed in SEEDS {
        for away in [10 * MINUTE, 8 * HOUR, 8 * DAY] {
            let (world, mut machine) = node(seed).await;
            machine.run(5 * MINUTE).await;
            world.calm();
            world.sleep_through(away).await;
            let back = world.now();
            machine.run(20 * Duration::from_secs(1)).await;
            let (sent, _) = beats(&world, back);
            assert!(sent <= 1, "seed {seed}, {away:?}: {sent} heartbeats in twenty seconds");
            machine.run(5 * MINUTE).await;
            let (sent, accepted) = beats(&world, back);
            assert!((8..=13).contains(&sent) && sent == accepted, "seed {seed}, {away:?}: {accepted} of {sent}");
            assert_eq!((machine.ends.len(), machine.status().frozen), (0, false));
        }
    }
}

/// threats.md F-13: five minutes, or eight days, without the controller, in one direction or in both, or over a line that
/// loses half, is slow, or cuts answers. Thirty seconds after it heals from minutes, the node is heard; from days, by
/// renewing first.
// spec: FT-13
#[tokio::test(start_paused = true)]
async fn f_13_a_partition_that_heals_is_forgotten() {
    type Line = fn(&Coming) -> Tamper;
    let lines: [(&str, Line); 7] = [
        ("nothing arrives", |_| Tamper::LoseRequest),
        ("no answer arrives", |_| Tamper::LoseAnswer),
        ("every other one is lost", |coming| if coming.number % 2 == 0 { Tamper::LoseRequest } else { Tamper::Pass }),
        ("answers are cut", |_| Tamper::Cut),
        ("somebody else answers", |_| Tamper::Page(502)),
        // A report with its certificate fills more than one segment; to ask for a challenge takes none.
        ("what is large is lost", |coming| match coming.call {
            Endpoint::NodeChallenge => Tamper::Pass,
            _ => Tamper::LoseRequest,
        }),
        ("slower than the agent waits", |_| Tamper::Slow(8)),
    ];
    for (at, (name, line)) in lines.into_iter().enumerate() {
        for away in [5 * MINUTE, 8 * DAY] {
            let (world, mut machine) = node(SEEDS[at % SEEDS.len()]).await;
            machine.run(2 * MINUTE).await;
            let files = machine.file("node.key");
            world.calm();
            world.script(move |coming| Some(line(coming)));
            machine.run(away.min(10 * MINUTE)).await;
            if away > DAY {
                world.sleep_through(away).await;
                machine.run(MINUTE).await;
            }
            world.unscript();
            let healed = world.now();
            let limit = if away > DAY { 16 * MINUTE } else { Duration::from_secs(75) };
            machine.run(limit).await;
            assert!(beats(&world, healed).1 >= 1, "{name}, {away:?}: {:?}", machine.status());
            assert_eq!(machine.file("node.key"), files, "{name}, {away:?}");
            assert_eq!((machine.ends.len(), machine.status().frozen), (0, false), "{name}, {away:?}");
        }
    }
}

/// threats.md F-13: three seconds each way, for an hour. Every heartbeat is accepted, none is sent twice, and the pauses
/// between them are no longer than the line makes them.
// spec: FT-13
#[tokio::test(start_paused = true)]
async fn f_13_three_seconds_each_way_cost_no_heartbeat() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed).await;
        machine.run(2 * MINUTE).await;
        world.calm();
        world.script(|_| Some(Tamper::Slow(3)));
        let from = world.now();
        machine.run(HOUR).await;
        let (sent, accepted) = beats(&world, from);
        // The last one may be on its way; a pause is 30 s and a little, and the line adds six.
        assert!((85..=130).contains(&accepted) && sent - accepted <= 1, "seed {seed}: {accepted} of {sent}");
        assert_eq!((machine.ends.len(), machine.status().frozen), (0, false), "seed {seed}");
    }
}

/// threats.md F-14: two thousand nodes by the agent's own back-off, whose controller was away for ten minutes: none is
/// silent a minute after its return, and the busiest second has at most three times the mean.
// spec: FT-14
#[test]
fn f_14_two_thousand_nodes_return_spread_out() {
    const NODES: u64 = 2000;
    let away = 10 * MINUTE;
    let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
    for node in 0..NODES {
        let mut backoff = Backoff::new(node.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The controller goes at 0; each node calls next within its thirty seconds, and tries until it is back.
        let mut at = Duration::from_millis(node * 30_000 / NODES);
        while at < away {
            at += backoff.next(Pace::ANSWERLESS, None);
        }
        *seconds.entry((at - away).as_secs()).or_default() += 1;
    }
    let last = *seconds.keys().max().unwrap();
    assert!(last < 60, "the last node is back after {last} s");
    let busiest = seconds.values().max().unwrap();
    // Over the thirty seconds that a pause can have at most.
    assert!(*busiest <= 3 * NODES / 30, "{busiest} nodes in one second: {seconds:?}");
}

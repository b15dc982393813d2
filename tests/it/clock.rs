//! Clocks that are wrong (threats.md F-8): nobody's own clock costs anybody anything.

use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::Scope;

use crate::world::{Hand, Machine, SEEDS, START, World};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const TEN_YEARS: i64 = 3650 * 86_400;

fn signed(span: Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap()
}

/// From its first boot on, ten years off or back in 1970, and corrected in between.
// spec: TS-9
#[tokio::test(start_paused = true)]
async fn f_8_a_machine_with_any_clock_joins_beats_and_renews() {
    let since_1970 = i64::try_from(START.secs()).unwrap();
    for (seed, wrong_by) in SEEDS.into_iter().zip([TEN_YEARS, -TEN_YEARS, -since_1970]) {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.clock().set_wrong_by(wrong_by);
        machine.join().await;
        let offset = machine.status().clock_offset_seconds.unwrap();
        assert!((offset + wrong_by).abs() <= 5 || wrong_by == -since_1970, "{offset}");
        let key = machine.file("node.key");
        for step in [0, wrong_by, 0] {
            machine.clock().set_wrong_by(step);
            let from = world.now();
            machine.run(HOUR / 4).await;
            let beats = world.times(Endpoint::Heartbeat, from).len();
            assert!((20..60).contains(&beats), "{beats}");
            assert_eq!(world.times(Endpoint::Renew, from), [], "no clock of its own makes it renew");
        }
        world.sleep_through(DAY).await;
        machine.clock().set_wrong_by(wrong_by);
        let first = machine.file("certificate.pem");
        machine.run_until(HOUR, |machine| machine.file("certificate.pem") != first).await;
        assert_eq!((machine.file("node.key"), machine.ends.len()), (key, 0));
    }
}

/// The controller's wall clock steps by an hour, to and fro, while nodes call.
// spec: TS-10
#[tokio::test(start_paused = true)]
async fn f_8_steps_of_the_controller_s_clock_discard_nothing() {
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        world.sleep_through(2 * HOUR).await;
        machine.run(HOUR / 6).await;
        let (id, files) = (machine.id(), machine.files());
        world.calm();
        for step in [signed(HOUR), 0, -signed(HOUR), 0] {
            world.controller_clock().set_wrong_by(step);
            world.forget_seen();
            machine.run(HOUR / 4).await;
            let refused: Vec<_> = world.seen().into_iter().filter(|seen| seen.status != Some(200)).collect();
            assert!(refused.is_empty(), "seed {seed}, {step}: {refused:?}");
            assert!(world.seen().len() > 25);
        }
        assert_eq!(machine.files(), files);
        assert!(world.phase(&id).is_some());
    }
}

/// threats.md S-5: a challenge is as old as the time since it was made, whatever the wall clock says.
// spec: TS-11
#[tokio::test(start_paused = true)]
async fn s_5_the_age_of_a_challenge_is_not_the_wall_clock_s() {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    let report = world.last_report(Endpoint::Heartbeat, &machine.id());
    world.sleep_through(2 * HOUR).await;
    let mut hand = Hand::in_machine(&world, &machine);
    for step in [0, signed(HOUR), -signed(HOUR)] {
        for (age, want) in [(119, None), (121, Some(Code::ChallengeRefused))] {
            world.controller_clock().set_wrong_by(0);
            let challenge = hand.challenge_of(&Scope::Node(hand.id.clone()));
            world.controller_clock().set_wrong_by(step);
            world.sleep_through(Duration::from_secs(age)).await;
            let request = hand.carry(Endpoint::Heartbeat, hand.prove(&report, &challenge));
            assert_eq!(hand.send(&request).await.code(), want, "age {age}, wall {step}");
        }
    }
}

/// A worker whose clock is an hour off is not believed, and costs nothing but time.
// spec: TS-10
#[tokio::test(start_paused = true)]
async fn f_8_a_worker_with_a_wrong_clock_signs_nothing_that_is_taken() {
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        let (id, first) = (machine.id(), machine.file("certificate.pem"));
        for step in [signed(HOUR), -signed(HOUR), TEN_YEARS, -TEN_YEARS] {
            world.worker_clock().set_wrong_by(step);
            world.sleep_through(DAY).await;
            machine.run(HOUR / 6).await;
            assert_eq!(machine.file("certificate.pem"), first, "seed {seed}, {step}");
        }
        world.worker_clock().set_wrong_by(0);
        machine.run_until(HOUR, |machine| machine.file("certificate.pem") != first).await;
        assert!(world.phase(&id).is_some());
        assert_eq!(machine.ends, Vec::<String>::new());
    }
}

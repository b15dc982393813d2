//! One identity on two machines, and one machine that looks like two (threats.md K, F-17; design.md I8).

use std::net::IpAddr;
use std::time::Duration;

use lucia_durable::crash_point::crash_at;
use lucia_proto::base::acts::Act;
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::Endpoint;

use crate::world::{Machine, SEEDS, Tamper, World};

const MINUTE: Duration = Duration::from_secs(60);

/// A node, and a machine with a copy of its disk that was not started yet.
async fn pair(world: &World) -> (Machine, Machine) {
    world.admit_by_journal();
    let mut machine = Machine::new(world, 1);
    machine.join().await;
    machine.run(2 * MINUTE).await;
    let copy = machine.copied(2);
    (machine, copy)
}

async fn run_both(one: &mut Machine, two: &mut Machine, span: Duration) {
    tokio::join!(one.run(span), two.run(span));
}

/// Heartbeats from this address that were accepted.
fn accepted(world: &World, from: IpAddr) -> usize {
    let heartbeats = world.seen().into_iter().filter(|seen| seen.call == Endpoint::Heartbeat && seen.from == from);
    heartbeats.filter(|seen| seen.status == Some(200)).count()
}

fn events(world: &World, kind: Act) -> usize {
    world.journal().events.iter().filter(|event| event.kind == kind).count()
}

fn is_frozen(world: &World, id: &NodeId) -> bool {
    world.journal().device(id).unwrap().frozen.is_some()
}

// spec: TS-40
#[tokio::test(start_paused = true)]
async fn a_copied_state_freezes_both_within_two_heartbeats_and_costs_neither_a_heartbeat() {
    for seed in SEEDS {
        let world = World::new(seed);
        let (mut machine, mut copy) = pair(&world).await;
        let id = machine.id();
        world.calm();
        world.forget_seen();
        for second in 0.. {
            if is_frozen(&world, &id) {
                break;
            }
            assert!(second < 600, "seed {seed}: neither is heard in ten minutes");
            run_both(&mut machine, &mut copy, Duration::from_secs(1)).await;
            let beats = [accepted(&world, machine.address()), accepted(&world, copy.address())];
            assert!(beats.iter().any(|beats| *beats <= 2), "seed {seed}: not frozen after {beats:?}");
        }
        run_both(&mut machine, &mut copy, 10 * MINUTE).await;
        assert!(machine.status().frozen && copy.status().frozen, "seed {seed}");
        let heartbeats: Vec<_> = world.seen().into_iter().filter(|seen| seen.call == Endpoint::Heartbeat).collect();
        assert!(heartbeats.len() > 36 && heartbeats.iter().all(|seen| seen.status == Some(200)), "seed {seed}");
        assert!(accepted(&world, machine.address()) > 17 && accepted(&world, copy.address()) > 17, "seed {seed}");

        // Both are shown, in the event and as they are now.
        assert_eq!(events(&world, Act::Frozen), 1);
        let journal = world.journal();
        let event = journal.events.iter().find(|event| event.kind == Act::Frozen).unwrap();
        for holders in [event.holders.clone(), world.controller().node(&id).unwrap().frozen.unwrap().holders] {
            let mut seen: Vec<_> = holders.iter().map(|holder| holder.address).collect();
            seen.sort();
            assert_eq!(seen, [machine.address(), copy.address()], "seed {seed}");
            let boots: Vec<_> = holders.iter().map(|holder| holder.boot_id.clone().expect("a boot id")).collect();
            assert_ne!(boots[0], boots[1]);
        }
        // No restart of anybody ends it.
        world.restart_controller().await;
        machine.reboot(0);
        copy.reboot(0);
        run_both(&mut machine, &mut copy, 3 * MINUTE).await;
        assert!(machine.status().frozen && copy.status().frozen && is_frozen(&world, &id), "seed {seed}");
        assert_eq!(world.controller().node(&id).unwrap().frozen.unwrap().holders.len(), 2);
        assert_eq!((machine.ends.len(), copy.ends.len()), (0, 0));
    }
}

// spec: TS-41
#[tokio::test(start_paused = true)]
async fn the_one_that_is_kept_goes_on_and_the_other_is_told_so_for_good() {
    for (seed, keep_copy) in [(SEEDS[0], false), (SEEDS[1], true)] {
        let world = World::new(seed);
        let (mut machine, mut copy) = pair(&world).await;
        let id = machine.id();
        run_both(&mut machine, &mut copy, 5 * MINUTE).await;
        assert!(is_frozen(&world, &id), "seed {seed}");
        let (stays, goes) = if keep_copy { (&mut copy, &mut machine) } else { (&mut machine, &mut copy) };
        world.keep(&id, stays.status().start_id.expect("a start"));
        run_both(stays, goes, 5 * MINUTE).await;
        for _ in 0..3 {
            assert!(!stays.status().frozen && goes.status().frozen, "seed {seed}");
            assert!(!is_frozen(&world, &id));
            let view = world.controller().node(&id).unwrap();
            assert_eq!(view.node.address, Some(stays.address()), "what the other one says is not the node's");
            assert_eq!(view.last_refused.unwrap().address, goes.address());
            stays.reboot(0);
            goes.reboot(0);
            world.restart_controller().await;
            run_both(stays, goes, 5 * MINUTE).await;
        }
        assert_eq!((events(&world, Act::Frozen), events(&world, Act::CloneKept)), (1, 1));
    }
}

// spec: TS-42
#[tokio::test(start_paused = true)]
async fn after_a_split_neither_is_the_node_any_more() {
    let world = World::new(SEEDS[2]);
    let (mut machine, mut copy) = pair(&world).await;
    let id = machine.id();
    run_both(&mut machine, &mut copy, 5 * MINUTE).await;
    assert!(is_frozen(&world, &id));
    world.split(&id);
    run_both(&mut machine, &mut copy, 5 * MINUTE).await;
    for machine in [&machine, &copy] {
        assert!(machine.refusal("heartbeat").unwrap().what.contains("node_identity_invalid"));
    }
    assert_eq!(world.phase(&id), None);
    assert_eq!((events(&world, Act::CloneSplit), events(&world, Act::Removed)), (1, 1));
}

/// threats.md F-17: yesterday's disk.
// spec: TS-43
#[tokio::test(start_paused = true)]
async fn a_restored_snapshot_is_frozen_and_keeps_its_heartbeats() {
    let world = World::new(SEEDS[0]);
    let (mut machine, mut restored) = pair(&world).await;
    let id = machine.id();
    machine.reboot(0);
    machine.run(2 * MINUTE).await;
    machine.kill();
    assert!(!is_frozen(&world, &id));
    restored.run(5 * MINUTE).await;
    assert!(is_frozen(&world, &id) && restored.status().frozen);
    assert!(restored.status().heartbeats > 5);
}

/// A thousand times: a reboot, often at another address; an agent that dies before or after a call; a disk that ends at
/// one of the steps of the agent's start; a lost request or answer; a controller that dies with what it had not written.
// spec: TS-44
#[tokio::test(start_paused = true)]
async fn a_thousand_honest_faults_freeze_nobody() {
    let world = World::new(SEEDS[1]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    let id = machine.id();
    let mut state = world.seed();
    let mut draw = move |below: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    let small = |number: u64| u8::try_from(number).unwrap();
    for fault in 0..1000 {
        world.forget_seen();
        let mut once = Some(match draw(6) {
            0 => Tamper::AgentDies,
            1 => Tamper::AgentDiesBefore,
            2 => Tamper::LoseAnswer,
            3 => Tamper::LoseRequest,
            4 => Tamper::ControllerDies,
            _ => Tamper::Pass,
        });
        let reboot = once == Some(Tamper::Pass);
        world.script(move |coming| if coming.call == Endpoint::Heartbeat { once.take() } else { None });
        let plan = if reboot {
            machine.reboot(small(draw(4)));
            let nth = usize::try_from(draw(16)).unwrap();
            Some(crash_at(&machine.state_dir(), nth))
        } else {
            None
        };
        machine.run(Duration::from_secs(20 + draw(50))).await;
        if plan.is_some() {
            drop(plan);
            machine.kill();
        }
        assert!(!is_frozen(&world, &id), "fault {fault}");
    }
    world.unscript();
    machine.run(5 * MINUTE).await;
    assert!(!machine.status().frozen && machine.status().heartbeats > 0);
    assert_eq!(events(&world, Act::Frozen), 0);
}

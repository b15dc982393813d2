//! Whatever is lost, and whoever dies, at whichever step: one node comes out, with one key and one live leaf.

use std::time::Duration;

use lucia_durable::crash_point::crash_at;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;
use tokio::time::sleep;

use crate::world::{Machine, SEEDS, Seen, Tamper, World};

/// One machine from nothing to Managed, with `act` at its call number `nth`. Says whether it came to that call.
async fn story(seed: u64, nth: usize, act: Tamper) -> bool {
    let world = World::new(seed);
    world.admit_by_journal();
    world.script(move |coming| (coming.number == nth).then_some(act));
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    one_node(&world, &machine, &format!("seed {seed}, {act:?} at call {nth}"));
    world.seen().len() > nth && world.seen()[nth].act == act
}

/// One key, one admission, one live leaf, one device, one task.
fn one_node(world: &World, machine: &Machine, what: &str) {
    let kinds: Vec<String> = world.ledger().iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["initialised", "admitted", "issued"], "{what}");
    let journal = world.journal();
    assert_eq!((journal.devices.len(), journal.tasks.len()), (1, 1), "{what}");
    assert_eq!(journal.devices[0].device_id, machine.id(), "{what}");
    assert_eq!(journal.devices[0].phase, DevicePhase::Managed, "{what}");
}

async fn at_every_call(acts: &[Tamper]) {
    for act in acts {
        let mut nth = 0;
        while story(SEEDS[nth % SEEDS.len()], nth, *act).await {
            nth += 1;
            assert!(nth < 1000, "{act:?}: there is no end of calls");
        }
        assert!(nth > 12, "{act:?} was tried at {nth} calls only");
    }
}

// spec: TS-14
#[tokio::test(start_paused = true)]
async fn any_request_or_answer_may_be_lost() {
    at_every_call(&[Tamper::LoseRequest, Tamper::LoseAnswer]).await;
}

/// threats.md F-1: killed before and after each call, in the installer as on the node.
// spec: TS-15
#[tokio::test(start_paused = true)]
async fn the_agent_may_die_at_any_call() {
    at_every_call(&[Tamper::AgentDies, Tamper::AgentDiesBefore]).await;
}

/// threats.md F-2: all that was answered is there, and the window is closed after each start.
// spec: TS-15
#[tokio::test(start_paused = true)]
async fn the_controller_and_the_worker_may_die_at_any_call() {
    at_every_call(&[Tamper::ControllerDies, Tamper::WorkerDies]).await;
}

/// threats.md F-1 and F-3 through the stack: the disk of agent or worker ends at a durable step from enrolment on. Every
/// step by itself is tried where it is at home; here it is every fourth, each in another network.
// spec: TS-16
#[tokio::test(start_paused = true)]
async fn f_1_and_f_3_a_death_at_any_durable_step_costs_nothing() {
    for worker in [false, true] {
        let mut tried = 0;
        while dies_at(worker, 4 * tried + usize::from(worker), SEEDS[tried % SEEDS.len()]).await {
            tried += 1;
            assert!(tried < 1000, "there is no end of durable steps");
        }
        assert!(tried > 5, "{tried} steps only");
    }
}

/// Says whether there was such a step.
async fn dies_at(worker: bool, nth: usize, seed: u64) -> bool {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.install().await;
    let dir = if worker { world.path("worker") } else { machine.state_dir() };
    let plan = crash_at(&dir, nth);
    machine.run(Duration::from_secs(45)).await;
    let crashed = plan.crashed();
    drop(plan);
    machine.kill();
    world.restart_worker();
    world.mend_ledger();
    let id = machine.id();
    machine.run_until(Duration::from_secs(600), |_| world.phase(&id) == Some(DevicePhase::Managed)).await;
    one_node(&world, &machine, &format!("worker {worker}, step {nth}: {crashed:?}"));
    crashed.is_some()
}

/// threats.md F-2 through the stack: the controller's disk ends at a durable step of the whole story, it answers
/// `persistence_failed` from then on, and is started again. What it answered before is there.
// spec: TS-16
#[tokio::test(start_paused = true)]
async fn f_2_a_controller_that_dies_at_any_durable_step_has_all_it_acknowledged() {
    let mut tried = 0;
    while controller_dies_at(13 * tried, SEEDS[tried % SEEDS.len()]).await {
        tried += 1;
        assert!(tried < 1000, "there is no end of durable steps");
    }
    assert!(tried > 10, "{tried} steps only");
}

async fn controller_dies_at(nth: usize, seed: u64) -> bool {
    let world = World::new(seed);
    world.admit_by_journal();
    let plan = crash_at(&world.path("controller"), nth);
    let supervisor = async {
        while plan.crashed().is_none() {
            sleep(Duration::from_secs(1)).await;
        }
        let crashed = plan.crashed();
        drop(plan);
        world.restart_controller().await;
        crashed
    };
    let mut machine = Machine::new(&world, 1);
    let crashed = {
        let mut join = std::pin::pin!(machine.join());
        tokio::select! {
            () = join.as_mut() => None,
            crashed = supervisor => {
                join.await;
                crashed
            }
        }
    };
    one_node(&world, &machine, &format!("step {nth}: {crashed:?}"));
    crashed.is_some()
}

/// threats.md F-13, F-14: away for an hour, and heard again within two minutes of its return.
// spec: TS-29
#[tokio::test(start_paused = true)]
async fn a_controller_that_returns_hears_its_node_at_once_and_knows_all_it_knew() {
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        let (files, journal) = (machine.files(), world.journal());
        world.kill_controller().await;
        machine.run(Duration::from_secs(3600)).await;
        assert_eq!(machine.refusal("heartbeat").map(|refusal| refusal.reason), Some(None));
        world.start_controller();
        let back = world.now();
        machine.run(Duration::from_secs(120)).await;
        let seen = world.seen();
        let heard = |seen: &&Seen| seen.call == Endpoint::Heartbeat && seen.at >= back && seen.status == Some(200);
        assert!(seen.iter().any(|seen| heard(&seen)), "seed {seed}");
        assert_eq!((machine.files(), machine.ends.len()), (files, 0));
        assert_eq!(world.journal().devices, journal.devices);
    }
}

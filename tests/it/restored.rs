//! A controller's directory of before a removal is put back.

use std::path::Path;
use std::time::Duration;

use lucia_proto::base::time::Clock as _;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::state::SnapshotState;
use lucia_worker::authority::mark_of;
use lucia_worker::config::Settings;
use lucia_worker::home::Home;
use lucia_worker::ledger::{Entry, Ledger};

use crate::world::{Machine, SEEDS, World};

/// Copies a directory with the modes of what is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copy(&from, &to) } else { _ = std::fs::copy(from, to).unwrap() }
    }
}

/// `lucia-enrollment-worker accept-journal`.
fn accept_journal(world: &World) {
    let text = std::fs::read_to_string(world.path("worker.toml")).unwrap();
    let config = Settings::parse(&text).unwrap().resolve().unwrap();
    let home = Home::open(&config).unwrap();
    let held = Ledger::hold(&home.dir).unwrap();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let mut transaction = ledger.begin(&home.dir, held).unwrap();
    transaction.add(world.worker_clock().now(), Entry::JournalAccepted(mark_of(&world.journal()))).unwrap();
    transaction.commit().unwrap();
}

// spec: TS-260
#[tokio::test(start_paused = true)]
async fn a_removed_node_does_not_come_back_with_an_older_directory_of_the_controller() {
    let world = World::new(SEEDS[0]);
    world.calm();
    world.admit_by_journal();
    let (mut gone, mut stays) = (Machine::new(&world, 1), Machine::new(&world, 2));
    gone.join().await;
    stays.join().await;
    let (id, other) = (gone.id(), stays.id());
    world.kill_controller().await;
    copy(&world.path("controller"), &world.path("backup"));
    world.start_controller();
    world.remove(&id);
    world.worker_turn(world.worker_clock().now());
    world.worker_turn(world.worker_clock().now());
    assert_eq!(world.phase(&id), None);

    world.kill_controller().await;
    std::fs::remove_dir_all(world.path("controller")).unwrap();
    copy(&world.path("backup"), &world.path("controller"));
    world.start_controller();
    assert_eq!(world.phase(&id), Some(DevicePhase::Managed), "the journal has it again");
    let state = |node| world.controller().node(node).unwrap().node.state;
    for accepted in [false, true] {
        if accepted {
            accept_journal(&world);
        }
        world.worker_turn(world.worker_clock().now());
        world.controller().tick();
        let from = world.now();
        gone.run(Duration::from_secs(2 * 3600)).await;
        stays.run(Duration::from_secs(600)).await;
        let seen = world.seen();
        let of = |node| {
            let calls = seen.iter().filter(move |seen| seen.node == node && seen.call == Endpoint::Heartbeat);
            calls.filter(|seen| seen.at >= from).map(|seen| seen.status).collect::<Vec<_>>()
        };
        let statuses = of(id.clone());
        // The first may be over a challenge of before the restart.
        assert!(statuses.contains(&Some(403)) && !statuses.contains(&Some(200)), "{accepted}: {statuses:?}");
        assert!(of(other.clone()).contains(&Some(200)), "{accepted}");
        assert_eq!((state(&id), state(&other)), (SnapshotState::Barred, SnapshotState::Online), "{accepted}");
    }
    world.remove(&id);
    assert_eq!(world.phase(&id), None);
}

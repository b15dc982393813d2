//! A certificate that is over.

use std::time::Duration;

use lucia_agent::host::status::Doing;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;

use crate::world::{Machine, SEEDS, World};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// threats.md F-9, F-13, S-12: eight days away, then back without anybody's help.
// spec: TS-6
#[tokio::test(start_paused = true)]
async fn a_lapsed_node_renews_and_does_nothing_else_and_comes_back_by_itself() {
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        let (id, key) = (machine.id(), machine.file("node.key"));
        world.stop_worker();
        world.sleep_through(8 * DAY).await;
        world.forget_seen();
        let before = world.now();
        machine.run(2 * HOUR).await;
        assert_eq!(machine.status().doing, Doing::Lapsed);
        assert_eq!(world.times(Endpoint::Heartbeat, before), [], "seed {seed}");
        assert!(world.times(Endpoint::Renew, before).len() >= 8);
        let calls = [Endpoint::Renew, Endpoint::NodeChallenge];
        assert!(world.seen().iter().all(|seen| calls.contains(&seen.call)));
        // The machine is switched off and on meanwhile: what it knows it knows from its disk.
        machine.kill();
        machine.run(HOUR).await;
        assert_eq!(world.times(Endpoint::Heartbeat, before), []);

        world.start_worker();
        machine.run_until(HOUR, |machine| machine.status().doing == Doing::Heartbeating).await;
        assert_eq!((machine.file("node.key"), world.phase(&id)), (key, Some(DevicePhase::Managed)));
        assert_eq!(machine.ends, Vec::<String>::new());
    }
}

//! From a machine that nobody knows to a node.

use std::time::Duration;

use lucia_proto::api::Endpoint;
use lucia_proto::phase::DevicePhase;

use crate::world::{Machine, SEEDS, World};

const MINUTES: Duration = Duration::from_secs(600);

/// Discovered, approved by fingerprint, staged, enrolled, admitted on the worker's own host, and Managed by its first
/// heartbeat.
// spec: TS-1
#[tokio::test(start_paused = true)]
async fn a_machine_becomes_a_node_and_only_its_first_heartbeat_makes_it_managed() {
    for seed in SEEDS {
        let world = World::new(seed);
        let mut machine = Machine::new(&world, 1);
        machine.install().await;
        let id = machine.id();
        assert_eq!(world.phase(&id), Some(DevicePhase::AwaitingEnrollment));
        machine.run(3 * MINUTES).await;
        assert_eq!(machine.file("certificate.pem"), None, "nothing is signed before somebody admits it");
        assert_eq!(world.ledger().len(), 1);
        // The controller writes the request anew every ten minutes.
        machine.run_until(MINUTES, |machine| world.admit(&machine.fingerprint())).await;
        let before = world.now();
        machine.run_until(MINUTES, |_| world.phase(&id) == Some(DevicePhase::Managed)).await;
        assert!(!world.times(Endpoint::Heartbeat, before).is_empty());
        let kinds: Vec<_> = world.ledger().iter().map(|line| line["kind"].clone()).collect();
        assert_eq!(kinds, ["initialised", "admitted", "issued"]);
        assert_eq!(machine.ends, Vec::<String>::new());
    }
}

//! From a machine that nobody knows to a node.

use std::time::Duration;

use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;

use crate::world::{Hand, Machine, SEEDS, Tamper, World};

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
        machine.run(MINUTES + MINUTES / 2).await;
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

/// What a machine says of itself never makes it a node, and neither does its certificate: a heartbeat under that
/// certificate does.
// spec: TS-2
#[tokio::test(start_paused = true)]
async fn progress_reports_and_certificates_make_nobody_managed() {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.install().await;
    let id = machine.id();
    let mut hand = Hand::in_machine(&world, &machine);
    for phase in DevicePhase::ALL {
        let report = format!(r#"{{"nodeId":"{id}","purpose":"progress","phase":"{phase:?}","message":"trust me"}}"#);
        let reply = hand.say(Endpoint::Progress, &report).await;
        if phase != DevicePhase::AwaitingEnrollment && phase != DevicePhase::Failed {
            assert_ne!(reply.status, 200, "{phase:?}");
        }
        assert_ne!(world.phase(&id), Some(DevicePhase::Managed), "{phase:?}");
        if phase == DevicePhase::AwaitingEnrollment {
            world.script(|coming| (coming.call == Endpoint::Heartbeat).then_some(Tamper::LoseRequest));
            machine.run_until(MINUTES, |machine| machine.file("certificate.pem").is_some()).await;
            machine.run(MINUTES).await;
            assert_eq!(world.phase(&id), Some(DevicePhase::AwaitingEnrollment));
            world.unscript();
            machine.run_until(MINUTES, |_| world.phase(&id) == Some(DevicePhase::Managed)).await;
            return;
        }
    }
}

//! A machine that was installed anew, or lost its key, and comes back under its old name (design.md W1).

use std::time::Duration;

use lucia_agent::host::status::Doing;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::phase::DevicePhase;

use crate::world::{Hand, Machine, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn kinds(world: &World, id: &lucia_proto::base::ids::NodeId) -> Vec<Act> {
    let journal = world.journal();
    journal.events.iter().filter(|event| event.device_id.as_ref() == Some(id)).map(|event| event.kind).collect()
}

/// From the installer's second boot to Managed under the old name, in both admission modes: the old identity goes in the
/// act of the approval, the name only by the act at the worker, and nothing else passes on.
// spec: TS-50
#[tokio::test(start_paused = true)]
async fn a_reinstalled_machine_comes_back_under_its_old_name_only_by_replaces() {
    for (seed, by_journal) in [(SEEDS[0], true), (SEEDS[1], false), (SEEDS[2], true)] {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut old = Machine::new(&world, 1);
        old.join().await;
        old.run(5 * MINUTE).await;
        let (old_id, name) = (old.id(), old.hostname().to_owned());
        let mut hand = Hand::in_machine(&world, &old);
        let heartbeat = world.last_report(Endpoint::Heartbeat, &old_id);
        assert!(!world.controller().node(&old_id).unwrap().samples.is_empty());
        old.kill();
        if !by_journal {
            std::fs::remove_file(world.path("admission.toml")).unwrap();
            world.restart_worker();
        }

        // The same hardware, wiped: a key of its own, and the name it had.
        let mut new = Machine::new(&world, 2).called(&name).replacing(&old_id);
        new.install().await;
        let new_id = new.id();
        assert_eq!((world.phase(&old_id), world.phase(&new_id)), (None, Some(DevicePhase::AwaitingEnrollment)));
        assert!(kinds(&world, &old_id).ends_with(&[Act::Replaced, Act::Removed]), "seed {seed}");
        let identities = || std::fs::read_dir(world.path("controller/nodes/identities")).unwrap().count();
        assert_eq!(identities(), 0, "seed {seed}: no record of the old one");
        let refused = hand.say(Endpoint::Heartbeat, &heartbeat).await.code();
        assert_eq!(refused, Some(Code::NodeIdentityInvalid), "seed {seed}: the old key is out at once");

        // Neither the grant nor the controller's word moves the name, in no mode of admission.
        new.run(HOUR / 2).await;
        assert_eq!(
            (new.file("certificate.pem"), new.status().doing),
            (None, Doing::AwaitingCertificate),
            "seed {seed}"
        );
        assert_eq!(world.ledger().iter().filter(|line| line["kind"] == "admitted").count(), 1, "seed {seed}");
        assert!(world.admit(&new.fingerprint()), "seed {seed}: it waits for the act");
        let managed = |_: &Machine| world.phase(&new_id) == Some(DevicePhase::Managed);
        new.run_until(HOUR, managed).await;
        new.run(2 * MINUTE).await;

        let view = world.controller().node(&new_id).unwrap();
        assert_eq!(view.node.hostname.as_str(), name);
        let joined = world
            .journal()
            .events
            .iter()
            .find(|event| event.kind == Act::Enrolled && event.device_id.as_ref() == Some(&new_id))
            .unwrap()
            .at;
        assert!(view.samples.iter().all(|sample| sample.at >= joined), "seed {seed}: samples are its own");
        assert_eq!(world.controller().nodes().nodes.len(), 1);
        assert!(!world.path(&format!("worker/receipts/{old_id}.json")).exists(), "seed {seed}");
        assert_eq!(identities(), 1);

        // The old disk, put back: its key is barred for ever, and it says so.
        world.calm();
        old.run(10 * MINUTE).await;
        assert!(old.refusal("heartbeat").unwrap().what.contains("node_identity_invalid"), "seed {seed}");
        assert_eq!((world.phase(&old_id), world.phase(&new_id)), (None, Some(DevicePhase::Managed)));
    }
}

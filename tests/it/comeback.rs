//! A server that was removed, or that lost its key, becomes a node again as it runs: with a new key, and nothing erased.

use std::fs;
use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::node::phase::{DevicePhase, TaskKind};
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::{Admit, Body, RemoveIdentity};
use lucia_proto::test_support::TestOwner;

use crate::world::{Machine, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

/// A node of a fleet that has an owner.
async fn owned(seed: u64) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    world.approve_owner(&alice(), Role::Owner);
    let believes = |machine: &Machine| {
        let owners = machine.status().owners.unwrap_or_default();
        owners.roster_version == 1 && owners.answered_at.is_some()
    };
    machine.run_until(10 * MINUTE, believes).await;
    (world, machine)
}

/// The owner's signed admission of the machine's present key in the old one's place, and the node that comes of it.
async fn admitted(world: &World, machine: &mut Machine, old: &NodeId) {
    let id = machine.id();
    assert_ne!(id, *old, "a key that is gone never comes back");
    let journal = world.journal();
    let task = journal.tasks.iter().find(|task| task.device_id == id).unwrap();
    assert_eq!((task.kind(), task.replaces.as_ref()), (TaskKind::Join, Some(old)));
    // The controller's approval alone is not enough.
    machine.run(10 * MINUTE).await;
    assert_eq!(machine.file("certificate.pem"), None);
    let (fingerprint, hostname) = (machine.fingerprint(), machine.hostname().parse().unwrap());
    let admit = Body::Admit(Admit { fingerprint, hostname, replaces: Some(old.clone()) });
    world.order(&alice(), &world.once(&alice(), &id, &admit, 8));
    let managed = |_: &Machine| world.phase(&id) == Some(DevicePhase::Managed);
    machine.run_until(HOUR, managed).await;
    assert_eq!(world.controller().node(&id).unwrap().node.hostname.as_str(), machine.hostname());
    assert_eq!(world.phase(old), None);
}

// spec: TS-300
#[tokio::test(start_paused = true)]
async fn a_removed_server_comes_back_as_it_runs_with_the_commands_that_are_printed() {
    let (world, mut machine) = owned(SEEDS[0]).await;
    let (old, name) = (machine.id(), machine.hostname().to_owned());
    let removal = Body::RemoveIdentity(RemoveIdentity { hostname: name.parse().unwrap() });
    world.order(&alice(), &world.once(&alice(), &old, &removal, 7));
    machine.run_until(HOUR, |machine| machine.file("node.key").is_none()).await;
    let gone = |_: &Machine| {
        world.settle();
        world.phase(&old).is_none()
    };
    machine.run_until(HOUR, gone).await;
    assert!(machine.file("installed.json").is_none() && machine.file("system.json").is_some());

    // lucia-node-agent discover; luciactl approve --replaces; wait-install; rekey --finish.
    machine.come_back(&name, Some(&old)).await;
    admitted(&world, &mut machine, &old).await;
}

// spec: TS-301
#[tokio::test(start_paused = true)]
async fn a_server_whose_key_file_is_gone_or_damaged_gets_a_new_key_in_place_on_a_persons_word() {
    for (seed, damage) in [(SEEDS[0], None), (SEEDS[1], Some("no key"))] {
        let (world, mut machine) = owned(seed).await;
        let (old, name) = (machine.id(), machine.hostname().to_owned());
        machine.kill();
        let key = machine.state_dir().join("node.key");
        match damage {
            None => fs::remove_file(&key).unwrap(),
            Some(text) => fs::write(&key, text).unwrap(),
        }
        // Nothing but a person's word makes another.
        machine.run(MINUTE).await;
        assert_eq!(fs::read_to_string(&key).ok().as_deref(), damage);
        machine.new_key().await;
        machine.come_back(&name, Some(&old)).await;
        admitted(&world, &mut machine, &old).await;
        // What was left of the key is there.
        let kept = machine.files().into_iter().find(|(name, _)| name.starts_with("damaged-"));
        assert_eq!(kept.map(|(_, bytes)| bytes).as_deref(), damage.map(str::as_bytes));
    }
}

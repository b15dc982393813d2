//! Done-when 4: a node that was switched off past its certificate's end comes back without hands; past `max-lapse` with
//! exactly one act, `lucia-enrollment-worker release-lapse`, and who does it is shown what it is about.

use std::time::Duration;

use lucia_agent::host::status::Doing;
use lucia_proto::node::phase::DevicePhase;

use crate::world::{Machine, SEEDS, World};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A node switched off for so long, and on again at another address.
async fn away(seed: u64, days: u32) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    machine.run(HOUR / 4).await;
    machine.kill();
    world.sleep_through(days * DAY).await;
    machine.reboot(7);
    (world, machine)
}

// spec: FT-30
#[tokio::test(start_paused = true)]
async fn a_node_that_was_off_past_its_certificate_comes_back_without_hands() {
    for (seed, days) in SEEDS.into_iter().zip([8, 20, 29]) {
        let (world, mut machine) = away(seed, days).await;
        let (id, key) = (machine.id(), machine.file("node.key"));
        machine.run_until(HOUR, |machine| machine.status().doing == Doing::Heartbeating).await;
        assert_eq!((world.phase(&id), machine.file("node.key")), (Some(DevicePhase::Managed), key), "{days} days");
        assert_eq!(machine.ends, Vec::<String>::new());
        let acts = world.ledger().iter().filter(|line| line["kind"] == "lapseReleased").count();
        assert_eq!(acts, 0, "{days} days");
    }
}

// spec: FT-31
#[tokio::test(start_paused = true)]
async fn past_max_lapse_one_act_at_the_worker_brings_it_back() {
    for (seed, days) in SEEDS.into_iter().zip([39, 90, 300]) {
        let (world, mut machine) = away(seed, days).await;
        let (id, key) = (machine.id(), machine.file("node.key"));
        let told = |machine: &Machine| machine.refusal("renew").is_some_and(|told| told.what.contains("release-lapse"));
        machine.run(HOUR).await;
        machine.run_until(3 * HOUR, told).await;
        machine.run(HOUR).await;
        assert_eq!(machine.status().doing, Doing::Lapsed, "{days} days");
        let issued = |world: &World| world.ledger().iter().filter(|line| line["kind"] == "issued").count();
        assert_eq!(issued(&world), 1, "{days} days: nothing is signed without the act");
        // What `release-lapse` shows is in ledger and journal; that the program shows it, and asks for the code, is tried
        // on the program itself (worker/tests/authority.rs).
        let seen = world.release_lapse(&id);
        assert_eq!(seen.gone.as_secs() / 86_400, u64::from(days) - 7, "by the ledger, from the certificate's end");
        let at = |place: u8| std::net::IpAddr::from([10, 0, place, 1]);
        assert_eq!((seen.then, seen.now), (Some(at(0)), at(7)), "{days} days");
        machine.run_until(HOUR, |machine| machine.status().doing == Doing::Heartbeating).await;
        assert_eq!((world.phase(&id), machine.file("node.key")), (Some(DevicePhase::Managed), key), "{days} days");
        assert_eq!((issued(&world), machine.ends.len()), (2, 0), "{days} days");
    }
}

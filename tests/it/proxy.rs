//! Somebody else answers (threats.md B-4): a portal, a proxy, another server.

use std::collections::BTreeMap;
use std::time::Duration;

use lucia_agent::host::status::Doing;
use lucia_proto::calls::Endpoint;

use crate::world::{Machine, SEEDS, Tamper, World};

const HOUR: Duration = Duration::from_secs(3600);

const STRANGERS: [Tamper; 9] = [
    Tamper::Page(200),
    Tamper::Page(302),
    Tamper::Page(401),
    Tamper::Page(403),
    Tamper::Page(404),
    Tamper::Page(407),
    Tamper::OtherJson(403),
    Tamper::OtherJson(404),
    Tamper::OtherJson(200),
];

/// Whatever a stranger answers, however long: nothing is deleted, `why` says what it is, and all goes on afterwards.
// spec: TS-12
#[tokio::test(start_paused = true)]
async fn b_4_a_node_behind_a_proxy_that_says_no_loses_nothing() {
    for (at, stranger) in STRANGERS.into_iter().enumerate() {
        let world = World::new(SEEDS[at % SEEDS.len()]);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        let before = machine.files();
        world.script(move |_| Some(stranger));
        let from = world.now();
        machine.run(2 * HOUR).await;
        assert_eq!((machine.files() == before, machine.ends.len()), (true, 0), "{stranger:?}");
        let calls = world.seen().iter().filter(|seen| seen.at >= from).count();
        assert!(calls < 500, "{stranger:?}: {calls} calls in two hours");
        let refusal = machine.refusal("heartbeat").unwrap();
        // It is not taken for the controller's own no, and has a cure.
        assert_eq!(refusal.reason, None, "{refusal:?}");
        assert!(!refusal.cure.is_empty(), "{refusal:?}");
        world.unscript();
        machine
            .run_until(HOUR, |machine| {
                machine.status().refusals.is_empty() && machine.status().doing == Doing::Heartbeating
            })
            .await;
        assert_eq!(machine.files(), before);
    }
}

/// At every call of the way from nothing to Managed, the first tries meet a stranger.
// spec: TS-13
#[tokio::test(start_paused = true)]
async fn b_4_a_proxy_that_says_no_at_every_call_only_delays() {
    for (at, stranger) in STRANGERS.into_iter().enumerate() {
        let world = World::new(SEEDS[at % SEEDS.len()]);
        world.admit_by_journal();
        let mut met: BTreeMap<Endpoint, usize> = BTreeMap::new();
        world.script(move |coming| {
            let tries = met.entry(coming.call).or_default();
            *tries += 1;
            (*tries <= 2).then_some(stranger)
        });
        let mut machine = Machine::new(&world, 1);
        let key = machine.fingerprint();
        machine.join().await;
        assert_eq!((machine.fingerprint(), machine.ends.len()), (key, 0), "{stranger:?}");
    }
}

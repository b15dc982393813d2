//! A controller that is wholly hostile (threats.md actor C, B-3, B-4): whatever it answers, the agent keeps its key and
//! every certificate, takes nothing that is forged, and goes on by itself once the honest one is back.

use std::time::Duration;

use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::{Answer, SignedAnswer};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::certificate::Leaf;
use lucia_proto::test_support::TestNode;
use lucia_tests::hostile_controller::{Deed, Loot, Trick, answers, tricks};

use crate::world::{Machine, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A world in which two machines are nodes; the story is about the first, the second is for what is stolen from it.
async fn two(seed: u64) -> (World, Machine, TestNode) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut other = Machine::known(&world, 2);
    other.join().await;
    other.run(5 * MINUTE).await;
    other.kill();
    let mut machine = Machine::known(&world, 1);
    machine.join().await;
    machine.run(5 * MINUTE).await;
    let mut node = TestNode::new(1);
    node.task_id = world.journal().device(&machine.id()).unwrap().task_id.clone().unwrap();
    (world, machine, node)
}

/// What must never be lost, and what may only be replaced by something newer of the worker's.
struct Kept {
    key: Vec<u8>,
    csr: Vec<u8>,
    installed: Vec<u8>,
    until: UnixTime,
    bundle: u64,
}

fn kept(machine: &Machine) -> Kept {
    let file = |name: &str| machine.file(name).unwrap_or_else(|| panic!("{name} is gone"));
    let node = TestNode::new(1);
    let leaf = Leaf::parse(&machine.certificate_pem()).unwrap().check(&node.rules()).unwrap();
    let answer: SignedAnswer = serde_json::from_slice(&file("answer.json")).unwrap();
    let answer: Answer = serde_json::from_slice(answer.parts().payload()).unwrap();
    assert_eq!(answer.certificate_pem, machine.certificate_pem(), "certificate and answer are of one piece");
    let bundle: lucia_proto::pki::bundle::SignedBundle = serde_json::from_slice(&file("bundle.json")).unwrap();
    let bundle: serde_json::Value = serde_json::from_slice(bundle.parts().payload()).unwrap();
    Kept {
        key: file("node.key"),
        csr: file("node.csr"),
        installed: file("installed.json"),
        until: leaf.not_after(),
        bundle: bundle["version"].as_u64().unwrap(),
    }
}

impl Kept {
    fn holds(&self, machine: &Machine, what: &str) {
        let now = kept(machine);
        assert!(now.key == self.key && now.csr == self.csr && now.installed == self.installed, "{what}");
        assert!(now.until >= self.until && now.bundle >= self.bundle, "{what}: {} < {}", now.until, self.until);
        assert!(machine.ends.is_empty(), "{what}: {:?}", machine.ends);
        strange_keys(machine, what);
    }
}

/// Files of SSH keys have names of people, and hold keys alone.
fn strange_keys(machine: &Machine, what: &str) {
    let root = machine.state_dir().ancestors().nth(4).unwrap().to_owned();
    let Ok(files) = std::fs::read_dir(root.join("etc/ssh/lucia-authorized-keys")) else { return };
    for path in files.map(|file| file.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        assert!(name != "root" && name.chars().all(plain), "{what}: keys of {name:?}");
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            assert!(line.parse::<lucia_proto::orders::ssh_key::SshKey>().is_ok(), "{what}: {line:?}");
        }
    }
}

/// The honest controller is back: the node is heard again.
async fn recovers(world: &World, machine: &mut Machine, what: &str) {
    world.play(None);
    let beats = machine.status().heartbeats;
    let began = world.elapsed();
    while machine.status().heartbeats <= beats {
        assert!(world.elapsed() < began + 3 * HOUR, "{what}: not heard in three hours: {:?}", machine.status());
        machine.run(30 * Duration::from_secs(1)).await;
    }
}

/// Every answer of every kind that there is to give, each for eight minutes, in a network that is unruly besides (F-26).
async fn through(seed: u64, which: usize, of: usize) {
    let (world, mut machine, node) = two(seed).await;
    let count = tricks(&Loot { ca: world.ca(), node: &node, now: world.now() }).len();
    assert!(count > 120, "{count}");
    for at in (which..count).step_by(of) {
        let trick = tricks(&Loot { ca: world.ca(), node: &node, now: world.now() }).swap_remove(at);
        let (name, before) = (trick.name.clone(), kept(&machine));
        world.play(Some(trick));
        machine.run(8 * MINUTE).await;
        assert!(world.played() > 0, "{name}: never asked");
        before.holds(&machine, &name);
        recovers(&world, &mut machine, &name).await;
        before.holds(&machine, &name);
        assert_eq!(world.phase(&machine.id()), Some(DevicePhase::Managed), "{name}");
        world.forget_seen();
    }
}

// spec: HC-1
#[tokio::test(start_paused = true)]
async fn no_answer_of_a_hostile_controller_costs_a_node_anything() {
    through(SEEDS[0], 0, 2).await;
}

// spec: HC-1
#[tokio::test(start_paused = true)]
async fn nor_does_any_other() {
    through(SEEDS[1], 1, 2).await;
}

/// A node that wants its next certificate is offered every wrong one there is; then the right one.
// spec: HC-2
#[tokio::test(start_paused = true)]
async fn no_forged_or_stolen_certificate_is_taken() {
    let (world, mut machine, node) = two(SEEDS[2]).await;
    let loot = |now| answers(&Loot { ca: world.ca(), node: &node, now });
    // Over a day old, so that it is asked for all the time; and nothing of it is lost by then.
    world.sleep_through(DAY + HOUR).await;
    let before = machine.files();
    let count = loot(world.now()).len();
    assert!(count > 90, "{count}");
    let mut fresh = loot(world.now());
    for at in 0..count {
        if at % 8 == 0 {
            fresh = loot(world.now());
        }
        let trick = std::mem::replace(&mut fresh[at], Trick::new("gone", |moment| Deed::Say(moment.honest)));
        let name = trick.name.clone();
        world.play(Some(trick));
        machine.run(16 * MINUTE).await;
        assert_eq!(machine.files(), before, "{name}");
        assert!(machine.ends.is_empty(), "{name}: {:?}", machine.ends);
        world.forget_seen();
    }
    let until = kept(&machine).until;
    world.play(None);
    machine.run_until(HOUR, |machine| kept(machine).until > until).await;
}

/// An answer of days ago is right in every part. It is not taken in place of a newer one, whatever time it is said to be.
// spec: HC-3
#[tokio::test(start_paused = true)]
async fn its_own_old_answers_are_not_taken_again() {
    let (world, mut machine, _) = two(SEEDS[0]).await;
    let first = machine.file("answer.json").unwrap();
    let began = world.now();
    for _ in 0..3 {
        let until = kept(&machine).until;
        world.sleep_through(DAY + HOUR).await;
        machine.run_until(HOUR, |machine| kept(machine).until > until).await;
    }
    let before = kept(&machine);
    // Far enough ahead that the agent asks; then the first answer of all, at a time when it was fresh.
    world.play(Some(replayed(first, began)));
    world.sleep_through(2 * DAY).await;
    machine.run(2 * HOUR).await;
    before.holds(&machine, "replayed");
    recovers(&world, &mut machine, "replayed").await;
    machine.run_until(HOUR, |machine| kept(machine).until > before.until).await;
}

fn replayed(answer: Vec<u8>, at: UnixTime) -> Trick {
    use lucia_proto::calls::Endpoint;
    let mut asked = 0;
    Trick::new("replayed", move |moment| {
        // The truth until the node asks for a certificate, and the old time from then on.
        asked += usize::from(moment.call == Endpoint::Renew);
        let mut reply = moment.honest;
        if asked == 0 {
            return Deed::Say(reply);
        }
        if let Some(mut next) = lucia_tests::hostile_controller::next_challenge(&reply) {
            next.server_time = at;
            reply.headers_mut().insert("lucia-challenge", next.to_header().parse().unwrap());
        }
        if moment.call == Endpoint::Renew {
            *reply.status_mut() = hyper::StatusCode::OK;
            *reply.body_mut() = answer.clone().into();
        }
        Deed::Say(reply)
    })
}

//! threats.md S-3: one challenge, many callers.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::Duration;

use lucia_durable::crash_point::hold_at;
use lucia_proto::base::code::Code;
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::report::Proof;

use super::bench::{Machine, World, code};
use crate::parts::Enrolled;

/// How many of `callers` at the same time get an answer; the others must get `refused`.
fn winners<T>(callers: usize, refused: Code, call: impl Fn(usize) -> Result<T, crate::parts::Refusal> + Sync) -> usize {
    let barrier = Barrier::new(callers);
    let won = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for at in 0..callers {
            let (barrier, won, call) = (&barrier, &won, &call);
            scope.spawn(move || {
                barrier.wait();
                match call(at) {
                    Ok(_) => {
                        won.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    }
                    Err(refusal) => assert_eq!(refusal.code, refused),
                }
            });
        }
    });
    won.into_inner()
}

// spec: CH-2
#[test]
fn s_3_of_a_hundred_uses_of_one_challenge_one_wins() {
    let world = World::new();
    let machine = world.node(1);
    world.advance(1);
    let challenge = machine.challenge(&world);
    let call = machine.heartbeat_call(&challenge);
    let won =
        winners(100, Code::ChallengeRefused, |_| world.parts.heartbeat(machine.id(), &call.clone(), machine.from));
    assert_eq!(won, 1);
    // Another report over it, and so another signature: used is used.
    let mut other = lucia_proto::node::heartbeat::HeartbeatFields::clone(&machine.beat());
    other.uptime_seconds = 61;
    let beat = lucia_proto::node::heartbeat::Heartbeat::try_from(other).unwrap();
    let proof = Proof::sign(&beat, &challenge, &machine.node.key).unwrap();
    assert_ne!(proof.signature, call.proof.signature);
    let again = lucia_proto::node::report::NodeCall { proof, ..call };
    assert_eq!(code(world.parts.heartbeat(machine.id(), &again, machine.from)), Some(Code::ChallengeRefused));
}

// spec: CH-2
#[test]
fn s_3_the_same_holds_for_discovery() {
    let world = World::new();
    world.window();
    let machine = Machine::new(1);
    let challenge = world.parts.challenges.issue(&Scope::Boot, machine.from).challenge();
    let call = machine.discover_call(&challenge);
    let won = winners(32, Code::ChallengeRefused, |_| world.parts.enrollment.discover(call.clone(), machine.from));
    assert_eq!(won, 1);
    assert_eq!(world.parts.enrollment.onboarding().devices.len(), 1);
}

// spec: JO-9
#[test]
fn of_two_approvals_of_one_name_one_wins() {
    let world = World::new();
    world.window();
    let machines: Vec<Machine> = (1..=8).map(Machine::new).collect();
    for machine in &machines {
        machine.discover(&world).unwrap();
    }
    let form = machines[0].form();
    let won = winners(8, Code::HostnameInUse, |at| {
        world.parts.enrollment.approve(machines[at].id(), &form, super::bench::OPERATOR)
    });
    assert_eq!(won, 1);
}

// spec: HB-25
#[test]
fn a_slow_disk_under_a_renewal_holds_up_no_heartbeat() {
    let world = World::new();
    let mut machine = world.node(1);
    world.advance(24 * 3600);
    world.worker_is_there();
    assert_eq!(machine.renew(&world).unwrap(), Enrolled::Pending);
    let answer = world.signed_answer(&machine);
    world.worker_answers(&machine, Some(answer.clone()));
    let heard = world.now().plus(Duration::from_secs(5));
    let plan = hold_at(&world.file("nodes/identities"), "replace/sync");
    std::thread::scope(|scope| {
        let renewal = scope.spawn(|| machine.renew(&world));
        plan.reached("replace/sync");
        world.advance(5);
        let (done, wait) = channel();
        let (machine, world) = (&machine, &world);
        scope.spawn(move || done.send(machine.heartbeat(world)));
        let heartbeat = wait.recv_timeout(Duration::from_secs(20));
        drop(plan);
        assert_eq!(renewal.join().unwrap().unwrap(), Enrolled::Ready(answer.clone()));
        heartbeat.expect("it does not wait for the renewal").unwrap();
    });
    // Neither took anything from the other, in memory or on disk.
    machine.certificate = world.ca.issue(&machine.node, world.now());
    let seen = |world: &World| world.parts.node(machine.id()).unwrap().node;
    let (expires, last_seen) = (seen(&world).certificate_expires_at, seen(&world).last_seen_at);
    assert_eq!(last_seen, Some(heard));
    assert!(expires > Some(world.now().plus(Duration::from_secs(6 * 24 * 3600))), "{expires:?}");
    world.parts.tick();
    let world = world.restart();
    assert_eq!((seen(&world).certificate_expires_at, seen(&world).last_seen_at), (expires, last_seen));
}

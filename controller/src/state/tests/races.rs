//! threats.md S-3: one challenge, many callers.

use std::sync::Barrier;

use lucia_proto::challenge::Scope;
use lucia_proto::code::Code;
use lucia_proto::report::Proof;

use super::bench::{Machine, World, code};

/// How many of `callers` at the same time get an answer; the others must get `refused`.
fn winners<T>(callers: usize, refused: Code, call: impl Fn(usize) -> Result<T, crate::state::Refusal> + Sync) -> usize {
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
        winners(100, Code::ChallengeRefused, |_| world.controller.heartbeat(machine.id(), call.clone(), machine.from));
    assert_eq!(won, 1);
    // Another report over it, and so another signature: used is used.
    let mut other = lucia_proto::heartbeat::HeartbeatFields::clone(&machine.beat());
    other.uptime_seconds = 61;
    let beat = lucia_proto::heartbeat::Heartbeat::try_from(other).unwrap();
    let proof = Proof::sign(&beat, &challenge, &machine.node.key).unwrap();
    assert_ne!(proof.signature, call.proof.signature);
    let again = lucia_proto::report::NodeCall { proof, ..call };
    assert_eq!(code(world.controller.heartbeat(machine.id(), again, machine.from)), Some(Code::ChallengeRefused));
}

// spec: CH-2
#[test]
fn s_3_the_same_holds_for_discovery() {
    let world = World::new();
    world.window();
    let machine = Machine::new(1);
    let challenge = world.controller.next_challenge(&Scope::Boot, machine.from).challenge();
    let call = machine.discover_call(&challenge);
    let won = winners(32, Code::ChallengeRefused, |_| world.controller.discover(call.clone(), machine.from));
    assert_eq!(won, 1);
    assert_eq!(world.controller.onboarding().devices.len(), 1);
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
        world.controller.approve(machines[at].id(), &form, super::bench::OPERATOR)
    });
    assert_eq!(won, 1);
}

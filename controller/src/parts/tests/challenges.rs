//! threats.md S-4, S-5, S-6, S-7 at the facade.

use std::net::IpAddr;

use lucia_proto::base::code::Code;
use lucia_proto::base::time::Clock as _;
use lucia_proto::node::challenge::{ChallengeId, Scope};

use super::bench::{Machine, World, code};

// spec: CH-4
#[test]
fn s_4_a_challenge_is_of_one_node_and_one_start() {
    let world = World::new();
    let (a, b) = (world.node(1), world.node(2));
    let operations = world.parts.counters().public_key_operations;
    // Of node B, of discovery, made up.
    for challenge in [b.challenge(&world), world.parts.challenges.issue(&Scope::Boot, a.from).challenge(), {
        let mut challenge = a.challenge(&world);
        let (at, rest) = challenge.challenge_id.parts();
        challenge.challenge_id = ChallengeId::from_parts(at, rest ^ 1);
        challenge
    }] {
        let answer = world.parts.heartbeat(a.id(), &a.heartbeat_call(&challenge), a.from);
        assert_eq!(code(answer), Some(Code::ChallengeRefused));
    }
    assert_eq!(world.parts.counters().public_key_operations, operations, "refused before any public-key work");
    // A device's challenge is a node's challenge: both are of the id.
    a.heartbeat(&world).unwrap();
    // Of the controller before its restart.
    let challenge = a.challenge(&world);
    let world = world.restart();
    let answer = world.parts.heartbeat(a.id(), &a.heartbeat_call(&challenge), a.from);
    assert_eq!(code(answer), Some(Code::ChallengeRefused));
    a.heartbeat(&world).unwrap();
}

// spec: CH-5
#[test]
fn s_5_a_challenge_lives_two_minutes_whatever_the_wall_clock_does() {
    for (wait, wall, ok) in
        [(119, 0, true), (121, 0, false), (119, 3600, true), (121, -3600, false), (119, -3600, true)]
    {
        let world = World::new();
        let machine = world.node(1);
        let challenge = machine.challenge(&world);
        world.advance(wait);
        let now = i64::try_from(world.now().secs()).unwrap() + wall;
        world.clock.set_wall(lucia_proto::base::time::UnixTime::from_secs(u64::try_from(now).unwrap()));
        let answer = world.parts.heartbeat(machine.id(), &machine.heartbeat_call(&challenge), machine.from);
        assert_eq!(answer.is_ok(), ok, "{wait} s, wall {wall}: {answer:?}");
        assert!(ok || code(answer) == Some(Code::ChallengeRefused));
    }
}

// spec: CH-6
#[test]
fn s_6_the_source_address_binds_by_setting() {
    let v4: IpAddr = "192.0.2.10".parse().unwrap();
    let mapped: IpAddr = "::ffff:192.0.2.10".parse().unwrap();
    let other: IpAddr = "192.0.2.11".parse().unwrap();
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    for (setting, get, post, ok) in [
        ("strict", v4, v4, true),
        ("strict", v4, mapped, true),
        ("strict", mapped, v4, true),
        ("strict", v4, other, false),
        ("strict", v6, v4, false),
        ("log", v4, other, true),
        ("log", v6, v4, true),
        ("off", v4, other, true),
    ] {
        let world = World::with(&format!("source-binding = \"{setting}\""));
        let machine = world.node(1);
        let challenge = world.parts.challenges.issue(&machine.scope(), get).challenge();
        let answer = world.parts.heartbeat(machine.id(), &machine.heartbeat_call(&challenge), post);
        assert_eq!(answer.is_ok(), ok, "{setting} {get} {post}");
        if ok {
            let address = world.parts.node(machine.id()).unwrap().node.address;
            assert_eq!(address, Some(post.to_canonical()));
        }
    }
}

// spec: CH-7
#[test]
fn s_7_asking_for_challenges_leaves_nothing_behind() {
    let world = World::new();
    let machine = world.node(1);
    let used = world.parts.counters().used_challenges;
    let stranger = Machine::new(99);
    let mut last = None;
    for _ in 0..100_000 {
        let next = world.parts.challenges.issue(&stranger.scope(), stranger.from);
        assert_ne!(last.as_ref(), Some(&next.challenge_id), "no two are the same");
        last = Some(next.challenge_id);
    }
    assert_eq!(world.parts.counters().used_challenges, used);
    machine.heartbeat(&world).unwrap();
}

// spec: CH-8
#[test]
fn used_challenges_are_forgotten_after_two_minutes_and_never_sooner() {
    let world = World::new();
    let machine = world.node(1);
    let challenge = machine.challenge(&world);
    let call = machine.heartbeat_call(&challenge);
    world.parts.heartbeat(machine.id(), &call.clone(), machine.from).unwrap();
    for _ in 0..12 {
        world.advance(10);
        world.parts.tick();
        let again = world.parts.heartbeat(machine.id(), &call.clone(), machine.from);
        assert_eq!(code(again), Some(Code::ChallengeRefused));
    }
    assert!(world.parts.counters().used_challenges > 0);
    world.advance(1);
    world.parts.tick();
    assert_eq!(world.parts.counters().used_challenges, 0);
    assert_eq!(code(world.parts.heartbeat(machine.id(), &call, machine.from)), Some(Code::ChallengeRefused));
}

// spec: CH-9
#[test]
fn ten_proofs_a_second_a_node_are_taken() {
    let world = World::new();
    let (a, b) = (world.node(1), world.node(2));
    world.advance(1);
    for _ in 0..10 {
        a.heartbeat(&world).unwrap();
    }
    let challenge = a.challenge(&world);
    let call = a.heartbeat_call(&challenge);
    let over = world.parts.heartbeat(a.id(), &call.clone(), a.from);
    assert_eq!(code(over), Some(Code::TooManyRequests));
    b.heartbeat(&world).unwrap();
    world.advance(1);
    // The refused one consumed nothing.
    world.parts.heartbeat(a.id(), &call, a.from).unwrap();
}

#[test]
fn the_next_challenge_tells_the_wall_clock() {
    let world = World::new();
    let machine = Machine::new(1);
    let right = world.now().plus(std::time::Duration::from_secs(86_400));
    world.clock.set_wall(right);
    let next = world.parts.challenges.issue(&machine.scope(), machine.from);
    assert_eq!((next.server_time, next.expires_at.since(right).as_secs()), (right, 120));
    assert_eq!(world.clock.now(), right);
}

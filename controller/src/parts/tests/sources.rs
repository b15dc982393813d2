//! What counts as one source, and rates that slide.

use std::time::Duration;

use lucia_proto::base::code::Code;
use lucia_proto::base::limits::DISCOVERED_PER_SOURCE_MAX;
use lucia_proto::node::challenge::Scope;

use super::super::challenges::Whose;
use super::bench::{Machine, OPERATOR, World, code};
use crate::source::Source;

// spec: JO-220
#[test]
fn rows_of_one_64_count_as_those_of_one_source() {
    let world = World::with("[limits]\ndevices = 64\ntasks = 64");
    world.window();
    let machine = |number: u8, from: &str| Machine { from: from.parse().unwrap(), ..Machine::new(number) };
    let most = u8::try_from(DISCOVERED_PER_SOURCE_MAX).unwrap();
    for number in 1..=most {
        machine(number, &format!("2001:db8::{number:x}")).discover(&world).unwrap();
        world.advance(1);
    }
    let journal = world.journal();
    assert_eq!(code(machine(60, "2001:db8::ffff:1").discover(&world)), Some(Code::RegistryFull));
    assert_eq!(world.journal(), journal);
    machine(61, "2001:db8:0:1::1").discover(&world).unwrap();
    machine(62, "::ffff:192.0.2.1").discover(&world).unwrap();
}

// spec: CH-220
#[test]
fn ch_9_no_edge_of_a_second_doubles_the_proofs_of_a_node() {
    let world = World::new();
    let node = world.node(1);
    // Whatever the second the node's proofs began in, the edge of one is within the next.
    for millis in [900, 50, 50, 950] {
        world.clock.advance(Duration::from_millis(millis));
    }
    let mut taken = 0;
    for _ in 0..3 {
        world.clock.advance(Duration::from_millis(30));
        taken += (0..20).filter(|_| node.heartbeat(&world).is_ok()).count();
    }
    assert!(taken <= 10, "{taken} proofs within 90 ms");
}

// spec: CH-221
#[test]
fn a_flood_of_discoveries_from_one_source_starves_no_other_machine() {
    let world = World::with("[limits]\ndevices = 64\ntasks = 64");
    world.window();
    let known = Machine { from: "2001:db8::9".parse().unwrap(), ..Machine::new(9) };
    known.discover(&world).unwrap();
    world.advance(2);
    let flood = Machine { from: "2001:db8::1".parse().unwrap(), ..Machine::new(1) };
    let mut taken = 0;
    for n in 0..100_u16 {
        // Each of another key and another address of the /64, as a flood would have it.
        let from: std::net::IpAddr = format!("2001:db8::1:{n:x}").parse().unwrap();
        let challenge = world.parts.challenges.issue(&Scope::Boot, from).challenge();
        let id = challenge.challenge_id.clone();
        taken += usize::from(world.parts.challenges.accept(&id, Whose::Stranger(Source::of(from))).is_ok());
    }
    assert!(taken <= 20, "{taken}");
    assert_eq!(code(flood.discover(&world)), Some(Code::TooManyRequests));
    let honest = Machine { from: "2001:db8:0:1::1".parse().unwrap(), ..Machine::new(2) };
    honest.discover(&world).unwrap();
    // A key that has its row is not counted with the strangers of its source.
    known.discover(&world).unwrap();
    world.parts.enrollment.reject(honest.id(), OPERATOR).unwrap();
}

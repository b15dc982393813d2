//! What is written without anybody asking: a node's address at its renewal, and its newest start before all else.

use std::net::IpAddr;

use lucia_proto::base::ids::StartId;
use lucia_proto::base::json;
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::node::report::{NodeCall, Proof};

use super::bench::{Machine, World};

fn address(world: &World, machine: &Machine) -> IpAddr {
    world.parts.journal.read().device(machine.id()).unwrap().address
}

fn generation(world: &World) -> u64 {
    world.parts.journal.read().generation
}

// spec: RN-31
#[test]
fn a_renewal_keeps_the_journal_s_address_current_and_a_heartbeat_does_not() {
    let world = World::new();
    let mut node = world.node(1);
    let before = generation(&world);
    node.from = "192.0.2.77".parse().unwrap();
    node.heartbeat(&world).unwrap();
    world.parts.tick();
    assert_eq!((address(&world, &node), generation(&world)), ("192.0.2.10".parse().unwrap(), before));
    // Lapsed, which is when somebody looks at it.
    world.advance(9 * 86_400);
    world.worker_is_there();
    node.renew(&world).unwrap();
    assert_eq!((address(&world, &node), generation(&world)), (node.from, before + 1));
    node.renew(&world).unwrap();
    assert_eq!(generation(&world), before + 1, "the same address is written once");
    // One that moves all the time costs one write a minute.
    for last in 100..106 {
        node.from = IpAddr::from([192, 0, 2, last]);
        node.renew(&world).unwrap();
    }
    assert_eq!(generation(&world), before + 1);
    world.advance(60);
    world.worker_is_there();
    node.renew(&world).unwrap();
    assert_eq!((address(&world, &node), generation(&world)), (node.from, before + 2));
    // As IPv4, however it came.
    world.advance(60);
    world.worker_is_there();
    node.from = "::ffff:192.0.2.10".parse().unwrap();
    node.renew(&world).unwrap();
    assert_eq!(address(&world, &node), "192.0.2.10".parse::<IpAddr>().unwrap());
    let world = world.restart();
    assert_eq!(address(&world, &node), "192.0.2.10".parse::<IpAddr>().unwrap());
}

fn start(number: u8) -> StartId {
    StartId::from_random([number; 16])
}

/// A heartbeat of this start, which names the eight before it.
fn beat(world: &World, machine: &Machine, number: u8) {
    let former: Vec<StartId> = (number.saturating_sub(8).max(1)..number).rev().map(start).collect();
    let text = json::to_string(&machine.beat()).unwrap();
    let more = format!(r#","startId":"{}","formerStarts":{}}}"#, start(number), json::to_string(&former).unwrap());
    let text = format!("{}{more}", text.strip_suffix('}').unwrap());
    let heartbeat: Heartbeat = json::from_str(&text, 8192, 8).unwrap();
    let proof = Proof::sign(&heartbeat, &machine.challenge(world), &machine.node.key).unwrap();
    let call = NodeCall { certificate_pem: machine.certificate.clone(), proof };
    let reply = world.parts.heartbeat(machine.id(), &call, machine.from).unwrap();
    assert!(!reply.frozen, "start {number} of {}", machine.id());
}

/// Of many nodes with something to write, one restarts all the time. The controller is killed at any moment, and the
/// node is still told from a copy.
// spec: CL-20
#[test]
fn a_record_with_a_new_start_is_written_before_others() {
    let mut world = World::new();
    let mut nodes: Vec<Machine> = (1..=20).map(|number| world.node(number)).collect();
    world.parts.flush();
    // The one whose turn is the last.
    nodes.sort_by_key(|node| node.id().clone());
    let restless = nodes.pop().unwrap();
    let record = |world: &World| {
        let path = world.file(&format!("nodes/identities/{}.json", restless.id()));
        String::from_utf8(std::fs::read(path).unwrap()).unwrap()
    };
    let mut number = 1;
    for round in 0..3 {
        // Eleven starts, more than a heartbeat names, in as many seconds, beside a fleet whose records all wait.
        for _ in 0..11 {
            nodes.iter().for_each(|node| node.heartbeat(&world).unwrap());
            beat(&world, &restless, number);
            world.advance(1);
            world.parts.tick();
            assert!(record(&world).contains(start(number).as_str()), "round {round}: start {number} waits");
            number += 1;
        }
        // Killed: what waits is lost.
        world = world.restart();
        world.worker_is_there();
    }
}

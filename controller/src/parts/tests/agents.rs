//! What a heartbeat tells of the agent, as people see it.

use std::collections::BTreeMap;

use lucia_people::agents::{AgentLine, Obstacle};
use lucia_proto::base::extensions::Extensions;
use lucia_proto::node::agent::{extensions, features};
use lucia_proto::node::heartbeat::Heartbeat;
use lucia_proto::orders::{OrderKind, OrderPolicy, Rule};

use super::bench::{Machine, World};

fn say(world: &World, node: &Machine, told: Option<&OrderPolicy>, more: &[&str]) {
    let mut fields = (*node.beat()).clone();
    if let Some(policy) = told {
        let ours = features();
        let words = ours.names().map(ToString::to_string).chain(more.iter().map(ToString::to_string));
        let names: Vec<_> = words.map(|word| word.parse().unwrap()).collect();
        (fields.features, fields.extensions) = (names.try_into().unwrap(), extensions("0.9.1", policy));
    }
    hear(world, node, fields);
}

fn hear(world: &World, node: &Machine, fields: lucia_proto::node::heartbeat::HeartbeatFields) {
    let call = node.call_with(&Heartbeat::try_from(fields).unwrap(), &node.challenge(world));
    world.parts.heartbeat(node.id(), &call, node.from).unwrap();
}

fn agents(world: &World) -> Vec<AgentLine> {
    world.parts.fleet.agents_after(None, 1000).agents
}

// spec: VE-404
#[test]
fn version_and_rules_are_those_of_the_last_heartbeat() {
    let world = World::new();
    let node = world.node(1);
    // An agent of before carries out what it always did, and tells no rules.
    say(&world, &node, None, &[]);
    let before = agents(&world).pop().unwrap();
    assert_eq!((before.version.as_ref(), before.obstacle(OrderKind::SshKey)), (None, None));
    let policy =
        OrderPolicy::allow_all().with(OrderKind::SshKey, Rule::TwoOwners).with(OrderKind::CloneDecision, Rule::Forbid);
    say(&world, &node, Some(&policy), &["a-later-kind"]);
    let told = agents(&world).pop().unwrap();
    assert_eq!(told.version.as_ref().unwrap().as_str(), "0.9.1");
    for (kind, want) in [
        (OrderKind::SshKey, Some(Obstacle::TwoOwners)),
        (OrderKind::CloneDecision, Some(Obstacle::Forbidden)),
        (OrderKind::RemoveIdentity, None),
        // The worker carries it out: no node's word counts.
        (OrderKind::Admit, None),
    ] {
        assert_eq!(told.obstacle(kind), want, "{kind:?}");
    }
    // One that names features and not this kind does not carry it out, whatever its rules say.
    let mut fields = (*node.beat()).clone();
    fields.features = vec!["extensions".parse().unwrap()].try_into().unwrap();
    fields.extensions = extensions("0.9.1", &OrderPolicy::allow_all());
    hear(&world, &node, fields.clone());
    assert_eq!(agents(&world)[0].obstacle(OrderKind::SshKey), Some(Obstacle::NotCarried));
    // What it says now counts, not what it said once.
    fields.extensions = Extensions::try_from(BTreeMap::new()).unwrap();
    hear(&world, &node, fields);
    assert_eq!(agents(&world)[0].version, None);
}

// spec: VE-404
#[test]
fn agents_come_by_name_and_in_parts() {
    let world = World::new();
    let nodes = [1, 2, 3].map(|number| world.node(number));
    nodes.iter().for_each(|node| node.heartbeat(&world).unwrap());
    let whole = world.parts.fleet.agents_after(None, 3);
    assert_eq!((whole.agents.len(), whole.next), (3, None));
    let first = world.parts.fleet.agents_after(None, 2);
    let next = first.next.clone().unwrap();
    assert_eq!(next, first.agents.last().unwrap().hostname);
    let rest = world.parts.fleet.agents_after(Some(&next), 2);
    assert_eq!((rest.agents.len(), rest.next), (1, None));
    assert!(rest.agents[0].hostname > next);
}

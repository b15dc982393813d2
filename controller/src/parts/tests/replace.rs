//! `approve --replaces`: one act that removes the old node and approves the new one, or changes nothing.

use lucia_durable::crash_point::{crash_at, record};
use lucia_people::host_api::ApproveForm;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::node::phase::DevicePhase;

use super::bench::{Machine, OPERATOR, World, code};
use crate::parts::Refusal;

/// A discovered machine that wants the name of another.
fn discovered(world: &World, number: u8, name_of: &Machine) -> Machine {
    let mut machine = Machine::new(number);
    machine.node.hostname = name_of.node.hostname.clone();
    world.window();
    machine.discover(world).unwrap();
    machine
}

fn approve(world: &World, machine: &Machine, replaces: Option<&NodeId>) -> Result<(), Refusal> {
    let form = ApproveForm { replaces: replaces.cloned(), ..machine.form() };
    world.parts.enrollment.approve(machine.id(), &form, OPERATOR)
}

// spec: JO-54
#[test]
fn a_known_name_is_refused_with_the_cure_and_given_with_replaces() {
    let world = World::new();
    let old = world.node(1);
    let new = discovered(&world, 2, &old);
    let refusal = approve(&world, &new, None).unwrap_err();
    assert_eq!(refusal.code, Code::HostnameInUse);
    assert!(refusal.message.contains(&format!("--replaces {}", old.id())), "{}", refusal.message);

    approve(&world, &new, Some(old.id())).unwrap();
    let journal = world.parts.journal.read();
    assert!(journal.device(old.id()).is_none() && journal.tasks.len() == 1, "nothing of the old one is left");
    let row = journal.device(new.id()).unwrap();
    assert_eq!((row.phase, row.hostname.as_ref()), (DevicePhase::Approved, Some(&old.node.hostname)));
    let task = journal.task(row.task_id.as_ref().unwrap()).unwrap();
    assert_eq!(task.replaces.as_ref(), Some(old.id()));
    let last: Vec<_> = journal.events.iter().rev().take(3).collect();
    assert_eq!(
        [last[2], last[1], last[0]].map(|event| (event.kind, event.device_id.as_ref(), event.actor.as_str())),
        [
            (Act::Replaced, Some(old.id()), OPERATOR),
            (Act::Removed, Some(old.id()), OPERATOR),
            (Act::Approved, Some(new.id()), OPERATOR),
        ]
    );
    assert_eq!(last[2].task_id, Some(task.task_id.clone()), "for which installation");
    let view = world.parts.enrollment.onboarding();
    assert_eq!(view.devices[0].task.as_ref().unwrap().replaces.as_ref(), Some(old.id()));
    // As after any removal: the worker is told, the record is gone, the key is a stranger's.
    assert!(world.file(&format!("nodes/removals/{}.json", old.id())).exists());
    assert!(!world.file(&format!("nodes/identities/{}.json", old.id())).exists());
    assert!(!world.file(&format!("nodes/enrollment-requests/{}.json", old.id())).exists());
    assert_eq!(code(old.heartbeat(&world)), Some(Code::NodeIdentityInvalid));
    assert_eq!(code(world.parts.node(old.id())), Some(Code::UnknownNode));
}

// spec: JO-51
#[test]
fn only_the_holder_of_the_name_is_replaced_and_a_refusal_changes_nothing() {
    let world = World::new();
    let (old, other) = (world.node(1), world.node(3));
    let new = discovered(&world, 2, &old);
    let rejected = Machine::new(4);
    rejected.discover(&world).unwrap();
    world.parts.enrollment.reject(rejected.id(), OPERATOR).unwrap();
    let stranger = Machine::new(9);
    let before = world.journal();
    for (replaces, want) in [
        (new.id(), Code::InvalidOnboardingRequest),
        (other.id(), Code::InvalidOnboardingRequest),
        (rejected.id(), Code::InvalidOnboardingRequest),
        // Removed long ago, or never there: the name is the old one's still.
        (stranger.id(), Code::HostnameInUse),
    ] {
        assert_eq!(code(approve(&world, &new, Some(replaces))), Some(want), "{replaces}");
        assert!(world.journal() == before, "{replaces}");
        assert_eq!(std::fs::read_dir(world.file("nodes/removals")).unwrap().count(), 0, "{replaces}");
    }
    old.heartbeat(&world).unwrap();
    other.heartbeat(&world).unwrap();
    // The holder of the name, and something else is wrong: it stays, too.
    let form = ApproveForm { replaces: Some(old.id().clone()), disk_id: Some("usb0".parse().unwrap()), ..new.form() };
    assert_eq!(code(world.parts.enrollment.approve(new.id(), &form, OPERATOR)), Some(Code::IneligibleDisk));
    assert_eq!(std::fs::read_dir(world.file("nodes/removals")).unwrap().count(), 0);
    old.heartbeat(&world).unwrap();
}

/// The controller forgot the node and the worker did not: the journal tells whom the worker has to ask about.
// spec: JO-52
#[test]
fn a_node_that_was_removed_before_can_be_named() {
    let world = World::new();
    let old = world.node(1);
    world.parts.enrollment.remove(old.id(), OPERATOR).unwrap();
    let new = discovered(&world, 2, &old);
    approve(&world, &new, Some(old.id())).unwrap();
    let journal = world.parts.journal.read();
    assert_eq!(journal.tasks[0].replaces.as_ref(), Some(old.id()));
    assert!(journal.events.iter().all(|event| event.kind != Act::Replaced), "it was no node any more");
    drop(journal);
    // And it lasts: the next start reads what this one wrote.
    let world = world.restart();
    assert_eq!(world.parts.journal.read().tasks[0].replaces.as_ref(), Some(old.id()));
}

// spec: JO-53
#[test]
fn a_crash_at_any_step_leaves_the_old_one_or_the_new_one_and_needs_no_hands() {
    let prepared = || {
        let world = World::new();
        let old = world.node(1);
        world.parts.flush();
        let new = discovered(&world, 2, &old);
        (world, old, new)
    };
    let steps = {
        let (world, old, new) = prepared();
        let plan = record(world.scratch.path());
        approve(&world, &new, Some(old.id())).unwrap();
        plan.steps().len()
    };
    assert!(steps > 8, "{steps}");
    for at in 0..steps {
        let (world, old, new) = prepared();
        let plan = crash_at(world.scratch.path(), at);
        let answer = approve(&world, &new, Some(old.id()));
        drop(plan);
        let world = world.restart();
        let removal = world.file(&format!("nodes/removals/{}.json", old.id()));
        if world.phase(&old).is_some() {
            assert!(answer.is_err(), "step {at}: acknowledged and lost");
            assert_eq!(world.phase(&new), Some(DevicePhase::Discovered), "step {at}");
            assert!(!removal.exists(), "step {at}");
            old.heartbeat(&world).unwrap();
            approve(&world, &new, Some(old.id())).unwrap();
        } else {
            assert_eq!(world.phase(&new), Some(DevicePhase::Approved), "step {at}");
        }
        assert!(removal.exists(), "step {at}: the worker is told");
        assert!(!world.file(&format!("nodes/identities/{}.json", old.id())).exists(), "step {at}");
        assert_eq!(code(old.heartbeat(&world)), Some(Code::NodeIdentityInvalid), "step {at}");
    }
}

//! The SSH keys in the replies to heartbeats.

use std::collections::BTreeMap;

use lucia_proto::code::Code;
use lucia_proto::host_api::{RemoveSshKey, SshKeyForm};
use lucia_proto::journal::EventKind;

use super::bench::{World, code};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47T";

// spec: KY-9
#[test]
fn d_5_each_reply_names_every_key_there_is() {
    let world = World::new();
    let machine = world.node(1);
    let told = |world: &World| {
        let call = machine.heartbeat_call(&machine.challenge(world));
        world.controller.heartbeat(machine.id(), call, machine.from).unwrap().ssh_keys
    };
    assert_eq!(told(&world), None);
    let form = |key: &str| SshKeyForm {
        account: "alice".parse().unwrap(),
        label: "laptop".parse().unwrap(),
        key: key.to_owned(),
    };
    let events = world.controller.events(0, 100).last_sequence;
    assert_eq!(code(world.controller.add_ssh_key(form("no key"), "operator:0")), Some(Code::InvalidSshKey));
    assert_eq!((told(&world), world.controller.events(0, 100).last_sequence), (None, events));
    world.controller.add_ssh_key(form(&format!("{KEY} alice@home")), "operator:0").unwrap();
    let all = BTreeMap::from([("alice".parse().unwrap(), vec![KEY.to_owned()])]);
    assert_eq!(told(&world), Some(all.clone()));
    let world = world.restart();
    assert_eq!(told(&world), Some(all));
    let fingerprint = world.controller.ssh_keys().keys[0].fingerprint.clone();
    let removal = RemoveSshKey { account: "alice".parse().unwrap(), fingerprint };
    world.controller.remove_ssh_key(&removal, "operator:0").unwrap();
    assert_eq!(told(&world), Some(BTreeMap::new()));
    let kinds: Vec<_> = world.controller.events(events, 100).events.into_iter().map(|event| event.kind).collect();
    for kind in [EventKind::SshKeyAdded, EventKind::SshKeyRemoved] {
        assert!(kinds.iter().any(|told| told.as_str() == format!("{kind:?}")), "{kinds:?}");
    }
}

// spec: CO-42
#[test]
fn a_heartbeat_does_not_wait_while_a_change_of_keys_goes_to_the_disk() {
    let world = World::new();
    let machine = world.node(1);
    let held = crate::state::lock(&world.controller.ssh_keys);
    let (say, hear) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| say.send(machine.heartbeat(&world)));
        let heard = hear.recv_timeout(std::time::Duration::from_secs(20));
        drop(held);
        heard.unwrap().unwrap();
    });
}

//! The list of unsigned SSH keys that the controller before this version left.

use std::os::unix::fs::PermissionsExt as _;

use super::bench::World;

// spec: CO-400
#[test]
fn a_list_of_unsigned_keys_is_left_alone_whatever_is_in_it() {
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFNmpFiR81Ty15cVVljNq7KMn9Z1ot0e+1vH/NWJy47T";
    let row = format!(
        r#"{{"account":"alice","label":"laptop","key":"{line}","addedAt":"2026-11-30T12:00:00Z","addedBy":"operator:0"}}"#
    );
    let mut world = World::new();
    let machine = world.node(1);
    let dir = world.file("keys");
    std::fs::create_dir(&dir).unwrap();
    for (text, mode) in [(format!(r#"{{"schemaVersion":1,"keys":[{row}]}}"#), 0o600), ("{".to_owned(), 0o644)] {
        let path = dir.join("ssh-keys.json");
        std::fs::write(&path, &text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        world = world.restart();
        let call = machine.heartbeat_call(&machine.challenge(&world));
        let reply = world.parts.heartbeat(machine.id(), &call, machine.from).unwrap();
        assert!(!lucia_proto::base::json::to_string(&reply).unwrap().contains("ssh-ed25519"), "{reply:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

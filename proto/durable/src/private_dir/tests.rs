//! Which directories are accepted, and what making one leaves behind at each crash.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::crash_point::{crash_at, record};
use crate::scratch::{Scratch, name};
use crate::{Owner, WriteError};

fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn check_open(prepare: impl FnOnce(&Path), rules: DirRules, want: &str) {
    let scratch = Scratch::new();
    let path = scratch.path().join("d");
    prepare(&path);
    let got = match PrivateDir::open(&path, rules) {
        Ok(_) => "opened".to_owned(),
        Err(DirError::Missing { .. }) => "missing".to_owned(),
        Err(DirError::Refused { breach, .. }) => format!("{breach:?}"),
        Err(other) => format!("{other:?}"),
    };
    assert!(got.starts_with(want), "{got} instead of {want}");
}

fn dir_with(mode: u32) -> impl FnOnce(&Path) {
    move |path| {
        std::fs::create_dir(path).unwrap();
        set_mode(path, mode);
    }
}

// spec: DU-2
#[test]
fn only_a_directory_that_keeps_the_rules_is_opened() {
    let private = DirRules::private();
    let us = nix::unistd::geteuid().as_raw();
    check_open(dir_with(0o700), private, "opened");
    check_open(dir_with(0o500), private, "opened");
    check_open(dir_with(0o750), private, "Mode");
    check_open(dir_with(0o701), private, "Mode");
    check_open(dir_with(0o1700), private, "Mode");
    check_open(dir_with(0o2750), DirRules { mode: 0o2750, ..private }, "opened");
    check_open(dir_with(0o2770), DirRules { mode: 0o2750, ..private }, "Mode");
    check_open(dir_with(0o700), DirRules { owner: Owner::Uid(us), ..private }, "opened");
    check_open(dir_with(0o700), DirRules { owner: Owner::Uid(us + 1), ..private }, "Owner");
    check_open(dir_with(0o700), DirRules { group: Some(nix::unistd::getegid().as_raw()), ..private }, "opened");
    check_open(dir_with(0o700), DirRules { group: Some(4_000_000), ..private }, "Group");
    check_open(|_| {}, private, "missing");
    check_open(|path| std::fs::write(path, "x").unwrap(), private, "Kind");
    check_open(|path| symlink(path.parent().unwrap(), path).unwrap(), private, "Kind");
    check_open(|path| symlink("/nowhere/at/all", path).unwrap(), private, "Kind");
    check_open(|path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap(), private, "Kind");
}

#[test]
fn a_sub_directory_keeps_the_rules_too() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    assert!(matches!(dir.subdir(&name("sub"), DirRules::private()), Err(DirError::Missing { .. })));
    let sub = dir.create_subdir(&name("sub"), DirRules::private()).unwrap();
    sub.replace(&name("f"), b"x", 0o600).unwrap();
    assert_eq!(sub.path(), scratch.path().join("sub"));
    set_mode(sub.path(), 0o755);
    assert!(matches!(dir.subdir(&name("sub"), DirRules::private()), Err(DirError::Refused { .. })));
    assert!(matches!(dir.create_subdir(&name("sub"), DirRules::private()), Err(DirError::Refused { .. })));
}

// spec: DU-3
#[test]
fn a_made_directory_is_exact_whatever_crash_came_before() {
    let rules = DirRules { mode: 0o2750, owner: Owner::Us, group: Some(nix::unistd::getegid().as_raw()) };
    let steps = {
        let scratch = Scratch::new();
        let plan = record(scratch.path());
        PrivateDir::create(&scratch.path().join("d"), rules).unwrap();
        plan.steps().len()
    };
    assert_eq!(steps, 5);
    for nth in 0..steps {
        let scratch = Scratch::new();
        let path = scratch.path().join("d");
        let plan = crash_at(scratch.path(), nth);
        assert!(matches!(PrivateDir::create(&path, rules), Err(DirError::Crashed { .. })));
        drop(plan);
        if path.exists() {
            assert_eq!(mode_of(&path) & !0o2750, 0, "step {nth}: never more open than the rules");
        }
        PrivateDir::create(&path, rules).unwrap();
        assert_eq!(mode_of(&path), 0o2750, "step {nth}");
    }
}

#[test]
fn create_takes_what_is_there_but_not_what_is_more_open() {
    let scratch = Scratch::new();
    let path = scratch.path().join("d");
    PrivateDir::create(&path, DirRules::private()).unwrap().replace(&name("f"), b"kept", 0o600).unwrap();
    let again = PrivateDir::create(&path, DirRules::private()).unwrap();
    assert!(again.exists(&name("f")).unwrap());
    set_mode(&path, 0o777);
    assert!(matches!(PrivateDir::create(&path, DirRules::private()), Err(DirError::Refused { .. })));
    assert_eq!(mode_of(&path), 0o777, "left for the operator to see");
    let orphan = scratch.path().join("no/such/parent");
    assert!(matches!(PrivateDir::create(&orphan, DirRules::private()), Err(DirError::Failed { doing: "make", .. })));
}

// spec: DU-4
#[test]
fn list_is_bounded_sorted_and_knows_our_names_only() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    assert_eq!(dir.list(10).unwrap(), Listing { names: vec![], ignored: 0, complete: true });
    for entry in ["b.json", "a.json", ".hidden", ".x.pending", "with blank", "new\nline", "ä"] {
        std::fs::write(scratch.path().join(entry), "").unwrap();
    }
    let listing = dir.list(7).unwrap();
    assert_eq!(listing, Listing { names: vec![name("a.json"), name("b.json")], ignored: 5, complete: true });
    let part = dir.list(6).unwrap();
    assert!(!part.complete);
    assert_eq!(part.names.len() + part.ignored, 6);
    assert_eq!(dir.list(7).unwrap(), listing, "a second listing begins anew");
    assert_eq!(listing.into_iter().count(), 2);
}

#[test]
fn a_private_directory_is_made_inside_a_shared_one() {
    let scratch = Scratch::new();
    let shared = DirRules { mode: 0o2750, ..DirRules::private() };
    let dir = PrivateDir::create(&scratch.path().join("shared"), shared).unwrap();
    dir.create_subdir(&name("private"), DirRules::private()).unwrap();
    assert_eq!(mode_of(&scratch.path().join("shared/private")), 0o700);
    dir.subdir(&name("private"), DirRules::private()).unwrap();
}

#[test]
fn exists_and_remove_tell_what_was_there() {
    let scratch = Scratch::new();
    let dir = scratch.open();
    std::fs::write(scratch.path().join("file"), "").unwrap();
    symlink("/nowhere", scratch.path().join("dangling")).unwrap();
    symlink("/etc/passwd", scratch.path().join("link")).unwrap();
    std::fs::create_dir(scratch.path().join("sub")).unwrap();
    for (entry, there) in [("file", true), ("dangling", true), ("link", true), ("nothing", false)] {
        assert_eq!(dir.exists(&name(entry)).unwrap(), there, "{entry}");
        assert_eq!(dir.remove(&name(entry)).unwrap(), there, "{entry}");
        assert!(!dir.exists(&name(entry)).unwrap(), "{entry}");
    }
    assert!(Path::new("/etc/passwd").exists());
    assert!(matches!(dir.remove(&name("sub")), Err(WriteError::Failed { doing: "remove", .. })));
}

#[test]
fn the_descriptor_is_used_not_the_path() {
    let scratch = Scratch::new();
    let (here, away) = (scratch.path().join("here"), scratch.path().join("away"));
    let dir = PrivateDir::create(&here, DirRules::private()).unwrap();
    std::fs::rename(&here, &away).unwrap();
    symlink("/tmp", &here).unwrap();
    dir.replace(&name("f"), b"x", 0o600).unwrap();
    assert_eq!(std::fs::read(away.join("f")).unwrap(), b"x");
}

//! The directories of this file are the ones that lucia.tmpfiles lays.

use std::collections::BTreeSet;

use super::*;
use crate::parts::tests::bench::World;

const TMPFILES: &str = include_str!("../../../../systemd/lucia.tmpfiles");

fn below(dir: &Path, at: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            let path = format!("{at}/{}", entry.file_name().to_str().unwrap());
            below(&entry.path(), &path, found);
            found.insert(path);
        }
    }
}

/// On a host the controller can make none of its directories: what it leads to is root's.
// spec: SD-243
#[test]
fn lucia_tmpfiles_lays_each_directory_that_the_controller_needs() {
    let world = World::new();
    Layout::open(&world.config).unwrap();
    let mut made = BTreeSet::new();
    below(&world.config.state_dir, "/var/lib/lucia/controller", &mut made);
    made.insert("/var/lib/lucia/controller/tls".to_owned());
    let laid = TMPFILES.lines().filter_map(|line| line.strip_prefix("d /var/lib/lucia/controller/"));
    let laid = laid.map(|line| format!("/var/lib/lucia/controller/{}", line.split(' ').next().unwrap()));
    assert_eq!(made, laid.collect());
}

//! What this machine keeps of the roster that it believed last.

use lucia_people::owner_api::RosterView;
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::pki::bundle::SignedBundle;
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::key;

use crate::server::{Server, get};
use crate::site::{Site, ended, world};

/// threats.md W: whoever has the stolen key of a worker and the controller's address shows a roster that is as good as none,
/// and the bundle of before, in which that key was a worker's.
// spec: LC-89
#[test]
fn a_worker_that_was_retired_stands_in_no_rosters_way_and_does_not_come_back() {
    let world = world();
    let next = key(98);
    let show = |version: u64, by: &NodeKey, bundle: u64, worker: &NodeKey| {
        let roster = lucia_proto::orders::roster::Roster { version, ..world.roster.roster().clone() };
        let mut named = world.ca.bundle(bundle, world.now);
        named.workers = vec![worker.public().to_pem()];
        let bundle = SignedBundle::sign(&named, &world.ca.root_key).unwrap();
        let view = RosterView { roster: Some(SignedRoster::sign(&roster, by).unwrap()), bundle: Some(bundle) };
        get("GET /api/host/roster", &view)
    };
    let first = &world.ca.worker_key;
    let steps = [
        (show(5, first, 3, first), Ok("Roster 5")),
        (show(1 << 53, first, 3, first), Ok("Roster 9007199254740992")),
        (show(6, first, 3, first), Err("roster_older")),
        (show(6, &next, 4, &next), Ok("Roster 6")),
        (show(1 << 53, first, 3, first), Err("bundle_older")),
        (show(5, &next, 4, &next), Err("roster_older")),
        (show(7, &next, 5, &next), Ok("Roster 7")),
    ];
    let (script, wanted): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let server = Server::new(world.clone(), script);
    let site = Site::alice(&world, server.port);
    for want in wanted {
        site.owners(want);
    }
    server.done();
}

/// A run as another user leaves a lock that is not ours; somebody else's link leads nowhere.
// spec: LC-92
#[test]
fn a_lock_that_cannot_be_had_is_named_and_nothing_is_marked() {
    let world = world();
    let view = RosterView { roster: Some(world.roster.signed().clone()), bundle: Some(world.bundle.signed().clone()) };
    let server = Server::new(world.clone(), vec![get("GET /api/host/roster", &view)]);
    let site = Site::alice(&world, server.port);
    std::os::unix::fs::symlink(site.path("elsewhere"), site.path(".luciactl.lock")).unwrap();
    ended(&site.run(&["owners"]), 1, ".luciactl.lock");
    assert!(!site.path("elsewhere").exists());
    let marks = std::fs::read_dir(&site.dir).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(marks.filter(|name| name.to_string_lossy().starts_with("owner.bundle")).count(), 0);
    server.done();
}

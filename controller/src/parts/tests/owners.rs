//! Who asks to become an owner, and what a restart makes of it and of the roster.

use std::net::IpAddr;

use lucia_durable::crash_point::{crash_at, record};
use lucia_people::owner_api::Applied;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::json;
use lucia_proto::base::limits::{
    APPLICATION_CLOCK, APPLICATION_LIFETIME, APPLICATIONS_MAX, APPLICATIONS_OPEN_PER_SOURCE,
};
use lucia_proto::files::owner_queue::{ApplicationFile, RejectionFile};
use lucia_proto::orders::application::Application;
use lucia_proto::orders::owner::{CredentialId, KeyUse, OwnerId, OwnerKey};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{OrderWorld, key};

use super::bench::{World, code, start, write};
use crate::parts::{OpenError, Refusal};
use crate::store::JsonFileError;

/// A fleet with owners around the controller of `world`.
pub(crate) fn fleet(world: &World) -> OrderWorld {
    OrderWorld::new(world.now())
}

/// The worker publishes bundle and roster, and the controller looks.
pub(crate) fn publish(world: &World, fleet: &OrderWorld) {
    let text = |value: Result<String, json::JsonError>| value.unwrap().into_bytes();
    write(&world.file("nodes/owner-responses/bundle.json"), &text(json::to_string(fleet.bundle.signed())));
    write(&world.file("nodes/owner-responses/roster.json"), &text(json::to_string(fleet.roster.signed())));
    world.parts.tick();
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([198, 51, 100, last])
}

fn ask(world: &World, name: &str, key: &NodeKey, from: IpAddr) -> Result<Applied, Refusal> {
    let fleet = world.ca.root().sha256();
    world.parts.people.apply(Application::sign(name.parse().unwrap(), fleet, world.now(), key), from)
}

fn files(world: &World) -> usize {
    let names = std::fs::read_dir(world.file("nodes/owner-requests")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("application-")).count()
}

// spec: CO-7
#[test]
fn those_who_wait_are_few_in_all_and_from_one_source_and_for_an_hour() {
    let world = World::new();
    let first = ask(&world, "p0", &key(60), ip(1)).unwrap();
    for n in 1..APPLICATIONS_OPEN_PER_SOURCE {
        let n = u8::try_from(n).unwrap();
        ask(&world, &format!("p{n}"), &key(60 + n), ip(1)).unwrap();
    }
    assert_eq!(code(ask(&world, "more", &key(80), ip(1))), Some(Code::RegistryFull));
    assert_eq!(code(ask(&world, "more", &key(80), ip(1))), Some(Code::TooManyRequests));
    for n in APPLICATIONS_OPEN_PER_SOURCE..APPLICATIONS_MAX {
        let n = u8::try_from(n).unwrap();
        ask(&world, &format!("p{n}"), &key(60 + n), ip(100 + n)).unwrap();
    }
    assert_eq!(files(&world), APPLICATIONS_MAX);
    // The same key asks again: from anywhere, under a name of its choice, and waits no longer for it.
    world.advance(60);
    assert_eq!(ask(&world, "p0", &key(60), ip(3)).unwrap(), first);
    assert_eq!(ask(&world, "renamed", &key(60), ip(3)).unwrap(), first);
    assert_eq!(files(&world), APPLICATIONS_MAX);
    // The same, signed at another time, is the same; for another fleet, or of last week, it is none.
    let (fleet, now) = (world.ca.root().sha256(), world.now());
    let signed = |fleet, at| Application::sign("renamed".parse().unwrap(), fleet, at, &key(60));
    let file = |world: &World| {
        let id = OwnerId::of(&key(60).public().fingerprint());
        std::fs::read(world.file(&format!("nodes/owner-requests/application-{id}.json"))).unwrap()
    };
    let before = file(&world);
    assert_eq!(world.parts.people.apply(signed(fleet, now.plus(APPLICATION_LIFETIME)), ip(4)).unwrap(), first);
    assert_eq!(file(&world), before);
    for asked in
        [signed(Digest::of(b"another root"), now), signed(fleet, now.minus(APPLICATION_CLOCK + APPLICATION_LIFETIME))]
    {
        assert_eq!(code(world.parts.people.apply(asked, ip(4))), Some(Code::InvalidOnboardingRequest));
    }
    // They wait through a restart, and who filled the list before it does not keep others from it by address.
    let world = world.restart();
    assert_eq!(ask(&world, "renamed", &key(60), ip(1)).unwrap(), first);
    world.advance(APPLICATION_LIFETIME.as_secs() - 61);
    world.parts.tick();
    assert_eq!(files(&world), APPLICATIONS_MAX);
    world.advance(1);
    world.parts.tick();
    assert_eq!(files(&world), 0);
    ask(&world, "p0", &key(60), ip(1)).unwrap();
}

// spec: CO-223
#[test]
fn an_application_that_was_rejected_on_the_workers_host_is_dropped() {
    let world = World::new();
    let id = |n: u8| OwnerId::of(&key(n).public().fingerprint());
    let name = |n: u8| format!("application-{}.json", id(n));
    let asked = |n: u8| std::fs::read(world.file(&format!("nodes/owner-requests/{}", name(n))));
    let reject = |n: u8, application| {
        let file = RejectionFile { schema_version: Version, application };
        write(&world.file(&format!("nodes/owner-responses/{}", name(n))), &file.to_bytes().unwrap());
        world.parts.tick();
    };
    for n in [60, 61] {
        ask(&world, &format!("p{n}"), &key(n), ip(n)).unwrap();
    }
    // A rejection of other bytes, as of an hour ago, counts for nothing.
    reject(60, Digest::of(b"others"));
    assert!(asked(60).is_ok());
    let bytes = asked(60).unwrap();
    reject(60, Digest::of(&bytes));
    assert!(asked(60).is_err() && asked(61).is_ok());
    assert_eq!(world.parts.people.applicants().len(), 1);
    // Its place is free, and the key is not barred.
    world.advance(1);
    ask(&world, "p60", &key(60), ip(60)).unwrap();
    world.parts.tick();
    assert!(asked(60).is_ok());
}

// spec: CO-222
#[test]
fn in_a_full_list_of_applications_the_source_with_most_gives_way() {
    let world = World::new();
    let id = |n: u8| OwnerId::of(&key(n).public().fingerprint());
    let waits = |world: &World, n: u8| world.file(&format!("nodes/owner-requests/application-{}.json", id(n))).exists();
    ask(&world, "honest", &key(50), ip(1)).unwrap();
    // Four sources fill the rest.
    let rest = u8::try_from(APPLICATIONS_MAX).unwrap() - 1;
    for n in 0..rest {
        world.advance(1);
        ask(&world, &format!("p{n}"), &key(60 + n), ip(10 + n / 4)).unwrap();
    }
    assert_eq!(files(&world), APPLICATIONS_MAX);
    // Each newcomer takes the place of the oldest of whoever has most, until no source has two more than another.
    for (n, gone) in [(0, 60_u8), (1, 64), (2, 68)] {
        world.advance(1);
        ask(&world, &format!("n{n}"), &key(90 + n), ip(100 + n)).unwrap();
        assert!(!waits(&world, gone) && waits(&world, 90 + n) && waits(&world, 50), "{n}");
        assert_eq!(files(&world), APPLICATIONS_MAX);
    }
    // A list of single ones is full.
    for n in 3..60 {
        world.advance(1);
        let _ = ask(&world, &format!("n{n}"), &key(90 + n), ip(100 + n));
    }
    assert_eq!(code(ask(&world, "last", &key(200), ip(200))), Some(Code::RegistryFull));
    assert!(waits(&world, 50), "a single one never gives way");
    assert_eq!(files(&world), APPLICATIONS_MAX);
}

// spec: CO-7
#[test]
fn who_is_in_the_roster_waits_no_more_and_what_is_no_application_goes() {
    let world = World::new();
    let mut fleet = fleet(&world);
    ask(&world, "mallory", &fleet.mallory.key, ip(1)).unwrap();
    publish(&world, &fleet);
    assert_eq!(files(&world), 1);
    let entry = fleet.mallory.entry(lucia_proto::orders::owner::Role::Viewer);
    fleet.change_roster(|roster| roster.owners.push(entry));
    publish(&world, &fleet);
    assert_eq!(files(&world), 0);
    // What is not what its name says is taken away at the start; what is nobody's file is left alone.
    let id = OwnerId::of(&key(60).public().fingerprint());
    ask(&world, "carol", &key(60), ip(1)).unwrap();
    let good = std::fs::read(world.file(&format!("nodes/owner-requests/application-{id}.json"))).unwrap();
    let other = OwnerId::of(&key(61).public().fingerprint());
    let forged = String::from_utf8(good.clone()).unwrap().replace("carol", "mallory");
    let dir = world.file("nodes/owner-requests");
    for (name, bytes) in [
        (format!("application-{other}.json"), good.as_slice()),
        (format!("application-{}.json", "0".repeat(32)), forged.as_bytes()),
        (format!("application-{}.json", "1".repeat(32)), b"{"),
        ("notes.txt".to_owned(), b"x"),
    ] {
        write(&dir.join(name), bytes);
    }
    let world = world.restart();
    let mut left: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, [format!("application-{id}.json"), "audit-head.json".to_owned(), "notes.txt".to_owned()]);
    assert!(ApplicationFile::from_bytes(&good).is_ok());
    drop(world);
}

/// It is relayed as whoever asks for a place in the roster is, and decided on the worker's host.
// spec: CO-53
#[test]
fn a_passkey_for_orders_is_passed_on_when_an_owner_of_the_roster_confirmed_it() {
    let world = World::new();
    let mut fleet = fleet(&world);
    let (passkey, id) = (key(77), CredentialId::from_bytes(vec![7; 20]).unwrap());
    let asks = |fleet: &OrderWorld, by: &NodeKey| {
        let alice = (fleet.alice.id.clone(), "alice".parse().unwrap());
        Application::confirm(alice, (fleet.fleet, world.now()), (passkey.public(), id.clone()), by)
    };
    let (good, forged) = (asks(&fleet, &fleet.alice.key), asks(&fleet, &fleet.bob.key));
    assert_eq!(code(world.parts.people.apply(good.clone(), ip(1))), Some(Code::InvalidOnboardingRequest), "no roster");
    publish(&world, &fleet);
    assert_eq!(code(world.parts.people.apply(forged, ip(1))), Some(Code::InvalidOnboardingRequest));
    assert_eq!(files(&world), 0);
    let applied = world.parts.people.apply(good.clone(), ip(1)).unwrap();
    assert_eq!(applied.verification_code, lucia_proto::orders::owner::code(passkey.public()));
    let owner = OwnerId::of(&passkey.public().fingerprint());
    let path = world.file(&format!("nodes/owner-requests/application-{owner}.json"));
    let told = || ApplicationFile::from_bytes(&std::fs::read(&path).unwrap()).unwrap().application;
    assert_eq!(told(), good);
    // The same again is asking once, and a restart keeps it.
    assert_eq!(world.parts.people.apply(good.clone(), ip(1)).unwrap(), applied);
    let world = world.restart();
    world.parts.tick();
    assert_eq!((files(&world), told()), (1, good.clone()));
    // Once it is in the roster it waits no more.
    let entry = OwnerKey {
        key_use: KeyUse::OrderPasskey,
        public_key_pem: passkey.public().to_pem(),
        credential_id: Some(id.clone()),
    };
    fleet.change_roster(|roster| roster.owners[0].keys.push(entry));
    publish(&world, &fleet);
    assert_eq!(files(&world), 0);
    world.parts.people.apply(good, ip(1)).unwrap();
    assert_eq!(files(&world), 0);
}

// spec: CO-8
#[test]
fn an_application_survives_every_crash_whole_or_not_at_all() {
    let steps = {
        let world = World::new();
        let armed = record(&world.file("nodes/owner-requests"));
        ask(&world, "carol", &key(60), ip(1)).unwrap();
        armed.steps().len()
    };
    assert!(steps > 5, "{steps} steps only");
    for nth in 0..steps {
        let world = World::new();
        let asked = {
            let armed = crash_at(&world.file("nodes/owner-requests"), nth);
            let asked = ask(&world, "carol", &key(60), ip(1));
            assert!(armed.crashed().is_some(), "{nth}");
            asked
        };
        assert_eq!(code(asked), Some(Code::PersistenceFailed), "{nth}");
        let world = world.restart();
        let applied = ask(&world, "carol", &key(60), ip(1)).unwrap();
        assert_eq!((files(&world), applied.expires_at), (1, world.now().plus(APPLICATION_LIFETIME)), "{nth}");
    }
}

// spec: CO-2
#[test]
fn an_older_roster_is_not_taken_after_a_restart_either() {
    let world = World::new();
    let mut fleet = fleet(&world);
    let fifth = json::to_string(fleet.roster.signed()).unwrap();
    fleet.change_roster(|roster| roster.owners.truncate(1));
    publish(&world, &fleet);
    assert_eq!(world.parts.people.roster().roster.as_ref(), Some(fleet.roster.signed()));
    write(&world.file("nodes/owner-responses/roster.json"), fifth.as_bytes());
    world.parts.tick();
    assert_eq!(world.parts.people.roster().roster.as_ref(), Some(fleet.roster.signed()));
    let world = world.restart();
    assert_eq!(world.parts.people.roster().roster, None, "rather none than an older one");
    publish(&world, &fleet);
    let world = world.restart();
    assert_eq!(world.parts.people.roster().roster.as_ref(), Some(fleet.roster.signed()), "before the first tick");
    // A mark that cannot be read stops the start with its cure.
    let mark = world.file("orders/roster-mark.json");
    let World { scratch, clock, ca: _, config, parts } = world;
    drop(parts);
    std::fs::write(&mark, "{").unwrap();
    let Err(OpenError::RosterMark(refused)) = start(&config, &clock, 9) else { panic!("another end") };
    let JsonFileError::Damaged { path, .. } = &refused else { panic!("{refused:?}") };
    assert!(path.ends_with("roster-mark.json") && refused.to_string().contains("move"), "{refused}");
    drop(scratch);
}

//! Starts that must not happen, writes that fail, and what doctor makes of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lucia_durable::crash_point::{crash_at, fail_at, record};
use lucia_durable::{LeaseError, ReadError, RuleBreach};
use lucia_proto::base::code::Code;
use lucia_proto::node::phase::DevicePhase as P;

use super::bench::{Machine, OPERATOR, World, code, start, write};
use crate::parts::OpenError;
use crate::refusal::chain;
use crate::store::{Generation, Health, JournalFileError as Journal, RecordError, doctor, restore};

/// The refusal of a start.
#[track_caller]
pub(crate) fn refused(world: &World) -> OpenError {
    start(&world.config, &world.clock, 9).err().unwrap()
}

/// A world whose controller has stopped.
pub(crate) fn stopped(world: World) -> World {
    let World { scratch, clock, ca, config, parts } = world;
    drop(parts);
    let elsewhere = World::new();
    World { scratch, clock, ca, config, parts: elsewhere.parts }
}

// spec: JO-10
#[test]
fn a_second_controller_is_refused_naming_the_first() {
    let world = World::new();
    let refused = refused(&world);
    assert!(matches!(refused, OpenError::Journal(Journal::Lease(LeaseError::Held { .. }))), "{refused:?}");
    let text = chain(&refused);
    assert!(text.contains(".onboarding.lease") && text.contains("pid"), "{text}");
}

// spec: JO-11
#[test]
fn f_10_what_is_not_a_whole_journal_stops_the_start() {
    let cut = |path: &Path, keep: usize| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..keep.min(bytes.len())]).unwrap();
    };
    type Damage = fn(&Path, &dyn Fn(&Path, usize));
    type Is = fn(&Journal) -> bool;
    let is_damaged: Is = |refused| matches!(refused, Journal::Damaged { .. });
    let is_newer: Is = |refused| matches!(refused, Journal::Read(ReadError::Newer { .. }));
    let is_link: Is =
        |refused| matches!(refused, Journal::Read(ReadError::Refused { breach: RuleBreach::Kind { .. }, .. }));
    let damages: [(&str, Damage, Is); 7] = [
        ("missing", |path, _| std::fs::remove_file(path).unwrap(), |refused| matches!(refused, Journal::Lost { .. })),
        ("empty", |path, cut| cut(path, 0), is_damaged),
        ("torn", |path, cut| cut(path, 512), is_damaged),
        (
            "one byte",
            |path, _| {
                let text = std::fs::read_to_string(path).unwrap();
                std::fs::write(path, text.replace("\"generation\":", "\"generatiom\":")).unwrap();
            },
            is_damaged,
        ),
        (
            "chain",
            |path, _| {
                let text = std::fs::read_to_string(path).unwrap();
                std::fs::write(path, text.replace(OPERATOR, "operator:1")).unwrap();
            },
            is_damaged,
        ),
        (
            "version",
            |path, _| {
                let text = std::fs::read_to_string(path).unwrap();
                std::fs::write(path, text.replace("\"version\":4", "\"version\":5")).unwrap();
            },
            is_newer,
        ),
        (
            "link",
            |path, _| {
                std::fs::rename(path, path.with_extension("moved")).unwrap();
                std::os::unix::fs::symlink(path.with_extension("moved"), path).unwrap();
            },
            is_link,
        ),
    ];
    for (name, damage, is) in damages {
        let world = World::new();
        world.node(1);
        let world = stopped(world);
        let path = world.file("onboarding/state.json");
        damage(&path, &cut);
        let before = std::fs::read(&path).ok();
        let refused = refused(&world);
        assert!(matches!(&refused, OpenError::Journal(why) if is(why)), "{name}: {refused:?}");
        let text = chain(&refused);
        assert!(text.contains("state.json") && text.contains("doctor"), "{name}: {text}");
        assert_eq!(std::fs::read(&path).ok(), before, "{name}: left as it is");
        let report = doctor(&world.config).unwrap();
        let restores = report.cures.iter().any(|cure| cure.contains("--restore 1"));
        // One of a later version is whole: nothing is to be put in its place.
        assert!(!report.healthy && restores == (name != "version"), "{name}: {report:?}");
        if name == "version" {
            continue;
        }
        if name == "link" {
            continue;
        }
        restore(&world.config, Generation::First).unwrap();
        assert!(doctor(&world.config).unwrap().healthy, "{name}");
        start(&world.config, &world.clock, 9).unwrap();
    }
}

// spec: JO-45
#[test]
fn doctor_offers_a_restore_only_where_the_journal_has_to_be_replaced() {
    let world = World::new();
    world.node(1);
    let world = stopped(world);
    let chmod = |file: &str, mode| {
        std::fs::set_permissions(world.file(file), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let cures = || doctor(&world.config).unwrap().cures;
    let (state, second) = ("onboarding/state.json", world.file("onboarding/second-name"));
    let before = std::fs::read(world.file(state)).unwrap();
    let hurts: [(&str, &dyn Fn()); 2] = [
        ("chmod 0640", &|| chmod(state, 0o666)),
        ("find -samefile", &|| std::fs::hard_link(world.file(state), &second).unwrap()),
    ];
    for (cure, hurt) in hurts {
        hurt();
        let text = chain(&refused(&world));
        assert!(text.contains("state.json") && text.contains("doctor") && text.contains(cure), "{text}");
        let found = cures();
        assert!(found.len() == 1 && found[0].contains(cure) && !found[0].contains("--restore"), "{found:?}");
        // What it says cures.
        chmod(state, 0o640);
        let _ = std::fs::remove_file(&second);
        assert!(doctor(&world.config).unwrap().healthy);
        assert_eq!(std::fs::read(world.file(state)).unwrap(), before);
    }
    // A former generation that is too open may be whole still.
    std::fs::write(world.file(state), "{").unwrap();
    for number in 1..=3 {
        chmod(&format!("onboarding/state.json.{number}"), 0o666);
    }
    let found = cures();
    assert!(found.len() == 1 && found[0].contains("state.json.1") && found[0].contains("chmod"), "{found:?}");
    chmod("onboarding/state.json.1", 0o640);
    assert!(cures()[0].contains("--restore 1"));
}

// spec: JO-12
#[test]
fn marker_and_journal_belong_together() {
    let world = stopped(World::new());
    let lease = world.file("onboarding/.onboarding.lease");
    assert!(std::fs::read_to_string(&lease).unwrap().starts_with("Lucia.Onboarding.v1\n"));
    // A journal without its lease came from elsewhere.
    std::fs::remove_file(&lease).unwrap();
    let foreign = refused(&world);
    assert!(matches!(foreign, OpenError::Journal(Journal::Foreign { .. })), "{foreign:?}");
    let _ = std::fs::remove_file(&lease);
    let report = doctor(&world.config).unwrap();
    assert!(report.cures.iter().any(|cure| cure.contains("--restore 0")), "{report:?}");
    restore(&world.config, Generation::Current).unwrap();
    drop(start(&world.config, &world.clock, 9).unwrap());
    // A lease without its journal: that is lost, and never made anew.
    let state = world.file("onboarding/state.json");
    let journal = std::fs::read(&state).unwrap();
    std::fs::remove_file(&state).unwrap();
    for _ in 0..2 {
        let lost = refused(&world);
        assert!(matches!(lost, OpenError::Journal(Journal::Lost { .. })), "{lost:?}");
        assert!(!state.exists());
    }
    write(&state, &journal);
    drop(start(&world.config, &world.clock, 9).unwrap());
    // Another program's lease.
    std::fs::write(&lease, "Somebody.else\nx\n").unwrap();
    let foreign = refused(&world);
    assert!(matches!(foreign, OpenError::Journal(Journal::Lease(LeaseError::Foreign { .. }))), "{foreign:?}");
}

// spec: JO-13
#[test]
fn leftovers_stop_the_first_start_alone() {
    let world = World::new();
    world.window();
    let world = stopped(world);
    let pending = world.file("onboarding/.state.json.pending");
    // Of a file that is rarely written: no later write clears it away.
    let rare = world.file("onboarding/.state.json.3.pending");
    std::fs::write(&pending, "{").unwrap();
    std::fs::write(&rare, "{").unwrap();
    drop(start(&world.config, &world.clock, 9).unwrap());
    assert!(!pending.exists() && !rare.exists());
    // At the very first start nothing may be there.
    let dir = world.file("onboarding");
    for entry in std::fs::read_dir(&dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    std::fs::write(&pending, "{").unwrap();
    let refused = refused(&world);
    assert!(matches!(refused, OpenError::Journal(Journal::NotEmpty { .. })), "{refused:?}");
    assert!(!world.file("onboarding/state.json").exists());
}

// spec: JO-14
#[test]
fn former_generations_are_kept() {
    let world = World::new();
    for _ in 0..40 {
        world.window();
    }
    let report = doctor(&world.config).unwrap();
    let generations: Vec<u64> = report
        .findings
        .iter()
        .filter_map(|finding| match finding.health {
            Health::Whole { generation, .. } => Some(generation),
            _ => None,
        })
        .collect();
    assert_eq!(generations.len(), 4, "{report:?}");
    assert_eq!((generations[0], generations[1]), (40, 39));
    assert!(generations[2] < 39 && generations[2] >= 24 && generations[3] < generations[2], "{generations:?}");
    let mode = std::fs::metadata(world.file("onboarding/state.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    let mode = std::fs::metadata(world.file("onboarding")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2750);
}

// spec: JO-15
#[test]
fn after_a_failed_write_nothing_is_changed_until_a_restart() {
    let world = World::new();
    let machine = world.node(1);
    let journal = world.journal();
    let other = Machine::new(2);
    {
        let _plan = fail_at(&world.file("onboarding"), "replace/rename", 1, nix::libc::EIO);
        assert_eq!(code(other.discover(&world)), Some(Code::PersistenceFailed));
    }
    assert_eq!(code(other.discover(&world)), Some(Code::PersistenceFailed));
    assert_eq!(
        code(world.parts.enrollment.open_window(lucia_people::host_api::Minutes::new(1).unwrap(), OPERATOR)),
        Some(Code::PersistenceFailed)
    );
    assert_eq!(world.journal(), journal);
    assert_eq!(world.phase(&other), None, "what was refused is not seen");
    machine.heartbeat(&world).unwrap();
    let world = world.restart();
    world.window();
    other.discover(&world).unwrap();
}

// spec: JO-16
#[test]
fn f_5_a_full_disk_refuses_one_change_and_no_heartbeat() {
    let world = World::new();
    let machine = world.node(1);
    let journal = world.journal();
    let other = Machine::new(2);
    {
        let _plan = fail_at(world.scratch.path(), "replace/write", 0, nix::libc::ENOSPC);
        assert_eq!(code(other.discover(&world)), Some(Code::PersistenceFailed));
        machine.heartbeat(&world).unwrap();
    }
    assert_eq!(world.journal(), journal);
    other.discover(&world).unwrap();
}

// spec: JO-44
#[test]
fn a_change_of_which_nothing_was_written_is_refused_alone() {
    let world = World::new();
    let machine = world.node(1);
    let journal = world.journal();
    for step in ["replace/clear", "replace/create"] {
        for errno in [nix::libc::EACCES, nix::libc::EMFILE, nix::libc::EIO, nix::libc::EROFS] {
            let plan = fail_at(&world.file("onboarding"), step, 0, errno);
            assert_eq!(
                code(world.parts.enrollment.remove(machine.id(), OPERATOR)),
                Some(Code::PersistenceFailed),
                "{step}"
            );
            drop(plan);
            assert_eq!(world.journal(), journal, "{step}");
        }
    }
    // A journal that cannot be read back makes no former generation.
    let path = world.file("onboarding/state.json");
    for mode in [0o666, 0o640] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let answer = Machine::new(2).discover(&world);
        assert_eq!(code(answer), (mode != 0o640).then_some(Code::PersistenceFailed));
    }
    // What may have been written stops all others: see JO-15.
    for step in ["replace/write", "replace/sync", "replace/rename", "replace/dir-sync"] {
        let world = World::new();
        world.window();
        let plan = fail_at(&world.file("onboarding"), step, 0, nix::libc::EIO);
        assert_eq!(code(Machine::new(2).discover(&world)), Some(Code::PersistenceFailed), "{step}");
        drop(plan);
        assert_eq!(code(Machine::new(2).discover(&world)), Some(Code::PersistenceFailed), "{step}");
    }
}

// spec: JO-17
#[test]
fn f_2_a_crash_at_any_step_of_a_removal_needs_no_hands() {
    let steps = {
        let world = World::new();
        let machine = world.node(1);
        let plan = record(world.scratch.path());
        world.parts.enrollment.remove(machine.id(), OPERATOR).unwrap();
        plan.steps().len()
    };
    assert!(steps > 8, "{steps}");
    for at in 0..steps {
        let world = World::new();
        let machine = world.node(1);
        world.parts.flush();
        let plan = crash_at(world.scratch.path(), at);
        let answer = world.parts.enrollment.remove(machine.id(), OPERATOR);
        drop(plan);
        let world = world.restart();
        match world.phase(&machine) {
            Some(phase) => {
                assert_eq!(phase, P::Managed, "step {at}");
                assert!(answer.is_err(), "step {at}: acknowledged and lost");
                assert!(!world.file(&format!("nodes/removals/{}.json", machine.id())).exists(), "step {at}");
                machine.heartbeat(&world).unwrap();
            }
            None => {
                assert!(world.file(&format!("nodes/removals/{}.json", machine.id())).exists(), "step {at}");
                assert!(!world.file(&format!("nodes/identities/{}.json", machine.id())).exists(), "step {at}");
                assert!(!world.file(&format!("nodes/enrollment-requests/{}.json", machine.id())).exists(), "step {at}");
                assert_eq!(code(machine.heartbeat(&world)), Some(Code::NodeIdentityInvalid), "step {at}");
            }
        }
    }
}

// spec: JO-50 (threats.md F-8)
#[test]
fn f_8_a_clock_that_is_not_set_yet_refuses_nobody_for_good() {
    let world = World::new();
    let machine = world.node(1);
    machine.heartbeat(&world).unwrap();
    let now = world.now();
    world.clock.set_wall(lucia_proto::base::time::UnixTime::from_secs(1_000));
    let world = world.restart();
    assert_eq!(code(machine.heartbeat(&world)), Some(Code::Busy));
    world.clock.set_wall(now);
    machine.heartbeat(&world).unwrap();
}

// spec: HB-23
#[test]
fn records_are_written_a_few_at_a_time_and_all_in_the_end() {
    let world = World::new();
    let machines: Vec<Machine> = (1..=20).map(|number| world.node(number)).collect();
    for machine in &machines {
        machine.heartbeat(&world).unwrap();
    }
    let written = |world: &World| {
        let plan = record(&world.file("nodes/identities"));
        world.parts.tick();
        plan.steps().iter().filter(|step| **step == "replace/rename").count()
    };
    assert_eq!([written(&world), written(&world), written(&world), written(&world)], [8, 8, 4, 0]);
    world.advance(30);
    for machine in &machines {
        machine.heartbeat(&world).unwrap();
    }
    let plan = record(&world.file("nodes/identities"));
    world.parts.flush();
    let steps = plan.steps();
    let count = |step: &str| steps.iter().filter(|done| **done == step).count();
    assert_eq!((count("replace/rename"), count("replace/dir-sync")), (20, 1), "with one wait for the disk");
}

// spec: HB-24
#[test]
fn a_foreign_or_damaged_record_stops_the_start() {
    let world = World::new();
    let (machine, other) = (world.node(1), world.node(2));
    world.parts.flush();
    let path = |machine: &Machine| format!("nodes/identities/{}.json", machine.id());
    let (one, two) = (world.file(&path(&machine)), world.file(&path(&other)));
    let world = stopped(world);
    let bytes = std::fs::read(&one).unwrap();
    std::fs::write(&one, std::fs::read(&two).unwrap()).unwrap();
    let copied = refused(&world);
    assert!(
        matches!(&copied, OpenError::Record(RecordError::Other { found, .. }) if found == other.id()),
        "{copied:?}"
    );
    std::fs::write(&one, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = refused(&world);
    assert!(matches!(damaged, OpenError::Record(RecordError::Damaged { .. })), "{damaged:?}");
    std::fs::write(&one, &bytes).unwrap();
    start(&world.config, &world.clock, 9).unwrap();
}

// spec: VE-408
#[test]
fn a_file_of_a_newer_controller_stops_the_start_by_its_name_and_stays_as_it_is() {
    let world = World::new();
    let node = world.node(1);
    node.heartbeat(&world).unwrap();
    world.parts.flush();
    let record = format!("nodes/identities/{}.json", node.id());
    let World { scratch, clock, config, parts, .. } = world;
    drop(parts);
    let at = |file: &str| scratch.path().join("state").join(file);
    let newer = |file: &str| match std::fs::read_to_string(at(file)) {
        Ok(text) if file.ends_with("state.json") => text.replacen("\"version\":4", "\"version\":5", 1),
        Ok(_) | Err(_) => r#"{"schemaVersion":2,"later":{}}"#.to_owned(),
    };
    for file in [
        "onboarding/state.json",
        &record,
        "tokens/tokens.json",
        "passkeys/passkeys.json",
        "orders/roster-mark.json",
        "orders/barred.json",
    ] {
        let (before, text) = (std::fs::read(at(file)).ok(), newer(file));
        std::fs::write(at(file), &text).unwrap();
        std::fs::set_permissions(at(file), std::fs::Permissions::from_mode(0o600)).unwrap();
        let refused = start(&config, &clock, 8).err().unwrap_or_else(|| panic!("{file} is taken"));
        let said = chain(&refused);
        let name = file.rsplit('/').next().unwrap();
        assert!(said.contains(name) && said.contains("install the newer version again"), "{file}: {said}");
        assert_eq!(std::fs::read_to_string(at(file)).unwrap(), text, "{file} is left alone");
        match before {
            Some(bytes) => std::fs::write(at(file), bytes).unwrap(),
            None => std::fs::remove_file(at(file)).unwrap(),
        }
    }
    assert!(start(&config, &clock, 8).is_ok());
}

//! The files of the audit, one after the other, and refused calls that are counted.

use std::path::PathBuf;

use lucia_durable::crash_point::{crash_at, fail_at, record};
use lucia_people::audit::AuditError;
use lucia_people::audit::{AuditEntry, verify};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::REFUSED_LINES_PER_MINUTE;

use super::super::bench::{World, code, start};
use super::{OPERATOR, all, open};
use crate::parts::OpenError;
use crate::refusal::chain;
use crate::store::{AuditLogError, verify_audit};

/// A world whose files are full after two or three lines.
fn short() -> World {
    let world = World::new();
    world.parts.audit.set_file_max(400);
    world
}

fn files(world: &World) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(world.file("audit")).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The first one's name is the shortest.
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    files
}

fn lines(world: &World) -> Vec<u8> {
    files(world).iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

// spec: AU-40
#[test]
fn a_full_file_is_left_as_it_is_and_the_next_goes_on_with_the_chain() {
    let world = short();
    (0..20).for_each(|_| open(&world).unwrap());
    let there = files(&world);
    assert!(there.len() > 5, "{there:?}");
    let first = std::fs::read(&there[0]).unwrap();
    assert!(first.len() < 800);
    let whole = verify(&lines(&world), None).unwrap();
    let report = verify_audit(&world.config).unwrap();
    assert_eq!((report.chain, report.files, report.torn), (whole, there.len(), 0));
    assert_eq!((whole.entries, world.parts.audit.size()), (20, (20, report.bytes)));
    let sequences = |world: &World, after, limit| -> Vec<u64> {
        let entries = world.parts.audit.entries(after, limit).unwrap().entries;
        entries.iter().map(|entry| entry.sequence).collect()
    };
    let world = world.restart();
    world.parts.audit.set_file_max(400);
    for after in 0..=20 {
        assert_eq!(sequences(&world, after, 500), (after + 1..=20).collect::<Vec<_>>());
        assert_eq!(sequences(&world, after, 3), (after + 1..=20.min(after + 3)).collect::<Vec<_>>());
    }
    (0..20).for_each(|_| open(&world).unwrap());
    assert_eq!(std::fs::read(&there[0]).unwrap(), first);
    assert_eq!(verify(&lines(&world), Some(&whole)).unwrap().entries, 40);
}

// spec: AU-40
#[test]
fn a_crash_at_any_step_of_the_turn_leaves_an_audit_that_is_whole() {
    let begin = || {
        let world = short();
        while world.parts.audit.size().1 < 400 {
            open(&world).unwrap();
        }
        assert_eq!(files(&world).len(), 1);
        world
    };
    let steps = {
        let world = begin();
        let plan = record(&world.file("audit"));
        open(&world).unwrap();
        assert_eq!(files(&world).len(), 2);
        plan.steps()
    };
    assert!(steps.contains(&"append/make") && steps.contains(&"append/dir-sync"), "{steps:?}");
    for at in 0..steps.len() {
        let world = begin();
        let before = all(&world).len();
        let plan = crash_at(&world.file("audit"), at);
        let answer = open(&world);
        drop(plan);
        let world = world.restart();
        world.parts.audit.set_file_max(400);
        let opened = all(&world).iter().filter(|entry| entry.action == Act::WindowOpened).count();
        assert!(opened >= before && (answer.is_err() || opened == before + 1), "step {at}");
        open(&world).unwrap();
        let chain = verify(&lines(&world), None).unwrap();
        assert_eq!(chain, verify_audit(&world.config).unwrap().chain, "step {at}");
    }
    // No room for the next file: what was done waits for it.
    let world = begin();
    {
        let _plan = fail_at(&world.file("audit"), "append/make", 0, nix::libc::ENOSPC);
        assert_eq!(code(open(&world)), Some(Code::PersistenceFailed));
    }
    let before = all(&world).len();
    world.parts.tick();
    assert_eq!((all(&world).len(), files(&world).len()), (before + 1, 2));
}

// spec: AU-40
#[test]
fn a_file_that_is_missing_cut_or_out_of_its_place_stops_the_start() {
    let world = short();
    (0..12).for_each(|_| open(&world).unwrap());
    let files = files(&world);
    let World { scratch, clock, ca: _, config, parts } = world;
    drop(parts);
    let text = std::fs::read_to_string(&files[1]).unwrap();
    type Is = fn(&AuditLogError) -> bool;
    let refused = |name: &str, is: Is| {
        let Err(OpenError::Audit(refused)) = start(&config, &clock, 9) else { panic!("{name}: another end") };
        assert!(is(&refused) && chain(&refused).contains("move"), "{name}: {refused:?}");
        assert_eq!(chain(&refused), chain(&verify_audit(&config).unwrap_err()), "{name}");
    };
    let gap: Is = |refused| matches!(refused, AuditLogError::Gap { .. });
    let cut: Is = |refused| matches!(refused, AuditLogError::Damaged { source: AuditError::Cut { .. }, .. });
    let chained: Is = |refused| matches!(refused, AuditLogError::Damaged { source: AuditError::Chain { .. }, .. });
    let away = scratch.path().join("away");
    for file in files.iter().take(files.len() - 1) {
        std::fs::rename(file, &away).unwrap();
        refused("taken away", gap);
        std::fs::rename(&away, file).unwrap();
    }
    for (name, bad, is) in [
        ("its last line is gone", text[..=text.trim_end().rfind('\n').unwrap()].to_owned(), gap),
        ("half of its last line is gone", text[..text.len() - 9].to_owned(), cut),
        ("bytes after its last line", format!("{text}x"), cut),
        ("edited", text.replacen("window-opened", "window-closed", 1), chained),
    ] {
        std::fs::write(&files[1], bad).unwrap();
        refused(name, is);
    }
    std::fs::write(&files[1], &text).unwrap();
    let other = files[1].with_file_name("audit-00000000000000000001.jsonl");
    std::fs::write(&other, "").unwrap();
    drop(start(&config, &clock, 9).unwrap());
    std::fs::rename(&files[2], files[2].with_file_name(format!("audit-{:020}.jsonl", 99))).unwrap();
    refused("renamed", gap);
    drop(scratch);
}

// spec: AU-41
#[test]
fn refused_calls_beyond_ten_a_minute_are_counted_in_one_line() {
    let world = World::new();
    let fleet = super::fleet(&world);
    super::publish(&world, &fleet);
    let alice = super::alice(&fleet);
    let drop_one = |by| code(world.parts.orders.drop_draft(&"0000-0000-0000".parse().unwrap(), by));
    for _ in 0..50 {
        assert_eq!(drop_one(&alice), Some(Code::DraftNotFound));
    }
    let of = |action| {
        let of: Vec<AuditEntry> = all(&world).into_iter().filter(|entry| entry.action == action).collect();
        of
    };
    let lines = usize::try_from(REFUSED_LINES_PER_MINUTE).unwrap();
    assert_eq!(of(Act::DraftDropped).len(), lines);
    // Another caller has lines of their own, and what is done always has one.
    drop_one(&OPERATOR);
    (0..20).for_each(|_| open(&world).unwrap());
    assert_eq!((of(Act::DraftDropped).len(), of(Act::WindowOpened).len()), (lines + 1, 20));
    world.parts.tick();
    assert_eq!(of(Act::RefusalsCounted), []);
    world.advance(60);
    world.parts.tick();
    let counted = of(Act::RefusalsCounted);
    let super::By::Owner { id, name, from, .. } = alice.clone() else { panic!("{alice:?}") };
    let actor = super::AuditActor::Owner(id, name);
    assert_eq!((counted.len(), &counted[0].actor, counted[0].from), (1, &actor, Some(from)));
    assert_eq!((counted[0].more, counted[0].refused), (Some(40), Some(Code::DraftNotFound)));
    // The next minute has its own, and none is lost at the end of the program.
    (0..lines + 3).for_each(|_| assert_eq!(drop_one(&alice), Some(Code::DraftNotFound)));
    world.parts.flush();
    let counted = of(Act::RefusalsCounted);
    assert_eq!((of(Act::DraftDropped).len(), counted.last().unwrap().more), (2 * lines + 1, Some(3)));
}

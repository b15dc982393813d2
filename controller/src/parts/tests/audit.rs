//! The audit on the disk: before the answer, whole after every crash, and nothing is changed without it.

use lucia_durable::crash_point::{crash_at, fail_at, record};
use lucia_people::audit::AuditError;
use lucia_people::audit::{AuditActor, AuditEntry, AuditVia, verify};
use lucia_people::host_api::Minutes;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::json;
use lucia_proto::base::limits::AUDIT_PER_ANSWER_MAX;
use lucia_proto::orders::{OrderCode, OrderId, OrderKind};
use lucia_proto::test_support::OrderWorld;

use super::bench::{World, code, start, write};
use super::owners::{fleet, publish};
use crate::parts::{AuditedChange, By, OpenError, Refusal};
use crate::refusal::chain;
use crate::store::{AuditLogError, verify_audit};

mod files;

const OPERATOR: By = By::Operator(0);

fn alice(fleet: &OrderWorld) -> By {
    let (id, name) = (fleet.alice.id.clone(), "alice".parse().unwrap());
    By::Owner { id, name, from: "192.0.2.99".parse().unwrap(), via: AuditVia::Key }
}

fn bytes(world: &World) -> Vec<u8> {
    std::fs::read(world.file("audit/audit.jsonl")).unwrap()
}

/// A change that is noted.
fn open(world: &World) -> Result<(), Refusal> {
    let act = AuditedChange::new(Act::WindowOpened, None);
    world
        .parts
        .audit
        .audited(&OPERATOR, &act, || world.parts.enrollment.open_window(Minutes::new(5).unwrap(), &OPERATOR.actor()))
}

fn all(world: &World) -> Vec<AuditEntry> {
    world.parts.audit.entries(0, AUDIT_PER_ANSWER_MAX).unwrap().entries
}

// spec: AU-5
#[test]
fn every_step_of_a_change_leaves_an_audit_that_is_whole() {
    let steps = {
        let world = World::new();
        let plan = record(world.scratch.path());
        open(&world).unwrap();
        plan.steps()
    };
    assert!(steps.contains(&"append/half-written") && steps.contains(&"append/sync"), "{steps:?}");
    for at in 0..steps.len() {
        let world = World::new();
        open(&world).unwrap();
        let before = all(&world).len();
        let plan = crash_at(world.scratch.path(), at);
        let answer = open(&world);
        drop(plan);
        let world = world.restart();
        let entries = all(&world);
        let opened = entries.iter().filter(|entry| entry.action == Act::WindowOpened).count();
        assert!(opened >= before && (answer.is_err() || opened == before + 1), "step {at}: {entries:?}");
        let text = bytes(&world);
        let chain = verify(&text, None).unwrap();
        assert_eq!(chain.entries, u64::try_from(entries.len()).unwrap(), "step {at}");
        let view = world.parts.audit.entries(0, 500).unwrap();
        assert_eq!((view.last_sequence, view.head), (chain.entries, chain.head));
        open(&world).unwrap();
    }
}

// spec: AU-6
#[test]
fn nothing_is_changed_while_it_cannot_be_noted() {
    let world = World::new();
    open(&world).unwrap();
    // A full disk: what was done is noted when there is room, and before that nothing more is done.
    {
        let _plan = fail_at(&world.file("audit"), "append/write", 0, nix::libc::ENOSPC);
        assert_eq!(code(open(&world)), Some(Code::PersistenceFailed));
    }
    let journal = world.journal();
    {
        let _plan = fail_at(&world.file("audit"), "append/write", 0, nix::libc::ENOSPC);
        assert_eq!(code(open(&world)), Some(Code::PersistenceFailed));
        assert_eq!(world.journal(), journal, "not even begun");
    }
    world.parts.tick();
    assert_eq!(all(&world).len(), 2, "there is room: it is noted without anybody asking");
    open(&world).unwrap();
    assert_eq!(all(&world).len(), 3);
    // A dying disk: nothing until a restart.
    {
        let _plan = fail_at(&world.file("audit"), "append/sync", 0, nix::libc::EIO);
        assert_eq!(code(open(&world)), Some(Code::PersistenceFailed));
    }
    let journal = world.journal();
    assert_eq!(code(open(&world)), Some(Code::PersistenceFailed));
    assert_eq!(world.journal(), journal);
    let world = world.restart();
    open(&world).unwrap();
}

// spec: AU-7
#[test]
fn an_audit_that_was_changed_stops_the_start_and_a_torn_line_does_not() {
    let world = World::new();
    (0..5).for_each(|_| open(&world).unwrap());
    let path = world.file("audit/audit.jsonl");
    let World { scratch, clock, ca: _, config, parts } = world;
    drop(parts);
    let good = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    type Is = fn(&AuditError) -> bool;
    let damages: [(&str, String, Is); 4] = [
        ("edited", good.replacen("window-opened", "window-closed", 1), |why| {
            matches!(why, AuditError::Chain { number: 2 })
        }),
        ("cut out", [lines[0], lines[2]].concat(), |why| matches!(why, AuditError::Sequence { number: 2, found: 3 })),
        ("swapped", [lines[1], lines[0]].concat(), |why| matches!(why, AuditError::Sequence { number: 1, found: 2 })),
        ("garbage", format!("{good}x\n"), |why| matches!(why, AuditError::Line { number: 6, .. })),
    ];
    for (name, text, is) in damages {
        std::fs::write(&path, text).unwrap();
        let Err(OpenError::Audit(refused)) = start(&config, &clock, 9) else { panic!("{name}: another end") };
        for refused in [refused, verify_audit(&config).unwrap_err()] {
            assert!(matches!(&refused, AuditLogError::Damaged { source, .. } if is(source)), "{name}: {refused:?}");
            assert!(chain(&refused).contains("move"), "{name}: {refused}");
        }
    }
    std::fs::write(&path, &good[..good.len() - 7]).unwrap();
    let report = verify_audit(&config).unwrap();
    assert_eq!((report.chain.entries, report.torn > 0), (4, true));
    let parts = start(&config, &clock, 9).unwrap();
    let last = parts.audit.entries(4, 9).unwrap().entries;
    assert_eq!((last.len(), last[0].action, &last[0].actor), (1, Act::TornLineDropped, &AuditActor::Controller));
    drop(parts);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(verify_audit(&config), Err(AuditLogError::Missing { .. })));
    drop(scratch);
}

// spec: AU-8
#[test]
fn pages_of_the_audit_are_found_wherever_they_begin() {
    let world = World::new();
    (0..600).for_each(|_| open(&world).unwrap());
    for world in [world] {
        for (after, limit, first, count) in [
            (0, 500, 1, 500),
            (255, 3, 256, 3),
            (256, 3, 257, 3),
            (257, 1, 258, 1),
            (599, 500, 600, 1),
            (511, 500, 512, 89),
        ] {
            let entries = world.parts.audit.entries(after, limit).unwrap().entries;
            assert_eq!((entries.len(), entries[0].sequence), (count, first), "{after} {limit}");
        }
        let world = world.restart();
        assert_eq!(world.parts.audit.entries(299, 2).unwrap().entries[1].sequence, 301, "after a restart as well");
        for after in [600, 601, u64::MAX] {
            let view = world.parts.audit.entries(after, 500).unwrap();
            assert!(view.entries.is_empty() && view.last_sequence == 600, "{after}");
        }
    }
}

// spec: AU-9
#[test]
fn an_order_is_followed_from_its_draft_to_the_last_who_carried_it_out() {
    use lucia_proto::base::bounded::Version;
    use lucia_proto::files::owner_queue::OrderAnswerFile;
    use lucia_proto::files::owner_queue::Outcome;
    let world = World::new();
    let node = world.node(7);
    let fleet = fleet(&world);
    publish(&world, &fleet);
    let alice = alice(&fleet);
    let draft = fleet.draft(OrderKind::ReleaseLapse, |_| ());
    let (code, intent) = (draft.read().unwrap().code(), OrderId::of(&draft.intent_json));
    world.parts.orders.add_draft(draft.clone(), &OPERATOR).unwrap();
    assert!(world.parts.orders.sign(&code, fleet.victor.sign(&draft), &alice).is_err());
    world.parts.orders.sign(&code, fleet.alice.sign(&draft), &alice).unwrap();
    let outcome = Outcome { node_id: node.id().clone(), at: world.now(), refused: Some(OrderCode::NameDiffers) };
    let file = OrderAnswerFile { schema_version: Version, intent, outcome, message: "".parse().unwrap() };
    let path = world.file(&format!("nodes/owner-responses/intent-{intent}.json"));
    write(&path, &file.to_bytes().unwrap());
    world.parts.tick();
    world.parts.orders.drop_draft(&code, &alice).unwrap();
    let owner = AuditActor::Owner(fleet.alice.id.clone(), "alice".parse().unwrap());
    let entries: Vec<_> = all(&world)
        .into_iter()
        .map(|entry| (entry.action, entry.actor, entry.refused, entry.intent_refused, entry.intent))
        .collect();
    use Act::{DraftAdded, DraftDropped, IntentSettled, IntentSigned, OrderGiven, RosterTaken};
    let id = Some(intent);
    let want = [
        (RosterTaken, AuditActor::Worker, None, None, None),
        (DraftAdded, AuditActor::Operator(0), None, None, id),
        (IntentSigned, owner.clone(), Some(Code::IntentRefused), None, id),
        (OrderGiven, owner.clone(), None, None, id),
        (IntentSigned, owner.clone(), None, None, id),
        (IntentSettled, AuditActor::Worker, None, Some(OrderCode::NameDiffers), id),
        (DraftDropped, owner, None, None, id),
    ];
    assert_eq!(entries, want);
}

/// Every act, by the operator and by an owner, done and refused, as 0.1 wrote it; and its journal.
// spec: AU-441
#[test]
fn audit_and_journal_of_the_version_before_are_verified_and_go_on() {
    const BEFORE: &str = include_str!("../../../../tests/vectors/state-0.1/audit.jsonl");
    let world = World::new();
    open(&world).unwrap();
    let world = super::durability::stopped(world);
    std::fs::write(world.file("audit/audit.jsonl"), BEFORE).unwrap();
    let journal = include_bytes!("../../../../tests/vectors/state-0.1/journal.json");
    write(&world.file("onboarding/state.json"), journal);
    let world = world.restart();
    let entries = all(&world);
    let before: Vec<_> = entries.iter().map(|entry| json::to_string(entry).unwrap() + "\n").take(28).collect();
    assert_eq!(before.concat(), BEFORE, "each line is read and written as it was");
    assert_eq!(world.parts.journal.read().devices.len(), 1);
    open(&world).unwrap();
    let text = bytes(&world);
    assert!(text.starts_with(BEFORE.as_bytes()));
    assert_eq!(verify(&text, None).unwrap().entries, u64::try_from(entries.len() + 1).unwrap());
}

//! The ledger: chained, shared by two processes, never silently repaired.

mod people;

use lucia_durable::DirRules;
use lucia_proto::files::audit_chain::AuditChain;
use lucia_proto::orders::OrderId;
use lucia_proto::orders::owner::{OwnerId, OwnerName, Role};
use lucia_proto::orders::roster::RosterMark;
use lucia_proto::pki::endpoint_names::EndpointNames;
use lucia_proto::test_support::{TestNode, key};

use super::*;
use crate::fixture::{Scratch, secs};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn names(number: u8) -> NodeNames {
    let node = TestNode::new(number);
    NodeNames { node_id: node.node_id, fingerprint: node.fingerprint, hostname: node.hostname }
}

fn admitted(number: u8) -> Entry {
    Entry::Admitted { node: names(number), by: AdmittedBy::Operator }
}

fn issued(number: u8) -> Entry {
    Entry::Issued { node: names(number), serial: "7f".to_owned(), not_after: NOW, address: None }
}

fn new() -> (Scratch, PrivateDir) {
    let scratch = Scratch::new();
    let dir = PrivateDir::open(scratch.path(), DirRules::private()).unwrap();
    Ledger::create(&dir, Digest::ZERO, NOW).unwrap();
    (scratch, dir)
}

fn add(ledger: &mut Ledger, dir: &PrivateDir, entries: &[Entry]) -> Result<(), LedgerError> {
    let mut transaction = ledger.begin(dir, Ledger::hold(dir)?)?;
    for entry in entries {
        transaction.add(NOW, entry.clone())?;
    }
    transaction.commit()
}

// spec: WK-30
#[test]
fn lines_survive_and_add_up() {
    let (_scratch, dir) = new();
    let mut ledger = Ledger::load(&dir).unwrap();
    let endpoint = Entry::EndpointIssued { serial: "01".to_owned(), not_after: NOW };
    add(&mut ledger, &dir, &[admitted(1), issued(1), admitted(2), endpoint]).unwrap();
    add(&mut ledger, &dir, &[Entry::Removed { node: names(2) }]).unwrap();
    let read = Ledger::load(&dir).unwrap();
    assert_eq!(read.records(), ledger.records());
    assert_eq!(read.head(), ledger.head());
    assert_eq!(read.records().lines(), 6);
    assert_eq!(read.records().node(&names(1).node_id).unwrap().issued, 1);
    assert!(read.records().is_barred(&names(2).fingerprint));
    assert!(!read.records().is_barred(&names(1).fingerprint));
    assert_eq!(read.records().owner_of(&names(2).hostname).unwrap().names, names(2));
}

// spec: WK-31
#[test]
fn two_processes_add_without_losing_a_line() {
    let (_scratch, dir) = new();
    let (mut one, mut two) = (Ledger::load(&dir).unwrap(), Ledger::load(&dir).unwrap());
    add(&mut one, &dir, &[admitted(1)]).unwrap();
    add(&mut two, &dir, &[admitted(2)]).unwrap();
    add(&mut one, &dir, &[admitted(3)]).unwrap();
    assert_eq!(Ledger::load(&dir).unwrap().records().nodes().count(), 3);
    let held = Ledger::hold(&dir).unwrap();
    assert!(matches!(Ledger::hold(&dir), Err(LedgerError::Busy)));
    drop(held);
    Ledger::hold(&dir).unwrap();
}

// spec: WK-32
#[test]
fn an_entry_that_contradicts_the_ledger_is_never_written() {
    let (_scratch, dir) = new();
    let mut ledger = Ledger::load(&dir).unwrap();
    add(&mut ledger, &dir, &[admitted(1), admitted(2), Entry::Removed { node: names(2) }]).unwrap();
    let same_name = NodeNames { hostname: names(1).hostname, ..names(3) };
    for entry in [
        Entry::Initialised { root: Digest::ZERO },
        admitted(1),
        Entry::Admitted { node: same_name, by: AdmittedBy::Journal },
        Entry::Admitted { node: NodeNames { hostname: names(9).hostname, ..names(1) }, by: AdmittedBy::Journal },
        Entry::Admitted { node: NodeNames { node_id: names(4).node_id, ..names(3) }, by: AdmittedBy::Journal },
        issued(3),
        issued(2),
        Entry::Issued {
            node: NodeNames { hostname: names(9).hostname, ..names(1) },
            serial: "1".to_owned(),
            not_after: NOW,
            address: None,
        },
        Entry::Issued { node: names(1), serial: "f".repeat(5000), not_after: NOW, address: None },
        Entry::Removed { node: names(3) },
    ] {
        assert!(matches!(add(&mut ledger, &dir, std::slice::from_ref(&entry)), Err(LedgerError::Entry)), "{entry:?}");
    }
    assert_eq!(Ledger::load(&dir).unwrap().records().lines(), 4);
    // What failed in between left nothing behind in memory either.
    add(&mut ledger, &dir, &[admitted(3)]).unwrap();
}

// spec: WK-33
#[test]
fn a_damaged_ledger_stops_the_worker_and_says_what_to_do() {
    type Damage = fn(&mut Vec<String>);
    let cases: [(&str, Damage); 11] = [
        // Both were answered on: the one cut, the other gone.
        ("Short", |lines| lines[2].truncate(20)),
        ("Short", |lines| drop(lines.pop())),
        ("number: 3", |lines| lines[2] = lines[2].replace("\"7f\"", "\"8f\"")),
        ("number: 3", |lines| lines[1] = lines[1].replace("\"n1\"", "\"n9\"")),
        ("number: 2", |lines| drop(lines.remove(1))),
        ("number: 2", |lines| lines.swap(2, 1)),
        ("number: 1", |lines| drop(lines.remove(0))),
        ("number: 2", |lines| lines[1] = "not JSON\n".to_owned()),
        ("number: 2", |lines| lines[1] = lines[1].replace("\"at\"", "\"by\":\"operator\",\"at\"")),
        ("number: 4", |lines| lines.push(lines[2].clone())),
        ("Lost", |lines| lines.clear()),
    ];
    for (want, damage) in cases {
        let (_scratch, dir) = new();
        let mut ledger = Ledger::load(&dir).unwrap();
        add(&mut ledger, &dir, &[admitted(1), issued(1)]).unwrap();
        let path = dir.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        damage(&mut lines);
        if lines.is_empty() {
            std::fs::remove_file(&path).unwrap()
        } else {
            std::fs::write(&path, lines.concat()).unwrap()
        }
        let why = Ledger::load(&dir).unwrap_err();
        assert!(format!("{why:?}").contains(want), "{want}: {why:?}");
        assert_eq!(dir.exists(&crate::files::file(NAME)).unwrap(), want != "Lost", "{want}");
    }
}

// spec: WK-34
#[test]
fn a_ledger_that_became_shorter_is_noticed() {
    let (_scratch, dir) = new();
    let mut ledger = Ledger::load(&dir).unwrap();
    let path = dir.path().join(NAME);
    let before = std::fs::read(&path).unwrap();
    add(&mut ledger, &dir, &[admitted(1)]).unwrap();
    std::fs::write(&path, before).unwrap();
    assert!(matches!(add(&mut ledger, &dir, &[admitted(2)]), Err(LedgerError::Shrunk { .. })));
}

// spec: WK-35
#[test]
fn a_last_line_that_a_crash_cut_off_is_dropped_and_said() {
    let (_scratch, dir) = new();
    let mut ledger = Ledger::load(&dir).unwrap();
    add(&mut ledger, &dir, &[admitted(1)]).unwrap();
    let path = dir.path().join(NAME);
    let whole = std::fs::read_to_string(&path).unwrap();
    let line = Line::write(3, NOW, &issued(1), ledger.head()).unwrap();
    for cut in 1..line.len() {
        std::fs::write(&path, format!("{whole}{}", &line[..cut])).unwrap();
        // Who only looks leaves it alone: it may be written just now.
        assert_eq!(Ledger::load(&dir).unwrap().records().lines(), 2, "{cut}");
    }
    // A running worker meets it as well as one that starts.
    for mut found in [ledger, Ledger::load(&dir).unwrap()] {
        std::fs::write(&path, format!("{whole}{}", &line[..line.len() - 1])).unwrap();
        add(&mut found, &dir, &[issued(1)]).unwrap();
        let read = Ledger::load(&dir).unwrap();
        assert_eq!((read.records(), read.head()), (found.records(), found.head()));
        assert_eq!((read.records().lines(), read.records().torn().unwrap().0), (4, 1));
        assert_eq!(read.records().node(&names(1).node_id).unwrap().issued, 1);
        std::fs::write(&path, &whole).unwrap();
        Anchor::NONE.write(&dir).unwrap();
    }
}

// spec: WK-33
#[test]
fn a_head_that_is_none_stops_and_an_old_ledger_has_none() {
    let (_scratch, dir) = new();
    std::fs::write(dir.path().join(ANCHOR), "{}").unwrap();
    let why = Ledger::load(&dir).unwrap_err();
    assert!(matches!(why, LedgerError::AnchorBad { .. }) && why.to_string().contains("ledger.head"), "{why:?}");
    std::fs::remove_file(dir.path().join(ANCHOR)).unwrap();
    let mut ledger = Ledger::load(&dir).unwrap();
    add(&mut ledger, &dir, &[]).unwrap();
    assert_eq!(Anchor::read(&dir).unwrap(), Anchor { lines: 1, head: ledger.head() });
    // A beginning that was cut off at its last step.
    std::fs::write(dir.path().join(NAME), "{\"seq\"").unwrap();
    std::fs::remove_file(dir.path().join(ANCHOR)).unwrap();
    assert!(matches!(Ledger::load(&dir), Err(LedgerError::Empty { .. })));
}

fn servers() -> EndpointNames {
    EndpointNames::new(vec!["directory.example".parse().unwrap(), "192.0.2.7".parse().unwrap()]).unwrap()
}

// spec: WK-30
#[test]
fn every_kind_of_line_is_read_as_it_was_written() {
    let mark = Mark { generation: 7, last_event_id: 5, chain_head: Digest::of(b"x") };
    let (node, serial) = (names(1), || "7f".to_owned());
    let address = Some("192.0.2.7".parse().unwrap());
    for entry in [
        Entry::Initialised { root: Digest::ZERO },
        admitted(1),
        issued(1),
        Entry::Issued { node: node.clone(), serial: serial(), not_after: NOW, address },
        Entry::Orphaned { node: node.clone(), serial: serial(), not_after: NOW },
        Entry::EndpointIssued { serial: serial(), not_after: NOW },
        Entry::DirectoryIssued { serial: serial(), not_after: NOW, names: servers() },
        Entry::Suspended { node: node.clone(), held: true },
        Entry::Resumed { node: node.clone() },
        Entry::Barred { node: node.clone(), by: By::Operator },
        Entry::Removed { node: node.clone() },
        Entry::Replaced { node: node.clone(), successor: names(2).node_id },
        Entry::LapseReleased { node: node.clone(), serial: serial() },
        Entry::OwnerApproved {
            owner: owner(7),
            name: name(),
            role: Role::Viewer,
            key: node.fingerprint,
            roster: roster(1),
        },
        Entry::OwnerRemoved { owner: owner(7), name: name(), roster: roster(2) },
        Entry::OwnerKeyAdded { owner: owner(7), name: name(), key: node.fingerprint, roster: roster(3) },
        Entry::OwnerKeyRemoved { owner: owner(7), name: name(), key: node.fingerprint, roster: roster(4) },
        Entry::RosterChanged { roster: roster(5) },
        ordered(1, 1, OrderEffect::Admit { replaces: None }),
        ordered(1, 1, OrderEffect::Admit { replaces: Some(names(2).node_id) }),
        ordered(1, 1, OrderEffect::Release { serial: serial() }),
        ordered(1, 1, OrderEffect::Bar),
        ordered(1, 1, OrderEffect::Note),
        Entry::JournalSeen(mark),
        Entry::JournalAccepted(mark),
        Entry::AuditAnchored(AuditChain { entries: 7, head: Digest::of(b"x") }),
        Entry::AuditAccepted(AuditChain { entries: 3, head: Digest::of(b"y") }),
        Entry::TornLineDropped { bytes: 7 },
    ] {
        let text = Line::write(3, NOW, &entry, Digest::ZERO).unwrap();
        let read = |text: &str| Line::read(text.as_bytes(), LINE_MAX).map(|line| line.follows(3, Digest::ZERO));
        assert_eq!(read(&text).unwrap(), Ok((NOW, entry.clone())), "{text}");
        // A field of another kind, or one field less.
        let more = if text.contains("\"bytes\"") { "\"held\":true" } else { "\"bytes\":1" };
        assert!(read(&text.replace("\"prev\"", &format!("{more},\"prev\""))).unwrap().is_err(), "{text}");
        if entry.node().is_some() {
            assert!(read(&text.replace("\"hostname\":\"n1\",", "")).unwrap().is_err(), "{text}");
        }
    }
}

fn owner(number: u8) -> OwnerId {
    OwnerId::of(&key(number).public().fingerprint())
}

fn name() -> OwnerName {
    "alice".parse().unwrap()
}

fn roster(version: u64) -> RosterMark {
    RosterMark { version, sha256: Digest::of(&version.to_be_bytes()) }
}

fn ordered(number: u8, order: u8, act: OrderEffect) -> Entry {
    let by = OrderedBy { intent: OrderId::of(&order.to_string()), signers: vec![owner(7), owner(8)] };
    Entry::Ordered { node: names(number), by, act }
}

/// What one act after another makes of nodes 1 to 3, or why the last one is none.
fn told(entries: &[Entry]) -> Result<Records, &'static str> {
    let mut records = Records::default();
    records.apply(NOW, &Entry::Initialised { root: Digest::ZERO }).unwrap();
    entries.iter().try_for_each(|entry| records.apply(NOW, entry)).map(|()| records)
}

// spec: WK-61
#[test]
fn a_name_moves_only_by_a_line_that_names_the_heir() {
    let heir = |number, name_of| NodeNames { hostname: names(name_of).hostname, ..names(number) };
    let admit = |node| Entry::Admitted { node, by: By::Operator };
    let replaced = |successor| Entry::Replaced { node: names(1), successor: names(successor).node_id };
    let (barred, removed) = (Entry::Barred { node: names(1), by: By::Journal }, Entry::Removed { node: names(1) });
    let moved = told(&[admitted(1), issued(1), replaced(2), admit(heir(2, 1))]).unwrap();
    assert_eq!(moved.owner_of(&names(1).hostname).unwrap().names, heir(2, 1));
    assert!(moved.is_barred(&names(1).fingerprint) && !moved.is_barred(&names(2).fingerprint));
    let new = moved.node(&names(2).node_id).unwrap();
    assert_eq!((new.issued, &new.leaf), (0, &None), "nothing passes on");
    for (good, entries) in [
        (true, vec![barred.clone(), replaced(2), admit(heir(2, 1))]),
        (true, vec![barred.clone(), removed.clone(), replaced(2), admit(heir(2, 1))]),
        // Another heir, before the first one was let in.
        (true, vec![replaced(2), replaced(3), admit(heir(3, 1))]),
        (false, vec![replaced(2), replaced(3), admit(heir(2, 1))]),
        (false, vec![admit(heir(2, 1))]),
        (false, vec![barred.clone(), removed, admit(heir(2, 1))]),
        (false, vec![replaced(3), admit(heir(2, 1))]),
        (false, vec![replaced(1)]),
        (false, vec![replaced(2), admit(heir(2, 1)), replaced(3)]),
        (false, vec![admitted(2), replaced(2)]),
        (false, vec![replaced(2), issued(1)]),
        (false, vec![replaced(2), barred]),
    ] {
        let all: Vec<Entry> = [admitted(1)].into_iter().chain(entries.clone()).collect();
        assert_eq!(told(&all).is_ok(), good, "{entries:?}");
    }
}

// spec: WK-64
#[test]
fn suspension_barring_and_release_contradict_nothing() {
    let node = names(1);
    let suspended = || Entry::Suspended { node: node.clone(), held: false };
    let resumed = || Entry::Resumed { node: node.clone() };
    let barred = || Entry::Barred { node: node.clone(), by: By::Journal };
    let removed = || Entry::Removed { node: node.clone() };
    let released = |serial: &str| Entry::LapseReleased { node: node.clone(), serial: serial.to_owned() };
    for (good, entries) in [
        (true, vec![suspended(), resumed(), issued(1), suspended(), barred(), removed()]),
        (true, vec![barred()]),
        (true, vec![issued(1), released("7f")]),
        (false, vec![suspended(), suspended()]),
        (false, vec![suspended(), issued(1)]),
        (false, vec![resumed()]),
        (false, vec![suspended(), barred(), resumed()]),
        (false, vec![barred(), barred()]),
        (false, vec![barred(), suspended()]),
        (false, vec![barred(), issued(1)]),
        (false, vec![barred(), removed(), removed()]),
        (false, vec![released("7f")]),
        (false, vec![issued(1), released("7e")]),
        (false, vec![issued(1), barred(), released("7f")]),
    ] {
        let all: Vec<Entry> = [admitted(1)].into_iter().chain(entries.clone()).collect();
        assert_eq!(told(&all).is_ok(), good, "{entries:?}");
    }
    let mark = |generation| Entry::JournalSeen(Mark { generation, last_event_id: 0, chain_head: Digest::ZERO });
    assert!(told(&[mark(2), mark(2), mark(3)]).is_ok() && told(&[mark(2), mark(1)]).is_err());
}

// spec: NN-6
#[test]
fn a_renamed_nodes_former_name_is_its_own_until_its_leaf_has_ended() {
    let called = |number: u8, name: &str| NodeNames { hostname: name.parse().unwrap(), ..names(number) };
    let rename = |node: NodeNames, new: &str| Entry::Renamed { node, new: new.parse().unwrap(), by: By::Operator };
    let leaf = |node: NodeNames, ends: u64| Entry::Issued {
        node,
        serial: "7f".to_owned(),
        not_after: NOW.plus(secs(ends)),
        address: None,
    };
    let admit = |node| Entry::Admitted { node, by: By::Operator };
    for (good, entries) in [
        (true, vec![rename(names(1), "web"), leaf(called(1, "web"), 60)]),
        (false, vec![rename(names(1), "web"), leaf(names(1), 60)]),
        (false, vec![rename(called(1, "web"), "mail")]),
        (false, vec![rename(names(1), "n1")]),
        (false, vec![admitted(2), rename(names(1), "n2")]),
        // Back again, and on: its own former names are free for itself.
        (
            true,
            vec![leaf(names(1), 60), rename(names(1), "web"), rename(called(1, "web"), "n1"), rename(names(1), "web")],
        ),
        (false, vec![leaf(names(1), 60), rename(names(1), "web"), admit(called(2, "n1"))]),
        (false, vec![leaf(names(1), 60), rename(names(1), "web"), admitted(2), rename(names(2), "n1")]),
        // Without a leaf under it nobody has to wait for anything.
        (true, vec![rename(names(1), "web"), admit(called(2, "n1"))]),
        // It is renamed as it is: not once it gets nothing more.
        (false, vec![Entry::Suspended { node: names(1), held: false }, rename(names(1), "web")]),
        (false, vec![Entry::Barred { node: names(1), by: By::Journal }, rename(names(1), "web")]),
        // What it has now can be replaced, what it had cannot.
        (
            true,
            vec![
                rename(names(1), "web"),
                Entry::Replaced { node: called(1, "web"), successor: names(2).node_id },
                admit(called(2, "web")),
            ],
        ),
        (
            false,
            vec![
                leaf(names(1), 60),
                rename(names(1), "web"),
                Entry::Replaced { node: names(1), successor: names(2).node_id },
            ],
        ),
    ] {
        let all: Vec<Entry> = [admitted(1)].into_iter().chain(entries.clone()).collect();
        assert_eq!(told(&all).is_ok(), good, "{entries:?}");
    }
    let mut records = told(&[admitted(1), leaf(names(1), 60), rename(names(1), "web")]).unwrap();
    let (id, until) = (names(1).node_id, NOW.plus(secs(60)));
    assert_eq!(records.owner_of(&"web".parse().unwrap()).unwrap().names, called(1, "web"));
    assert!(records.owner_of(&names(1).hostname).is_none());
    assert_eq!(records.former_owner_of(&names(1).hostname, until), Some((&id, until)));
    let after = until.plus(secs(1));
    assert_eq!(records.former_owner_of(&names(1).hostname, after), None);
    assert!(records.apply(until, &admit(called(2, "n1"))).is_err());
    records.apply(after, &admit(called(2, "n1"))).unwrap();
    assert_eq!(records.owner_of(&names(1).hostname).unwrap().names, called(2, "n1"));
    assert_eq!(records.node(&id).unwrap().names, called(1, "web"));
}

/// A line of every kind, as 0.1 wrote it.
// spec: WK-440
#[test]
fn a_ledger_of_the_version_before_is_verified_and_goes_on() {
    const BEFORE: &str = include_str!("../../../tests/vectors/state-0.1/ledger.jsonl");
    let (_scratch, dir) = new();
    std::fs::write(dir.path().join(NAME), BEFORE).unwrap();
    std::fs::write(dir.path().join(ANCHOR), include_str!("../../../tests/vectors/state-0.1/ledger.head")).unwrap();
    let mut ledger = Ledger::load(&dir).unwrap();
    assert_eq!(ledger.records().lines(), 30);
    let node = ledger.records().owner_of(&"web".parse().unwrap()).unwrap();
    assert_eq!((&node.names.node_id, node.by), (&names(3).node_id, By::Journal));
    assert_eq!(ledger.records().roster(), Some(&roster(5)));
    assert!(ledger.records().is_barred(&names(1).fingerprint) && ledger.records().is_barred(&names(2).fingerprint));
    add(&mut ledger, &dir, &[admitted(4)]).unwrap();
    assert_eq!(Ledger::load(&dir).unwrap().records().lines(), 31);
    assert!(
        std::fs::read_to_string(dir.path().join(NAME)).unwrap().starts_with(BEFORE),
        "nothing of it is written again"
    );
}

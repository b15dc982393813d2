//! The ledger: chained, shared by two processes, never silently repaired.

use lucia_durable::DirRules;
use lucia_proto::test_support::TestNode;

use super::*;
use crate::fixture::Scratch;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn names(number: u8) -> NodeNames {
    let node = TestNode::new(number);
    NodeNames { node_id: node.node_id, fingerprint: node.fingerprint, hostname: node.hostname }
}

fn admitted(number: u8) -> Entry {
    Entry::Admitted { node: names(number), by: AdmittedBy::Operator }
}

fn issued(number: u8) -> Entry {
    Entry::Issued { node: names(number), serial: "7f".to_owned(), not_after: NOW }
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
        Entry::Admitted { node: NodeNames { node_id: names(4).node_id, ..names(3) }, by: AdmittedBy::Journal },
        issued(3),
        issued(2),
        Entry::Issued {
            node: NodeNames { hostname: names(9).hostname, ..names(1) },
            serial: "1".to_owned(),
            not_after: NOW,
        },
        Entry::Issued { node: names(1), serial: "f".repeat(5000), not_after: NOW },
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
    let cases: [(&str, Damage); 9] = [
        ("cut off by a crash", |lines| lines[2].truncate(20)),
        ("line 3 of", |lines| lines[1] = lines[1].replace("\"n1\"", "\"n9\"")),
        ("line 2 of", |lines| drop(lines.remove(1))),
        ("line 2 of", |lines| lines.swap(2, 1)),
        ("line 1 of", |lines| drop(lines.remove(0))),
        ("line 2 of", |lines| lines[1] = "not JSON\n".to_owned()),
        ("line 2 of", |lines| lines[1] = lines[1].replace("\"at\"", "\"by\":\"operator\",\"at\"")),
        ("line 4 of", |lines| lines.push(lines[2].clone())),
        ("is missing", |lines| lines.clear()),
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
        let shown = crate::chain(&Ledger::load(&dir).unwrap_err());
        assert!(shown.contains(want), "{want}: {shown}");
        assert!(["restore", "truncate -s"].iter().any(|cure| shown.contains(cure)), "{shown}");
        assert_eq!(dir.exists(&crate::home::file(NAME)).unwrap(), want != "is missing", "{want}");
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

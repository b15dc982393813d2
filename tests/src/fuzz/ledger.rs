//! The worker's ledger: what is read is a chain, and its lines, added anew, come to the same records.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use lucia_durable::{DirRules, PrivateDir};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use lucia_worker::ledger::{Entry, Ledger, Mark, NodeNames};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) fn run(input: &[u8]) {
    let places = [Place::new(), Place::new()];
    judge(input, &places);
    if let Some(mended) = chained(input) {
        judge(&mended, &places);
    }
}

/// A directory in memory where there is one; gone when dropped.
struct Place(PathBuf, PrivateDir);

impl Place {
    fn new() -> Self {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = nix::unistd::mkdtemp(&parent.join("lucia-fuzz-XXXXXX")).unwrap();
        let dir = PrivateDir::open(&path, DirRules::private()).unwrap();
        Self(path, dir)
    }

    fn put(&self, bytes: &[u8]) {
        self.clear();
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create(true).mode(0o600).open(self.0.join("ledger.jsonl")).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
    }

    fn clear(&self) {
        for name in ["ledger.jsonl", "ledger.head"] {
            // It may not be there.
            let _ = std::fs::remove_file(self.0.join(name));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Left behind at worst: it is below the system's own temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every line with the number and the hash that it must have, as somebody writes it who knows how.
fn chained(input: &[u8]) -> Option<Vec<u8>> {
    let mut head = Digest::ZERO;
    let mut out = Vec::new();
    for (at, line) in std::str::from_utf8(input).ok()?.lines().take(64).enumerate() {
        let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
        line.insert("seq".to_owned(), (at + 1).into());
        line.insert("prev".to_owned(), head.to_string().into());
        let text = serde_json::to_string(&line).unwrap() + "\n";
        head = Digest::of(text.as_bytes());
        out.extend(text.into_bytes());
    }
    Some(out)
}

fn judge(bytes: &[u8], [place, other]: &[Place; 2]) {
    place.put(bytes);
    let Ok(ledger) = Ledger::load(&place.1) else { return };
    // A last line without its end does not count.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<&[u8]> = bytes[..whole].split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(u64::try_from(lines.len()).unwrap(), ledger.records().lines());
    assert_eq!(ledger.head(), Digest::of(lines.last().unwrap()));
    let mut head = Digest::ZERO;
    let mut read = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let value: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(value["seq"], at + 1);
        assert_eq!(value["prev"], head.to_string());
        head = Digest::of(line);
        read.extend(entry(&value));
    }
    assert_eq!(Ledger::load(&place.1).unwrap().records(), ledger.records(), "read twice");

    if read.len() == lines.len() {
        other.clear();
        let Some((_, Entry::Initialised { root })) = read.first() else { panic!("{:?}", read.first()) };
        Ledger::create(&other.1, *root, read[0].0).unwrap();
        let mut again = Ledger::load(&other.1).unwrap();
        let mut transaction = again.begin(&other.1, Ledger::hold(&other.1).unwrap()).unwrap();
        for (at, entry) in &read[1..] {
            transaction.add(*at, entry.clone()).unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(again.records(), ledger.records(), "added anew");
        assert_eq!(Ledger::load(&other.1).unwrap().records(), ledger.records(), "added anew and read");
    }

    // Somebody adds to it: what a crash left is dropped with a word, and everything else stays.
    let mut ledger = ledger;
    ledger.begin(&place.1, Ledger::hold(&place.1).unwrap()).unwrap().commit().unwrap();
    let torn = u64::from(whole < bytes.len());
    assert_eq!(ledger.records().lines(), u64::try_from(lines.len()).unwrap() + torn);
    let now = std::fs::read(place.0.join("ledger.jsonl")).unwrap();
    assert!(now.starts_with(&bytes[..whole]), "a line of the ledger changed");
    assert_eq!(now.last(), Some(&b'\n'));
    assert_eq!(Ledger::load(&place.1).unwrap().records(), ledger.records(), "read after that");
}

/// The entry of a line, by the names of its members. Nothing for a kind that is not known here.
fn entry(line: &Value) -> Option<(UnixTime, Entry)> {
    let node = || {
        Some(NodeNames {
            node_id: member(line, "nodeId")?,
            fingerprint: member(line, "fingerprint")?,
            hostname: member(line, "hostname")?,
        })
    };
    let mark = || {
        Some(Mark {
            generation: member(line, "generation")?,
            last_event_id: member(line, "lastEventId")?,
            chain_head: member(line, "chainHead")?,
        })
    };
    let entry = match line["kind"].as_str()? {
        "initialised" => Entry::Initialised { root: member(line, "root")? },
        "admitted" => Entry::Admitted { node: node()?, by: member(line, "by")? },
        "issued" => Entry::Issued {
            node: node()?,
            serial: member(line, "serial")?,
            not_after: member(line, "notAfter")?,
            address: member(line, "address"),
        },
        "orphaned" => {
            Entry::Orphaned { node: node()?, serial: member(line, "serial")?, not_after: member(line, "notAfter")? }
        }
        "endpointIssued" => {
            Entry::EndpointIssued { serial: member(line, "serial")?, not_after: member(line, "notAfter")? }
        }
        "suspended" => Entry::Suspended { node: node()?, held: member(line, "held")? },
        "resumed" => Entry::Resumed { node: node()? },
        "barred" => Entry::Barred { node: node()?, by: member(line, "by")? },
        "removed" => Entry::Removed { node: node()? },
        "replaced" => Entry::Replaced { node: node()?, successor: member(line, "successor")? },
        "lapseReleased" => Entry::LapseReleased { node: node()?, serial: member(line, "serial")? },
        "journalSeen" => Entry::JournalSeen(mark()?),
        "journalAccepted" => Entry::JournalAccepted(mark()?),
        "auditAnchored" => Entry::AuditAnchored(member(line, "audit")?),
        "auditAccepted" => Entry::AuditAccepted(member(line, "audit")?),
        "tornLineDropped" => Entry::TornLineDropped { bytes: member(line, "bytes")? },
        _ => return None,
    };
    Some((member(line, "at")?, entry))
}

fn member<T: DeserializeOwned>(line: &Value, name: &str) -> Option<T> {
    serde_json::from_value(line.get(name)?.clone()).ok()
}

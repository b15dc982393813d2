use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lucia_proto::test_support::TestNode;

use super::*;
use crate::config::{DirectoryConfig, DirectorySettings};

/// A directory in memory, which can be down, and in which a call can take effect and still fail.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    entries: BTreeMap<NodeId, Vec<String>>,
    down: bool,
    calls: usize,
}

struct Handle(DirectoryConfig, Memory);

impl Handle {
    fn call<T>(&self, act: impl FnOnce(&mut Inside) -> T) -> Result<T, DirectoryError> {
        let mut inside = self.1.0.lock().unwrap();
        inside.calls += 1;
        if inside.down {
            return Err(DirectoryError::Slow { uri: self.0.uri.to_string() });
        }
        Ok(act(&mut inside))
    }
}

impl Directory for Handle {
    fn site(&self) -> Option<&DirectoryConfig> {
        Some(&self.0)
    }

    fn set_reader(&self, node_id: &NodeId, passwords: &[&Stored]) -> Result<(), DirectoryError> {
        let values = passwords.iter().map(|stored| stored.as_str().to_owned()).collect();
        self.call(|inside| inside.entries.insert(node_id.clone(), values)).map(drop)
    }

    fn delete_reader(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        self.call(|inside| inside.entries.remove(node_id)).map(drop)
    }

    fn readers(&self) -> Result<Found, DirectoryError> {
        self.call(|inside| inside.entries.clone())
    }
}

fn readers(uri: &str) -> (Readers, Memory) {
    let memory = Memory::default();
    let settings: DirectorySettings = toml::from_str(&format!("kind = \"ldap\"\nuri = {uri:?}")).unwrap();
    let site = settings.resolve().unwrap().unwrap();
    (Readers::new(Box::new(Handle(site, memory.clone()))), memory)
}

const fn at(secs: u64) -> UnixTime {
    UnixTime::from_secs(1_795_982_400 + secs)
}

fn answer(readers: &mut Readers, node: &TestNode, before: Option<&Reader>, again: bool) -> Reader {
    let who = For { node_id: &node.node_id, key: node.key.public(), csr_sha256: &node.csr_sha256() };
    readers.of(&who, before.cloned(), again, at(0)).unwrap().unwrap()
}

fn open(node: &TestNode, reader: &Reader) -> Vec<u8> {
    reader.access.bind_password.open(&node.key, &node.node_id, &node.csr_sha256()).unwrap().to_vec()
}

// spec: LD-5
#[test]
fn a_password_changes_with_the_certificate_and_the_former_one_stays() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let node = TestNode::new(7);
    let one = answer(&mut readers, &node, None, false);
    assert_eq!(one.record.former, None);
    assert_eq!(one.access.wrong_for(&node.node_id), None);
    assert_eq!(open(&node, &one).len(), 43);
    assert_eq!(answer(&mut readers, &node, Some(&one), true), one, "the same request has the same answer");
    let two = answer(&mut readers, &node, Some(&one), false);
    assert_eq!(two.record.former.as_ref(), Some(&one.record.current));
    assert_ne!(open(&node, &two), open(&node, &one));
    let there = memory.0.lock().unwrap().entries[&node.node_id].clone();
    assert_eq!(there, [two.record.current.as_str(), one.record.current.as_str()]);
    let (mut elsewhere, _) = self::readers("ldaps://other");
    let moved = answer(&mut elsewhere, &node, Some(&two), true);
    assert_eq!(moved.access.uri.as_str(), "ldaps://other");
    assert_ne!(moved.record.current, two.record.current, "another directory learns no password of this one");
}

// spec: LD-6 F-3
#[test]
fn a_crash_at_any_place_leaves_a_password_the_node_has() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let node = TestNode::new(7);
    let held = answer(&mut readers, &node, None, false);
    // The directory has the new password, then the worker dies before its receipt: again and again.
    for _ in 0..5 {
        let lost = answer(&mut readers, &node, Some(&held), false);
        let there = memory.0.lock().unwrap().entries[&node.node_id].clone();
        assert_eq!(there, [lost.record.current.as_str(), held.record.current.as_str()]);
    }
    let kept = answer(&mut readers, &node, Some(&held), false);
    // It died after the receipt: the same answer goes out, and the directory has what it says.
    memory.0.lock().unwrap().entries.clear();
    assert_eq!(answer(&mut readers, &node, Some(&kept), true), kept);
    let there = memory.0.lock().unwrap().entries[&node.node_id].clone();
    assert_eq!(there, [kept.record.current.as_str(), held.record.current.as_str()]);
    assert_eq!(memory.0.lock().unwrap().entries.len(), 1);
}

// spec: LD-7 F-16
#[test]
fn a_directory_that_is_down_is_left_alone_for_a_while() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let node = TestNode::new(7);
    memory.0.lock().unwrap().down = true;
    let csr_sha256 = node.csr_sha256();
    let who = For { node_id: &node.node_id, key: node.key.public(), csr_sha256: &csr_sha256 };
    let mut tries = Vec::new();
    for second in 0..200 {
        let before = memory.0.lock().unwrap().calls;
        let refused = readers.of(&who, None, false, at(second)).unwrap_err();
        if memory.0.lock().unwrap().calls > before {
            tries.push(second);
        } else {
            assert!(matches!(&refused, DirectoryError::Waits { before, .. } if before.contains("ldaps://localhost")));
        }
    }
    assert_eq!(tries, [0, 5, 15, 35, 75, 135, 195]);
    assert!(readers.trouble().is_some());
    memory.0.lock().unwrap().down = false;
    assert!(readers.of(&who, None, false, at(255)).unwrap().is_some());
    assert_eq!(readers.trouble(), None);
    memory.0.lock().unwrap().down = true;
    assert!(readers.of(&who, None, false, at(255)).is_err());
    memory.0.lock().unwrap().down = false;
    assert!(readers.of(&who, None, false, at(100)).unwrap().is_some(), "a clock that was set back waits no longer");
}

// spec: LD-8
#[test]
fn readers_of_barred_nodes_go_and_lost_ones_come_back() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let nodes = [7, 8, 9].map(TestNode::new);
    let [kept, barred, foreign] = nodes.each_ref().map(|node| answer(&mut readers, node, None, false));
    let wanted = || {
        let there = Wanted::There(nodes[0].node_id.clone(), kept.record.clone());
        [there, Wanted::Gone(nodes[1].node_id.clone())].into_iter()
    };
    assert!(readers.is_due(false, at(0)));
    assert_eq!(readers.sweep(wanted(), at(0)).unwrap(), 1);
    assert!(!readers.is_due(false, at(599)) && readers.is_due(false, at(600)) && readers.is_due(true, at(1)));
    assert!(!memory.0.lock().unwrap().entries.contains_key(&nodes[1].node_id));
    // Restored from last week's backup: one reader is missing, one has a former password, the barred one is back.
    for entries in [
        BTreeMap::new(),
        [
            (nodes[0].node_id.clone(), vec![foreign.record.current.as_str().to_owned()]),
            (nodes[1].node_id.clone(), vec![barred.record.current.as_str().to_owned()]),
        ]
        .into(),
    ] {
        memory.0.lock().unwrap().entries = entries;
        readers.sweep(wanted(), at(600)).unwrap();
        assert_eq!(readers.sweep(wanted(), at(601)).unwrap(), 0);
        let there = memory.0.lock().unwrap().entries.clone();
        assert_eq!(there, [(nodes[0].node_id.clone(), vec![kept.record.current.as_str().to_owned()])].into());
    }
    memory.0.lock().unwrap().down = true;
    assert!(readers.sweep(wanted(), at(700)).is_err());
    assert!(readers.is_due(false, at(701)), "a sweep that failed is made up for");
}

#[test]
fn without_a_directory_there_is_nothing_to_say() {
    let mut readers = Readers::new(Box::new(crate::directory::NoDirectory));
    let node = TestNode::new(7);
    let who = For { node_id: &node.node_id, key: node.key.public(), csr_sha256: &node.csr_sha256() };
    assert_eq!(readers.of(&who, None, false, at(0)).unwrap(), None);
    assert!(!readers.is_due(true, at(0)));
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lucia_proto::test_support::TestNode;

use super::*;
use crate::config::{DirectoryConfig, DirectorySettings};
use crate::directory::budget::{ANSWERS, LOOK};
use crate::directory::ldap::WHOLE;

/// A directory in memory, which can be down, slow, or refuse one entry.
#[derive(Clone, Default)]
pub(crate) struct Memory(pub(crate) Arc<Mutex<Inside>>);

#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) entries: BTreeMap<NodeId, Vec<String>>,
    down: bool,
    calls: usize,
    refuses: Option<NodeId>,
    /// What each call takes, and each reader that is looked at.
    pub(crate) takes: (Duration, Duration),
    pub(crate) clock: Duration,
}

struct Handle(DirectoryConfig, Memory);

impl Handle {
    fn call<T>(&self, nodes: &[NodeId], act: impl FnOnce(&mut Inside) -> T) -> Result<T, DirectoryError> {
        let mut inside = self.1.0.lock().unwrap();
        inside.calls += 1;
        let took = inside.takes.0 + inside.takes.1 * u32::try_from(nodes.len()).unwrap();
        inside.clock += took.min(WHOLE);
        if inside.down || took > WHOLE {
            return Err(DirectoryError::Slow { uri: self.0.uri.to_string() });
        }
        match nodes {
            [node_id] if inside.refuses.as_ref() == Some(node_id) => {
                Err(DirectoryError::Refused { what: "change an entry", code: 53, text: "scripted".to_owned() })
            }
            _ => Ok(act(&mut inside)),
        }
    }
}

impl Directory for Handle {
    fn site(&self) -> Option<&DirectoryConfig> {
        Some(&self.0)
    }

    fn set_reader(&self, node_id: &NodeId, passwords: &[&Stored]) -> Result<(), DirectoryError> {
        let values = passwords.iter().map(|stored| stored.as_str().to_owned()).collect();
        self.call(std::slice::from_ref(node_id), |inside| inside.entries.insert(node_id.clone(), values)).map(drop)
    }

    fn delete_reader(&self, node_id: &NodeId) -> Result<(), DirectoryError> {
        self.call(std::slice::from_ref(node_id), |inside| inside.entries.remove(node_id)).map(drop)
    }

    fn readers(&self, nodes: &[NodeId]) -> Result<Found, DirectoryError> {
        let of = |(id, values): (&NodeId, &Vec<String>)| nodes.contains(id).then(|| (id.clone(), values.clone()));
        self.call(nodes, |inside| inside.entries.iter().filter_map(of).collect())
    }
}

pub(crate) fn readers(uri: &str) -> (Readers, Memory) {
    let memory = Memory::default();
    let settings: DirectorySettings = toml::from_str(&format!("kind = \"ldap\"\nuri = {uri:?}")).unwrap();
    let site = settings.resolve().unwrap().unwrap();
    let clock = memory.clone();
    let stopwatch = Box::new(move || clock.0.lock().unwrap().clock);
    (Readers::new(Box::new(Handle(site, memory.clone())), stopwatch), memory)
}

/// What a turn does about its readers: those of these nodes are to be as told.
fn look(readers: &mut Readers, wanted: &[WantedReaders], now: UnixTime) -> Result<usize, DirectoryError> {
    let barred = wanted.iter().filter(|wanted| matches!(wanted, WantedReaders::Gone(_))).count();
    let mut wanted = wanted.to_vec();
    wanted.sort_by_key(WantedReaders::place);
    let after = readers.goes_on_after(barred).cloned();
    readers.turn();
    readers.sweep(wanted.into_iter().filter(|w| after.as_ref().is_none_or(|after| w.place() > *after)), barred, now)
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
    let there = WantedReaders::There(nodes[0].node_id.clone(), kept.record.clone());
    let wanted = [there, WantedReaders::Gone(nodes[1].node_id.clone())];
    assert!(readers.is_due(1, at(0)));
    assert_eq!(look(&mut readers, &wanted, at(0)).unwrap(), 1);
    assert!(!readers.is_due(1, at(599)) && readers.is_due(1, at(600)));
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
        look(&mut readers, &wanted, at(600)).unwrap();
        assert_eq!(look(&mut readers, &wanted, at(601)).unwrap(), 0);
        let there = memory.0.lock().unwrap().entries.clone();
        assert_eq!(there, [(nodes[0].node_id.clone(), vec![kept.record.current.as_str().to_owned()])].into());
    }
    memory.0.lock().unwrap().down = true;
    assert!(look(&mut readers, &wanted, at(700)).is_err());
    assert!(readers.is_due(1, at(701)), "a look that failed is made up for");
}

// spec: LD-25
#[test]
fn readers_are_looked_at_when_somebody_was_barred_and_those_come_first() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let nodes: Vec<TestNode> = (1..=40).map(TestNode::new).collect();
    let records: Vec<Reader> = nodes.iter().map(|node| answer(&mut readers, node, None, false)).collect();
    let is_there = |number: usize| WantedReaders::There(nodes[number].node_id.clone(), records[number].record.clone());
    let mut wanted: Vec<WantedReaders> = (0..40).map(is_there).collect();
    assert_eq!(look(&mut readers, &wanted, at(0)).unwrap(), 0);
    assert!(!readers.is_due(0, at(1)));
    // `admit --replaces` or `confirm-removals` beside the worker: it barred two since.
    for number in [5, 39] {
        wanted[number] = WantedReaders::Gone(nodes[number].node_id.clone());
    }
    assert!(readers.is_due(2, at(1)));
    // In a slow directory, and while a look is under way that has most behind it.
    memory.0.lock().unwrap().takes = (Duration::from_secs(3), Duration::ZERO);
    look(&mut readers, &wanted, at(2)).unwrap();
    let gone = |number: usize| !memory.0.lock().unwrap().entries.contains_key(&nodes[number].node_id);
    assert!(
        (gone(5) || gone(39)) && readers.is_due(2, at(3)),
        "one is deleted in the first turn, and the look goes on"
    );
    look(&mut readers, &wanted, at(3)).unwrap();
    assert!(gone(5) && gone(39));
    wanted[7] = WantedReaders::Gone(nodes[7].node_id.clone());
    look(&mut readers, &wanted, at(4)).unwrap();
    assert!(gone(7), "it does not wait for the end of the look");
}

// spec: LD-26
#[test]
fn a_slow_directory_gets_its_time_of_a_turn_and_the_rest_is_done_in_the_next_ones() {
    let bound = LOOK + 2 * WHOLE;
    let both = |call, each| (Duration::from_millis(call), Duration::from_millis(each));
    let record = answer(&mut readers("ldaps://localhost").0, &TestNode::new(1), None, false).record;
    let nodes: Vec<NodeId> = (0..60).map(|number| format!("{number:032x}").parse().unwrap()).collect();
    let there = |node_id: &NodeId| WantedReaders::There(node_id.clone(), record.clone());
    let wanted: Vec<WantedReaders> = nodes.iter().map(there).collect();
    for (takes, late) in [(both(3, 0), false), (both(600, 0), false), (both(3000, 0), true), (both(0, 900), true)] {
        let (mut readers, memory) = readers("ldaps://localhost");
        memory.0.lock().unwrap().takes = takes;
        let (mut turns, mut told, mut now) = (0, false, at(0));
        while readers.is_due(0, now) {
            let before = memory.0.lock().unwrap().clock;
            let outcome = look(&mut readers, &wanted, now);
            let took = memory.0.lock().unwrap().clock - before;
            assert!(took <= bound, "{takes:?}: a turn of {took:?}");
            told |= readers.late().is_some();
            // Each turn brings the look on, or fails once and asks about fewer.
            assert!(outcome.is_err() || readers.look.is_none() || readers.look.as_ref().unwrap().after.is_some());
            (turns, now) = (turns + 1, now.plus(Duration::from_secs(61)));
            assert!(turns < 400, "{takes:?}: it never comes to its end");
        }
        let there: BTreeSet<NodeId> = memory.0.lock().unwrap().entries.keys().cloned().collect();
        assert_eq!(there, nodes.iter().cloned().collect(), "{takes:?}");
        assert_eq!(told, late, "{takes:?}");
    }
}

// spec: LD-26
#[test]
fn an_entry_that_the_directory_refuses_holds_up_no_other() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let mut nodes: Vec<TestNode> = (1..=40).map(TestNode::new).collect();
    nodes.sort_by(|a, b| a.node_id.cmp(&b.node_id));
    let records: Vec<Reader> = nodes.iter().map(|node| answer(&mut readers, node, None, false)).collect();
    let there =
        |(node, reader): (&TestNode, &Reader)| WantedReaders::There(node.node_id.clone(), reader.record.clone());
    let wanted: Vec<WantedReaders> = nodes.iter().zip(&records).map(there).collect();
    memory.0.lock().unwrap().entries.clear();
    memory.0.lock().unwrap().refuses = Some(nodes[3].node_id.clone());
    assert!(matches!(look(&mut readers, &wanted, at(0)), Err(DirectoryError::Refused { .. })));
    assert!(readers.trouble().is_some());
    assert_eq!(look(&mut readers, &wanted, at(5)).unwrap(), 36);
    assert_eq!(memory.0.lock().unwrap().entries.len(), 39);
    // It is tried again a minute later, and not in each turn.
    assert!(!readers.is_due(0, at(6)) && readers.is_due(0, at(65)));
    memory.0.lock().unwrap().refuses = None;
    assert_eq!(look(&mut readers, &wanted, at(65)).unwrap(), 1);
    assert!(!readers.is_due(0, at(664)) && readers.is_due(0, at(665)));
}

// spec: LD-26
#[test]
fn who_is_answered_and_who_is_looked_at_have_a_share_each() {
    let (mut readers, memory) = readers("ldaps://localhost");
    let nodes: Vec<TestNode> = (1..=9).map(TestNode::new).collect();
    memory.0.lock().unwrap().takes = (Duration::from_millis(1500), Duration::ZERO);
    let mut left = nodes.as_slice();
    let mut looked = Vec::new();
    while let Some((first, rest)) = left.split_first() {
        readers.turn();
        let before = memory.0.lock().unwrap().clock;
        let mut done = 0;
        for node in std::iter::once(first).chain(rest) {
            let who = For { node_id: &node.node_id, key: node.key.public(), csr_sha256: &node.csr_sha256() };
            match readers.of(&who, None, false, at(0)) {
                Ok(reader) => looked.push(WantedReaders::There(node.node_id.clone(), reader.unwrap().record)),
                Err(DirectoryError::NextTurn) => break,
                Err(error) => panic!("{error}"),
            }
            done += 1;
        }
        assert_eq!(done, 3, "as many as begin within four seconds");
        assert_eq!(readers.sweep(looked.clone(), 0, at(0)).unwrap(), 0);
        assert!(readers.look.is_none(), "the look came to its end beside them");
        assert!(memory.0.lock().unwrap().clock - before <= ANSWERS + LOOK + 2 * WHOLE);
        left = left.split_at(done).1;
    }
}

#[test]
fn without_a_directory_there_is_nothing_to_say() {
    let mut readers = Readers::new(Box::new(crate::directory::NoDirectory), Box::new(|| Duration::ZERO));
    let node = TestNode::new(7);
    let who = For { node_id: &node.node_id, key: node.key.public(), csr_sha256: &node.csr_sha256() };
    assert_eq!(readers.of(&who, None, false, at(0)).unwrap(), None);
    assert!(!readers.is_due(1, at(0)) && readers.may(at(0)).is_ok());
}

//! Owners at the worker: the roster through every crash, what is published, and how late it is.

use lucia_durable::crash_point::{crash_at, record};
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, ORDER_LIFETIME_MAX, OWNER_KEYS_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::Answer;
use lucia_proto::orders::freshness::Freshness;
use lucia_proto::orders::owner::{KeyUse, OwnerKey, OwnerName, Role};
use lucia_proto::orders::roster::{Roster, SignedRoster, VerifiedRoster};
use lucia_proto::orders::{OrderKind, Rule};
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestNode, TestOwner, key};

use super::{NOW, Story};
use crate::applications::applications;
use crate::fixture::secs;
use crate::home::Identity;
use crate::ledger::{By, Entry, Ledger, Records};
use crate::roster::RosterFileError;
use crate::turn::{TurnError, Worker};
use crate::{chain, owners, roster};

pub(super) fn alice() -> TestOwner {
    TestOwner::new("alice", 41)
}

pub(super) fn bob() -> TestOwner {
    TestOwner::new("bob", 43)
}

impl Story {
    pub(super) fn identity(&self) -> Identity {
        self.home().identity(&self.config()).unwrap()
    }

    /// What `owner approve` does, once it was decided.
    pub(super) fn enter(&self, who: &TestOwner, role: Role) -> Result<VerifiedRoster, Box<dyn std::error::Error>> {
        let (home, identity) = (self.home(), self.identity());
        let mut ledger = Ledger::load(&home.dir)?;
        let transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir)?)?;
        let former = roster::current(&home.dir, &identity, &transaction)?;
        let mut entry = who.entry(role);
        entry.keys.truncate(1);
        let key = who.key.public().fingerprint();
        Ok(owners::enter(&home, &identity, transaction, former.as_ref(), (entry, key), NOW)?)
    }

    /// What `owner remove` does.
    pub(super) fn leave(&self, name: &str) -> Result<VerifiedRoster, Box<dyn std::error::Error>> {
        let (home, identity) = (self.home(), self.identity());
        let mut ledger = Ledger::load(&home.dir)?;
        let transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir)?)?;
        let former = roster::current(&home.dir, &identity, &transaction)?.unwrap();
        let name: OwnerName = name.parse().unwrap();
        let who = former.roster().owners.iter().find(|owner| owner.name == name).unwrap().clone();
        Ok(owners::leave(&home, &identity, transaction, (&former, &who), NOW)?)
    }

    /// What `owner approve --for` does with this key, or `owner remove --key`.
    fn other_key(&self, name: &str, key: &NodeKey, more: bool) -> Result<VerifiedRoster, Box<dyn std::error::Error>> {
        let (home, identity) = (self.home(), self.identity());
        let mut ledger = Ledger::load(&home.dir)?;
        let transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir)?)?;
        let former = roster::current(&home.dir, &identity, &transaction)?.unwrap();
        let who = former.roster().owners.iter().find(|owner| owner.name.as_str() == name).unwrap().clone();
        let fingerprint = key.public().fingerprint();
        let key = OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem: key.public().to_pem(), credential_id: None };
        Ok(if more {
            owners::add_key(&home, &identity, transaction, (&former, &who), (key, fingerprint), NOW)?
        } else {
            owners::drop_key(&home, &identity, transaction, (&former, &who), (&key, fingerprint), NOW)?
        })
    }

    /// What `roster policy set` does.
    fn changed(&self, change: impl FnOnce(&mut Roster)) -> Result<VerifiedRoster, Box<dyn std::error::Error>> {
        let (home, identity) = (self.home(), self.identity());
        let mut ledger = Ledger::load(&home.dir)?;
        let transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir)?)?;
        let former = roster::current(&home.dir, &identity, &transaction)?.unwrap();
        Ok(owners::ask(&home, &identity, transaction, (&former, change), NOW)?)
    }

    /// A fleet whose owner is alice.
    pub(super) fn owned(more: &'static str) -> Self {
        let story = Self::new(more);
        story.enter(&alice(), Role::Owner).unwrap();
        story
    }

    pub(super) fn ledger(&self) -> Records {
        Ledger::load(&self.home().dir).unwrap().records().clone()
    }

    pub(super) fn published(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.queue_file("owner-responses").join(name)).ok()
    }
}

// spec: OA-6
#[test]
fn what_nodes_trust_is_published_and_each_new_answer_has_the_roster() {
    let mut story = Story::journal();
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    story.turn(NOW);
    let bundle = std::fs::read(story.worker_file("bundle.json")).unwrap();
    assert_eq!(story.published("bundle.json").unwrap(), bundle);
    assert_eq!(story.published("roster.json"), None);
    let roster_of = |story: &Story, number: u8| {
        let signed = story.controller.answer(&TestNode::new(number).node_id).unwrap().answer.unwrap();
        let answer: Answer = json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap();
        answer.roster
    };
    assert_eq!(roster_of(&story, 1), None);
    let roster = story.enter(&alice(), Role::Owner).unwrap();
    let second = TestNode::new(2);
    story.controller.approve(&second);
    story.controller.ask(&second);
    story.turn(NOW);
    story.accept(&second, NOW);
    let published = story.published("roster.json").unwrap();
    assert_eq!(published, std::fs::read(story.worker_file("roster.json")).unwrap());
    let published: SignedRoster = json::from_slice(&published, SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap();
    assert_eq!(roster_of(&story, 2).as_ref(), Some(&published));
    assert_eq!(published, *roster.signed());
    assert_eq!(roster_of(&story, 1), None, "what was answered stays");
    // The same CSR once more, after the roster changed: the same leaf, with the roster of now.
    story.enter(&bob(), Role::Viewer).unwrap();
    story.controller.put_request(&crate::fixture::request(&second, NOW.plus(secs(700))));
    assert_eq!(story.turn(NOW).reused, 1);
    let now: SignedRoster =
        json::from_slice(&story.published("roster.json").unwrap(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap();
    assert_eq!(roster_of(&story, 2), Some(now));
    // Another file in its place is put right.
    std::fs::write(story.queue_file("owner-responses/roster.json"), b"{}").unwrap();
    story.turn(NOW);
    assert_eq!(story.published("roster.json").unwrap(), std::fs::read(story.worker_file("roster.json")).unwrap());
}

// spec: OA-5 OA-43 OA-44
#[test]
fn a_crash_at_each_step_of_a_change_leaves_one_roster_that_the_next_turn_publishes() {
    type Change = fn(&Story) -> Result<VerifiedRoster, Box<dyn std::error::Error>>;
    let first: Change = |story| story.enter(&alice(), Role::Owner);
    let second: Change = |story| story.enter(&bob(), Role::Owner);
    let last: Change = |story| story.leave("alice");
    let empty = Story::new("");
    let one = Story::owned("");
    let more: Change = |story| story.other_key("alice", &bob().key, true);
    let less: Change = |story| story.other_key("alice", &bob().key, false);
    let policy: Change =
        |story| story.changed(|roster| roster.policy = roster.policy.clone().with(OrderKind::Admit, Rule::TwoOwners));
    let two = one.again();
    more(&two).unwrap();
    for (name, prepared, change, after) in [
        ("first", &empty, first, 1),
        ("second", &one, second, 2),
        ("leave", &one, last, 2),
        ("a further key", &one, more, 2),
        ("a key less", &two, less, 3),
        ("policy", &one, policy, 2),
    ] {
        let story = prepared.again();
        let plan = record(story.scratch.path());
        change(&story).unwrap();
        let steps = plan.steps();
        drop(plan);
        assert!(steps.len() > 10, "{steps:?}");
        let mut seen = std::collections::BTreeSet::new();
        for (nth, step) in steps.iter().enumerate() {
            let story = prepared.again();
            let plan = crash_at(story.scratch.path(), nth);
            change(&story).err().unwrap();
            drop(plan);
            story.turn(NOW);
            let version = story.ledger().roster().map_or(0, |mark| mark.version);
            seen.insert(version);
            let file: Option<SignedRoster> = std::fs::read(story.worker_file("roster.json"))
                .ok()
                .map(|bytes| json::from_slice(&bytes, SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap());
            let identity = story.identity();
            let held = file.map(|file| file.verify(&identity.bundle, &identity.root.sha256()).unwrap());
            assert_eq!(
                held.as_ref().map(VerifiedRoster::mark),
                story.ledger().roster().copied(),
                "{name} {nth} {step}"
            );
            assert_eq!(story.published("roster.json").is_some(), version > 0, "{name} {nth} {step}");
            assert!(!story.worker_file("roster.next.json").exists(), "{name} {nth} {step}");
            // Whoever was cut off does it again, or finds it done.
            if version < after {
                assert_eq!(change(&story).unwrap().version(), after, "{name} {nth} {step}");
            }
        }
        assert_eq!(seen, [after - 1, after].into(), "{name}");
    }
}

// spec: OA-4
#[test]
fn a_roster_that_is_not_the_ledgers_stops_the_worker_with_advice() {
    type Damage = fn(&Story);
    let cases: [(&str, Damage); 8] = [
        ("Older", |s| {
            let old = std::fs::read(s.worker_file("roster.json")).unwrap();
            s.enter(&bob(), Role::Owner).unwrap();
            std::fs::write(s.worker_file("roster.json"), old).unwrap();
        }),
        ("Lost", |s| std::fs::remove_file(s.worker_file("roster.json")).unwrap()),
        ("Damaged", |s| std::fs::write(s.worker_file("roster.json"), "{}").unwrap()),
        ("Damaged", |s| std::fs::write(s.worker_file("roster.json"), "").unwrap()),
        ("Edited", |s| {
            let (identity, path) = (s.identity(), s.worker_file("roster.json"));
            let signed: SignedRoster =
                json::from_slice(&std::fs::read(&path).unwrap(), SIGNED_PAYLOAD_MAX, 24).unwrap();
            let mut roster = signed.verify(&identity.bundle, &identity.root.sha256()).unwrap().roster().clone();
            roster.owners[0].role = Role::Viewer;
            let edited = roster::sign(&roster, &identity).unwrap();
            std::fs::write(path, roster::bytes(&edited).unwrap()).unwrap();
        }),
        ("Edited", |s| {
            // Unsigned, and with a version that does not count.
            let (path, forged) = (s.worker_file("roster.json"), SignedRoster::from_parts(b"{}".to_vec(), vec![1]));
            std::fs::write(path, json::to_string(&forged).unwrap()).unwrap();
        }),
        ("Newer", |s| {
            let before = [("ledger.jsonl"), ("ledger.head")].map(|name| std::fs::read(s.worker_file(name)).unwrap());
            s.enter(&bob(), Role::Owner).unwrap();
            for (name, bytes) in ["ledger.jsonl", "ledger.head"].into_iter().zip(before) {
                std::fs::write(s.worker_file(name), bytes).unwrap();
            }
        }),
        ("Read", |s| {
            let path = s.worker_file("roster.json");
            std::fs::rename(&path, path.with_extension("real")).unwrap();
            std::os::unix::fs::symlink("roster.real", &path).unwrap();
        }),
    ];
    for (want, damage) in cases {
        let story = Story::owned("");
        let mut running = story.worker();
        running.turn(NOW).unwrap();
        damage(&story);
        let stopped = running.turn(NOW.plus(secs(5))).unwrap_err();
        drop(running);
        for stopped in [stopped, Worker::open(story.config()).err().expect(want)] {
            let text = chain(&stopped);
            assert!(text.contains("roster.json"), "{want}: {text}");
            let TurnError::Roster(why) = stopped else { unreachable!("{stopped:?}") };
            assert!(format!("{why:?}").starts_with(want), "{want}: {why:?}");
        }
    }
    // One that was never approved.
    let (story, other) = (Story::new(""), Story::owned(""));
    std::fs::copy(other.worker_file("roster.json"), story.worker_file("roster.json")).unwrap();
    let stopped = Worker::open(story.config()).err().unwrap();
    assert!(matches!(stopped, TurnError::Roster(RosterFileError::Newer { version: 0, .. })), "{stopped:?}");
    // The copy that the page gets is the cure.
    let story = Story::owned("");
    story.turn(NOW);
    std::fs::remove_file(story.worker_file("roster.json")).unwrap();
    Worker::open(story.config()).err().unwrap();
    std::fs::write(story.worker_file("roster.json"), story.published("roster.json").unwrap()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(story.worker_file("roster.json"), mode).unwrap();
    story.turn(NOW);
}

// spec: OA-7
#[test]
fn nodes_of_the_ledger_are_told_how_late_it_is_and_nobody_else() {
    let mut story = Story::owned("admission = \"journal\"");
    for number in 1..=3 {
        story.controller.approve(&TestNode::new(number));
        story.controller.ask(&TestNode::new(number));
    }
    story.turn(NOW);
    let [mine, barred, suspended, stranger] = [1, 2, 3, 4].map(TestNode::new);
    let names = |node: &TestNode| story.ledger().node(&node.node_id).unwrap().names.clone();
    let entries = [
        Entry::Barred { node: names(&barred), by: By::Operator },
        Entry::Suspended { node: names(&suspended), held: true },
    ];
    let home = story.home();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
    entries.into_iter().for_each(|entry| transaction.add(NOW, entry).unwrap());
    transaction.commit().unwrap();
    // The node's own question, checked as the node checks it.
    let identity = story.identity();
    let (mut knows, boot) = (Freshness::default(), secs(100));
    let asked = knows.ask(&mine.node_id, &[7; 32], boot).unwrap();
    story.controller.question(&mine.node_id, 7);
    for node in [&barred, &suspended, &stranger] {
        story.controller.question(&node.node_id, 8);
    }
    story.turn(NOW);
    let answer = story.controller.freshness(&mine.node_id).unwrap();
    assert_eq!(answer.nonce, asked.nonce);
    knows.take(&answer.answer, &identity.bundle, &identity.root.sha256(), &mine.node_id).unwrap();
    let time = knows.time(boot).unwrap();
    assert_eq!((time.now(), time.bundle_version(), time.roster_version()), (NOW, 1, 1));
    assert!(story.controller.freshness(&suspended.node_id).is_some());
    assert_eq!(story.controller.freshness(&stranger.node_id), None);
    // The same question has one answer, the next one its own, and one that nobody asks for any more goes.
    story.turn(NOW.plus(secs(60)));
    assert_eq!(story.controller.freshness(&mine.node_id).unwrap(), answer);
    story.controller.question(&mine.node_id, 9);
    story.enter(&bob(), Role::Viewer).unwrap();
    story.turn(NOW.plus(secs(120)));
    assert_ne!(story.controller.freshness(&mine.node_id).unwrap(), answer);
    std::fs::remove_file(story.queue_file(&format!("owner-requests/freshness-{}.json", mine.node_id))).unwrap();
    story.turn(NOW.plus(secs(180)));
    assert_eq!(story.controller.freshness(&mine.node_id), None);
    assert!(story.controller.freshness(&suspended.node_id).is_some() && story.published("roster.json").is_some());
    // One that is called after another node is none.
    let other = story.controller.question(&stranger.node_id, 3);
    story.controller.put(&format!("nodes/owner-requests/freshness-{}.json", mine.node_id), &other.to_bytes().unwrap());
    story.turn(NOW.plus(secs(240)));
    assert_eq!(story.controller.freshness(&mine.node_id), None);
    // One that was off when it was barred hears it, for as long as the order that did it may live.
    let told = |random: u8, at: UnixTime| {
        let asked = story.controller.question(&barred.node_id, random);
        story.turn(at);
        story.controller.freshness(&barred.node_id).is_some_and(|answer| answer.nonce == asked.nonce)
    };
    let end = NOW.plus(ORDER_LIFETIME_MAX);
    let heard = [(8, NOW), (10, end), (11, end.plus(secs(1)))].map(|(random, at)| told(random, at));
    assert_eq!(heard, [true, true, false]);
}

// spec: OA-7
#[test]
fn a_full_queue_of_questions_starves_nobody() {
    let mut story = Story::owned("admission = \"journal\"");
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    story.turn(NOW);
    for number in 0..700_u32 {
        story.controller.put(&format!("nodes/owner-requests/freshness-{number:032x}.json"), b"{}");
    }
    story.controller.question(&node.node_id, 7);
    let mut worker = story.worker();
    (0..6).for_each(|_| drop(worker.turn(NOW).unwrap()));
    assert!(story.controller.freshness(&node.node_id).is_some());
}

// spec: OA-16
#[test]
fn a_controller_without_owners_is_said_once_and_holds_up_nothing() {
    let mut story = Story::journal();
    for dir in ["owner-requests", "owner-responses"] {
        std::fs::remove_dir_all(story.queue_file(dir)).unwrap();
    }
    let node = TestNode::new(1);
    story.controller.approve(&node);
    story.controller.ask(&node);
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.ready, summary.problems.len()), (1, true, 0), "{summary:?}");
    story.accept(&node, NOW);
    // Where one user runs both, the worker makes its own.
    assert_eq!(story.published("bundle.json").unwrap(), std::fs::read(story.worker_file("bundle.json")).unwrap());
    // One that somebody else made is told of, and nothing else waits for it.
    std::fs::remove_dir_all(story.queue_file("owner-responses")).unwrap();
    std::fs::write(story.queue_file("owner-responses"), b"").unwrap();
    let second = TestNode::new(2);
    story.controller.approve(&second);
    story.controller.ask(&second);
    let summary = story.turn(NOW);
    assert_eq!((summary.issued, summary.ready, summary.problems.len()), (1, true, 1), "{summary:?}");
    assert!(summary.problems[0].contains("owner-responses"), "{summary:?}");
}

// spec: OA-15
#[test]
fn a_full_queue_of_applications_is_looked_at_in_part_and_says_so() {
    let story = Story::new("");
    story.controller.apply(&alice());
    let found = applications(&story.config(), &story.controller.fleet(), NOW);
    assert_eq!((found.open.len(), found.problems.len()), (1, 0), "{found:?}");
    assert_eq!((&found.open[0].owner, found.open[0].name.as_str()), (&alice().id, "alice"));
    for number in 0..300_u32 {
        story.controller.put(&format!("nodes/owner-requests/application-{number:032x}.json"), b"{}");
    }
    let found = applications(&story.config(), &story.controller.fleet(), NOW);
    assert_eq!(found.problems.len(), 257, "{}", found.problems.len());
    assert!(found.problems[0].starts_with("45 more applications"), "{}", found.problems[0]);
}

// spec: OA-18
#[test]
fn where_somebody_is_an_owner_a_removal_in_the_journal_bars_nobody() {
    let mut story = Story::owned("admission = \"journal\"");
    for number in 1..=4 {
        story.controller.approve(&TestNode::new(number));
        story.controller.ask(&TestNode::new(number));
    }
    story.turn(NOW);
    let nodes = [1, 2, 3].map(TestNode::new);
    let state = |story: &Story| {
        let records = story.ledger();
        nodes.each_ref().map(|node| {
            let record = records.node(&node.node_id).unwrap();
            (record.suspended.is_some(), record.barred_at.is_some())
        })
    };
    // The second one's line of long ago said that it goes by itself; then somebody became an owner.
    let names = story.ledger().node(&nodes[1].node_id).unwrap().names.clone();
    let home = story.home();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let mut transaction = ledger.begin(&home.dir, Ledger::hold(&home.dir).unwrap()).unwrap();
    transaction.add(NOW, Entry::Suspended { node: names, held: false }).unwrap();
    transaction.commit().unwrap();
    nodes.iter().take(2).for_each(|node| story.controller.remove(&node.node_id));
    let summary = story.turn(NOW);
    assert_eq!((summary.suspended, summary.removed, summary.ready), (1, 0, true), "{summary:?}");
    assert_eq!(state(&story), [(true, false), (true, false), (false, false)]);
    // An owner's order bars one that waits, and one whose removal comes after it.
    let order =
        |node: &TestNode, nonce| story.controller.order(&story.by_alice(node, &super::orders::remove(node), nonce));
    for (node, nonce) in [(&nodes[0], 1), (&nodes[2], 2)] {
        order(node, nonce);
    }
    story.controller.remove(&nodes[2].node_id);
    let summary = story.turn(NOW.plus(secs(60)));
    assert_eq!((summary.ordered, summary.suspended, summary.removed), (2, 0, 0), "{summary:?}");
    assert_eq!(state(&story), [(true, true), (true, false), (false, true)]);
    // Who waits does so when nobody is an owner any more; what is removed then goes by itself again.
    let four = TestNode::new(4);
    story.controller.remove(&four.node_id);
    assert_eq!(story.turn(NOW.plus(secs(70))).suspended, 1);
    story.leave("alice").unwrap();
    story.turn(NOW.plus(secs(80)));
    assert!(story.ledger().node(&four.node_id).unwrap().barred_at.is_none());
}

/// Twelve people with a few keys each fill a roster: whoever approves the next one hears what makes room.
// spec: OA-80
#[test]
fn a_roster_that_would_be_too_long_for_nodes_is_refused_with_what_makes_room() {
    let story = Story::owned("");
    let mut numbers = 60_u8..;
    let mut grow = || {
        for name in ["bob", "carol", "dave", "erin", "frank", "grace", "heidi"] {
            story.enter(&TestOwner::new(name, numbers.next().unwrap()), Role::Owner)?;
            for _ in 1..OWNER_KEYS_MAX {
                story.other_key(name, &key(numbers.next().unwrap()), true)?;
            }
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let refused = grow().unwrap_err().downcast::<owners::OwnersError>().unwrap();
    assert!(matches!(*refused, owners::OwnersError::Roster(RosterFileError::TooLong { .. })), "{refused:?}");
    assert!(chain(&refused).contains("--key FINGERPRINT"), "{refused}");
    let before = *story.ledger().roster().unwrap();
    story.leave("bob").unwrap();
    story.enter(&TestOwner::new("ivan", 250), Role::Owner).unwrap();
    assert_eq!(story.ledger().roster().unwrap().version, before.version + 2, "there is room again");
}

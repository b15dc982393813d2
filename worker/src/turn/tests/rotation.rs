//! A worker whose key was changed, and the roster that the former key signed.

use lucia_durable::crash_point::{crash_at, record};
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::{SignedRoster, VerifiedRoster};
use lucia_proto::pki::bundle::SignedBundle;
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::key;

use super::owners::bob;
use super::{NOW, Story};
use crate::retire::RetireError;
use crate::roster::RosterFileError;
use crate::turn::{TurnError, Worker};
use crate::{chain, roster};

impl Story {
    /// The worker gets another key, which alone the next bundle names.
    fn rotate(&self, random: u8) {
        let root_key = NodeKey::from_pem(&std::fs::read_to_string(self.worker_file("ca/root.key")).unwrap()).unwrap();
        let mut bundle = self.identity().bundle.bundle().clone();
        bundle.version += 1;
        bundle.workers = vec![key(random).public().to_pem()];
        let signed = SignedBundle::sign(&bundle, &root_key).unwrap();
        std::fs::write(self.worker_file("worker.key"), key(random).to_pem().unwrap().as_bytes()).unwrap();
        std::fs::write(self.worker_file("bundle.json"), json::to_string(&signed).unwrap()).unwrap();
    }

    /// The roster's file, as nodes check it.
    fn held(&self) -> Option<VerifiedRoster> {
        let bytes = std::fs::read(self.worker_file("roster.json")).unwrap();
        let signed: SignedRoster = json::from_slice(&bytes, SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).unwrap();
        let identity = self.identity();
        signed.verify(&identity.bundle, &identity.root.sha256()).ok()
    }
}

// spec: OA-19
#[test]
fn another_worker_key_signs_the_roster_that_is_there_anew_through_every_crash() {
    let prepared = Story::owned("");
    let mark = prepared.ledger().roster().copied();
    // Also one whose change was cut off between its line and its place.
    let cut = prepared.again();
    let first = std::fs::read(cut.worker_file("roster.json")).unwrap();
    cut.enter(&bob(), Role::Owner).unwrap();
    std::fs::copy(cut.worker_file("roster.json"), cut.worker_file("roster.next.json")).unwrap();
    std::fs::write(cut.worker_file("roster.json"), first).unwrap();
    for (name, prepared, mark) in [("whole", &prepared, mark), ("cut", &cut, cut.ledger().roster().copied())] {
        prepared.rotate(98);
        assert!(prepared.held().is_none(), "{name}");
        let looked = roster::look(&prepared.home().dir, &prepared.identity()).unwrap();
        assert_eq!(looked.as_ref().map(VerifiedRoster::mark), mark, "{name}");
        let story = prepared.again();
        let plan = record(story.scratch.path());
        story.turn(NOW);
        let steps = plan.steps();
        drop(plan);
        for (nth, step) in steps.iter().enumerate() {
            let story = prepared.again();
            let plan = crash_at(story.scratch.path(), nth);
            let crashed = Worker::open(story.config()).and_then(|mut worker| worker.turn(NOW));
            crashed.unwrap_err();
            drop(plan);
            story.turn(NOW);
            assert_eq!(story.held().as_ref().map(VerifiedRoster::mark), mark, "{name} {nth} {step}");
            let own = std::fs::read(story.worker_file("roster.json")).unwrap();
            assert_eq!(story.published("roster.json"), Some(own), "{name} {nth} {step}");
            assert!(!story.worker_file("roster.next.json").exists(), "{name} {nth} {step}");
        }
    }
    // Whatever the ledger does not name is signed by nobody.
    let story = prepared.again();
    let payload = prepared.enter(&bob(), Role::Owner).unwrap().signed().parts().payload().to_vec();
    let forged = SignedRoster::from_parts(payload, vec![1]);
    std::fs::write(story.worker_file("roster.json"), json::to_string(&forged).unwrap()).unwrap();
    let stopped = Worker::open(story.config()).err().unwrap();
    assert!(matches!(stopped, TurnError::Roster(RosterFileError::Edited { .. })), "{stopped:?}");
}

impl Story {
    /// `retire-key`, with the root's key.
    fn retire(&self, root_key: &str) -> Result<u64, RetireError> {
        crate::retire::retire(&self.home(), &self.identity(), root_key, NOW)
    }
}

/// threats.md W: the key that signs was stolen. Dead at any step, either the former key signs on or the new one does, the
/// next try ends it, and the roster stays the one that the ledger names.
// spec: OA-91
#[test]
fn a_retired_key_signs_nothing_more_through_every_crash_and_the_roster_is_signed_anew() {
    let prepared = Story::owned("");
    let mark = prepared.ledger().roster().copied();
    let former = prepared.identity().worker_key.public().to_pem();
    let root_key = std::fs::read_to_string(prepared.worker_file("ca/root.key")).unwrap();
    let version = |story: &Story| story.identity().bundle.bundle().version;
    assert!(matches!(prepared.retire(&former), Err(RetireError::RootKey)));
    let other = key(97).to_pem().unwrap();
    assert!(matches!(prepared.retire(&other), Err(RetireError::OtherRoot)));
    let running = prepared.worker();
    let refused = prepared.retire(&root_key).unwrap_err();
    assert!(matches!(refused, RetireError::Runs(_)) && chain(&refused).contains("systemctl stop"), "{refused:?}");
    drop(running);
    assert_eq!(version(&prepared), 1, "nothing was changed");
    for nth in 0.. {
        let story = prepared.again();
        let plan = crash_at(&story.scratch.path().join("worker"), nth);
        let first = story.retire(&root_key);
        let crashed = plan.crashed().is_some();
        drop(plan);
        // Whatever is on the disk fits together, and the worker goes on with it.
        let between = version(&story);
        assert_eq!(story.identity().worker_key.public().to_pem() == former, between == 1, "{nth}");
        story.turn(NOW);
        assert_eq!(story.held().as_ref().map(VerifiedRoster::mark), mark, "{nth}");
        // The key in force lies beside the former one: the next try may die as well, and loses neither.
        let present = story.identity().worker_key.to_pem().unwrap();
        if std::fs::read_to_string(story.worker_file("worker.key")).unwrap() != *present {
            for again in 0.. {
                let story = story.again();
                let plan = crash_at(&story.scratch.path().join("worker"), again);
                let _ = story.retire(&root_key);
                let crashed = plan.crashed().is_some();
                drop(plan);
                assert!(version(&story) >= between, "{nth} {again}: keys and bundle fit together");
                if !crashed {
                    break;
                }
            }
        }
        if crashed {
            assert_eq!(story.retire(&root_key).unwrap(), between + 1, "{nth}");
            story.turn(NOW);
        }
        let identity = story.identity();
        assert_eq!(identity.bundle.workers().len(), 1, "{nth}");
        assert_ne!(identity.worker_key.public().to_pem(), former, "{nth}");
        assert_eq!(story.held().as_ref().map(VerifiedRoster::mark), mark, "{nth}");
        let own = std::fs::read(story.worker_file("roster.json")).unwrap();
        assert_eq!(story.published("roster.json"), Some(own), "{nth}");
        assert!(!story.worker_file("worker.next.key").exists(), "{nth}");
        if !crashed {
            assert_eq!(first.unwrap(), 2);
            assert!(nth > 10, "only {nth} steps were tried");
            break;
        }
    }
}

//! A worker whose key was changed, and the roster that the former key signed.

use lucia_durable::crash_point::{crash_at, record};
use lucia_proto::bundle::SignedBundle;
use lucia_proto::json;
use lucia_proto::key::NodeKey;
use lucia_proto::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::owner::Role;
use lucia_proto::roster::{SignedRoster, VerifiedRoster};
use lucia_proto::test_support::key;

use super::owners::bob;
use super::{NOW, Story};
use crate::turn::Worker;
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
    let stopped = chain(&Worker::open(story.config()).err().unwrap());
    assert!(stopped.contains("it was edited"), "{stopped}");
}

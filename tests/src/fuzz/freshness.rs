//! A worker's word how late it is, and the question it answers.

use std::time::Duration;

use lucia_proto::base::limits::{ANSWER_MAX, FRESHNESS_MAX};
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::freshness::{Freshness, FreshnessError, FreshnessRequest, SignedFreshness};
use serde_json::Value;

use super::intent::WORLD;
use super::twice;

/// When the node asked, since its boot.
const ASKED: Duration = Duration::from_secs(10);
/// What it drew.
const RANDOM: [u8; 32] = [5; 32];

/// The bytes are the payload, or the whole with its signature, or the question.
pub(super) fn run(input: &[u8]) {
    if let Ok(asked) = FreshnessRequest::from_bytes(input) {
        assert_eq!(twice::<FreshnessRequest>(input, usize::MAX), Some(asked));
    }
    if let Some(signed) = twice::<SignedFreshness>(input, ANSWER_MAX) {
        judge(&signed);
        judge(&by_worker(signed.parts().payload()));
    }
    judge(&by_worker(input));
}

fn by_worker(payload: &[u8]) -> SignedFreshness {
    let signature = WORLD.ca.worker_key.sign_der(&[b"lucia-freshness-v1\n", payload].concat());
    SignedFreshness::from_parts(payload.to_vec(), signature)
}

fn judge(signed: &SignedFreshness) {
    let node = &WORLD.node.node_id;
    let take = |fresh: &mut Freshness| fresh.take(signed, &WORLD.bundle, &WORLD.fleet, node);
    let mut fresh = Freshness::default();
    assert!(take(&mut fresh).is_err(), "nobody asked");
    let _ = fresh.ask(node, &RANDOM, ASKED);
    if take(&mut fresh).is_err() {
        assert_eq!(fresh.time(ASKED), None, "refused, and believed");
        return;
    }
    let value: Value = serde_json::from_slice(signed.parts().payload()).unwrap();
    for (field, want) in [
        ("fleet", WORLD.fleet.to_string()),
        ("nodeId", node.to_string()),
        ("nonce", Nonce::from_bytes(&RANDOM).to_string()),
    ] {
        assert_eq!(value[field].as_str(), Some(want.as_str()), "{field}");
    }
    let time = fresh.time(ASKED).unwrap();
    assert_eq!(value["time"].as_str(), Some(time.now().to_string().as_str()));
    assert_eq!(value["bundleVersion"].as_u64(), Some(time.bundle_version()));
    assert_eq!(value["rosterVersion"].as_u64(), Some(time.roster_version()));
    // It ages from the question on, is over after a day, and is none before it was asked for.
    let later = fresh.time(ASKED + Duration::from_secs(3600)).unwrap();
    assert_eq!(later.now(), time.now().plus(Duration::from_secs(3600)));
    assert_eq!(fresh.time(ASKED + FRESHNESS_MAX), None);
    assert_eq!(fresh.time(Duration::ZERO), None);
    assert!(matches!(take(&mut fresh), Err(FreshnessError::NotAsked)), "taken twice");
}

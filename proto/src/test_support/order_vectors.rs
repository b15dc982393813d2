//! The golden bytes of roster, orders, freshness and owners' requests: `tests/vectors/owners-v1`, never edited.
//!
//! Each is read as the program does that receives it and, as all keys are fixed and signing is deterministic, made again
//! byte for byte. When a message grows a member, a new folder joins this one and only reading stays tested here.

use super::orders::OrderWorld;
use super::{TestOwner, key};
use crate::base::bounded::Version;
use crate::base::digest::Digest;
use crate::base::json;
use crate::base::limits::{ANSWER_MAX, JSON_DEPTH_MAX};
use crate::base::time::UnixTime;
use crate::node::challenge::{Challenge, ChallengeId, Nonce};
use crate::orders::application::Application;
use crate::orders::freshness::{Freshness, FreshnessAnswer, FreshnessRequest, SignedFreshness};
use crate::orders::owner_proof::{Arrived, Method, OwnerProof, OwnerRequest};
use crate::orders::roster::SignedRoster;
use crate::orders::{Draft, OrderKind, OrderMemory, SignedOrder};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

macro_rules! vector {
    ($name:literal) => {
        include_str!(concat!("../../../tests/vectors/owners-v1/", $name))
    };
}

/// The world of the vectors: SSH keys may be signed on the page.
fn world() -> OrderWorld {
    let mut world = OrderWorld::new(NOW);
    world.change_roster(|roster| roster.page_kinds = vec![OrderKind::SshKey].into());
    world
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    json::from_str(text, ANSWER_MAX, JSON_DEPTH_MAX).unwrap()
}

// spec: RO-6
#[test]
fn a_roster() {
    let world = world();
    let text = vector!("roster.json");
    let signed: SignedRoster = read(text);
    assert_eq!(json::to_string(&signed).unwrap(), text);
    assert_eq!(signed.parts().payload(), vector!("roster-payload.json").as_bytes());
    assert_eq!(signed, *world.roster.signed());
    assert_eq!(signed.verify(&world.bundle, &world.fleet).unwrap(), world.roster);
}

/// A kind's vector, by its word, in the folder that it came with.
#[expect(clippy::disallowed_methods, reason = "a test, and the kinds name the files")]
fn vector_of(kind: OrderKind, end: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let name = format!("{}{end}", kind.as_str());
    let folders = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let mut owners = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("owners-"));
    let text = owners.find_map(|entry| std::fs::read_to_string(entry.path().join(&name)).ok());
    text.unwrap_or_else(|| panic!("tests/vectors/owners-*/{name} is not there"))
}

// spec: IN-26
#[test]
fn an_order_of_each_kind_and_its_words() {
    let world = world();
    for kind in OrderKind::ALL {
        let (text, words) = (vector_of(*kind, ".json"), vector_of(*kind, "-words.txt"));
        let order = SignedOrder::from_bytes(text.as_bytes()).unwrap();
        assert_eq!(order.to_bytes().unwrap(), text.as_bytes(), "{kind:?}");
        assert_eq!(order, world.order(*kind), "{kind:?}");
        order.check(&world.checker(*kind)).unwrap();
        let draft = Draft { intent_json: order.intent_json, body: order.body };
        assert_eq!(draft.read().unwrap().words().join("\n") + "\n", words, "{kind:?}");
    }
}

// spec: IN-26
#[test]
fn an_order_of_two_owners_one_of_them_by_a_passkey() {
    let world = world();
    let text = vector!("ssh-key-two-owners.json");
    let order = SignedOrder::from_bytes(text.as_bytes()).unwrap();
    assert_eq!(order.to_bytes().unwrap(), text.as_bytes());
    assert_eq!(order, two_owners(&world));
    assert_eq!(order.check(&world.checker(OrderKind::SshKey)).unwrap().signers().len(), 2);
}

fn two_owners(world: &OrderWorld) -> SignedOrder {
    let draft = world.draft(OrderKind::SshKey, |_| ());
    world.signed(&draft, vec![world.alice.touch(&draft, &OrderWorld::origin()), world.bob.sign(&draft)])
}

// spec: IN-26
#[test]
fn what_was_ordered_before() {
    let text = vector!("memory.json");
    let memory = OrderMemory::from_bytes(text.as_bytes()).unwrap();
    assert_eq!(memory.to_bytes().unwrap(), text.as_bytes());
    assert_eq!(memory, remembered(&world()));
}

fn remembered(world: &OrderWorld) -> OrderMemory {
    let mut memory = world.memory.clone();
    for kind in [OrderKind::RemoveIdentity, OrderKind::SshKey] {
        let verified = world.order(kind).check(&world.checker(kind)).unwrap();
        assert_eq!(memory.remember(verified).unwrap().intent().kind, kind);
    }
    memory
}

fn asked(world: &OrderWorld) -> (FreshnessRequest, SignedFreshness) {
    let node_id = world.node.node_id.clone();
    let nonce = Nonce::from_bytes(&[5; 32]);
    let answer = FreshnessAnswer {
        fleet: world.fleet,
        node_id: node_id.clone(),
        nonce: nonce.clone(),
        bundle_version: 3,
        roster_version: 6,
        time: NOW,
    };
    let signed = SignedFreshness::sign(&answer, &world.ca.worker_key).unwrap();
    (FreshnessRequest { schema_version: Version, node_id, nonce }, signed)
}

// spec: FR-6
#[test]
fn a_question_how_late_it_is_and_its_answer() {
    let world = world();
    let (question, answer) = (vector!("freshness-request.json"), vector!("freshness.json"));
    let request = FreshnessRequest::from_bytes(question.as_bytes()).unwrap();
    assert_eq!(request.to_bytes().unwrap(), question.as_bytes());
    let signed: SignedFreshness = read(answer);
    assert_eq!(json::to_string(&signed).unwrap(), answer);
    assert_eq!((request.clone(), signed.clone()), asked(&world));
    let mut fresh = Freshness::default();
    let up = std::time::Duration::from_secs(10);
    assert_eq!(fresh.ask(&world.node.node_id, &[5; 32], up), Some(request));
    fresh.take(&signed, &world.bundle, &world.fleet, &world.node.node_id).unwrap();
    assert_eq!(fresh.time(up).map(|time| time.now()), Some(NOW));
}

fn challenge() -> Challenge {
    Challenge { challenge_id: ChallengeId::from_parts(1, 2), nonce: Nonce::from_bytes(&[5; 32]), expires_at: NOW }
}

fn proof(world: &OrderWorld, owner: &TestOwner) -> OwnerProof {
    let request = OwnerRequest {
        fleet: world.fleet,
        owner: owner.id.clone(),
        method: Method::Post,
        target: "/api/host/onboarding/window".parse().unwrap(),
        body_sha256: Digest::of(br#"{"minutes":30}"#),
    };
    OwnerProof::sign(&request, &challenge(), &owner.key).unwrap()
}

// spec: OW-10
#[test]
fn a_request_of_an_owner_and_of_somebody_who_wants_to_be_one() {
    let world = world();
    let header = vector!("owner-proof-header.txt");
    let read_proof = OwnerProof::from_header(header.as_bytes()).unwrap();
    assert_eq!(read_proof.to_header(), header);
    assert_eq!(read_proof, proof(&world, &world.alice));
    let target = "/api/host/onboarding/window";
    let arrived = Arrived { fleet: &world.fleet, method: Method::Post, target, body: br#"{"minutes":30}"# };
    read_proof.verify(&challenge().nonce, &world.roster, key(90).public(), &arrived).unwrap();
    // The form before the fleet and the time were signed: no program released ever made one, and none takes it.
    let former = json::from_str::<Application>(vector!("application.json"), ANSWER_MAX, JSON_DEPTH_MAX);
    assert!(former.is_err());
    let text = include_str!("../../../tests/vectors/owners-v2/application.json");
    let application: Application = read(text);
    assert_eq!(json::to_string(&application).unwrap(), text);
    let signed = Application::sign("mallory".parse().unwrap(), world.fleet, NOW, &world.mallory.key);
    assert_eq!(application, signed);
    assert!(application.verify().is_ok());
    assert_eq!(application.is_for(&world.fleet, NOW), Ok(()));
}

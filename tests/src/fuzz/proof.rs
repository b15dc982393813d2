//! The header in which a request carries its owner's proof: signed by an owner, whatever it says.

use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::OWNER_REQUEST_MAX;
use lucia_proto::node::challenge::{ChallengeId, Nonce};
use lucia_proto::orders::owner_proof::{Arrived, Method, OwnerProof, OwnerRequest};
use lucia_proto::test_support::key;
use serde_json::Value;

use super::intent::WORLD;
use super::twice;

/// What arrived with it.
const TARGET: &str = "/api/host/onboarding/window";
const BODY: &[u8] = br#"{"minutes":30}"#;

fn id() -> ChallengeId {
    ChallengeId::from_parts(1, 2)
}

fn nonce() -> Nonce {
    Nonce::from_bytes(&[5; 32])
}

/// The bytes are the header, or the request that was signed.
pub(super) fn run(input: &[u8]) {
    if let Ok(proof) = OwnerProof::from_header(input) {
        assert_eq!(OwnerProof::from_header(proof.to_header().as_bytes()).unwrap(), proof);
        judge(&proof);
        judge(&by_alice(&proof.request_json));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if twice::<OwnerRequest>(input, OWNER_REQUEST_MAX).is_some() {
        judge(&by_alice(text));
    }
}

/// As alice signs whatever she asks for.
fn by_alice(request_json: &str) -> OwnerProof {
    let text = ["lucia-owner-v1", id().as_str(), nonce().as_str(), request_json].join("\n");
    OwnerProof {
        challenge_id: id(),
        key: WORLD.alice.key.public().fingerprint(),
        request_json: request_json.to_owned(),
        signature: WORLD.alice.key.sign(text.as_bytes()).to_text(),
    }
}

fn judge(proof: &OwnerProof) {
    let dummy = key(90);
    let check = |target: &str, body: &[u8], method, nonce: &Nonce| {
        let arrived = Arrived { fleet: &WORLD.fleet, method, target, body };
        proof.verify(nonce, &WORLD.roster, dummy.public(), &arrived).map(|verified| verified.owner().id.clone())
    };
    let Ok(owner) = check(TARGET, BODY, Method::Post, &nonce()) else { return };
    let value: Value = serde_json::from_str(&proof.request_json).unwrap();
    for (field, want) in [
        ("fleet", WORLD.fleet.to_string()),
        ("owner", owner.to_string()),
        ("method", "POST".to_owned()),
        ("target", TARGET.to_owned()),
        ("bodySha256", Digest::of(BODY).to_string()),
    ] {
        assert_eq!(value[field].as_str(), Some(want.as_str()), "{field}");
    }
    let (known, _) = WORLD.roster.caller(&proof.key).unwrap();
    assert_eq!(known.id, owner);
    // For this request and over this challenge, and for no other.
    let other = Nonce::from_bytes(&[6; 32]);
    assert!(check("/api/host/nodes", BODY, Method::Post, &nonce()).is_err());
    assert!(check(TARGET, b"{}", Method::Post, &nonce()).is_err());
    assert!(check(TARGET, BODY, Method::Delete, &nonce()).is_err());
    assert!(check(TARGET, BODY, Method::Post, &other).is_err());
}

use super::*;
use crate::base::time::UnixTime;
use crate::node::report::{Proof, Purpose, Question};
use crate::orders::owner::{KeyUse, OwnerId, OwnerKey};
use crate::test_support::{OrderWorld, TestOwner, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const BODY: &[u8] = br#"{"minutes":30}"#;
const TARGET: &str = "/api/host/onboarding/window?x=1";

fn challenge(byte: u8) -> Challenge {
    Challenge {
        challenge_id: ChallengeId::from_parts(1, u128::from(byte)),
        nonce: Nonce::from_bytes(&[byte; 32]),
        expires_at: NOW,
    }
}

fn request(world: &OrderWorld, owner: &TestOwner) -> OwnerRequest {
    OwnerRequest {
        fleet: world.fleet,
        owner: owner.id.clone(),
        method: Method::Post,
        target: TARGET.parse().unwrap(),
        body_sha256: Digest::of(BODY),
    }
}

fn arrived(world: &OrderWorld) -> Arrived<'_> {
    Arrived { fleet: &world.fleet, method: Method::Post, target: TARGET, body: BODY }
}

fn verify(world: &OrderWorld, proof: &OwnerProof, arrived: &Arrived<'_>) -> Result<VerifiedRequest, OwnerProofError> {
    proof.verify(&challenge(1).nonce, &world.roster, key(90).public(), arrived)
}

fn signed(world: &OrderWorld, owner: &TestOwner) -> OwnerProof {
    OwnerProof::sign(&request(world, owner), &challenge(1), &owner.key).unwrap()
}

// spec: OW-5
#[test]
fn a_proof_is_for_one_request_of_one_owner_over_one_challenge() {
    let world = OrderWorld::new(NOW);
    let proof = signed(&world, &world.alice);
    let proof = OwnerProof::from_header(proof.to_header().as_bytes()).unwrap();
    let good = arrived(&world);
    let verified = verify(&world, &proof, &good).unwrap();
    assert_eq!(verified.owner().name.as_str(), "alice");
    assert_eq!(*verified, request(&world, &world.alice));
    let foreign = Digest::of(b"another root");
    for (field, arrived) in [
        ("fleet", Arrived { fleet: &foreign, ..good }),
        ("method", Arrived { method: Method::Delete, ..good }),
        ("method", Arrived { method: Method::Get, ..good }),
        ("target", Arrived { target: "/api/host/onboarding/window", ..good }),
        ("target", Arrived { target: "/api/host/onboarding/window?x=2", ..good }),
        ("target", Arrived { target: "/api/host/onboarding/window?x=1&x=1", ..good }),
        ("target", Arrived { target: "/API/host/onboarding/window?x=1", ..good }),
        ("bodySha256", Arrived { body: br#"{"minutes":60}"#, ..good }),
        ("bodySha256", Arrived { body: b"", ..good }),
    ] {
        match verify(&world, &proof, &arrived) {
            Err(OwnerProofError::Field { field: found }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let refused = proof.verify(&challenge(2).nonce, &world.roster, key(90).public(), &good);
    assert!(matches!(refused, Err(OwnerProofError::Signature(_))));
    let mut moved = proof.clone();
    moved.challenge_id = challenge(2).challenge_id;
    assert!(matches!(verify(&world, &moved, &good), Err(OwnerProofError::Signature(_))));
    // Bob signs what says that it is alice's.
    let theirs = OwnerProof::sign(&request(&world, &world.alice), &challenge(1), &world.bob.key).unwrap();
    match verify(&world, &theirs, &good) {
        Err(OwnerProofError::Field { field }) => assert_eq!(field, "owner"),
        other => panic!("{other:?}"),
    }
}

/// The key says who it is; the id that the key would come with by itself is no other person's.
// spec: OW-40
#[test]
fn a_further_key_speaks_for_its_owner_under_either_id_and_under_no_other() {
    let mut world = OrderWorld::new(NOW);
    let further = key(77);
    let entry = OwnerKey { key_use: KeyUse::OwnerKey, public_key_pem: further.public().to_pem(), credential_id: None };
    world.change_roster(|roster| roster.owners[0].keys.push(entry));
    let own = OwnerId::of(&further.public().fingerprint());
    let good = arrived(&world);
    for (owner, is_good) in [(world.alice.id.clone(), true), (own, true), (world.bob.id.clone(), false)] {
        let request = OwnerRequest { owner, ..request(&world, &world.alice) };
        let proof = OwnerProof::sign(&request, &challenge(1), &further).unwrap();
        match verify(&world, &proof, &good) {
            Ok(verified) => assert_eq!((&verified.owner().id, is_good), (&world.alice.id, true)),
            Err(error) => assert!(!is_good && matches!(error, OwnerProofError::Field { field: "owner" }), "{error:?}"),
        }
    }
}

// spec: OW-6
#[test]
fn whoever_is_not_believed_is_told_one_and_the_same() {
    let world = OrderWorld::new(NOW);
    let good = arrived(&world);
    let passkey = OwnerProof::sign(&request(&world, &world.alice), &challenge(1), &world.alice.passkey).unwrap();
    let stranger = signed(&world, &world.mallory);
    let mut forged = signed(&world, &world.alice);
    forged.signature = signed(&world, &world.bob).signature;
    let mut no_signature = signed(&world, &world.alice);
    no_signature.signature.clear();
    // Whoever holds the dummy's key is nobody all the same.
    let dummy = OwnerProof::sign(&request(&world, &world.alice), &challenge(1), &key(90)).unwrap();
    let raw = |text: &str| {
        let text_signed = signed_text(&challenge(1).challenge_id, &challenge(1).nonce, text);
        OwnerProof {
            challenge_id: challenge(1).challenge_id,
            key: world.alice.key.public().fingerprint(),
            request_json: text.to_owned(),
            signature: world.alice.key.sign(&text_signed).to_text(),
        }
    };
    let json = json::to_string(&request(&world, &world.alice)).unwrap();
    assert!(verify(&world, &raw(&json), &good).is_ok());
    for (name, proof) in [
        ("a passkey", passkey),
        ("a stranger", stranger),
        ("another owner's signature", forged),
        ("no signature", no_signature),
        ("the dummy", dummy),
        ("a member more", raw(&json.replacen('{', "{\"x\":1,", 1))),
        ("a method that is none", raw(&json.replacen("POST", "PATCH", 1))),
        ("a path that is none", raw(&json.replacen("\"/api", "\"api", 1))),
        ("an array", raw("[]")),
        ("too long", raw(&format!("{json}{}", " ".repeat(OWNER_REQUEST_MAX)))),
        ("another order of members", {
            let mut proof = signed(&world, &world.alice);
            proof.request_json = json.replacen("{\"fleet\"", "{ \"fleet\"", 1);
            proof
        }),
    ] {
        let refused = verify(&world, &proof, &good).expect_err(name);
        assert_eq!(refused.code(), Code::ActorRequired, "{name}: {refused}");
    }
    let mut world = world;
    world.change_roster(|roster| roster.owners.retain(|owner| owner.name.as_str() != "alice"));
    let proof = signed(&world, &world.alice);
    assert_eq!(verify(&world, &proof, &arrived(&world)).unwrap_err().code(), Code::ActorRequired);
}

// spec: OW-7
#[test]
fn no_signature_for_anything_else_is_one_for_a_request_and_no_request_is_anything_else() {
    let world = OrderWorld::new(NOW);
    let good = arrived(&world);
    let json = json::to_string(&request(&world, &world.alice)).unwrap();
    for head in ["lucia-discovery-v1", "lucia-intent-v1", "lucia-owner-v2", ""] {
        let at = challenge(1);
        let text = [head, at.challenge_id.as_str(), at.nonce.as_str(), &json].join("\n");
        let mut proof = signed(&world, &world.alice);
        proof.signature = world.alice.key.sign(text.as_bytes()).to_text();
        let refused = verify(&world, &proof, &good);
        assert!(matches!(refused, Err(OwnerProofError::Signature(KeyError::Mismatch))), "{head}");
    }
    // An owner whose key is a node's as well, by mistake: neither signature is worth anything at the other's place.
    let node_id = world.alice.key.public().fingerprint().node_id();
    let report = Question { node_id: node_id.clone(), purpose: Purpose::DeviceState };
    let node = Proof::sign(&report, &challenge(1), &world.alice.key).unwrap();
    let mut proof = signed(&world, &world.alice);
    (proof.request_json, proof.signature) = (node.report_json.clone(), node.signature.clone());
    assert!(matches!(verify(&world, &proof, &good), Err(OwnerProofError::Signature(_))));
    let mut node = node;
    (node.report_json, node.signature) = (json, signed(&world, &world.alice).signature);
    let refused =
        node.verify::<Question>(&challenge(1).nonce, world.alice.key.public(), &node_id, Purpose::DeviceState);
    assert!(refused.is_err());
}

// spec: OW-8
#[test]
fn a_viewer_may_look_and_an_owner_may_all() {
    let world = OrderWorld::new(NOW);
    for (owner, viewer_s, owner_s) in [(&world.alice, Ok(()), Ok(())), (&world.victor, Ok(()), Err(Code::RoleRequired))]
    {
        let verified = verify(&world, &signed(&world, owner), &arrived(&world)).unwrap();
        assert_eq!((verified.may(Role::Viewer), verified.may(Role::Owner)), (viewer_s, owner_s), "{}", owner.name);
    }
    assert_eq!(world.roster.key(&world.alice.id, &world.alice.key.public().fingerprint(), KeyUse::OrderPasskey), None);
}

// spec: OW-9
#[test]
fn a_header_is_bounded_and_strict() {
    let world = OrderWorld::new(NOW);
    let header = signed(&world, &world.alice).to_header();
    let text = String::from_utf8(STANDARD.decode(&header).unwrap()).unwrap();
    for (name, value) in [
        ("empty", String::new()),
        ("no base64", "!!".to_owned()),
        ("an empty object", STANDARD.encode("{}")),
        ("a member more", STANDARD.encode(text.replacen('{', "{\"x\":1,", 1))),
        ("url alphabet", format!("-{}", &header[1..])),
        ("too long", STANDARD.encode(format!("{text:7000}"))),
    ] {
        let refused = OwnerProof::from_header(value.as_bytes()).expect_err(name);
        assert_eq!(refused.code(), Code::InvalidRequest, "{name}");
    }
    for (target, ok) in [
        ("/", true),
        ("/api/host/nodes?after=1", true),
        ("", false),
        ("api", false),
        ("/a b", false),
        ("/a\nb", false),
        ("/ä", false),
        (&format!("/{}", "a".repeat(REQUEST_TARGET_MAX)), false),
    ] {
        assert_eq!(target.parse::<Target>().is_ok(), ok, "{target:?}");
    }
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(Method::of_word(method).map(Method::as_str), Some(method));
    }
    assert_eq!(Method::of_word("get"), None);
}

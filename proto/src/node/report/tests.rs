use zeroize::Zeroizing;

use super::*;
use crate::base::time::UnixTime;
use crate::node::challenge::Challenge;

fn key(byte: u8) -> NodeKey {
    NodeKey::from_random(&Zeroizing::new([byte; 32])).unwrap()
}

fn challenge(byte: u8) -> Challenge {
    Challenge {
        challenge_id: ChallengeId::from_parts(1, u128::from(byte)),
        nonce: Nonce::from_bytes(&[byte; 32]),
        expires_at: UnixTime::from_secs(120),
    }
}

fn question(key: &NodeKey, purpose: Purpose) -> Question {
    Question { node_id: key.public().fingerprint().node_id(), purpose }
}

fn signed_raw(report_json: &str, key: &NodeKey) -> Proof {
    let at = challenge(1);
    let text = signed_text(&at.challenge_id, &at.nonce, report_json);
    Proof { challenge_id: at.challenge_id, report_json: report_json.to_owned(), signature: key.sign(&text).to_text() }
}

fn verify(proof: &Proof, key: &NodeKey) -> Result<Verified<Question>, ProofError> {
    let node = key.public().fingerprint().node_id();
    proof.verify(&challenge(1).nonce, key.public(), &node, Purpose::DeviceState)
}

// spec: PR-4
#[test]
fn a_good_proof_becomes_a_verified_report() {
    let key = key(7);
    let report = question(&key, Purpose::DeviceState);
    let proof = Proof::sign(&report, &challenge(1), &key).unwrap();
    let verified = verify(&proof, &key).unwrap();
    assert_eq!(*verified, report);
    assert_eq!(verified.key(), key.public());
    assert_eq!(verified.into_report(), report);
}

// spec: PR-5
#[test]
fn s_8_a_proof_is_for_one_challenge_key_node_and_purpose() {
    let (mine, other) = (key(7), key(8));
    let proof = Proof::sign(&question(&mine, Purpose::DeviceState), &challenge(1), &mine).unwrap();
    let node = mine.public().fingerprint().node_id();
    let check = |proof: &Proof, nonce: &Nonce, key: &NodeKey, node: &NodeId, purpose: Purpose| {
        proof.verify::<Question>(nonce, key.public(), node, purpose).map(|_| ())
    };
    let good = challenge(1).nonce;
    assert!(check(&proof, &good, &mine, &node, Purpose::DeviceState).is_ok());
    let refused = |result: Result<(), ProofError>| result.unwrap_err();
    assert!(matches!(
        refused(check(&proof, &challenge(2).nonce, &mine, &node, Purpose::DeviceState)),
        ProofError::Signature(KeyError::Mismatch)
    ));
    assert!(matches!(
        refused(check(&proof, &good, &other, &node, Purpose::DeviceState)),
        ProofError::Signature(KeyError::Mismatch)
    ));
    assert!(matches!(
        refused(check(&proof, &good, &mine, &other.public().fingerprint().node_id(), Purpose::DeviceState)),
        ProofError::Node { .. }
    ));
    assert!(matches!(refused(check(&proof, &good, &mine, &node, Purpose::Installation)), ProofError::Purpose { .. }));
    // The report says `heartbeat`, the call says `heartbeat`, but a question is no heartbeat.
    let wrong = Proof::sign(&question(&mine, Purpose::Heartbeat), &challenge(1), &mine).unwrap();
    assert!(matches!(refused(check(&wrong, &good, &mine, &node, Purpose::Heartbeat)), ProofError::Purpose { .. }));
    let mut moved = proof.clone();
    moved.challenge_id = challenge(2).challenge_id;
    assert!(matches!(
        refused(check(&moved, &good, &mine, &node, Purpose::DeviceState)),
        ProofError::Signature(KeyError::Mismatch)
    ));
}

// spec: PR-6
#[test]
fn j_8_other_bytes_of_the_same_value_are_another_report() {
    let key = key(7);
    let id = key.public().fingerprint().node_id();
    let plain = format!("{{\"nodeId\":\"{id}\",\"purpose\":\"device-state\"}}");
    let spaced = format!("{{ \"purpose\":\"device-state\", \"nodeId\":\"{id}\"}}");
    assert!(verify(&signed_raw(&plain, &key), &key).is_ok());
    assert!(verify(&signed_raw(&spaced, &key), &key).is_ok());
    let mut swapped = signed_raw(&plain, &key);
    swapped.report_json = spaced;
    assert!(matches!(verify(&swapped, &key), Err(ProofError::Signature(KeyError::Mismatch))));
}

// spec: PR-4
#[test]
fn nothing_of_a_report_is_read_before_its_signature_verified() {
    let (signer, other) = (key(7), key(8));
    for report in ["[]", "{\"nodeId\":1}", "{}"] {
        let refused = verify(&signed_raw(report, &signer), &other);
        assert!(matches!(refused, Err(ProofError::Signature(KeyError::Mismatch))), "{report}: {refused:?}");
    }
}

// spec: PR-12
#[test]
fn a_signed_report_is_still_read_strictly_and_within_its_size() {
    let key = key(7);
    let id = key.public().fingerprint().node_id();
    for (name, report) in [
        ("unknown member", format!("{{\"nodeId\":\"{id}\",\"purpose\":\"device-state\",\"x\":1}}")),
        ("repeated member", format!("{{\"nodeId\":\"{id}\",\"nodeId\":\"{id}\",\"purpose\":\"device-state\"}}")),
        ("missing purpose", format!("{{\"nodeId\":\"{id}\"}}")),
        ("unknown purpose", format!("{{\"nodeId\":\"{id}\",\"purpose\":\"everything\"}}")),
        ("array", format!("[\"{id}\",\"device-state\"]")),
    ] {
        assert!(matches!(verify(&signed_raw(&report, &key), &key), Err(ProofError::Report(_))), "{name}");
    }
    assert_eq!((REPORT_MAX, DISCOVER_REPORT_MAX), (32 * 1024, 128 * 1024));
    let at_limit = |len: usize| {
        let head = format!("{{\"nodeId\":\"{id}\",\"purpose\":\"device-state\"}}");
        format!("{head}{}", " ".repeat(len - head.len()))
    };
    assert!(verify(&signed_raw(&at_limit(REPORT_MAX), &key), &key).is_ok());
    assert!(matches!(verify(&signed_raw(&at_limit(REPORT_MAX + 1), &key), &key), Err(ProofError::Size { .. })));
    assert!(matches!(verify(&signed_raw("{", &key), &key), Err(ProofError::Size { size: 1, .. })));
}

// spec: PR-7
#[test]
fn a_body_proof_covers_one_text() {
    let key = key(7);
    let node_id = key.public().fingerprint().node_id();
    let proof = BodyProof { node_id, purpose: Purpose::Heartbeat, body_sha256: Digest::of(b"body") };
    assert!(proof.covers("body"));
    assert!(!proof.covers("bodY"));
    assert!(!proof.covers(""));
}

#[test]
fn a_header_carries_the_same_proof() {
    let key = key(7);
    let proof = Proof::sign(&question(&key, Purpose::DeviceState), &challenge(1), &key).unwrap();
    let header = HeaderProof { certificate_pem: None, proof };
    assert_eq!(HeaderProof::from_header(header.to_header().as_bytes()).unwrap(), header);
    for bad in ["", "!!", "e30=", &"A".repeat(PROOF_HEADER_MAX + 4)] {
        assert!(HeaderProof::from_header(bad.as_bytes()).is_err());
    }
    // White space around the object is its sender's to spend: at the limit it is taken, beyond it not.
    let text = serde_json::to_string(&header).unwrap();
    for (size, taken) in [(PROOF_HEADER_MAX / 4 * 3, true), (PROOF_HEADER_MAX / 4 * 3 + 1, false)] {
        let value = STANDARD.encode(format!("{text:size$}"));
        assert_eq!(HeaderProof::from_header(value.as_bytes()).is_ok(), taken, "{} characters", value.len());
    }
}

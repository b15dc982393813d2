//! Group S: challenges and signatures.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use lucia_proto::base::code::Code;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::{Challenge, ChallengeId};
use lucia_proto::node::report::Proof;
use lucia_proto::test_support::key;

use super::{Reply, Stack, open_window};

/// The order of P-256.
const N: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7,
    0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// S-2: what is no signature, and what is one of nothing.
fn signatures(good: &str) -> Vec<(&'static str, String)> {
    let bytes = STANDARD.decode(good).unwrap();
    let (r, s) = bytes.split_at(32);
    let of = |bytes: &[u8]| STANDARD.encode(bytes);
    let der = [&[0x30, 0x44, 2, 0x20], r, &[2, 0x20], s].concat();
    vec![
        ("empty", String::new()),
        ("r = s = 0", of(&[0; 64])),
        ("r = 0", of(&[&[0; 32], s].concat())),
        ("s = 0", of(&[r, &[0; 32]].concat())),
        ("r = n", of(&[&N, s].concat())),
        ("s = n", of(&[r, &N].concat())),
        ("r and s exchanged", of(&[s, r].concat())),
        ("63 bytes", of(&bytes[..63])),
        ("65 bytes", of(&[&bytes, &[0][..]].concat())),
        ("DER", of(&der)),
        ("without its end", good.trim_end_matches('=').to_owned()),
        ("with a line end", format!("{good}\n")),
        ("of the other alphabet", URL_SAFE.encode([0xff; 64])),
        ("with spaces", good.replacen('A', " ", 1) + " "),
    ]
}

/// Refused as somebody whom nobody knows, or as something that is no proof.
fn no_identity(reply: &Reply) -> bool {
    matches!(reply.code(), Some(Code::NodeIdentityInvalid | Code::InvalidBody | Code::ChallengeRefused))
}

// spec: TS-62
#[tokio::test]
async fn group_s_is_refused_and_changes_nothing() {
    let Some(mut stack) = Stack::up("stack-proofs").await else { return };
    let (certificate, beat) = (stack.certificate(), stack.beat.clone());
    let id = stack.id().clone();
    let mut stranger = stack.stranger().await;

    // S-4: of before the restart, of another node, of another address, of another use, made up.
    let mut challenges = vec![("of before the restart", stranger.challenge(&id).await)];
    stack.restart().await;
    open_window(&stack.site);
    let before = stack.files();
    let other = stack.nodes[1].id.clone();
    challenges.push(("of another node", stranger.challenge(&other).await));
    let elsewhere = stack.target.from_source(IpAddr::from([127, 0, 0, 9]));
    let mut moved = super::Stranger { sender: elsewhere.connect().await.unwrap(), target: elsewhere };
    challenges.push(("of another address", moved.challenge(&id).await));
    let boot = stranger.get(Endpoint::BootChallenge.path(), None).await;
    challenges.push(("of first contact", serde_json::from_slice(&boot.body).unwrap()));
    let mut forged = stranger.challenge(&id).await;
    forged.challenge_id = ChallengeId::from_parts(forged.challenge_id.parts().0, 7);
    challenges.push(("made up", forged));
    let mut later = stranger.challenge(&id).await;
    let (millis, rest) = later.challenge_id.parts();
    later.challenge_id = ChallengeId::from_parts(millis + 60_000, rest);
    challenges.push(("made younger", later));
    for (name, challenge) in &challenges {
        let proof = stack.prove(stack.key(), challenge, &beat);
        let reply = stranger.show(Endpoint::Heartbeat, &id, &certificate, proof).await;
        assert_eq!((reply.status, reply.code()), (401, Some(Code::ChallengeRefused)), "S-4 {name}: {reply:?}");
        assert!(reply.headers.contains_key("lucia-challenge"), "S-4 {name}: the next comes with it");
    }

    // S-2
    let challenge: Challenge = stranger.challenge(&id).await;
    let good = stack.prove(stack.key(), &challenge, &beat);
    for (name, signature) in signatures(&good.signature) {
        let proof = Proof { signature, ..good.clone() };
        let reply = stranger.show(Endpoint::Heartbeat, &id, &certificate, proof).await;
        assert!(no_identity(&reply), "S-2 {name}: {reply:?}");
    }
    // S-9: a line end that moves what is signed over.
    for (challenge_id, nonce) in [("\\n", ""), ("a\\nb", ""), ("00000000-0000-7000-8000-00000000000\\n", "x")] {
        let body = format!(
            r#"{{"certificatePem":"x","proof":{{"challengeId":"{challenge_id}","reportJson":"{nonce}{{}}","signature":"{}"}}}}"#,
            good.signature
        );
        let reply = stranger.post(&Endpoint::Heartbeat.path_for(&id), body).await;
        assert!(no_identity(&reply), "S-9 {challenge_id:?}: {reply:?}");
    }

    // S-8: each report at every endpoint it was not made for, and of another node.
    let (task, csr) = (stack.task.to_string(), "x".to_owned());
    let of = |purpose: &str, more: &str| format!(r#"{{"nodeId":"{id}","purpose":"{purpose}"{more}}}"#);
    let certified = format!(r#","taskId":"{task}","csrPem":"{csr}""#);
    let reports = [
        (Endpoint::Heartbeat, beat.clone()),
        (Endpoint::Renew, of("renew", &certified)),
        (Endpoint::Enroll, of("enroll", &certified)),
        (Endpoint::DeviceState, of("device-state", "")),
        (Endpoint::Installation, of("installation", "")),
        (Endpoint::Progress, of("progress", r#","phase":"Failed","message":"""#)),
    ];
    for (made_for, report) in &reports {
        for (shown_to, _) in reports.iter().filter(|(shown_to, _)| shown_to != made_for) {
            let challenge = stranger.challenge(&id).await;
            let proof = stack.prove(stack.key(), &challenge, report);
            let reply = stranger.show(*shown_to, &id, &certificate, proof).await;
            let refused = matches!(reply.code(), Some(Code::NodeIdentityInvalid | Code::InvalidBody));
            assert!(refused, "S-8 {made_for:?} at {shown_to:?}: {reply:?}");
            tokio::time::sleep(std::time::Duration::from_millis(110)).await;
        }
        let of_other = report.replace(id.as_str(), other.as_str());
        let challenge = stranger.challenge(&id).await;
        let proof = stack.prove(stack.key(), &challenge, &of_other);
        let reply = stranger.show(*made_for, &id, &certificate, proof).await;
        assert_eq!(reply.code(), Some(Code::NodeIdentityInvalid), "S-8 {made_for:?} naming another: {reply:?}");
        tokio::time::sleep(std::time::Duration::from_millis(110)).await;
    }

    // S-10: what is no key of ours, at first contact.
    let spki = stack.key().public().to_pem();
    for (name, pem) in [
        ("nothing", String::new()),
        ("text", "x".to_owned()),
        ("another label", spki.replace("PUBLIC", "PRIVATE")),
        ("two", spki.repeat(2)),
        ("cut", spki.replacen("MFkw", "MFk", 1)),
        ("a point that is none", with_point(&spki, |point| point[40] ^= 1)),
        ("the point at infinity", with_point(&spki, |point| point[1..].fill(0))),
        ("compressed", with_point(&spki, |point| point[0] = 2)),
    ] {
        let boot = stranger.get(Endpoint::BootChallenge.path(), None).await;
        let challenge: Challenge = serde_json::from_slice(&boot.body).unwrap();
        let proof = stack.prove(stack.key(), &challenge, &of("discover", ""));
        let body = serde_json::json!({
            "challengeId": proof.challenge_id, "publicKeyPem": pem, "reportJson": proof.report_json, "signature": proof.signature,
        });
        let reply = stranger.post(Endpoint::Discover.path(), body.to_string()).await;
        let refused = matches!(reply.code(), Some(Code::BadKey | Code::InvalidBody));
        assert!(refused, "S-10 {name}: {reply:?}");
    }

    // S-11: one answer for all whom nobody knows.
    let mut answers = Vec::new();
    for (name, who, pem, signer) in [
        ("unknown", key(99).public().fingerprint().node_id(), certificate.clone(), key(99)),
        ("another key", id.clone(), certificate.clone(), key(99)),
        ("another's certificate", id.clone(), stack.nodes[1].certificate_pem.clone().unwrap(), key_of(&stack)),
        ("no certificate", id.clone(), "x".to_owned(), key_of(&stack)),
    ] {
        let challenge = stranger.challenge(&who).await;
        let proof = stack.prove(&signer, &challenge, &beat.replace(id.as_str(), who.as_str()));
        let reply = stranger.show(Endpoint::Heartbeat, &who, &pem, proof).await;
        assert_eq!((reply.status, reply.code()), (403, Some(Code::NodeIdentityInvalid)), "S-11 {name}: {reply:?}");
        answers.push(reply.body);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "S-11");
    stack.is_unchanged(&before);

    // S-3: once, whatever form it comes in.
    let challenge = stranger.challenge(&id).await;
    let proof = stack.prove(stack.key(), &challenge, &beat);
    assert_eq!(stranger.show(Endpoint::Heartbeat, &id, &certificate, proof.clone()).await.status, 200);
    let again = stack.prove(stack.key(), &challenge, &format!("{beat} "));
    for (name, proof) in [("again", proof.clone()), ("again, signed anew", again), ("(r, n - s)", other_s(&proof))] {
        let reply = stranger.show(Endpoint::Heartbeat, &id, &certificate, proof).await;
        assert_eq!((reply.status, reply.code()), (401, Some(Code::ChallengeRefused)), "S-3 {name}: {reply:?}");
    }
}

fn key_of(stack: &Stack) -> lucia_proto::pki::key::NodeKey {
    lucia_proto::pki::key::NodeKey::from_pem(&stack.key().to_pem().unwrap()).unwrap()
}

/// The same public key with another point: an SPKI of P-256 is 26 bytes and the point.
fn with_point(pem: &str, change: impl Fn(&mut [u8])) -> String {
    let mut der = lucia_proto::base::pem::one(pem, "PUBLIC KEY", usize::MAX).unwrap();
    change(&mut der[26..]);
    lucia_proto::base::pem::encode(&der, "PUBLIC KEY")
}

/// The same signature in its other form: (r, n - s).
fn other_s(proof: &Proof) -> Proof {
    let mut bytes = STANDARD.decode(&proof.signature).unwrap();
    let mut borrow = 0;
    for (s, n) in bytes[32..].iter_mut().zip(N).rev() {
        let less = i16::from(n) - i16::from(*s) - borrow;
        borrow = i16::from(less < 0);
        *s = u8::try_from(less.rem_euclid(256)).unwrap();
    }
    Proof { signature: STANDARD.encode(bytes), ..proof.clone() }
}

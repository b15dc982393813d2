use super::*;
use crate::base::pem;
use crate::pki::x509::LABEL;
use crate::test_support::{TestCa, TestNode, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn sign(ca: &TestCa, change: impl FnOnce(&mut Bundle)) -> SignedBundle {
    let mut bundle = ca.bundle(3, NOW);
    change(&mut bundle);
    SignedBundle::sign(&bundle, &ca.root_key).unwrap()
}

// spec: BU-1
#[test]
fn a_bundle_the_root_signed_is_read_whole() {
    let ca = TestCa::new(NOW);
    let signed = sign(&ca, |bundle| bundle.release_keys.push(key(5).public().to_pem()));
    let text = json::to_string(&signed).unwrap();
    let read: SignedBundle = json::from_str(&text, 65_536, 4).unwrap();
    assert_eq!(read, signed);
    let verified = read.verify(&ca.root()).unwrap();
    assert_eq!(verified.bundle().version, 3);
    assert_eq!(verified.workers(), [ca.worker_key.public().clone()]);
    assert_eq!(verified.release_keys(), [key(5).public().clone()]);
    assert_eq!(verified.issuing_cas().collect::<Vec<_>>(), [ca.issuing_der.as_slice()]);
    assert_eq!(verified.signed(), &signed);
}

// spec: BU-2
#[test]
fn one_wrong_entry_refuses_the_whole() {
    let (ca, other, node) = (TestCa::new(NOW), TestCa::with_keys(NOW, 211), TestNode::new(7));
    let leaf = pem::encode(&ca.leaf_spec(&node, NOW).sign(&ca.root_key), LABEL);
    let check = |name: &str, change: &dyn Fn(&mut Bundle), is_right: fn(&BundleError) -> bool| {
        let error = sign(&ca, change).verify(&ca.root()).unwrap_err();
        assert!(is_right(&error), "{name}: {error}");
    };
    let foreign_ca = |error: &BundleError| matches!(error, BundleError::IssuingCa { index: 1, .. });
    let first_ca = |error: &BundleError| matches!(error, BundleError::IssuingCa { index: 0, .. });
    let nine = |error: &BundleError| matches!(error, BundleError::TooMany { count: 9, .. });
    // Eight of each are what there may be.
    let full = sign(&ca, |bundle| {
        bundle.issuing_cas = vec![ca.issuing_pem(); 8];
        bundle.workers = vec![key(1).public().to_pem(); 8];
        bundle.release_keys = vec![key(1).public().to_pem(); 8];
        bundle.limits = (0..8_u8).map(|at| (Digest::of(&[at]), Vec::new())).collect();
    });
    assert!(full.verify(&ca.root()).is_ok());
    check("version", &|bundle| bundle.version = 0, |error| matches!(error, BundleError::Version));
    check("foreign CA", &|bundle| bundle.issuing_cas.push(other.issuing_pem()), foreign_ca);
    check("the root itself", &|bundle| bundle.issuing_cas.insert(0, ca.root_pem()), first_ca);
    check("a leaf", &|bundle| bundle.issuing_cas = vec![leaf.clone()], first_ca);
    check("two in one", &|bundle| bundle.issuing_cas = vec![ca.issuing_pem().repeat(2)], first_ca);
    check("nine CAs", &|bundle| bundle.issuing_cas = vec![ca.issuing_pem(); 9], nine);
    check("worker", &|bundle| bundle.workers.push("key".to_owned()), |error| {
        matches!(error, BundleError::Key { index: 1, .. })
    });
    check("nine workers", &|bundle| bundle.workers = vec![key(1).public().to_pem(); 9], nine);
    check("release key", &|bundle| bundle.release_keys.push(String::new()), |error| {
        matches!(error, BundleError::Key { index: 0, .. })
    });
    check("nine release keys", &|bundle| bundle.release_keys = vec![key(1).public().to_pem(); 9], nine);
    check("nine limits", &|bundle| bundle.limits = (0..9_u8).map(|at| (Digest::of(&[at]), Vec::new())).collect(), nine);
}

// spec: BU-3
#[test]
fn only_the_roots_signature_over_the_exact_bytes_counts() {
    let ca = TestCa::new(NOW);
    let signed = sign(&ca, |_| ());
    let parts = signed.parts();
    let (payload, signature) = (parts.payload().to_vec(), parts.signature().to_vec());
    let mut spaced = payload.clone();
    spaced.push(b'\n');
    for (name, payload, signature) in [
        ("a line end more", spaced, signature.clone()),
        ("by the issuing CA", payload.clone(), ca.issuing_key.sign_der(&payload)),
        ("with another first line", payload.clone(), ca.root_key.sign_der(&[b"lucia-answer-v1\n", &*payload].concat())),
        ("its first line twice", payload.clone(), ca.root_key.sign_der(&[TAG, TAG, &*payload].concat())),
        ("its first line in the payload", [TAG, &*payload].concat(), ca.root_key.sign_der(&[TAG, TAG].concat())),
        ("no signature", payload.clone(), Vec::new()),
        ("cut", payload.clone(), signature[..signature.len() - 1].to_vec()),
        ("no payload", Vec::new(), signature),
    ] {
        let refused = SignedBundle::from_parts(payload, signature).verify(&ca.root());
        assert!(matches!(refused, Err(BundleError::Signature)), "{name}");
    }
    assert!(matches!(signed.verify(&TestCa::with_keys(NOW, 211).root()), Err(BundleError::Signature)));
}

/// What was signed before there was a first line is taken; what has one in its payload is no bundle by either reading.
// spec: BU-241
#[test]
fn a_bundle_of_before_the_first_line_is_taken_and_a_new_one_has_it() {
    let ca = TestCa::new(NOW);
    let signed = sign(&ca, |_| ());
    let payload = signed.parts().payload().to_vec();
    let root = ca.root();
    assert!(
        root.public_key().verify_der(&[b"lucia-bundle-v1\n", &*payload].concat(), signed.parts().signature()).is_ok()
    );
    assert!(root.public_key().verify_der(&payload, signed.parts().signature()).is_err());
    let before = SignedBundle::from_parts(payload.clone(), ca.root_key.sign_der(&payload));
    assert_eq!(before.verify(&root).unwrap().bundle(), signed.verify(&root).unwrap().bundle());
    // The new form's signed bytes, given as a bundle of before: the signature holds, and it is no bundle.
    let text = [TAG, &*payload].concat();
    let shifted = SignedBundle::from_parts(text, signed.parts().signature().to_vec());
    assert!(matches!(shifted.verify(&root), Err(BundleError::Json(_))));
}

#[test]
fn signed_bytes_that_are_no_bundle_are_refused() {
    let ca = TestCa::new(NOW);
    for payload in
        ["", "{}", "[]", "{\"version\":1}", "{\"version\":-1,\"issued\":\"2026-11-29T20:00:00Z\",\"issuing_cas\":[]}"]
    {
        let signed = SignedBundle::from_parts(payload.into(), ca.root_key.sign_der(payload.as_bytes()));
        assert!(matches!(signed.verify(&ca.root()), Err(BundleError::Json(_))), "{payload}");
    }
    // The members of the reference alone are a bundle.
    let payload = r#"{"version":1,"issued":"2026-11-29T20:00:00Z","issuing_cas":[]}"#;
    let signed = SignedBundle::from_parts(payload.into(), ca.root_key.sign_der(payload.as_bytes()));
    assert!(signed.verify(&ca.root()).is_ok());
}

#[test]
fn the_wire_form_is_strict() {
    let ca = TestCa::new(NOW);
    let text = json::to_string(&sign(&ca, |_| ())).unwrap();
    let long = format!(r#"{{"payload":"{}","signature":""}}"#, "A".repeat(64_176));
    let longest = format!(r#"{{"payload":"{}=","signature":"{}"}}"#, "A".repeat(64_171), "A".repeat(96));
    assert!(json::from_str::<SignedBundle>(&longest, 1 << 20, 4).is_ok());
    for (name, text) in [
        ("unknown member", text.replacen('{', "{\"x\":1,", 1)),
        ("unpadded", r#"{"payload":"YQ","signature":""}"#.to_owned()),
        ("other alphabet", r#"{"payload":"-_-_","signature":""}"#.to_owned()),
        ("loose bits", r#"{"payload":"YR==","signature":""}"#.to_owned()),
        ("line end", r#"{"payload":"YWFh\n","signature":""}"#.to_owned()),
        ("long payload", long),
        ("a payload of one byte more", longest.replace("A=", "AA")),
        ("long signature", format!(r#"{{"payload":"","signature":"{}"}}"#, "A".repeat(100))),
        ("array", r#"["",""]"#.to_owned()),
    ] {
        assert!(json::from_str::<SignedBundle>(&text, 1 << 20, 4).is_err(), "{name}");
    }
}

// spec: BU-4
#[test]
fn versions_only_rise_and_one_version_is_one_pair() {
    let ca = TestCa::new(NOW);
    let root = ca.root();
    let verified = |change: &dyn Fn(&mut Bundle)| sign(&ca, change).verify(&root).unwrap();
    let held = verified(&|_| ());
    let lower = verified(&|bundle| bundle.version = 2);
    let higher = verified(&|bundle| bundle.version = 4);
    let other = verified(&|bundle| bundle.workers.clear());
    assert_eq!(accept(None, lower.clone()).unwrap(), lower);
    assert_eq!(accept(Some(&held), held.clone()).unwrap(), held);
    assert_eq!(accept(Some(&held), higher.clone()).unwrap(), higher);
    assert!(matches!(accept(Some(&held), lower), Err(BundleError::Older { current: 3, offered: 2 })));
    assert!(matches!(accept(Some(&held), other), Err(BundleError::Conflict { version: 3 })));
}

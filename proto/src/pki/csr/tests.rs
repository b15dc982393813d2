use proptest::prelude::*;

use super::*;
use crate::test_support::{CsrSpec, TestNode, hostile_csrs, key};

fn verdict(node: &TestNode, text: &str) -> Result<CheckedCsr, &'static str> {
    check(text, &node.node_id, &node.hostname, &node.fingerprint).map_err(|error| error.field())
}

// spec: CS-1
#[test]
fn a_request_is_the_template_and_always_the_same_bytes() {
    let node = TestNode::new(7);
    let text = node.csr();
    assert_eq!(text, node.csr());
    let spec = CsrSpec::new(node.node_id.as_str(), node.hostname.as_str(), node.key.public());
    assert_eq!(text, pem::encode(&spec.sign(&node.key), LABEL));
    let checked = verdict(&node, &text).unwrap();
    assert_eq!(checked.public_key(), node.key.public());
    assert_eq!(checked.sha256(), node.csr_sha256());
    assert_eq!(pem::encode(checked.der(), LABEL), text);
}

#[test]
fn another_implementation_reads_the_same_out_of_it() {
    let node = TestNode::new(7);
    let checked = verdict(&node, &node.csr()).unwrap();
    let read = rcgen::CertificateSigningRequestParams::from_der(&checked.der().into()).unwrap();
    let name = rcgen::SanType::DnsName(node.hostname.as_str().try_into().unwrap());
    assert_eq!(read.params.subject_alt_names, [name]);
    let cn = rcgen::DnValue::Utf8String(node.node_id.as_str().to_owned());
    assert_eq!(read.params.distinguished_name.iter().collect::<Vec<_>>(), [(&rcgen::DnType::CommonName, &cn)]);
}

// spec: CS-2
#[test]
fn what_is_not_the_template_is_refused_naming_the_field() {
    let node = TestNode::new(7);
    let hostile = hostile_csrs(&node);
    assert!(hostile.len() > 90, "{}", hostile.len());
    let wrong: Vec<_> = hostile
        .iter()
        .map(|case| (case.name, Err(case.field), verdict(&node, &case.pem).map(|_| ())))
        .filter(|(_, want, got)| want != got)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// spec: CS-3
#[test]
fn a_request_is_for_one_node_one_name_and_one_key() {
    let (node, other) = (TestNode::new(7), TestNode::new(8));
    let text = node.csr();
    for (id, hostname, fingerprint, want) in [
        (&other.node_id, &node.hostname, &node.fingerprint, "subject"),
        (&node.node_id, &other.hostname, &node.fingerprint, "subjectAltName"),
        (&node.node_id, &node.hostname, &other.fingerprint, "subjectPublicKey"),
    ] {
        assert_eq!(check(&text, id, hostname, fingerprint).map_err(|error| error.field()), Err(want));
    }
}

#[test]
fn the_limit_counts_before_anything_is_read() {
    let node = TestNode::new(7);
    let error = verdict(&node, &"A".repeat(CSR_PEM_MAX + 1)).unwrap_err();
    assert_eq!(error, "pem");
}

fn names(list: &[&str]) -> EndpointNames {
    EndpointNames::new(list.iter().map(|name| name.parse().unwrap()).collect()).unwrap()
}

// spec: CS-4
#[test]
fn an_endpoint_request_has_exactly_the_configured_names() {
    let key = key(9);
    let asked = names(&["lucia.example.net", "192.0.2.7", "lucia", "2001:db8::7"]);
    let text = endpoint_build(&asked, &key);
    let checked = endpoint_check(&text, &asked).unwrap();
    assert_eq!(checked.csr().public_key(), key.public());
    assert_eq!(checked.names(), &asked);
    assert!(endpoint_check(&text, &names(&["lucia.example.net", "2001:db8::7", "192.0.2.7", "lucia"])).is_ok());
    for (configured, want) in [
        (&["lucia", "lucia.example.net", "192.0.2.7", "2001:db8::7"][..], "subject"),
        (&["lucia.example.net", "192.0.2.7", "lucia"], "subjectAltName"),
        (&["lucia.example.net", "192.0.2.7", "lucia", "2001:db8::7", "other"], "subjectAltName"),
        (&["lucia.example.net", "192.0.2.8", "lucia", "2001:db8::7"], "subjectAltName"),
        (&["lucia.example.net"], "subjectAltName"),
    ] {
        assert_eq!(endpoint_check(&text, &names(configured)).map_err(|error| error.field()), Err(want));
    }
}

#[test]
fn a_node_cannot_ask_for_the_endpoint_nor_the_endpoint_for_a_node() {
    let node = TestNode::new(7);
    assert!(endpoint_check(&node.csr(), &names(&["lucia"])).is_err());
    let text = endpoint_build(&names(&[node.hostname.as_str()]), &node.key);
    assert_eq!(verdict(&node, &text).map(|_| ()), Err("subject"));
}

#[test]
fn an_endpoint_request_keeps_the_rules_of_every_request() {
    let asked = names(&["lucia"]);
    let text = endpoint_build(&asked, &key(9));
    assert!(endpoint_check(&text.replace('\n', "\r\n"), &asked).is_err());
    let good = pem::one(&text, LABEL, CSR_PEM_MAX).unwrap();
    let other = pem::one(&endpoint_build(&asked, &key(10)), LABEL, CSR_PEM_MAX).unwrap();
    let ([info, algorithm, _], [_, _, signature]) = (split(&good, "").unwrap(), split(&other, "").unwrap());
    let mixed = pem::encode(&sequence(&[info, algorithm, signature]), LABEL);
    assert_eq!(endpoint_check(&mixed, &asked).map_err(|error| error.field()), Err("signature"));
}

proptest! {
    // spec: CS-5
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let node = TestNode::new(7);
        prop_assert!(verdict(&node, &pem::encode(&bytes, LABEL)).is_err());
        prop_assert!(verdict(&node, &String::from_utf8_lossy(&bytes)).is_err());
    }

    #[test]
    fn a_good_request_with_any_byte_changed_is_refused(
        at in any::<prop::sample::Index>(), with in any::<u8>(), kind in 0..3_u8,
    ) {
        let node = TestNode::new(7);
        let good = pem::one(&node.csr(), LABEL, CSR_PEM_MAX).unwrap();
        let mut der = good.clone();
        let at = at.index(der.len());
        match kind {
            0 => der[at] = with,
            1 => der.insert(at, with),
            _ => der.truncate(at),
        }
        prop_assert_eq!(verdict(&node, &pem::encode(&der, LABEL)).is_ok(), der == good);
    }
}

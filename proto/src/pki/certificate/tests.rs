use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::der::extension;
use crate::pki::chain::Root;
use crate::test_support::{CertificateSpec, TestCa, TestNode, hostile_leaves, judge_leaf};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const HOUR: Duration = Duration::from_secs(3600);

// spec: CE-2
#[test]
fn an_issued_leaf_is_accepted_and_says_what_it_is() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let pem = ca.issue(&node, NOW);
    let leaf = Leaf::parse(&pem).unwrap().check(&node.rules()).unwrap();
    assert_eq!(leaf.not_before(), NOW.minus(HOUR / 12));
    assert_eq!(leaf.not_after(), NOW.plus(HOUR * 168));
    assert_eq!(leaf.serial(), "112233");
    assert_eq!(leaf.public_key(), node.key.public());
    assert_eq!(leaf.pem(), pem);
    assert!(!leaf.has_server_auth());
}

// spec: CE-3
#[test]
fn what_breaks_a_rule_is_refused_naming_it() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let root = ca.root();
    let hostile = hostile_leaves(&ca, &node, NOW);
    assert!(hostile.len() > 100, "{}", hostile.len());
    let wrong: Vec<_> = hostile
        .iter()
        .map(|case| (case.name, Err(case.field), judge_leaf(&case.pem, &node.rules(), &root, NOW)))
        .filter(|(_, want, got)| want != got)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// spec: CE-4
#[test]
fn what_an_authority_may_choose_is_accepted() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let root = ca.root();
    #[track_caller]
    fn check(ca: &TestCa, node: &TestNode, root: &Root, change: impl FnOnce(&mut CertificateSpec)) {
        let mut spec = ca.leaf_spec(node, NOW);
        change(&mut spec);
        assert_eq!(judge_leaf(&ca.finish(&spec), &node.rules(), root, NOW), Ok(()));
    }
    let usages = |oids: &[&[u8]]| {
        let list: Vec<u8> = oids.iter().flat_map(|oid| tlv(OID, oid)).collect();
        extension(EXTENDED_KEY_USAGE, false, &tlv(SEQUENCE, &list))
    };
    // 169 hours to the second.
    check(&ca, &node, &root, |spec| {
        let longest = CertificateSpec::new("", "", node.key.public(), NOW.minus(HOUR), NOW.plus(HOUR * 168));
        spec.validity = longest.validity;
    });
    // One second.
    check(&ca, &node, &root, |spec| {
        spec.validity = CertificateSpec::new("", "", node.key.public(), NOW, NOW).validity;
    });
    check(&ca, &node, &root, |spec| spec.subject = common_name(PRINTABLE_STRING, node.node_id.as_str()));
    check(&ca, &node, &root, |spec| spec.replace(EXTENDED_KEY_USAGE, Some(usages(&[CLIENT_AUTH, SERVER_AUTH]))));
    check(&ca, &node, &root, |spec| spec.replace(EXTENDED_KEY_USAGE, Some(usages(&[SERVER_AUTH, CLIENT_AUTH]))));
    check(&ca, &node, &root, |spec| spec.extensions.push(extension(BASIC_CONSTRAINTS, true, &tlv(SEQUENCE, &[]))));
    // Key identifiers and a provisioner's mark, as step-ca writes them: not critical, so free.
    check(&ca, &node, &root, |spec| spec.extensions.push(extension(&[0x55, 0x1d, 0x0e], false, &tlv(4, &[1; 20]))));
    check(&ca, &node, &root, |spec| spec.serial = tlv(0x02, &[0x7f; 20]));
}

#[test]
fn a_leaf_is_for_one_node_one_name_and_one_key() {
    let (ca, node, other) = (TestCa::new(NOW), TestNode::new(7), TestNode::new(8));
    let leaf = Leaf::parse(&ca.issue(&node, NOW)).unwrap();
    for (rules, want) in [
        (LeafRules { node_id: &other.node_id, ..node.rules() }, "subject"),
        (LeafRules { hostname: &other.hostname, ..node.rules() }, "subjectAltName"),
        (LeafRules { fingerprint: &other.fingerprint, ..node.rules() }, "subjectPublicKey"),
    ] {
        assert_eq!(leaf.clone().check(&rules).map_err(|error| error.field()).map(|_| ()), Err(want));
    }
}

// spec: CE-5
#[test]
fn size_and_count_are_decided_before_parsing() {
    let ca = TestCa::new(NOW);
    let block = ca.issuing_pem();
    assert!(Leaf::parse(&block.repeat(4)).is_ok());
    for text in [block.repeat(5), format!("{block}{}", "A".repeat(CHAIN_PEM_MAX))] {
        assert!(matches!(Leaf::parse(&text), Err(CertificateError::Pem(_))));
    }
    // Strict PEM throughout, and too long all the same.
    let long = pem::encode(&[0; 5000], LABEL).repeat(3);
    assert!(long.len() > CHAIN_PEM_MAX);
    assert!(matches!(Leaf::parse(&long), Err(CertificateError::Pem(pem::PemError::TooLong { .. }))));
}

#[test]
fn a_chain_made_by_another_library_is_accepted() {
    let node = TestNode::new(7);
    let cn = |text: &str| {
        let mut name = rcgen::DistinguishedName::new();
        name.push(rcgen::DnType::CommonName, text);
        name
    };
    let times = |params: &mut rcgen::CertificateParams, hours: u64| {
        let at = |time: UnixTime| time::OffsetDateTime::from_unix_timestamp(time.secs() as i64).unwrap();
        params.not_before = at(NOW.minus(HOUR));
        params.not_after = at(NOW.plus(HOUR * u32::try_from(hours).unwrap()));
    };
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(1));
    authority.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name = cn("Other Root");
    times(&mut authority, 9000);
    let root_key = rcgen::KeyPair::generate().unwrap();
    let root = authority.self_signed(&root_key).unwrap();
    let root_issuer = rcgen::Issuer::new(authority.clone(), root_key);
    let issuing_key = rcgen::KeyPair::generate().unwrap();
    authority.distinguished_name = cn("Other Issuing");
    let issuing = authority.signed_by(&issuing_key, &root_issuer).unwrap();
    let issuer = rcgen::Issuer::new(authority, issuing_key);

    let mut params = rcgen::CertificateParams::new([node.hostname.as_str().to_owned()]).unwrap();
    params.distinguished_name = cn(node.node_id.as_str());
    params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    times(&mut params, 168);
    let node_key = rcgen::KeyPair::from_pem(&node.key.to_pem().unwrap()).unwrap();
    let leaf = params.signed_by(&node_key, &issuer).unwrap();
    let text = [leaf.pem(), issuing.pem()].concat().replace('\r', "");
    let root = Root::from_pem(&root.pem().replace('\r', "")).unwrap();
    assert_eq!(judge_leaf(&text, &node.rules(), &root, NOW), Ok(()));
}

proptest! {
    // spec: CE-6
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Leaf::parse(&pem::encode(&bytes, LABEL)).is_err());
        prop_assert!(Leaf::parse(&String::from_utf8_lossy(&bytes)).is_err());
    }

    #[test]
    fn a_good_chain_with_any_byte_changed_is_refused(
        which in 0..2_usize, at in any::<prop::sample::Index>(), with in any::<u8>(), kind in 0..3_u8,
    ) {
        let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
        let good = [ca.leaf_spec(&node, NOW).sign(&ca.issuing_key), ca.issuing_der.clone()];
        let mut chain = good.clone();
        let der = &mut chain[which];
        let at = at.index(der.len());
        match kind {
            0 => der[at] = with,
            1 => der.insert(at, with),
            _ => der.truncate(at),
        }
        let text: String = chain.iter().map(|der| pem::encode(der, LABEL)).collect();
        let verdict = judge_leaf(&text, &node.rules(), &ca.root(), NOW);
        prop_assert_eq!(verdict.is_ok(), chain == good, "{:?}", verdict);
    }
}

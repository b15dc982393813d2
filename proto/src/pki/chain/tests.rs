use super::*;
use crate::base::der::{
    BASIC_CONSTRAINTS, BOOLEAN, CLIENT_AUTH, EXTENDED_KEY_USAGE, INTEGER, OID, SERVER_AUTH, extension, sequence, tlv,
};
use crate::pki::certificate::Leaf;
use crate::test_support::{CertificateSpec, TestCa, TestNode, key};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const HOUR: Duration = Duration::from_secs(3600);

fn leaf(ca: &TestCa, node: &TestNode, at: UnixTime) -> CheckedLeaf {
    Leaf::parse(&ca.issue(node, at)).unwrap().check(&node.rules()).unwrap()
}

fn word<T>(result: Result<T, ChainError>) -> Result<(), &'static str> {
    result.map(|_| ()).map_err(|error| error.field())
}

// spec: CE-7
#[test]
fn a_verdict_ends_with_the_first_certificate_of_its_path() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let leaf = leaf(&ca, &node, NOW);
    let verdict = verify(&leaf, &[ca.root()], NOW, Usage::Client).unwrap();
    assert_eq!(verdict.not_after(), leaf.not_after());
    assert_eq!(verdict.leaf_sha256(), leaf.sha256());

    let from = NOW.minus(HOUR);
    let names = (TestCa::ROOT, TestCa::ISSUING);
    let short = CertificateSpec::authority(names.0, names.1, ca.issuing_key.public(), from, NOW.plus(HOUR));
    let text = [ca.leaf_spec(&node, NOW).sign(&ca.issuing_key), short.sign(&ca.root_key)]
        .map(|der| pem::encode(&der, LABEL))
        .concat();
    let leaf = Leaf::parse(&text).unwrap().check(&node.rules()).unwrap();
    let verdict = verify(&leaf, &[ca.root()], NOW, Usage::Client).unwrap();
    assert_eq!(verdict.not_after(), NOW.plus(HOUR));
    assert!(verify(&leaf, &[ca.root()], NOW.plus(HOUR), Usage::Client).is_ok());
    assert_eq!(
        word(verify(&leaf, &[ca.root()], NOW.plus(HOUR).plus(Duration::from_secs(1)), Usage::Client)),
        Err("expired")
    );

    // A root that ends first ends the verdict as well, though webpki takes it as given.
    let short = CertificateSpec::authority(names.0, names.0, ca.root_key.public(), from, NOW.plus(HOUR / 2));
    let root = Root::from_pem(&pem::encode(&short.sign(&ca.root_key), LABEL)).unwrap();
    assert_eq!(verify(&leaf, std::slice::from_ref(&root), NOW, Usage::Client).unwrap().not_after(), NOW.plus(HOUR / 2));
    assert_eq!(word(verify(&leaf, std::slice::from_ref(&root), NOW.plus(HOUR), Usage::Client)), Err("expired"));
    // The new root beside it has the same name and key.
    assert!(verify(&leaf, &[root, ca.root()], NOW.plus(HOUR), Usage::Client).is_ok());
}

// spec: CE-8
#[test]
fn first_and_last_second_count_and_their_neighbours_do_not() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let leaf = leaf(&ca, &node, NOW);
    let second = Duration::from_secs(1);
    for (at, want) in [
        (leaf.not_before().minus(second), Err("not yet valid")),
        (leaf.not_before(), Ok(())),
        (leaf.not_after(), Ok(())),
        (leaf.not_after().plus(second), Err("expired")),
    ] {
        assert_eq!(word(verify(&leaf, &[ca.root()], at, Usage::Client)), want, "{at}");
    }
}

// spec: CE-9
#[test]
fn a_lapsed_leaf_chains_as_it_did_when_issued() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let leaf = leaf(&ca, &node, NOW);
    let late = leaf.not_after().plus(HOUR * 48);
    assert_eq!(word(verify(&leaf, &[ca.root()], late, Usage::Client)), Err("expired"));
    let lapsed = verify_lapsed(&leaf, &[ca.root()], late).unwrap();
    assert_eq!(lapsed.leaf_sha256(), leaf.sha256());
    assert!(verify_lapsed(&leaf, &[ca.root()], NOW).is_ok());

    // Issuer and root may have ended since.
    let years = NOW.plus(HOUR * 24 * 365 * 20);
    assert!(verify_lapsed(&leaf, &[ca.root()], years).is_ok());

    assert!(verify_lapsed(&leaf, &[ca.root()], leaf.not_before()).is_ok());
    let early = leaf.not_before().minus(Duration::from_secs(1));
    assert_eq!(word(verify_lapsed(&leaf, &[ca.root()], early)), Err("not yet valid"));
    assert_eq!(word(verify_lapsed(&leaf, &[TestCa::with_keys(NOW, 211).root()], late)), Err("path"));
    // One minute after NotBefore is what counts, here with an authority that begins 60 or 61 seconds after the leaf.
    for (gap, want) in [(60, Ok(())), (61, Err("not yet valid"))] {
        let begins = NOW.minus(HOUR).minus(Duration::from_secs(gap));
        let leaf = Leaf::parse(&ca.issue(&node, begins.plus(HOUR / 12))).unwrap().check(&node.rules()).unwrap();
        assert_eq!(leaf.not_before(), begins);
        assert_eq!(verify_lapsed(&leaf, &[ca.root()], late).map(drop).map_err(|error| error.field()), want, "{gap}");
    }
    // A leaf from before its CA never chained.
    let early = NOW.minus(HOUR * 400);
    let never = Leaf::parse(&ca.issue(&node, early)).unwrap().check(&node.rules()).unwrap();
    assert_eq!(word(verify_lapsed(&never, &[ca.root()], late)), Err("not yet valid"));
}

#[test]
fn any_of_the_roots_will_do_and_none_will_not() {
    let (ca, node, other) = (TestCa::new(NOW), TestNode::new(7), TestCa::with_keys(NOW, 211));
    let leaf = leaf(&ca, &node, NOW);
    assert!(verify(&leaf, &[other.root(), ca.root()], NOW, Usage::Client).is_ok());
    assert!(verify(&leaf, &[ca.root(), other.root()], NOW, Usage::Client).is_ok());
    assert_eq!(word(verify(&leaf, &[], NOW, Usage::Client)), Err("no root"));
}

#[test]
fn a_look_alike_beside_the_right_authority_does_no_harm() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let look_alikes = [TestCa::with_keys(NOW, 211), TestCa::with_keys(NOW, 221)];
    let mut chain = vec![ca.leaf_spec(&node, NOW).sign(&ca.issuing_key)];
    chain.extend(look_alikes.map(|other| other.issuing_der));
    chain.push(ca.issuing_der.clone());
    let text: String = chain.iter().map(|der| pem::encode(der, LABEL)).collect();
    let leaf = Leaf::parse(&text).unwrap().check(&node.rules()).unwrap();
    assert_eq!(word(verify(&leaf, &[ca.root()], NOW, Usage::Client)), Ok(()));
}

#[test]
fn a_leaf_serves_only_where_it_says_so() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let mut spec = ca.leaf_spec(&node, NOW);
    let usages = sequence(&[&tlv(OID, CLIENT_AUTH), &tlv(OID, SERVER_AUTH)]);
    spec.replace(EXTENDED_KEY_USAGE, Some(extension(EXTENDED_KEY_USAGE, false, &usages)));
    let both = Leaf::parse(&ca.finish(&spec)).unwrap().check(&node.rules()).unwrap();
    assert_eq!(word(verify(&both, &[ca.root()], NOW, Usage::Server)), Ok(()));
    assert_eq!(word(verify(&both, &[ca.root()], NOW, Usage::Client)), Ok(()));
    assert_eq!(word(verify(&leaf(&ca, &node, NOW), &[ca.root()], NOW, Usage::Server)), Err("usage"));
}

fn path_length(spec: &mut CertificateSpec, length: u8) {
    let value = sequence(&[&tlv(BOOLEAN, &[0xff]), &tlv(INTEGER, &[length])]);
    spec.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, true, &value)));
}

// spec: CE-10
#[test]
fn path_lengths_count_the_roots_too() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let from = NOW.minus(HOUR);
    let middle_key = key(240);
    let mut middle = CertificateSpec::authority(TestCa::ROOT, "Middle", middle_key.public(), from, NOW.plus(HOUR));
    path_length(&mut middle, 1);
    let names = ("Middle", TestCa::ISSUING);
    let mut issuing = CertificateSpec::authority(names.0, names.1, ca.issuing_key.public(), from, NOW.plus(HOUR));
    path_length(&mut issuing, 0);
    let chain = [ca.leaf_spec(&node, NOW).sign(&ca.issuing_key), issuing.sign(&middle_key), middle.sign(&ca.root_key)];
    let text = chain.map(|der| pem::encode(&der, LABEL)).concat();
    let leaf = Leaf::parse(&text).unwrap().check(&node.rules()).unwrap();
    for (length, want) in [(0, Err("path length")), (1, Err("path length")), (2, Ok(())), (3, Ok(()))] {
        let to = NOW.plus(HOUR);
        let mut root = CertificateSpec::authority(TestCa::ROOT, TestCa::ROOT, ca.root_key.public(), from, to);
        path_length(&mut root, length);
        let root = Root::from_pem(&pem::encode(&root.sign(&ca.root_key), LABEL)).unwrap();
        assert_eq!(word(verify(&leaf, &[root], NOW, Usage::Client)), want, "{length}");
    }
}

// spec: CE-11
#[test]
fn a_root_is_an_authority_that_signed_itself() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let root = ca.root();
    assert_eq!(root.pem(), ca.root_pem());
    assert_eq!(root.public_key(), ca.root_key.public());
    assert_eq!(root.sha256(), Digest::of(&ca.root_der));
    assert_eq!((root.not_before(), root.not_after()), (NOW.minus(HOUR), NOW.minus(HOUR).plus(HOUR * 87_600)));
    let to = NOW.plus(HOUR);
    let mut no_ca = CertificateSpec::new(TestCa::ROOT, TestCa::ROOT, ca.root_key.public(), NOW, to);
    no_ca.extensions = ca.leaf_spec(&node, NOW).extensions;
    let by_other = CertificateSpec::authority(TestCa::ROOT, TestCa::ROOT, ca.root_key.public(), NOW, to);
    let other_issuer = CertificateSpec::authority("Other", TestCa::ROOT, ca.root_key.public(), NOW, to);
    let pem = |der: &[u8]| pem::encode(der, LABEL);
    let constrained = |critical, content: &[u8]| {
        let mut spec = CertificateSpec::authority(TestCa::ROOT, TestCa::ROOT, ca.root_key.public(), NOW, to);
        let value = sequence(&[content]);
        spec.replace(BASIC_CONSTRAINTS, Some(extension(BASIC_CONSTRAINTS, critical, &value)));
        pem(&spec.sign(&ca.root_key))
    };
    let yes = tlv(BOOLEAN, &[0xff]);
    assert!(Root::from_pem(&constrained(true, &yes)).is_ok());
    for (name, text, want) in [
        ("an authority by the way", constrained(false, &yes), "basicConstraints"),
        ("no authority, said so", constrained(true, &tlv(BOOLEAN, &[0])), "basicConstraints"),
        ("no authority, of a length", constrained(true, &tlv(INTEGER, &[1])), "basicConstraints"),
        ("no authority, not said", constrained(true, &[]), "basicConstraints"),
        ("empty", String::new(), "pem"),
        ("two", ca.root_pem().repeat(2), "pem"),
        ("too long", format!("{}{}", ca.root_pem(), "\n".repeat(ROOT_PEM_MAX)), "pem"),
        ("issuing CA", ca.issuing_pem(), "signature"),
        ("leaf", pem(&ca.leaf_spec(&node, NOW).sign(&ca.issuing_key)), "keyUsage"),
        ("self-signed leaf", pem(&no_ca.sign(&ca.root_key)), "keyUsage"),
        ("signed by another key", pem(&by_other.sign(&key(99))), "signature"),
        ("issued by another name", pem(&other_issuer.sign(&ca.root_key)), "signature"),
    ] {
        assert_eq!(Root::from_pem(&text).map_err(|error| error.field()).map(|_| ()), Err(want), "{name}");
    }
}

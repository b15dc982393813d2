//! The embedded CA against the rules every program applies.

use std::time::Duration;

use lucia_proto::base::limits::{LEAF_BACKDATE, LEAF_LIFETIME};
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::test_support::{TestCa, TestNode, hostile_leaves, key};
use x509_cert::Certificate;
use x509_cert::der::DecodePem as _;

use super::*;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

fn fleet() -> (Root, Embedded) {
    let root = make_root(NOW).unwrap();
    let issuing = make_issuing(&root, NOW).unwrap();
    let ca = Embedded::open(&issuing.pem, &issuing.key.to_pem().unwrap()).unwrap();
    (Root::from_pem(&root.pem).unwrap(), ca)
}

fn checked(node: &TestNode) -> CheckedCsr {
    csr::check(&node.csr(), &node.node_id, &node.hostname, &node.fingerprint).unwrap()
}

// spec: CE-20
#[test]
fn a_leaf_is_what_the_design_says() {
    let (root, ca) = fleet();
    let node = TestNode::new(1);
    let mut serials = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let issued = issue(&ca, &root, &checked(&node), &node.rules(), NOW).unwrap();
        let leaf = Leaf::parse(&issued.pem).unwrap().check(&node.rules()).unwrap();
        assert_eq!(issued, Issued::new(&leaf, leaf.pem()));
        assert_eq!(leaf.not_before(), NOW.minus(Duration::from_secs(300)));
        assert_eq!(leaf.not_after(), leaf.not_before().plus(Duration::from_secs(168 * 3600)));
        assert_eq!(leaf.serial().len(), 32);
        assert!(serials.insert(leaf.serial()));
        let chain = chain::verify(&leaf, std::slice::from_ref(&root), NOW, Usage::Client).unwrap();
        assert_eq!(chain.not_after(), leaf.not_after());
        assert!(chain::verify(&leaf, std::slice::from_ref(&root), NOW, Usage::Server).is_err());
    }
}

// spec: CE-21
#[test]
fn a_new_fleet_has_a_root_of_20_years_and_an_issuing_ca_of_two() {
    let (root, ca) = fleet();
    let years = |count: u64| Duration::from_secs(count * 365 * 24 * 3600);
    assert!(root.not_after() > NOW.plus(years(20)) && root.not_after() < NOW.plus(years(21)));
    assert!(ca.not_after() > NOW.plus(years(2)) && ca.not_after() < NOW.plus(years(3)));
    let node = TestNode::new(1);
    let after = ca.not_after().plus(Duration::from_secs(1));
    assert!(matches!(issue(&ca, &root, &checked(&node), &node.rules(), after), Err(CaError::Ended { .. })));
}

// spec: CE-200
#[test]
fn no_leaf_outlives_its_issuing_ca() {
    let (root, ca) = fleet();
    let node = TestNode::new(1);
    let end = ca.not_after();
    for (before, want) in [(169 * 3600, None), (168 * 3600 - 300, None), (24 * 3600, Some(end)), (0, Some(end))] {
        let now = end.minus(Duration::from_secs(before));
        let issued = issue(&ca, &root, &checked(&node), &node.rules(), now).unwrap();
        let full = now.minus(LEAF_BACKDATE).plus(LEAF_LIFETIME);
        assert_eq!(issued.not_after, want.unwrap_or(full), "{before} s before its end");
        assert!(issued.not_after <= end);
    }
    // One of another CA's is read back: a leaf of a week, of an issuing CA that ends a second before it.
    let other = TestCa::new(NOW);
    let pem = other.issue(&node, NOW);
    let leaf = Leaf::parse(&pem).unwrap().check(&node.rules()).unwrap();
    let taken = |ends: UnixTime| {
        let issuing = Issuing::read(&other.issuing_pem()).unwrap();
        issue(&Foreign(&pem, issuing, ends), &other.root(), &checked(&node), &node.rules(), NOW)
    };
    assert!(taken(leaf.not_after()).is_ok());
    assert!(matches!(taken(leaf.not_after().minus(Duration::from_secs(1))), Err(CaError::Outlives { .. })));
}

#[test]
fn a_key_of_another_ca_is_refused() {
    let root = make_root(NOW).unwrap();
    let issuing = make_issuing(&root, NOW).unwrap();
    assert!(matches!(Embedded::open(&issuing.pem, &key(5).to_pem().unwrap()), Err(CaError::Key)));
    assert!(matches!(Embedded::open("x", &key(5).to_pem().unwrap()), Err(CaError::Issuing)));
}

// spec: CE-22
#[test]
fn the_endpoint_gets_exactly_its_names() {
    let (_, ca) = fleet();
    let texts = ["controller.example", "192.0.2.7", "2001:db8::7", "other.example"];
    let names = EndpointNames::new(texts.iter().map(|text| EndpointName::parse(text).unwrap()).collect()).unwrap();
    let request = csr::endpoint_check(&csr::endpoint_build(&names, &key(9)), &names).unwrap();
    let leaf = ca.sign_server(&request.into(), LEAF_LIFETIME, NOW).unwrap();
    assert_eq!(leaf.not_after, NOW.minus(LEAF_BACKDATE).plus(LEAF_LIFETIME));
    let first = leaf.pem.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
    let certificate = Certificate::from_pem(first).unwrap();
    let usages: Vec<String> = certificate
        .tbs_certificate()
        .extensions()
        .unwrap()
        .iter()
        .filter(|extension| extension.extn_id.to_string() == "2.5.29.37")
        .map(|extension| format!("{:02x?}", extension.extn_value.as_bytes()))
        .collect();
    // SEQUENCE of the one OID 1.3.6.1.5.5.7.3.1: serverAuth.
    assert_eq!(usages, ["[30, 0a, 06, 08, 2b, 06, 01, 05, 05, 07, 03, 01]"]);
}

/// A CA that returns what it was given.
struct Foreign<'a>(&'a str, Issuing, UnixTime);

impl Ca for Foreign<'_> {
    fn sign_node(&self, _: &CheckedCsr, _: &Hostname, _: &NodeId, _: UnixTime) -> Result<PemChain, CaError> {
        Ok(PemChain { leaf: self.0.to_owned(), issuers: String::new() })
    }
    fn sign_server(&self, _: &ServerCsr, _: Duration, _: UnixTime) -> Result<ServerLeaf, CaError> {
        Err(CaError::Random)
    }
    fn not_after(&self) -> UnixTime {
        self.2
    }
    fn issuing(&self) -> &Issuing {
        &self.1
    }
    fn health(&self) -> Result<String, CaError> {
        Err(CaError::Random)
    }
    fn trust(&self) -> Trust {
        Trust::Foreign
    }
}

// spec: CE-23
#[test]
fn no_hostile_leaf_of_a_foreign_ca_is_taken() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(1));
    let csr = checked(&node);
    let issuing = Issuing::read(&ca.issuing_pem()).unwrap();
    let take = |pem: &str| {
        issue(&Foreign(pem, issuing.clone(), NOW.plus(LEAF_LIFETIME)), &ca.root(), &csr, &node.rules(), NOW)
    };
    take(&ca.issue(&node, NOW)).unwrap();
    let hostile = hostile_leaves(&ca, &node, NOW);
    assert!(hostile.len() > 30, "{}", hostile.len());
    for case in hostile {
        assert!(take(&case.pem).is_err(), "{}", case.name);
    }
}

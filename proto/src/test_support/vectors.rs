//! The golden bytes of certificates, requests, bundle and answer: `tests/vectors/certificates-v1`, never edited.
//!
//! Each is read as the program does that receives it, and, as all keys are fixed and signing is deterministic, made
//! again byte for byte. When a message grows a field, a new folder joins this one and only reading stays tested here: so
//! bundle and answer of before the bundle's first line are read alone, and those of `certificates-v2` made again.

use super::{TestCa, TestNode};
use crate::base::json;
use crate::base::limits::{ANSWER_MAX, JSON_DEPTH_MAX};
use crate::base::time::UnixTime;
use crate::node::answer::{AnswerExpectation, SignedAnswer};
use crate::pki::bundle::SignedBundle;
use crate::pki::certificate::Leaf;
use crate::pki::chain::{self, Root, Usage};
use crate::pki::csr;

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

macro_rules! vector {
    ($name:literal) => {
        include_str!(concat!("../../../tests/vectors/certificates-v1/", $name))
    };
}

// spec: CS-6
#[test]
fn requests() {
    let node = TestNode::new(7);
    let text = vector!("node.csr");
    assert_eq!(csr::build(&node.node_id, &node.hostname, &node.key), text);
    csr::check(text, &node.node_id, &node.hostname, &node.fingerprint).unwrap();

    let names = json::from_str::<Names>(vector!("endpoint-names.json"), 1024, 4).unwrap().names;
    let text = vector!("endpoint.csr");
    assert_eq!(csr::endpoint_build(&names, &super::key(9)), text);
    csr::endpoint_check(text, &names).unwrap();
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    names: crate::pki::endpoint_names::EndpointNames,
}

// spec: CE-12
#[test]
fn a_leaf_its_chain_and_its_root() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let (text, root) = (vector!("leaf-chain.pem"), vector!("root.pem"));
    assert_eq!(ca.issue(&node, NOW), text);
    assert_eq!(ca.root_pem(), root);
    let leaf = Leaf::parse(text).unwrap().check(&node.rules()).unwrap();
    chain::verify(&leaf, &[Root::from_pem(root).unwrap()], NOW, Usage::Client).unwrap();
}

macro_rules! vector_v2 {
    ($name:literal) => {
        include_str!(concat!("../../../tests/vectors/certificates-v2/", $name))
    };
}

// spec: BU-5
#[test]
fn a_bundle() {
    let (before, text) = (vector!("bundle.json"), vector_v2!("bundle.json"));
    for text in [before, text] {
        let signed: SignedBundle = json::from_str(text.trim_end(), ANSWER_MAX, JSON_DEPTH_MAX).unwrap();
        signed.verify(&Root::from_pem(vector!("root.pem")).unwrap()).unwrap();
    }
    assert_eq!(json::to_string(&TestCa::new(NOW).signed_bundle(1, NOW)).unwrap(), text.trim_end());
}

// spec: EN-4
#[test]
fn an_answer() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let (before, text) = (vector!("answer.json"), vector_v2!("answer.json"));
    assert_eq!(json::to_string(&ca.sign_answer(&ca.answer(&node, NOW))).unwrap(), text.trim_end());
    for text in [before, text] {
        accepted(text, &node);
    }
}

fn accepted(text: &str, node: &TestNode) {
    let signed: SignedAnswer = json::from_str(text.trim_end(), ANSWER_MAX, JSON_DEPTH_MAX).unwrap();
    let accepted = signed.accept(&AnswerExpectation {
        root: &Root::from_pem(vector!("root.pem")).unwrap(),
        node_id: &node.node_id,
        task_id: Some(&node.task_id),
        hostname: &node.hostname,
        fingerprint: &node.fingerprint,
        csr_sha256: &node.csr_sha256(),
        now: NOW,
        current_bundle: None,
    });
    assert_eq!(accepted.unwrap().leaf().pem(), vector!("leaf-chain.pem"));
}

use super::*;
use crate::limits::ANSWER_MAX;
use crate::test_support::{TestCa, TestNode, hostile_answers};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

/// Judges an answer as the node would that sent its CSR and has these.
fn judge(
    answer: &SignedAnswer,
    node: &TestNode,
    root: &Root,
    current_bundle: Option<&VerifiedBundle>,
) -> Result<AcceptedAnswer, AnswerError> {
    answer.accept(&AnswerExpectation {
        root,
        node_id: &node.node_id,
        task_id: Some(&node.task_id),
        hostname: &node.hostname,
        fingerprint: &node.fingerprint,
        csr_sha256: &node.csr_sha256(),
        now: NOW,
        current_bundle,
    })
}

// spec: EN-1
#[test]
fn an_answer_of_the_worker_for_this_node_is_accepted() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let signed = ca.sign_answer(&ca.answer(&node, NOW));
    let text = json::to_string(&signed).unwrap();
    assert!(text.len() <= ANSWER_MAX);
    let read: SignedAnswer = json::from_str(&text, ANSWER_MAX, 8).unwrap();
    let accepted = judge(&read, &node, &ca.root(), None).unwrap();
    assert_eq!(accepted.answer(), &ca.answer(&node, NOW));
    assert_eq!(accepted.leaf().public_key(), node.key.public());
    assert_eq!(accepted.chain().leaf_sha256(), accepted.leaf().sha256());
    assert_eq!(accepted.bundle().bundle().version, 1);
}

// spec: EN-2
#[test]
fn any_other_answer_is_refused_naming_what_is_wrong() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    for (name, field, answer) in hostile_answers(&ca, &node, NOW) {
        let verdict = judge(&answer, &node, &ca.root(), None).map(|_| ()).map_err(|error| error.field());
        assert_eq!(verdict, Err(field), "{name}");
    }
}

// spec: EN-3
#[test]
fn an_answer_never_takes_the_bundle_back() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let root = ca.root();
    let held = ca.signed_bundle(2, NOW).verify(&root).unwrap();
    let with = |version| ca.sign_answer(&Answer { bundle: ca.signed_bundle(version, NOW), ..ca.answer(&node, NOW) });
    assert!(matches!(judge(&with(1), &node, &root, Some(&held)), Err(AnswerError::Bundle(BundleError::Older { .. }))));
    assert!(judge(&with(2), &node, &root, Some(&held)).is_ok());
    assert_eq!(judge(&with(3), &node, &root, Some(&held)).unwrap().bundle().bundle().version, 3);
}

#[test]
fn a_worker_that_left_the_bundle_answers_nobody() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let mut bundle = ca.bundle(2, NOW);
    bundle.workers = vec![crate::test_support::key(60).public().to_pem()];
    let bundle = SignedBundle::sign(&bundle, &ca.root_key).unwrap();
    let answer = Answer { bundle, ..ca.answer(&node, NOW) };
    assert!(matches!(judge(&ca.sign_answer(&answer), &node, &ca.root(), None), Err(AnswerError::Signature)));
    let new_worker = SignedAnswer::sign(&answer, &crate::test_support::key(60)).unwrap();
    assert!(judge(&new_worker, &node, &ca.root(), None).is_ok());
}

#[test]
fn without_a_known_task_any_task_will_do() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let answer = Answer { task_id: TaskId::from_random([1; 16]), ..ca.answer(&node, NOW) };
    let (root, csr_sha256) = (ca.root(), node.csr_sha256());
    let expected = AnswerExpectation {
        root: &root,
        node_id: &node.node_id,
        task_id: None,
        hostname: &node.hostname,
        fingerprint: &node.fingerprint,
        csr_sha256: &csr_sha256,
        now: NOW,
        current_bundle: None,
    };
    assert!(ca.sign_answer(&answer).accept(&expected).is_ok());
}

use super::*;
use crate::base::limits::ANSWER_MAX;
use crate::node::directory::{Dn, reader_dn};
use crate::pki::sealed::Sealed;
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

// spec: EN-5
#[test]
fn a_directory_in_an_answer_is_this_nodes_own() {
    let (ca, node) = (TestCa::new(NOW), TestNode::new(7));
    let base: Dn = "dc=lucia,dc=home,dc=arpa".parse().unwrap();
    let seed = zeroize::Zeroizing::new([7; 32]);
    let password = Sealed::seal(&[b'p'; 43], node.key.public(), &node.node_id, &node.csr_sha256(), &seed).unwrap();
    let right = DirectoryAccess {
        uri: "ldaps://directory.lucia.home.arpa".parse().unwrap(),
        bind_dn: reader_dn(&node.node_id, &base).unwrap(),
        owner_group: "cn=lucia-owners,ou=Groups,dc=lucia,dc=home,dc=arpa".parse().unwrap(),
        base_dn: base.clone(),
        bind_password: password,
    };
    let field = |directory: DirectoryAccess| {
        let answer = Answer { directory: Some(directory), ..ca.answer(&node, NOW) };
        judge(&ca.sign_answer(&answer), &node, &ca.root(), None).map(|_| ()).map_err(|error| error.field())
    };
    assert_eq!(field(right.clone()), Ok(()));
    let others = reader_dn(&TestNode::new(8).node_id, &base).unwrap();
    for (wrong, directory) in [
        ("ldapBindDn", DirectoryAccess { bind_dn: others, ..right.clone() }),
        (
            "ldapBindDn",
            DirectoryAccess { bind_dn: format!("cn=admin,{}", base.as_str()).parse().unwrap(), ..right.clone() },
        ),
        ("ldapBindDn", DirectoryAccess { base_dn: "dc=other".parse().unwrap(), ..right.clone() }),
        ("ownerGroupDn", DirectoryAccess { owner_group: "cn=all,dc=other".parse().unwrap(), ..right.clone() }),
    ] {
        assert_eq!(field(directory), Err(wrong));
    }
}

// spec: EN-6
#[test]
fn a_roster_in_an_answer_is_a_workers_of_this_fleet() {
    let (world, node) = (crate::test_support::OrderWorld::new(NOW), TestNode::new(7));
    let with =
        |roster: &VerifiedRoster| Answer { roster: Some(roster.signed().clone()), ..world.ca.answer(&node, NOW) };
    let good = world.ca.sign_answer(&with(&world.roster));
    let accepted = judge(&good, &node, &world.ca.root(), None).unwrap();
    assert_eq!(accepted.roster().map(VerifiedRoster::signed), Some(world.roster.signed()));
    let text = json::to_string(&good).unwrap();
    assert!(text.len() <= ANSWER_MAX);
    let other = crate::test_support::key(60);
    let forged = SignedRoster::sign(world.roster.roster(), &other).unwrap();
    let foreign = crate::orders::roster::Roster { fleet: Digest::of(b"another"), ..world.roster.roster().clone() };
    let foreign = SignedRoster::sign(&foreign, &world.ca.worker_key).unwrap();
    for roster in [forged, foreign] {
        let answer = Answer { roster: Some(roster), ..world.ca.answer(&node, NOW) };
        let refused = judge(&world.ca.sign_answer(&answer), &node, &world.ca.root(), None);
        assert_eq!(refused.map(|_| ()).map_err(|error| error.field()), Err("roster"));
    }
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

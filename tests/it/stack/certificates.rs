//! Group C: certificates and requests for them.

use std::path::Path;

use lucia_proto::base::code::Code;
use lucia_proto::base::limits::BODY_MAX;
use lucia_proto::base::pem;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::pki::key::NodeKey;
use lucia_proto::test_support::{TestCa, TestNode, hostile_csrs, hostile_leaves};
use lucia_tests::sim::SimNode;

use super::{Reply, Stack, approved, open_window};

/// The fleet's own CA, as somebody has it who stole the worker's keys: so that every leaf is wrong in one part alone.
pub(super) fn stolen_ca(worker: &Path) -> TestCa {
    let read = |name: &str| std::fs::read_to_string(worker.join(name)).unwrap();
    let key = |name: &str| NodeKey::from_pem(&read(name)).unwrap();
    let der = |name: &str| pem::one(&read(name), "CERTIFICATE", usize::MAX).unwrap();
    TestCa {
        root_key: key("ca/root.key"),
        issuing_key: key("ca/issuing.key"),
        worker_key: key("worker.key"),
        root_der: der("ca/root.pem"),
        issuing_der: der("ca/issuing.pem"),
    }
}

/// A simulated node in the words of the tests' CA.
pub(super) fn test_node(node: &SimNode, task: &lucia_proto::base::ids::TaskId) -> TestNode {
    let fingerprint = node.key.public().fingerprint();
    TestNode {
        key: NodeKey::from_pem(&node.key.to_pem().unwrap()).unwrap(),
        node_id: fingerprint.node_id(),
        fingerprint,
        hostname: node.hostname.clone(),
        task_id: task.clone(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the programs under test have the real time of day")]
pub(super) fn now() -> UnixTime {
    UnixTime::from_secs(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
}

/// The connection ended over a body that nobody reads whole.
fn is_cut(reply: &Reply, pem: &str) -> bool {
    reply.status == 0 && pem.len() > BODY_MAX
}

fn asking(node: &TestNode, purpose: &str, csr: &str) -> String {
    let csr = serde_json::to_string(csr).unwrap();
    format!(r#"{{"nodeId":"{}","purpose":"{purpose}","taskId":"{}","csrPem":{csr}}}"#, node.node_id, node.task_id)
}

// spec: TS-63
#[tokio::test]
async fn group_c_no_hostile_leaf_opens_a_call() {
    let Some(mut stack) = Stack::up("stack-leaves").await else { return };
    let node = test_node(&stack.nodes[0], &stack.task);
    let ca = stolen_ca(&stack.site.dir.path().join("worker"));
    let before = stack.files();
    let mut stranger = stack.stranger().await;
    let renew = asking(&node, "renew", &node.csr());
    let rows = hostile_leaves(&ca, &node, now());
    assert!(rows.len() > 60, "{}", rows.len());
    for row in rows {
        for (call, report) in [(Endpoint::Heartbeat, &stack.beat), (Endpoint::Renew, &renew)] {
            // "Over" is what renewal is for; every other fault is one there as well.
            if call == Endpoint::Renew && row.field == "expired" {
                continue;
            }
            let challenge = stranger.challenge(&node.node_id).await;
            let proof = stack.prove(&node.key, &challenge, report);
            let reply = stranger.show(call, &node.node_id, &row.pem, proof).await;
            let refused = matches!(
                (reply.status, reply.code()),
                (403, Some(Code::NodeIdentityInvalid))
                    | (400, Some(Code::InvalidBody))
                    | (413, Some(Code::BodyTooLarge))
            ) || is_cut(&reply, &row.pem);
            assert!(refused, "{} at {call:?}: {reply:?}", row.name);
        }
    }
    stack.is_unchanged(&before);
    stack.is_well().await;
}

// spec: TS-63
#[tokio::test]
async fn group_c_no_hostile_csr_becomes_a_request() {
    let Some(mut stack) = Stack::up("stack-csrs").await else { return };
    open_window(&stack.site);
    let (sim, task) = approved(&stack.site, &stack.target, 3).await;
    let node = test_node(&sim, &task);
    stack.restart().await;
    let before = stack.files();
    let mut stranger = stack.stranger().await;
    let rows = hostile_csrs(&node);
    assert!(rows.len() > 40, "{}", rows.len());
    for row in rows {
        let challenge = stranger.challenge(&node.node_id).await;
        let proof = stack.prove(&node.key, &challenge, &asking(&node, "enroll", &row.pem));
        let reply = stranger.show(Endpoint::Enroll, &node.node_id, "", proof).await;
        let refused = matches!(
            (reply.status, reply.code()),
            (409, Some(Code::EnrollmentMismatch)) | (400, Some(Code::InvalidBody)) | (413, Some(Code::BodyTooLarge))
        ) || is_cut(&reply, &row.pem);
        assert!(refused, "{}: {reply:?}", row.name);
        tokio::time::sleep(std::time::Duration::from_millis(110)).await;
    }
    stack.is_unchanged(&before);
    // And its own is taken, by controller and worker.
    for _ in 0..100 {
        let challenge = stranger.challenge(&node.node_id).await;
        let proof = stack.prove(&node.key, &challenge, &asking(&node, "enroll", &node.csr()));
        let reply = stranger.show(Endpoint::Enroll, &node.node_id, "", proof).await;
        match reply.status {
            200 => return stack.is_well().await,
            202 => tokio::time::sleep(std::time::Duration::from_millis(150)).await,
            _ => panic!("{reply:?}"),
        }
    }
    panic!("its own request was not answered: {}", stack.said());
}

//! The programs as they are built, over TLS on loopback, called by a second reading of the protocol (`lucia_tests::sim`).
//!
//! One short story in real time: what the benchmark stands on, and that nothing of the other stories rests on the seams
//! they use. `cargo test -p lucia-tests` alone builds no programs, so the story builds on those that lie beside the test:
//! `make test` builds all of them first.

use std::path::PathBuf;
use std::time::Duration;

use lucia_proto::base::code::{Code, ErrorBody};
use lucia_proto::calls::Endpoint;
use lucia_proto::node::report::Proof;
use lucia_tests::programs::{CONTROLLER_NAME, Site};
use lucia_tests::sim::{Answer, SimNode, Target};

fn code(answer: &Answer) -> Option<Code> {
    serde_json::from_slice::<ErrorBody>(&answer.body).ok().map(|body| body.error.code)
}

/// The directory of the built programs, if they are there.
pub(crate) fn programs() -> Option<PathBuf> {
    // target/debug/deps/it-...: two up.
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().unwrap().parent().unwrap().to_owned();
    let needed = ["lucia-controller", "lucia-enrollment-worker", "luciactl"];
    needed.iter().all(|name| dir.join(name).is_file()).then_some(dir)
}

/// Notes that the story was skipped, where `make test` counts such notes.
pub(crate) fn skip(name: &str, why: &str) {
    let notes = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/test-skips");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join(name), format!("{name}: {why}\n")).unwrap();
}

/// Three machines, from discovery to heartbeats; and what was accepted once is refused the second time.
// spec: TS-28
#[tokio::test]
async fn three_nodes_join_the_built_programs_and_no_heartbeat_counts_twice() {
    let Some(bin) = programs() else {
        skip("second", "no built programs beside this test; `make test` builds them first");
        return;
    };
    let site = Site::lay(&bin, "second", 64, "journal").unwrap();
    let (worker, controller) = site.up().await.unwrap();
    site.ctl(&["window", "open", "--minutes", "10"]).unwrap();
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    for number in 1..=3 {
        let mut node = SimNode::connect(&target, number).await.unwrap();
        node.discover().await.unwrap();
        let fingerprint = node.key.public().fingerprint();
        let (shown, fingerprint) = (fingerprint.verification_code().to_string(), fingerprint.to_string());
        let hostname = node.hostname.to_string();
        let approval =
            ["approve", &shown, "--fingerprint", &fingerprint, "--hostname", &hostname, "--disk", "sim-disk"];
        site.ctl(&[&approval[..], &["--yes"]].concat()).unwrap();
        let task = node.install().await.unwrap();
        let mut tries = 0;
        while !node.enroll(&task).await.unwrap() {
            tries += 1;
            assert!(tries < 100, "no certificate\n{}\n{}", worker.said(), controller.said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for _ in 0..3 {
            let answer = node.heartbeat().await.unwrap();
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        }
        let report = node.report().unwrap();
        let proof: Proof = node.sign(&report, Endpoint::NodeChallenge).await.unwrap();
        assert_eq!(node.node_call(Endpoint::Heartbeat, proof.clone()).await.unwrap().status, 200);
        let again = node.node_call(Endpoint::Heartbeat, proof).await.unwrap();
        assert_eq!(code(&again), Some(Code::ChallengeRefused), "node {number}");
    }
    let nodes = site.ctl(&["nodes", "--json"]).unwrap();
    let nodes: serde_json::Value = serde_json::from_slice(&nodes.stdout).unwrap();
    let states: Vec<_> =
        nodes["nodes"].as_array().unwrap().iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["Online"; 3]);
}

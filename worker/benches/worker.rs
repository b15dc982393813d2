//! The worker's two figures: CSR to signed leaf in V, and requests a second through the queue with a durable ledger.
//!
//! V is the CPU time of one raw P-256 verify of the same library on the same machine, measured right before and after
//! each sample; a sample whose two V differ by over 12 % is dropped and counted.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot go on may stop anywhere"
)]

#[path = "../src/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod fixture;

use std::time::Duration;

use fixture::{Controller, Scratch};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::csr;
use lucia_proto::test_support::{TestNode, key};
use lucia_worker::ca::{Embedded, issue, make_issuing, make_root};
use lucia_worker::config::Settings;
use lucia_worker::init::init;
use lucia_worker::turn::Worker;
use nix::time::{ClockId, clock_gettime};

const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);
const ROUNDS: u32 = 200;

fn clock(id: ClockId) -> f64 {
    Duration::from(clock_gettime(id).unwrap()).as_secs_f64()
}

/// CPU seconds of one run of `act`, the mean of [`ROUNDS`].
fn cpu(mut act: impl FnMut()) -> f64 {
    let start = clock(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    for _ in 0..ROUNDS {
        act();
    }
    (clock(ClockId::CLOCK_PROCESS_CPUTIME_ID) - start) / f64::from(ROUNDS)
}

fn line(name: &str, value: f64, unit: &str, goal: &str, is_ok: bool) {
    println!("{name:<44} {value:>8.2} {unit:<4} goal {goal:<12} {}", if is_ok { "ok" } else { "MISS" });
}

fn csr_to_leaf() {
    let root = make_root(NOW).unwrap();
    let issuing = make_issuing(&root, NOW).unwrap();
    let ca = Embedded::open(&issuing.pem, &issuing.key.to_pem().unwrap()).unwrap();
    let root = lucia_proto::pki::chain::Root::from_pem(&root.pem).unwrap();
    let node = TestNode::new(1);
    let text = node.csr();
    let signer = key(7);
    let signature = signer.sign(b"a raw verify");
    let mut verify = || signer.public().verify(b"a raw verify", &signature).unwrap();
    let mut samples = Vec::new();
    let mut dropped = 0;
    for _ in 0..30 {
        let before = cpu(&mut verify);
        let cost = cpu(|| {
            let csr = csr::check(&text, &node.node_id, &node.hostname, &node.fingerprint).unwrap();
            issue(&ca, &root, &csr, &node.rules(), NOW).unwrap();
        });
        let after = cpu(&mut verify);
        if (before - after).abs() > 0.12 * before.min(after) {
            dropped += 1;
        } else {
            samples.push(2.0 * cost / (before + after));
        }
    }
    samples.sort_by(f64::total_cmp);
    let median = samples.get(samples.len() / 2).copied().expect("every sample was dropped; run it again");
    line(&format!("worker: CSR to signed leaf ({dropped} dropped)"), median, "V", "<= 2.2", median <= 2.2);
}

fn through_the_queue() {
    let scratch = Scratch::new();
    let mut controller = Controller::new(&scratch.path().join("controller"), NOW);
    let nodes: Vec<TestNode> = (1..=120).map(TestNode::new).collect();
    for node in &nodes {
        let (device, task) = fixture::rows(node, NOW);
        controller.journal.devices.push(device);
        controller.journal.tasks.push(task);
    }
    controller.write_journal();
    let settings =
        controller.settings(&scratch.path().join("worker"), "admission = \"journal\"\nnew-nodes-per-hour = 200");
    let config = Settings::parse(&settings).unwrap().resolve().unwrap();
    init(&config, NOW).unwrap();
    let mut worker = Worker::open(config).unwrap();
    let mut rates = Vec::new();
    for round in 0..5_u64 {
        // Two days apart, so that each round signs anew.
        let now = NOW.plus(Duration::from_secs(round * 2 * 24 * 3600));
        for row in &mut controller.journal.tasks {
            row.grant.as_mut().unwrap().progress_expires_at = now.plus(Duration::from_secs(7200));
        }
        controller.write_journal();
        for node in &nodes {
            controller.put_request(&fixture::request(node, now.plus(Duration::from_secs(600))));
        }
        let start = clock(ClockId::CLOCK_MONOTONIC);
        let mut issued = 0;
        while {
            let summary = worker.turn(now).unwrap();
            issued += summary.issued;
            summary.more
        } {}
        assert_eq!(issued, nodes.len());
        rates.push(f64::from(u32::try_from(issued).unwrap()) / (clock(ClockId::CLOCK_MONOTONIC) - start));
    }
    rates.sort_by(f64::total_cmp);
    line("worker: requests through the queue", rates[rates.len() / 2], "/s", ">= 170", rates[rates.len() / 2] >= 170.0);
    println!("  rounds: {}", rates.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(" "));
}

fn main() {
    csr_to_leaf();
    through_the_queue();
}

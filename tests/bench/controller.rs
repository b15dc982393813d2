//! What a heartbeat, a refusal and a connected node cost the controller.

use std::path::Path;
use std::time::Duration;

use lucia_proto::api::Endpoint;
use lucia_tests::sim::Failure;

use crate::cost::{self, Meter};
use crate::figures::{Figures, Goal};
use crate::site::Driver;

/// Nodes of the memory figure; the cost figures use the same ones.
const NODES: u32 = 500;
/// A second must pass before a node may prove itself ten times again.
const SECOND: Duration = Duration::from_millis(1050);

pub(crate) fn measure(bin: &Path, quick: bool, figures: &mut Figures) -> Result<(), Failure> {
    let driver = Driver::up(bin, NODES)?;
    let meter = Meter::new()?;

    // The first heartbeat after a start builds the chain once; from then on the verdict is kept.
    sample(&driver, Round::Beat)?;
    let operations = counters(&driver)?;
    let steady = meter.cost(|| sample(&driver, Round::Beat))?;
    figures.add("heartbeat, challenge in the former answer", steady.v, "V", Goal::Most(1.8));
    figures.note(&format!("stretch 1.6 V; {} samples dropped for uneven speed", steady.dropped));
    let after = counters(&driver)?;
    let each = (after.0 - operations.0) / (after.1 - operations.1).max(1.0);
    figures.add("public-key operations a steady heartbeat", each, "", Goal::Exactly(1.0));

    let two_trips = meter.cost(|| sample(&driver, Round::Anew))?;
    figures.add("heartbeat by GET challenge and POST", two_trips.v, "V", Goal::Most(2.0));

    let operations = counters(&driver)?;
    let refused = meter.cost(|| sample(&driver, Round::Refused))?;
    figures.add("refused challenge", refused.v, "V", Goal::Most(0.4));
    let after = counters(&driver)?;
    // Each round spends one proof to have one that is spent: that heartbeat's operation is not a refusal's.
    let spent = (after.0 - operations.0) - (after.1 - operations.1);
    figures.add("public-key operations in all those refusals", spent, "", Goal::Exactly(0.0));

    memory(&driver, quick, figures)
}

/// What one sample does with every node: one round.
#[derive(Clone, Copy)]
enum Round {
    Beat,
    Anew,
    Refused,
}

/// One call of every node, one after the other, and the controller's CPU time for all of them.
fn sample(driver: &Driver, round: Round) -> Result<(u32, Duration), Failure> {
    let pid = driver.controller;
    driver.drive(move |runtime, fleet| {
        runtime.block_on(async {
            if !matches!(round, Round::Beat) {
                tokio::time::sleep(SECOND).await;
            }
            let mut used = None;
            let before = cost::process_time(pid)?;
            for node in &mut fleet.nodes {
                match round {
                    Round::Beat => succeed(node.heartbeat().await?.status.as_u16())?,
                    Round::Anew => {
                        node.forget_challenge();
                        succeed(node.heartbeat().await?.status.as_u16())?;
                    }
                    Round::Refused => {
                        if used.is_none() {
                            // A proof that was spent: every later sending is refused by its challenge alone.
                            let report = node.report()?;
                            let proof = node.sign(&report, Endpoint::NodeChallenge).await?;
                            succeed(node.node_call(Endpoint::Heartbeat, proof.clone()).await?.status.as_u16())?;
                            used = Some(proof);
                        }
                        let proof = used.clone().ok_or("set above")?;
                        let status = node.node_call(Endpoint::Heartbeat, proof).await?.status.as_u16();
                        if status != 401 {
                            return Err(format!("a spent proof was answered with {status}").into());
                        }
                    }
                }
            }
            let spent = cost::process_time(pid)? - before;
            Ok((u32::try_from(fleet.nodes.len())?, spent))
        })
    })
}

fn succeed(status: u16) -> Result<(), Failure> {
    if status == 200 { Ok(()) } else { Err(format!("a heartbeat was answered with {status}").into()) }
}

/// Public-key operations and accepted heartbeats since the controller's start.
fn counters(driver: &Driver) -> Result<(f64, f64), Failure> {
    driver.drive(|_, fleet| {
        let output = fleet.site.ctl(&["status", "--json"])?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| status.pointer(name).and_then(serde_json::Value::as_f64).ok_or("no such counter");
        Ok((number("/counters/publicKeyOperations")?, number("/counters/heartbeats")?))
    })
}

/// Memory of a node with its connection and an hour of samples, then five minutes more of the same.
fn memory(driver: &Driver, quick: bool, figures: &mut Figures) -> Result<(), Failure> {
    for _ in 0..200 {
        sample(driver, Round::Beat)?;
    }
    let full = cost::resident(driver.controller)?;
    #[expect(clippy::cast_precision_loss, reason = "bytes of one process are far below 2^53")]
    let each = (full.saturating_sub(driver.resident_empty)) as f64 / f64::from(NODES) / 1000.0;
    figures.add("memory a node, connection and an hour of samples", each, "kB", Goal::Most(40.0));
    let rounds = if quick { 10 } else { 100 };
    for _ in 0..rounds {
        driver.drive(|runtime, _| {
            runtime.block_on(async { tokio::time::sleep(Duration::from_secs(3)).await });
            Ok(())
        })?;
        sample(driver, Round::Beat)?;
    }
    let later = cost::resident(driver.controller)?;
    #[expect(clippy::cast_precision_loss, reason = "bytes of one process are far below 2^53")]
    let growth = later.saturating_sub(full) as f64 / 1e6;
    figures.add(&format!("growth in {} s of heartbeats after that", rounds * 3), growth, "MB", Goal::Most(0.5));
    Ok(())
}

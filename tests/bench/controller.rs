//! What a heartbeat, a refusal and a connected node cost the controller.

use std::path::Path;
use std::time::Duration;

use lucia_proto::calls::Endpoint;
use lucia_proto::node::report::Proof;
use lucia_tests::sim::{Answer, Failure, SimNode};
use tokio::task::JoinSet;

use crate::cost::{self, Meter};
use crate::figures::{Figures, Goal};
use crate::site::{Driver, Fleet};

/// Nodes of the memory figure; the cost figures use the same ones.
const NODES: u32 = 500;
/// A second must pass before a node may prove itself ten times again.
const SECOND: Duration = Duration::from_millis(1050);

pub(crate) fn measure(bin: &Path, quick: bool, figures: &mut Figures) -> Result<(), Failure> {
    let driver = Driver::enrolled(bin, NODES)?;
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

    let lone = meter.cost(|| alone(&driver))?;
    figures.note(&format!("{:.2} V when each arrives alone: the rest is waking the program up", lone.v));

    let two_trips = meter.cost(|| sample(&driver, Round::Anew))?;
    figures.add("heartbeat by GET challenge and POST", two_trips.v, "V", Goal::Most(2.0));

    let operations = counters(&driver)?;
    let spent = Box::new(driver.drive(|runtime, fleet| runtime.block_on(spend(fleet)))?);
    let refused = meter.cost(|| sample(&driver, Round::Refused(spent.clone())))?;
    figures.add("refused challenge", refused.v, "V", Goal::Most(0.4));
    let after = counters(&driver)?;
    // The one proof that was spent for them was a heartbeat: its operation is not a refusal's.
    let spent = (after.0 - operations.0) - (after.1 - operations.1);
    figures.add("public-key operations in all those refusals", spent, "", Goal::Exactly(0.0));

    memory(&driver, quick, figures)
}

/// What one sample does with every node: one round.
#[derive(Clone)]
enum Round {
    /// A heartbeat over the challenge of the former answer.
    Beat,
    /// A heartbeat over a challenge asked for.
    Anew,
    /// This proof from every node: its challenge was used.
    Refused(Box<Proof>),
}

/// One call of every node, and the controller's CPU time for all of them.
///
/// Everything is signed before, and then sent at once: what is measured is a controller at work, and not how dear it is
/// on this machine to wake one up. What a call costs that comes alone is a figure of its own.
fn sample(driver: &Driver, round: Round) -> Result<(u32, Duration), Failure> {
    let pid = driver.controller;
    driver.drive(move |runtime, fleet| {
        runtime.block_on(async {
            let mut spent = Duration::ZERO;
            if matches!(round, Round::Anew) {
                tokio::time::sleep(SECOND).await;
            }
            if matches!(round, Round::Anew) {
                fleet.nodes.iter_mut().for_each(SimNode::forget_challenge);
                spent +=
                    together(pid, fleet, |mut node| async move { node.hold_challenge().await.map(|()| node) }).await?;
            }
            let mut proofs = Vec::new();
            if let Round::Refused(spent) = &round {
                proofs.resize(fleet.nodes.len(), (**spent).clone());
            } else {
                for node in &mut fleet.nodes {
                    let report = node.report()?;
                    proofs.push(node.sign(&report, Endpoint::NodeChallenge).await?);
                }
            }
            let wanted = if matches!(round, Round::Refused(_)) { 401 } else { 200 };
            let mut proofs = proofs.into_iter();
            spent += together(pid, fleet, |mut node| {
                let proof = proofs.next();
                async move {
                    let proof = proof.ok_or("one proof a node")?;
                    answered(&node.node_call(Endpoint::Heartbeat, proof).await?, wanted)?;
                    Ok(node)
                }
            })
            .await?;
            Ok((u32::try_from(fleet.nodes.len())?, spent))
        })
    })
}

/// Has every node do `call` at once; gives the controller's CPU time from the first to the last of them.
async fn together<F>(pid: i32, fleet: &mut Fleet, mut call: impl FnMut(SimNode) -> F) -> Result<Duration, Failure>
where
    F: Future<Output = Result<SimNode, Failure>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for node in fleet.nodes.drain(..) {
        calls.spawn(call(node));
    }
    let before = cost::process_time(pid)?;
    while let Some(node) = calls.join_next().await {
        fleet.nodes.push(node??);
    }
    Ok(cost::process_time(pid)? - before)
}

/// A proof that was spent: every later sending is refused by its challenge alone.
async fn spend(fleet: &mut Fleet) -> Result<Proof, Failure> {
    let node = fleet.nodes.first_mut().ok_or("a fleet without nodes")?;
    let report = node.report()?;
    let proof = node.sign(&report, Endpoint::NodeChallenge).await?;
    answered(&node.node_call(Endpoint::Heartbeat, proof.clone()).await?, 200)?;
    Ok(proof)
}

/// One heartbeat of every node, each sent when the former was answered.
fn alone(driver: &Driver) -> Result<(u32, Duration), Failure> {
    let pid = driver.controller;
    driver.drive(move |runtime, fleet| {
        runtime.block_on(async {
            let before = cost::process_time(pid)?;
            for node in &mut fleet.nodes {
                answered(&node.heartbeat().await?, 200)?;
            }
            Ok((u32::try_from(fleet.nodes.len())?, cost::process_time(pid)? - before))
        })
    })
}

fn answered(answer: &Answer, wanted: u16) -> Result<(), Failure> {
    let status = answer.status.as_u16();
    if status == wanted { Ok(()) } else { Err(format!("a call was answered with {status}, not {wanted}").into()) }
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

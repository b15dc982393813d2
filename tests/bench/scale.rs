//! What a restart costs with thousands of nodes, and what thousands cost that only live.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::limits::HEARTBEAT_INTERVAL;
use lucia_tests::sim::{Failure, SimNode};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cost::{self, Meter};
use crate::figures::{Figures, Goal};
use crate::life::{Beat, Lives};
use crate::site::{Driver, Fleet, Layout};

/// Nodes that come back all at once.
const RETURNING: u32 = 2000;
/// How many of those are on their way at one time: they would be turned away for slowness that is the driver's own.
const AT_ONCE: usize = 100;
/// Nodes that live.
const LIVING: u32 = 5000;
/// What a node's samples are kept for.
const HOUR: Duration = Duration::from_secs(3600);
/// Until every node has spoken once.
const WARM: Duration = Duration::from_secs(35);
/// How long they are watched.
const WATCHED: Duration = Duration::from_secs(60);

pub(crate) fn measure(bin: &Path, quick: bool, figures: &mut Figures) -> Result<(), Failure> {
    returning(bin, figures)?;
    living(bin, quick, figures)
}

/// Everybody's return to a controller that was started anew: handshake, challenge, the chain, a heartbeat.
fn returning(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let driver = Driver::laid(bin, RETURNING, Layout::OneAddress)?;
    let meter = Meter::new()?;
    let mut costs = Vec::new();
    let mut failed = 0;
    for _ in 0..5 {
        let before = meter.v()?;
        let (spent, failures) = driver.drive(|runtime, fleet| runtime.block_on(come_back(fleet)))?;
        let after = meter.v()?;
        costs.push(spent.as_secs_f64() / f64::from(RETURNING) / ((before + after) / 2.0));
        failed += failures;
    }
    costs.sort_by(f64::total_cmp);
    let median = costs.get(costs.len() / 2).copied().ok_or("no return")?;
    figures.add("return of 2,000 nodes after a restart, a node", median, "V", Goal::Most(9.0));
    figures.add("calls that failed in five such returns", f64::from(failed), "", Goal::Exactly(0.0));
    Ok(())
}

/// The controller's CPU time from its start until every node was heard, and how many were not.
async fn come_back(fleet: &mut Fleet) -> Result<(Duration, u32), Failure> {
    fleet.restart().await?;
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut calls = JoinSet::new();
    for node in fleet.nodes.drain(..) {
        let room = Arc::clone(&room);
        calls.spawn(async move {
            let _place = room.acquire_owned().await;
            again(node).await
        });
    }
    let mut failures = 0;
    while let Some(done) = calls.join_next().await {
        let (node, heard) = done?;
        failures += u32::from(!heard);
        fleet.nodes.push(node);
    }
    Ok((cost::process_time(fleet.controller.pid())?, failures))
}

async fn again(mut node: SimNode) -> (SimNode, bool) {
    node.forget_challenge();
    let heard = match node.reconnect().await {
        Ok(()) => node.heartbeat().await.is_ok_and(|answer| answer.status.is_success()),
        Err(_) => false,
    };
    (node, heard)
}

/// What one watch gave.
struct Watched {
    beats: Vec<Beat>,
    spent: Duration,
    from: Instant,
}

fn living(bin: &Path, quick: bool, figures: &mut Figures) -> Result<(), Failure> {
    let driver = Driver::laid(bin, LIVING, Layout::OneAddress)?;
    let meter = Meter::new()?;
    if quick {
        figures.note("memory with an hour of samples takes minutes: run without QUICK=1");
    } else {
        driver.drive(|runtime, fleet| runtime.block_on(fill(fleet)))?;
    }

    let before = meter.v()?;
    let watched = driver.drive(|runtime, fleet| runtime.block_on(watch(fleet, false)))?;
    let v = f64::midpoint(before, meter.v()?);
    let heard = u32::try_from(watched.beats.iter().filter(|beat| beat.accepted).count())?;
    let each = watched.spent.as_secs_f64() / f64::from(heard.max(1)) / v;
    figures.add("heartbeat of 5,000 nodes, each every 30 s", each, "V", Goal::Most(4.5));
    let mut took: Vec<f64> = watched.beats.iter().map(|beat| beat.took.as_secs_f64() * 1e3).collect();
    took.sort_by(f64::total_cmp);
    let p99 = took.get(took.len() * 99 / 100).copied().ok_or("no heartbeat")?;
    figures.add("its answer, 99th percentile", p99, "ms", Goal::Most(10.0));
    let unheard = watched.beats.len() - usize::try_from(heard)?;
    figures.note(&format!("{heard} heartbeats in {} s, {unheard} failed; signing is in that time", WATCHED.as_secs()));
    if !quick {
        let resident = cost::resident(driver.controller)?.saturating_sub(driver.resident_empty);
        #[expect(clippy::cast_precision_loss, reason = "bytes of one process are far below 2^53")]
        let each = resident as f64 / f64::from(LIVING) / 1000.0;
        figures.add("memory a node of 5,000, connection and samples", each, "kB", Goal::Most(40.0));
    }

    let watched = driver.drive(|runtime, fleet| runtime.block_on(watch(fleet, true)))?;
    let (last, busiest, unheard) = freshness(&watched, usize::try_from(LIVING)?);
    figures.add("after a restart, the last of 5,000 nodes fresh", last, "s", Goal::Most(60.0));
    figures.add("busiest second of that minute, of the mean", busiest, "", Goal::Most(3.0));
    figures.note(&format!("{unheard} calls failed while the controller was away"));
    Ok(())
}

/// An hour of samples for everybody, as fast as nodes may speak.
async fn fill(fleet: &mut Fleet) -> Result<(), Failure> {
    for _ in 0..HOUR.as_secs() / HEARTBEAT_INTERVAL.as_secs() {
        for node in &mut fleet.nodes {
            let answer = node.heartbeat().await?;
            if !answer.status.is_success() {
                return Err(format!("a heartbeat was answered with {}", answer.status).into());
            }
        }
    }
    Ok(())
}

/// Lets everybody live for a minute; with `restart`, the controller ends and starts at its beginning.
async fn watch(fleet: &mut Fleet, restart: bool) -> Result<Watched, Failure> {
    let lives = Lives::begin(std::mem::take(&mut fleet.nodes), WARM + WATCHED + Duration::from_secs(5));
    sleep(WARM).await;
    let from = Instant::now();
    let before = if restart {
        fleet.restart().await?;
        Duration::ZERO
    } else {
        cost::process_time(fleet.controller.pid())?
    };
    sleep_until(from + WATCHED).await;
    let until = Instant::now();
    let spent = cost::process_time(fleet.controller.pid())? - before;
    let (nodes, beats) = lives.end().await?;
    fleet.nodes = nodes;
    let beats = beats.into_iter().filter(|beat| beat.at >= from && beat.at < until).collect();
    Ok(Watched { beats, spent, from })
}

/// Seconds until the last node was heard again, the busiest second over the mean one, and the calls that failed.
fn freshness(watched: &Watched, nodes: usize) -> (f64, f64, usize) {
    let mut first: Vec<Option<Duration>> = vec![None; nodes];
    let mut seconds = vec![0_u32; usize::try_from(WATCHED.as_secs()).unwrap_or_default() + 1];
    let mut unheard = 0;
    for beat in &watched.beats {
        let after = beat.at - watched.from;
        if !beat.accepted {
            unheard += 1;
            continue;
        }
        if let Some(seen) = first.get_mut(beat.node) {
            seen.get_or_insert(after);
        }
        if let Some(count) = usize::try_from(after.as_secs()).ok().and_then(|at| seconds.get_mut(at)) {
            *count += 1;
        }
    }
    let last = first.iter().map(|seen| seen.map_or(f64::INFINITY, |after| after.as_secs_f64())).fold(0.0, f64::max);
    let mean = f64::from(LIVING) / HEARTBEAT_INTERVAL.as_secs_f64();
    let busiest = f64::from(seconds.iter().copied().max().unwrap_or_default()) / mean;
    (last, busiest, unheard)
}

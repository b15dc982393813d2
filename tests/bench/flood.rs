//! What known nodes lose while strangers flood the controller (threats.md, actor L): nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::Challenge;
use lucia_tests::sim::{Failure, SimNode, Target};
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::cost;
use crate::figures::{Figures, Goal};
use crate::life::Lives;
use crate::site::{Driver, Fleet, Layout};

/// Nodes beside the flood.
const NODES: u32 = 1000;
/// Until each has spoken.
const WARM: Duration = Duration::from_secs(35);
/// How long the flood lasts.
const FLOOD: Duration = Duration::from_secs(60);
/// Until the controller has closed what the flood left.
const AFTER: Duration = Duration::from_secs(20);
/// Connections of the one address that asks for challenges, and how often each asks.
const ASKING: u32 = 40;
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Addresses that only connect, and connections of each.
const IDLING: u8 = 50;
const IDLE_EACH: u32 = 200;
/// Pause before a closed connection is opened again.
const PAUSE: Duration = Duration::from_secs(5);

/// What the flood did.
#[derive(Default)]
struct Counters {
    answered: AtomicU32,
    refused: AtomicU32,
    opened: AtomicU32,
}

pub(crate) fn measure(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let driver = Driver::laid(bin, NODES, Layout::OwnAddresses)?;
    let once = || driver.drive(|runtime, fleet| runtime.block_on(flood(fleet)));
    // What the first one's connections took at once stays with the allocator; what a flood leaves shows in the second.
    let (missed_before, _, taken, _) = once()?;
    let (missed, heard, grown, counters) = once()?;
    let missed = missed_before + missed;
    figures.add("heartbeats that 1,000 nodes missed in two floods", f64::from(missed), "", Goal::Exactly(0.0));
    figures.add("growth over the second flood", grown, "MiB", Goal::Most(1.0));
    let of = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    figures.note(&format!(
        "the first flood's connections took {taken:.1} MiB, which the allocator keeps for the next; of the second: \
         {heard} heartbeats; in {} s {} challenges were given and {} asked in vain, {} idle connections opened",
        FLOOD.as_secs(),
        of(&counters.answered),
        of(&counters.refused),
        of(&counters.opened)
    ));
    Ok(())
}

/// Heartbeats that failed, heartbeats that did not, the controller's growth in MiB, and what the flood did.
async fn flood(fleet: &mut Fleet) -> Result<(u32, u32, f64, Arc<Counters>), Failure> {
    let pid = fleet.controller.pid();
    let lives = Lives::begin(std::mem::take(&mut fleet.nodes), WARM + FLOOD + AFTER);
    sleep(WARM).await;
    let before = cost::resident(pid)?;
    let (counters, end) = (Arc::new(Counters::default()), Instant::now() + FLOOD);
    let mut strangers = JoinSet::new();
    let source = |net: u8, host: u8| fleet.target.from_source(IpAddr::V4(Ipv4Addr::new(127, net, 0, host)));
    for number in 0..ASKING {
        strangers.spawn(ask(source(2, 1), number, Arc::clone(&counters), end));
    }
    for host in 1..=IDLING {
        for _ in 0..IDLE_EACH {
            strangers.spawn(idle(source(3, host), Arc::clone(&counters), end));
        }
    }
    while strangers.join_next().await.is_some() {}
    let (nodes, beats) = lives.end().await?;
    fleet.nodes = nodes;
    let missed = u32::try_from(beats.iter().filter(|beat| !beat.accepted).count())?;
    let heard = u32::try_from(beats.len())? - missed;
    #[expect(clippy::cast_precision_loss, reason = "bytes of one process are far below 2^53")]
    let grown = cost::resident(pid)?.saturating_sub(before) as f64 / 1_048_576.0;
    Ok((missed, heard, grown, counters))
}

/// Asks for challenges of a node that does not exist until `end`.
async fn ask(target: Target, number: u32, counters: Arc<Counters>, end: Instant) {
    let mut ticks = interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut stranger: Option<SimNode> = None;
    while timeout_at(end, ticks.tick()).await.is_ok() {
        let node = match &mut stranger {
            Some(node) if !node.is_cut() => node,
            none => match SimNode::connect(&target, 1_000_000 + number).await {
                Ok(node) => none.insert(node),
                Err(_) => {
                    counters.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            },
        };
        let given = timeout_at(end, node.get::<Challenge>(Endpoint::NodeChallenge)).await;
        let counter = if matches!(given, Ok(Ok(_))) { &counters.answered } else { &counters.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Holds a connection on which nothing is said until `end`, and opens it again each time it is closed.
async fn idle(target: Target, counters: Arc<Counters>, end: Instant) {
    while Instant::now() < end {
        if let Ok(mut stream) = target.dial().await {
            counters.opened.fetch_add(1, Ordering::Relaxed);
            let _ = timeout_at(end, stream.read(&mut [0; 1])).await;
        }
        let _ = timeout_at(end, sleep(PAUSE)).await;
    }
}

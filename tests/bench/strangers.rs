//! What strangers cost at worst: memory, and other machines their first contact.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use lucia_tests::cgroup::Limited;
use lucia_tests::laid;
use lucia_tests::load::{Half, peak, start_limited, strangers, unit_limit};
use lucia_tests::programs::{CONTROLLER_NAME, Running, Site};
use lucia_tests::sim::{Failure, SimNode, Target};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::cost;
use crate::figures::{Figures, Goal};

/// Known nodes beside them: with the strangers, all the connections of the usual settings.
const NODES: u32 = 500;
/// How long each load lasts: longer than a request may take.
const LOAD: Duration = Duration::from_secs(25);
/// Connections of the one source that floods.
const FLOODING: u32 = 24;
/// Machines that discover themselves meanwhile, and the time between two of them.
const HONEST: u32 = 100;
const EVERY: Duration = Duration::from_millis(200);
/// An answer that took longer is none.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn measure(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    cost::unpin()?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        memory(bin, figures).await?;
        discovery(bin, figures).await
    });
    cost::pin(0)?;
    result
}

/// A site with the connections of the usual settings, and its worker.
async fn site(bin: &Path) -> Result<(Site, Running), Failure> {
    let site = Site::lay(bin, "strangers", 2048, "journal")?;
    let (worker, controller) = site.up().await?;
    drop(controller);
    let path = site.file("controller.toml");
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, text.split_once("[connections]").ok_or("no settings of connections")?.0)?;
    Ok((site, worker))
}

async fn target(site: &Site) -> Result<Target, Failure> {
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem()?)?;
    for _ in 0..400 {
        if target.connect().await.is_ok() {
            return Ok(target);
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err("the controller did not come up".into())
}

/// Every connection taken, strangers' with all that one of theirs can hold, then with bodies, as a share of what the unit
/// gives.
async fn memory(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let limit = unit_limit()?;
    let (site, _worker) = site(bin).await?;
    let certificates = laid::lay(&site, NODES)?;
    let cgroup = match Limited::new("strangers", limit) {
        Ok(cgroup) => cgroup,
        Err(err) => {
            figures.note(&format!("memory at the worst load: this machine limits no memory: {err}"));
            return Ok(());
        }
    };
    let mut controller = start_limited(&site, &cgroup)?;
    let target = target(&site).await?;
    let mut nodes = Vec::new();
    for (number, certificate) in (0..).zip(certificates) {
        let own = target.from_source(IpAddr::V4(Ipv4Addr::from(0x7f01_0001 + number)));
        let mut node = SimNode::connect(&own, number).await?;
        node.certificate_pem = Some(certificate);
        node.heartbeat().await?;
        nodes.push(node);
    }
    site.ctl(&["window", "open", "--minutes", "30"])?;
    for half in [Half::Buffers, Half::Discovery] {
        let sent = strangers(&target, half, Instant::now() + LOAD).await;
        let most = if controller.has_ended() { limit } else { peak(controller.pid())? };
        figures.note(&format!("{half:?}: {sent} requests held, {} MiB at most so far", most >> 20));
    }
    let mut missed = 0;
    for node in &mut nodes {
        missed += u32::from(!node.heartbeat().await.is_ok_and(|answer| answer.status == 200));
    }
    let most = if controller.has_ended() { limit } else { peak(controller.pid())? };
    #[expect(clippy::cast_precision_loss, reason = "bytes of one process are far below 2^53")]
    let share = most as f64 / limit as f64;
    figures.add("memory at the worst permitted load, of the unit's limit", share, "", Goal::Most(0.8));
    figures.note(&format!("{missed} of {NODES} nodes were cut meanwhile; killed {} times", cgroup.kills()?));
    controller.end();
    Ok(())
}

/// Machines at addresses of their own that discover themselves while one source does nothing else on all it gets.
async fn discovery(bin: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let (site, _worker) = site(bin).await?;
    let _controller = site.start("lucia-controller", &["run", "--config", &site.file("controller.toml")])?;
    let target = target(&site).await?;
    site.ctl(&["window", "open", "--minutes", "30"])?;
    let mut flood = JoinSet::new();
    let source = target.from_source(IpAddr::V4(Ipv4Addr::new(127, 4, 0, 1)));
    for number in 0..FLOODING {
        flood.spawn(flooding(source.clone(), 2_000_000 + number));
    }
    let mut honest = JoinSet::new();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..HONEST {
        ticks.tick().await;
        let own = target.from_source(IpAddr::V4(Ipv4Addr::from(0x7f05_0001 + number)));
        honest.spawn(async move {
            let first = async { SimNode::connect(&own, 3_000_000 + number).await?.discover().await };
            timeout(PATIENCE, first).await.is_ok_and(|found| found.is_ok())
        });
    }
    let mut answered = 0;
    while let Some(one) = honest.join_next().await {
        answered += u32::from(one?);
    }
    flood.shutdown().await;
    let share = f64::from(answered) * 100.0 / f64::from(HONEST);
    figures.add("discoveries within 2 s beside one source's flood", share, "%", Goal::Least(95.0));
    Ok(())
}

/// Discovers itself again and again, as fast as it is answered, until it is stopped.
async fn flooding(target: Target, number: u32) {
    loop {
        if let Ok(mut node) = SimNode::connect(&target, number).await {
            while !node.is_cut() {
                let _ = node.discover().await;
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

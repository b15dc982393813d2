//! The controller under the memory its unit gives it, while strangers hold every place they get with bodies that never end.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use lucia_tests::cgroup::Limited;
use lucia_tests::laid;
use lucia_tests::load::{Half, peak, start_limited, strangers, unit_limit};
use lucia_tests::programs::{CONTROLLER_NAME, Site};
use lucia_tests::sim::{SimNode, Target};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::real::{is_up, programs};
use crate::skip;

/// Nodes that live meanwhile, each at an address of its own.
const NODES: u32 = 200;
/// How long each act lasts: a body that does not end is let go after 15 s.
const ACT: Duration = Duration::from_secs(20);
/// Between two heartbeats of a node here.
const BEAT: Duration = Duration::from_secs(4);
/// A heartbeat that takes longer is missed.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many of its heartbeats were not accepted until `end`, and how many there were.
async fn live(mut node: SimNode, number: u32, end: Instant) -> (SimNode, u32, u32) {
    let (mut missed, mut all) = (0, 0);
    sleep(BEAT * number / NODES).await;
    while Instant::now() + BEAT < end {
        let answer = timeout(PATIENCE, node.heartbeat()).await;
        missed += u32::from(!answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200)));
        all += 1;
        sleep(BEAT).await;
    }
    (node, missed, all)
}

/// threats.md H-2: 24 addresses take all the places of strangers, each place with a discovery of the largest size but for
/// its last byte, the window closed and then open. The controller stays within a quarter of what its unit gives it, and no
/// known node misses a heartbeat.
// spec: FT-210
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_bodies_leaves_the_controller_within_its_unit_s_memory() {
    // Bodies are the least of what the unit's limit is reckoned from, so a quarter of it has to do for them: where they add
    // up unbounded, that is passed within the first seconds even by a slow machine.
    let limit = unit_limit().unwrap() / 4;
    let Some(bin) = programs() else { return skip("faults-flood", "no built programs beside this test") };
    let cgroup = match Limited::new("flood", limit) {
        Ok(cgroup) => cgroup,
        Err(err) => return skip("faults-flood", &format!("this machine limits no memory: {err}")),
    };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if most < 8192 {
        return skip("faults-flood", "this machine gives fewer than 8192 open files");
    }
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let site = Site::lay(&bin, "faults-flood", usize::try_from(NODES).unwrap() * 2, "journal").unwrap();
    let (worker, controller) = site.up().await.unwrap();
    drop(controller);
    // As many connections as the settings have by themselves.
    let settings = std::fs::read_to_string(site.file("controller.toml")).unwrap();
    std::fs::write(site.file("controller.toml"), settings.split_once("[connections]").unwrap().0).unwrap();
    let certificates = laid::lay(&site, NODES).unwrap();
    let mut controller = start_limited(&site, &cgroup).unwrap();
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    assert!(is_up(&target).await, "{}", controller.said());
    let mut nodes = Vec::new();
    for (number, certificate) in (0..).zip(certificates) {
        let own = target.from_source(IpAddr::V4(Ipv4Addr::from(0x7f01_0001 + number)));
        let mut node = SimNode::connect(&own, number).await.unwrap();
        node.certificate_pem = Some(certificate);
        assert_eq!(node.heartbeat().await.unwrap().status, 200);
        nodes.push(node);
    }
    for is_open in [false, true] {
        if is_open {
            site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
        }
        let end = Instant::now() + ACT;
        let mut living = JoinSet::new();
        for (number, node) in (0..).zip(nodes.drain(..)) {
            living.spawn(live(node, number, end));
        }
        let sent = strangers(&target, Half::Discovery, end).await;
        let (mut missed, mut all) = (0, 0);
        while let Some(node) = living.join_next().await {
            let (node, missed_one, all_of_one) = node.unwrap();
            (missed, all) = (missed + missed_one, all + all_of_one);
            nodes.push(node);
        }
        let most = if controller.has_ended() { 0 } else { peak(controller.pid()).unwrap() };
        println!("open {is_open}: {sent} bodies sent, {missed} of {all} heartbeats missed, {} MiB", most >> 20);
        assert_eq!((controller.has_ended(), cgroup.kills().unwrap()), (false, 0), "{}", controller.said());
        assert_eq!(missed, 0, "of {all} heartbeats");
        assert!(all >= NODES, "{all} heartbeats only");
        assert!(most * 5 <= limit * 4, "{most} of {limit} bytes");
    }
    controller.end();
    drop((worker, cgroup));
}

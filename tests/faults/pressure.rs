//! F-24, F-25, F-26: few descriptors, the same beginnings twice, and a controller that is never quite well.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use lucia_proto::files::journal::Journal;
use lucia_proto::node::phase::DevicePhase;
use lucia_tests::programs::{CONTROLLER_NAME, Running, Site};
use lucia_tests::sim::Target;
use tokio::io::AsyncWriteExt as _;

use crate::real::{is_up, programs};
use crate::skip;
use crate::world::{Machine, SEEDS, Tamper, World};

const HOUR: Duration = Duration::from_secs(3600);

/// threats.md F-24: the controller has 64 descriptors and is offered two hundred connections. It lives, its state is whole,
/// and once they are gone it takes calls again.
// spec: FT-24
#[tokio::test]
async fn f_24_a_controller_out_of_descriptors_lives_and_keeps_its_state() {
    let limiter = PathBuf::from("/usr/bin/prlimit");
    let (Some(bin), true) = (programs(), limiter.is_file()) else {
        return skip("faults-descriptors", "no built programs beside this test, or no prlimit");
    };
    let site = Site::lay(&bin, "faults-fd", 16, "journal").unwrap();
    let (controller, worker) = site.up().await.unwrap();
    drop(controller);
    let config = site.file("controller.toml");
    let log = site.dir.path().join("few.log");
    let program = bin.join("lucia-controller");
    let args = ["--nofile=64:64", program.to_str().unwrap(), "run", "--config", &config];
    let mut few = Running::start(&limiter, &args, &log).unwrap();
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    assert!(is_up(&target).await, "{}", few.said());
    let before = fs::read(site.dir.path().join("controller/onboarding/state.json")).unwrap();
    let crowd: Vec<_> = (0..200).map_while(|_| TcpStream::connect(site.address).ok()).collect();
    assert!(crowd.len() > 64, "{} connections only", crowd.len());
    // A change needs a descriptor too: it is made, or refused and left no trace.
    let opened = site.ctl(&["window", "open", "--minutes", "30"]).is_ok();
    let during = fs::read(site.dir.path().join("controller/onboarding/state.json")).unwrap();
    assert!(opened || during == before, "half a change");
    drop(crowd);
    assert!(is_up(&target).await, "{}", few.said());
    site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
    few.end();
    drop(worker);
    let said = few.said();
    assert!(!said.contains("panicked"), "{said}");
    let (controller, worker) = site.up().await.unwrap();
    drop((controller, worker));
}

/// threats.md F-24: the controller has less and less memory, and under each limit many callers with half a request each and
/// an operator who changes something. Whether it lives, is refused a start or ends: what it acknowledged is in its
/// journal, which is whole, and with the usual memory it goes on from there.
// spec: FT-24
#[tokio::test]
async fn f_24_a_controller_out_of_memory_lives_or_ends_and_keeps_its_state() {
    let limiter = PathBuf::from("/usr/bin/prlimit");
    let (Some(bin), true) = (programs(), limiter.is_file()) else {
        return skip("faults-memory", "no built programs beside this test, or no prlimit");
    };
    let site = Site::lay(&bin, "faults-memory", 16, "journal").unwrap();
    let (worker, controller) = site.up().await.unwrap();
    drop((worker, controller));
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    let (program, config) = (bin.join("lucia-controller"), site.file("controller.toml"));
    let journal = || {
        let bytes = fs::read(site.dir.path().join("controller/onboarding/state.json")).unwrap();
        Journal::from_bytes(&bytes).unwrap()
    };
    let mut ends = Vec::new();
    for mebibytes in [96, 64, 48, 40, 32, 28, 24, 20, 16] {
        let limit = format!("--as={}", u64::from(mebibytes * 1024_u32) * 1024);
        let log = site.dir.path().join(format!("{mebibytes}.log"));
        let args = [limit.as_str(), program.to_str().unwrap(), "run", "--config", &config];
        let before = journal().last_event_id;
        let mut small = Running::start(&limiter, &args, &log).unwrap();
        let (mut crowd, mut acknowledged, mut unheard) = (Vec::new(), 0, 0);
        is_up_or_ended(&target, &mut small).await;
        // Half a report each, until it has ended or hears nobody any more.
        while crowd.len() < 200 && unheard < 5 && !small.has_ended() {
            let Ok(mut stream) = target.secure_within(Duration::from_secs(2)).await else {
                unheard += 1;
                continue;
            };
            let _ = stream.write_all(HALF.as_bytes()).await;
            let _ = stream.write_all(&[b' '; 16 * 1024]).await;
            crowd.push(stream);
            if crowd.len() % 20 == 0 {
                acknowledged += u64::from(site.ctl(&["window", "open", "--minutes", "30"]).is_ok());
            }
        }
        let alive = !small.has_ended();
        drop(crowd);
        small.end();
        ends.push(format!("{mebibytes} MiB: alive {alive}, {acknowledged} changes, {:?}", small.ended()));
        let after = journal().last_event_id;
        assert!(after >= before + acknowledged, "{mebibytes} MiB: {acknowledged} were acknowledged; {}", small.said());
    }
    println!("{}", ends.join("\n"));
    let (worker, controller) = site.up().await.unwrap();
    site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
    drop((worker, controller));
    site.run("lucia-controller", &["doctor", "--config", &config]).unwrap();
}

async fn is_up_or_ended(target: &Target, program: &mut Running) {
    for _ in 0..400 {
        if program.has_ended() || target.secure_within(Duration::from_secs(2)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The head of a report whose body never ends.
const HALF: &str = "POST /api/boot/discover HTTP/1.1\r\nHost: controller.test\r\nContent-Type: application/json\r\n\
                    Content-Length: 32768\r\n\r\n";

/// threats.md F-25, as far as one machine can show it: two guests of one image, with the same boot id, clock and hardware,
/// make different keys and starts; nothing but the kernel's generator has a say.
// spec: FT-25
#[tokio::test(start_paused = true)]
async fn f_25_two_guests_of_one_image_have_two_keys() {
    let keys: BTreeSet<String> = (0..8)
        .map(|_| {
            let world = World::new(SEEDS[0]);
            Machine::new(&world, 1).fingerprint().to_string()
        })
        .collect();
    assert_eq!(keys.len(), 8);
}

/// threats.md F-26: what the network of every story does unless the story says otherwise.
// spec: FT-26
#[tokio::test(start_paused = true)]
async fn f_26_every_story_has_an_unruly_controller_unless_it_says_otherwise() {
    let (mut all, mut refused, mut busy, mut cut) = (0, 0, 0, 0);
    for seed in SEEDS {
        let world = World::new(seed);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        machine.run(2 * HOUR).await;
        assert_eq!((world.phase(&machine.id()), machine.ends.len()), (Some(DevicePhase::Managed), 0), "seed {seed}");
        for seen in world.seen() {
            all += 1;
            match seen.act {
                Tamper::RefuseChallenge => refused += 1,
                Tamper::Busy => busy += 1,
                Tamper::Cut => cut += 1,
                _ => {}
            }
        }
    }
    let share = |count: u32| f64::from(count) * 100.0 / f64::from(all);
    println!("of {all} calls: {:.1} % refused, {:.1} % busy, {:.1} % cut", share(refused), share(busy), share(cut));
    assert!((3.0..7.0).contains(&share(refused)) && (3.0..7.0).contains(&share(busy)));
    assert!((0.1..3.0).contains(&share(cut)));
}

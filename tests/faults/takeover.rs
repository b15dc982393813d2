//! F-12 with processes: a controller that is stopped, as by SIGSTOP or a paused machine, while another takes its state
//! over, and then goes on.

use std::fs;

use lucia_tests::programs::{CONTROLLER_NAME, Running, Site};
use lucia_tests::sim::Target;
use nix::sys::signal::Signal;

use crate::real::{is_up, joined, programs, snapshot};
use crate::skip;

/// Waits until a process stands still.
fn stands(program: &Running) {
    program.signal(Signal::SIGSTOP);
    for _ in 0..2000 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", program.pid())).unwrap();
        if stat.rsplit_once(')').unwrap().1.starts_with(" T") {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    panic!("{} did not stop within 10 s", program.pid());
}

/// threats.md F-12. The first controller is stopped with a heartbeat that it has not written yet. Another one takes the
/// directory over by the act that the documentation names, and is stopped too, so that whatever changes from now on is
/// the first one's doing. That one wakes, is asked for a change, and looks at its state again: it writes nothing, says
/// why, and ends. The second one goes on with all of it.
// spec: FT-12
#[tokio::test]
async fn f_12_a_stopped_controller_that_wakes_after_a_take_over_writes_nothing() {
    let Some(bin) = programs() else { return skip("faults-takeover", "no built programs beside this test") };
    let site = Site::lay(&bin, "faults-takeover", 16, "journal").unwrap();
    let (mut worker, mut first) = site.up().await.unwrap();
    site.ctl(&["window", "open", "--minutes", "30"]).unwrap();
    let target = Target::new(site.address, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    let mut node = joined(&site, &target, 1).await;
    worker.end();
    assert_eq!(node.heartbeat().await.unwrap().status, 200);
    stands(&first);

    // Its socket and port are still its own.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = fs::read_to_string(site.file("controller.toml")).unwrap();
    let config = config.replace(&site.address.to_string(), &free.to_string()).replace("controller.sock", "second.sock");
    fs::write(site.file("second.toml"), config).unwrap();
    let own = site.file("second.toml");
    let held = site.run("lucia-controller", &["run", "--config", &own]).unwrap_err().to_string();
    assert!(held.contains(".onboarding.lease") && held.contains(&first.pid().to_string()), "{held}");
    fs::remove_file(site.dir.path().join("controller/onboarding/.onboarding.lease")).unwrap();
    site.run("lucia-controller", &["doctor", "--restore", "0", "--config", &own]).unwrap();
    let log = site.dir.path().join("second.log");
    let mut second = Running::start(&bin.join("lucia-controller"), &["run", "--config", &own], &log).unwrap();
    let there = Target::new(free, CONTROLLER_NAME, &site.root_pem().unwrap()).unwrap();
    assert!(is_up(&there).await, "{}", second.said());
    let socket = site.file("second.sock");
    let ask = |args: &[&str]| site.run("luciactl", &[&["--socket", &socket], args].concat());
    ask(&["window", "open", "--minutes", "20"]).unwrap();
    stands(&second);

    let before = snapshot(&site.dir.path().join("controller"));
    first.signal(Signal::SIGCONT);
    let refused = site.ctl(&["window", "open", "--minutes", "5"]);
    assert!(refused.is_err(), "it changed a state that is not its own any more");
    let status = first.ended();
    assert!(status.is_some_and(|status| !status.success()), "{status:?}: {}", first.said());
    assert!(first.said().contains(".onboarding.lease"), "{}", first.said());
    let after = snapshot(&site.dir.path().join("controller"));
    let names = |files: &[(std::path::PathBuf, u32, Vec<u8>)]| -> Vec<_> {
        files.iter().filter(|file| !before.contains(file) || !after.contains(file)).map(|file| file.0.clone()).collect()
    };
    assert!(before == after, "it wrote: {:?} {:?}", names(&before), names(&after));

    second.signal(Signal::SIGCONT);
    ask(&["window", "close"]).unwrap();
    let mut moved = node.moved_to(&there).await.unwrap();
    assert_eq!(moved.heartbeat().await.unwrap().status, 200);
    second.end();
    site.run("lucia-controller", &["doctor", "--config", &own]).unwrap();
}

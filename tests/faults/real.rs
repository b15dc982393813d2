//! What the stories share that run the built programs: where those are, and a node among them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucia_tests::programs::Site;
use lucia_tests::sim::{SimNode, Target};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The directory of the built programs, if they are there.
pub(crate) fn programs() -> Option<PathBuf> {
    // target/debug/deps/faults-...: two up.
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().unwrap().parent().unwrap().to_owned();
    let needed = ["lucia-controller", "lucia-enrollment-worker", "luciactl"];
    needed.iter().all(|name| dir.join(name).is_file()).then_some(dir)
}

/// The `number`th machine, from its discovery to a heartbeat. The window is open.
pub(crate) async fn joined(site: &Site, target: &Target, number: u32) -> SimNode {
    let mut node = SimNode::connect(target, number).await.unwrap();
    node.discover().await.unwrap();
    let fingerprint = node.key.public().fingerprint();
    let (shown, whole) = (fingerprint.verification_code().to_string(), fingerprint.to_string());
    let hostname = node.hostname.to_string();
    site.ctl(&["approve", &shown, "--fingerprint", &whole, "--hostname", &hostname, "--disk", "sim-disk", "--yes"])
        .unwrap();
    let task = node.install().await.unwrap();
    for _ in 0..200 {
        if node.enroll(&task).await.unwrap() {
            assert_eq!(node.heartbeat().await.unwrap().status, 200);
            return node;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no certificate within 20 s");
}

/// Whether the controller at `target` ends a TLS handshake within 20 s.
pub(crate) async fn is_up(target: &Target) -> bool {
    for _ in 0..400 {
        if target.connect().await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// Every file below, with what is in it and its mode.
pub(crate) fn snapshot(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let facts = path.symlink_metadata().unwrap();
        if facts.is_dir() {
            out.push((path.clone(), facts.permissions().mode(), Vec::new()));
            out.extend(snapshot(&path));
        } else {
            out.push((path.clone(), facts.permissions().mode(), fs::read(&path).unwrap()));
        }
    }
    out.sort();
    out
}

/// Runs a story in a thread of its own, which may put directories onto disks in memory: a wait for a disk is no part of a
/// race. The story is told whether it may.
pub(crate) fn on_memory(story: impl AsyncFnOnce(bool) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let none: Option<&str> = None;
        let private = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(story(private.is_ok()));
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

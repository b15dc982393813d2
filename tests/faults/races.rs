//! F-22: somebody who swaps files of the queue and of `/etc` as fast as it goes, while the programs work on them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lucia_agent::host::root::Root;
use lucia_agent::keys::files::Files;
use lucia_agent::keys::passwd::Local;

use crate::disks::onto_small;
use crate::real::{on_memory, snapshot};
use crate::world::{Machine, SEEDS, World};

/// Turns of the worker against the swapping thread.
const TURNS: usize = 2_000;
/// Rounds of the agent against it.
const ROUNDS: usize = 30_000;

/// On a disk there is time for one of so many.
const SLOW: usize = 10;

/// Runs `work` while another thread runs `swap` without a pause; says how often it swapped.
fn against(swap: impl Fn() + Sync, work: impl FnOnce()) -> u64 {
    /// Also when an assertion of the work fails, or the scope would wait for the other thread for ever.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        work();
    });
    swaps.load(Ordering::Relaxed)
}

/// threats.md F-22, the queue: the request of a node is by turns itself, a link to a file outside, a directory, and gone;
/// so is the answer in the worker's own directory, which is the worker's to lose but not to follow. Nothing outside is
/// written, and what the ledger has in the end is what it had.
// spec: FT-22
#[test]
fn f_22_swapping_queue_files_moves_nothing_outside() {
    on_memory(queue);
}

async fn queue(fast: bool) {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    let id = machine.id();
    machine.kill();
    if fast {
        world.kill_controller().await;
        world.stop_worker();
        for dir in ["controller", "worker"] {
            onto_small(&world.path(dir), "size=32m");
        }
        world.start_controller();
        world.start_worker();
    }
    let outside = world.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "untouched").unwrap();
    fs::create_dir(outside.join("there")).unwrap();
    let before = snapshot(&outside);
    let ledger = world.ledger();
    let request = world.path(&format!("controller/nodes/enrollment-requests/{id}.json"));
    let answer = world.path(&format!("controller/nodes/enrollment-responses/{id}.json"));
    let whole = fs::read(&request).unwrap();
    let swap = || {
        for path in [&request, &answer] {
            let _ = fs::remove_file(path);
            let _ = symlink(outside.join("precious"), path);
            let _ = fs::remove_file(path);
            let _ = symlink(outside.join("there"), path);
            let _ = fs::remove_file(path);
            let _ = fs::create_dir(path);
            let _ = fs::remove_dir(path);
        }
        let _ = fs::write(&request, &whole);
        let _ = fs::set_permissions(&request, fs::Permissions::from_mode(0o640));
    };
    let swaps = against(swap, || {
        for _ in 0..if fast { TURNS } else { TURNS / SLOW } {
            world.worker_turn(world.now());
        }
    });
    println!("{swaps} swaps");
    assert!(swaps > 100, "{swaps} swaps only");
    assert_eq!(snapshot(&outside), before);
    let kinds = |ledger: &[serde_json::Value]| -> BTreeSet<String> {
        ledger.iter().map(|line| line["kind"].to_string()).collect()
    };
    assert_eq!(kinds(&world.ledger()), kinds(&ledger));
    assert_eq!(world.ledger().iter().filter(|line| line["kind"] == "issued").count(), 1);
}

/// threats.md F-22, `/etc`: the directory of keys is by turns itself and a link to one outside, and so are its files.
// spec: FT-22
#[test]
fn f_22_swapping_etc_moves_nothing_outside() {
    on_memory(etc);
}

async fn etc(fast: bool) {
    let home = lucia_tests::programs::Scratch::new("faults-etc").unwrap();
    if fast {
        onto_small(home.path(), "size=32m");
    }
    let root = Root::at(&home.path().join("root"));
    let (etc, keys) = (root.join("etc/ssh"), root.join("etc/ssh/lucia-authorized-keys"));
    let outside = home.path().join("outside");
    for dir in [&keys, &outside] {
        fs::create_dir_all(dir).unwrap();
    }
    for dir in [home.path(), root.path(), &root.join("etc"), &etc, &keys, &outside] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(outside.join("ada"), "untouched").unwrap();
    fs::write(outside.join("zoe"), "untouched").unwrap();
    let before = snapshot(&outside);
    let aside = etc.join("aside");
    let swap = || {
        let _ = fs::rename(&keys, &aside);
        let _ = symlink(&outside, &keys);
        let _ = fs::remove_file(&keys);
        let _ = fs::rename(&aside, &keys);
        for name in ["ada", ".ada.pending"] {
            let _ = fs::remove_file(keys.join(name));
            let _ = symlink(outside.join("ada"), keys.join(name));
        }
    };
    let ordered = crate::ordered(&["ada", "bob"]);
    let mut done = 0;
    let swaps = against(swap, || {
        for _ in 0..if fast { ROUNDS } else { ROUNDS / SLOW } {
            let Ok(files) = Files::open(&root) else { continue };
            let Ok(mut brought) = files.bring(&ordered, Some(&Local::default()), true) else { continue };
            for account in std::mem::take(&mut brought.new) {
                files.write(&account, &ordered.accounts[&account], &mut brought);
            }
            done += 1;
        }
    });
    println!("{swaps} swaps, {done} turns");
    assert!(swaps > 100 && done > 0, "{swaps} swaps, {done} turns");
    assert_eq!(snapshot(&outside), before);
}

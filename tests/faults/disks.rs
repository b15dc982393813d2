//! F-5, F-6, F-7: disks that are full, that fail, that are read-only or out of inodes, under each of the three.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucia_agent::host::root::Root;
use lucia_agent::host::status::Doing;
use lucia_agent::keys::files::{Brought, Files};
use lucia_durable::crash_point::{Fate, ask_at};
use lucia_people::host_api::Minutes;
use lucia_proto::base::code::Code;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::skip;
use crate::walk::point;
use crate::world::{Machine, Program, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Runs a story in a mount name space of its own thread: no other test sees its mounts, and they go with it.
fn with_mounts(name: &str, story: impl AsyncFnOnce() + Send + 'static) {
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        let private = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount::<str, str, str, str>(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None));
        if let Err(errno) = private {
            return skip(&name, &format!("this machine gives no mount name space ({errno})"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(story());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Moves a directory onto a small disk of its own.
pub(crate) fn onto_small(dir: &Path, options: &str) {
    let aside = dir.with_extension("aside");
    fs::rename(dir, &aside).unwrap();
    fs::create_dir(dir).unwrap();
    mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
    copy(&aside, dir);
    fs::remove_dir_all(&aside).unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
    fs::set_permissions(to, from.metadata().unwrap().permissions()).unwrap();
}

/// Pages, or files, that fill the largest of the small disks.
const PAGES_MAX: usize = 4096;

/// Takes all the room there is, also once more; says what to remove.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    let pages = (0..=PAGES_MAX).take_while(|_| file.write_all(&[0; 4096]).is_ok()).count();
    assert!(pages <= PAGES_MAX, "{} is no small disk", dir.display());
    path
}

/// Takes all the inodes there are, also once more; says what to remove.
fn fill_inodes(dir: &Path) -> PathBuf {
    let path = dir.join("filler");
    fs::create_dir_all(&path).unwrap();
    let files = (0..=PAGES_MAX).take_while(|number| fs::File::create(path.join(number.to_string())).is_ok()).count();
    assert!(files <= PAGES_MAX, "{} is no small disk", dir.display());
    path
}

fn free(filler: &Path) {
    if filler.is_dir() { fs::remove_dir_all(filler) } else { fs::remove_file(filler) }.unwrap();
}

fn issued(world: &World) -> usize {
    world.ledger().iter().filter(|line| line["kind"] == "issued").count()
}

/// A node whose renewal is due, while one of the three has no room. Nothing that is there is lost, heartbeats go on, and
/// once there is room the renewal comes by itself.
async fn no_room(whose: Program, options: &'static str, take: fn(&Path) -> PathBuf) {
    let what = format!("{whose:?} {options}");
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    machine.run(2 * MINUTE).await;
    world.settle();
    let dir = match whose {
        Program::Agent => machine.state_dir(),
        Program::Controller => world.path("controller"),
        Program::Worker => world.path("worker"),
    };
    machine.kill();
    world.kill_controller().await;
    world.stop_worker();
    onto_small(&dir, options);
    world.start_controller();
    world.start_worker();
    machine.run(2 * MINUTE).await;
    assert_eq!(machine.status().doing, Doing::Heartbeating, "{what}");
    world.sleep_through(DAY).await;
    world.calm();
    let (id, key, leaf, journal) = (machine.id(), machine.file("node.key"), machine.certificate_pem(), world.journal());
    let filler = take(&dir);
    world.forget_seen();
    machine.run(HOUR).await;
    let heartbeats = machine.status().heartbeats;
    assert!(heartbeats > 100, "{what}: {heartbeats} heartbeats in an hour");
    assert_eq!(machine.file("node.key"), key, "{what}");
    assert_eq!(world.journal().devices, journal.devices, "{what}");
    if whose == Program::Controller {
        // A question of the node that ran out meanwhile left room for one file.
        take(&dir);
        let minutes = Minutes::new(5).unwrap();
        let refused = world.controller().enrollment.open_window(minutes, "operator:0").unwrap_err();
        assert_eq!(refused.code, Code::PersistenceFailed, "{what}");
        assert!(world.controller().journal.writes(), "{what}: the next one is tried");
    }
    if whose == Program::Agent {
        assert_eq!(machine.certificate_pem(), leaf, "{what}");
    }
    free(&filler);
    if whose == Program::Controller {
        world.controller().enrollment.open_window(Minutes::new(5).unwrap(), "operator:0").unwrap();
    }
    machine.run_until(HOUR, |machine| machine.certificate_pem() != leaf).await;
    machine.run(2 * MINUTE).await;
    assert_eq!((machine.status().doing, machine.file("node.key")), (Doing::Heartbeating, key), "{what}");
    assert_eq!(machine.ends, Vec::<String>::new(), "{what}: nothing had to be started again");
    assert!(world.phase(&id).is_some() && issued(&world) == 2, "{what}: {} certificates", issued(&world));
}

// spec: FT-5
#[test]
fn f_5_a_full_disk_under_anybody_costs_no_heartbeat_and_heals_when_there_is_room() {
    for whose in [Program::Controller, Program::Agent, Program::Worker] {
        with_mounts("faults-full", move || no_room(whose, "size=512k", fill));
    }
}

// spec: FT-7
#[test]
fn f_7_a_disk_without_inodes_is_a_full_one() {
    for whose in [Program::Controller, Program::Agent, Program::Worker] {
        with_mounts("faults-inodes", move || no_room(whose, "size=2m,nr_inodes=60", fill_inodes));
    }
}

/// threats.md F-5 and F-7 for `/etc`: keys that cannot be written are told of, those that are there stay, a withdrawn one
/// goes even then, and the next turn does the rest.
// spec: FT-5
#[test]
fn f_5_a_full_etc_keeps_the_keys_it_has_and_withdraws_nevertheless() {
    for options in ["size=16k", "size=1m,nr_inodes=12"] {
        with_mounts("faults-etc", async move || {
            let world = World::new(SEEDS[0]);
            let root = Root::at(&world.path("etc-story"));
            let dir = root.join("etc/ssh/lucia-authorized-keys");
            let etc = root.join("etc");
            fs::create_dir_all(&etc).unwrap();
            let options = format!("mode=0755,{options}");
            mount(Some("tmpfs"), &etc, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
            fs::create_dir_all(&dir).unwrap();
            for part in ["", "etc", "etc/ssh", "etc/ssh/lucia-authorized-keys"] {
                fs::set_permissions(root.join(part), fs::Permissions::from_mode(0o755)).unwrap();
            }
            let local = lucia_agent::keys::passwd::Local::default();
            let bring = |accounts: &[&str]| -> Brought {
                let (files, ordered) = (Files::open(&root).unwrap(), crate::ordered(accounts));
                let mut brought = files.bring(&ordered, Some(&local), true).unwrap();
                for account in std::mem::take(&mut brought.new) {
                    files.write(&account, &ordered.accounts[&account], &mut brought);
                }
                brought
            };
            assert!(bring(&["ada", "bob"]).dropped.is_empty());
            let ada = fs::read(dir.join("ada")).unwrap();
            let filler = if options.contains("inodes") { fill_inodes(&etc) } else { fill(&etc) };
            let brought = bring(&["ada", "bob", "carl"]);
            assert!(brought.dropped.iter().any(|dropped| dropped.account == "carl"), "{brought:?}");
            assert_eq!(fs::read(dir.join("ada")).unwrap(), ada);
            assert!(dir.join("bob").exists());
            bring(&["ada"]);
            assert!(!dir.join("bob").exists(), "a withdrawn key goes, room or none");
            free(&filler);
            assert!(bring(&["ada", "carl"]).dropped.is_empty());
            assert!(dir.join("carl").exists());
        });
    }
}

/// What a plan of failures saw.
#[derive(Debug, Default)]
struct Failures {
    failed: Option<(&'static str, PathBuf)>,
    /// Syncs of the same file by the same program after the failed one.
    again: usize,
}

/// threats.md F-6. The `nth` sync of one of the three fails once. It is not tried again and called good: the program ends
/// or writes nothing more, is started again as systemd does it, and goes on with what is really on the disk.
async fn failing_sync(whose: Program, nth: usize) -> bool {
    let world = World::new(SEEDS[nth % SEEDS.len()]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    machine.run(2 * MINUTE).await;
    world.sleep_through(DAY).await;
    let leaf = machine.certificate_pem();
    let seen = Arc::new(Mutex::new(Failures::default()));
    let (noted, dir) = (Arc::clone(&seen), world.path(""));
    let deaths = world.deaths();
    let mut left = nth;
    let plan = ask_at(&world.path(""), move |step, path| {
        let (program, name) = point(step, path.strip_prefix(&dir).unwrap());
        // What only says how it is has no say in what is.
        if program != whose || !step.ends_with("sync") || name.contains("status.json") || deaths.is_aside() {
            return Fate::Live;
        }
        let mut seen = noted.lock().unwrap();
        if let Some((failed, at)) = &seen.failed {
            seen.again += usize::from(*failed == step && at == path && program != Program::Worker);
            return Fate::Live;
        }
        if left > 0 {
            left -= 1;
            return Fate::Live;
        }
        seen.failed = Some((step, path.to_owned()));
        Fate::Fail(nix::libc::EIO)
    });
    // The operator does something as well, so that the controller has a journal to write.
    let controller = world.controller();
    let _ = controller.enrollment.open_window(Minutes::new(30).unwrap(), "operator:0");
    machine.run(HOUR / 3).await;
    let failed = seen.lock().unwrap().failed.clone();
    let what = format!("{whose:?}, sync {nth}: {failed:?}");
    if whose == Program::Controller && !controller.journal.writes() {
        assert_eq!(seen.lock().unwrap().again, 0, "{what}");
        // `serve` ends by itself then: see `the_controller_ends_when_its_disk_is_in_doubt`.
        drop(controller);
        world.restart_controller().await;
    }
    drop(plan);
    machine.run_until(3 * HOUR, |machine| machine.certificate_pem() != leaf).await;
    machine.run(2 * MINUTE).await;
    assert_eq!(machine.status().doing, Doing::Heartbeating, "{what}");
    assert!(!machine.status().frozen && issued(&world) == 2, "{what}: {} certificates", issued(&world));
    assert!(machine.ends.len() <= 1, "{what}: {:?}", machine.ends);
    world.controller().enrollment.open_window(Minutes::new(30).unwrap(), "operator:0").unwrap();
    failed.is_some()
}

// spec: FT-6
#[tokio::test(start_paused = true)]
async fn f_6_a_failed_sync_is_never_called_good() {
    for whose in [Program::Agent, Program::Controller, Program::Worker] {
        let mut nth = 0;
        // Later ones are of heartbeats' records, of which one is as good as another.
        while nth < 12 && failing_sync(whose, nth).await {
            nth += 1;
        }
        assert!(nth >= 3, "{whose:?}: {nth} syncs only");
    }
}

/// threats.md F-7: for an hour nothing can be written by one of the three, as after a read-only remount.
// spec: FT-7
#[tokio::test(start_paused = true)]
async fn f_7_a_read_only_disk_costs_no_heartbeat_and_heals() {
    for whose in [Program::Agent, Program::Controller, Program::Worker] {
        let world = World::new(SEEDS[1]);
        world.admit_by_journal();
        let mut machine = Machine::new(&world, 1);
        machine.join().await;
        machine.run(2 * MINUTE).await;
        world.sleep_through(DAY).await;
        world.calm();
        let (leaf, key) = (machine.certificate_pem(), machine.file("node.key"));
        let (dir, deaths) = (world.path(""), world.deaths());
        let plan = ask_at(&world.path(""), move |step, path| {
            let (program, _) = point(step, path.strip_prefix(&dir).unwrap());
            let writes = ["create", "write", "unlink", "make", "sign"].iter().any(|end| step.ends_with(end));
            if program == whose && writes && !deaths.is_aside() { Fate::Fail(nix::libc::EROFS) } else { Fate::Live }
        });
        world.forget_seen();
        machine.run(HOUR).await;
        let heartbeats = machine.status().heartbeats;
        // A worker that cannot write ends and is started again; the others go on.
        assert!(heartbeats > 100, "{whose:?}: {heartbeats} heartbeats in an hour");
        assert!(machine.certificate_pem() == leaf && issued(&world) <= 2, "{whose:?}");
        drop(plan);
        if whose == Program::Controller && !world.controller().journal.writes() {
            world.restart_controller().await;
        }
        machine.run_until(3 * HOUR, |machine| machine.certificate_pem() != leaf).await;
        machine.run(2 * MINUTE).await;
        assert_eq!((machine.status().doing, machine.file("node.key")), (Doing::Heartbeating, key), "{whose:?}");
        assert_eq!(issued(&world), 2, "{whose:?}");
    }
}

/// threats.md F-6, the program itself: `serve` ends with an error when a sync of the journal failed, so that systemd starts
/// it again; what it starts on is whole.
// spec: FT-6
#[tokio::test]
async fn the_controller_ends_when_its_disk_is_in_doubt() {
    use lucia_controller::app::{App, AppError};
    use lucia_controller::http::Timeouts;
    use lucia_daemon::notify::Notify;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let scratch = lucia_tests::programs::Scratch::new("faults-doubt").unwrap();
    let dir = scratch.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("root.pem"), lucia_proto::test_support::TestCa::new(crate::world::START).root_pem()).unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\nnames = [\"controller.test\"]\nstate-dir = {:?}\nroot-file = {:?}\nsocket = {:?}\n\
         group = \"{}\"\nworker-user = \"{}\"\n",
        dir.join("controller"),
        dir.join("root.pem"),
        dir.join("controller.sock"),
        nix::unistd::Gid::effective(),
        nix::unistd::Uid::effective(),
    );
    let config = lucia_controller::config::Config::parse(&text).unwrap();
    let clock = || Arc::new(lucia_daemon::clock::SystemClock);
    let app = App::open(&config, clock(), Timeouts::default()).await.unwrap();
    // The journal's directory alone: the endpoint's request is written at the first tick, perhaps before the window.
    let journal = dir.join("controller/onboarding");
    let _plan = lucia_durable::crash_point::fail_at(&journal, "replace/sync", 0, nix::libc::EIO);
    let ask = async {
        let mut socket = tokio::net::UnixStream::connect(dir.join("controller.sock")).await.unwrap();
        let body = "{\"minutes\":5}";
        let head = format!(
            "POST /api/host/onboarding/window HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut said = String::new();
        let _ = socket.read_to_string(&mut said).await;
        said
    };
    let notify = Notify::from_environment();
    let both = async { tokio::join!(app.serve(&notify), ask) };
    let (ended, said) = tokio::time::timeout(MINUTE, both).await.expect("serve ends by itself");
    assert!(matches!(ended, Err(AppError::Doubtful)), "{ended:?}");
    assert!(said.contains("persistence_failed"), "{said}");
    drop(App::open(&config, clock(), Timeouts::default()).await.unwrap());
}

//! F-10, F-11, F-12: files that are cut, changed, or another's, and two controllers on one directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lucia_agent::host::status::Doing;
use lucia_controller::config::Config;
use lucia_controller::parts::Parts;
use lucia_controller::store::{Generation, doctor, restore};
use lucia_people::host_api::Minutes;
use lucia_proto::base::code::Code;
use lucia_proto::base::time::Clock;
use lucia_proto::files::journal::Journal;

use crate::world::{Machine, SEEDS, World};

const HOUR: Duration = Duration::from_secs(3600);

/// What can become of a file.
fn damages(whole: &[u8], every: usize) -> Vec<(String, Vec<u8>)> {
    let mut out: Vec<(String, Vec<u8>)> = vec![("empty".to_owned(), Vec::new())];
    out.extend((every..whole.len()).step_by(every).map(|at| (format!("cut at {at}"), whole[..at].to_vec())));
    for at in (0..whole.len()).step_by(every / 4 + 1) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x01;
        out.push((format!("byte {at} flipped"), bytes));
    }
    out.push(("garbage behind".to_owned(), [whole, b"x"].concat()));
    out.push(("itself behind".to_owned(), [whole, whole].concat()));
    out.push(("zeros".to_owned(), vec![0; whole.len()]));
    out
}

fn config(world: &World) -> Config {
    Config::parse(&fs::read_to_string(world.path("controller.toml")).unwrap()).unwrap()
}

/// A start of the controller on this world's directory; the refusal, whole.
fn start(world: &World) -> Result<Parts, String> {
    let clock: Arc<dyn Clock> = Arc::new(lucia_proto::base::time::ManualClock::at(world.now()));
    Parts::open(&config(world), clock, [9; 32]).map_err(|error| lucia_worker::chain(&error))
}

/// threats.md F-10. A journal that is not whole stops the start and stays as it is, whatever happened to it; one act,
/// `lucia-controller doctor --restore 1`, brings the last change but one back. Never an empty registry.
// spec: FT-10
#[tokio::test(start_paused = true)]
async fn f_10_a_damaged_journal_is_never_replaced_and_one_act_restores_it() {
    let world = World::new(SEEDS[0]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    world.settle();
    world.kill_controller().await;
    let path = world.path("controller/onboarding/state.json");
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let version = |to: u32| text.replacen("\"version\":4", &format!("\"version\":{to}"), 1).into_bytes();
    let mut all = damages(&whole, 512);
    all.extend([("version 3".to_owned(), version(3)), ("version 5".to_owned(), version(5))]);
    let (mut refused, before) = (0, Journal::from_bytes(&whole).unwrap());
    for (what, bytes) in all {
        fs::write(&path, &bytes).unwrap();
        match start(&world) {
            Err(why) => {
                refused += 1;
                assert!(why.contains("state.json") && why.contains("doctor"), "{what}: {why}");
                assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: left as it is");
            }
            // A flipped byte can lie where the journal's chain does not reach, as in a message; it is then still one
            // journal with every node of the former.
            Ok(controller) => {
                drop(controller);
                let there = Journal::from_bytes(&fs::read(&path).unwrap()).unwrap();
                let ids = |journal: &Journal| -> Vec<_> {
                    journal.devices.iter().map(|device| (device.device_id.clone(), device.phase)).collect()
                };
                assert!(what.contains("flipped"), "{what}");
                assert_eq!(ids(&there), ids(&before), "{what}");
            }
        }
    }
    assert!(refused > 30, "{refused} were refused only");
    for mode in [0o666, 0o660, 0o646] {
        fs::write(&path, &whole).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(start(&world).is_err(), "{mode:o}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(start(&world).is_err());
    assert!(!doctor(&config(&world)).unwrap().healthy);
    restore(&config(&world), Generation::First).unwrap();
    world.start_controller();
    let back = world.now();
    machine.run(HOUR).await;
    assert_eq!(machine.status().doing, Doing::Heartbeating);
    assert!(world.now() > back && world.journal().device(&machine.id()).is_some());
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// threats.md F-11. With the key whole, whatever became of the rest is healed, or asked for again, without hands and with
/// the same key. A key that is lost or damaged is never replaced by the agent: it says so and does nothing else.
// spec: FT-11
#[tokio::test(start_paused = true)]
async fn f_11_a_damaged_identity_is_healed_by_its_key_and_a_damaged_key_by_nobody() {
    let world = World::new(SEEDS[1]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    machine.run(HOUR / 60).await;
    let key = machine.file("node.key").unwrap();
    let files: Vec<String> =
        ["certificate.pem", "node.csr", "answer.json", "bundle.json", "starts.json", "status.json"]
            .map(str::to_owned)
            .to_vec();
    let mut sets: Vec<Vec<String>> = files.iter().map(|file| vec![file.clone()]).collect();
    sets.push(files.clone());
    sets.push(vec!["certificate.pem".to_owned(), "answer.json".to_owned()]);
    for set in sets {
        let whole: Vec<(PathBuf, Vec<u8>)> =
            set.iter().map(|name| (machine.state_dir().join(name), machine.file(name).unwrap_or_default())).collect();
        for kind in 0..5 {
            machine.kill();
            for (path, bytes) in &whole {
                match kind {
                    // One that the agent can do without may not have come back since the last time.
                    0 => drop(fs::remove_file(path)),
                    1 => put(path, b""),
                    2 => put(path, &bytes[..bytes.len() / 2]),
                    3 => put(path, &vec![0; bytes.len()]),
                    _ => put(path, &[bytes.as_slice(), b"garbage"].concat()),
                }
            }
            let beats = |machine: &Machine| machine.status().doing == Doing::Heartbeating;
            machine.run_until(HOUR, beats).await;
            assert_eq!(machine.file("node.key").unwrap(), key, "{set:?}, {kind}");
            // A lost list of starts is an identity that may be a copy; everything else is this node's own business.
            if set.iter().any(|file| file == "starts.json") && machine.status().frozen {
                world.keep(&machine.id(), machine.status().start_id.unwrap());
                machine.run(HOUR / 30).await;
            }
            assert!(!machine.status().frozen, "{set:?}, {kind}");
            for name in ["certificate.pem", "node.csr"] {
                assert!(machine.file(name).is_some_and(|bytes| !bytes.is_empty()), "{set:?}, {kind}: {name}");
            }
        }
    }
    assert_eq!(machine.ends, Vec::<String>::new());

    // The key: nobody makes another one in its place.
    let path = machine.state_dir().join("node.key");
    for bytes in [None, Some(Vec::new()), Some(key[..key.len() / 2].to_vec()), Some(vec![0; key.len()])] {
        machine.kill();
        machine.ends.clear();
        match &bytes {
            None => fs::remove_file(&path).unwrap(),
            Some(bytes) => put(&path, bytes),
        }
        let from = world.now();
        machine.run(HOUR / 60).await;
        assert!(machine.ends.iter().all(|why| why.contains("node.key")), "{:?}", machine.ends);
        assert!(!machine.ends.is_empty() && world.seen().iter().all(|seen| seen.at < from), "it says nothing");
        assert_eq!(fs::read(&path).ok(), bytes, "left as it is");
    }
    put(&path, &key);
    machine.run_until(HOUR, |machine| machine.status().doing == Doing::Heartbeating).await;
}

/// threats.md F-12. A second controller on the same directory is refused at once, naming the first. Where somebody takes
/// the directory over by force while the first one sleeps (its lease removed, `doctor --restore 0`), the first one writes
/// nothing any more when it wakes.
// spec: FT-12
#[tokio::test(start_paused = true)]
async fn f_12_of_two_controllers_one_writes() {
    let world = World::new(SEEDS[2]);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    let why = start(&world).err().unwrap();
    assert!(why.contains(".onboarding.lease") && why.contains("pid"), "{why}");
    // The first one holds its breath here, as a stopped process does.
    let first = world.controller();
    fs::remove_file(world.path("controller/onboarding/.onboarding.lease")).unwrap();
    let why = start(&world).err().unwrap();
    assert!(why.contains("lucia-controller doctor"), "{why}");
    let _ = fs::remove_file(world.path("controller/onboarding/.onboarding.lease"));
    restore(&config(&world), Generation::Current).unwrap();
    let second = start(&world).unwrap();
    let minutes = Minutes::new(10).unwrap();
    second.enrollment.open_window(minutes, "operator:0").unwrap();
    let theirs = fs::read(world.path("controller/onboarding/state.json")).unwrap();
    for _ in 0..3 {
        assert_eq!(
            first.enrollment.close_window("operator:0").err().map(|refusal| refusal.code),
            Some(Code::PersistenceFailed)
        );
        assert_eq!(
            first.enrollment.remove(&machine.id(), "operator:0").err().map(|r| r.code),
            Some(Code::PersistenceFailed)
        );
    }
    assert_eq!(fs::read(world.path("controller/onboarding/state.json")).unwrap(), theirs);
    drop(second);
}

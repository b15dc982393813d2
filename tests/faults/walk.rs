//! The walk: a fleet's whole story, in which every crash point kills its program once. Who died is started again by its
//! host, as systemd or the installer's script does, and nobody else does anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lucia_agent::directory::change::{ChangeError, Ground};
use lucia_agent::directory::files::Wanted;
use lucia_agent::directory::ldap::{Directory, LdapError, Reader};
use lucia_agent::directory::{sshd, sssd};
use lucia_agent::host::root::Root;
use lucia_agent::host::state::State;
use lucia_agent::host::status::Doing;
use lucia_agent::keys::files::Files;
use lucia_agent::keys::passwd::Local;
use lucia_agent::units::{Ended, Program as Run, Runner, ServiceAct, UnitError};
use lucia_controller::config::Config;
use lucia_controller::store::{Generation, restore};
use lucia_durable::crash_point::{Armed, Fate, ask_at};
use lucia_proto::node::phase::DevicePhase;
use lucia_worker::config::Settings;
use lucia_worker::init::init;

use crate::points;
use crate::world::{Deaths, Machine, Program, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Whom the walk kills where.
#[derive(Clone, Debug)]
enum Where {
    /// At each point, once.
    Everywhere,
    /// At this one alone, once.
    At(String),
}

/// Deaths that one act may have: far more than there are points on its way.
const DEATHS: usize = 1000;

/// Most times that the story is told.
const ROUNDS_MAX: u64 = 6;

/// What the walk has come by, with where it killed.
type Walked = Arc<Mutex<BTreeSet<String>>>;

fn walk(world: &World, at: Where, walked: &Walked) -> Armed {
    let (deaths, noted, dir) = (world.deaths(), Arc::clone(walked), world.path(""));
    ask_at(&world.path(""), move |step, path| {
        let mut walked = noted.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&deaths, &mut walked, &at, step, path.strip_prefix(&dir).unwrap())
    })
}

fn ask(deaths: &Deaths, walked: &mut BTreeSet<String>, at: &Where, step: &'static str, path: &Path) -> Fate {
    if deaths.is_aside() {
        return Fate::Live;
    }
    let (program, point) = point(step, path);
    if deaths.is_dead(program) {
        return Fate::Die;
    }
    let kills = match at {
        Where::Everywhere => true,
        Where::At(one) => *one == point,
    };
    if walked.insert(point) && kills {
        deaths.kill(program);
        return Fate::Die;
    }
    Fate::Live
}

fn count(walked: &Walked) -> usize {
    walked.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Whose step it is, and what its point is called.
pub(crate) fn point(step: &'static str, path: &Path) -> (Program, String) {
    let parts: Vec<String> = path.iter().map(|part| kind_of(part.to_str().unwrap())).collect();
    let text = parts.join("/");
    let program = match parts.first().map(String::as_str) {
        Some("controller")
            if ["enrollment-responses", "owner-responses"].iter().any(|dir| text.contains(dir))
                && !step.starts_with("dir/") =>
        {
            Program::Worker
        }
        Some("controller") => Program::Controller,
        Some("worker" | "fleet") => Program::Worker,
        Some("machine") => Program::Agent,
        other => panic!("{step} at {other:?}: whose is it?"),
    };
    let steps = ["append/", "create/", "dir/", "lease/", "leftover/", "remove/", "replace/"];
    if !steps.iter().any(|group| step.starts_with(group)) {
        return (program, step.to_owned());
    }
    (program, format!("{} {text} {step}", program.as_str()))
}

/// A part of a path without what is different from node to node.
fn kind_of(part: &str) -> String {
    let numbered = part.strip_prefix("machine-").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let part = if numbered { "machine" } else { part };
    let is_id = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = part.split_inclusive(['.', '-']).map(|word| {
        let (text, end) = word.split_at(word.trim_end_matches(['.', '-']).len());
        if is_id(text) { format!("ID{end}") } else { word.to_owned() }
    });
    words.collect()
}

/// Runs one act of the agent until it is done, each time from the beginning as a program that is started again.
async fn until_alive(world: &World, mut act: impl AsyncFnMut() -> Result<(), String>) {
    for _ in 0..DEATHS {
        world.deaths().revive(Program::Agent);
        let done = act().await;
        if !world.deaths().is_dead(Program::Agent) {
            return done.unwrap();
        }
    }
    panic!("the agent died at each of {DEATHS} starts");
}

/// What sshd says of a configuration with the drop-in.
const SHOWN: &str =
    "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/lucia-authorized-keys/%u\nusepam yes\n";

/// Says yes to everything, or no to sshd's look at its configuration.
struct Says {
    sshd: i32,
}

impl Runner for Says {
    async fn run(&self, program: &Run) -> Result<Ended, UnitError> {
        let (code, output) = match program {
            Run::CheckSshd => (self.sshd, String::new()),
            Run::ShowSshd => (0, SHOWN.to_owned()),
            _ => (0, String::new()),
        };
        Ok(Ended { code: Some(code), output })
    }

    async fn act(&self, _: ServiceAct) -> Result<(), UnitError> {
        Ok(())
    }
}

impl Directory for Says {
    async fn read(&self, _: &Reader) -> Result<(), LdapError> {
        Ok(())
    }
}

/// A node gets a directory, another one, a change that does not work, and none any more; and keys that come and go.
async fn directory(world: &World) {
    let root = Root::at(&world.path("machine-9/disk"));
    for dir in ["etc/sssd", "etc/ssh/sshd_config.d", "etc/ssh/lucia-authorized-keys", "run"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for dir in ["", "etc", "etc/sssd", "etc/ssh", "etc/ssh/sshd_config.d", "etc/ssh/lucia-authorized-keys"] {
        fs::set_permissions(root.join(dir), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let wanted = |number: u8| Wanted {
        sssd: Some(format!("{}\n# {number}\n", sssd::MARK).into()),
        sshd: Some(sshd::DROP_IN.to_owned()),
    };
    let apply = async |wanted: &Wanted, sshd: i32| {
        until_alive(world, async || {
            let state = State::hold(&root, "managed-run").map_err(|error| lucia_worker::chain(&error))?;
            let says = Says { sshd };
            let ground = Ground { root: &root, state: &state, runner: &says, directory: &says };
            match ground.apply(wanted, None).await {
                Err(ChangeError::Sshd { .. }) if sshd != 0 => Ok(()),
                done => done.map(drop).map_err(|error| lucia_worker::chain(&error)),
            }
        })
        .await;
    };
    let sssd_conf = root.join("etc/sssd/sssd.conf");
    let drop_in = root.join("etc/ssh/sshd_config.d").join(sshd::NAME);
    apply(&wanted(1), 0).await;
    apply(&wanted(2), 0).await;
    assert!(fs::read_to_string(&sssd_conf).unwrap().ends_with("# 2\n"));
    apply(&Wanted::default(), 255).await;
    assert!(fs::read_to_string(&sssd_conf).unwrap().ends_with("# 2\n") && drop_in.exists());
    apply(&Wanted::default(), 0).await;
    assert!(!sssd_conf.exists() && !drop_in.exists());

    let keys = async |accounts: &[&str]| {
        let ordered = crate::ordered(accounts);
        until_alive(world, async || {
            let files = Files::open(&root).map_err(|error| lucia_worker::chain(&error))?;
            let brought = files.bring(&ordered, Some(&Local::default()), true);
            let mut brought = brought.map_err(|error| lucia_worker::chain(&error))?;
            for account in std::mem::take(&mut brought.new) {
                files.write(&account, &ordered.accounts[&account], &mut brought);
            }
            Ok(())
        })
        .await;
        let mut there: Vec<String> = fs::read_dir(root.join("etc/ssh/lucia-authorized-keys"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, accounts);
    };
    keys(&["ada"]).await;
    keys(&[]).await;
    // One account's file is a point as any other's.
    keys(&["ada"]).await;
}

/// `lucia-enrollment-worker init`, with what its message says to do when it was cut off: moved away, and run again.
fn begin(world: &World) {
    let text = fs::read_to_string(world.path("worker.toml")).unwrap();
    let text = text.replace(world.path("worker").to_str().unwrap(), world.path("fleet").to_str().unwrap());
    let config = Settings::parse(&text).unwrap().resolve().unwrap();
    for _ in 0..DEATHS {
        world.deaths().revive(Program::Worker);
        let Err(error) = init(&config, world.now()) else { return };
        assert!(world.deaths().is_dead(Program::Worker), "{}", lucia_worker::chain(&error));
        let _ = fs::remove_dir_all(world.path("fleet"));
    }
    panic!("init died {DEATHS} times");
}

/// `lucia-controller doctor --restore`, again until it is done.
fn bring_back(world: &World, generation: Generation) {
    let config = Config::parse(&fs::read_to_string(world.path("controller.toml")).unwrap()).unwrap();
    for _ in 0..DEATHS {
        world.deaths().revive(Program::Controller);
        let Err(error) = restore(&config, generation) else { return };
        assert!(world.deaths().is_dead(Program::Controller), "{}", lucia_worker::chain(&error));
    }
    panic!("the restore died {DEATHS} times");
}

async fn mended(world: &World, mut act: impl FnMut() -> bool) {
    for _ in 0..200 {
        let done = act();
        world.mend_controller().await;
        if done {
            return;
        }
    }
    panic!("not done in two hundred tries")
}

/// Everything that is written once, at first: the fleet, the controller's directories, the endpoint.
async fn beginnings(world: &World) {
    begin(world);
    world.start_controller();
    for _ in 0..200 {
        if world.endpoint_turn() {
            break;
        }
        world.mend_controller().await;
        world.worker_turn(world.now());
        // Four certificates an hour are signed for the endpoint, whoever dies in between.
        tokio::time::sleep(HOUR / 3).await;
    }
    assert!(world.endpoint_turn());
}

/// From a machine that nobody knows to a node, a day on, under another key, gone, and its place taken by another.
async fn life(world: &World) {
    let mut machine = Machine::new(world, 1);
    machine.make_key().await;
    machine.join().await;
    let first = machine.id();
    // A lost file comes back from the answer beside it.
    machine.kill();
    fs::remove_file(machine.state_dir().join("certificate.pem")).unwrap();
    machine.run(5 * MINUTE).await;

    world.sleep_through(DAY).await;
    let leaf = machine.certificate_pem();
    machine.run_until(6 * HOUR, |machine| machine.certificate_pem() != leaf).await;
    machine.run(5 * MINUTE).await;
    mended(world, || {
        world.settle();
        !world.deaths().is_dead(Program::Controller)
    })
    .await;

    // Another key: the operator approves it under another name, and removes the former identity.
    machine.rekey("n1b").await;
    let second = machine.id();
    machine.run_until(6 * HOUR, |_| world.phase(&second) == Some(DevicePhase::Managed)).await;
    mended(world, || {
        world.phase(&first).is_none() || world.controller().enrollment.remove(&first, "operator:0").is_ok()
    })
    .await;
    for _ in 0..30 {
        world.worker_turn(world.now());
    }
    assert_ne!(first, second);

    // Another machine in its place.
    let mut heir = Machine::new(world, 2).called("n1b").replacing(&second);
    heir.make_key().await;
    heir.install().await;
    let third = heir.id();
    // Where a death lost the request, the next one is waited for.
    heir.run_until(6 * HOUR, |heir| world.deaths().aside(|| world.admit(&heir.fingerprint()))).await;
    heir.run_until(6 * HOUR, |_| world.phase(&third) == Some(DevicePhase::Managed)).await;
    heir.run(5 * MINUTE).await;
    for _ in 0..30 {
        world.worker_turn(world.now());
    }
    world.mend_controller().await;
    assert_eq!((world.phase(&first), world.phase(&second)), (None, None));
    assert_eq!(heir.status().doing, Doing::Heartbeating);

    // One identity each, one admission each, and whoever is gone is barred and cleaned up.
    let ledger = world.ledger();
    let lines = |kind: &str, id: &lucia_proto::base::ids::NodeId| {
        let of = |line: &&serde_json::Value| line["kind"] == kind && line.to_string().contains(id.as_str());
        ledger.iter().filter(of).count()
    };
    for id in [&first, &second, &third] {
        assert_eq!(lines("admitted", id), 1, "{ledger:?}");
        assert!(lines("issued", id) <= 2, "{ledger:?}");
    }
    for id in [&first, &second] {
        assert!(!world.path(&format!("worker/receipts/{id}.json")).exists());
        assert!(!world.path(&format!("controller/nodes/identities/{id}.json")).exists());
    }
    drop((machine, heir));
    world.kill_controller().await;
    bring_back(world, Generation::First);
    world.start_controller();
    // One change older: it may be the heartbeat's, which is said again.
    assert!(world.phase(&third).is_some());
}

fn new_world(seed: u64) -> World {
    let world = World::new(seed);
    world.admit_by_journal();
    world
}

/// A world in which no controller was ever started.
async fn blank_world(seed: u64) -> World {
    let world = new_world(seed);
    world.kill_controller().await;
    for dir in ["onboarding", "tls", "nodes/enrollment-requests", "nodes/removals", "nodes/identities"] {
        fs::remove_dir_all(world.path("controller").join(dir)).unwrap();
    }
    world
}

/// threats.md F-1, F-2, F-3: a registered point that nothing came by, and one that is hit without being registered, both
/// fail.
// spec: FT-1
#[tokio::test(start_paused = true)]
async fn every_crash_point_is_died_at_and_the_story_ends_the_same() {
    // A death can lead around the step behind it, as one before a file is in place around the one after; so the story is
    // told until nothing new is come by, each time dying only where nobody died before.
    let walked = Walked::default();
    for round in 1.. {
        let before = count(&walked);
        let world = blank_world(round).await;
        let plan = walk(&world, Where::Everywhere, &walked);
        beginnings(&world).await;
        directory(&world).await;
        life(&world).await;
        drop(plan);
        println!("round {round}: {} deaths", count(&walked) - before);
        if count(&walked) == before || round == ROUNDS_MAX {
            break;
        }
    }
    let walked = walked.lock().unwrap().clone();
    let registered = points::registered();
    let hit = walked.intersection(&registered).count();
    // Not `println!`, which is shown of failed tests alone: this line is part of what `make test` says.
    writeln!(std::io::stderr(), "crash points: {} registered, {hit} hit", registered.len()).unwrap();
    let lost: Vec<_> = registered.difference(&walked).collect();
    let strange: Vec<_> = walked.difference(&registered).collect();
    assert!(lost.is_empty() && strange.is_empty(), "registered, not hit: {lost:#?}\nhit, not registered: {strange:#?}");
}

/// One point in a world of its own, for those between two durable steps: nobody died before, and nobody dies after.
// spec: FT-1
#[tokio::test(start_paused = true)]
async fn a_death_at_one_point_alone_ends_the_same() {
    for (at, name) in points::named().into_iter().enumerate() {
        let world = blank_world(1 + u64::try_from(at).unwrap()).await;
        let walked = Walked::default();
        let plan = walk(&world, Where::At(name.clone()), &walked);
        if name.starts_with("agent/directory") || name.starts_with("agent/keys") {
            directory(&world).await;
        } else {
            beginnings(&world).await;
            life(&world).await;
        }
        drop(plan);
        assert!(walked.lock().unwrap().contains(&name), "{name} was not come by");
    }
}

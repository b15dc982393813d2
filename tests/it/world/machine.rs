//! One machine: first the installer's boot, then the system it put on the disk, each with the real agent on a root of
//! its own.

mod new_key;

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lucia_agent::client::Client;
use lucia_agent::client::clock::ServerClock;
use lucia_agent::client::config::Trust;
use lucia_agent::client::retry::{Backoff, Pace};
use lucia_agent::host::boot::{BootId, boot_id};
use lucia_agent::host::chain;
use lucia_agent::host::root::{AGENT_BINARY, Root};
use lucia_agent::host::state::State;
use lucia_agent::host::status::{Refusal, Status, StatusFile};
use lucia_agent::identity::running::is_running;
use lucia_agent::identity::{Identity, key};
use lucia_agent::install::discover::discover;
use lucia_agent::install::stage::{Staged, granted, lay_policy, stage_and_report};
use lucia_agent::install::target::InstallTarget;
use lucia_agent::install::wait::wait_install;
use lucia_agent::install::{Installation, device_state, guard};
use lucia_agent::inventory;
use lucia_agent::managed::shared::Shared;
use lucia_agent::managed::start::{self, Facts};
use lucia_agent::managed::usage::Sampler;
use lucia_agent::managed::{self, Daemon};
use lucia_daemon::notify::Notify;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::Clock;
use lucia_proto::node::inventory::HardwareInventory;
use lucia_proto::pki::key::{Fingerprint, NodeKey};
use lucia_proto::test_support::TestNode;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Program, StoryClock, Wire, World};

/// systemd's `RestartSec=` of the agent, and how often the installer's script tries a verb again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long one verb of the installer may go on.
const INSTALL: Duration = Duration::from_secs(7200);

/// A machine of the story.
pub(crate) struct Machine {
    world: World,
    number: u8,
    hostname: String,
    /// Whose place it takes.
    replaces: Option<NodeId>,
    clock: Arc<StoryClock>,
    installer: Root,
    installed: Root,
    boots: u32,
    /// Whether the installed system made itself another key than the installer's.
    rekeyed: bool,
    /// Part of its address: where it was moved to.
    place: u8,
    daemon: Option<Running>,
    /// What ended the agent, each time it ended.
    pub(crate) ends: Vec<String>,
}

struct Running {
    shared: Arc<Shared>,
    run: Pin<Box<dyn Future<Output = String>>>,
}

/// What each verb of the installer works with, as `cli::installer` opens it.
struct Session {
    boot: BootId,
    inventory: HardwareInventory,
    trust: Trust,
    state: State,
    key: Arc<NodeKey>,
    client: Client<Wire>,
}

/// Why a verb of the installer failed, as its caller reads it.
type Failed = String;

impl Machine {
    /// A machine that nobody knows, with a key that it makes itself.
    pub(crate) fn new(world: &World, number: u8) -> Self {
        let home = world.path(&format!("machine-{number}"));
        let (installer, installed) = (home.join("installer"), home.join("disk"));
        for root in [&installer, &installed] {
            copy(&fixture(), root);
        }
        let put = |path: &str, text: &str| put(&installer, path, text.as_bytes());
        put(
            "etc/lucia/agent.toml",
            "controller-url = \"https://controller.test:8443\"\ncontroller-name = \"controller.test\"\n",
        );
        put("etc/lucia/root.pem", &world.ca().root_pem());
        put("proc/self/exe", "the agent");
        let mut machine = Self {
            world: world.clone(),
            number,
            hostname: format!("n{number}"),
            replaces: None,
            clock: world.clock(),
            installer: Root::at(&installer),
            installed: Root::at(&installed),
            boots: 0,
            rekeyed: false,
            place: 0,
            daemon: None,
            ends: Vec::new(),
        };
        machine.boot(&installer);
        machine
    }

    /// A machine whose key the story knows: the key of `TestNode::new(number)`.
    pub(crate) fn known(world: &World, number: u8) -> Self {
        let machine = Self::new(world, number);
        let mut state = State::hold(&machine.installer, "story").unwrap();
        key::store(&mut state, &TestNode::new(number).key).unwrap();
        machine
    }

    /// It will be approved under another name than its own.
    pub(crate) fn called(mut self, hostname: &str) -> Self {
        hostname.clone_into(&mut self.hostname);
        self
    }

    /// It will be approved in the place of this node, whose name it takes.
    pub(crate) fn replacing(mut self, old: &NodeId) -> Self {
        self.replaces = Some(old.clone());
        self
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.hostname
    }

    pub(crate) fn clock(&self) -> &StoryClock {
        &self.clock
    }

    pub(crate) fn address(&self) -> IpAddr {
        IpAddr::from([10, 0, self.place, self.number])
    }

    /// The key in the installer, made if there is none yet; after `rekey`, the installed system's.
    pub(crate) fn key(&self) -> NodeKey {
        if let Some(running) = &self.daemon
            && self.rekeyed
        {
            return key::load(&running.shared.state).unwrap();
        }
        self.world.deaths().aside(|| {
            let mut state = State::hold(self.own(), "story").unwrap();
            key::load_or_make(&mut state).unwrap()
        })
    }

    /// Where it has its identity from.
    const fn own(&self) -> &Root {
        if self.rekeyed { &self.installed } else { &self.installer }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.key().public().fingerprint()
    }

    pub(crate) fn id(&self) -> NodeId {
        self.fingerprint().node_id()
    }

    fn boot(&mut self, root: &Path) {
        self.boots += 1;
        let id = format!("{:08x}-0000-4000-8000-{:012x}", self.boots, self.number);
        put(root, "proc/sys/kernel/random/boot_id", format!("{id}\n").as_bytes());
    }

    fn wire(&self) -> Wire {
        Wire::new(&self.world, &self.id(), self.address())
    }

    fn seed(&self) -> u64 {
        self.world.seed().wrapping_mul(1009).wrapping_add(u64::from(self.number))
    }

    /// The installer's boot to its end: every verb until it succeeds, while an operator approves.
    pub(crate) async fn install(&mut self) {
        let fingerprint = self.fingerprint();
        let world = self.world.clone();
        tokio::select! {
            () = world.approving(fingerprint, &self.hostname, self.replaces.as_ref()) => unreachable!("an operator never ends"),
            () = self.installer_script() => {}
        }
        let disk = self.installed.path().to_owned();
        self.link_program();
        self.boot(&disk);
    }

    /// discover, wait-install, installation-guard, stage-managed: each again until it succeeds.
    async fn installer_script(&self) {
        self.until_done(async || self.discover().await).await;
        let approved = async || {
            let waited = self.wait_install().await;
            if waited.is_err() {
                // What the person at the console is told to do when nobody approved in time.
                self.discover().await?;
            }
            waited
        };
        self.until_done(approved).await;
        self.until_done(async || self.guard().await).await;
        self.until_done(async || self.stage().await).await;
    }

    /// Runs a verb until it succeeds; one whose process is killed is started again as one that failed.
    async fn until_done(&self, verb: impl AsyncFn() -> Result<(), Failed>) {
        let begun = Instant::now();
        loop {
            self.world.0.deaths.revive(Program::Agent);
            let died = self.world.0.agent_dies.notified();
            let why = tokio::select! {
                biased;
                () = died => "killed".to_owned(),
                // Some verbs try again by themselves, and would for ever.
                done = timeout(INSTALL, verb()) => match done.unwrap_or_else(|_| Err("it goes on".to_owned())) {
                    Ok(()) => return,
                    Err(why) => why,
                },
            };
            assert!(begun.elapsed() < INSTALL, "not done in two hours: {why}");
            sleep(AGAIN).await;
        }
    }

    fn session(&self) -> Result<Session, Failed> {
        let root = self.own();
        let trust = Trust::load(root).map_err(|error| chain(&*error))?;
        let mut state = State::hold(root, "installer").map_err(|error| chain(&error))?;
        let key = Arc::new(key::load_or_make(&mut state).map_err(|error| chain(&error))?);
        let client = self.client(&key);
        Ok(Session {
            boot: boot_id(root).unwrap(),
            inventory: inventory::gather(root).unwrap(),
            trust,
            state,
            key,
            client,
        })
    }

    async fn discover(&self) -> Result<(), Failed> {
        let mut session = self.session()?;
        let mut backoff = Backoff::new(self.seed());
        loop {
            let running = is_running(&session.state).map_err(|error| chain(&error))?;
            match discover(&mut session.client, &session.inventory, running).await {
                Ok(found) => {
                    assert_eq!(found.device_id, session.key.public().fingerprint().node_id());
                    return Ok(());
                }
                Err(error) => sleep(backoff.next(Pace::after(&error), error.retry_after())).await,
            }
        }
    }

    async fn wait_install(&self) -> Result<(), Failed> {
        let Session { boot, state, mut client, .. } = self.session()?;
        let mut backoff = Backoff::new(self.seed() + 1);
        wait_install(&mut client, &state, &boot, &mut backoff, |_| {}).await.map(drop).map_err(|error| chain(&error))
    }

    pub(crate) async fn guard(&self) -> Result<(), Failed> {
        let Session { boot, state, inventory, mut client, .. } = self.session()?;
        let kept = Installation::read(&state).map_err(|error| chain(&error))?;
        let device = device_state(&mut client).await.map_err(|error| chain(&error))?;
        let now = client.server_now().expect("the controller's time");
        let running = is_running(&state).map_err(|error| chain(&error))?;
        guard::check(running, kept.as_ref(), &boot, &inventory, &device, now).map(drop).map_err(|error| chain(&error))
    }

    pub(crate) async fn stage(&self) -> Result<(), Failed> {
        let Session { boot, state, trust, key, mut client, .. } = self.session()?;
        let target = InstallTarget::open(self.installed.path()).map_err(|error| chain(&error))?;
        let grant = granted(&state, &boot).map_err(|error| chain(&error))?;
        lay_policy(&target, None).map_err(|error| chain(&error))?;
        let staged = Staged { trust: &trust, key: &key, boot: &boot, program: b"the agent" };
        stage_and_report(&mut client, &target, &grant, staged).await.map(drop).map_err(|error| chain(&error))
    }

    fn client(&self, key: &Arc<NodeKey>) -> Client<Wire> {
        let clock: Arc<dyn Clock> = Arc::<StoryClock>::clone(&self.clock);
        let wire = Wire::new(&self.world, &key.public().fingerprint().node_id(), self.address());
        Client::new(wire, Arc::clone(key), clock, Arc::new(ServerClock::new()))
    }

    /// `managed-run`, as `cli::managed` starts it.
    fn start(&self) -> Result<Running, Failed> {
        let root = &self.installed;
        let text = |error: &dyn std::error::Error| chain(error);
        let facts = Facts::read(root).map_err(|error| text(&*error))?;
        let left = start::installed_facts(root).map_err(|error| text(&*error))?;
        let installed = start::check(&facts, left).map_err(|error| text(&error))?;
        let state = State::hold(root, "managed-run").map_err(|error| text(&error))?;
        let trust = Trust::load(root).map_err(|error| text(&*error))?;
        let key = Arc::new(key::load(&state).map_err(|error| text(&error))?);
        let orders = installed.facts().clone();
        let identity = Identity::open(&state, &key, &orders.hostname, &orders.task_id, trust.root);
        let identity = identity.map_err(|error| text(&*error))?;
        let clock: Arc<dyn Clock> = Arc::<StoryClock>::clone(&self.clock);
        let shared = Arc::new(Shared::new(state, StatusFile::new(root), Status::default(), clock, Notify::silent()));
        let (world, id, from) = (self.world.clone(), orders.node_id, self.address());
        let daemon = Daemon {
            shared: Arc::clone(&shared),
            key,
            identity,
            transport: move || Wire::new(&world, &id, from),
            runner: super::programs::NoPrograms,
            directory: super::programs::NoPrograms,
            root: root.clone(),
            root_file: trust.config.root_file,
            sampler: Sampler::new(root),
            seed: self.seed(),
        };
        Ok(Running { shared, run: Box::pin(async move { managed::run(&installed, daemon).await.to_string() }) })
    }

    /// Lets the installed system run for so long; an agent that ends or dies is started again, as systemd does.
    pub(crate) async fn run(&mut self, span: Duration) {
        let end = Instant::now() + span;
        let world = self.world.clone();
        while Instant::now() < end {
            if self.daemon.is_none() {
                self.world.0.deaths.revive(Program::Agent);
            }
            match &mut self.daemon {
                Some(running) => {
                    let ended = tokio::select! {
                        biased;
                        () = sleep_until(end) => return,
                        () = world.0.agent_dies.notified() => "killed".to_owned(),
                        why = running.run.as_mut() => why,
                    };
                    self.ends.push(ended);
                    self.daemon = None;
                    sleep(AGAIN).await;
                }
                None => match self.start() {
                    Ok(running) => self.daemon = Some(running),
                    Err(why) => {
                        self.ends.push(why);
                        sleep(AGAIN).await;
                    }
                },
            }
        }
    }

    /// Runs until `done`, for `limit` at most.
    pub(crate) async fn run_until(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + limit;
        while !done(self) {
            let worker = self.world.worker_trouble();
            assert!(
                Instant::now() < end,
                "not within {limit:?}: {:?}\nends: {:?}\nworker: {worker:?}",
                self.status(),
                self.ends
            );
            self.run(Duration::from_secs(1)).await;
        }
    }

    /// From nothing to Managed.
    pub(crate) async fn join(&mut self) {
        self.install().await;
        let id = self.id();
        let world = self.world.clone();
        let managed = |_: &Self| world.phase(&id) == Some(lucia_proto::node::phase::DevicePhase::Managed);
        self.run_until(Duration::from_secs(3600), managed).await;
    }

    /// The agent is killed, and stays down until it runs again.
    pub(crate) fn kill(&mut self) {
        self.daemon = None;
    }

    /// The machine is switched off without a word and on again, at another address where it was moved.
    pub(crate) fn reboot(&mut self, place: u8) {
        self.kill();
        self.place = place;
        let disk = self.installed.path().to_owned();
        self.boot(&disk);
    }

    /// Another machine with a copy of this one's disk.
    pub(crate) fn copied(&self, number: u8) -> Self {
        let home = self.world.path(&format!("machine-{number}"));
        let (installer, installed) = (home.join("installer"), home.join("disk"));
        for (from, to) in [(&self.installer, &installer), (&self.installed, &installed)] {
            copy(from.path(), to);
            let state = Root::at(to).state();
            fs::set_permissions(state, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let mut machine = Self {
            world: self.world.clone(),
            number,
            hostname: self.hostname.clone(),
            replaces: None,
            clock: self.world.clock(),
            installer: Root::at(&installer),
            installed: Root::at(&installed),
            boots: self.boots,
            rekeyed: self.rekeyed,
            place: 0,
            daemon: None,
            ends: Vec::new(),
        };
        machine.link_program();
        machine.boot(&installed);
        machine
    }

    /// The running program and PID 1's view of it are the installed one.
    fn link_program(&self) {
        for link in [&self.installed.running_binary(), &self.installed.agent_binary_of_pid_1()] {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let _ = fs::remove_file(link);
            fs::hard_link(self.installed.join(AGENT_BINARY), link).unwrap();
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.daemon.as_ref().map(|running| running.shared.status()).unwrap_or_default()
    }

    /// What `why` says of this call, if it was refused.
    pub(crate) fn refusal(&self, call: &str) -> Option<Refusal> {
        self.status().refusals.into_iter().find(|refusal| refusal.call == call)
    }

    /// A file of the installed agent.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.installed.state().join(name)).ok()
    }

    /// Everything the installed agent keeps, but its lease, its starts and its status.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.installed.state()).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| !matches!(name.as_str(), ".lease" | "starts.json" | "status.json"))
            .collect();
        files.sort();
        files
    }

    pub(crate) fn certificate_pem(&self) -> String {
        String::from_utf8(self.file("certificate.pem").expect("a certificate")).unwrap()
    }

    /// The directory of the installed agent.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.installed.state()
    }

    /// A connection of this machine that no agent uses.
    pub(crate) fn connection(&self) -> Wire {
        self.wire()
    }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests/fixtures/firecracker-guest")
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(source).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}

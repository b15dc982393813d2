//! Everything a story needs: one time, a real controller behind its real HTTP edge, a real worker on the files between
//! them, machines with the real agent, and a network that is unruly unless the story says otherwise.
//!
//! Nothing is stood in for but what lies outside the programs: the network (`wire`), the hosts (`machine`), the clocks
//! (`clock`) and the people. Time is paused: it passes when everybody waits.

mod clock;
mod deaths;
mod hand;
mod machine;
mod owners;
mod people;
mod programs;
mod site;
mod twisted;
mod wire;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_agent::client::transport::Request;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::calls::Endpoint;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::test_support::TestCa;
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use clock::{START, StoryClock};
pub(crate) use deaths::{Deaths, Program};
pub(crate) use hand::{Hand, Reply};
pub(crate) use machine::Machine;
pub(crate) use wire::{Raw, Seen, Tamper, Wire};

use site::{Enrolling, Serving};
use twisted::Twist;
use wire::Chaos;

/// Every story runs under each of these networks.
pub(crate) const SEEDS: [u64; 3] = [1, 26, 4711];

/// What a story decides about a call: nothing leaves it to the network.
type Decide = Box<dyn FnMut(&Coming) -> Option<Tamper>>;

/// A call that is about to be sent.
pub(crate) struct Coming {
    pub(crate) call: Endpoint,
    /// How many requests were sent before it.
    pub(crate) number: usize,
}

/// Clones are the same world.
#[derive(Clone)]
pub(crate) struct World(Rc<Inner>);

struct Inner {
    dir: Scratch,
    seed: u64,
    ca: TestCa,
    begun: Instant,
    controller_clock: Arc<StoryClock>,
    worker_clock: Arc<StoryClock>,
    controller: RefCell<Option<Serving>>,
    starts: Cell<u8>,
    worker: RefCell<Enrolling>,
    chaos: RefCell<Chaos>,
    decide: RefCell<Option<Decide>>,
    twist: RefCell<Twist>,
    seen: RefCell<Vec<Seen>>,
    /// Requests that are no longer in `seen`.
    forgotten: Cell<usize>,
    agent_dies: Arc<Notify>,
    deaths: Arc<Deaths>,
    ticked: Cell<Duration>,
    /// Whether there are owners: then the worker looks for their questions and orders as well.
    owned: Cell<bool>,
}

/// A directory in memory where there is one, so that a story does not wait for a disk; gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        Self(nix::unistd::mkdtemp(&parent.join("lucia-story-XXXXXX")).unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover there is no reason to fail a story.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl World {
    /// A fleet that has begun, with its worker and controller running, in the network of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let begun = Instant::now();
        let dir = Scratch::new();
        let ca = TestCa::new(START);
        site::lay(&dir.0, &ca);
        let agent_dies = Arc::new(Notify::new());
        let world = Self(Rc::new(Inner {
            seed,
            begun,
            controller_clock: Arc::new(StoryClock::new(begun)),
            worker_clock: Arc::new(StoryClock::new(begun)),
            controller: RefCell::new(None),
            starts: Cell::new(0),
            worker: RefCell::new(Enrolling::default()),
            chaos: RefCell::new(Chaos::new(seed)),
            decide: RefCell::new(None),
            twist: RefCell::default(),
            seen: RefCell::new(Vec::new()),
            forgotten: Cell::new(0),
            deaths: Arc::new(Deaths::new(Arc::clone(&agent_dies))),
            agent_dies,
            ticked: Cell::new(Duration::ZERO),
            owned: Cell::new(false),
            dir,
            ca,
        }));
        world.start_worker();
        world.start_controller();
        world
    }

    /// Where everything of this world lies.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.dir.0.join(below)
    }

    pub(crate) fn ca(&self) -> &TestCa {
        &self.0.ca
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The true time.
    pub(crate) fn now(&self) -> UnixTime {
        START.plus(self.elapsed())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.begun.elapsed()
    }

    pub(crate) fn controller_clock(&self) -> &StoryClock {
        &self.0.controller_clock
    }

    pub(crate) fn worker_clock(&self) -> &StoryClock {
        &self.0.worker_clock
    }

    /// A clock for one more machine.
    fn clock(&self) -> Arc<StoryClock> {
        Arc::new(StoryClock::new(self.0.begun))
    }

    /// Lets nobody but the story decide what becomes of a call.
    pub(crate) fn calm(&self) {
        self.0.chaos.borrow_mut().on = false;
    }

    /// Lets the story decide about calls from now on.
    pub(crate) fn script(&self, decide: impl FnMut(&Coming) -> Option<Tamper> + 'static) {
        *self.0.decide.borrow_mut() = Some(Box::new(decide));
    }

    /// Lets the network decide alone again.
    pub(crate) fn unscript(&self) {
        *self.0.decide.borrow_mut() = None;
    }

    fn decide(&self, call: Endpoint) -> (Tamper, Duration) {
        let number = self.0.forgotten.get() + self.0.seen.borrow().len();
        let (chance, delay) = self.0.chaos.borrow_mut().decide(call);
        // Nobody answers anything for a controller that is down.
        let chance = if self.controller_is_up() { chance } else { Tamper::Pass };
        let wanted = self.0.decide.borrow_mut().as_mut().and_then(|decide| decide(&Coming { call, number }));
        (wanted.unwrap_or(chance), delay)
    }

    fn see(&self, call: Endpoint, node: &NodeId, from: IpAddr, act: Tamper, request: &Request) -> usize {
        let mut seen = self.0.seen.borrow_mut();
        let (node, request) = (node.clone(), request.clone());
        seen.push(Seen { call, node, from, at: self.now(), act, request, status: None });
        self.0.forgotten.get() + seen.len() - 1
    }

    fn answered(&self, at: usize, status: u16) {
        // What was forgotten meanwhile has no place for it.
        let mut seen = self.0.seen.borrow_mut();
        if let Some(seen) = at.checked_sub(self.0.forgotten.get()).and_then(|at| seen.get_mut(at)) {
            seen.status = Some(status);
        }
    }

    /// Every request since the story began.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.0.seen.borrow().clone()
    }

    /// Requests of this call since `from`.
    pub(crate) fn times(&self, call: Endpoint, from: UnixTime) -> Vec<UnixTime> {
        let seen = self.0.seen.borrow();
        seen.iter().filter(|seen| seen.call == call && seen.at >= from).map(|seen| seen.at).collect()
    }

    /// Forgets what was seen: for stories of days.
    pub(crate) fn forget_seen(&self) {
        let mut seen = self.0.seen.borrow_mut();
        self.0.forgotten.set(self.0.forgotten.get() + seen.len());
        seen.clear();
    }

    /// Whom a plan of crash points killed.
    pub(crate) fn deaths(&self) -> Arc<Deaths> {
        Arc::clone(&self.0.deaths)
    }

    fn agent_dies(&self) {
        self.0.agent_dies.notify_one();
    }

    /// The controller's journal, read from its file as a reader of its own.
    pub(crate) fn journal(&self) -> Journal {
        Journal::from_bytes(&std::fs::read(self.path("controller/onboarding/state.json")).unwrap()).unwrap()
    }

    pub(crate) fn phase(&self, id: &NodeId) -> Option<DevicePhase> {
        self.journal().device(id).map(|device| device.phase)
    }

    /// Lets everybody sleep for so long; nothing is sent meanwhile.
    pub(crate) async fn sleep_through(&self, span: Duration) {
        tokio::time::advance(span).await;
        // Whoever has to end a connection because of it does so now.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// What must not change when a call is refused: the journal, the records, the worker's ledger.
    pub(crate) fn durable(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = vec![self.path("controller/onboarding/state.json"), self.path("worker/ledger.jsonl")];
        for dir in [
            "controller/nodes/identities",
            "controller/nodes/enrollment-requests",
            "controller/nodes/removals",
            "worker/receipts",
        ] {
            let entries = std::fs::read_dir(self.path(dir)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        }
        files.sort();
        files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    /// Lets the controller write what it has left to write.
    pub(crate) fn settle(&self) {
        let controller = self.controller();
        controller.tick();
        controller.flush();
    }

    /// A challenge as the controller would give it now.
    fn challenge(&self, scope: &Scope, from: IpAddr) -> Option<String> {
        let serving = self.0.controller.borrow();
        serving.as_ref().map(|serving| serving.controller.challenges.issue(scope, from).to_header())
    }

    fn accept(&self, stream: DuplexStream, from: IpAddr) -> bool {
        let mut serving = self.0.controller.borrow_mut();
        serving.as_mut().is_some_and(|serving| {
            serving.accept(stream, from);
            true
        })
    }

    /// What the programs do by themselves in the time before a call.
    fn before(&self, call: Endpoint) {
        if let Some(serving) = self.0.controller.borrow().as_ref()
            && self.elapsed() >= self.0.ticked.get() + Duration::from_secs(1)
        {
            serving.controller.tick();
            self.0.ticked.set(self.elapsed());
        }
        if matches!(call, Endpoint::Enroll | Endpoint::Renew) || (self.0.owned.get() && call == Endpoint::Heartbeat) {
            // The worker looks every 5 s; nobody sees whether it did but at these calls.
            self.worker_turn(self.worker_clock().now());
        }
    }

    /// inotify wakes the worker when a request was written.
    fn after(&self, call: Endpoint) {
        if matches!(call, Endpoint::Enroll | Endpoint::Renew) {
            self.worker_turn(self.worker_clock().now());
        }
    }
}

//! The daemon's stories, on paused time, against a controller that a test decides.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lucia_daemon::notify::Notify;
use lucia_proto::base::code::Code;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::calls::Endpoint;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::test_support::{TestCa, TestNode, key};

use super::*;
use crate::client::fake::{Fake, Reply, START, SeenCall, TestClock, with_challenges};
use crate::directory::ldap::tests::FakeDirectory;
use crate::directory::ldap::{LdapError, Reader};
use crate::host::root::Root;
use crate::host::scratch::Scratch;
use crate::host::state::State;
use crate::host::status::{Reason, Refusal, StatusFile};
use crate::identity::installed::InstalledFacts;
use crate::units::fake::FakeRunner;

const DAY: u64 = 86_400;

/// One node and its disk; each run is one start of the daemon.
struct World {
    scratch: Scratch,
    ca: Rc<TestCa>,
    node: Rc<TestNode>,
    wall: UnixTime,
    runner: FakeRunner,
    /// Seconds of the run in which the directory does not answer.
    down: std::ops::Range<u64>,
}

struct Ran {
    fake: Fake,
    status: Status,
    /// What ended the daemon, if it ended.
    ended: Option<Ended>,
}

fn start_time() -> UnixTime {
    UnixTime::from_secs(START)
}

impl World {
    fn new() -> Self {
        let world = Self {
            scratch: Scratch::new(),
            ca: Rc::new(TestCa::new(start_time().minus(Duration::from_secs(30 * DAY)))),
            node: Rc::new(TestNode::new(7)),
            wall: start_time(),
            runner: FakeRunner::nobody(),
            down: 0..0,
        };
        // No hot copy of the status: here /run is a disk, and hours of heartbeats would wait for it.
        world.scratch.put("run/lucia/agent", "");
        let mut state = State::hold(&world.root(), "test").unwrap();
        crate::identity::key::store(&mut state, &world.node.key).unwrap();
        world
    }

    fn root(&self) -> Root {
        self.scratch.root()
    }

    /// With a certificate that has this long to go when the test starts; negative is over.
    fn with_certificate(seconds_left: i64) -> Self {
        let world = Self::new();
        let lifetime = i64::try_from(7 * DAY).unwrap();
        let age = u64::try_from(lifetime - seconds_left).unwrap();
        let issued = start_time().minus(Duration::from_secs(age));
        let state = State::hold(&world.root(), "test").unwrap();
        let mut identity = world.identity(&state);
        let signed = signed(&world.ca, &world.node, issued);
        identity.accept(&state, &signed, issued).unwrap();
        world
    }

    fn identity(&self, state: &State) -> Identity {
        let node = &self.node;
        Identity::open(state, &node.key, &node.hostname, &node.task_id, self.ca.root()).unwrap()
    }

    /// What a start opens, on a disk that may die.
    fn open(&self) -> Result<(State, Identity), String> {
        let text = |error: &dyn std::error::Error| crate::host::chain(error);
        let state = State::hold(&self.root(), "managed-run").map_err(|error| text(&error))?;
        let node = &self.node;
        let identity = Identity::open(&state, &node.key, &node.hostname, &node.task_id, self.ca.root());
        Ok((state, identity.map_err(|error| text(&*error))?))
    }

    fn answer_at(&self) -> impl Fn(UnixTime) -> Reply + 'static {
        let (ca, node) = (Rc::clone(&self.ca), Rc::clone(&self.node));
        move |now| Reply::Ok(lucia_proto::base::json::to_string(&signed(&ca, &node, now)).unwrap())
    }

    fn installed(&self) -> InstalledFacts {
        InstalledFacts {
            node_id: self.node.node_id.clone(),
            task_id: self.node.task_id.clone(),
            hostname: self.node.hostname.clone(),
            install_boot_id: Some("33333333-3333-4333-8333-333333333333".parse().unwrap()),
            machine_id: "22222222222242228222222222222222".parse().unwrap(),
        }
    }

    /// Runs the daemon for so many seconds.
    async fn run(&self, seconds: u64, decide: impl FnMut(&SeenCall) -> Reply + 'static) -> Ran {
        self.run_opened(self.open().unwrap(), seconds, decide).await
    }

    async fn run_opened(
        &self,
        (state, identity): (State, Identity),
        seconds: u64,
        decide: impl FnMut(&SeenCall) -> Reply + 'static,
    ) -> Ran {
        let node_key = Arc::new(key(7));
        let fake = Fake::new(&node_key, decide);
        let clock: Arc<dyn Clock> = TestClock::at(self.wall);
        let shared =
            Arc::new(Shared::new(state, StatusFile::new(&self.root()), Status::default(), clock, Notify::silent()));
        let installed = start::installed_for_tests(self.installed());
        let transport = fake.clone();
        let (begun, down) = (tokio::time::Instant::now(), self.down.clone());
        let down = move || down.contains(&begun.elapsed().as_secs()).then_some(LdapError::Timeout);
        let daemon = Daemon {
            shared: Arc::clone(&shared),
            key: node_key,
            identity,
            transport: move || transport.clone(),
            runner: self.runner.clone(),
            directory: FakeDirectory(move |_: &Reader| down().map_or(Ok(()), Err)),
            root: self.root(),
            root_file: crate::client::config::DEFAULT_ROOT_FILE.into(),
            sampler: Sampler::new(&Root::system()),
            seed: 42,
        };
        let ended = tokio::time::timeout(Duration::from_secs(seconds), run(&installed, daemon)).await.ok();
        Ran { fake, status: shared.status(), ended }
    }

    /// Every file of the node but what changes by itself.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.root().state()).unwrap().map(Result::unwrap);
        entries
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| !matches!(name.as_str(), ".lease" | "starts.json" | "status.json"))
            .collect()
    }
}

mod directory;
mod owners;

type MakeReply = fn() -> Reply;

/// What the worker answers at `at`, with the one bundle there is.
fn signed(ca: &TestCa, node: &TestNode, at: UnixTime) -> SignedAnswer {
    let mut answer = ca.answer(node, at);
    answer.bundle = ca.signed_bundle(1, start_time());
    ca.sign_answer(&answer)
}

fn accepted() -> Reply {
    Reply::Ok(r#"{"accepted":true}"#.into())
}

fn times(ran: &Ran, call: Endpoint) -> Vec<u64> {
    let seen = ran.fake.seen().into_iter().filter(|seen| seen.call == call);
    seen.map(|seen| seen.now.secs() - START).collect()
}

// spec: EN-12
// spec: HB-10
#[tokio::test(start_paused = true)]
async fn from_no_certificate_to_heartbeats() {
    let world = World::new();
    let (answer, asked) = (world.answer_at(), Cell::new(0));
    let ran = world
        .run(
            200,
            with_challenges(move |seen| match seen.call {
                Endpoint::Enroll => {
                    asked.set(asked.get() + 1);
                    if asked.get() < 3 { Reply::Pending } else { answer(seen.now) }
                }
                Endpoint::Heartbeat => accepted(),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    assert_eq!(times(&ran, Endpoint::Enroll), [0, 5, 15]);
    let beats = times(&ran, Endpoint::Heartbeat);
    assert_eq!(beats[0], 15, "the first heartbeat follows the certificate at once");
    assert!((6..=8).contains(&beats.len()), "{beats:?}");
    assert!(beats.windows(2).all(|pair| (27..=33).contains(&(pair[1] - pair[0]))), "{beats:?}");
    assert_eq!(ran.status.doing, Doing::Heartbeating);
    assert_eq!(usize::try_from(ran.status.heartbeats).unwrap(), beats.len());
    // One challenge is fetched for each conversation; all others ride in answers.
    assert_eq!(ran.fake.count(Endpoint::NodeChallenge), 1, "{:?}", ran.fake.calls());
    let csrs: std::collections::BTreeSet<_> =
        ran.fake.seen().into_iter().filter(|seen| seen.call == Endpoint::Enroll).map(|seen| seen.report).collect();
    assert_eq!(csrs.len(), 1, "one CSR, the same each time");
}

// spec: AG-31
#[tokio::test(start_paused = true)]
async fn a_certificate_is_told_of_before_the_first_heartbeat() {
    for (world, call) in [(World::new(), Endpoint::Enroll), (World::with_certificate(-3600), Endpoint::Renew)] {
        let answer = world.answer_at();
        let ran = world
            .run(
                90,
                with_challenges(move |seen| match seen.call {
                    asked if asked == call => answer(seen.now),
                    Endpoint::Heartbeat => Reply::Lost,
                    call => panic!("{call:?} was not scripted"),
                }),
            )
            .await;
        assert!(ran.fake.count(Endpoint::Heartbeat) > 0);
        assert_eq!(ran.status.doing, Doing::Certified, "{call:?}");
        assert!(ran.status.certificate_until.is_some());
    }
}

// spec: RN-3
// spec: RN-4
#[tokio::test(start_paused = true)]
async fn renewal_waits_in_steps_while_heartbeats_go_on() {
    let world = World::with_certificate(i64::try_from(6 * DAY - 1).unwrap());
    let ran = world
        .run(
            2_800,
            with_challenges(|seen| match seen.call {
                Endpoint::Renew => Reply::Pending,
                Endpoint::Heartbeat => accepted(),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    assert_eq!(times(&ran, Endpoint::Renew), [0, 30, 90, 210, 450, 930, 1830, 2730]);
    assert!(times(&ran, Endpoint::Heartbeat).len() > 80);
    assert!(ran.fake.seen().iter().filter(|seen| seen.call == Endpoint::Renew).all(|seen| seen.certificate.is_some()));
}

// spec: RN-1
#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_about_once_a_day() {
    let world = World::with_certificate(i64::try_from(6 * DAY + 600).unwrap());
    let answer = world.answer_at();
    let before = world.files();
    let ran = world
        .run(
            DAY + 1200,
            with_challenges(move |seen| match seen.call {
                Endpoint::Renew => answer(seen.now),
                Endpoint::Heartbeat => accepted(),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    let renewals = times(&ran, Endpoint::Renew);
    assert_eq!(renewals.len(), 2, "{renewals:?}");
    assert!(renewals[0].abs_diff(600) < 120 && (renewals[1] - renewals[0]).abs_diff(DAY) < 120, "{renewals:?}");
    assert_ne!(world.files()["certificate.pem"], before["certificate.pem"]);
    assert_eq!(world.files()["node.csr"], before["node.csr"]);
}

/// In the last days of an issuing CA no longer certificate is to be had.
// spec: CE-200
#[tokio::test(start_paused = true)]
async fn a_short_certificate_is_renewed_with_growing_pauses() {
    let world = World::with_certificate(i64::try_from(5 * DAY).unwrap());
    let answer = world.answer_at();
    let ran = world
        .run(
            4 * 3600,
            with_challenges(move |seen| match seen.call {
                Endpoint::Renew => answer(seen.now.minus(Duration::from_secs(2 * DAY))),
                Endpoint::Heartbeat => accepted(),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    let renewals = times(&ran, Endpoint::Renew);
    assert!((10..30).contains(&renewals.len()), "{renewals:?}");
}

/// A node that was suspended for so long that its certificate ended: what its heartbeats were refused for is past.
// spec: AG-283
#[tokio::test(start_paused = true)]
async fn an_ended_certificate_leaves_only_what_its_renewal_is_refused_for() {
    let world = World::with_certificate(600);
    let script = || {
        with_challenges(|seen| match seen.call {
            Endpoint::Heartbeat => Reply::Refuse(Code::NodeIdentityInvalid),
            Endpoint::Renew => Reply::Refuse(Code::NodeEnrollmentFailed),
            call => panic!("{call:?} was not scripted"),
        })
    };
    let held_up = |ran: &Ran| {
        let told = |last: &Refusal| (last.call.clone(), last.reason);
        ran.status.refusals.iter().map(told).collect::<Vec<_>>()
    };
    let renew = ("renew".to_owned(), Some(Reason::Worker));
    let ran = world.run(300, script()).await;
    assert_eq!(held_up(&ran), [("heartbeat".to_owned(), Some(Reason::Identity)), renew.clone()]);
    let ran = world.run(4_000, script()).await;
    assert_eq!((ran.status.doing, held_up(&ran)), (Doing::Lapsed, vec![renew]));
}

/// threats.md S-12, node side.
// spec: RN-5
#[tokio::test(start_paused = true)]
async fn a_lapsed_certificate_renews_and_does_nothing_else() {
    let world = World::with_certificate(-3600);
    let ran = world
        .run(
            4_000,
            with_challenges(|seen| match seen.call {
                Endpoint::Renew => Reply::Pending,
                call => panic!("{call:?} is not for a lapsed certificate"),
            }),
        )
        .await;
    assert_eq!(ran.status.doing, Doing::Lapsed);
    assert!(ran.fake.count(Endpoint::Renew) >= 8);

    let (answer, asked) = (world.answer_at(), Cell::new(0));
    let ran = world
        .run(
            120,
            with_challenges(move |seen| match seen.call {
                Endpoint::Renew => {
                    asked.set(asked.get() + 1);
                    if asked.get() == 1 { Reply::Lost } else { answer(seen.now) }
                }
                Endpoint::Heartbeat => accepted(),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    assert_eq!(ran.status.doing, Doing::Heartbeating);
    assert_eq!(times(&ran, Endpoint::Heartbeat)[0], *times(&ran, Endpoint::Renew).last().unwrap());
}

/// threats.md F-8, B-41: the machine's own clock decides nothing.
// spec: AG-7
#[tokio::test(start_paused = true)]
async fn f_8_a_clock_wrong_by_ten_years_changes_nothing() {
    let ten_years = Duration::from_secs(3650 * DAY);
    for wall in [start_time().plus(ten_years), start_time().minus(ten_years), UnixTime::EPOCH] {
        let mut world = World::with_certificate(i64::try_from(6 * DAY + 600).unwrap());
        world.wall = wall;
        let answer = world.answer_at();
        let ran = world
            .run(
                900,
                with_challenges(move |seen| match seen.call {
                    Endpoint::Renew => answer(seen.now),
                    Endpoint::Heartbeat => accepted(),
                    call => panic!("{call:?} was not scripted"),
                }),
            )
            .await;
        let renewals = times(&ran, Endpoint::Renew);
        assert!(renewals.len() == 1 && renewals[0].abs_diff(600) < 70, "{renewals:?}");
        assert!(ran.fake.count(Endpoint::Heartbeat) > 25);
        let offset = i64::try_from(START).unwrap() - i64::try_from(wall.secs()).unwrap();
        assert_eq!(ran.status.clock_offset_seconds, Some(offset));
    }
}

/// threats.md B-4: whatever answers, nothing is deleted and the agent goes on.
// spec: AG-14
#[tokio::test(start_paused = true)]
async fn b_4_strangers_and_refusals_cost_neither_key_nor_certificate() {
    let strange: Vec<(&str, MakeReply)> = vec![
        ("301", || Reply::Html(301)),
        ("401", || Reply::Html(401)),
        ("403", || Reply::Html(403)),
        ("404", || Reply::Html(404)),
        ("410", || Reply::Html(410)),
        ("502", || Reply::Html(502)),
        ("page", || Reply::Html(200)),
        ("json", || Reply::OtherJson(403)),
        ("down", || Reply::Down),
        ("lost", || Reply::Lost),
        ("words", || Reply::Ok(r#"{"error":1}"#.into())),
    ];
    for (name, reply) in strange {
        let world = World::with_certificate(i64::try_from(6 * DAY - 1).unwrap());
        let before = world.files();
        let ran = world.run(1_200, move |_: &SeenCall| reply()).await;
        assert_eq!((ran.ended, world.files() == before), (None, true), "{name}");
        assert!(!ran.status.refusals.is_empty(), "{name}");
        assert!(ran.fake.calls().len() < 700, "{name}: {} calls in twenty minutes", ran.fake.calls().len());
    }
    for code in Code::ALL {
        let world = World::with_certificate(i64::try_from(6 * DAY - 1).unwrap());
        let before = world.files();
        let code = *code;
        let ran = world.run(1_200, with_challenges(move |_| Reply::Refuse(code))).await;
        assert_eq!((ran.ended, world.files() == before), (None, true), "{code:?}");
        let what = &ran.status.refusals[0].what;
        assert!(what.contains(code.as_str()), "{what}");
        let most = if code.agent_action() == lucia_proto::base::code::AgentAction::SignAgain { 600 } else { 300 };
        assert!(ran.fake.calls().len() < most, "{code:?}: {} calls in twenty minutes", ran.fake.calls().len());
    }
}

// spec: AG-17
#[tokio::test(start_paused = true)]
async fn a_refused_identity_is_asked_for_about_once_an_hour_and_recovers_alone() {
    let world = World::with_certificate(i64::try_from(6 * DAY + 5 * DAY / 6).unwrap());
    let before = world.files();
    let well = Rc::new(Cell::new(false));
    let flag = Rc::clone(&well);
    let ran = world
        .run(
            5 * DAY / 6,
            with_challenges(move |_| if flag.get() { accepted() } else { Reply::Refuse(Code::NodeIdentityInvalid) }),
        )
        .await;
    let beats = times(&ran, Endpoint::Heartbeat);
    let late = beats.iter().filter(|at| **at > DAY / 3).count();
    assert!((12..60).contains(&late), "{late} in half a day");
    assert_eq!(world.files(), before);
    assert!(ran.status.refusals[0].cure.contains("luciactl why"));
}

// spec: AG-18
#[tokio::test(start_paused = true)]
async fn a_controller_that_returns_hears_every_node_within_a_minute() {
    let world = World::with_certificate(i64::try_from(6 * DAY + 3600).unwrap());
    let ran = world
        .run(1_800, with_challenges(|seen| if seen.now.secs() - START < 1_200 { Reply::Down } else { accepted() }))
        .await;
    let beats = times(&ran, Endpoint::Heartbeat);
    let first = beats.iter().find(|at| **at >= 1_200).unwrap();
    assert!(first - 1_200 <= 60, "{first}");
    assert!(ran.status.refusals.is_empty());
}

/// threats.md F-26: 5 % of good challenges refused, 5 % busy, 1 % cut.
// spec: AG-19
#[tokio::test(start_paused = true)]
async fn f_26_an_unruly_controller_is_borne() {
    let world = World::new();
    let answer = world.answer_at();
    let mut draw = Backoff::new(26);
    let ran = world
        .run(DAY / 4, move |seen: &SeenCall| {
            let challenge = matches!(seen.call, Endpoint::DeviceChallenge | Endpoint::NodeChallenge);
            match draw.spread(Duration::from_millis(99)).as_millis() {
                0..5 if !challenge => Reply::Refuse(Code::ChallengeRefused),
                5..10 => Reply::Refuse(Code::Busy),
                10 => Reply::Lost,
                _ if challenge => Reply::Challenge,
                _ if seen.call == Endpoint::Heartbeat => accepted(),
                _ => answer(seen.now),
            }
        })
        .await;
    assert_eq!(ran.ended, None);
    assert!(ran.status.heartbeats > 600, "{}", ran.status.heartbeats);
}

/// threats.md F-1, as the daemon sees it: dead at each durable step from the first start to the renewed certificate.
// spec: AG-15
#[tokio::test(start_paused = true)]
async fn f_1_a_daemon_that_dies_at_any_durable_step_is_managed_after_its_next_start() {
    for nth in 0.. {
        let world = World::new();
        let answer = Rc::new(world.answer_at());
        let serve = |answer: &Rc<_>| {
            let answer: Rc<dyn Fn(UnixTime) -> Reply> = Rc::clone(answer) as Rc<_>;
            with_challenges(move |seen| match seen.call {
                Endpoint::Enroll | Endpoint::Renew => answer(seen.now),
                _ => accepted(),
            })
        };
        let plan = lucia_durable::crash_point::crash_at(&world.root().state(), nth);
        let ran = match world.open() {
            Ok(opened) => Some(world.run_opened(opened, 60, serve(&answer)).await),
            Err(_) => None,
        };
        let crashed = plan.crashed().is_some();
        drop(plan);
        let again = world.run(60, serve(&answer)).await;
        assert!(again.status.heartbeats > 0, "step {nth}: {:?}", again.status);
        assert_eq!(again.ended, None, "step {nth}");
        if !crashed {
            assert!(nth > 10 && ran.is_some(), "only {nth} steps were tried");
            break;
        }
    }
}

/// design.md I8: each start of the daemon is one of its own and names those before it; a value of the chain is said once
/// it was given, and by no other start.
// spec: AG-46
#[tokio::test(start_paused = true)]
async fn a_restarted_daemon_keeps_its_predecessors_and_says_the_chain() {
    let world = World::with_certificate(i64::try_from(6 * DAY + 3600).unwrap());
    let mut former: Vec<String> = Vec::new();
    for round in 0..10 {
        let given = Cell::new(0_u8);
        let ran = world
            .run(
                100,
                with_challenges(move |_| {
                    given.set(given.get() + 1);
                    let chain = format!("{:02x}", given.get()).repeat(32);
                    Reply::Ok(format!(r#"{{"accepted":true,"chain":"{chain}"}}"#))
                }),
            )
            .await;
        let beats = ran.fake.seen().into_iter().filter(|seen| seen.call == Endpoint::Heartbeat);
        let beats: Vec<serde_json::Value> = beats.map(|seen| serde_json::from_str(&seen.report).unwrap()).collect();
        assert!(beats.len() > 2);
        let start = beats[0]["startId"].as_str().unwrap().to_owned();
        let named: Vec<_> = former.iter().rev().take(8).map(|id| serde_json::Value::from(id.as_str())).collect();
        for (at, beat) in beats.iter().enumerate() {
            assert_eq!(beat["startId"].as_str(), Some(start.as_str()));
            assert_eq!(beat["formerStarts"].as_array().cloned().unwrap_or_default(), named, "round {round}");
            let want = (at > 0).then(|| format!("{at:02x}").repeat(32));
            assert_eq!(beat["chain"].as_str(), want.as_deref(), "round {round}, heartbeat {at}");
            assert!(beat["bootId"].is_string());
        }
        assert!(!former.contains(&start));
        former.push(start);
    }
}

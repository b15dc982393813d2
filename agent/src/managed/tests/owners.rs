//! Owners and their orders, as the whole daemon goes by them: through a controller that is honest, and through one that is
//! not.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use lucia_durable::crash_point::{Fate, ask_at, crash_at};
use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::json;
use lucia_proto::node::agent;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::orders::exchange::{OrdersReply, OrdersReport};
use lucia_proto::orders::freshness::{FreshnessAnswer, SignedFreshness};
use lucia_proto::orders::{
    Body, CloneDecision, Decision, Draft, LabelledKey, OrderCode, OrderKind, Rule, SignedOrder, SshKeys, Terms,
};
use lucia_proto::test_support::OrderWorld;
use serde_json::Value;

use super::directory::{PASSWORD, beats, well};
use super::*;
use crate::host::etc::EtcDir;
use crate::host::state::StateFile;
use crate::keys::tests::line;

mod clones;

const HOUR: u64 = 3600;
/// The account that the orders are about.
pub(super) const ALICE: &str = "alice";

/// The owners of the node's fleet, and what the controller makes of them.
pub(super) struct Fleet {
    owners: OrderWorld,
    /// Whether the roster is passed on.
    roster: bool,
    /// Whether the worker's answers are passed on.
    answers: bool,
    /// Orders, until their outcome came.
    orders: Vec<SignedOrder>,
    /// What it sends of unsigned keys, as a controller before this version does.
    unsigned: Option<Value>,
    frozen: bool,
    /// What the node said, each time.
    said: Vec<OrdersReport>,
}

pub(super) type OneFleet = Rc<RefCell<Fleet>>;

impl Fleet {
    pub(super) fn new() -> Self {
        let owners = OrderWorld::new(start_time().minus(Duration::from_secs(30 * DAY)));
        let orders = Vec::new();
        Self { owners, roster: true, answers: true, orders, unsigned: None, frozen: false, said: Vec::new() }
    }

    pub(super) fn shared(self) -> OneFleet {
        Rc::new(RefCell::new(self))
    }

    /// Gives the next order: these keys for this account, and no other.
    pub(super) fn give(&mut self, account: &str, revision: u64, keys: &[u8]) {
        let owners = &self.owners;
        let mut intent = owners.intent(OrderKind::SshKey);
        intent.terms = Terms::State { subject: account.parse().unwrap(), revision };
        let key = |byte: &u8| LabelledKey {
            label: format!("key{byte}").parse().unwrap(),
            key: line(*byte).try_into().unwrap(),
        };
        let body = SshKeys { account: account.parse().unwrap(), keys: keys.iter().map(key).collect() };
        let draft = Draft::new(intent, &Body::SshKey(body)).unwrap();
        let order = owners.signed(&draft, vec![owners.alice.sign(&draft)]);
        self.orders.push(order);
    }

    /// What the worker says, by its own clock, which is not the controller's.
    fn answer(&self, nonce: Nonce, now: UnixTime) -> SignedFreshness {
        let passed = now.since(start_time());
        let answer = FreshnessAnswer {
            fleet: self.owners.fleet,
            node_id: self.owners.node.node_id.clone(),
            nonce,
            bundle_version: 1,
            roster_version: self.owners.roster.version(),
            time: self.owners.now.plus(passed),
        };
        SignedFreshness::sign(&answer, &self.owners.ca.worker_key).unwrap()
    }

    pub(super) fn reply(&mut self, seen: &SeenCall) -> Reply {
        let beat: Value = serde_json::from_str(&seen.report).unwrap();
        let said: OrdersReport = serde_json::from_value(beat["orders"].clone()).expect("orders are spoken of");
        for outcome in &said.outcomes {
            let ends = outcome.refused.is_none_or(|code| {
                !matches!(code, OrderCode::NoFreshness | OrderCode::RosterBehind | OrderCode::BundleBehind)
            });
            self.orders.retain(|order| !ends || order.id() != outcome.intent);
        }
        let roster = self.roster && said.roster_version < self.owners.roster.version();
        let orders = OrdersReply {
            bundle: None,
            roster: roster.then(|| self.owners.roster.signed().clone()),
            freshness: said.freshness.clone().filter(|_| self.answers).map(|nonce| self.answer(nonce, seen.now)),
            intent: self.orders.first().cloned().map(Box::new),
        };
        self.said.push(said);
        let reply = HeartbeatReply {
            accepted: true,
            chain: None,
            frozen: self.frozen,
            hostname: None,
            orders: (!orders.is_empty()).then_some(orders),
            extensions: Extensions::default(),
        };
        let mut reply = serde_json::to_value(&reply).unwrap();
        if let Some(unsigned) = &self.unsigned {
            reply["sshKeys"] = unsigned.clone();
        }
        Reply::Ok(json::to_string(&reply).unwrap())
    }
}

impl World {
    /// The same node on a disk of its own.
    fn copied(&self) -> Self {
        let (ca, node) = (Rc::clone(&self.ca), Rc::clone(&self.node));
        let copied =
            Self { scratch: Scratch::new(), ca, node, wall: self.wall, runner: FakeRunner::new(well), down: 0..0 };
        copy(self.root().path(), copied.root().path());
        copied
    }

    /// Runs the daemon of a node with a directory in this fleet.
    pub(super) async fn owned(&self, fleet: &OneFleet, seconds: u64) -> Ran {
        let Reply::Ok(answer) = self.answer_with(PASSWORD, &self.node) else { unreachable!() };
        let fleet = Rc::clone(fleet);
        let decide = with_challenges(move |seen: &SeenCall| match seen.call {
            Endpoint::Enroll => Reply::Ok(answer.clone()),
            Endpoint::Heartbeat => fleet.borrow_mut().reply(seen),
            call => panic!("{call:?} was not scripted"),
        });
        self.run(seconds, decide).await
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&path, &to);
            fs::set_permissions(&to, fs::metadata(&path).unwrap().permissions()).unwrap();
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

pub(super) fn accounts(world: &World) -> Vec<String> {
    world.keys().into_keys().collect()
}

/// Whatever a controller before this version, or one gone bad, says beside the orders.
// spec: AO-400
#[tokio::test(start_paused = true)]
async fn keys_in_a_reply_that_no_owner_signed_are_passed_over() {
    let good = line(77);
    let unsigned = serde_json::json!({"bob": [good], "alice": [good], "mallory": []});
    for roster in [false, true] {
        for unsigned in [unsigned.clone(), serde_json::json!({}), Value::Null, "root".into(), serde_json::json!([1])] {
            let world = World::with_directory(FakeRunner::new(well));
            let mut fleet = Fleet::new();
            (fleet.roster, fleet.answers, fleet.unsigned) = (roster, roster, Some(unsigned.clone()));
            if roster {
                fleet.give(ALICE, 1, &[1]);
            }
            let ran = world.owned(&fleet.shared(), 100).await;
            assert!(ran.status.heartbeats >= 3, "{unsigned}: heartbeats go on");
            assert!(ran.status.refusals.is_empty(), "{unsigned}: {:?}", ran.status.refusals);
            let held: Vec<_> = world.keys().into_iter().collect();
            let signed = [(ALICE.to_owned(), format!("{}\n", line(1)))];
            assert_eq!(held, if roster { &signed[..] } else { &[] }, "{unsigned} {roster}");
        }
    }
}

// spec: VE-401
#[tokio::test(start_paused = true)]
async fn a_heartbeat_tells_version_features_and_the_rules_of_the_file_as_it_is_then() {
    let world = World::with_directory(FakeRunner::new(well));
    let told = Rc::new(RefCell::new(Vec::new()));
    let Reply::Ok(answer) = world.answer_with(PASSWORD, &world.node) else { unreachable!() };
    let (fleet, heard, scratch) = (Fleet::new().shared(), Rc::clone(&told), world.root());
    let decide = with_challenges(move |seen: &SeenCall| match seen.call {
        Endpoint::Enroll => Reply::Ok(answer.clone()),
        Endpoint::Heartbeat => {
            let beat: Heartbeat = json::from_str(&seen.report, 1 << 15, 8).unwrap();
            heard.borrow_mut().push((beat.features.clone(), beat.extensions.clone()));
            fs::create_dir_all(scratch.join("etc/lucia")).unwrap();
            fs::write(scratch.join("etc/lucia/agent-policy.toml"), "ssh-key = \"two-owners\"\n").unwrap();
            fleet.borrow_mut().reply(seen)
        }
        call => panic!("{call:?} was not scripted"),
    });
    world.run(100, decide).await;
    let told = told.borrow();
    let [(features, first), .., (_, last)] = &told[..] else { panic!("{}", told.len()) };
    assert_eq!(*features, agent::features());
    assert_eq!(agent::version(first).unwrap().as_str(), env!("CARGO_PKG_VERSION"));
    let rule = |told, kind| agent::rules(told).unwrap().rule(kind);
    assert_eq!(rule(first, OrderKind::SshKey), Rule::Allow);
    assert_eq!((rule(last, OrderKind::SshKey), rule(last, OrderKind::RemoveIdentity)), (Rule::TwoOwners, Rule::Forbid));
}

/// What an agent before this version wrote, on a node that is brought up to date.
// spec: AO-401
#[tokio::test(start_paused = true)]
async fn files_that_no_order_gave_are_gone_after_the_first_start_and_named() {
    let lay = |world: &World| {
        for name in ["bob", "carol"] {
            world.scratch.put(&format!("etc/ssh/lucia-authorized-keys/{name}"), &format!("{}\n", line(77)));
        }
    };
    for heard in [false, true] {
        let world = World::with_directory(FakeRunner::new(well));
        lay(&world);
        let fleet = Fleet::new().shared();
        (fleet.borrow_mut().roster, fleet.borrow_mut().answers) = (false, false);
        let ran = if heard { world.owned(&fleet, 100).await } else { world.run(100, |_: &SeenCall| Reply::Down).await };
        assert!(accounts(&world).is_empty(), "{heard}");
        let removed: Vec<_> = ran.status.ssh_removed.iter().map(String::as_str).collect();
        assert_eq!(removed, ["bob", "carol"], "{heard}: also after many turns");
        assert_eq!((ran.status.ssh_unsigned, ran.status.refusals.iter().any(|last| last.call == "keys")), (0, false));
        // It is told for this boot, and the lasting copy stays one that the former agent reads.
        let lasting = fs::read_to_string(world.root().state().join("status.json")).unwrap();
        assert!(!lasting.contains("sshRemoved"), "{lasting}");
        // An order for the account ends it.
        lay(&world);
        (fleet.borrow_mut().roster, fleet.borrow_mut().answers) = (true, true);
        fleet.borrow_mut().give("bob", 1, &[2]);
        let ran = world.owned(&fleet, 100).await;
        assert_eq!((accounts(&world), ran.status.ssh_removed), (vec!["bob".to_owned()], ["carol".to_owned()].into()));
    }
}

/// The second condition, on a node.
// spec: AO-13
#[tokio::test(start_paused = true)]
async fn signed_keys_are_on_the_disk_whether_or_not_a_controller_answers() {
    let world = World::with_directory(FakeRunner::new(well));
    let fleet = Fleet::new().shared();
    let order = fleet.borrow().owners.order(OrderKind::SshKey);
    fleet.borrow_mut().orders.push(order.clone());
    let ran = world.owned(&fleet, 150).await;
    assert_eq!(accounts(&world), [ALICE]);
    let signed = world.keys()[ALICE].clone();
    assert!(order.body.contains(signed.trim_end()), "{signed}");
    assert!(fleet.borrow().orders.is_empty(), "it was told that it is done");
    let owners = ran.status.owners.unwrap();
    assert_eq!((owners.roster_version, owners.orders.len()), (5, 1));

    // Withholding the roster later changes nothing; a file that somebody removed comes again, controller or not, and one
    // that somebody laid there goes.
    let dir = world.root().join("etc/ssh/lucia-authorized-keys");
    fs::remove_file(dir.join(ALICE)).unwrap();
    (fleet.borrow_mut().roster, fleet.borrow_mut().answers) = (false, false);
    world.owned(&fleet, 100).await;
    assert_eq!(world.keys()[ALICE], signed);
    fs::remove_file(dir.join(ALICE)).unwrap();
    fs::write(dir.join("mallory"), line(66)).unwrap();
    world.run(100, |_: &SeenCall| Reply::Down).await;
    assert_eq!((accounts(&world), &world.keys()[ALICE]), (vec![ALICE.to_owned()], &signed));
}

/// The third condition, with a moved clock: the controller's and the machine's say whatever they like.
// spec: AO-8
#[tokio::test(start_paused = true)]
async fn without_the_worker_orders_are_refused_after_a_day_and_heartbeats_go_on() {
    let mut world = World::with_directory(FakeRunner::new(well));
    world.wall = UnixTime::from_secs(7);
    let fleet = Fleet::new().shared();
    let rest = fleet.borrow().owners.order(OrderKind::SshKey);
    let Reply::Ok(answer) = world.answer_with(PASSWORD, &world.node) else { unreachable!() };
    let (inner, renewal) = (Rc::clone(&fleet), world.answer_at());
    let ran = world
        .run(
            26 * HOUR,
            with_challenges(move |seen: &SeenCall| match seen.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                Endpoint::Renew => renewal(seen.now),
                Endpoint::Heartbeat => {
                    let passed = seen.now.secs() - START;
                    let mut fleet = inner.borrow_mut();
                    // The worker is heard once. A day later an order comes that was signed in time.
                    fleet.answers = passed < HOUR;
                    if passed >= 25 * HOUR && fleet.orders.is_empty() {
                        fleet.orders.push(rest.clone());
                    }
                    fleet.reply(seen)
                }
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    assert!(accounts(&world).is_empty());
    let fleet = fleet.borrow();
    let refused: std::collections::BTreeSet<_> =
        fleet.said.iter().flat_map(|said| &said.outcomes).map(|outcome| outcome.refused).collect();
    assert_eq!(refused, [Some(OrderCode::NoFreshness)].into());
    assert!(ran.status.heartbeats > 3000, "{}", ran.status.heartbeats);
    // It asked at the start, was answered, and asks again from six hours on.
    let asked: Vec<_> = fleet.said.iter().map(|said| said.freshness.is_some()).collect();
    assert!(asked[0] && !asked[1] && asked.iter().take(700).filter(|asked| **asked).count() == 1);
    assert!(asked.iter().skip(800).all(|asked| *asked));
    let nonces: std::collections::BTreeSet<_> =
        fleet.said.iter().filter_map(|said| said.freshness.as_ref()).map(Nonce::as_str).collect();
    assert!((110..=130).contains(&nonces.len()), "one question for ten minutes: {}", nonces.len());
}

/// HB-22's other end: what a node holds costs it nothing while nothing changes.
// spec: AO-14
#[tokio::test(start_paused = true)]
async fn a_steady_heartbeat_writes_nothing_of_owners() {
    let world = World::with_directory(FakeRunner::new(well));
    let fleet = Fleet::new().shared();
    let order = fleet.borrow().owners.order(OrderKind::SshKey);
    fleet.borrow_mut().orders.push(order);
    let steps: Arc<Mutex<usize>> = Arc::default();
    let counted = Arc::clone(&steps);
    let plan = ask_at(world.root().path(), move |step, _| {
        // A named point is a place between writes, not one.
        *counted.lock().unwrap() += usize::from(!step.starts_with("agent/"));
        Fate::Live
    });
    let mut seen = Vec::new();
    let Reply::Ok(answer) = world.answer_with(PASSWORD, &world.node) else { unreachable!() };
    let told = Rc::new(RefCell::new(Vec::new()));
    let (inner, noted) = (Rc::clone(&fleet), Rc::clone(&told));
    world
        .run(
            2 * HOUR,
            with_challenges(move |asked: &SeenCall| match asked.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                Endpoint::Heartbeat => {
                    noted.borrow_mut().push(*steps.lock().unwrap());
                    inner.borrow_mut().reply(asked)
                }
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    drop(plan);
    seen.extend(told.borrow().iter().skip(6).copied());
    assert!(seen.len() > 200 && seen.iter().all(|count| *count == seen[0]), "{seen:?}");
    assert_eq!(accounts(&world), [ALICE]);
}

/// What is there of the fleet, and of this machine itself.
fn left(world: &World) -> Vec<String> {
    let mut out = Vec::new();
    let state = fs::read_dir(world.root().state()).unwrap().map(Result::unwrap);
    out.extend(state.map(|entry| entry.file_name().into_string().unwrap()));
    for dir in EtcDir::ALL {
        let entries = fs::read_dir(world.root().join(&dir.path())).unwrap().map(Result::unwrap);
        out.extend(entries.map(|entry| format!("{}/{}", dir.path(), entry.file_name().into_string().unwrap())));
    }
    out.sort();
    out
}

// spec: AO-15
#[tokio::test(start_paused = true)]
async fn a_removed_identity_says_so_once_more_and_is_gone() {
    for hears in [true, false] {
        let world = World::with_directory(FakeRunner::new(well));
        world.scratch.put("etc/ssh/sshd_config.d/50-mine.conf", "Port 22\n");
        let fleet = Fleet::new().shared();
        let (keys, removal) = {
            let owners = &fleet.borrow().owners;
            (owners.order(OrderKind::SshKey), owners.order(OrderKind::RemoveIdentity))
        };
        fleet.borrow_mut().orders.push(keys);
        let passwd = fs::read(world.root().join("etc/passwd")).unwrap();
        world.owned(&fleet, 150).await;
        assert!(left(&world).iter().any(|name| name == "/etc/sssd/sssd.conf"), "{:?}", left(&world));
        assert_eq!(accounts(&world), [ALICE]);
        world.runner.take();

        fleet.borrow_mut().orders.push(removal.clone());
        let (inner, gone) = (Rc::clone(&fleet), removal.id());
        let ran = world
            .run(
                600,
                with_challenges(move |seen: &SeenCall| {
                    let mut fleet = inner.borrow_mut();
                    let is_last = seen.report.contains(&gone.to_string());
                    if is_last && !hears { Reply::Down } else { fleet.reply(seen) }
                }),
            )
            .await;
        assert_eq!(ran.ended, Some(Ended::Removed), "{hears}");
        let last: Vec<_> = beats(&ran).into_iter().filter(|beat| !beat["orders"]["outcomes"].is_null()).collect();
        assert!(if hears { last.len() == 1 } else { (2..=6).contains(&last.len()) }, "{hears}: {}", last.len());
        assert_eq!(left(&world), ["/etc/ssh/sshd_config.d/50-mine.conf", "status.json", "system.json"], "{hears}");
        let asked = world.runner.take();
        assert!(asked.ends_with(&["reload ssh.service".to_owned(), "restart sssd.service".to_owned()]), "{asked:?}");
        assert_eq!((fs::read(world.root().join("etc/passwd")).unwrap(), ran.status.doing), (passwd, Doing::Removed));
        assert!(ran.status.node_id.is_none() && ran.status.line().contains("discover"));
        // It begins anew as any machine does, with a key that nobody has seen.
        let mut state = State::hold(&world.root(), "test").unwrap();
        let new = crate::identity::key::load_or_make(&mut state).unwrap();
        assert_ne!(new.public().fingerprint().node_id(), world.node.node_id);
    }
}

/// The machine dies at any durable step of the removal, anywhere on its disk.
// spec: AO-16
#[tokio::test(start_paused = true)]
async fn a_removal_that_a_crash_cut_is_ended_by_the_next_start() {
    let first = World::with_directory(FakeRunner::new(well));
    let fleet = Fleet::new().shared();
    let (keys, removal) = {
        let owners = &fleet.borrow().owners;
        (owners.order(OrderKind::SshKey), owners.order(OrderKind::RemoveIdentity))
    };
    fleet.borrow_mut().orders.extend([keys, removal.clone()]);
    // Up to the moment in which the last word was heard: the controller goes away before it.
    let inner = Rc::clone(&fleet);
    let Reply::Ok(answer) = first.answer_with(PASSWORD, &first.node) else { unreachable!() };
    let gone = removal.id().to_string();
    first
        .run(
            45,
            with_challenges(move |seen: &SeenCall| match seen.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                _ if seen.report.contains(&gone) => Reply::Down,
                _ => inner.borrow_mut().reply(seen),
            }),
        )
        .await;
    for nth in 0.. {
        let world = first.copied();
        let state = State::hold(&world.root(), "test").unwrap();
        world.installed().write(&state).unwrap();
        assert!(!remove_identity::is_under_way(&world.root()));
        let plan = crash_at(world.root().path(), nth);
        let done = remove_identity::remove(&world.root(), &state, &world.runner).await;
        let crashed = plan.crashed().is_some();
        drop((plan, state));
        assert!(done.is_ok() || crashed, "step {nth}: {done:?}");
        let begun = remove_identity::is_under_way(&world.root());
        if begun {
            // Whatever was left, the next start goes on before it looks at anything else.
            let state = State::hold(&world.root(), "test").unwrap();
            remove_identity::remove(&world.root(), &state, &world.runner).await.unwrap();
        }
        let whole = state_has(&world, StateFile::Orders);
        assert!(begun || !whole || crashed, "step {nth}");
        if whole {
            assert!(state_has(&world, StateFile::Key), "step {nth}: nothing goes before it is noted");
        } else {
            let left: Vec<_> =
                left(&world).into_iter().filter(|name| name != ".lease" && name != "status.json").collect();
            assert_eq!(left, ["system.json"], "step {nth}: what is left is an installed system");
            let mut state = State::hold(&world.root(), "test").unwrap();
            assert!(crate::identity::key::load_or_make(&mut state).is_ok(), "step {nth}: no key is missed");
        }
        if !crashed {
            assert!(nth > 20, "only {nth} steps were tried");
            break;
        }
    }
}

fn state_has(world: &World, file: StateFile) -> bool {
    world.root().state().join(file.as_str()).exists()
}

// spec: AO-16
#[tokio::test(start_paused = true)]
async fn nothing_is_removed_that_nobody_ordered() {
    let world = World::with_certificate(i64::try_from(6 * DAY + 3600).unwrap());
    let before = world.files();
    let state = State::hold(&world.root(), "test").unwrap();
    assert!(remove_identity::remove(&world.root(), &state, &world.runner).await.is_err());
    assert!(world.files() == before);
}

// spec: AO-7
#[tokio::test(start_paused = true)]
async fn the_first_heartbeat_has_the_roster_of_the_enrolment_answer() {
    let world = World::new();
    let owners = Fleet::new().owners;
    let mut answer = world.ca.answer(&world.node, start_time());
    answer.bundle = world.ca.signed_bundle(1, start_time());
    answer.roster = Some(owners.roster.signed().clone());
    let signed = json::to_string(&world.ca.sign_answer(&answer)).unwrap();
    for restarted in [false, true] {
        let signed = signed.clone();
        let ran = world
            .run(
                60,
                with_challenges(move |seen| match seen.call {
                    Endpoint::Enroll => Reply::Ok(signed.clone()),
                    _ => accepted(),
                }),
            )
            .await;
        let beats = beats(&ran);
        assert_eq!(beats[0]["orders"]["rosterVersion"], 5, "{restarted}");
        assert_eq!(beats[0]["orders"]["bundleVersion"], 1, "{restarted}");
        // A crash may have come between the answer and its roster.
        fs::remove_file(world.root().state().join("roster.json")).unwrap();
    }
}

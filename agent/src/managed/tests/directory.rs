//! The directory and the keys of its users, as the whole daemon keeps them.

use std::cell::RefCell;
use std::fs;

use lucia_proto::node::directory::{DirectoryAccess, reader_dn};
use lucia_proto::pki::sealed::Sealed;
use serde_json::Value;

use super::owners::{ALICE, Fleet, accounts};
use super::*;
use crate::directory::Access;
use crate::host::etc::EtcDir;
use crate::keys::{Dropped, Why, told};
use crate::units::fake::{FakeQuestion, Said};
use crate::units::{Program, ServiceAct};

pub(super) const PASSWORD: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP_";
const SHOWN: &str =
    "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2 /etc/ssh/lucia-authorized-keys/%u\nusepam yes\n";
const KEYS: &str = "/etc/ssh/lucia-authorized-keys";

pub(super) fn well(asked: &FakeQuestion) -> Said {
    match asked {
        FakeQuestion::Run(Program::ShowSshd) => Said::Ends(0, SHOWN),
        FakeQuestion::Run(Program::LookUpGroup(_)) => Said::Ends(0, "lucia-owners:*:20000:alice\n"),
        FakeQuestion::Run(Program::LookUpAccounts(names)) => Said::Says(
            names
                .iter()
                .filter(|name| !name.as_str().starts_with("stranger"))
                .map(|name| {
                    format!(
                        "{name}:*:{}:20001::/home/{name}:/bin/bash\n",
                        if name.as_str() == "low" { 999 } else { 20001 }
                    )
                })
                .collect(),
        ),
        FakeQuestion::Run(Program::CheckSshd) | FakeQuestion::ServiceAct(_) => Said::Ends(0, ""),
    }
}

impl World {
    /// A node of a fleet with a directory, just installed: no certificate yet.
    pub(super) fn with_directory(runner: FakeRunner) -> Self {
        let mut world = Self::new();
        world.runner = runner;
        for dir in EtcDir::ALL {
            fs::create_dir_all(world.root().join(&dir.path())).unwrap();
        }
        world.scratch.put("etc/passwd", "root:x:0:0::/root:/bin/sh\nadmin:x:1000:1000::/home/admin:/bin/sh\n");
        world
    }

    /// The node's directory, with this password.
    fn access_with(&self, password: &str, sealed_to: &TestNode) -> DirectoryAccess {
        let node = &self.node;
        let base = "dc=lucia,dc=home,dc=arpa".parse().unwrap();
        let seed = zeroize::Zeroizing::new([7; 32]);
        let public = sealed_to.key.public();
        let sealed = Sealed::seal(password.as_bytes(), public, &node.node_id, &node.csr_sha256(), &seed).unwrap();
        DirectoryAccess {
            uri: "ldaps://directory.lucia.home.arpa".parse().unwrap(),
            bind_dn: reader_dn(&node.node_id, &base).unwrap(),
            owner_group: "cn=lucia-owners,ou=Groups,dc=lucia,dc=home,dc=arpa".parse().unwrap(),
            base_dn: base,
            bind_password: sealed,
        }
    }

    /// The worker's answer, with a directory and this password.
    pub(super) fn answer_with(&self, password: &str, sealed_to: &TestNode) -> Reply {
        let mut answer = self.ca.answer(&self.node, start_time());
        answer.bundle = self.ca.signed_bundle(1, start_time());
        answer.directory = Some(self.access_with(password, sealed_to));
        Reply::Ok(lucia_proto::base::json::to_string(&self.ca.sign_answer(&answer)).unwrap())
    }

    /// Runs the daemon of this node for so many seconds; heartbeats are answered with what `reply` makes.
    async fn live(&self, seconds: u64, reply: impl FnMut() -> String + 'static) -> Ran {
        let Reply::Ok(answer) = self.answer_with(PASSWORD, &self.node) else { unreachable!() };
        let reply = RefCell::new(reply);
        let ran = self.run(
            seconds,
            with_challenges(move |seen| match seen.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                Endpoint::Heartbeat => Reply::Ok(reply.borrow_mut()()),
                call => panic!("{call:?} was not scripted"),
            }),
        );
        ran.await
    }

    /// The files of keys.
    pub(super) fn keys(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.root().join(KEYS)).unwrap().map(Result::unwrap);
        let text = |entry: &fs::DirEntry| fs::read_to_string(entry.path()).unwrap();
        entries.map(|entry| (entry.file_name().into_string().unwrap(), text(&entry))).collect()
    }
}

fn plain() -> String {
    r#"{"accepted":true}"#.to_owned()
}

pub(super) fn beats(ran: &Ran) -> Vec<Value> {
    let beats = ran.fake.seen().into_iter().filter(|seen| seen.call == Endpoint::Heartbeat);
    beats.map(|seen| serde_json::from_str(&seen.report).unwrap()).collect()
}

// spec: AO-105
#[tokio::test(start_paused = true)]
async fn a_directory_that_answers_no_more_is_told_of_within_about_a_minute_and_since_when() {
    let world = World { down: 300..1000, ..World::with_directory(FakeRunner::new(well)) };
    let ran = world.live(420, plain).await;
    let [refusal] = &ran.status.refusals[..] else { panic!("{:?}", ran.status.refusals) };
    assert!(refusal.call == "directory" && refusal.what.contains("ldaps://directory.lucia.home.arpa"), "{refusal:?}");
    let since = refusal.since.unwrap().since(start_time()).as_secs();
    assert!((300..=380).contains(&since), "{since}");
    assert_eq!(beats(&ran).last().unwrap()["directory"]["state"], "Failed");
    // Nobody else is asked each minute: sshd and sssd are looked at every quarter of an hour.
    let world = World { down: 0..0, ..World::with_directory(FakeRunner::new(well)) };
    world.live(840, plain).await;
    let looks = world.runner.asked().iter().filter(|asked| asked.contains("sshd")).count();
    assert!(looks <= 3, "{:?}", world.runner.asked());
}

// spec: DI-200
#[tokio::test(start_paused = true)]
async fn a_local_group_that_hides_the_owners_group_is_reported_and_stops_nothing() {
    let world = World::with_directory(FakeRunner::new(well));
    world.scratch.put("etc/group", "root:x:0:\nlucia-owners-local:x:1001:\nlucia-owners:x:1002:mallory\n");
    let ran = world.live(100, plain).await;
    let [refusal] = &ran.status.refusals[..] else { panic!("{:?}", ran.status.refusals) };
    assert_eq!(refusal.call, "directory");
    let cure = "groupmod -n lucia-owners-local lucia-owners";
    assert!(refusal.what.contains("lucia-owners") && refusal.cure.contains(cure), "{refusal:?}");
    assert_eq!(beats(&ran).last().unwrap()["directory"], serde_json::json!({"state": "Ready"}));
    world.scratch.put("etc/group", "root:x:0:\nlucia-owners-local:x:1001:\n");
    assert!(world.live(100, plain).await.status.refusals.is_empty());
}

/// design.md N4.
// spec: DI-10
#[tokio::test(start_paused = true)]
async fn the_first_heartbeat_ever_waits_until_the_directory_answers() {
    let begun = tokio::time::Instant::now();
    let world = World::with_directory(FakeRunner::new(move |asked| match asked {
        FakeQuestion::Run(Program::LookUpGroup(_)) if begun.elapsed() < Duration::from_secs(100) => Said::Ends(2, ""),
        asked => well(asked),
    }));
    let ran = world.live(400, plain).await;
    let times = times(&ran, Endpoint::Heartbeat);
    assert!((100..=320).contains(&times[0]), "{times:?}");
    assert!(beats(&ran).iter().all(|beat| beat["directory"] == serde_json::json!({"state": "Ready"})));
    assert_eq!(ran.status.doing, Doing::Heartbeating);
    assert!(ran.status.refusals.is_empty(), "{:?}", ran.status.refusals);
    // It worked once, so heartbeats go on while it does not, and say so.
    let world = World {
        runner: FakeRunner::new(|asked| match asked {
            FakeQuestion::Run(Program::LookUpGroup(_)) => Said::Ends(2, ""),
            asked => well(asked),
        }),
        ..world
    };
    let ran = world.live(100, plain).await;
    let beats = beats(&ran);
    assert_eq!(beats[0]["directory"]["state"], "Waiting");
    let last = &beats.last().unwrap()["directory"];
    assert_eq!(last["state"], "Failed");
    assert!(last["message"].as_str().unwrap().contains("lucia-owners"), "{last}");
    let refusal = &ran.status.refusals[0];
    assert_eq!((refusal.call.as_str(), ran.status.refusals.len()), ("directory", 1));
    assert!(
        !world.runner.asked().contains(&"restart sssd.service".to_owned()),
        "nothing changed, nothing is restarted"
    );
}

// spec: DI-10
#[tokio::test(start_paused = true)]
async fn a_node_without_its_directory_says_why_and_sends_nothing() {
    let world = World::with_directory(FakeRunner::new(|asked| match asked {
        FakeQuestion::ServiceAct(ServiceAct::RestartSssd) => Said::Ends(1, ""),
        asked => well(asked),
    }));
    let ran = world.live(3600, plain).await;
    assert_eq!(ran.fake.count(Endpoint::Heartbeat), 0);
    assert_eq!(ran.status.doing, Doing::AwaitingDirectory);
    assert!(ran.status.refusals[0].what.contains("restart sssd.service"), "{:?}", ran.status.refusals);
    // 30 s, 1, 2, 4, 8 and then 15 minutes: seven tries in an hour or eight.
    let tries = world.runner.asked().iter().filter(|word| *word == "sshd-check").count();
    assert!((7..=9).contains(&tries), "{tries}");
}

// spec: DI-11
#[tokio::test(start_paused = true)]
async fn a_password_for_somebody_else_is_not_used() {
    let world = World::with_directory(FakeRunner::nobody());
    let other = TestNode::new(8);
    let access = Access { access: world.access_with(PASSWORD, &other), csr_sha256: world.node.csr_sha256() };
    let opened = access.open(&world.node.key, &world.node.node_id);
    assert!(opened.is_err());
    let Reply::Ok(answer) = world.answer_with(PASSWORD, &other) else { unreachable!() };
    let ran = world
        .run(
            300,
            with_challenges(move |seen| match seen.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    assert_eq!(ran.status.refusals[0].call, "directory");
    assert!(fs::read_dir(world.root().join("/etc/sssd")).unwrap().next().is_none());
}

/// threats.md D-5, D-4: kept, changed and withdrawn within one heartbeat.
// spec: KF-3
#[tokio::test(start_paused = true)]
async fn keys_follow_the_orders() {
    let world = World::with_directory(FakeRunner::new(well));
    let mut fleet = Fleet::new();
    let orders: [(&str, u64, &[u8]); 5] =
        [(ALICE, 1, &[1, 2]), ("bob", 1, &[3]), (ALICE, 2, &[2]), (ALICE, 3, &[]), ("bob", 2, &[])];
    for (account, revision, keys) in orders {
        fleet.give(account, revision, keys);
    }
    let (root, seen) = (world.root(), Rc::new(RefCell::new(Vec::new())));
    let (noted, Reply::Ok(answer)) = (Rc::clone(&seen), world.answer_with(PASSWORD, &world.node)) else {
        unreachable!()
    };
    let ran = world
        .run(
            200,
            with_challenges(move |asked: &SeenCall| match asked.call {
                Endpoint::Enroll => Reply::Ok(answer.clone()),
                Endpoint::Heartbeat => {
                    // What is on the disk when the next heartbeat comes.
                    let names = fs::read_dir(root.join(KEYS)).unwrap().map(|entry| {
                        let entry = entry.unwrap();
                        format!(
                            "{} {}",
                            entry.file_name().into_string().unwrap(),
                            fs::read_to_string(entry.path()).unwrap().lines().count()
                        )
                    });
                    let mut names: Vec<_> = names.collect();
                    names.sort();
                    noted.borrow_mut().push(names.join(", "));
                    fleet.reply(asked)
                }
                call => panic!("{call:?} was not scripted"),
            }),
        )
        .await;
    let follows = ["", "alice 2", "alice 2, bob 1", "alice 1, bob 1", "bob 1", ""];
    assert_eq!(seen.borrow()[..6], follows, "{:?}", ran.status);
    assert!(ran.status.refusals.is_empty(), "{:?}", ran.status.refusals);
    assert_eq!((ran.status.ssh_accounts, ran.status.ssh_removed.len()), (Some(0), 0), "all was withdrawn by orders");
}

// spec: KF-5
#[tokio::test(start_paused = true)]
async fn an_account_that_the_directory_does_not_have_gets_no_keys_and_is_asked_for_now_and_then() {
    let world = World::with_directory(FakeRunner::new(well));
    let mut fleet = Fleet::new();
    for account in [ALICE, "low", "stranger", "admin"] {
        fleet.give(account, 1, &[1]);
    }
    let ran = world.owned(&fleet.shared(), 620).await;
    assert_eq!(accounts(&world), [ALICE]);
    let refusal = &ran.status.refusals[0];
    assert_eq!((refusal.call.as_str(), ran.status.ssh_accounts), ("keys", Some(1)));
    let dropped = [("admin", Why::Local), ("low", Why::System), ("stranger", Why::Unknown)];
    assert_eq!(Some(&refusal.what), told(&dropped.map(|(account, why)| Dropped::new(account, why))).as_ref());
    // Once for each that is new, then every two minutes.
    let asked = world.runner.asked().iter().filter(|word| *word == "getent-passwd").count();
    assert!((6..=8).contains(&asked), "{asked} questions in ten minutes");
}

/// threats.md D-5: a controller that is away locks nobody out, and withdraws nothing either, which is told of.
// spec: KF-9
#[tokio::test(start_paused = true)]
async fn keys_that_nobody_could_withdraw_stay_and_are_told_of_after_an_hour() {
    let world = World::with_directory(FakeRunner::new(well));
    let fleet = Fleet::new().shared();
    fleet.borrow_mut().give(ALICE, 1, &[1]);
    world.owned(&fleet, 100).await;
    let of_keys = |ran: &Ran| ran.status.refusals.iter().find(|last| last.call == "keys").cloned();
    for (seconds, is_told) in [(3500, false), (3800, true)] {
        let ran = world.run(seconds, |_: &SeenCall| Reply::Down).await;
        assert_eq!(accounts(&world), [ALICE]);
        let refusal = of_keys(&ran);
        assert_eq!(refusal.is_some(), is_told, "{refusal:?}");
        let says = |refusal: &Refusal| refusal.what.contains("1 h") && refusal.cure.contains(KEYS);
        assert!(refusal.as_ref().is_none_or(says), "{refusal:?}");
    }
    // Nothing is held back for it, and the first reply ends it.
    assert!(of_keys(&world.owned(&fleet, 60).await).is_none());
}

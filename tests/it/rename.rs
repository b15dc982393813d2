//! A machine whose name was changed: it says so, an operator approves it, and the same key gets the new name; until then
//! it goes on under the name it has.

use std::time::Duration;

use lucia_agent::host::status::OwnersStanding;
use lucia_controller::parts::By as Caller;
use lucia_durable::crash_point::crash_at;
use lucia_people::host_api::{NodeLine, RenameForm};
use lucia_people::owner_api::DraftState;
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::Clock as _;
use lucia_proto::calls::Endpoint;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::{Body, RenameNode};
use lucia_proto::test_support::TestOwner;
use lucia_worker::config::Settings;
use lucia_worker::home::Home;
use lucia_worker::ledger::{By, Entry, Ledger};
use lucia_worker::survey::{Outlook, survey};

use crate::world::{Machine, SEEDS, World};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn name(text: &str) -> Hostname {
    text.parse().unwrap()
}

/// Somebody writes `/etc/hostname` on the machine.
fn call(machine: &Machine, text: &str) {
    std::fs::write(machine.state_dir().join("../../../../etc/hostname"), format!("{text}\n")).unwrap();
}

/// `luciactl rename`.
fn approve(world: &World, machine: &Machine, new: &str) -> Option<Code> {
    let renamed =
        world.controller().enrollment.rename(&machine.id(), &RenameForm { hostname: name(new) }, "operator:1000");
    renamed.err().map(|refusal| refusal.code)
}

/// `lucia-enrollment-worker rename`, once `pending` shows it. Says whether it did.
fn allow(world: &World, machine: &Machine) -> bool {
    let text = std::fs::read_to_string(world.path("worker.toml")).unwrap();
    let config = Settings::parse(&text).unwrap().resolve().unwrap();
    let home = Home::open(&config).unwrap();
    let held = Ledger::hold(&home.dir).unwrap();
    let mut ledger = Ledger::load(&home.dir).unwrap();
    let now = world.worker_clock().now();
    let found = survey(&config, &home, ledger.records(), now);
    let row = found.requests.iter().find(|row| row.node_id == machine.id() && row.outlook == Outlook::AwaitsRename);
    let Some(row) = row else { return false };
    let mut transaction = ledger.begin(&home.dir, held).unwrap();
    let node = transaction.records().node(&row.node_id).unwrap().names.clone();
    assert_eq!(row.renamed_from.as_ref(), Some(&node.hostname));
    let entry = Entry::Renamed { node, new: row.hostname.clone(), by: By::Operator };
    transaction.add(now, entry).and_then(|()| transaction.commit()).unwrap();
    true
}

fn line(world: &World, machine: &Machine) -> NodeLine {
    world.controller().node(&machine.id()).unwrap().node
}

/// Whether it was heard under this name and has no other.
fn is_called(world: &World, machine: &Machine, new: &str) -> bool {
    let journal = world.journal();
    let row = journal.device(&machine.id()).unwrap();
    row.hostname == Some(name(new)) && row.former_hostname.is_none()
}

fn lines(world: &World, kind: &str) -> usize {
    world.ledger().iter().filter(|line| line["kind"] == kind).count()
}

/// Time since its last heartbeat that was accepted.
fn silence(world: &World, machine: &Machine) -> Duration {
    world.now().since(line(world, machine).last_seen_at.unwrap())
}

async fn node(seed: u64, by_journal: bool) -> (World, Machine) {
    let world = World::new(seed);
    world.admit_by_journal();
    let mut machine = Machine::new(&world, 1);
    machine.join().await;
    if !by_journal {
        std::fs::remove_file(world.path("admission.toml")).unwrap();
        world.restart_worker();
    }
    (world, machine)
}

// spec: NN-20
#[tokio::test(start_paused = true)]
async fn a_renamed_machine_goes_on_under_its_name_until_the_new_one_is_approved() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed, true).await;
        let (id, key, first) = (machine.id(), machine.file("node.key"), machine.file("certificate.pem"));
        call(&machine, "web");
        machine.run(10 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE, "seed {seed}");
        assert_eq!(line(&world, &machine).new_hostname, Some(name("web")), "seed {seed}");
        let said = machine.status().other_name.expect("it says so");
        assert_eq!(said.standing, OwnersStanding::Reported);
        assert!(said.sentence().contains("luciactl rename n1 web"), "{}", said.sentence());
        // A reboot changes nothing: it has had a certificate.
        machine.reboot(0);
        machine.run(5 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE, "seed {seed}: {:?}", machine.ends);
        assert_eq!(machine.file("certificate.pem"), first, "seed {seed}: nothing new until somebody says so");
        let before = world.controller().node(&id).unwrap();

        assert_eq!(approve(&world, &machine, "web"), None);
        machine.run_until(HOUR, |machine| is_called(&world, machine, "web")).await;
        machine.run(3 * MINUTE).await;
        let after = world.controller().node(&id).unwrap();
        assert_eq!((&after.node.hostname, &after.task_id), (&name("web"), &before.task_id), "seed {seed}");
        assert!(after.samples.len() > before.samples.len(), "seed {seed}: its samples are kept");
        assert_eq!((machine.id(), machine.file("node.key")), (id.clone(), key), "seed {seed}");
        let installed: serde_json::Value = serde_json::from_slice(&machine.file("installed.json").unwrap()).unwrap();
        assert_eq!(installed["hostname"], "web");
        let status = machine.status();
        assert_eq!((status.hostname, status.other_name), (Some(name("web")), None), "seed {seed}");
        assert_eq!((lines(&world, "renamed"), lines(&world, "admitted")), (1, 1), "seed {seed}");
        let last = world.last_report(Endpoint::Heartbeat, &id);
        assert!(last.contains("\"hostname\":\"web\"") && !last.contains("newHostname"), "{last}");
        let events = world.journal().events;
        assert!(events.iter().any(|event| event.kind == Act::Renamed && event.device_id.as_ref() == Some(&id)));

        // And what it is called now outlives a reboot and a day.
        machine.reboot(0);
        world.sleep_through(DAY).await;
        let second = machine.file("certificate.pem");
        machine.run_until(2 * HOUR, |machine| machine.file("certificate.pem") != second).await;
        machine.run(3 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE, "seed {seed}");
        assert!(machine.ends.is_empty(), "seed {seed}: {:?}", machine.ends);
    }
}

// spec: NN-21
#[tokio::test(start_paused = true)]
async fn while_nobody_at_the_worker_says_yes_the_name_it_has_is_renewed() {
    for seed in SEEDS {
        let (world, mut machine) = node(seed, false).await;
        call(&machine, "web");
        machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname.is_some()).await;
        assert_eq!(approve(&world, &machine, "web"), None);
        machine.run(10 * MINUTE).await;
        let said = machine.status().other_name.expect("it says so");
        assert_eq!((said.standing, said.fleet.as_str()), (OwnersStanding::Approved, "n1"), "seed {seed}");
        assert!(said.sentence().contains("lucia-enrollment-worker rename n1 web"), "{}", said.sentence());
        let first = machine.file("certificate.pem");
        for _ in 0..3 {
            // Renewal after renewal, under the name it has.
            world.sleep_through(DAY).await;
            let before = machine.file("certificate.pem");
            machine.run_until(3 * HOUR, |machine| machine.file("certificate.pem") != before).await;
            machine.run(3 * MINUTE).await;
            assert!(silence(&world, &machine) < 3 * MINUTE, "seed {seed}");
            assert!(!is_called(&world, &machine, "web"), "seed {seed}");
        }
        assert_ne!(machine.file("certificate.pem"), first);
        assert_eq!((lines(&world, "renamed"), lines(&world, "issued")), (0, 4), "seed {seed}");
        machine.run_until(HOUR, |machine| allow(&world, machine)).await;
        machine.run_until(HOUR, |machine| is_called(&world, machine, "web")).await;
        assert_eq!((lines(&world, "renamed"), lines(&world, "issued")), (1, 5), "seed {seed}");

        // And back, by the same steps.
        call(&machine, "n1");
        machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname == Some(name("n1"))).await;
        assert_eq!(approve(&world, &machine, "n1"), None);
        machine.run_until(HOUR, |machine| allow(&world, machine)).await;
        machine.run_until(HOUR, |machine| is_called(&world, machine, "n1")).await;
        machine.run(3 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE, "seed {seed}");
    }
}

/// Who dies while a name moves.
#[derive(Clone, Copy, Debug)]
enum Dies {
    Agent,
    Controller,
    Worker,
}

impl Dies {
    fn dir(self, world: &World, machine: &Machine) -> std::path::PathBuf {
        match self {
            Self::Agent => machine.state_dir(),
            Self::Controller => world.path("controller"),
            Self::Worker => world.path("worker"),
        }
    }
}

/// Once for each durable step that this program comes by.
async fn a_crash_at_any_step_ends_in_the_new_name(dies: Dies) {
    for nth in 0.. {
        assert!(nth < 200, "{dies:?}: there is no end of durable steps");
        let (world, mut machine) = node(SEEDS[0], true).await;
        world.calm();
        call(&machine, "web");
        machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname.is_some()).await;
        world.settle();
        let (id, key) = (machine.id(), machine.file("node.key"));
        let plan = crash_at(&dies.dir(&world, &machine), nth);
        // The operator's act may be what dies; whoever sees no answer does it again.
        let _ = world.controller().enrollment.rename(&id, &RenameForm { hostname: name("web") }, "operator:1000");
        let mut waited = Duration::ZERO;
        while plan.crashed().is_none() && !is_called(&world, &machine, "web") && waited < HOUR {
            machine.run(Duration::from_secs(5)).await;
            waited += Duration::from_secs(5);
        }
        let crashed = plan.crashed();
        drop(plan);
        match dies {
            Dies::Agent => machine.kill(),
            Dies::Controller => world.restart_controller().await,
            Dies::Worker => world.restart_worker(),
        }
        let after = format!("{dies:?}, step {nth}, {crashed:?}");
        assert_eq!(approve(&world, &machine, "web"), None, "{after}");
        machine.run_until(2 * HOUR, |machine| is_called(&world, machine, "web")).await;
        machine.run(3 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE, "{after}");
        assert_eq!((machine.id(), machine.file("node.key")), (id, key), "{after}");
        assert_eq!((lines(&world, "renamed"), lines(&world, "admitted")), (1, 1), "{after}");
        if crashed.is_none() {
            assert!(nth > 4, "{dies:?}: {nth} steps only");
            break;
        }
    }
}

// spec: NN-22
#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_at_any_step_ends_in_the_new_name_without_hands() {
    a_crash_at_any_step_ends_in_the_new_name(Dies::Agent).await;
}

// spec: NN-22
#[tokio::test(start_paused = true)]
async fn a_controller_that_dies_at_any_step_ends_in_the_new_name_without_hands() {
    a_crash_at_any_step_ends_in_the_new_name(Dies::Controller).await;
}

// spec: NN-22
#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_any_step_ends_in_the_new_name_without_hands() {
    a_crash_at_any_step_ends_in_the_new_name(Dies::Worker).await;
}

// spec: NN-23
#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_had_is_told_and_changes_nothing() {
    let (world, mut machine) = node(SEEDS[0], true).await;
    world.calm();
    let mut other = Machine::new(&world, 2);
    other.join().await;
    let first = machine.file("certificate.pem");
    call(&machine, "n2");
    machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname.is_some()).await;
    assert_eq!(approve(&world, &machine, "n2"), Some(Code::HostnameInUse));
    // What no node can be called stays on the machine.
    call(&machine, "Web.Example");
    machine.run(3 * MINUTE).await;
    assert_eq!(line(&world, &machine).new_hostname, None);
    let said = machine.status().other_name.expect("it says so");
    assert_eq!(said.standing, OwnersStanding::Invalid);
    assert!(said.sentence().contains("Web.Example") && said.sentence().contains("n1"), "{}", said.sentence());
    // One that the worker reserves is approved in vain: the node goes on as it is, and the operator takes it back.
    call(&machine, "ldap-2");
    machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname.is_some()).await;
    assert_eq!(approve(&world, &machine, "ldap-2"), None);
    machine.run(30 * MINUTE).await;
    assert!(silence(&world, &machine) < 3 * MINUTE);
    assert!(machine.refusal("renew").expect("a refusal").what.contains("ldap-2"));
    assert_eq!(approve(&world, &machine, "n1"), None);
    call(&machine, "n1");
    machine.run(3 * MINUTE).await;
    assert!(is_called(&world, &machine, "n1"));
    assert_eq!((machine.status().other_name, machine.file("certificate.pem")), (None, first));
    assert_eq!(lines(&world, "renamed"), 0);
}

/// It hears of nothing but by heartbeats, and a lapsed node sends none.
// spec: NN-24
#[tokio::test(start_paused = true)]
async fn a_node_that_was_renamed_while_it_was_off_comes_back_under_the_new_name() {
    for acted in [false, true] {
        let (world, mut machine) = node(SEEDS[1], false).await;
        call(&machine, "web");
        machine.run_until(10 * MINUTE, |machine| line(&world, machine).new_hostname.is_some()).await;
        assert_eq!(approve(&world, &machine, "web"), None);
        if acted {
            // The worker's ledger is past its former name, which no longer gets it a certificate.
            machine.run_until(HOUR, |machine| allow(&world, machine)).await;
        }
        machine.kill();
        world.sleep_through(10 * DAY).await;
        if !acted {
            machine.run_until(3 * HOUR, |machine| silence(&world, machine) < MINUTE).await;
            machine.run_until(HOUR, |machine| allow(&world, machine)).await;
        }
        machine.run_until(3 * HOUR, |machine| is_called(&world, machine, "web")).await;
        machine.run(3 * MINUTE).await;
        assert!(silence(&world, &machine) < 3 * MINUTE);
        assert_eq!(machine.status().refusals, Vec::new());
    }
}

// spec: NN-440
#[tokio::test(start_paused = true)]
async fn an_owners_order_renames_a_node_at_worker_controller_and_node() {
    let alice = TestOwner::new("alice", 41);
    for seed in SEEDS {
        let (world, mut machine) = node(seed, false).await;
        let id = machine.id();
        world.approve_owner(&alice, Role::Owner);
        std::fs::write(machine.state_dir().join("../../../../etc/lucia/agent-policy.toml"), "rename = \"allow\"\n")
            .unwrap();
        let body = Body::Rename(RenameNode { hostname: name("n1"), new_hostname: name("web") });
        // What the machine calls itself has to agree before anybody signs, and nobody else may have the name.
        let early = world.once(&alice, &id, &body, 1);
        let drafted = world.controller().orders.add_draft(early, &Caller::Operator(0));
        assert_eq!(drafted.unwrap_err().code, Code::InvalidOnboardingRequest, "seed {seed}");

        call(&machine, "web");
        machine.run(5 * MINUTE).await;
        let draft = world.once(&alice, &id, &body, 2);
        world.order(&alice, &draft);
        world.comes_to(&mut machine, &draft, DraftState::Done).await;
        machine.run_until(HOUR, |machine| is_called(&world, machine, "web")).await;
        assert_eq!((lines(&world, "renamed"), lines(&world, "ordered")), (1, 1), "seed {seed}");
        let status = machine.status();
        assert_eq!((status.hostname, status.other_name), (Some(name("web")), None), "seed {seed}");
        let row = world.line(&draft);
        assert!(row.outcomes.iter().all(|outcome| outcome.refused.is_none()), "seed {seed}: {:?}", row.outcomes);
        assert!(silence(&world, &machine) < 3 * MINUTE && machine.ends.is_empty(), "seed {seed}: {:?}", machine.ends);
    }
}

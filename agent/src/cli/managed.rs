//! `managed-run`: the four conditions, then the loops, until systemd says stop.

use std::collections::BTreeSet;
use std::sync::Arc;

use lucia_daemon::clock::SystemClock;
use lucia_daemon::exit::Exit;
use lucia_daemon::notify::Notify;
use lucia_daemon::process::protect;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::Clock;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::config::Trust;
use crate::client::tls::{self, TlsTransport};
use crate::directory::ldap::Ldaps;
use crate::host::boot::{self, BootId};
use crate::host::failed::Failed;
use crate::host::random;
use crate::host::root::Root;
use crate::host::run::{End, Run};
use crate::host::state::State;
use crate::host::status::{self, Doing, Status, StatusFile};
use crate::identity::{Identity, key};
use crate::managed::shared::Shared;
use crate::managed::start::{self, Facts, NotInstalled};
use crate::managed::usage::Sampler;
use crate::managed::{self, Daemon, Ended};
use crate::orders::clone_decision::stopped_by;
use crate::orders::record::{Loaded, Record};
use crate::orders::remove_identity;
use crate::units::pid1::Pid1;

/// An owner decided that another machine goes on as this node, or none.
const STOPPED: u8 = 14;
/// An owner removed the identity.
const REMOVED: u8 = 15;
/// Ends that somebody wanted or that only a reboot follows (`SuccessExitStatus=` of the unit).
const WANTED: [u8; 3] = [12, STOPPED, REMOVED];

/// Ends a removal that a former start began.
fn go_on_removing(root: &Root) -> Result<Exit, Exit> {
    let state = State::hold(root, "managed-run")?;
    let runtime = runtime()?;
    runtime.block_on(remove_identity::remove(root, &state, &Pid1))?;
    let status = Status { doing: Doing::Removed, ..Status::default() };
    StatusFile::new(root).write(&state, &status);
    Ok(Exit::said(REMOVED, remove_identity::REMOVED))
}

/// Refuses the start of a holder that an owner stopped.
fn check_stopped(root: &Root, state: &State) -> Result<(), Exit> {
    let Loaded::Held(record) = Record::load(state) else { return Ok(()) };
    let Some(stopped) = record.ending().and_then(stopped_by) else { return Ok(()) };
    let status = Status { doing: Doing::Stopped, ..Status::default() };
    StatusFile::new(root).write(state, &status);
    Err(Exit::said(STOPPED, stopped))
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Exit::refused(format!("cannot start the runtime: {error}")))
}

/// Runs, and notes for `why` how that ended.
pub(super) fn run(root: &Root) -> Result<(), Exit> {
    let began = SystemClock.since_boot().as_secs();
    let ended = serve(root, began);
    // A copy elsewhere is none of this node's runs.
    let exit = ended.as_ref().map_or_else(|exit| exit.code, |()| 0);
    if exit != NotInstalled::NotAtItsPath.exit_code() {
        note_end(root, began, exit, ended.as_ref().map_or_else(|exit| exit.message.clone(), |()| String::new()));
    }
    if WANTED.contains(&exit) {
        // Of a notifying service systemd takes an end before that for a failure, whatever its code.
        let notify = Notify::from_environment();
        notify.ready();
        notify.stopping();
    }
    ended
}

fn note_end(root: &Root, began: u64, exit: u8, what: String) {
    let Ok(boot_id) = boot::boot_id(root) else { return };
    // One that runs has its own status, and this was a second one.
    if !matches!(State::holder(root), Ok(None)) {
        return;
    }
    let status = status::read(root).ok().flatten();
    let run = Run { boot_id, began, heartbeat: None };
    let before = status.as_ref().and_then(|status| status.ended.as_ref());
    let end = End::of(&run, before, SystemClock.since_boot(), exit, what);
    StatusFile::new(root).note_end(status, end);
}

/// What a new run goes on from: what outlives a run in what the last one wrote.
fn begin(before: Option<Status>, boot_id: BootId, began: u64, node_id: &NodeId) -> Status {
    let before = before.unwrap_or_default();
    let mut ended = End::before(before.run.as_ref(), before.ended.as_ref(), &boot_id);
    if let Some(end) = &mut ended {
        // Of another run, though both began in one second.
        end.began = end.began.min(began.saturating_sub(1));
    }
    let is_mine = before.node_id.as_ref() == Some(node_id);
    let heartbeat = before.run.filter(|run| is_mine && run.boot_id == boot_id).and_then(|run| run.heartbeat);
    Status {
        start_id: before.start_id.filter(|_| is_mine),
        last_heartbeat: before.last_heartbeat.filter(|_| is_mine),
        run: Some(Run { boot_id, began, heartbeat }),
        ended,
        ssh_removed: if is_mine { before.ssh_removed } else { BTreeSet::new() },
        ..Status::default()
    }
}

fn serve(root: &Root, began: u64) -> Result<(), Exit> {
    protect()?;
    let facts = Facts::read(root)?;
    // A copy of the program that lies elsewhere is told so before it looks at anything of the node's.
    start::check_program(&facts).map_err(|error| Exit::with(error.exit_code(), &error))?;
    if remove_identity::is_under_way(root) {
        return Err(go_on_removing(root)?);
    }
    let left = start::installed_facts(root)?;
    let installed = start::check(&facts, left).map_err(|error| Exit::with(error.exit_code(), &error))?;
    let state = State::hold(root, "managed-run")?;
    check_stopped(root, &state)?;
    let trust = Trust::load(root).map_err(Failed::config)?;
    let key = Arc::new(key::load(&state)?);
    let orders = installed.facts();
    let fingerprint = key.public().fingerprint();
    if fingerprint.node_id() != orders.node_id {
        return Err(Exit::refused(format!(
            "the key in {} is not the one that was installed (node {}); restore it from a backup, or install anew; after `rekey`, \
             have this machine approved and run `lucia-node-agent rekey --finish`",
            state.path().display(),
            orders.node_id
        )));
    }
    let tls = tls::settings(&trust.root).map_err(Failed::config)?;
    let identity = Identity::open(&state, &key, &orders.hostname, &orders.task_id, trust.root.clone());
    let identity = identity?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = &trust.config;
    let status = Status {
        node_id: Some(orders.node_id.clone()),
        verification_code: Some(fingerprint.verification_code()),
        hostname: Some(orders.hostname.clone()),
        controller: Some(config.controller()),
        ..begin(status::read(root).ok().flatten(), facts.boot_id.clone(), began, &orders.node_id)
    };
    let seed = u64::from_be_bytes(*random::bytes()?);
    let shared =
        Arc::new(Shared::new(state, StatusFile::new(root), status, Arc::clone(&clock), Notify::from_environment()));
    let transport = TlsTransport::maker(config, &tls).map_err(Failed::config)?;
    let daemon = Daemon {
        shared: Arc::clone(&shared),
        key,
        identity,
        transport,
        runner: Pid1,
        directory: Ldaps::new(&tls),
        root: root.clone(),
        root_file: trust.config.root_file.clone(),
        sampler: Sampler::new(root),
        seed,
    };
    tracing::info!("node {} ({}) starts", orders.node_id, orders.hostname);

    runtime()?.block_on(async {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return Err(Exit::refused("cannot listen for SIGTERM"));
        };
        tokio::select! {
            ended = managed::run(&installed, daemon) => return Err(match ended {
                Ended::Broke(why) => Exit::refused(format!("{why}; the service starts again")),
                ended @ Ended::Stopped(_) => Exit::said(STOPPED, ended.to_string()),
                ended @ Ended::Removed => Exit::said(REMOVED, ended.to_string()),
            }),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shared.notify().stopping();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;
    use crate::host::state::StateFile;

    fn orders(more: &str) -> String {
        let at = "1970-01-01T00:00:00Z";
        let memory = format!(r#"{{"schemaVersion":1,"begunAt":"{at}","floor":"{at}","nonces":[],"states":[]}}"#);
        format!(r#"{{"schemaVersion":1,"memory":{memory},"keys":[],{more}"untold":[],"done":[]}}"#)
    }

    // spec: AG-281
    #[test]
    fn a_run_that_was_killed_in_the_second_in_which_the_one_before_it_ended_is_told_from_that() {
        let boot: BootId = "00000000-0000-4000-8000-000000000001".parse().unwrap();
        let run = |began| Run { boot_id: boot.clone(), began, heartbeat: None };
        let stopped = End::of(&run(100), None, std::time::Duration::from_secs(100), 0, String::new());
        let before = Status { run: Some(run(100)), ended: Some(stopped), ..Status::default() };
        let second = begin(Some(before), boot.clone(), 100, &lucia_proto::test_support::TestNode::new(1).node_id);
        let killed = End::before(second.run.as_ref(), second.ended.as_ref(), &boot).unwrap();
        assert_eq!((killed.exit, killed.began), (None, 100));
    }

    // spec: AO-19
    #[test]
    fn a_holder_that_an_owner_stopped_does_not_start_again() {
        let scratch = Scratch::new();
        let state = State::hold(&scratch.root(), "test").unwrap();
        assert!(check_stopped(&scratch.root(), &state).is_ok());
        state.replace(StateFile::Orders, orders("").as_bytes()).unwrap();
        assert!(check_stopped(&scratch.root(), &state).is_ok());
        let intent = "0123456789abcdef".repeat(4);
        let mut messages = BTreeSet::new();
        for decision in ["keep", "split"] {
            let stopped = format!(r#""stopped":{{"intent":"{intent}","decision":"{decision}"}},"#);
            state.replace(StateFile::Orders, orders(&stopped).as_bytes()).unwrap();
            let exit = check_stopped(&scratch.root(), &state).unwrap_err();
            assert_eq!(exit.code, STOPPED);
            assert!(exit.message.contains("lucia-node-agent rekey"), "{}", exit.message);
            messages.insert(exit.message);
            let told = status::read(&scratch.root()).unwrap().unwrap();
            assert_eq!(told.doing, Doing::Stopped);
        }
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(!remove_identity::is_under_way(&scratch.root()));
    }

    // spec: SD-280
    #[test]
    fn an_end_that_was_wanted_is_no_failure_to_systemd() {
        let unit = crate::install::stage::UNIT;
        let line = unit.lines().find_map(|line| line.strip_prefix("SuccessExitStatus=")).unwrap();
        assert_eq!(line.split(' ').map(|word| word.parse::<u8>().unwrap()).collect::<Vec<_>>(), WANTED);
    }

    // spec: AO-19
    #[test]
    fn systemd_starts_no_daemon_that_an_owner_ended() {
        let unit = crate::install::stage::UNIT;
        let line = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
        for code in [STOPPED, REMOVED] {
            assert!(line.split(' ').any(|word| word == code.to_string()), "{code}");
        }
    }
}

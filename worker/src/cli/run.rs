//! `run` and `once`: the loop around the turns.

use std::process::ExitCode;

use tracing::{debug, info};

use lucia_daemon::clock::now;
use lucia_daemon::exit::{self, Exit};
use lucia_daemon::notify::Notify;
use lucia_daemon::process::protect;

use super::at::{say, to_json};
use crate::config::Config;
use crate::owner_queue::OwnerQueue;
use crate::queue::Queue;
use crate::turn::{Summary, Worker};
use crate::watch::{Wake, Watch};

/// Between two turns when nothing appears.
const POLL_MILLIS: u16 = 5000;
/// After each turn that did nothing, however much appears: a turn takes some ms with an empty queue and more with a full one.
const REST_MILLIS: u16 = 300;
/// When another command has the ledger.
const BUSY_MILLIS: u16 = 50;
/// How often `once` tries then, in all.
const BUSY_TRIES: usize = 100;

/// Answers requests until SIGTERM. That no core file is written is the unit's too, so a system that refuses it leaves it at that.
pub(super) fn run(config: Config) -> Result<ExitCode, Exit> {
    let _ = protect();
    let mut watch = Watch::new()?;
    let mut worker = Worker::open(config)?;
    let notify = Notify::from_environment();
    info!("started");
    notify.ready();
    notify.status("first turn");
    loop {
        if let Ok(queue) = Queue::open(worker.config()) {
            queue.watched().for_each(|dir| watch.add(dir));
        }
        if let Ok(Some(owners)) = OwnerQueue::open(worker.config()) {
            owners.watched().into_iter().for_each(|dir| watch.add(dir));
        }
        let summary = worker.turn(now())?;
        debug!(?summary, "turn");
        let what = summary.problems.first().map_or("ready", String::as_str);
        notify.alive();
        notify.status(what);
        let (rest, pause) = match &summary {
            Summary { busy: true, .. } => (BUSY_MILLIS, 0),
            // What is signed is limited by the hour, so going on at once ends.
            Summary { more: true, issued, ordered, .. } if issued + ordered > 0 => (0, 0),
            Summary { more: true, .. } => (REST_MILLIS, 0),
            _ => (REST_MILLIS, POLL_MILLIS),
        };
        let mut woken = watch.rest(rest);
        if let Ok(Wake::Turn) = woken {
            woken = watch.wait(pause);
        }
        if woken? == Wake::Stop {
            notify.stopping();
            info!("stopped");
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Answers what is in the queue, then ends.
pub(super) fn once(config: Config, json: bool) -> Result<ExitCode, Exit> {
    let _ = protect();
    let mut watch = Watch::new()?;
    let mut worker = Worker::open(config)?;
    let (mut all, mut busy) = (Summary::default(), 0);
    // As many turns as the queue is long: one looks at 128 requests, and no more than 65536 are looked at in all.
    while busy < BUSY_TRIES {
        let turn = worker.turn(now())?;
        if turn.busy {
            busy += 1;
            if watch.wait(BUSY_MILLIS)? == Wake::Stop {
                return Err(Exit::refused("stopped"));
            }
            continue;
        }
        let more = turn.more;
        all.add(turn);
        if !more {
            say(&if json { to_json(&all)? } else { all.sentence() });
            return Ok(if all.ready { ExitCode::SUCCESS } else { exit::FAILED.into() });
        }
    }
    Err(Exit::refused("the ledger is in use by another process; try again in a moment"))
}

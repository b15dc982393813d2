//! One pass: removals, the endpoint, the requests; then each durable step in the order that makes a crash harmless.
//!
//! 1. Requests are read, then the journal, so that the journal is never older than what it is asked about.
//! 2. Under the ledger's lock, the journal must continue the one seen before; then all is decided.
//! 3. Receipts are written: the leaf exists on our side before anybody else can see it.
//! 4. The ledger gets all its lines with one sync.
//! 5. What is left of barred nodes is deleted.
//! 6. Only then answers leave, and the status file with them.
//!
//! Owners' orders are stored as remembered before their lines are written, in step 2; see [`crate::orders::kept`].
//!
//! A crash after 3 finds the receipt and hands out the same leaf, adding its ledger line; a crash after 4 only writes
//! the answer; one in 5 is made good by the next turn, since a node counts as removed only once nothing is left. So a
//! node has one live leaf for its CSR, wherever the power went.

mod audit;
mod deliver;
mod directory;
mod endpoint;
mod error;
mod lists;
mod owners;
mod pass;
mod places;
mod summary;
#[cfg(test)]
mod tests;
mod worker;

use lucia_durable::crash_point::crash_point;
use lucia_durable::{AppendError, FileName, Lease, LeaseError, WriteError};
use lucia_proto::base::bounded::Version;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::worker_status::WorkerStatus;
use tracing::{info, warn};

use deliver::{deliver, withdraw};
pub(crate) use endpoint::ENDPOINT_AN_HOUR;
pub use error::TurnError;
use lists::Lists;
use owners::current;
pub(crate) use pass::REMOVALS_AN_HOUR;
use pass::{Drafts, Pass};
use places::Places;
use summary::problem;
pub use summary::{CRASH_POINTS, Summary};
pub use worker::Worker;

use crate::ca::{self, Pauses};
use crate::config::Config;
use crate::directory::{self as accounts};
use crate::files::{file, id_file};
use crate::home::Home;
use crate::ledger::{Ledger, LedgerError, Transaction};
use crate::orders::kept::KeptError;
use crate::owner_queue::OwnerQueue;
use crate::queue::{ENTRIES_A_TURN, Queue, next_after};
use crate::remarks::Remarks;
use crate::roster::RosterFileError;
use crate::{authority, chain};

/// The lease file's first line, once a fleet was begun.
pub(crate) const MARKER: &[u8] = b"Lucia.Worker.v1";
/// The status file, in the answers' directory.
pub const STATUS_FILE: &str = "enrollment-worker.json";

impl Worker {
    /// Opens the worker's directory and checks that all in it fits together.
    ///
    /// # Errors
    /// What does not, or that another worker runs on it.
    pub fn open(config: Config) -> Result<Self, TurnError> {
        let home = Home::open(&config).map_err(TurnError::Home)?;
        let mut lease = take_lease(&home).map_err(TurnError::Lease)?;
        let identity = home.identity(&config).map_err(TurnError::Home)?;
        let mut ledger = Ledger::load(&home.dir).map_err(TurnError::Ledger)?;
        if ledger.records().root() != Some(identity.root.sha256()) {
            return Err(TurnError::OtherFleet);
        }
        // An `init` that was cut off at its last step left all of a fleet but this: before anything is signed.
        lease.confirm(&home.dir).map_err(TurnError::Lease)?;
        // A roster that is another one stops the start; where a command has the ledger just now, the first turn.
        match Ledger::hold(&home.dir) {
            Ok(held) => {
                let transaction = ledger.begin(&home.dir, held).map_err(TurnError::Ledger)?;
                current(&home, &identity, &transaction)?;
            }
            Err(LedgerError::Busy) => {}
            Err(error) => return Err(TurnError::Ledger(error)),
        }
        let (remarks, troubles) = (Remarks::default(), Remarks::default());
        let readers = accounts::open(&config, &identity.root).map_err(TurnError::Directory)?;
        let (seen, last, pauses) = (None, None, Pauses::default());
        let (swept, places, lists, _lease) = (0, Places::default(), Lists::default(), lease);
        Ok(Self {
            config,
            home,
            identity,
            ledger,
            remarks,
            troubles,
            seen,
            pauses,
            readers,
            last,
            places,
            lists,
            swept,
            _lease,
        })
    }

    /// The settings it runs with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes one turn.
    ///
    /// # Errors
    /// [`TurnError`]: the worker has to stop. Anything the controller did, and a full disk, are problems and not errors.
    pub fn turn(&mut self, now: UnixTime) -> Result<Summary, TurnError> {
        let mut summary = Summary::default();
        self.pauses.turn(now);
        self.readers.turn();
        if let Some(count) = self.remarks.pass(now) {
            warn!("{count} more remarks about files in the queue were left out of the log; `pending` shows them");
        }
        if let Some(count) = self.troubles.pass(now) {
            warn!(
                "{count} more remarks about what the worker needs were left out of the log; `status` shows how it is now"
            );
        }
        let queue = match Queue::open(&self.config) {
            Ok(queue) => queue,
            Err(error) => {
                self.problem(&mut summary, "queue", &chain(&error));
                return Ok(summary);
            }
        };
        let shut: Vec<_> = queue.shut().map(|error| chain(error)).collect();
        if shut.is_empty() {
            self.troubles.settle("queue");
        }
        for text in &shut {
            self.problem(&mut summary, "queue", text);
        }
        let requests = self.read_requests(&queue, &mut summary);
        let removals = queue.removals().unwrap_or_default();
        let owners = self.owners(&mut summary);
        let journal = match authority::read(&self.config) {
            Ok(journal) => {
                if self.troubles.settle("journal") {
                    info!("the controller's journal can be read again");
                }
                Some(journal)
            }
            Err(error) => {
                self.problem(&mut summary, "journal", &chain(&error));
                None
            }
        };
        let ended = now > self.identity.ca.not_after();
        if ended {
            let error = ca::CaError::Ended { not_after: self.identity.ca.not_after() };
            self.problem(&mut summary, "issuing CA", &error.to_string());
        }
        let held = match Ledger::hold(&self.home.dir) {
            Ok(held) => held,
            // `admit` has it for a moment.
            Err(LedgerError::Busy) => return Ok(Summary { more: true, busy: true, ..summary }),
            Err(error) => return Err(TurnError::Ledger(error)),
        };
        let Self {
            config, home, identity, ledger, remarks, troubles, seen, pauses, readers, last, swept, lists, ..
        } = self;
        let transaction = ledger.begin(&home.dir, held).map_err(TurnError::Ledger)?;
        let in_force = current(home, identity, &transaction)?;
        let records = transaction.records();
        let known = (records.acceptances(), records.mark().copied());
        // What this process saw counts until somebody accepts another journal.
        let of_process = seen.filter(|(acceptances, _)| *acceptances == known.0).map(|(_, mark)| mark);
        let floor = of_process.into_iter().chain(known.1).max_by_key(|mark| mark.generation);
        let journal = journal.filter(|journal| match authority::continues(journal, floor.as_ref()) {
            Ok(()) => {
                if troubles.settle("journal's past") {
                    info!("the controller's journal continues the one seen before, or was accepted");
                }
                *seen = Some((known.0, authority::mark_of(journal)));
                true
            }
            Err(error) => {
                problem(troubles, &mut summary, "journal's past", &chain(&error));
                false
            }
        });
        summary.ready = journal.is_some() && !ended;
        let mut pass = Pass {
            config,
            home,
            identity,
            remarks,
            pauses,
            readers,
            queue: &queue,
            roster: in_force.as_ref(),
            transaction,
            drafts: Drafts::default(),
            now,
        };
        let drafted = pass.all(journal.as_ref(), &removals, owners.as_ref(), &requests, &mut summary);
        // Last, so that they say what this turn added to the ledger.
        let listed = owners.as_ref().map_or(Ok(()), |(queue, _)| pass.lists(queue, lists, &mut summary));
        let drafted = drafted.and_then(|next| listed.map(|()| next));
        let Pass { transaction, drafts, .. } = pass;
        let written = drafted.and_then(|next| {
            if let Some(waits) = next {
                // Whoever did not get his turn is the first of the next one, which follows at once.
                *last = waits.checked_sub(1).and_then(|before| requests.get(before)).map(|(id, _)| id.clone());
                (summary.more, *swept) = (true, swept.saturating_sub(requests.len() - waits));
            }
            let owners = owners.as_ref().map(|(owners, _)| owners);
            write(home, (&queue, owners), transaction, drafts, &summary, now)
        });
        match written {
            Err(error) if is_full(&error) => {
                summary.ready = false;
                self.problem(&mut summary, "disk", &chain(&error));
                Ok(summary)
            }
            Err(error) => Err(error),
            Ok(left) => {
                for text in left {
                    self.problem(&mut summary, "answers", &text);
                }
                self.readers(&mut summary, now);
                Ok(summary)
            }
        }
    }

    /// The requests whose turn it is, as bytes.
    fn read_requests(&mut self, queue: &Queue, summary: &mut Summary) -> Vec<(NodeId, Vec<u8>)> {
        let scan = match queue.scan() {
            Ok(scan) => scan,
            Err(error) => {
                self.problem(summary, "requests", &chain(&error));
                return Vec::new();
            }
        };
        for name in &scan.strange {
            if self.remarks.is_new(name.as_str(), "strange") {
                warn!(file = %name, "ignored in enrollment-requests: no program of ours writes such a file");
            }
        }
        if !scan.complete {
            self.problem(summary, "requests", "enrollment-requests holds over 65536 files; find out what writes them");
        }
        let turn = next_after(&scan.nodes, self.last.as_ref(), ENTRIES_A_TURN);
        self.swept += turn.len();
        summary.more = self.swept < scan.nodes.len();
        if !summary.more {
            self.swept = 0;
        }
        self.last = turn.last().cloned();
        let mut requests = Vec::with_capacity(turn.len());
        for id in turn {
            match queue.request(&id) {
                Ok(Some(bytes)) => requests.push((id, bytes)),
                Ok(None) => {}
                Err(error) => {
                    let text = chain(&error);
                    if self.remarks.is_new(id.as_str(), &text) {
                        warn!(node = %id, "request ignored: {text}");
                    }
                }
            }
        }
        requests
    }

    fn problem(&mut self, summary: &mut Summary, about: &str, text: &str) {
        problem(&mut self.troubles, summary, about, text);
    }
}

/// The durable steps, in the order the head of this module gives. Gives what could not leave: the next turn tries again.
fn write(
    home: &Home,
    (queue, owners): (&Queue, Option<&OwnerQueue>),
    transaction: Transaction<'_>,
    drafts: Drafts,
    summary: &Summary,
    now: UnixTime,
) -> Result<Vec<String>, TurnError> {
    let [_, _, receipts, recorded, cleaned] = CRASH_POINTS;
    let die = |at| crash_point(at, home.dir.path()).map_err(TurnError::Crashed);
    if !drafts.receipts.is_empty() {
        home.receipts.replace_all(&drafts.receipts, 0o600).map_err(TurnError::Write)?;
        die(receipts)?;
    }
    transaction.commit().map_err(TurnError::Ledger)?;
    die(recorded)?;
    let mut left = Vec::new();
    for name in drafts.gone.iter().map(id_file) {
        if home.receipts.exists(&name).unwrap_or(true) {
            home.receipts.remove(&name).map_err(TurnError::Write)?;
        }
        if queue.responses.exists(&name).unwrap_or(true) {
            withdraw(&queue.responses, &name, &mut left)?;
        }
        die(cleaned)?;
    }
    let status = WorkerStatus { schema_version: Version, ready: summary.ready, checked_at: now };
    let mut answers = drafts.answers;
    answers.push((file(STATUS_FILE), status.to_bytes().map_err(TurnError::Json)?));
    deliver(&queue.responses, &answers, &mut left)?;
    if let Some(owners) = owners {
        deliver(&owners.responses, &drafts.owner_answers, &mut left)?;
        drafts.owner_gone.iter().try_for_each(|name| withdraw(&owners.responses, name, &mut left))?;
    }
    Ok(left)
}

/// A full disk is waited out; every other failed write ends the worker, since what the disk has is then open.
fn is_full(error: &TurnError) -> bool {
    matches!(
        error,
        TurnError::Write(WriteError::Full { .. })
            | TurnError::Orders(KeptError::Write(WriteError::Full { .. }))
            | TurnError::Roster(RosterFileError::Write(WriteError::Full { .. }))
            | TurnError::Ledger(
                LedgerError::File(AppendError::Full { .. }) | LedgerError::Anchor(WriteError::Full { .. })
            )
    )
}

/// The lease's file.
pub(crate) fn lease_name() -> FileName {
    FileName::hidden(".worker.lease").unwrap_or_else(|_| unreachable!("a constant name"))
}

/// Only one worker at a time takes turns on a directory; `admit` and the others need no lease.
pub(crate) fn take_lease(home: &Home) -> Result<Lease, LeaseError> {
    Lease::take(&home.dir, &lease_name(), MARKER, &format!("pid {} lucia-enrollment-worker", std::process::id()))
}

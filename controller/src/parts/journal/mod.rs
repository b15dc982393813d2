//! The journal in memory and the one way to change it.
//!
//! Every move is a function of (journal, input, now) that either changes the journal it is given or refuses and leaves
//! it to be thrown away. [`Keeper::change`] runs one on a copy, writes the copy, and only then lets anyone see it: what
//! was acknowledged is on disk, what is refused left no trace. Of several controllers one holds the lease and writes.

mod approvals;
mod clones;
mod devices;
mod expiry;
mod installs;
mod names;
mod removed;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, RwLock};

use lucia_durable::{LeaseError, crash_point};
use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{Actor, Event, Holder, Journal, NewName};
use lucia_proto::node::phase::DeviceEvent;
use tokio::sync::watch;

use crate::lock::{lock, read, write};
use crate::refusal::{Refusal, chain};
use crate::store::journal_file::JournalFile;

pub(super) use approvals::{Approval, approve};
pub(super) use clones::{freeze, keep, not_frozen, split};
pub(super) use devices::{Discovery, discover, dismiss, may_appear, moved, reject, remove, restore};
pub(super) use expiry::{expire, is_anything_over};
pub(super) use installs::{enrolment, grant, heard, installation, progress};
pub(super) use names::{Renamed, rename, renamed};
pub(super) use removed::{removal_of, removals};

/// Who causes what nobody asked for.
pub(super) const CONTROLLER: &str = "controller";
/// Who causes what a machine says by its proof.
pub(super) const DEVICE: &str = "device";

/// The journal, its file and who waits for its events.
pub struct Keeper {
    current: RwLock<Arc<Journal>>,
    writer: Mutex<Writer>,
    events: watch::Sender<u64>,
    /// Last event and generation at the start.
    opened: (u64, u64),
}

struct Writer {
    file: JournalFile,
    /// Why nothing is written any more.
    broken: Option<String>,
}

impl Keeper {
    pub(super) fn new(file: JournalFile, journal: Journal) -> Self {
        let events = watch::Sender::new(journal.last_event_id);
        let writer = Mutex::new(Writer { file, broken: None });
        let opened = (journal.last_event_id, journal.generation);
        Self { current: RwLock::new(Arc::new(journal)), writer, events, opened }
    }

    /// Events and writes since the start.
    pub(super) const fn since_start(&self, journal: &Journal) -> (u64, u64) {
        let (event, generation) = self.opened;
        (journal.last_event_id.saturating_sub(event), journal.generation.saturating_sub(generation))
    }

    /// The journal as it is now. It may be replaced while the caller looks at it.
    pub(super) fn read(&self) -> Arc<Journal> {
        Arc::clone(&read(&self.current))
    }

    /// Carries out one move. One that changes nothing writes nothing.
    ///
    /// # Errors
    /// What the move refuses; `persistence_failed` when it could not be written. Where nothing was written, as on a full
    /// disk, this move alone is refused; after every other failure nobody knows what the disk holds, and nothing is
    /// written until a restart.
    pub(super) fn change<T>(&self, decide: impl FnOnce(&mut Journal) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut writer = lock(&self.writer);
        let former = self.read();
        let mut journal = Journal::clone(&former);
        let answer = decide(&mut journal)?;
        if journal == *former {
            return Ok(answer);
        }
        if let Some(reason) = &writer.broken {
            let message = "The controller could not write its state and has to be restarted.";
            return Err(Refusal::logged(
                Code::PersistenceFailed,
                message,
                format!("nothing is written since: {reason}"),
            ));
        }
        journal.generation = journal.generation.saturating_add(1);
        let bytes = journal.to_bytes().map_err(Refusal::persistence)?;
        if let Err(error) = writer.file.write(&bytes, journal.generation) {
            if !error.wrote_nothing() {
                writer.broken = Some(chain(&error));
            }
            return Err(Refusal::persistence(error));
        }
        crash_point!("controller/journal-written", writer.file.path()).map_err(Refusal::persistence)?;
        let last = journal.last_event_id;
        *write(&self.current) = Arc::new(journal);
        self.events.send_if_modified(|known| std::mem::replace(known, last) != last);
        Ok(answer)
    }

    /// Whether the state is still this program's: once another has taken it over, nothing is written any more, and the
    /// program ends. A look that fails for another reason, as want of descriptors, says nothing.
    pub(super) fn is_ours(&self) -> bool {
        let mut writer = lock(&self.writer);
        let Err(error @ LeaseError::TakenOver { .. }) = writer.file.check() else { return true };
        if writer.broken.is_none() {
            tracing::error!("{error}");
            writer.broken = Some(error.to_string());
        }
        false
    }

    /// Whether the journal can still be written: after a failure that leaves open what the disk holds, only a new start
    /// can. Waits for a write in progress: a disk that hangs is no good news.
    pub fn writes(&self) -> bool {
        lock(&self.writer).broken.is_none()
    }

    /// Changes with each event; its value is the newest sequence number.
    pub fn events_changed(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }
}

/// Appends an event about who holds an identity.
fn note_holders(
    journal: &mut Journal,
    at: UnixTime,
    kind: Act,
    actor: &str,
    id: &NodeId,
    holders: Vec<Holder>,
) -> Result<(), Refusal> {
    let task_id = journal.device(id).and_then(|device| device.task_id.clone());
    let actor = actor_named(actor)?;
    let event = Event { device_id: Some(id.clone()), task_id, holders, ..Event::new(at, kind, actor) };
    journal.record(event).map_err(Refusal::persistence)
}

fn actor_named(actor: &str) -> Result<Actor, Refusal> {
    let unnamed = || Refusal::new(Code::InvalidOnboardingRequest, "Who does this must be named.");
    Actor::fitted(actor).ok_or_else(unnamed)
}

/// Appends an event.
fn note(
    journal: &mut Journal,
    at: UnixTime,
    kind: Act,
    actor: &str,
    device_id: Option<&NodeId>,
    task_id: Option<&TaskId>,
) -> Result<(), Refusal> {
    let actor = actor_named(actor)?;
    let (device_id, task_id) = (device_id.cloned(), task_id.cloned());
    let event = Event { device_id, task_id, ..Event::new(at, kind, actor) };
    journal.record(event).map_err(Refusal::persistence)
}

/// Appends an event about a node's other name.
fn note_names(journal: &mut Journal, at: UnixTime, actor: &str, id: &NodeId, new_name: NewName) -> Result<(), Refusal> {
    let task_id = journal.device(id).and_then(|device| device.task_id.clone());
    let (actor, device_id) = (actor_named(actor)?, Some(id.clone()));
    let event = Event { device_id, task_id, names: Some(new_name), ..Event::new(at, Act::Renamed, actor) };
    journal.record(event).map_err(Refusal::persistence)
}

/// Appends that a device was removed: under which name is known from nothing else afterwards.
fn note_removed(
    journal: &mut Journal,
    at: UnixTime,
    actor: &str,
    (id, hostname, task_id): (&NodeId, Option<Hostname>, Option<TaskId>),
) -> Result<(), Refusal> {
    let (kind, actor, device_id) = (Act::Removed, actor_named(actor)?, Some(id.clone()));
    // The room of an event is reckoned with one long text.
    let hostname = hostname.filter(|_| actor.as_str().len() <= 64);
    let event = Event { device_id, task_id, hostname, ..Event::new(at, kind, actor) };
    journal.record(event).map_err(Refusal::persistence)
}

/// Moves a device and its current task by one event, by the tables of `lucia_proto::node::phase`; a task that ended is let
/// go of unless the device failed with it.
fn step(journal: &mut Journal, id: &NodeId, event: DeviceEvent, code: Code) -> Result<(), Refusal> {
    let Some(device) = journal.device(id) else { return Err(gone(id)) };
    let phase = device.phase.on(event).map_err(|error| Refusal::new(code, format!("{error}.")))?;
    let task = device.task_id.clone();
    let mut ended = false;
    if let Some(task) = task.as_ref().and_then(|task| journal.task_mut(task)) {
        task.phase = task.phase.on(event).map_err(|error| Refusal::new(code, format!("{error}.")))?;
        ended = task.phase.is_ended();
    }
    if let Some(device) = journal.device_mut(id) {
        device.phase = phase;
        if ended && !phase.agrees_with(lucia_proto::node::phase::TaskPhase::Failed) {
            device.task_id = None;
            device.hostname = None;
        }
    }
    Ok(())
}

/// The device went away between the proof and the move.
fn gone(id: &NodeId) -> Refusal {
    Refusal::identity(format!("device {id} is not in the journal any more"))
}

/// The operator named a device that is not there.
fn not_found(id: &NodeId) -> Refusal {
    Refusal::new(Code::DeviceNotFound, format!("There is no device {id}."))
}

/// Opens the discovery window until `until`.
pub(super) fn open_window(journal: &mut Journal, until: UnixTime, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    journal.window_expires_at = Some(until);
    note(journal, now, Act::WindowOpened, actor, None, None)
}

/// Closes the discovery window, for the reason `kind`; one that is closed stays so.
pub(super) fn close_window(journal: &mut Journal, kind: Act, actor: &str, now: UnixTime) -> Result<(), Refusal> {
    if journal.window_expires_at.take().is_none() {
        return Ok(());
    }
    note(journal, now, kind, actor, None, None)
}

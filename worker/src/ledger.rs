//! `ledger.jsonl`: the worker's own record of what it ever admitted, issued and removed (design.md W1).
//!
//! One JSON object a line, each holding the SHA-256 of the line before it. Nothing is ever changed in it. A line is on
//! the disk, and counted in `ledger.head`, before the answer that rests on it leaves: so a last line that a crash cut
//! off beyond that count stands for nothing. The next transaction drops it and says so in a line of its own; any other
//! damage stops the worker.
//!
//! Two processes write it: `run`, and `admit` or another act beside it. A [`Transaction`] holds the file's lock, first
//! reads what the other added, and adds all its lines with one sync. The lines of a transaction are whole one by one,
//! not together: after a crash the first few of them may be there, and each such beginning must be a state to go on from.

mod anchor;
mod audited;
mod entry;
mod error;
mod people;
mod recent;
mod records;
#[cfg(test)]
mod tests;

use lucia_durable::{AppendError, AppendFile, AppendLock, PrivateDir};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::time::UnixTime;
use tracing::warn;

pub(crate) use anchor::ANCHOR;
pub use audited::{Anchored, Anchors};
pub use entry::{By, By as AdmittedBy, Entry, Mark, NodeNames, OrderEffect, OrderedBy};
pub use error::LedgerError;
pub use recent::Recent;
pub use records::{NodeRecord, Rates, Records};

use anchor::Anchor;
use entry::Line;

/// The file's name.
const NAME: &str = "ledger.jsonl";
/// Longest line.
const LINE_MAX: usize = 4096;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Mode of the file.
const MODE: u32 = 0o600;

/// The ledger as read so far.
#[derive(Debug)]
pub struct Ledger {
    records: Records,
    offset: u64,
    head: Digest,
    /// What was answered on, as far as this process knows.
    anchor: Anchor,
    /// A transaction ended between memory and disk: read anew before use.
    stale: bool,
}

/// The file's lock: no other process adds lines until this is dropped.
#[derive(Debug)]
pub struct LedgerLock {
    _lock: AppendLock,
    _file: AppendFile,
}

/// Exclusive use of the ledger until dropped.
#[derive(Debug)]
pub struct Transaction<'a> {
    ledger: &'a mut Ledger,
    dir: &'a PrivateDir,
    file: AppendFile,
    lines: Vec<u8>,
    _held: LedgerLock,
}

impl Ledger {
    /// Makes the ledger of a new fleet, with its first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(dir: &PrivateDir, root: Digest, at: UnixTime) -> Result<(), LedgerError> {
        let mut ledger = Self::empty();
        let mut transaction = ledger.begin(dir, lock(dir)?)?;
        transaction.add(at, Entry::Initialised { root })?;
        transaction.commit()
    }

    /// Reads the whole ledger and checks its chain. A last line without its end is left out: it is being written just
    /// now, or was cut off by a crash.
    ///
    /// # Errors
    /// Each [`LedgerError`] but `Busy`.
    pub fn load(dir: &PrivateDir) -> Result<Self, LedgerError> {
        must_exist(dir)?;
        // Before the ledger: it never counts lines that are not there yet.
        let mut ledger = Self { anchor: Anchor::read(dir)?, ..Self::empty() };
        ledger.read(&open(dir)?, dir)?;
        if ledger.records.lines() == 0 {
            return Err(LedgerError::Empty { path: dir.path_of(&crate::files::file(NAME)) });
        }
        Ok(ledger)
    }

    /// What it says.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// SHA-256 of its last line.
    #[must_use]
    pub fn head(&self) -> Digest {
        self.head
    }

    /// Takes the file's lock, or says at once that another process has it.
    ///
    /// # Errors
    /// [`LedgerError::Busy`], [`LedgerError::Lost`], [`LedgerError::File`].
    pub fn hold(dir: &PrivateDir) -> Result<LedgerLock, LedgerError> {
        must_exist(dir)?;
        lock(dir)
    }

    /// Reads what others added and begins to add. Drops a last line that a crash cut off.
    ///
    /// # Errors
    /// As [`Ledger::load`].
    pub fn begin<'a>(&'a mut self, dir: &'a PrivateDir, held: LedgerLock) -> Result<Transaction<'a>, LedgerError> {
        // Opened anew under the lock: only then does its length stand still.
        let mut file = open(dir)?;
        if self.stale {
            *self = Self::empty();
        }
        self.anchor = Anchor::read(dir)?;
        self.read(&file, dir)?;
        let bytes = file.torn_tail();
        if bytes == 0 {
            return Ok(Transaction { ledger: self, dir, file, lines: Vec::new(), _held: held });
        }
        let path = dir.path_of(&crate::files::file(NAME));
        file.truncate_torn_tail().map_err(LedgerError::File)?;
        warn!("the last line of {} was cut off by a crash and is dropped; nothing was answered on it", path.display());
        let at = self.records.last_at().unwrap_or(UnixTime::EPOCH);
        let mut transaction = Transaction { ledger: self, dir, file, lines: Vec::new(), _held: held };
        transaction.add(at, Entry::TornLineDropped { bytes })?;
        transaction.write()?;
        Ok(transaction)
    }

    fn empty() -> Self {
        Self { records: Records::default(), offset: 0, head: Digest::ZERO, anchor: Anchor::NONE, stale: false }
    }

    fn read(&mut self, file: &AppendFile, dir: &PrivateDir) -> Result<(), LedgerError> {
        let path = || dir.path_of(&crate::files::file(NAME));
        if file.len() < self.offset {
            return Err(LedgerError::Shrunk { path: path() });
        }
        while self.offset < file.len() {
            let bytes = file.read_from(self.offset, CHUNK).map_err(LedgerError::File)?;
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let number = self.records.lines() + 1;
                let line =
                    Line::read(text, LINE_MAX).map_err(|source| LedgerError::Line { path: path(), number, source })?;
                line.follows(number, self.head)
                    .and_then(|(at, entry)| self.records.apply(at, &entry))
                    .map_err(|what| LedgerError::Chain { path: path(), number, what })?;
                self.head = Digest::of(text);
                if number == self.anchor.lines && self.head != self.anchor.head {
                    return Err(LedgerError::Other { path: path(), number });
                }
            }
            self.offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        }
        let (lines, anchored) = (self.records.lines(), self.anchor.lines);
        if lines < anchored { Err(LedgerError::Short { path: path(), lines, anchored }) } else { Ok(()) }
    }
}

impl Transaction<'_> {
    /// What the ledger says, with the entries of this transaction.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.ledger.records
    }

    /// Adds an entry; it is on the disk after [`Transaction::commit`].
    ///
    /// # Errors
    /// [`LedgerError::Entry`]: it contradicts the ledger.
    pub fn add(&mut self, at: UnixTime, entry: Entry) -> Result<(), LedgerError> {
        let number = self.ledger.records.lines() + 1;
        let text = Line::write(number, at, &entry, self.ledger.head).map_err(|_| LedgerError::Entry)?;
        if text.len() > LINE_MAX {
            return Err(LedgerError::Entry);
        }
        self.ledger.records.apply(at, &entry).map_err(|_| LedgerError::Entry)?;
        self.ledger.stale = true;
        self.ledger.head = Digest::of(text.as_bytes());
        self.lines.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Whether there is anything to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes all entries with one sync, then how far the ledger reaches now, and ends the transaction.
    ///
    /// # Errors
    /// [`LedgerError::File`], [`LedgerError::Anchor`]; nothing may be answered then.
    pub fn commit(mut self) -> Result<(), LedgerError> {
        self.write()?;
        let anchor = Anchor { lines: self.ledger.records.lines(), head: self.ledger.head };
        if self.ledger.anchor != anchor {
            anchor.write(self.dir)?;
            self.ledger.anchor = anchor;
        }
        Ok(())
    }

    /// Writes what was added so far, and goes on: whatever rests on it comes after [`Transaction::commit`] all the same.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn flush(&mut self) -> Result<(), LedgerError> {
        self.write()
    }

    fn write(&mut self) -> Result<(), LedgerError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.file.append(&self.lines).map_err(LedgerError::File)?;
        self.file.sync().map_err(LedgerError::File)?;
        self.lines.clear();
        self.ledger.offset = self.file.len();
        self.ledger.stale = false;
        Ok(())
    }
}

fn open(dir: &PrivateDir) -> Result<AppendFile, LedgerError> {
    AppendFile::open(dir, &crate::files::file(NAME), MODE).map_err(LedgerError::File)
}

fn lock(dir: &PrivateDir) -> Result<LedgerLock, LedgerError> {
    let file = open(dir)?;
    match file.lock_exclusive() {
        Ok(lock) => Ok(LedgerLock { _lock: lock, _file: file }),
        Err(AppendError::Locked { .. }) => Err(LedgerError::Busy),
        Err(error) => Err(LedgerError::File(error)),
    }
}

/// Opening makes the file when it is not there: a lost ledger must not come back empty.
fn must_exist(dir: &PrivateDir) -> Result<(), LedgerError> {
    let name = crate::files::file(NAME);
    match dir.exists(&name).map_err(LedgerError::Dir)? {
        true => Ok(()),
        false => Err(LedgerError::Lost { path: dir.path_of(&name) }),
    }
}

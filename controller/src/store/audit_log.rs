//! `audit/audit.jsonl`: who changed or ordered what (design.md O6), in the form of `lucia_proto::audit`.
//!
//! Lines are only added. The whole file is read and its chain checked at the start. A last line that a crash cut off was
//! never answered on, since answers leave after their line is on the disk: it is dropped, and a line says so. Any other
//! damage stops the start.

use std::path::PathBuf;

use lucia_durable::{AppendError, AppendFile, DirError, PrivateDir};
use lucia_proto::audit::{AuditAction, AuditActor, AuditChain, AuditEntry, AuditError, AuditNote};
use lucia_proto::limits::AUDIT_LINE_MAX;
use lucia_proto::time::UnixTime;
use thiserror::Error;

use super::layout::{Layout, LayoutError, name};
use crate::config::Config;

/// The file.
const FILE: &str = "audit.jsonl";
const MODE: u32 = 0o600;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// The place of every so many lines is remembered, so that a page is found without reading all of them.
const STRIDE: u64 = 256;

/// Why the audit cannot be read or written.
#[derive(Debug, Error)]
pub enum AuditLogError {
    /// The directory.
    #[error("the directory of the audit cannot be used")]
    Layout(#[source] LayoutError),
    /// The directory cannot be looked at.
    #[error("the directory of the audit cannot be looked at")]
    Dir(#[source] DirError),
    /// It is not there.
    #[error("{path} is not there: nothing was ever recorded, or somebody took it away")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It cannot be opened, read or added to.
    #[error("the audit cannot be used")]
    File(#[source] AppendError),
    /// An earlier failure left open what is on the disk.
    #[error("nothing is changed after an earlier error of the audit's disk; look at it (dmesg), then restart")]
    Stopped,
    /// It is no longer what was written.
    #[error(
        "{path} is not what was written; keep it as evidence: move it away, then a new one begins, or restore it from a \
         backup (`lucia-controller audit verify` says the same)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        #[source]
        source: AuditError,
    },
    /// An entry cannot be made a line.
    #[error("an entry of the audit cannot be written")]
    Entry(#[source] AuditError),
    /// A file name of ours is refused.
    #[error("the file of the audit has no name")]
    Name(#[source] LayoutError),
}

/// The open log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: AppendFile,
    chain: AuditChain,
    /// Where line 1, line `STRIDE + 1` and so on begin.
    places: Vec<u64>,
    /// What could not be written yet: it is written before anything else.
    waiting: Vec<AuditNote>,
    /// Set by a failure after which nobody knows what the disk holds.
    broken: bool,
}

/// What `audit verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// The file.
    pub path: PathBuf,
    /// How far its chain is whole.
    pub chain: AuditChain,
    /// Bytes of a last line that is being written, or was cut off by a crash.
    pub torn: u64,
}

impl AuditLog {
    /// Opens the log, made if it is not there, and reads all of it.
    pub(crate) fn open(dir: &PrivateDir, now: UnixTime) -> Result<Self, AuditLogError> {
        let file_name = name(FILE).map_err(AuditLogError::Name)?;
        let file = AppendFile::open(dir, &file_name, MODE).map_err(AuditLogError::File)?;
        let (chain, places) = read(&file, dir.path_of(&file_name))?;
        let mut log = Self { chain, places, waiting: Vec::new(), broken: false, file };
        if log.file.torn_tail() > 0 {
            let bytes = log.file.truncate_torn_tail().map_err(AuditLogError::File)?;
            tracing::warn!(
                bytes,
                "the last line of the audit was cut off by a crash and is dropped; nothing was answered on it"
            );
            log.waiting.push(AuditNote {
                at: now,
                actor: AuditActor::Controller,
                from: None,
                action: AuditAction::TornLineDropped,
                node: None,
                intent: None,
                refused: None,
                intent_refused: None,
            });
            log.record(Vec::new())?;
        }
        Ok(log)
    }

    /// How far it reaches.
    pub(crate) const fn chain(&self) -> AuditChain {
        self.chain
    }

    /// Adds lines, after those that wait, with one wait for the disk. What cannot be written waits.
    pub(crate) fn record(&mut self, notes: Vec<AuditNote>) -> Result<(), AuditLogError> {
        self.waiting.extend(notes);
        if self.broken {
            return Err(AuditLogError::Stopped);
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (mut chain, mut text, mut places) = (self.chain, String::new(), Vec::new());
        for note in &self.waiting {
            if chain.entries.is_multiple_of(STRIDE) {
                places.push(self.file.len().saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX)));
            }
            text.push_str(&chain.add(note.clone()).map_err(AuditLogError::Entry)?);
        }
        if let Err(error) = self.file.append(text.as_bytes()) {
            self.broken = !matches!(error, AppendError::Full { .. });
            return Err(AuditLogError::File(error));
        }
        // Its place is taken, whatever the disk makes of it: a line is never written twice.
        self.waiting.clear();
        self.chain = chain;
        self.places.extend(places);
        self.file.sync().map_err(|error| {
            self.broken = true;
            AuditLogError::File(error)
        })
    }

    /// At most `limit` entries with a number over `after`.
    pub(crate) fn read(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, AuditLogError> {
        if after >= self.chain.entries {
            return Ok(Vec::new());
        }
        let at = usize::try_from(after / STRIDE).unwrap_or(usize::MAX);
        let mut offset = self.places.get(at).copied().unwrap_or(0);
        let mut number = (after / STRIDE) * STRIDE;
        let mut entries = Vec::new();
        while entries.len() < limit {
            let bytes = self.file.read_from(offset, CHUNK).map_err(AuditLogError::File)?;
            if bytes.is_empty() {
                break;
            }
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                number += 1;
                if number > after && entries.len() < limit {
                    // The chain was checked at the start; a line that was changed since is seen here.
                    let entry =
                        lucia_proto::json::from_slice(line, AUDIT_LINE_MAX, lucia_proto::limits::JSON_DEPTH_MAX)
                            .map_err(|source| AuditLogError::Entry(AuditError::Line { number, source }))?;
                    entries.push(entry);
                }
            }
            offset = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        Ok(entries)
    }
}

/// Reads the whole file and checks its chain.
fn read(file: &AppendFile, path: PathBuf) -> Result<(AuditChain, Vec<u64>), AuditLogError> {
    let (mut chain, mut places, mut offset) = (AuditChain::default(), Vec::new(), 0_u64);
    loop {
        let bytes = file.read_from(offset, CHUNK).map_err(AuditLogError::File)?;
        if bytes.is_empty() {
            return Ok((chain, places));
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if chain.entries.is_multiple_of(STRIDE) {
                places.push(offset);
            }
            if let Err(source) = chain.follow(line) {
                return Err(AuditLogError::Damaged { path, source });
            }
            offset = offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        }
    }
}

/// Reads the audit of a controller, running or not, and changes nothing in it.
///
/// # Errors
/// See [`AuditLogError`].
pub fn verify_audit(config: &Config) -> Result<AuditReport, AuditLogError> {
    let dir = Layout::audit(config).map_err(AuditLogError::Layout)?;
    let file_name = name(FILE).map_err(AuditLogError::Name)?;
    let path = dir.path_of(&file_name);
    if !dir.exists(&file_name).map_err(AuditLogError::Dir)? {
        return Err(AuditLogError::Missing { path });
    }
    let file = AppendFile::open(&dir, &file_name, MODE).map_err(AuditLogError::File)?;
    let (chain, _) = read(&file, path.clone())?;
    Ok(AuditReport { path, chain, torn: file.torn_tail() })
}

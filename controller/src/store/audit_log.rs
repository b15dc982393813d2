//! `audit/audit.jsonl` and what follows it: who changed or ordered what (design.md O6), in the form of `lucia_people::audit`.
//!
//! Lines are only added. A file that has its size is left as it is, and the next one goes on with the chain: its name has
//! the number of its first line, and that line the hash of the last one before. No file is renamed, and none deleted: who
//! could make the audit forget by filling it would do that first. `luciactl status` and the metrics say how large it is.
//!
//! All of it is read and its chain checked at the start. A last line that a crash cut off was never answered on, since
//! answers leave after their line is on the disk: it is dropped, and a line says so. Any other damage stops the start.

use std::path::PathBuf;

use lucia_durable::{AppendError, AppendFile, DirError, FileName, PrivateDir};
use lucia_people::audit::AuditError;
use lucia_people::audit::{AuditActor, AuditEntry};
use lucia_proto::base::acts::Act;
use lucia_proto::base::limits::{AUDIT_FILE_MAX, AUDIT_FILES_MAX, AUDIT_LINE_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::audit_chain::AuditChain;
use thiserror::Error;

use super::layout::{Layout, LayoutError, name};
use crate::config::Config;

/// The first file.
const FIRST: &str = "audit.jsonl";
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
        "{path} is not what was written; keep it as evidence: move it away, and every file of the audit beside it, then a \
         new one begins, or restore it from a backup (`lucia-controller audit verify` says the same)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which line, and what is wrong with it.
        #[source]
        source: AuditError,
    },
    /// A file between two others is gone, or was renamed.
    #[error(
        "{path} goes on after line {found}, and the files before it end with line {whole}: one was taken away, cut or \
         renamed; put it back from a backup, or keep all as evidence: move every file of the audit away, then a new one begins"
    )]
    Gap {
        /// The file after the gap.
        path: PathBuf,
        /// The line that it follows, by its name.
        found: u64,
        /// The last line before it that is there.
        whole: u64,
    },
    /// More files than are read.
    #[error("{path} holds more files than an audit has; move away what is none of it")]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
    /// An entry cannot be made a line.
    #[error("an entry of the audit cannot be written")]
    Entry(#[source] AuditError),
    /// A file name of ours is refused.
    #[error("the file of the audit has no name")]
    Name(#[source] LayoutError),
}

/// One file of it.
#[derive(Debug)]
struct Part {
    file: AppendFile,
    path: PathBuf,
    /// Lines before its first.
    before: u64,
    /// Where its first line, and every [`STRIDE`]th after it, begins.
    places: Vec<u64>,
}

/// The open log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    dir: PrivateDir,
    /// In their order; lines are added to the last.
    parts: Vec<Part>,
    chain: AuditChain,
    /// A file of so many bytes is full.
    file_max: u64,
    /// What could not be written yet: it is written before anything else.
    waiting: Vec<AuditEntry>,
    /// Set by a failure after which nobody knows what the disk holds.
    broken: bool,
}

/// What `audit verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// The last file.
    pub path: PathBuf,
    /// How many there are.
    pub files: usize,
    /// Bytes of all whole lines.
    pub bytes: u64,
    /// How far its chain is whole.
    pub chain: AuditChain,
    /// Bytes of a last line that is being written, or was cut off by a crash.
    pub torn: u64,
}

impl AuditLog {
    /// Opens the log, made if it is not there, and reads all of it.
    pub(crate) fn open(dir: PrivateDir, now: UnixTime) -> Result<Self, AuditLogError> {
        let mut parts = Vec::new();
        let chain = read(&dir, &names(&dir)?, &mut parts)?;
        let file_max = u64::try_from(AUDIT_FILE_MAX).unwrap_or(u64::MAX);
        let mut log = Self { dir, parts, chain, file_max, waiting: Vec::new(), broken: false };
        if log.parts.is_empty() {
            log.begin_file()?;
        }
        let Some(last) = log.parts.last_mut().filter(|part| part.file.torn_tail() > 0) else { return Ok(log) };
        let bytes = last.file.truncate_torn_tail().map_err(AuditLogError::File)?;
        tracing::warn!(
            bytes,
            "the last line of the audit was cut off by a crash and is dropped; nothing was answered on it"
        );
        log.record(vec![AuditEntry::new(now, AuditActor::Controller, Act::TornLineDropped)])?;
        Ok(log)
    }

    /// How far it reaches.
    pub(crate) const fn chain(&self) -> AuditChain {
        self.chain
    }

    /// Bytes of all of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.file.len()).sum()
    }

    #[cfg(test)]
    pub(crate) const fn set_file_max(&mut self, bytes: u64) {
        self.file_max = bytes;
    }

    /// Makes the next file, to which lines are added from then on. One that a crash left empty is that file.
    fn begin_file(&mut self) -> Result<&mut Part, AuditLogError> {
        let before = self.chain.entries;
        let name = file_after(before)?;
        let file = AppendFile::open(&self.dir, &name, MODE).map_err(AuditLogError::File)?;
        self.parts.push(Part { file, path: self.dir.path_of(&name), before, places: Vec::new() });
        self.parts.last_mut().ok_or(AuditLogError::Stopped)
    }

    /// Adds lines, after those that wait, with one wait for the disk. What cannot be written waits.
    pub(crate) fn record(&mut self, notes: Vec<AuditEntry>) -> Result<(), AuditLogError> {
        self.waiting.extend(notes);
        if self.broken {
            return Err(AuditLogError::Stopped);
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        if self.parts.last().is_none_or(|part| part.file.len() >= self.file_max) {
            self.begin_file()?;
        }
        let part = self.parts.last_mut().ok_or(AuditLogError::Stopped)?;
        let (mut chain, mut text, mut places) = (self.chain, String::new(), Vec::new());
        for note in &self.waiting {
            if chain.entries.saturating_sub(part.before).is_multiple_of(STRIDE) {
                places.push(part.file.len().saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX)));
            }
            text.push_str(&lucia_people::audit::add(&mut chain, note.clone()).map_err(AuditLogError::Entry)?);
        }
        if let Err(error) = part.file.append(text.as_bytes()) {
            self.broken = !matches!(error, AppendError::Full { .. });
            return Err(AuditLogError::File(error));
        }
        // Its place is taken, whatever the disk makes of it: a line is never written twice.
        self.waiting.clear();
        self.chain = chain;
        part.places.extend(places);
        part.file.sync().map_err(|error| {
            self.broken = true;
            AuditLogError::File(error)
        })
    }

    /// At most `limit` entries with a number over `after`.
    pub(crate) fn read(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, AuditLogError> {
        let mut entries = Vec::new();
        let first = self.parts.partition_point(|part| part.before <= after).saturating_sub(1);
        for part in self.parts.iter().skip(first) {
            part.read(after, limit, &mut entries)?;
        }
        Ok(entries)
    }
}

impl Part {
    fn read(&self, after: u64, limit: usize, entries: &mut Vec<AuditEntry>) -> Result<(), AuditLogError> {
        let skipped = after.saturating_sub(self.before) / STRIDE;
        let place = usize::try_from(skipped).ok().and_then(|at| self.places.get(at));
        let Some(mut offset) = place.copied() else { return Ok(()) };
        let mut number = self.before + skipped * STRIDE;
        while entries.len() < limit {
            let bytes = self.file.read_from(offset, CHUNK).map_err(AuditLogError::File)?;
            if bytes.is_empty() {
                break;
            }
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                number += 1;
                if number > after && entries.len() < limit {
                    // The chain was checked at the start; a line that was changed since is seen here.
                    let entry = lucia_proto::base::json::from_slice(
                        line,
                        AUDIT_LINE_MAX,
                        lucia_proto::base::limits::JSON_DEPTH_MAX,
                    )
                    .map_err(|source| AuditLogError::Entry(AuditError::Line { number, source }))?;
                    entries.push(entry);
                }
            }
            offset = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// The file whose first line comes after so many.
fn file_after(lines: u64) -> Result<FileName, AuditLogError> {
    let text = if lines == 0 { FIRST.to_owned() } else { format!("audit-{:020}.jsonl", lines + 1) };
    name(&text).map_err(AuditLogError::Name)
}

/// How many lines come before those of this file; nothing for what is none of ours.
fn lines_before(file: &FileName) -> Option<u64> {
    if file.as_str() == FIRST {
        return Some(0);
    }
    let digits = file.as_str().strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    let is_ours = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|first| is_ours && *first > 1).map(|first| first - 1)
}

/// The files there are, in their order.
fn names(dir: &PrivateDir) -> Result<Vec<(u64, FileName)>, AuditLogError> {
    let listing = dir.list(AUDIT_FILES_MAX).map_err(AuditLogError::Dir)?;
    if !listing.complete {
        return Err(AuditLogError::TooMany { path: dir.path().to_owned() });
    }
    let mut names: Vec<_> = listing.names.into_iter().filter_map(|name| Some((lines_before(&name)?, name))).collect();
    names.sort();
    Ok(names)
}

/// Reads all files whole and checks the chain through them.
fn read(dir: &PrivateDir, names: &[(u64, FileName)], parts: &mut Vec<Part>) -> Result<AuditChain, AuditLogError> {
    let mut chain = AuditChain::default();
    for (at, (before, name)) in names.iter().enumerate() {
        let path = dir.path_of(name);
        if *before != chain.entries {
            return Err(AuditLogError::Gap { path, found: *before, whole: chain.entries });
        }
        let file = AppendFile::open(dir, name, MODE).map_err(AuditLogError::File)?;
        let mut part = Part { file, path, before: *before, places: Vec::new() };
        part.follow(&mut chain)?;
        // Only the last one is being written.
        if part.file.torn_tail() > 0 && at + 1 < names.len() {
            let source = AuditError::Cut { number: chain.entries };
            return Err(AuditLogError::Damaged { path: part.path, source });
        }
        parts.push(part);
    }
    Ok(chain)
}

impl Part {
    fn follow(&mut self, chain: &mut AuditChain) -> Result<(), AuditLogError> {
        let mut offset = 0_u64;
        loop {
            let bytes = self.file.read_from(offset, CHUNK).map_err(AuditLogError::File)?;
            if bytes.is_empty() {
                return Ok(());
            }
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if chain.entries.saturating_sub(self.before).is_multiple_of(STRIDE) {
                    self.places.push(offset);
                }
                if let Err(source) = lucia_people::audit::follow(chain, line) {
                    return Err(AuditLogError::Damaged { path: self.path.clone(), source });
                }
                offset = offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            }
        }
    }
}

/// Reads the audit of a controller, running or not, and changes nothing in it.
///
/// # Errors
/// See [`AuditLogError`].
pub fn verify_audit(config: &Config) -> Result<AuditReport, AuditLogError> {
    let dir = Layout::audit(config).map_err(AuditLogError::Layout)?;
    let mut parts = Vec::new();
    let chain = read(&dir, &names(&dir)?, &mut parts)?;
    let (files, bytes) = (parts.len(), parts.iter().map(|part| part.file.len()).sum());
    let last = parts.pop().ok_or_else(|| AuditLogError::Missing { path: dir.path().join(FIRST) })?;
    Ok(AuditReport { path: last.path, files, bytes, chain, torn: last.file.torn_tail() })
}

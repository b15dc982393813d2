//! A file to which lines are only ever added: the worker's ledger, the events.
//!
//! A crash can leave the last line without its end. That is seen at the next open, and nothing is added until the caller
//! cuts it off in so many words: a line glued to half of another would spoil both.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};

use crate::crash_point::{Crashed, Stop, step, write_step};
use crate::replace::{is_full, stopped};
use crate::{FileName, FileRules, Owner, PrivateDir, ReadError, WriteError};

/// Bytes read at a time while looking for the last line's end.
const BLOCK: usize = 4096;

/// An open file of lines, each ended by `\n`.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    path: PathBuf,
    /// Bytes up to and with the last `\n`.
    whole: u64,
    /// Bytes after it.
    torn: u64,
    /// Set by a failure after which the disk and we may differ; nothing is added from then on.
    stopped: bool,
}

/// Held while one process alone may add lines; ends when dropped.
#[derive(Debug)]
pub struct AppendLock {
    file: File,
}

/// Why lines could not be added or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// It is there but cannot be used.
    #[error("cannot open {path} to add lines")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why, with the cure.
        #[source]
        source: ReadError,
    },
    /// It could not be made.
    #[error("cannot make {path}")]
    NotMade {
        /// Which file.
        path: PathBuf,
        /// Why, with the cure.
        #[source]
        source: WriteError,
    },
    /// Another process holds its lock.
    #[error("{path} is in use by another process; stop that one first (`fuser -v {path}` names it)")]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// Its last line has no end.
    #[error("the last line of {path} was cut off by a crash after byte {whole}; check what it says, then drop it")]
    Torn {
        /// Which file.
        path: PathBuf,
        /// Bytes of whole lines before it.
        whole: u64,
    },
    /// What is to be added is empty or does not end with `\n`.
    #[error("{path} takes whole lines only, nothing was added; this is a mistake in the program, report it")]
    NotALine {
        /// Which file.
        path: PathBuf,
    },
    /// One line is longer than the caller takes.
    #[error("the line at byte {offset} of {path} has over {max} bytes, which no program of ours writes")]
    LineTooLong {
        /// Which file.
        path: PathBuf,
        /// Where the line begins.
        offset: u64,
        /// Bytes the caller takes.
        max: usize,
    },
    /// No space or quota left; what was there stands, nothing was added.
    #[error("no space left to add to {path}, nothing was added; free space on its disk, nothing else is needed")]
    Full {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system said no.
    #[error("cannot {doing} {path}; check its disk (dmesg), then restart this program")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An earlier failure left open what is on the disk.
    #[error("nothing more is added to {path} after an earlier error of its disk; check it (dmesg), then restart")]
    Stopped {
        /// Which file.
        path: PathBuf,
    },
    /// A test stopped the program.
    #[error("stopped while adding to {path}; only tests do this")]
    Crashed {
        /// Which file.
        path: PathBuf,
        /// At which step.
        #[source]
        crashed: Crashed,
    },
}

impl AppendFile {
    /// Opens the file, made with exactly this mode if it is not there; one that is there must be ours, have one name and
    /// be no more open.
    ///
    /// # Errors
    /// [`AppendError::Unusable`], [`AppendError::NotMade`], [`AppendError::Failed`].
    pub fn open(dir: &PrivateDir, name: &FileName, mode: u32) -> Result<Self, AppendError> {
        let path = dir.path_of(name);
        let rules = FileRules { mode, owner: Owner::Us };
        let flags = OFlag::O_RDWR | OFlag::O_APPEND;
        let open = || {
            let unusable = |source| AppendError::Unusable { path: path.clone(), source };
            dir.open_checked(name, flags, rules).map_err(unusable)
        };
        let file = match open()? {
            Some(file) => file,
            None => {
                make(dir, name, mode, &path)?;
                let gone = || AppendError::Failed { doing: "open", path: path.clone(), source: Errno::ENOENT.into() };
                open()?.ok_or_else(gone)?
            }
        };
        // Always: the process that made it may have died before the directory was synced.
        dir.sync_entries("append/dir-sync", &path)
            .map_err(|source| AppendError::NotMade { path: path.clone(), source })?;
        let (whole, torn) =
            measure(&file).map_err(|source| AppendError::Failed { doing: "read", path: path.clone(), source })?;
        Ok(Self { file, path, whole, torn, stopped: false })
    }

    /// Bytes of all whole lines.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.whole
    }

    /// Whether there is no whole line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole == 0
    }

    /// Bytes after the last whole line, which a crash left; 0 in the ordinary case.
    #[must_use]
    pub fn torn_tail(&self) -> u64 {
        self.torn
    }

    /// Cuts a torn last line off, for good; says how many bytes it had.
    ///
    /// # Errors
    /// [`AppendError::Failed`], after which nothing is added any more.
    pub fn truncate_torn_tail(&mut self) -> Result<u64, AppendError> {
        self.going()?;
        if self.torn > 0 {
            let whole = self.whole;
            self.act("append/cut", "cut", |file| file.set_len(whole))?;
            self.act("append/cut-sync", "sync", File::sync_all)?;
        }
        Ok(std::mem::take(&mut self.torn))
    }

    /// Adds one or more whole lines; they survive a power cut only after [`AppendFile::sync`].
    ///
    /// # Errors
    /// [`AppendError::Full`] and [`AppendError::Failed`] leave no part of them behind; [`AppendError::Torn`],
    /// [`AppendError::NotALine`], [`AppendError::Stopped`] add nothing.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        self.going()?;
        if self.torn > 0 {
            return Err(AppendError::Torn { path: self.path.clone(), whole: self.whole });
        }
        if lines.last() != Some(&b'\n') {
            return Err(AppendError::NotALine { path: self.path.clone() });
        }
        match write_step("append/write", "append/half-written", &self.path, &mut self.file, lines) {
            Ok(()) => {
                self.whole += u64::try_from(lines.len()).unwrap_or(u64::MAX);
                Ok(())
            }
            Err(stop) => {
                if let Stop::Failed(_) = stop {
                    // What was written of them goes again; if even that fails, the next open sees a torn line.
                    self.stopped = self.file.set_len(self.whole).is_err();
                }
                Err(match stop {
                    Stop::Failed(source) if is_full(&source) => AppendError::Full { path: self.path.clone(), source },
                    stop => self.stop("add to", stop),
                })
            }
        }
    }

    /// Makes all lines added so far survive a power cut.
    ///
    /// # Errors
    /// [`AppendError::Failed`], after which nothing is added any more: what the disk has is open.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        self.going()?;
        self.act("append/sync", "sync", File::sync_data)?;
        self.act("append/done", "finish", |_| Ok(()))
    }

    /// Whole lines from byte `offset` on, `max` bytes at most; empty at the end. Go on at `offset` plus their length.
    ///
    /// # Errors
    /// [`AppendError::LineTooLong`] when not one line fits, [`AppendError::Failed`] when it cannot be read.
    pub fn read_from(&self, offset: u64, max: usize) -> Result<Vec<u8>, AppendError> {
        let left = usize::try_from(self.whole.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(max)];
        self.file.read_exact_at(&mut bytes, offset).map_err(|source| AppendError::Failed {
            doing: "read",
            path: self.path.clone(),
            source,
        })?;
        let lines = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        if lines == 0 && left > 0 {
            return Err(AppendError::LineTooLong { path: self.path.clone(), offset, max });
        }
        bytes.truncate(lines);
        Ok(bytes)
    }

    /// Takes the file's lock, or says at once that another has it.
    ///
    /// # Errors
    /// [`AppendError::Locked`], [`AppendError::Failed`].
    pub fn lock_exclusive(&self) -> Result<AppendLock, AppendError> {
        let failed = |source| AppendError::Failed { doing: "lock", path: self.path.clone(), source };
        match self.file.try_lock() {
            Ok(()) => Ok(AppendLock { file: self.file.try_clone().map_err(failed)? }),
            Err(std::fs::TryLockError::WouldBlock) => Err(AppendError::Locked { path: self.path.clone() }),
            Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    fn going(&self) -> Result<(), AppendError> {
        if self.stopped { Err(AppendError::Stopped { path: self.path.clone() }) } else { Ok(()) }
    }

    /// A step after whose failure the disk and we may differ.
    fn act(
        &mut self,
        name: &'static str,
        doing: &'static str,
        act: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), AppendError> {
        step(name, &self.path, || act(&self.file)).map_err(|stop| {
            self.stopped = true;
            self.stop(doing, stop)
        })
    }

    fn stop(&self, doing: &'static str, stop: Stop) -> AppendError {
        let path = self.path.clone();
        match stop {
            Stop::Crashed(crashed) => AppendError::Crashed { path, crashed },
            Stop::Failed(source) => AppendError::Failed { doing, path, source },
        }
    }
}

impl Drop for AppendLock {
    fn drop(&mut self) {
        // Closing the file would not do: the AppendFile shares its lock. An error leaves it locked until that one closes.
        let _ = self.file.unlock();
    }
}

/// Makes the file empty. No pending file, since empty is whole; one who came first made the file we then open.
fn make(dir: &PrivateDir, name: &FileName, mode: u32, path: &Path) -> Result<(), AppendError> {
    let mode = Mode::from_bits_truncate(mode);
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    step("append/make", path, || {
        let file = match dir.open_file(name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(err) => return Err(err),
        };
        fchmod(&file, mode)?;
        file.sync_all()
    })
    .map_err(|stop| AppendError::NotMade { path: path.to_owned(), source: stopped("create", path, stop) })
}

/// Bytes up to the last line's end, and bytes after it.
fn measure(file: &File) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
    let mut end = size;
    while end > 0 {
        let start = end.saturating_sub(block);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(BLOCK)];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(at) = bytes.iter().rposition(|b| *b == b'\n') {
            let whole = start + u64::try_from(at).unwrap_or(u64::MAX) + 1;
            return Ok((whole, size - whole));
        }
        end = start;
    }
    Ok((0, size))
}

#[cfg(test)]
mod tests;

//! Write beside, sync, rename, sync the directory: after any crash the former bytes or the new ones, whole.
//!
//! An error of `fsync` is never tried again and then called good: the kernel may have dropped the very pages that it could
//! not write, and a second call would say "fine" about nothing. Such an error ends the write, and should end the program.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::crash_point::{Crashed, Stop, step, write_step};
use crate::{DirError, FileName, PrivateDir};

/// How many pending files of one batch are open at once; well under the smallest usual limit of 1024 descriptors.
const OPEN_AT_ONCE: usize = 64;

/// How many of them are synced at once.
const SYNCED_AT_ONCE: usize = 16;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No space or quota left; the former file stands.
    #[error("no space left to write {path}, the former file stands; free space on its disk, nothing else is needed")]
    Full {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system said no; the former file stands.
    #[error("cannot {doing} {path}, the former file stands; check its disk (dmesg), mount and owner, then restart")]
    Failed {
        /// What was tried: `create`, `write`, `sync`, `rename`.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The new bytes are in place, but the directory could not be synced: a power cut may bring the former ones back.
    #[error("{path} is written but may not survive a power cut; check its disk (dmesg), then restart this program")]
    Unsure {
        /// Which file, or which directory when there were several.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// [`PrivateDir::create_new`] found something of that name; it stands.
    #[error("{path} is there already and is not overwritten; move it away first if it is really to be replaced")]
    AlreadyThere {
        /// Which file.
        path: PathBuf,
    },
    /// One batch names a file twice; nothing was written.
    #[error("{path} is named twice in one batch, nothing was written; this is a mistake in the program, report it")]
    Twice {
        /// Which file.
        path: PathBuf,
    },
    /// The guard of the directory refused: nothing was written.
    #[error("{path} is not written: this program no longer holds the state it belongs to")]
    NotHeld {
        /// Which file, or which directory when there were several.
        path: PathBuf,
        /// What the guard said.
        #[source]
        source: io::Error,
    },
    /// A test stopped the program.
    #[error("stopped while writing {path}; only tests do this")]
    Crashed {
        /// Which file.
        path: PathBuf,
        /// At which step.
        #[source]
        crashed: Crashed,
    },
}

impl WriteError {
    /// Whether something lay in the way, or the place takes nothing from this user: the disk failed at nothing, the former
    /// file stands, and others can still be written.
    #[must_use]
    pub fn is_in_the_way(&self) -> bool {
        let Self::Failed { source, .. } = self else { return false };
        let ways = [
            Errno::EISDIR,
            Errno::ENOTDIR,
            Errno::EEXIST,
            Errno::ENOTEMPTY,
            Errno::ENOENT,
            Errno::ELOOP,
            Errno::EACCES,
            Errno::EPERM,
            Errno::EROFS,
            Errno::EBUSY,
        ];
        source.raw_os_error().is_some_and(|code| ways.contains(&Errno::from_raw(code)))
    }
}

impl PrivateDir {
    /// Puts `bytes` in the place of whatever had this name, with exactly this mode (as 0o600).
    ///
    /// When it returns `Ok` the new bytes survive a power cut. After any error but [`WriteError::Unsure`] the former file
    /// stands untouched.
    ///
    /// # Errors
    /// Each [`WriteError`] but `AlreadyThere` and `Twice`.
    pub fn replace(&self, name: &FileName, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        let _one = self.one_writer();
        let path = self.path_of(name);
        self.held(&path)?;
        let staged = self.stage(name, bytes, mode).and_then(|file| {
            sync(&file, &path)?;
            step("replace/rename", &path, || self.rename(name)).map_err(|stop| stopped("rename", &path, stop))
        });
        staged.inspect_err(|err| self.discard(name, err))?;
        self.sync_entries("replace/dir-sync", &path)?;
        done("replace/done", &path)
    }

    /// Replaces several files with one wait for the disk at the end: all are written and synced beside, then all renamed,
    /// then the directory is synced once. Each file is then as after [`PrivateDir::replace`].
    ///
    /// A crash leaves each file whole, the first few new and the others former. An error before the renames changes none;
    /// one of a rename leaves the files before it new, so a caller repeats the whole batch.
    ///
    /// # Errors
    /// As [`PrivateDir::replace`], and [`WriteError::Twice`].
    pub fn replace_all<B: AsRef<[u8]>>(&self, files: &[(FileName, B)], mode: u32) -> Result<(), WriteError> {
        let mut names = BTreeSet::new();
        if let Some((name, _)) = files.iter().find(|(name, _)| !names.insert(name)) {
            return Err(WriteError::Twice { path: self.path_of(name) });
        }
        if files.is_empty() {
            return Ok(());
        }
        let _one = self.one_writer();
        self.held(self.path())?;
        let staged = files
            .chunks(OPEN_AT_ONCE)
            .try_for_each(|chunk| self.stage_chunk(chunk, mode))
            .and_then(|()| files.chunks(OPEN_AT_ONCE).try_for_each(|chunk| self.rename_chunk(chunk)));
        staged.inspect_err(|err| files.iter().for_each(|(name, _)| self.discard(name, err)))?;
        self.sync_entries("replace/dir-sync", self.path())?;
        done("replace/done", self.path())
    }

    /// Writes a file that must not be there yet, as a key: nothing is ever overwritten, whoever comes first.
    ///
    /// # Errors
    /// [`WriteError::AlreadyThere`] when anything has the name, and as [`PrivateDir::replace`].
    pub fn create_new(&self, name: &FileName, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        let _one = self.one_writer();
        let path = self.path_of(name);
        self.held(&path)?;
        if self.look(name).is_ok() {
            return Err(WriteError::AlreadyThere { path });
        }
        let staged = self.stage(name, bytes, mode).and_then(|file| {
            sync(&file, &path)?;
            step("create/rename", &path, || self.rename_if_free(name)).map_err(|stop| match stop {
                Stop::Failed(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                    WriteError::AlreadyThere { path: path.clone() }
                }
                stop => stopped("rename", &path, stop),
            })
        });
        staged.inspect_err(|err| self.discard(name, err))?;
        self.sync_entries("create/dir-sync", &path)?;
        done("create/done", &path)
    }

    /// Removes a file or link; says whether there was one. `Ok` means that it stays away after a power cut.
    ///
    /// # Errors
    /// [`WriteError::Failed`] when it stands, [`WriteError::Unsure`] when it may come back.
    pub fn remove(&self, name: &FileName) -> Result<bool, WriteError> {
        let path = self.path_of(name);
        self.held(&path)?;
        let was_there = step("remove/unlink", &path, || self.unlink(name.as_str()))
            .map_err(|stop| stopped("remove", &path, stop))?;
        // Synced even when it was gone: an earlier removal may have died before its own sync.
        self.sync_entries("remove/dir-sync", &path)?;
        done("remove/done", &path)?;
        Ok(was_there)
    }

    /// Removes pending files that a crash left, looking at `max` entries at most; says how many. For the start of a
    /// program that holds the lease of the directory.
    ///
    /// # Errors
    /// [`WriteError::Failed`] when one cannot be removed.
    pub fn remove_leftovers(&self, max: usize) -> Result<usize, WriteError> {
        let _one = self.one_writer();
        let mut leftovers = Vec::new();
        self.each_entry(max, |entry| {
            leftovers.extend(entry.filter(|entry| FileName::is_pending(entry)).map(str::to_owned));
        })
        .map_err(|err| stopped("list", self.path(), Stop::Failed(source_of(err))))?;
        for entry in &leftovers {
            let path = self.path().join(entry);
            step("leftover/unlink", &path, || self.unlink(entry)).map_err(|stop| stopped("remove", &path, stop))?;
        }
        Ok(leftovers.len())
    }

    fn held(&self, path: &Path) -> Result<(), WriteError> {
        self.may_write().map_err(|source| WriteError::NotHeld { path: path.to_owned(), source })
    }

    /// Writes the pending file of `name`, not yet synced. The caller holds [`PrivateDir::one_writer`].
    pub(crate) fn stage(&self, name: &FileName, bytes: &[u8], mode: u32) -> Result<File, WriteError> {
        let path = self.path_of(name);
        let pending = name.pending();
        step("replace/clear", &path, || self.unlink(&pending)).map_err(|stop| stopped("clear", &path, stop))?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = step("replace/create", &path, || self.open_file(&pending, flags, Mode::S_IRUSR | Mode::S_IWUSR))
            .map_err(|stop| stopped("create", &path, stop))?;
        write_step("replace/write", "replace/half-written", &path, &mut file, bytes)
            .map_err(|stop| stopped("write", &path, stop))?;
        // Set last and on the descriptor: the umask has no say, and nobody reads half a file.
        step("replace/mode", &path, || Ok(fchmod(&file, Mode::from_bits_truncate(mode))?))
            .map_err(|stop| stopped("set the mode of", &path, stop))?;
        Ok(file)
    }

    /// All written before the first is synced, so that the disk's journal takes them in one go.
    fn stage_chunk<B: AsRef<[u8]>>(&self, chunk: &[(FileName, B)], mode: u32) -> Result<(), WriteError> {
        let mut open = Vec::with_capacity(chunk.len());
        for (name, bytes) in chunk {
            open.push((self.stage(name, bytes.as_ref(), mode)?, self.path_of(name)));
        }
        sync_together(&open)
    }

    /// The former files are held open until all names are moved: giving the space of a file back takes milliseconds on
    /// ext4, and a rename over its last use would wait for that, one after the other.
    fn rename_chunk<B>(&self, chunk: &[(FileName, B)]) -> Result<(), WriteError> {
        let hold = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let formers = chunk.iter().filter_map(|(name, _)| openat(self.fd(), name.as_str(), hold, Mode::empty()).ok());
        let formers: Vec<OwnedFd> = formers.collect();
        let renamed = chunk.iter().try_for_each(|(name, _)| {
            let path = self.path_of(name);
            step("replace/rename", &path, || self.rename(name)).map_err(|stop| stopped("rename", &path, stop))
        });
        close_together(formers);
        renamed
    }

    /// Puts the pending file in the place of `name`.
    pub(crate) fn rename(&self, name: &FileName) -> io::Result<()> {
        Ok(renameat(self.fd(), name.pending().as_str(), self.fd(), name.as_str())?)
    }

    /// By the kernel's own no-replace: a hard link would do it too, but a crash would leave the file with two names.
    fn rename_if_free(&self, name: &FileName) -> io::Result<()> {
        let flags = RenameFlags::RENAME_NOREPLACE;
        Ok(renameat2(self.fd(), name.pending().as_str(), self.fd(), name.as_str(), flags)?)
    }

    /// Makes a rename or removal survive; an error of it leaves the outcome open.
    pub(crate) fn sync_entries(&self, name: &'static str, path: &Path) -> Result<(), WriteError> {
        step(name, path, || self.fd().sync_all()).map_err(|stop| match stop {
            Stop::Failed(source) => WriteError::Unsure { path: path.to_owned(), source },
            stop @ Stop::Crashed(_) => stopped("sync", path, stop),
        })
    }

    fn unlink(&self, entry: &str) -> io::Result<bool> {
        match unlinkat(self.fd(), entry, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the space of a failed write back at once; a dead program cannot, so the next write does.
    pub(crate) fn discard(&self, name: &FileName, err: &WriteError) {
        if !matches!(err, WriteError::Crashed { .. }) {
            // It failed already; a pending file that cannot be removed changes nothing, and the next write says so.
            let _ = self.unlink(&name.pending());
        }
    }
}

pub(crate) fn sync(file: &File, path: &Path) -> Result<(), WriteError> {
    step("replace/sync", path, || file.sync_all()).map_err(|stop| stopped("sync", path, stop))
}

/// Syncs several files from a few threads at once: the disk's journal then writes many of them in one go, where one after
/// the other each would wait for a write of its own (measured: three to four times as fast).
fn sync_together(files: &[(File, PathBuf)]) -> Result<(), WriteError> {
    let share = files.len().div_ceil(SYNCED_AT_ONCE).max(1);
    if files.len() <= share {
        return files.iter().try_for_each(|(file, path)| sync(file, path));
    }
    let sync_some = |some: &[(File, PathBuf)]| some.iter().try_for_each(|(file, path)| sync(file, path));
    std::thread::scope(|scope| {
        let start = |some| match Builder::new().spawn_scoped(scope, move || sync_some(some)) {
            Ok(thread) => Ok(thread),
            // No thread to be had: slower, and just as good.
            Err(_) => Err(sync_some(some)),
        };
        let started: Vec<_> = files.chunks(share).map(start).collect();
        // Every thread is waited for, also after a failure, so that none outlives the answer.
        let end = |one: Result<ScopedJoinHandle<'_, _>, _>| match one {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(done) => done,
        };
        let ended: Vec<_> = started.into_iter().map(end).collect();
        ended.into_iter().collect()
    })
}

/// Closes files from a few threads at once, for the same reason.
fn close_together(files: Vec<OwnedFd>) {
    let threads = files.len().min(SYNCED_AT_ONCE);
    let left = Mutex::new(files);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // Without a thread they are closed all the same, with the list itself.
            let _ = Builder::new().spawn_scoped(scope, || while next().is_some() {});
        }
    });
}

fn done(name: &'static str, path: &Path) -> Result<(), WriteError> {
    step(name, path, || Ok(())).map_err(|stop| stopped("finish", path, stop))
}

pub(crate) fn stopped(doing: &'static str, path: &Path, stop: Stop) -> WriteError {
    let path = path.to_owned();
    match stop {
        Stop::Crashed(crashed) => WriteError::Crashed { path, crashed },
        Stop::Failed(source) if is_full(&source) => WriteError::Full { path, source },
        Stop::Failed(source) => WriteError::Failed { doing, path, source },
    }
}

pub(crate) fn is_full(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn source_of(err: DirError) -> io::Error {
    match err {
        DirError::Failed { source, .. } => source,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;

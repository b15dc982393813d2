//! One writer at a time on a directory: a lock that the kernel drops with its holder, in a file that also remembers
//! whether state was ever written beside it.
//!
//! The lease file has two lines. The first says where the directory stands: `starting` until the caller has written its
//! first state and said so by [`Lease::confirm`], then the caller's marker for ever. The second names who held it last.
//! So a caller can tell a first start (`Absent` or `Starting`, no state) and a first start that a crash cut short
//! (`Starting`, state whole) from lost state (`Present`, no state) and state brought from elsewhere (`Absent`, state): the
//! last two are for an operator, never to be "repaired" by starting empty.
//!
//! What the marker cannot tell lies between the first state and the confirmation: state lost or brought from elsewhere in
//! that moment looks like a first start. So nobody may have seen the state by then. Whoever finds `Starting` beside whole
//! state confirms before anything is answered, signed or shown.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::crash_point::{Crashed, Stop, step};
use crate::read::read_capped;
use crate::replace::{stopped, sync};
use crate::{FileName, FileRules, PrivateDir, ReadError, WriteError};

/// The first line until [`Lease::confirm`].
const STARTING: &[u8] = b"starting";

/// Longest marker and longest holder line, in bytes.
const MAX_LINE: usize = 200;

/// Most bytes a lease file can have: two lines with their ends.
const MAX_FILE: u64 = 402;

/// How often a lease file that is replaced while we open it is opened anew.
const TRIES: usize = 3;

/// A held lease; ends with this value or with the process, however that ends.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
    name: FileName,
    marker: Vec<u8>,
    holder: String,
    found: Marker,
}

/// What the lease file said before it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// There was no lease file.
    Absent,
    /// Taken before, never confirmed: a first start that did not get through, or one whose caller never confirms.
    Starting,
    /// Confirmed: state was written beside it.
    Present,
}

/// Why the lease was not taken or confirmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another process has it.
    #[error("{path} is held by {holder}; only one may write here: stop that one, or start this one elsewhere")]
    Held {
        /// The lease file.
        path: PathBuf,
        /// Who has it, by its own words; only printable ASCII.
        holder: String,
    },
    /// It was ours, and is so no longer: somebody removed the file, and perhaps another holds a new one.
    #[error(
        "{path} was taken away from this program while it held it; nothing more is written, another may be at work"
    )]
    TakenOver {
        /// The lease file.
        path: PathBuf,
    },
    /// Its first line is another program's, or damaged.
    #[error(
        "{path} is not the lease of this program, its first line is {found:?}; correct the directory in the settings"
    )]
    Foreign {
        /// The lease file.
        path: PathBuf,
        /// What it says, shortened; only printable ASCII.
        found: String,
    },
    /// It is there but cannot be used.
    #[error("cannot take the lease {path}")]
    Unusable {
        /// The lease file.
        path: PathBuf,
        /// Why, with the cure.
        #[source]
        source: ReadError,
    },
    /// It could not be confirmed.
    #[error("cannot write the lease {path}")]
    NotWritten {
        /// The lease file.
        path: PathBuf,
        /// Why, with the cure.
        #[source]
        source: WriteError,
    },
    /// The system said no.
    #[error("cannot {doing} the lease {path}; check that its disk is a local one and is writable")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// The lease file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The marker is no line of 1 to 200 printable ASCII characters, or is the beginning of `starting`.
    #[error("the marker given for {path} is not one plain line; this is a mistake in the program, report it")]
    BadMarker {
        /// The lease file.
        path: PathBuf,
    },
    /// A test stopped the program.
    #[error("stopped while at {path}; only tests do this")]
    Crashed {
        /// The lease file.
        path: PathBuf,
        /// At which step.
        #[source]
        crashed: Crashed,
    },
}

impl Lease {
    /// Takes the lease, or says at once who has it. `holder` is for the next one to be refused, as `pid 7 lucia-controller
    /// on host h`; anything but printable ASCII in it becomes `?`.
    ///
    /// # Errors
    /// [`LeaseError::Held`], [`LeaseError::Foreign`] when the file is not ours, and the others.
    pub fn take(dir: &PrivateDir, name: &FileName, marker: &[u8], holder: &str) -> Result<Self, LeaseError> {
        let path = dir.path_of(name);
        check_marker(marker, &path)?;
        let mut made = false;
        for _ in 0..TRIES {
            let Some(file) = open(dir, name, OFlag::O_RDWR)? else {
                made = make(dir, name, &path)?;
                continue;
            };
            if let Some(mut lease) = Self::take_file(dir, name, file, marker, holder)? {
                if made && lease.found == Marker::Starting {
                    lease.found = Marker::Absent;
                }
                lease.sign(dir)?;
                return Ok(lease);
            }
        }
        Err(LeaseError::Failed { doing: "keep hold of", path, source: Errno::EAGAIN.into() })
    }

    /// Locks a lease file just opened; `None` when it is no longer the one that has the name, because the holder before
    /// us confirmed meanwhile.
    fn take_file(
        dir: &PrivateDir,
        name: &FileName,
        file: File,
        marker: &[u8],
        holder: &str,
    ) -> Result<Option<Self>, LeaseError> {
        let path = dir.path_of(name);
        let lock = file.try_lock();
        if let Err(TryLockError::Error(source)) = lock {
            return Err(LeaseError::Failed { doing: "lock", path, source });
        }
        let bytes = read(&file, &path)?;
        if lock.is_err() {
            return Err(LeaseError::Held { path, holder: named_holder(&bytes) });
        }
        if !is_current(dir, name, &file, &path)? {
            return Ok(None);
        }
        let found = standing(&bytes, marker, &path)?;
        let holder = plain(holder.as_bytes());
        Ok(Some(Self { file, path, name: name.clone(), marker: marker.to_owned(), holder, found }))
    }

    /// What the lease file says, without taking it: for `doctor` and for a look before the first start.
    ///
    /// # Errors
    /// [`LeaseError::Foreign`], [`LeaseError::Unusable`], [`LeaseError::BadMarker`].
    pub fn look(dir: &PrivateDir, name: &FileName, marker: &[u8]) -> Result<Marker, LeaseError> {
        let path = dir.path_of(name);
        check_marker(marker, &path)?;
        match open(dir, name, OFlag::O_RDONLY)? {
            None => Ok(Marker::Absent),
            Some(file) => standing(&read(&file, &path)?, marker, &path),
        }
    }

    /// Who holds the lease now, by their own words; nothing where nobody does. For a look from outside: it takes nothing,
    /// and tries the lock only where `lives` says that the one named last may still be there, so that it never stands
    /// in the way of a program that starts.
    ///
    /// # Errors
    /// [`LeaseError::Unusable`], [`LeaseError::Failed`].
    pub fn holder(
        dir: &PrivateDir,
        name: &FileName,
        lives: impl FnOnce(&str) -> bool,
    ) -> Result<Option<String>, LeaseError> {
        let path = dir.path_of(name);
        let Some(file) = open(dir, name, OFlag::O_RDONLY)? else { return Ok(None) };
        let holder = named_holder(&read(&file, &path)?);
        if !lives(&holder) {
            return Ok(None);
        }
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(holder)),
            Err(TryLockError::Error(source)) => Err(LeaseError::Failed { doing: "look at", path, source }),
        }
    }

    /// What the file said before this lease was taken; [`Marker::Present`] once confirmed.
    #[must_use]
    pub fn found(&self) -> Marker {
        self.found
    }

    /// Whether state was once written here under this lease.
    #[must_use]
    pub fn marker_present(&self) -> bool {
        self.found == Marker::Present
    }

    /// Looks whether the lease is still the file of that name: a holder that slept while the directory was taken over by
    /// force has a lock on nothing. To be asked before a write that would undo another's.
    ///
    /// # Errors
    /// [`LeaseError::TakenOver`], or that the file cannot be looked at.
    pub fn check(&self, dir: &PrivateDir) -> Result<(), LeaseError> {
        match is_current(dir, &self.name, &self.file, &self.path)? {
            true => Ok(()),
            false => Err(LeaseError::TakenOver { path: self.path.clone() }),
        }
    }

    /// [`Lease::check`] as a guard of other directories ([`PrivateDir::guarded`]) that are written under this lease.
    pub fn guard(self: &Arc<Self>, dir: &Arc<PrivateDir>) -> impl Fn() -> io::Result<()> + Send + Sync + use<> {
        let (lease, dir) = (Arc::clone(self), Arc::clone(dir));
        move || lease.check(&dir).map_err(io::Error::other)
    }

    /// Writes the marker, so that from now on missing state is lost state. To be called after the first state is written
    /// (its [`PrivateDir::replace`] returned `Ok`); later calls do nothing.
    ///
    /// # Errors
    /// [`LeaseError::NotWritten`]; the lease is still held then, and still `Starting` or, at worst, confirmed.
    pub fn confirm(&mut self, dir: &PrivateDir) -> Result<(), LeaseError> {
        if self.marker_present() {
            return Ok(());
        }
        let mut bytes = first_line(&self.marker);
        bytes.extend_from_slice(self.holder.as_bytes());
        bytes.push(b'\n');
        let path = self.path.clone();
        let not_written = |source| LeaseError::NotWritten { path: path.clone(), source };
        let _one = dir.one_writer();
        let staged = dir.stage(&self.name, &bytes, 0o600).and_then(|file| {
            sync(&file, &path)?;
            // Locked before it takes the other's place, so that at no moment the lease is free.
            step("lease/lock", &path, || Ok(file.try_lock()?)).map_err(|stop| stopped("lock", &path, stop))?;
            step("lease/rename", &path, || dir.rename(&self.name)).map_err(|stop| stopped("rename", &path, stop))?;
            Ok(file)
        });
        self.file = staged.inspect_err(|err| dir.discard(&self.name, err)).map_err(not_written)?;
        dir.sync_entries("lease/dir-sync", &path).map_err(not_written)?;
        self.found = Marker::Present;
        Ok(())
    }

    /// Writes the second line; and the first, if it is not the marker yet.
    fn sign(&self, dir: &PrivateDir) -> Result<(), LeaseError> {
        let holder = format!("{}\n", self.holder);
        let first = if self.marker_present() { self.marker.as_slice() } else { STARTING };
        let after = u64::try_from(first.len() + 1).unwrap_or(MAX_FILE);
        self.act("lease/sign", || {
            if !self.marker_present() {
                self.file.write_all_at(&first_line(STARTING), 0)?;
            }
            // The first line stays as it is, so a crash in here costs no more than a name.
            self.file.set_len(after)?;
            self.file.write_all_at(holder.as_bytes(), after)
        })?;
        if self.marker_present() {
            return Ok(());
        }
        // Before any state is written: state beside no lease file would look as if brought from elsewhere.
        self.act("lease/sync", || self.file.sync_all())?;
        self.act("lease/made-sync", || dir.fd().sync_all())
    }

    fn act(&self, name: &'static str, act: impl FnOnce() -> io::Result<()>) -> Result<(), LeaseError> {
        step(name, &self.path, act).map_err(|stop| failed("sign", &self.path, stop))
    }
}

/// Makes the lease file, empty; says whether it was us. No pending file: two programs may start at the same moment.
fn make(dir: &PrivateDir, name: &FileName, path: &Path) -> Result<bool, LeaseError> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
    step("lease/make", path, || match dir.open_file(name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(_) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(err) => Err(err),
    })
    .map_err(|stop| failed("make", path, stop))
}

fn failed(doing: &'static str, path: &Path, stop: Stop) -> LeaseError {
    let path = path.to_owned();
    match stop {
        Stop::Crashed(crashed) => LeaseError::Crashed { path, crashed },
        Stop::Failed(source) => LeaseError::Failed { doing, path, source },
    }
}

fn open(dir: &PrivateDir, name: &FileName, flags: OFlag) -> Result<Option<File>, LeaseError> {
    dir.open_checked(name, flags, FileRules::private())
        .map_err(|source| LeaseError::Unusable { path: dir.path_of(name), source })
}

fn read(file: &File, path: &Path) -> Result<Vec<u8>, LeaseError> {
    let same =
        file.try_clone().map_err(|source| LeaseError::Failed { doing: "read", path: path.to_owned(), source })?;
    read_capped(same, MAX_FILE, path).map_err(|source| LeaseError::Unusable { path: path.to_owned(), source })
}

/// Whether the locked file is still the one that has the name.
fn is_current(dir: &PrivateDir, name: &FileName, file: &File, path: &Path) -> Result<bool, LeaseError> {
    let failed = |source| LeaseError::Failed { doing: "check", path: path.to_owned(), source };
    let ours = file.metadata().map_err(failed)?;
    match open(dir, name, OFlag::O_RDONLY)? {
        None => Ok(false),
        Some(there) => {
            let id = |facts: &Metadata| (facts.dev(), facts.ino());
            Ok(id(&ours) == id(&there.metadata().map_err(failed)?))
        }
    }
}

fn standing(bytes: &[u8], marker: &[u8], path: &Path) -> Result<Marker, LeaseError> {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let ended = line.len() < bytes.len();
    if ended && line == marker {
        Ok(Marker::Present)
    } else if STARTING.starts_with(line) || bytes.iter().all(|b| *b == 0) {
        // Cut short by a crash while it was made (some file systems then have zeros) is a first start like any other.
        Ok(Marker::Starting)
    } else {
        Err(LeaseError::Foreign { path: path.to_owned(), found: plain(line) })
    }
}

fn named_holder(bytes: &[u8]) -> String {
    match bytes.split(|b| *b == b'\n').nth(1) {
        Some(line) if !line.is_empty() => plain(line),
        _ => "a process that has not written its name yet".to_owned(),
    }
}

fn first_line(text: &[u8]) -> Vec<u8> {
    let mut line = text.to_owned();
    line.push(b'\n');
    line
}

fn check_marker(marker: &[u8], path: &Path) -> Result<(), LeaseError> {
    let fits = (1..=MAX_LINE).contains(&marker.len()) && !STARTING.starts_with(marker);
    if fits && marker.iter().all(|b| matches!(b, b' '..=b'~')) {
        Ok(())
    } else {
        Err(LeaseError::BadMarker { path: path.to_owned() })
    }
}

/// One line that is safe to write and to show.
fn plain(bytes: &[u8]) -> String {
    bytes.iter().take(MAX_LINE).map(|b| if matches!(b, b' '..=b'~') { char::from(*b) } else { '?' }).collect()
}

#[cfg(test)]
mod tests;

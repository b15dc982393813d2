//! A directory only the right user can write to. Its files are reached through its descriptor alone.
//!
//! Opened without following a link in its last part, then checked on the descriptor, so what was checked is what is used.
//! The parts before the last (`/var/lib/lucia`) are the administrator's and are trusted.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstatat, mkdirat};
use nix::unistd::{Gid, fchown};

use crate::crash_point::{Crashed, Stop, step};
use crate::{DirRules, FileName, RuleBreach};

/// An open directory whose type, owner, group and mode were checked.
///
/// Safe to share between threads: writes through one value happen one after the other. Two values, or two processes,
/// that write the same name need a [`crate::Lease`] between them.
#[derive(Debug)]
pub struct PrivateDir {
    fd: File,
    path: PathBuf,
    writing: Mutex<()>,
    guard: Option<Guard>,
}

/// Asked before each write.
struct Guard(Box<dyn Fn() -> io::Result<()> + Send + Sync>);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// What [`PrivateDir::list`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Names fit for a [`FileName`], in byte order.
    pub names: Vec<FileName>,
    /// Entries left out because of their name: hidden ones, and those we never write.
    pub ignored: usize,
    /// Whether the whole directory was seen; `false` when it has more entries than were asked for.
    pub complete: bool,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirError {
    /// There is none.
    #[error(
        "{path} does not exist; make it (systemd-tmpfiles --create does after an installation), or correct the path"
    )]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is not what it must be.
    #[error("directory {path} is refused")]
    Refused {
        /// Which directory.
        path: PathBuf,
        /// The rule it breaks, with the cure.
        #[source]
        breach: RuleBreach,
    },
    /// The system said no.
    #[error("cannot {doing} {path}; check that its disk is mounted, readable and writable for this user")]
    Failed {
        /// What was tried: `open`, `make`, `list`.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A test stopped the program.
    #[error("stopped while at {path}; only tests do this")]
    Crashed {
        /// Where.
        path: PathBuf,
        /// At which step.
        #[source]
        crashed: Crashed,
    },
}

impl PrivateDir {
    /// Opens a directory that must be there and keep the rules.
    ///
    /// # Errors
    /// [`DirError::Missing`]; [`DirError::Refused`] for a link, another type, owner, group or a wider mode.
    pub fn open(path: &Path, rules: DirRules) -> Result<Self, DirError> {
        Self::open_at(AT_FDCWD, path, path, |facts| rules.check(facts))
    }

    /// Makes the directory unless it is there, gives it exactly the mode and group of the rules, and opens it.
    ///
    /// One that is there and less open than the rules (a crash came between making it and opening it up) is brought up
    /// to them; one that is more open, or another's, is refused. Parents are not made.
    ///
    /// # Errors
    /// As [`PrivateDir::open`], and [`DirError::Failed`] when it cannot be made.
    pub fn create(path: &Path, rules: DirRules) -> Result<Self, DirError> {
        Self::create_at(AT_FDCWD, path, path, rules, || {
            let parent =
                path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
            File::open(parent)?.sync_all()
        })
    }

    /// Opens a directory inside this one; see [`PrivateDir::open`].
    ///
    /// # Errors
    /// As [`PrivateDir::open`].
    pub fn subdir(&self, name: &FileName, rules: DirRules) -> Result<Self, DirError> {
        Self::open_at(&self.fd, Path::new(name.as_str()), &self.path_of(name), |facts| rules.check(facts))
    }

    /// Makes and opens a directory inside this one; see [`PrivateDir::create`].
    ///
    /// # Errors
    /// As [`PrivateDir::create`].
    pub fn create_subdir(&self, name: &FileName, rules: DirRules) -> Result<Self, DirError> {
        let path = self.path_of(name);
        Self::create_at(&self.fd, Path::new(name.as_str()), &path, rules, || self.fd.sync_all())
    }

    /// The same directory, into which nothing is written while `guard` refuses: for one that is written under the lease of
    /// another ([`crate::Lease::guard`]).
    #[must_use]
    pub fn guarded(self, guard: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { guard: Some(Guard(Box::new(guard))), ..self }
    }

    /// Where the directory was when it was opened: for messages, never for access.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of this directory is: for messages, never for access.
    #[must_use]
    pub fn path_of(&self, name: &FileName) -> PathBuf {
        self.path.join(name.as_str())
    }

    /// The visible names in it, looking at `max` entries at most. Hidden files and names that no program of ours writes
    /// are counted, not returned.
    ///
    /// # Errors
    /// [`DirError::Failed`] when the system cannot list it.
    pub fn list(&self, max: usize) -> Result<Listing, DirError> {
        let mut listing = Listing { names: Vec::new(), ignored: 0, complete: true };
        listing.complete = self.each_entry(max, |entry| match entry.map(FileName::new) {
            Some(Ok(name)) => listing.names.push(name),
            _ => listing.ignored += 1,
        })?;
        listing.names.sort();
        Ok(listing)
    }

    /// Whether anything has this name, be it a file, a link that leads nowhere or a directory.
    ///
    /// # Errors
    /// [`DirError::Failed`] when the system cannot tell.
    pub fn exists(&self, name: &FileName) -> Result<bool, DirError> {
        match self.look(name) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(failed("look at", &self.path_of(name), errno)),
        }
    }

    /// What the system says of a name, a link itself and not what it leads to.
    pub(crate) fn look(&self, name: &FileName) -> Result<FileStat, Errno> {
        fstatat(&self.fd, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// Opens a name in it, never through a link and never waiting for a peer.
    pub(crate) fn open_file(&self, name: &str, flags: OFlag, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        Ok(File::from(openat(&self.fd, name, flags, mode)?))
    }

    pub(crate) fn fd(&self) -> &File {
        &self.fd
    }

    /// Whether it may be written into.
    pub(crate) fn may_write(&self) -> io::Result<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.0())
    }

    /// Held while a pending file exists, so that two threads never write into the same one.
    pub(crate) fn one_writer(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data; after a panic the next writer removes the leftover file anyway.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `see` with each entry (`None`: not UTF-8), `max` at most; says whether that was all.
    pub(crate) fn each_entry(&self, max: usize, mut see: impl FnMut(Option<&str>)) -> Result<bool, DirError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut dir =
            Dir::openat(&self.fd, ".", flags, Mode::empty()).map_err(|errno| failed("list", &self.path, errno))?;
        let mut seen = 0;
        for entry in dir.iter() {
            let entry = entry.map_err(|errno| failed("list", &self.path, errno))?;
            let bytes = entry.file_name().to_bytes();
            if bytes == b"." || bytes == b".." {
                continue;
            }
            if seen == max {
                return Ok(false);
            }
            seen += 1;
            see(std::str::from_utf8(bytes).ok());
        }
        Ok(true)
    }

    fn open_at(
        at: impl std::os::fd::AsFd,
        relative: &Path,
        path: &Path,
        check: impl FnOnce(&std::fs::Metadata) -> Result<(), RuleBreach>,
    ) -> Result<Self, DirError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = match openat(at, relative, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Err(DirError::Missing { path: path.to_owned() }),
            // Linux answers ENOTDIR for a link opened with O_DIRECTORY and O_NOFOLLOW.
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let breach = RuleBreach::Kind { want: "directory", got: "file or link" };
                return Err(DirError::Refused { path: path.to_owned(), breach });
            }
            Err(errno) => return Err(failed("open", path, errno)),
        };
        let facts = fd.metadata().map_err(|err| failed("open", path, err))?;
        check(&facts).map_err(|breach| DirError::Refused { path: path.to_owned(), breach })?;
        Ok(Self { fd, path: path.to_owned(), writing: Mutex::new(()), guard: None })
    }

    fn create_at(
        at: impl std::os::fd::AsFd + Copy,
        relative: &Path,
        path: &Path,
        rules: DirRules,
        sync_parent: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, DirError> {
        let stopped = |stop| match stop {
            Stop::Crashed(crashed) => DirError::Crashed { path: path.to_owned(), crashed },
            Stop::Failed(source) => failed("make", path, source),
        };
        // 0700 first: until the group is right, nobody else gets in.
        step("dir/make", path, || match mkdirat(at, relative, Mode::S_IRWXU) {
            // Where this user may make none it is somebody else's to lay: what is missing is then said by opening it.
            Ok(()) | Err(Errno::EEXIST | Errno::EACCES | Errno::EPERM | Errno::EROFS) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
        .map_err(stopped)?;
        let dir = Self::open_at(at, relative, path, |facts| rules.check_before(facts))?;
        let facts = dir.fd.metadata().map_err(|err| failed("open", path, err))?;
        if rules.check_exact(&facts).is_err() {
            if let Some(group) = rules.group {
                step("dir/group", path, || Ok(fchown(&dir.fd, None, Some(Gid::from_raw(group)))?)).map_err(stopped)?;
            }
            // After the group: changing the group may clear the setgid bit.
            let mode = Mode::from_bits_truncate(rules.mode);
            step("dir/mode", path, || Ok(fchmod(&dir.fd, mode)?)).map_err(stopped)?;
        }
        step("dir/sync", path, || dir.fd.sync_all()).map_err(stopped)?;
        step("dir/parent-sync", path, sync_parent).map_err(stopped)?;
        let facts = dir.fd.metadata().map_err(|err| failed("open", path, err))?;
        rules.check_exact(&facts).map_err(|breach| DirError::Refused { path: path.to_owned(), breach })?;
        Ok(dir)
    }
}

fn failed(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> DirError {
    DirError::Failed { doing, path: path.to_owned(), source: source.into() }
}

impl IntoIterator for Listing {
    type Item = FileName;
    type IntoIter = std::vec::IntoIter<FileName>;

    fn into_iter(self) -> Self::IntoIter {
        self.names.into_iter()
    }
}

#[cfg(test)]
mod tests;

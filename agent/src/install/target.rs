//! The disk that a system was just put on: every write into it is relative to an open directory and follows no link.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use lucia_durable::{
    BadName, DirError, DirRules, FileName, FileRules, Loaded, Owner, PrivateDir, ReadError, WriteError, crash_point,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use thiserror::Error;

/// Directories of the target: ours, and writable by nobody else.
const DIR: DirRules = DirRules { mode: 0o755, owner: Owner::Us, group: None };
/// Files that are read or replaced there.
const FILE: FileRules = FileRules { mode: 0o755, owner: Owner::Us };
/// Largest file that is written or replaced: the agent itself.
pub const MAX: u64 = 64 * 1024 * 1024;

/// The target cannot be written.
#[derive(Debug, Error)]
pub enum TargetError {
    /// `--root` is not the root of an installed system.
    #[error(
        "--root {path} is refused: it must be the absolute path of an existing directory other than /, without . and .."
    )]
    Root {
        /// What was given.
        path: PathBuf,
    },
    /// A directory of the target.
    #[error("a directory of the target is refused")]
    Dir(#[source] DirError),
    /// What is there already.
    #[error("what is in the target already is refused")]
    Read(#[source] ReadError),
    /// A file was not written.
    #[error("a file of the target was not written")]
    Write(#[source] WriteError),
    /// A name.
    #[error("a path of the target is refused; a mistake in the agent, report it")]
    Name(#[source] BadName),
    /// The link that enables the unit.
    #[error("cannot {doing} {path}")]
    Link {
        /// What was tried.
        doing: &'static str,
        /// Which link.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// The open root of the target.
#[derive(Debug)]
pub struct InstallTarget(PrivateDir);

impl InstallTarget {
    /// Opens it.
    ///
    /// # Errors
    /// [`TargetError::Root`] for a path that cannot be one, [`TargetError::Dir`] for a link or another's directory.
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let refused = || TargetError::Root { path: path.to_owned() };
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !plain {
            return Err(refused());
        }
        // A second name of `/` is `/` as well.
        let facts = |path: &Path| {
            std::fs::symlink_metadata(path).map(|facts| {
                use std::os::unix::fs::MetadataExt as _;
                (facts.dev(), facts.ino(), facts.is_dir())
            })
        };
        match (facts(path), facts(Path::new("/"))) {
            (Ok(target), Ok(own)) if target.2 && target != own => {}
            _ => return Err(refused()),
        }
        PrivateDir::open(path, DIR).map(Self).map_err(TargetError::Dir)
    }

    /// Opens a directory below it, making what is missing of the way.
    ///
    /// # Errors
    /// [`TargetError::Dir`]: a link anywhere on the way is one.
    pub fn dir(&self, path: &str) -> Result<PrivateDir, TargetError> {
        self.dir_with(path, DIR)
    }

    /// As [`InstallTarget::dir`], and the last part is 0700.
    ///
    /// # Errors
    /// As [`InstallTarget::dir`].
    pub fn private_dir(&self, path: &str) -> Result<PrivateDir, TargetError> {
        self.dir_with(path, DirRules::private())
    }

    fn dir_with(&self, path: &str, last: DirRules) -> Result<PrivateDir, TargetError> {
        let mut parts = path.split('/').peekable();
        let mut at: Option<PrivateDir> = None;
        let mut ours = false;
        while let Some(part) = parts.next() {
            ours = ours || part == "lucia";
            let name = FileName::new(part).map_err(TargetError::Name)?;
            let rules = if parts.peek().is_some() { DIR } else { last };
            let here = at.as_ref().unwrap_or(&self.0);
            let next = match here.subdir(&name, rules) {
                Err(DirError::Missing { .. }) => here.create_subdir(&name, rules),
                // Its own ones are made as they should be even where a run before died between making one and opening it.
                Ok(_) if ours => here.create_subdir(&name, rules),
                found => found,
            };
            at = Some(next.map_err(TargetError::Dir)?);
        }
        at.ok_or_else(|| TargetError::Root { path: PathBuf::from(path) })
    }

    /// A file's text; nothing when there is none.
    ///
    /// # Errors
    /// [`TargetError::Read`]: a link is one.
    pub fn read(&self, dir: &str, name: &str) -> Result<Option<Vec<u8>>, TargetError> {
        let name = FileName::new(name).map_err(TargetError::Name)?;
        match self.dir(dir)?.read(&name, MAX, FILE).map_err(TargetError::Read)? {
            Loaded::Missing => Ok(None),
            Loaded::Found(bytes) => Ok(Some(bytes)),
        }
    }

    /// Puts a file there, in place of a former plain file only.
    ///
    /// # Errors
    /// [`TargetError::Read`] when a link or anything else is there, [`TargetError::Write`].
    pub fn put(&self, dir: &str, name: &str, bytes: &[u8], mode: u32) -> Result<(), TargetError> {
        let name = FileName::new(name).map_err(TargetError::Name)?;
        let dir = self.dir(dir)?;
        dir.read(&name, MAX, FILE).map_err(TargetError::Read)?;
        dir.replace(&name, bytes, mode).map_err(TargetError::Write)
    }

    /// Puts a symbolic link there, in place of a former link only.
    ///
    /// # Errors
    /// [`TargetError::Link`].
    pub fn link(&self, dir: &str, name: &str, to: &str) -> Result<(), TargetError> {
        let dir = self.dir(dir)?;
        let path = dir.path().join(name);
        let failed = |doing, errno: Errno| TargetError::Link { doing, path: path.clone(), source: errno.into() };
        let fd = self.reopen(dir.path()).map_err(|errno| failed("open the directory of", errno))?;
        match readlinkat(&fd, name) {
            Ok(found) if found == to => return self.sync(&fd, &path),
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed("replace what is no link,", errno)),
        }
        let pending = format!(".{name}.pending");
        match unlinkat(&fd, pending.as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed("clear the way for", errno)),
        }
        let crashed = |crashed| TargetError::Write(WriteError::Crashed { path: path.clone(), crashed });
        symlinkat(to, &fd, pending.as_str()).map_err(|errno| failed("make", errno))?;
        crash_point!("agent/link-made", &path).map_err(crashed)?;
        renameat(&fd, pending.as_str(), &fd, name).map_err(|errno| failed("rename", errno))?;
        crash_point!("agent/link-renamed", &path).map_err(crashed)?;
        self.sync(&fd, &path)
    }

    fn sync(&self, fd: &File, path: &Path) -> Result<(), TargetError> {
        let failed = |source| TargetError::Link { doing: "sync", path: path.to_owned(), source };
        fd.sync_all().map_err(failed)
    }

    /// The directory once more as a plain descriptor, part by part from the root and through no link.
    fn reopen(&self, path: &Path) -> Result<File, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = self.0.path();
        let mut at = File::from(nix::fcntl::open(root, flags, Mode::empty())?);
        for part in path.strip_prefix(root).map_err(|_| Errno::EINVAL)?.components() {
            at = File::from(openat(&at, part.as_os_str(), flags, Mode::empty())?);
        }
        Ok(at)
    }
}

//! The disk that a system was just put on: every write into it is relative to an open directory and follows no link.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use lucia_durable::{DirError, DirRules, FileName, FileRules, Loaded, Owner, PrivateDir, crash_point};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use thiserror::Error;

use crate::host::failed::{Failed, OrFailed as _};

/// Directories of the target: ours, and writable by nobody else.
const DIR: DirRules = DirRules { mode: 0o755, owner: Owner::Us, group: None };
/// Files that are read or replaced there.
const FILE: FileRules = FileRules { mode: 0o755, owner: Owner::Us };
/// Largest file that is written or replaced: the agent itself.
pub const MAX: u64 = 64 * 1024 * 1024;
const NAME: &str = "a path of the target is refused; a mistake in the agent, report it";
const THERE: &str = "what is in the target already is refused";

/// What `--root` names cannot be the target.
#[derive(Debug, Error)]
pub enum TargetError {
    /// `--root` is not the root of an installed system.
    #[error(
        "--root {0} is refused: it must be the absolute path of an existing directory other than /, without . and .."
    )]
    Root(PathBuf),
    /// A directory of the target.
    #[error("the target is refused")]
    Dir(#[source] DirError),
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
        let refused = || TargetError::Root(path.to_owned());
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
    /// [`Failed`]: a link anywhere on the way is one.
    pub fn dir(&self, path: &str) -> Result<PrivateDir, Failed> {
        self.dir_with(path, DIR)
    }

    /// As [`InstallTarget::dir`], and the last part is 0700.
    ///
    /// # Errors
    /// As [`InstallTarget::dir`].
    pub fn private_dir(&self, path: &str) -> Result<PrivateDir, Failed> {
        self.dir_with(path, DirRules::private())
    }

    fn dir_with(&self, path: &str, last: DirRules) -> Result<PrivateDir, Failed> {
        let mut parts = path.split('/').peekable();
        let mut at: Option<PrivateDir> = None;
        let mut ours = false;
        while let Some(part) = parts.next() {
            ours = ours || part == "lucia";
            let name = FileName::new(part).or_failed(NAME)?;
            let rules = if parts.peek().is_some() { DIR } else { last };
            let here = at.as_ref().unwrap_or(&self.0);
            let next = match here.subdir(&name, rules) {
                Err(DirError::Missing { .. }) => here.create_subdir(&name, rules),
                // Its own ones are made as they should be even where a run before died between making one and opening it.
                Ok(_) if ours => here.create_subdir(&name, rules),
                found => found,
            };
            at = Some(next.or_failed("a directory of the target is refused")?);
        }
        at.ok_or_else(|| Failed::new("the target has no such directory"))
    }

    /// A file's text; nothing when there is none.
    ///
    /// # Errors
    /// [`Failed`]: a link is one.
    pub fn read(&self, dir: &str, name: &str) -> Result<Option<Vec<u8>>, Failed> {
        let name = FileName::new(name).or_failed(NAME)?;
        self.dir(dir)?.read(&name, MAX, FILE).map(Loaded::found).or_failed(THERE)
    }

    /// Puts a file there, in place of a former plain file only.
    ///
    /// # Errors
    /// [`Failed`] when a link or anything else is there.
    pub fn put(&self, dir: &str, name: &str, bytes: &[u8], mode: u32) -> Result<(), Failed> {
        let name = FileName::new(name).or_failed(NAME)?;
        let dir = self.dir(dir)?;
        dir.read(&name, MAX, FILE).or_failed(THERE)?;
        dir.replace(&name, bytes, mode).or_failed("a file of the target was not written")
    }

    /// Puts a symbolic link there, in place of a former link only.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn link(&self, dir: &str, name: &str, to: &str) -> Result<(), Failed> {
        let dir = self.dir(dir)?;
        let path = dir.path().join(name);
        let cannot = |doing| format!("cannot {doing} {}", path.display());
        let fd = self.reopen(dir.path()).or_failed(cannot("open the directory of"))?;
        match readlinkat(&fd, name) {
            Ok(found) if found == to => return fd.sync_all().or_failed(cannot("sync")),
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno).or_failed(cannot("replace what is no link,")),
        }
        let pending = format!(".{name}.pending");
        match unlinkat(&fd, pending.as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno).or_failed(cannot("clear the way for")),
        }
        symlinkat(to, &fd, pending.as_str()).or_failed(cannot("make"))?;
        crash_point!("agent/link-made", &path)?;
        renameat(&fd, pending.as_str(), &fd, name).or_failed(cannot("rename"))?;
        crash_point!("agent/link-renamed", &path)?;
        fd.sync_all().or_failed(cannot("sync"))
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

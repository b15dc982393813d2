//! A machine of its own for the built agent: a directory that is its `/`, in a mount namespace that ends with the
//! process. The agent has no seam for another root, and needs none: it runs here as it runs on a node.
//!
//! What of the kernel and of the C library it needs is bound in. There is no PID 1 that it could ask for anything.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, chdir, chroot};

use crate::programs::Running;
use crate::sim::Failure;

/// Where the agent lies, and where PID 1's view of it does.
const PROGRAM: &str = "/usr/lib/lucia/agent/lucia-node-agent";
const OF_PID_1: &str = "/run/lucia/boot/agent/lucia-node-agent";
/// What is bound in: the kernel's own, and where the C library is.
const BOUND: [&str; 4] = ["proc", "lib", "lib64", "dev/null"];

/// The machine. Where something is [`missing`] nothing can be started in it.
pub struct Jail {
    root: PathBuf,
    /// The agent.
    pub program: PathBuf,
}

/// Why no agent can be started in a root of its own here, if none can.
#[must_use]
pub fn missing() -> Option<&'static str> {
    if !Uid::effective().is_root() {
        return Some("it takes root to give an agent a root of its own");
    }
    // What the thread unshares ends with it.
    let own = thread::spawn(|| own_mounts().and_then(|()| chroot("/")).is_ok()).join();
    (!own.unwrap_or(false))
        .then_some("this machine allows no mounts of one's own; use one that does, or docker run --privileged")
}

/// Mounts that the others of this process do not see.
fn own_mounts() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
}

impl Jail {
    /// Lays the directories of a Debian that was just installed, and nothing of the fleet.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn lay(root: &Path, program: &Path) -> io::Result<Self> {
        let jail = Self { root: root.to_owned(), program: program.to_owned() };
        for dir in ["etc/lucia", "etc/ssh/lucia-authorized-keys", "etc/ssh/sshd_config.d", "etc/sssd", "run", "tmp"] {
            jail.dir(dir)?;
        }
        jail.put("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")?;
        jail.put("etc/os-release", b"PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n")?;
        for name in BOUND.map(Path::new) {
            let (from, name) = (Path::new("/").join(name), name.to_string_lossy());
            if from.is_dir() {
                jail.dir(&name)?;
            } else {
                jail.put(&name, b"")?;
            }
        }
        for file in [PROGRAM, OF_PID_1] {
            jail.put(file, b"")?;
        }
        Ok(jail)
    }

    /// The directory that is its `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of something in it, from outside.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.trim_start_matches('/'))
    }

    fn dir(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path)?;
        // Whatever umask this runs under: what others can write to is refused.
        for part in path.ancestors().take_while(|part| part.starts_with(&self.root)) {
            fs::set_permissions(part, fs::Permissions::from_mode(0o755))?;
        }
        Ok(path)
    }

    /// Writes a file that everybody may read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        if let Some(parent) = Path::new(name.trim_start_matches('/')).parent() {
            self.dir(&parent.to_string_lossy())?;
        }
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
    }

    /// Starts the agent with `args`; what it says goes to `log`, outside.
    ///
    /// # Errors
    /// When this process may not make namespaces or change its root, or the agent cannot be started.
    pub fn start(&self, args: &[&str], log: &Path) -> Result<Running, Failure> {
        let out = fs::File::create(log)?;
        // A thread has a root and mounts of its own once it asks for them, and what it starts has the same.
        let started = thread::scope(|scope| {
            let start = || -> Result<Running, Failure> {
                self.enter()?;
                Ok(Running::start_with(Path::new(PROGRAM), args, log, out)?)
            };
            scope.spawn(start).join()
        });
        started.unwrap_or_else(|_| Err("the thread that starts the agent broke".into()))
    }

    fn enter(&self) -> nix::Result<()> {
        own_mounts()?;
        let none: Option<&str> = None;
        let bind =
            |from: &Path, to: &str| mount(Some(from), &self.path(to), none, MsFlags::MS_BIND | MsFlags::MS_REC, none);
        for name in BOUND {
            let from = Path::new("/").join(name);
            if from.exists() {
                bind(&from, name)?;
            }
        }
        bind(&self.program, PROGRAM)?;
        bind(&self.program, OF_PID_1)?;
        chdir(&self.root)?;
        chroot(".")
    }
}

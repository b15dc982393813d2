//! A limit on the memory of one program, as its unit gives it: a cgroup of our own, v1 or v2, where this machine lets us
//! make one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A cgroup with a limit on memory, removed when dropped.
#[derive(Debug)]
pub struct Limited {
    dir: PathBuf,
}

impl Limited {
    /// A cgroup named `name` with at most `bytes` of memory.
    ///
    /// # Errors
    /// When this machine has no memory hierarchy, or lets nobody limit in it: the reason, for a note.
    pub fn new(name: &str, bytes: u64) -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let (home, limit) = home(&own).ok_or_else(|| io::Error::other("no cgroup that limits memory"))?;
        let dir = home.join(format!("lucia-{name}-{}", std::process::id()));
        fs::create_dir(&dir)?;
        let made = Self { dir };
        fs::write(made.dir.join(limit), bytes.to_string())?;
        Ok(made)
    }

    /// The file that a process writes its id to for joining.
    #[must_use]
    pub fn door(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// How often something in it was killed for want of memory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn kills(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.dir.join("memory.oom_control"))
            .or_else(|_| fs::read_to_string(self.dir.join("memory.events")))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
        count.ok_or_else(|| io::Error::other("no count of kills"))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // It stays while something runs in it; then its name says whose it was.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Where this process may make one, and the file that limits it.
fn home(own: &str) -> Option<(PathBuf, &'static str)> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.trim_start_matches('/'));
        let v1 = Path::new("/sys/fs/cgroup/memory").join(path);
        let v2 = Path::new("/sys/fs/cgroup").join(path);
        if controllers.split(',').any(|controller| controller == "memory") && v1.is_dir() {
            return Some((v1, "memory.limit_in_bytes"));
        }
        let shared = fs::read_to_string(v2.join("cgroup.subtree_control")).unwrap_or_default();
        let is_limiting = shared.split_whitespace().any(|controller| controller == "memory");
        (controllers.is_empty() && is_limiting).then_some((v2, "memory.max"))
    })
}

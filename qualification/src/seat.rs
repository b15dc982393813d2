//! Programs under a numeric user of their own, without making that user on the host.
//!
//! The helper takes the seat and becomes the program: it joins the network, makes its directory reachable where the
//! checkout lies in somebody's private home, becomes the user, and asks to be ended with whoever started it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use serde::{Deserialize, Serialize};

use crate::program::Program;

/// Who runs something, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seat {
    /// User and group by number; the number need not be in /etc/passwd.
    pub user: u32,
    /// One more group.
    pub group: u32,
    /// Process id of a network's holder whose network namespace is joined.
    pub network: Option<u32>,
    /// A directory the user can reach, whatever the modes of what lies above it.
    pub directory: PathBuf,
}

impl Seat {
    /// A command that runs `program`, which must lie in the directory or be a system's, in this seat.
    pub fn command(&self, helper: &Path, program: &Path, arguments: &[&str]) -> serde_json::Result<Command> {
        let mut command = Program::Built(helper.to_owned()).command();
        command.arg("take-seat").arg(serde_json::to_string(self)?).arg("--").arg(program).args(arguments);
        Ok(command)
    }

    /// Becomes the program. Returns only on failure.
    pub fn take(&self, program: &Path, arguments: &[String]) -> io::Result<()> {
        let starter = nix::unistd::getppid();
        if let Some(holder) = self.network {
            setns(File::open(format!("/proc/{holder}/ns/net"))?, CloneFlags::CLONE_NEWNET)?;
        }
        reach(&self.directory)?;
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.user));
        setgroups(&[Gid::from_raw(self.group)])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
        // After the change of user, which takes it back.
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        if nix::unistd::getppid() != starter {
            return Err(io::Error::other("whoever started this is gone"));
        }
        Err(Program::Built(program.to_owned()).command().args(arguments).exec())
    }
}

/// Makes `directory` reachable for everybody, at its own path, in a mount namespace of our own: what nobody else may
/// pass is covered by an empty directory that has nothing but the way.
fn reach(directory: &Path) -> io::Result<()> {
    let Some(barred) = barred(directory)? else { return Ok(()) };
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // Opened in the new namespace, or it could not be mounted there.
    let held = File::open(directory)?;
    mount(Some("tmpfs"), &barred, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=755"))?;
    fs::create_dir_all(directory)?;
    let from = format!("/proc/self/fd/{}", held.as_raw_fd());
    Ok(mount(Some(from.as_str()), directory, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?)
}

/// The topmost directory on the way that others may not pass.
fn barred(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = None;
    for above in directory.ancestors().skip(1) {
        if fs::metadata(above)?.permissions().mode() & 0o001 == 0 {
            found = Some(above.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DE-8
    #[test]
    fn the_topmost_private_directory_bars_the_way() {
        let base = std::env::temp_dir().join(format!("lucia-seat-{}", std::process::id()));
        let below = base.join("home/checkout/target/demo");
        fs::create_dir_all(&below).unwrap();
        assert_eq!(barred(&below).unwrap(), None);
        for private in ["home/checkout", "home"] {
            fs::set_permissions(base.join(private), fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(barred(&below).unwrap(), Some(base.join(private)));
        }
        fs::remove_dir_all(base).unwrap();
    }
}

//! As whom a command runs: started by root, as the user whose directory the worker's is.
//!
//! So nothing in that directory becomes root's, and no link in it leads root anywhere. What the caller names on the
//! command line (a request, the root's key) is the caller's and is read before.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{
    Gid, Uid, User, getgrouplist, getgroups, getresgid, getresuid, setegid, seteuid, setgroups, setresgid, setresuid,
};

use lucia_daemon::exit::Exit;

use super::at::At;
use crate::config::Config;

impl At {
    /// Reads the settings, and gives up being root for good before anything else is opened.
    pub(super) fn enter(&self) -> Result<Config, Exit> {
        let config = Config::load(&self.config).map_err(Exit::config)?;
        become_owner(&config)?;
        Ok(config)
    }
}

/// Root becomes the owner of the worker's directory, with the groups of that user and the one of the exchange.
pub(super) fn become_owner(config: &Config) -> Result<(), Exit> {
    let Some((uid, gid)) = owner(&config.state_dir)? else { return Ok(()) };
    let user = User::from_uid(uid).map_err(cannot)?;
    let gid = user.as_ref().map_or(gid, |user| user.gid);
    let mut groups = match user.map(|user| CString::new(user.name)) {
        Some(Ok(name)) => getgrouplist(&name, gid).map_err(cannot)?,
        _ => vec![gid],
    };
    let exchange = Gid::from_raw(config.group);
    if !groups.contains(&exchange) {
        groups.push(exchange);
    }
    groups.retain(|group| group.as_raw() != 0);
    setgroups(&groups).map_err(cannot)?;
    setresgid(gid, gid, gid).map_err(cannot)?;
    setresuid(uid, uid, uid).map_err(cannot)?;
    let (users, of) = (getresuid().map_err(cannot)?, getresgid().map_err(cannot)?);
    let now = getgroups().map_err(cannot)?;
    let gone = [users.real, users.effective, users.saved].iter().all(|now| *now == uid)
        && [of.real, of.effective, of.saved].iter().all(|now| *now == gid)
        && now.iter().all(|group| groups.contains(group))
        && seteuid(Uid::from_raw(0)).is_err();
    if gone { Ok(()) } else { Err(cannot(Errno::EPERM)) }
}

/// For the one command that needs root a second time, to ask slapd by its socket: root stays the real user. Its other
/// groups go for good, since slapd asks for the first user and group alone.
pub(super) fn lend_owner(config: &Config) -> Result<(), Exit> {
    let Some((uid, gid)) = owner(&config.state_dir)? else { return Ok(()) };
    setgroups(&[]).and_then(|()| setegid(gid)).and_then(|()| seteuid(uid)).map_err(cannot)
}

/// Whose the worker's directory is, where root asks and it is somebody else's.
fn owner(state_dir: &Path) -> Result<Option<(Uid, Gid)>, Exit> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let place = std::fs::metadata(state_dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Exit::refused(format!(
            "{} does not exist; make it for the user the worker runs as (systemd-tmpfiles --create does after an \
             installation), or correct state-dir",
            state_dir.display()
        )),
        _ => Exit::refused(format!("cannot look at {}: {error}", state_dir.display())),
    })?;
    Ok(Some((Uid::from_raw(place.uid()), Gid::from_raw(place.gid()))).filter(|(uid, _)| !uid.is_root()))
}

fn cannot(errno: Errno) -> Exit {
    Exit::refused(format!("cannot become the worker's user: {errno}; nothing was opened"))
}

//! `prepare-directory`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lucia_proto::directory::Dn;
use nix::unistd::{Gid, Uid, geteuid, setegid, seteuid, setgroups};

use super::Failure;
use crate::config::Config;
use crate::directory::ldap::Ldap;
use crate::directory::prepare::{Admin, Report, prepare};
use crate::home::Home;
use crate::now;

/// Adds the two leading rules and the readers' place, or only says what is missing.
pub(super) fn prepare_directory(
    config: &Config,
    config_dn: &str,
    socket: Option<&Path>,
    check: bool,
) -> Result<Report, Failure> {
    let site = config.directory.as_ref().ok_or_else(|| Failure {
        code: Failure::CONFIG,
        text: "there is no directory; set kind = \"ldap\" and uri under [directory] in worker.toml".to_owned(),
    })?;
    let admin = match socket {
        Some(path) => {
            become_worker(&config.state_dir)?;
            Admin::Socket(path.to_owned())
        }
        None => {
            let dn: Result<Dn, _> = config_dn.parse();
            Admin::Password(dn.map_err(|error| Failure {
                code: Failure::USAGE,
                text: format!("--config-dn {config_dn:?} is not {error}"),
            })?)
        }
    };
    let home = Home::open(config).map_err(|error| Failure::of(&error))?;
    let root = home.root().map_err(|error| Failure::of(&error))?;
    let ldap = Ldap::open(config, site.clone(), &root).map_err(|error| Failure::of(&error))?;
    prepare(&ldap, site, &home.dir, &admin, check, now()).map_err(|error| Failure::of(&error))
}

/// Root gives up what it does not need: all but the connection to slapd's socket is done as the user whose directory the
/// worker's is, so that nothing in it becomes root's and no link in it leads root anywhere. Root's other groups go for
/// good: slapd asks for the first user and group alone.
fn become_worker(state_dir: &Path) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let place = std::fs::metadata(state_dir)
        .map_err(|error| Failure::refused(format!("cannot look at {}: {error}", state_dir.display())))?;
    setgroups(&[])
        .and_then(|()| setegid(Gid::from_raw(place.gid())))
        .and_then(|()| seteuid(Uid::from_raw(place.uid())))
        .map_err(|errno| Failure::refused(format!("cannot become the worker's user: {errno}")))
}

//! `prepare-directory`.

use std::path::Path;

use lucia_daemon::clock::now;
use lucia_daemon::exit::{self, Exit};
use lucia_proto::node::directory::Dn;

use super::at::At;
use super::user::{become_owner, lend_owner};
use crate::config::Config;
use crate::directory::ldap::Ldap;
use crate::directory::prepare::{Admin, Report, prepare};
use crate::home::Home;

/// Adds the two leading rules and the readers' place, or only says what is missing.
pub(super) fn prepare_directory(at: &At, config_dn: &str, socket: Option<&Path>, check: bool) -> Result<Report, Exit> {
    let config = Config::load(&at.config).map_err(Exit::config)?;
    let site = config.directory.as_ref().ok_or_else(|| {
        Exit::said(
            exit::CONFIG,
            "there is no directory; set kind = \"ldap\" and uri under [directory] in worker.toml".to_owned(),
        )
    })?;
    let admin = match socket {
        Some(path) => {
            lend_owner(&config)?;
            Admin::Socket(path.to_owned())
        }
        None => {
            become_owner(&config)?;
            let dn: Result<Dn, _> = config_dn.parse();
            Admin::Password(
                dn.map_err(|error| Exit::said(exit::USAGE, format!("--config-dn {config_dn:?} is not {error}")))?,
            )
        }
    };
    let home = Home::open(&config)?;
    let root = home.root()?;
    let ldap = Ldap::open(&config, site.clone(), &root)?;
    prepare(&ldap, site, &home.dir, &admin, check, now()).map_err(Exit::from)
}

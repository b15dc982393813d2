//! `prepare-directory`.

use lucia_proto::directory::Dn;

use super::Failure;
use crate::config::Config;
use crate::directory::ldap::Ldap;
use crate::directory::prepare::{Report, prepare};
use crate::home::Home;
use crate::now;

/// Adds the two leading rules and the readers' place, or only says what is missing.
pub(super) fn prepare_directory(config: &Config, config_dn: &str, check: bool) -> Result<Report, Failure> {
    let site = config.directory.as_ref().ok_or_else(|| Failure {
        code: Failure::CONFIG,
        text: "there is no directory; set kind = \"ldap\" and uri under [directory] in worker.toml".to_owned(),
    })?;
    let config_dn: Dn = config_dn
        .parse()
        .map_err(|error| Failure { code: Failure::USAGE, text: format!("--config-dn {config_dn:?} is not {error}") })?;
    let home = Home::open(config).map_err(|error| Failure::of(&error))?;
    let root = home.root().map_err(|error| Failure::of(&error))?;
    let ldap = Ldap::open(config, site.clone(), &root).map_err(|error| Failure::of(&error))?;
    prepare(&ldap, site, &home, &config_dn, check, now()).map_err(|error| Failure::of(&error))
}

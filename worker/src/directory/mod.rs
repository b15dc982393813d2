//! The directory nodes read accounts from, behind one trait, and the readers the worker keeps in it (design.md W3).
//!
//! | module | question it answers |
//! |---|---|
//! | [`password`] | what does a node get, and what does the directory get? |
//! | [`readers`] | which entry must be there, and when is it tried again? |
//! | [`budget`] | how much of a turn does the directory get? |
//! | [`ldap`] | how is OpenLDAP asked? |
//! | [`acl`] | which rules protect passwords, and are they in their place? A pure function |
//! | [`prepare`] | how do those rules get there, once? |
//! | `secrets` | what else is as good as a password there? |

pub mod acl;
pub mod budget;
mod contract;
mod error;
pub mod ldap;
pub mod password;
pub mod prepare;
pub mod readers;
mod secrets;

use lucia_proto::base::ids::NodeId;
use lucia_proto::pki::chain::Root;

use crate::config::{Config, DirectoryConfig};
pub use contract::{Directory, Found};
pub use error::DirectoryError;

use budget::{SLOW, Stopwatch};
use ldap::Ldap;
use password::Stored;
use readers::Readers;

/// The readers in the directory of these settings. Connects to nothing yet.
///
/// # Errors
/// The worker's own directory or the root cannot be used.
pub fn open(config: &Config, root: &Root) -> Result<Readers, DirectoryError> {
    let directory: Box<dyn Directory> = match &config.directory {
        None => Box::new(NoDirectory),
        Some(site) => Box::new(Ldap::open(config, site.clone(), root)?),
    };
    Ok(Readers::new(directory, crate::stopwatch()))
}

/// How the directory is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where it is, and that it answers.
    pub said: String,
    /// That it answers slowly, where it does.
    pub slow: Option<String>,
}

/// Asks the directory how it is.
///
/// # Errors
/// What is wrong.
pub fn health(config: &Config, root: &Root, stopwatch: &Stopwatch) -> Result<Health, DirectoryError> {
    let Some(site) = &config.directory else { return Ok(Health { said: "none".to_owned(), slow: None }) };
    let ldap = Ldap::open(config, site.clone(), root)?;
    let from = stopwatch();
    ldap.check()?;
    let took = stopwatch().saturating_sub(from);
    let slow = (took >= SLOW).then(|| {
        let seconds = took.as_secs();
        format!(
            "the directory took {seconds} s to answer one question; the worker spreads its work there over several turns, \
             and nodes wait for it: see that slapd at {} is well",
            site.uri
        )
    });
    Ok(Health { said: format!("{}, answers", site.uri), slow })
}

/// No directory: nodes know local accounts alone.
#[derive(Clone, Copy, Debug)]
pub struct NoDirectory;

impl Directory for NoDirectory {
    fn site(&self) -> Option<&DirectoryConfig> {
        None
    }

    fn set_reader(&self, _: &NodeId, _: &[&Stored]) -> Result<(), DirectoryError> {
        Ok(())
    }

    fn delete_reader(&self, _: &NodeId) -> Result<(), DirectoryError> {
        Ok(())
    }

    fn readers(&self, _: &[NodeId]) -> Result<Found, DirectoryError> {
        Ok(Found::new())
    }
}

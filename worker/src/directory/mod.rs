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
pub mod ldap;
pub mod password;
pub mod prepare;
pub mod readers;
mod secrets;

use std::collections::BTreeMap;
use std::path::PathBuf;

use lucia_durable::{DirError, ReadError};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::sealed::SealedError;
use thiserror::Error;

use crate::config::{Config, DirectoryConfig};
use budget::{SLOW, Stopwatch};
use ldap::Ldap;
use password::Stored;
use readers::Readers;

/// Readers found: their passwords as the directory keeps them. A value that is none of ours is left out and counted.
pub type Found = BTreeMap<NodeId, Vec<String>>;

/// A directory with readers. Each call is whole: an entry has what was asked, or the call failed and may be repeated.
pub trait Directory: Send {
    /// What nodes are told of it; nothing where there is no directory.
    fn site(&self) -> Option<&DirectoryConfig>;

    /// Makes the reader's entry, or changes the one there, so that it has exactly these passwords.
    ///
    /// # Errors
    /// The directory cannot be asked, or refuses.
    fn set_reader(&self, node_id: &NodeId, passwords: &[&Stored]) -> Result<(), DirectoryError>;

    /// Deletes the reader's entry; none there is as good.
    ///
    /// # Errors
    /// As [`Directory::set_reader`].
    fn delete_reader(&self, node_id: &NodeId) -> Result<(), DirectoryError>;

    /// Those of these readers that there are.
    ///
    /// # Errors
    /// As [`Directory::set_reader`]. A reader that is left out is not there: a list that a limit cut short is an error.
    fn readers(&self, nodes: &[NodeId]) -> Result<Found, DirectoryError>;
}

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

/// Why the directory did not do what it was asked. Never holds a password.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The worker's own directory, where the password is, cannot be used.
    #[error("the directory's password cannot be read")]
    Dir(#[source] DirError),
    /// The password's file is there and cannot be used.
    #[error("the directory's password cannot be read")]
    Read(#[source] ReadError),
    /// There is none, or it is none.
    #[error("{path} holds no password; write the bind password there, one line, mode 0600, owned by the worker's user")]
    Password {
        /// The file.
        path: PathBuf,
    },
    /// No TLS settings could be made of the root.
    #[error("the root cannot be used for the directory's TLS")]
    Tls(#[source] rustls::Error),
    /// No connection, or not to the directory it must be.
    #[error(
        "{uri} cannot be reached over TLS; see that slapd listens there, and that its certificate is of this name and \
         chains to the fleet's root"
    )]
    Unreachable {
        /// Where it should be.
        uri: String,
        /// What the library said.
        #[source]
        source: Box<ldap3::LdapError>,
    },
    /// slapd's socket on this host cannot be used.
    #[error("{uri} cannot be used; see that slapd runs on this host with ldapi:/// in its -h, and run this as root")]
    Socket {
        /// The socket.
        uri: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It answers too slowly.
    #[error("{uri} does not answer in time; see that slapd is well")]
    Slow {
        /// Where it is.
        uri: String,
    },
    /// The password is not right.
    #[error("the directory refuses the password of {dn}; correct the file it is read from")]
    Bind {
        /// As whom.
        dn: String,
    },
    /// It refused an operation.
    #[error("the directory refused to {what}: LDAP result {code}, {text}")]
    Refused {
        /// What it was asked.
        what: &'static str,
        /// LDAP's result code.
        code: u32,
        /// The server's words, safe to show.
        text: String,
    },
    /// A search met a limit, so its answer is not whole.
    #[error(
        "the directory ended a search at a limit of its own (LDAP result {code}), so what it gave is not all there is; give \
         the account that asked an olcLimits of its own"
    )]
    Limit {
        /// LDAP's result code: time, size, or what its administrator set.
        code: u32,
    },
    /// It sent us elsewhere, where we do not go.
    #[error(
        "the directory refers to another server to {what}; name that one in worker.toml, referrals are not followed"
    )]
    Referral {
        /// What it was asked.
        what: &'static str,
    },
    /// Readers have no place.
    #[error("the directory has no {dn}; run `lucia-enrollment-worker prepare-directory`")]
    NoPlace {
        /// The entry that is missing.
        dn: String,
    },
    /// No random bytes.
    #[error("the system gave no random bytes")]
    Random,
    /// The password could not be sealed.
    #[error("the reader's password cannot be sealed to the node's key")]
    Seal(#[source] SealedError),
    /// It failed a short while ago.
    #[error("the directory is tried again at {at}; {before}")]
    Waits {
        /// When.
        at: UnixTime,
        /// What it failed with.
        before: String,
    },
    /// It had its time of this turn.
    #[error("the directory had its time of this turn; what is left is done in the next one")]
    NextTurn,
    /// The runtime of a connection could not be made.
    #[error("a connection to the directory cannot be begun")]
    Runtime(#[source] std::io::Error),
}

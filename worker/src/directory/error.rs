//! Why the directory did not do what it was asked.

use std::path::PathBuf;

use lucia_durable::{DirError, ReadError};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::sealed::SealedError;
use thiserror::Error;

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

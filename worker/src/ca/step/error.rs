//! Why step-ca signed nothing.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::files::FileError;

/// Why step-ca signed nothing. Each says who can cure it.
#[derive(Debug, Error)]
pub enum StepError {
    /// The provisioner's key cannot be read.
    #[error("step-ca's provisioner key cannot be read")]
    KeyFile(#[source] FileError),
    /// It is none.
    #[error(
        "{path} is no private JWK on P-256; write there what `step crypto jwe decrypt` makes of the provisioner's \
         encryptedKey, mode 0600, owned by the worker's user"
    )]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// No TLS settings could be made of the root.
    #[error("the root cannot be used for step-ca's TLS")]
    Tls(#[source] rustls::Error),
    /// The runtime of a connection could not be made.
    #[error("a connection to step-ca cannot be begun")]
    Runtime(#[source] std::io::Error),
    /// No connection.
    #[error("step-ca at {to} cannot be reached; see that it runs and listens there")]
    Unreachable {
        /// Where it should be.
        to: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Who answers there is not step-ca of this fleet.
    #[error(
        "who answers at {to} does not prove to be step-ca: its certificate must be of this name and chain to the root"
    )]
    Stranger {
        /// Where it should be.
        to: String,
        /// What is wrong with its certificate.
        #[source]
        source: std::io::Error,
    },
    /// No answer in time.
    #[error("step-ca at {to} gave no whole answer within {} s; see that it is well", limit.as_secs())]
    Slow {
        /// How long was waited.
        limit: Duration,
        /// Where it is.
        to: String,
    },
    /// It refused: 4xx.
    #[error(
        "step-ca refused with {status}: {said}; see that the provisioner's name and key are right, and that its \
         maxTLSCertDuration is 168h or more"
    )]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words, safe to show.
        said: String,
    },
    /// It failed: 5xx.
    #[error("step-ca failed with {status}: {said}; see its log")]
    Failed {
        /// HTTP status.
        status: u16,
        /// Its words, safe to show.
        said: String,
    },
    /// It answered what step-ca does not.
    #[error("what answers at {to} is not step-ca: {what}")]
    Strange {
        /// Where.
        to: String,
        /// What is strange.
        what: String,
    },
}

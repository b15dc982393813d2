//! Why a part cannot be opened.

use std::io;
use std::path::PathBuf;

use lucia_proto::base::ids::NodeId;
use lucia_proto::pki::certificate::CertificateError;
use lucia_proto::pki::key::KeyError;
use thiserror::Error;

use crate::refusal::Refusal;
use crate::store::{
    AuditLogError, DraftsError, JournalFileError, JsonFileError, LayoutError, PasskeysError, RecordError,
};

/// Why the controller does not start.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The root cannot be read.
    #[error("root-file {path} cannot be read; copy the root there that `lucia-enrollment-worker init` made")]
    ReadRoot {
        /// The setting.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not a root.
    #[error("root-file {path} is not a root CA")]
    Root {
        /// The setting.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: CertificateError,
    },
    /// The directories.
    #[error("the state directory cannot be used")]
    Layout(#[source] LayoutError),
    /// The journal.
    #[error("the journal stops the start")]
    Journal(#[source] JournalFileError),
    /// A node's record.
    #[error("a node's record stops the start")]
    Record(#[source] RecordError),
    /// The mark of the roster.
    #[error("the mark of the roster stops the start")]
    RosterMark(#[source] JsonFileError),
    /// The audit.
    #[error("the audit stops the start")]
    Audit(#[source] AuditLogError),
    /// An order.
    #[error("an order stops the start")]
    Drafts(#[source] DraftsError),
    /// The passkeys.
    #[error("the list of passkeys stops the start")]
    Passkeys(#[source] PasskeysError),
    /// The automation tokens.
    #[error("the list of automation tokens stops the start")]
    Tokens(#[source] JsonFileError),
    /// A device's key in the journal.
    #[error("device {id} has no usable key in the journal; `lucia-controller doctor` shows how to go back")]
    Key {
        /// Which device.
        id: NodeId,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// The queue or the first change could not be written.
    #[error("the first change cannot be written")]
    Write(#[source] Refusal),
    /// The system has no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

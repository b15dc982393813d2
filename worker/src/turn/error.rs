//! Why a turn ended early.

use lucia_durable::crash_point::Crashed;
use lucia_durable::{LeaseError, WriteError};
use lucia_proto::base::json::JsonError;
use lucia_proto::node::answer::AnswerError;
use lucia_proto::orders::freshness::FreshnessError;
use lucia_proto::orders::lists::ListError;
use thiserror::Error;

use crate::directory::DirectoryError;
use crate::home::HomeError;
use crate::ledger::LedgerError;
use crate::orders::kept::KeptError;
use crate::roster::RosterFileError;

/// Why the worker has to stop. The service manager starts it again; what it cannot cure is in the message.
#[derive(Debug, Error)]
pub enum TurnError {
    /// Its own directory cannot be used.
    #[error("the worker cannot start")]
    Home(#[source] HomeError),
    /// The directory cannot be used, whatever it answers.
    #[error("the worker cannot start")]
    Directory(#[source] DirectoryError),
    /// Another worker runs on it.
    #[error("the worker cannot start")]
    Lease(#[source] LeaseError),
    /// The ledger cannot be used.
    #[error("the worker stops")]
    Ledger(#[source] LedgerError),
    /// The roster is not the one that the ledger has.
    #[error("the worker stops")]
    Roster(#[source] RosterFileError),
    /// What was ordered before cannot be read or stored.
    #[error("the worker stops")]
    Orders(#[source] KeptError),
    /// An answer to a node's question could not be put together.
    #[error("an answer could not be put together; this is a mistake in the program, report it")]
    Freshness(#[source] FreshnessError),
    /// A list could not be put together.
    #[error("a list could not be put together; this is a mistake in the program, report it")]
    List(#[source] ListError),
    /// The ledger began with another root.
    #[error("the ledger is of another fleet than ca/root.pem; restore both from one and the same backup")]
    OtherFleet,
    /// Something could not be written, and not for want of space.
    #[error("the worker stops")]
    Write(#[source] WriteError),
    /// An answer could not be put together.
    #[error("an answer could not be put together; this is a mistake in the program, report it")]
    Answer(#[source] AnswerError),
    /// A test stopped the worker.
    #[error("the worker was stopped; only tests do this")]
    Crashed(#[source] Crashed),
    /// A file could not be put together.
    #[error("a file could not be put together; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
}

//! Why the ledger cannot be used.

use std::path::PathBuf;

use lucia_durable::{AppendError, DirError, ReadError, WriteError};
use lucia_proto::base::json::JsonError;
use thiserror::Error;

/// Why the ledger cannot be used. Nothing is issued without it.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// It is gone.
    #[error("{path} is missing; restore it from a backup, since without it names and keys could be given twice")]
    Lost {
        /// Where it should be.
        path: PathBuf,
    },
    /// The directory cannot be looked at.
    #[error("cannot look for the ledger")]
    Dir(#[source] DirError),
    /// It cannot be opened, read or written.
    #[error("the ledger cannot be used")]
    File(#[source] AppendError),
    /// Another process holds it.
    #[error("the ledger is in use by another process; try again in a moment")]
    Busy,
    /// It has not even its first line.
    #[error(
        "{path} has no line: `init` was cut off at its last step. Nothing was ever issued: move the directory's contents \
         away, then run `init` again"
    )]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// Lines that were answered on are gone.
    #[error(
        "{path} ends after line {lines}, and line {anchored} of it was answered on: it is an older copy, or was cut off. \
         restore the newest copy there is. If none is newer, delete ledger.head beside it and start again: what was barred \
         and named after line {lines} is forgotten then"
    )]
    Short {
        /// Which file.
        path: PathBuf,
        /// Whole lines it has.
        lines: u64,
        /// Lines it had.
        anchored: u64,
    },
    /// The last line counted in `ledger.head` is another one.
    #[error(
        "line {number} of {path} is not the one that ledger.head beside it names; restore both from one and the same backup"
    )]
    Other {
        /// Which file.
        path: PathBuf,
        /// From 1.
        number: u64,
    },
    /// `ledger.head` cannot be read.
    #[error("ledger.head cannot be read")]
    AnchorRead(#[source] ReadError),
    /// It is damaged.
    #[error("{path} is not what the worker wrote; restore it from a backup, together with ledger.jsonl")]
    AnchorBad {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// `ledger.head` cannot be written. Nothing may be answered then.
    #[error("ledger.head cannot be written")]
    Anchor(#[source] WriteError),
    /// It has fewer lines than this process saw.
    #[error("{path} became shorter while the worker ran; restore it from a backup, then start the worker again")]
    Shrunk {
        /// Which file.
        path: PathBuf,
    },
    /// A line is not one of ours.
    #[error("line {number} of {path} cannot be read; restore the ledger from a backup, never edit it")]
    Line {
        /// Which file.
        path: PathBuf,
        /// From 1.
        number: u64,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// A line does not follow from those before it.
    #[error(
        "line {number} of {path} does not follow from the lines before it: {what}; restore the ledger from a backup"
    )]
    Chain {
        /// Which file.
        path: PathBuf,
        /// From 1.
        number: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// An entry could not be written as a line.
    #[error("an entry does not fit into a line of the ledger; this is a mistake in the program, report it")]
    Entry,
}

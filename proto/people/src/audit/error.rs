//! Why lines are no audit.

use lucia_proto::base::json::JsonError;

/// Why lines are no audit, or no longer the one that was written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A line cannot be read.
    #[error("line {number} is no entry of an audit")]
    Line {
        /// From 1.
        number: u64,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// A line says the same in other bytes than it was written with.
    #[error("line {number} was edited: it is not in the one form that entries are written in")]
    Form {
        /// From 1.
        number: u64,
    },
    /// A line has another number than its place.
    #[error("line {number} has the number {found}: lines were cut out, added or put elsewhere")]
    Sequence {
        /// From 1.
        number: u64,
        /// What it says.
        found: u64,
    },
    /// A line does not hold the hash of the one before.
    #[error("line {number} does not follow from the line before it: one of the two was changed")]
    Chain {
        /// From 1.
        number: u64,
    },
    /// The last line has no end.
    #[error("what follows line {number} has no end: it was cut off")]
    Cut {
        /// The last whole line.
        number: u64,
    },
    /// The lines end before one that is known to have been there.
    #[error("the audit ends at line {found}, and line {anchored} was there: its end was cut off")]
    Short {
        /// Lines there are.
        found: u64,
        /// Lines there were.
        anchored: u64,
    },
    /// An entry is longer than a line may be.
    #[error("an entry does not fit into a line of the audit; this is a mistake in the program, report it")]
    TooLong,
}

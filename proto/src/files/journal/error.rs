//! Why a journal is not believed.

use thiserror::Error;

use crate::base::ids::{NodeId, TaskId};
use crate::base::json::JsonError;

/// Why a journal is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Not the schema.
    #[error("the journal is not version 4 of state.json")]
    Json(#[source] JsonError),
    /// More than 48 MiB.
    #[error("the journal is larger than 48 MiB")]
    TooLarge,
    /// More rows than a journal may hold.
    #[error("the journal has more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many it may have.
        max: usize,
    },
    /// A field of a device contradicts another, or another device.
    #[error("device {device}: {field} {rule}")]
    Device {
        /// Which device.
        device: NodeId,
        /// Which field, by its name in JSON.
        field: &'static str,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// A field of a task contradicts another, or another task or its device.
    #[error("task {task}: {field} {rule}")]
    Task {
        /// Which task.
        task: TaskId,
        /// Which field, by its name in JSON.
        field: &'static str,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// The events have a gap, or do not end at `lastEventId`.
    #[error("the journal's events are not the last ones without gaps: event {sequence}")]
    Sequence {
        /// The number that was found.
        sequence: u64,
    },
    /// An event names more holders than it has room for.
    #[error("event {sequence} of the journal has more than two holders, or with them a long actor")]
    Holders {
        /// Which event.
        sequence: u64,
    },
    /// An event names a rename without being one, with one name twice, or with a long actor.
    #[error("event {sequence} of the journal has names that are no rename's, or with them a long actor")]
    Names {
        /// Which event.
        sequence: u64,
    },
    /// An event names who was removed without being a removal, or with a long actor.
    #[error("event {sequence} of the journal has a name that is no removal's, or with it a long actor")]
    Removed {
        /// Which event.
        sequence: u64,
    },
    /// The events are not the ones the chain was made of.
    #[error("the hash chain over the journal's events does not end at chainHead")]
    Chain,
}

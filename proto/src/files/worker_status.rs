//! `enrollment-worker.json`: how the controller knows that the enrollment worker is alive (wire-facts 3.5).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::bounded::Version;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, WORKER_STATUS_AHEAD, WORKER_STATUS_FRESH, WORKER_STATUS_MAX};
use crate::base::time::UnixTime;

/// The file, written by the worker in each turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerStatus {
    /// Always 1.
    pub schema_version: Version<1>,
    /// Whether the worker can issue: its CA and directory answer.
    pub ready: bool,
    /// When the worker wrote this, by its own clock.
    pub checked_at: UnixTime,
}

/// Why the controller answers `node_worker_unavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WorkerUnavailable {
    /// The worker says that it cannot issue.
    #[error("the enrollment worker is not ready")]
    NotReady,
    /// The file is old: the worker does not run, or cannot write.
    #[error("the enrollment worker was last seen {} s ago", age.as_secs())]
    Stale {
        /// How old it is.
        age: Duration,
    },
    /// The file is from the future: one of the two clocks is wrong.
    #[error("the enrollment worker's clock is {} s ahead of ours", ahead.as_secs())]
    Ahead {
        /// By how much.
        ahead: Duration,
    },
}

impl WorkerStatus {
    /// Reads the file's bytes.
    ///
    /// # Errors
    /// When they are not this schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JsonError> {
        json::from_slice(bytes, WORKER_STATUS_MAX, JSON_DEPTH_MAX)
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// Never for a value of this type.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        json::to_string(self).map(String::into_bytes)
    }

    /// Whether the worker is there at `now`: ready, seen in the last 45 s, at most 5 s ahead.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn fresh(&self, now: UnixTime) -> Result<(), WorkerUnavailable> {
        let (age, ahead) = (now.since(self.checked_at), self.checked_at.since(now));
        if age > WORKER_STATUS_FRESH {
            Err(WorkerUnavailable::Stale { age })
        } else if ahead > WORKER_STATUS_AHEAD {
            Err(WorkerUnavailable::Ahead { ahead })
        } else if !self.ready {
            Err(WorkerUnavailable::NotReady)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: WK-1
    #[test]
    fn stale_after_45_seconds_and_refused_over_5_ahead() {
        let now = UnixTime::from_secs(1_000_000);
        let secs = Duration::from_secs;
        let at = |checked_at, ready| WorkerStatus { schema_version: Version, ready, checked_at }.fresh(now);
        assert_eq!(at(now, true), Ok(()));
        assert_eq!(at(now.minus(secs(45)), true), Ok(()));
        assert_eq!(at(now.minus(secs(46)), true), Err(WorkerUnavailable::Stale { age: secs(46) }));
        assert_eq!(at(now.plus(secs(5)), true), Ok(()));
        assert_eq!(at(now.plus(secs(6)), true), Err(WorkerUnavailable::Ahead { ahead: secs(6) }));
        assert_eq!(at(now, false), Err(WorkerUnavailable::NotReady));
    }
}

//! Why the daemon ended.

use thiserror::Error;

use crate::orders::remove_identity;

/// Why the daemon ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ended {
    /// A loop ended, which and why: another start goes on.
    #[error("{0}")]
    Broke(String),
    /// By an owner's word this holder of the identity stopped for good.
    #[error("{0}")]
    Stopped(String),
    /// By an owner's word the identity is gone.
    #[error("{}", remove_identity::REMOVED)]
    Removed,
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self::Broke(why)
    }
}

//! Why the daemon ended.

use std::fmt;

use crate::orders::remove_identity;

/// Why the daemon ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A loop ended, which and why: another start goes on.
    Broke(String),
    /// By an owner's word this holder of the identity stopped for good.
    Stopped(String),
    /// By an owner's word the identity is gone.
    Removed,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broke(why) | Self::Stopped(why) => why,
            Self::Removed => remove_identity::REMOVED,
        })
    }
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self::Broke(why)
    }
}

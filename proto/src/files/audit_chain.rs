//! How far an audit was read or written, and by what that is recognised.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// How far an audit was read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditChain {
    /// Lines so far.
    pub entries: u64,
    /// SHA-256 of the last of them.
    pub head: Digest,
}

impl Default for AuditChain {
    fn default() -> Self {
        Self { entries: 0, head: Digest::ZERO }
    }
}

//! A node's other name.

use serde::{Deserialize, Serialize};

use super::Label;
use crate::journal::NewName;
use crate::names::Hostname;
use crate::time::UnixTime;

/// Body of `POST /api/host/nodes/{id}/rename`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RenameForm {
    /// The name that the machine calls itself by; or, to take a rename back that is under way, the name before it.
    pub hostname: Hostname,
}

/// One rename of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rename {
    /// When.
    pub at: UnixTime,
    /// By whom.
    pub actor: Label,
    /// From which name to which.
    pub names: NewName,
}

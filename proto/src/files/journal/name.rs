//! A node's other name, as an event has it.

use serde::{Deserialize, Serialize};

use crate::base::names::Hostname;

/// A name in place of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewName {
    /// The one before.
    pub from: Hostname,
    /// The one since.
    pub to: Hostname,
}

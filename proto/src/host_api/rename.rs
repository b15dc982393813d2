//! A node's other name.

use serde::{Deserialize, Serialize};

use super::{Label, NodeLine};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::files::journal::NewName;

/// Body of `POST /api/host/nodes/{id}/rename`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RenameForm {
    /// The name that the machine calls itself by; or, to take a rename back that is under way, the name before it.
    pub hostname: Hostname,
}

/// What a rename that is under way waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RenameStep {
    /// The node has not asked for a certificate under the new name yet.
    Node,
    /// The worker has that request and has not answered it.
    Worker,
    /// The worker refused it.
    Refused,
    /// The certificate is there: the next heartbeat under the new name completes the rename.
    Heartbeat,
}

impl NodeLine {
    /// Its names for people: while it is renamed both, else with the one that its machine has given itself.
    #[must_use]
    pub fn names(&self) -> String {
        match (&self.former_hostname, &self.new_hostname) {
            (Some(former), _) => format!("{} (still {former})", self.hostname),
            (None, Some(new)) => format!("{} (calls itself {new})", self.hostname),
            (None, None) => self.hostname.to_string(),
        }
    }

    /// Whether `text` is its name; both are while it is renamed.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        [Some(&self.hostname), self.former_hostname.as_ref()].into_iter().flatten().any(|name| name.as_str() == text)
    }

    /// The name that an order for it must have: that of the certificate it holds.
    #[must_use]
    pub fn certified_name(&self) -> &Hostname {
        match self.rename_step {
            Some(RenameStep::Heartbeat) => &self.hostname,
            _ => self.former_hostname.as_ref().unwrap_or(&self.hostname),
        }
    }
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

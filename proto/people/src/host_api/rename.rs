//! A node's other name.

use serde::{Deserialize, Serialize};

use lucia_proto::base::bounded::Label;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::NewName;

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

/// One rename of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rename {
    /// When.
    pub at: UnixTime,
    /// By whom.
    pub actor: Label,
    /// From which name to which.
    pub names: NewName,
}

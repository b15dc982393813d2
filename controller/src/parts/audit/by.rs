//! Who asks for a change under `/api/host`, and from where.

use std::net::IpAddr;

use lucia_people::audit::AuditVia;
use lucia_proto::orders::owner::{OwnerId, OwnerName};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The operator, over the Unix socket: the user's id.
    Operator(u32),
    /// Somebody of the roster, over TLS.
    Owner {
        /// Who.
        id: OwnerId,
        /// What people call them.
        name: OwnerName,
        /// From where.
        from: IpAddr,
        /// By what they proved it.
        via: AuditVia,
    },
}

impl By {
    /// As the journal has it.
    #[must_use]
    pub fn actor(&self) -> String {
        match self {
            Self::Operator(uid) => format!("operator:{uid}"),
            Self::Owner { name, .. } => format!("owner:{name}"),
        }
    }

    /// Who of the roster, if not the operator.
    pub(crate) const fn owner(&self) -> Option<&OwnerId> {
        match self {
            Self::Operator(_) => None,
            Self::Owner { id, .. } => Some(id),
        }
    }
}

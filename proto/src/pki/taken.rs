//! What is remembered of something numbered that a worker signed and that was taken: roster, list of barred keys, list of
//! names. Its number only rises, for as long as the key that signed it is a worker's.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::pki::bundle::VerifiedBundle;
use crate::pki::key::{Fingerprint, NodePublicKey};

/// Number and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Mark {
    /// Its number.
    pub version: u64,
    /// The SHA-256 of its payload.
    pub sha256: Digest,
}

/// Which key signed, and which bundle said that it is a worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SignedBy {
    worker: Fingerprint,
    bundle: u64,
}

/// The mark of what was taken, as it lies on the disk of whoever took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Taken {
    version: u64,
    sha256: Digest,
    /// Absent in what was written before this was kept: then it counts whatever the bundle says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<SignedBy>,
}

/// Why something is not taken over what was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// It came with a bundle from before.
    Bundle { current: u64, offered: u64 },
    /// Its number went back.
    Older { current: u64, offered: u64 },
    /// Another content has this number.
    Conflict { version: u64 },
}

impl SignedBy {
    pub(crate) fn new(worker: &NodePublicKey, bundle: &VerifiedBundle) -> Self {
        Self { worker: worker.fingerprint(), bundle: bundle.bundle().version }
    }
}

impl Taken {
    pub(crate) const fn new(mark: Mark, by: SignedBy) -> Self {
        Self { version: mark.version, sha256: mark.sha256, by: Some(by) }
    }

    /// Which one it was.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { version: self.version, sha256: self.sha256 }
    }

    /// Whether a newer bundle no longer names the key that signed it. Then its number binds nobody: a thief of that key
    /// could have signed any, and the next worker never has to count up to it.
    fn is_retired(&self, bundle: &VerifiedBundle) -> bool {
        self.by.is_some_and(|by| {
            let is_named = bundle.workers().iter().any(|worker| worker.fingerprint() == by.worker);
            bundle.bundle().version > by.bundle && !is_named
        })
    }
}

/// Whether `offered`, verified with `bundle`, may be taken over `held`: a higher number, or the very same payload. The
/// signature may be another one, since a new worker key signs anew what there is.
pub(crate) fn supersedes(held: Option<&Taken>, offered: &Mark, bundle: &VerifiedBundle) -> Result<(), Stale> {
    let Some(held) = held else { return Ok(()) };
    if let Some(by) = held.by.filter(|by| by.bundle > bundle.bundle().version) {
        return Err(Stale::Bundle { current: by.bundle, offered: bundle.bundle().version });
    }
    if held.is_retired(bundle) {
        return Ok(());
    }
    if offered.version < held.version {
        Err(Stale::Older { current: held.version, offered: offered.version })
    } else if offered.version == held.version && offered.sha256 != held.sha256 {
        Err(Stale::Conflict { version: held.version })
    } else {
        Ok(())
    }
}

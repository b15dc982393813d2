//! The keys that the worker bars for good (design.md O8).

use std::sync::Arc;

use lucia_proto::orders::lists::Barred;
use lucia_proto::pki::key::Fingerprint;

/// Whom the worker bars.
pub(crate) enum BarredKeys {
    /// By the list that was held before the start, until a verified one takes its place: it counts also while no bundle says
    /// who signed it, and where the worker that did was retired since.
    Before(Vec<Fingerprint>),
    /// By the list that was verified last.
    Verified(Arc<Barred>),
}

impl BarredKeys {
    pub(crate) fn verified(&self) -> Option<Arc<Barred>> {
        match self {
            Self::Before(_) => None,
            Self::Verified(list) => Some(Arc::clone(list)),
        }
    }

    pub(super) fn has(&self, key: &Fingerprint) -> bool {
        match self {
            Self::Before(keys) => keys.binary_search(key).is_ok(),
            Self::Verified(list) => list.get(key).is_some(),
        }
    }
}

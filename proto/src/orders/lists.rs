//! The lists that the worker signs from its ledger: the keys that it bars, and what its nodes are called (design.md O8).
//!
//! Each travels as `{payload, signature}`; a worker key of the bundle signs the list's own first line and the payload's
//! bytes. Its number only rises, for as long as the key that signed it is a worker's. The controller refuses barred keys
//! whatever its journal says; luciactl shows the names beside the ids of an order. One wrong entry refuses the whole, and a
//! list is never shortened: what has no room is refused before it is let in ([`LIST_ENTRIES_MAX`]).

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::json::{self, JsonError};
use crate::base::limits::{
    JSON_DEPTH_MAX, LIST_AGE_MAX, LIST_AHEAD, LIST_ENTRIES_MAX, LIST_FILE_MAX, LIST_PAYLOAD_MAX,
};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::pki::bundle::VerifiedBundle;
use crate::pki::key::{Fingerprint, NodeKey};
use crate::pki::signed::SignedPayload;
use crate::pki::taken::{self, Mark, SignedBy, Stale, Taken};

/// What one of the lists is made of.
pub trait ListEntry: Clone + Serialize + DeserializeOwned {
    /// By what entries are in order and told apart.
    type Key: Ord;
    /// First line of what is signed: no signature over anything else can be taken for one over this list.
    const TAG: &'static [u8];
    /// What people call the list.
    const WHAT: &'static str;

    /// By what this one is found.
    fn key(&self) -> &Self::Key;
}

/// A key that is refused for good.
impl ListEntry for Fingerprint {
    type Key = Self;
    const TAG: &'static [u8] = b"lucia-barred-v1\n";
    const WHAT: &'static str = "the list of barred keys";

    fn key(&self) -> &Self {
        self
    }
}

/// What a node of the ledger is called. A node whose key is barred is called nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NamedNode {
    /// The node.
    pub id: NodeId,
    /// Its name.
    pub hostname: Hostname,
}

impl ListEntry for NamedNode {
    type Key = NodeId;
    const TAG: &'static [u8] = b"lucia-names-v1\n";
    const WHAT: &'static str = "the list of names";

    fn key(&self) -> &NodeId {
        &self.id
    }
}

/// What the worker signs, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct List<E> {
    /// The SHA-256 of the root: a list is of one fleet.
    pub fleet: Digest,
    /// Over 0, and only rising.
    pub number: u64,
    /// The worker's clock when it signed.
    pub time: UnixTime,
    /// All that the ledger has, in ascending order.
    pub entries: Vec<E>,
}

/// Why a list was refused.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No worker of the bundle signed these bytes.
    #[error("{0} is not signed by a worker of the bundle")]
    Signature(&'static str),
    /// The payload is no such list, or is too long.
    #[error("{what} has a payload that is no such list")]
    Json {
        /// Which list.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// Number 0 means no list.
    #[error("{0} has number 0")]
    Number(&'static str),
    /// It is another fleet's.
    #[error("{what} is for the fleet of root {fleet}")]
    OtherFleet {
        /// Which list.
        what: &'static str,
        /// Of which fleet.
        fleet: Digest,
    },
    /// More entries than there may be.
    #[error("{what} has {count} entries; {LIST_ENTRIES_MAX} are allowed")]
    Count {
        /// Which list.
        what: &'static str,
        /// Its length.
        count: usize,
    },
    /// Two entries are alike or not in ascending order.
    #[error("{0} has entries that are not in ascending order")]
    Order(&'static str),
    /// It came with a bundle from before.
    #[error("{what} came with bundle version {offered}, which is older than {current}, which is known already")]
    OlderBundle {
        /// Which list.
        what: &'static str,
        /// Version known.
        current: u64,
        /// Version it came with.
        offered: u64,
    },
    /// The number went back.
    #[error("{what} has number {offered}, which is older than {current}, which is known already")]
    Older {
        /// Which list.
        what: &'static str,
        /// Number known.
        current: u64,
        /// Number offered.
        offered: u64,
    },
    /// Another list under the number that is known already.
    #[error("{what} is another one than the one with number {number} that is known already")]
    Conflict {
        /// Which list.
        what: &'static str,
        /// The number both have.
        number: u64,
    },
}

/// A list as it travels and lies on disk: not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SignedList<E>(SignedPayload<LIST_PAYLOAD_MAX>, #[serde(skip)] PhantomData<E>);

/// The keys that the worker bars.
pub type SignedBarred = SignedList<Fingerprint>;
/// The same, checked.
pub type Barred = VerifiedList<Fingerprint>;
/// What the worker's nodes are called.
pub type SignedNames = SignedList<NamedNode>;
/// The same, checked.
pub type Names = VerifiedList<NamedNode>;

impl<E: ListEntry> SignedList<E> {
    /// Signs a list with a worker's key. Whether its entries are right is for [`SignedList::verify`].
    ///
    /// # Errors
    /// The list cannot be written as JSON.
    pub fn sign(list: &List<E>, worker_key: &NodeKey) -> Result<Self, ListError> {
        let payload = json::to_string(list).map_err(json_error::<E>)?.into_bytes();
        Ok(Self(SignedPayload::sign(E::TAG, payload, worker_key), PhantomData))
    }

    /// Puts one together that was signed elsewhere.
    #[must_use]
    pub fn from_parts(payload: Vec<u8>, signature: Vec<u8>) -> Self {
        Self(SignedPayload::new(payload, signature), PhantomData)
    }

    /// Payload and signature.
    #[must_use]
    pub fn parts(&self) -> &SignedPayload<LIST_PAYLOAD_MAX> {
        &self.0
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// They are too many, or no payload and signature.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ListError> {
        json::from_slice(bytes, LIST_FILE_MAX, JSON_DEPTH_MAX).map_err(json_error::<E>)
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// Never for a value of this type.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ListError> {
        json::to_string(self).map(String::into_bytes).map_err(json_error::<E>)
    }

    /// Checks signature, fleet, number and order.
    ///
    /// # Errors
    /// The first rule that is broken; one bad entry refuses the whole.
    pub fn verify(&self, bundle: &VerifiedBundle, fleet: &Digest) -> Result<VerifiedList<E>, ListError> {
        let signer = self.0.signer(E::TAG, bundle.workers()).ok_or(ListError::Signature(E::WHAT))?;
        let list: List<E> =
            json::from_slice(self.0.payload(), LIST_PAYLOAD_MAX, JSON_DEPTH_MAX).map_err(json_error::<E>)?;
        if list.number == 0 {
            return Err(ListError::Number(E::WHAT));
        }
        if list.fleet != *fleet {
            return Err(ListError::OtherFleet { what: E::WHAT, fleet: list.fleet });
        }
        let count = list.entries.len();
        if count > LIST_ENTRIES_MAX {
            return Err(ListError::Count { what: E::WHAT, count });
        }
        if !list.entries.is_sorted_by(|before, after| before.key() < after.key()) {
            return Err(ListError::Order(E::WHAT));
        }
        let mark = Mark { version: list.number, sha256: Digest::of(self.0.payload()) };
        Ok(VerifiedList { signed: self.clone(), taken: Taken::new(mark, SignedBy::new(signer, bundle)), list })
    }
}

fn json_error<E: ListEntry>(source: JsonError) -> ListError {
    ListError::Json { what: E::WHAT, source }
}

/// A list that a worker of the bundle signed, every entry of which is right. Only [`SignedList::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedList<E> {
    signed: SignedList<E>,
    list: List<E>,
    taken: Taken,
}

impl<E: ListEntry> VerifiedList<E> {
    /// What it says.
    #[must_use]
    pub const fn list(&self) -> &List<E> {
        &self.list
    }

    /// The signed form, as received: what is passed on.
    #[must_use]
    pub const fn signed(&self) -> &SignedList<E> {
        &self.signed
    }

    /// What whoever takes it keeps of it, so that no older one is taken.
    #[must_use]
    pub const fn taken(&self) -> &Taken {
        &self.taken
    }

    /// The entry of this key.
    #[must_use]
    pub fn get(&self, key: &E::Key) -> Option<&E> {
        let entries = &self.list.entries;
        entries.binary_search_by(|entry| entry.key().cmp(key)).ok().and_then(|at| entries.get(at))
    }

    /// Whether it is recent enough to go by what it says now.
    #[must_use]
    pub fn is_fresh(&self, now: UnixTime) -> bool {
        now.since(self.list.time) <= LIST_AGE_MAX && self.list.time.since(now) <= LIST_AHEAD
    }

    /// Whether it may be taken over the one that was taken before: a higher number, or the very same list. `bundle` is the
    /// one it was verified with.
    ///
    /// # Errors
    /// [`ListError::OlderBundle`], [`ListError::Older`], [`ListError::Conflict`].
    pub fn supersedes(&self, held: Option<&Taken>, bundle: &VerifiedBundle) -> Result<(), ListError> {
        let what = E::WHAT;
        taken::supersedes(held, &self.taken.mark(), bundle).map_err(|stale| match stale {
            Stale::Bundle { current, offered } => ListError::OlderBundle { what, current, offered },
            Stale::Older { current, offered } => ListError::Older { what, current, offered },
            Stale::Conflict { version } => ListError::Conflict { what, number: version },
        })
    }
}

#[cfg(test)]
mod tests;

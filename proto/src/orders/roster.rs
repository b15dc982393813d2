//! The roster: the worker-signed list of who may order (design.md O3).
//!
//! Who is an owner is decided at the worker. The roster travels as `{payload, signature}`; a worker key of the bundle
//! signs `lucia-roster-v1\n` and the payload's bytes. Its version only rises, for as long as the key that signed it is a
//! worker's. One wrong entry refuses the whole.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, OWNER_KEYS_MAX, OWNERS_MAX, ROSTER_PAYLOAD_MAX};
use crate::base::time::UnixTime;
use crate::orders::owner::{CredentialId, KeyUse, Owner, OwnerId, OwnerName, PageOrigin, Role};
use crate::orders::{OrderKind, OrderPolicy, PageKinds, policy};
use crate::pki::bundle::VerifiedBundle;
use crate::pki::key::{Fingerprint, KeyError, NodeKey, NodePublicKey};
use crate::pki::signed::{SignedPayload, signed_kind};
use crate::pki::taken::{self, SignedBy, Stale};
pub use crate::pki::taken::{Mark as RosterMark, Taken as TakenRoster};

/// First line of what is signed: no signature over anything else can be taken for one over a roster.
const TAG: &[u8] = b"lucia-roster-v1\n";

/// What the worker signs, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Roster {
    /// Over 0, and only rising.
    pub version: u64,
    /// The SHA-256 of the root: a roster is of one fleet.
    pub fleet: Digest,
    /// When it was made: shown, not checked.
    pub issued_at: UnixTime,
    /// Owners and viewers, at most 32.
    pub owners: Vec<Owner>,
    /// Kinds that may be signed by a passkey on the page. None unless somebody said so.
    #[serde(default, skip_serializing_if = "PageKinds::names_none")]
    pub page_kinds: PageKinds,
    /// Where that page is; there where `pageKinds` names any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_origin: Option<PageOrigin>,
    /// What is asked of intents in the whole fleet.
    #[serde(deserialize_with = "policy::open")]
    pub policy: OrderPolicy,
}

/// Why a roster was refused.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// No worker of the bundle signed these bytes.
    #[error("the roster is not signed by a worker of the bundle")]
    Signature,
    /// A worker signed them, but they are no roster.
    #[error("the roster's payload is not a roster")]
    Json(#[source] JsonError),
    /// Version 0 means no roster.
    #[error("the roster has version 0")]
    Version,
    /// It is another fleet's.
    #[error("the roster is for the fleet of root {0}")]
    OtherFleet(Digest),
    /// More or fewer entries than there may be.
    #[error("the roster has {count} {what}; {least} to {most} are allowed")]
    Count {
        /// Which list.
        what: &'static str,
        /// Its length.
        count: usize,
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// Something stands there twice that may be there once.
    #[error("the roster has the same {what} twice")]
    Twice {
        /// An owner's id or name, a key, a credential or a kind.
        what: &'static str,
    },
    /// A key of an owner is none.
    #[error("key {index} of {owner} is not a key")]
    Key {
        /// Whose.
        owner: OwnerName,
        /// Place in the list, from 0.
        index: usize,
        /// What it is not.
        #[source]
        source: KeyError,
    },
    /// A passkey without its credential id, or one for another key.
    #[error("key {index} of {owner} has a credential id if and only if it is a passkey")]
    Credential {
        /// Whose.
        owner: OwnerName,
        /// Place in the list, from 0.
        index: usize,
    },
    /// Kinds may be signed on a page, and nothing says where it is.
    #[error("the roster has page-kinds and no page-origin")]
    NoPage,
    /// It came with a bundle from before.
    #[error("the roster came with bundle version {offered}, which is older than {current}, which is known already")]
    OlderBundle {
        /// Version known.
        current: u64,
        /// Version it came with.
        offered: u64,
    },
    /// The version went back.
    #[error("roster version {offered} is older than {current}, which is known already")]
    Older {
        /// Version held.
        current: u64,
        /// Version offered.
        offered: u64,
    },
    /// Another roster under the version that is known already.
    #[error("another roster with version {version} is known already")]
    Conflict {
        /// The version both have.
        version: u64,
    },
}

signed_kind! {
    /// A roster as it travels and lies on disk: not checked yet.
    SignedRoster
}

impl SignedRoster {
    /// Signs a roster with a worker's key. Whether its entries are right is for [`SignedRoster::verify`].
    ///
    /// # Errors
    /// The roster cannot be written as JSON.
    pub fn sign(roster: &Roster, worker_key: &NodeKey) -> Result<Self, RosterError> {
        let payload = json::to_string(roster).map_err(RosterError::Json)?.into_bytes();
        Ok(Self(SignedPayload::sign(TAG, payload, worker_key)))
    }

    /// Checks signature, fleet, version and every owner and key.
    ///
    /// # Errors
    /// The first rule that is broken; one bad entry refuses the whole.
    pub fn verify(&self, bundle: &VerifiedBundle, fleet: &Digest) -> Result<VerifiedRoster, RosterError> {
        let payload = self.0.payload();
        let signer = self.0.signer(TAG, bundle.workers()).ok_or(RosterError::Signature)?;
        let by = SignedBy::new(signer, bundle);
        let roster: Roster =
            json::from_slice(payload, ROSTER_PAYLOAD_MAX, JSON_DEPTH_MAX).map_err(RosterError::Json)?;
        if roster.version == 0 {
            return Err(RosterError::Version);
        }
        if roster.fleet != *fleet {
            return Err(RosterError::OtherFleet(roster.fleet));
        }
        if roster.page_origin.is_none() && !roster.page_kinds.names_none() {
            return Err(RosterError::NoPage);
        }
        count("owners", roster.owners.len(), 0, OWNERS_MAX)?;
        if roster.page_kinds.repeats() {
            return Err(RosterError::Twice { what: "kind" });
        }
        once("owner's id", roster.owners.iter().map(|owner| &owner.id))?;
        once("owner's name", roster.owners.iter().map(|owner| &owner.name))?;
        let mut keys = Vec::new();
        for owner in &roster.owners {
            count("keys of an owner", owner.keys.len(), 1, OWNER_KEYS_MAX)?;
            for (index, key) in owner.keys.iter().enumerate() {
                let public = NodePublicKey::from_pem(&key.public_key_pem).map_err(|source| RosterError::Key {
                    owner: owner.name.clone(),
                    index,
                    source,
                })?;
                let right = match key.key_use {
                    KeyUse::OwnerKey => key.credential_id.is_none(),
                    KeyUse::OrderPasskey => key.credential_id.is_some(),
                };
                if !right {
                    return Err(RosterError::Credential { owner: owner.name.clone(), index });
                }
                keys.push(KnownKey { owner: owner.id.clone(), key_use: key.key_use, public });
            }
        }
        // A key of two owners would be two persons to who counts persons.
        once("key", keys.iter().map(|key| key.public.fingerprint()))?;
        let credentials =
            roster.owners.iter().flat_map(|owner| &owner.keys).filter_map(|key| key.credential_id.as_ref());
        once("credential", credentials.map(CredentialId::as_bytes))?;
        Ok(VerifiedRoster { signed: self.clone(), roster, keys, by })
    }
}

fn count(what: &'static str, count: usize, least: usize, most: usize) -> Result<(), RosterError> {
    if (least..=most).contains(&count) { Ok(()) } else { Err(RosterError::Count { what, count, least, most }) }
}

fn once<T: Ord>(what: &'static str, mut values: impl Iterator<Item = T>) -> Result<(), RosterError> {
    let mut seen = BTreeSet::new();
    if values.all(|value| seen.insert(value)) { Ok(()) } else { Err(RosterError::Twice { what }) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownKey {
    owner: OwnerId,
    key_use: KeyUse,
    public: NodePublicKey,
}

/// A roster that a worker of the bundle signed, every entry of which is right. Only [`SignedRoster::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedRoster {
    signed: SignedRoster,
    roster: Roster,
    keys: Vec<KnownKey>,
    by: SignedBy,
}

impl VerifiedRoster {
    /// What it says.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The signed form, as received: what is kept and passed on.
    #[must_use]
    pub fn signed(&self) -> &SignedRoster {
        &self.signed
    }

    /// Its version.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.roster.version
    }

    /// What it asks of intents.
    #[must_use]
    pub const fn policy(&self) -> &OrderPolicy {
        &self.roster.policy
    }

    /// Which roster this is.
    #[must_use]
    pub fn mark(&self) -> RosterMark {
        RosterMark { version: self.roster.version, sha256: Digest::of(self.signed.0.payload()) }
    }

    /// What is kept of it by whoever takes it, so that no older one is taken when it cannot be believed any more.
    #[must_use]
    pub fn taken(&self) -> TakenRoster {
        TakenRoster::new(self.mark(), self.by)
    }

    /// Somebody of this id.
    #[must_use]
    pub fn owner(&self, id: &OwnerId) -> Option<&Owner> {
        self.roster.owners.iter().find(|owner| owner.id == *id)
    }

    /// That owner's key, if it is there for this use.
    #[must_use]
    pub fn key(&self, owner: &OwnerId, key: &Fingerprint, key_use: KeyUse) -> Option<&NodePublicKey> {
        let known = self.keys.iter().find(|known| known.public.fingerprint() == *key)?;
        (known.owner == *owner && known.key_use == key_use).then_some(&known.public)
    }

    /// Whose owner key this is.
    #[must_use]
    pub fn caller(&self, key: &Fingerprint) -> Option<(&Owner, &NodePublicKey)> {
        let known = self.keys.iter().find(|known| known.public.fingerprint() == *key)?;
        let owner = self.owner(&known.owner)?;
        (known.key_use == KeyUse::OwnerKey).then_some((owner, &known.public))
    }

    /// Whether a passkey of this id or key stands in it, for whatever use: such a one signs nobody in.
    #[must_use]
    pub fn has_passkey(&self, id: &CredentialId, key: &Fingerprint) -> bool {
        let mut keys = self.roster.owners.iter().flat_map(|owner| &owner.keys);
        keys.any(|known| known.credential_id.as_ref() == Some(id))
            || self.keys.iter().any(|known| known.public.fingerprint() == *key)
    }

    /// Where intents of `kind` may be signed by a passkey; nothing where they may not.
    #[must_use]
    pub fn page_origin(&self, kind: OrderKind) -> Option<&PageOrigin> {
        self.roster.page_origin.as_ref().filter(|_| self.roster.page_kinds.contains(&kind))
    }

    /// Whether anybody may order.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        self.roster.owners.iter().any(|owner| owner.role == Role::Owner)
    }
}

/// Takes a roster over the one that was taken before: a higher version, or the very same payload. The signature may be
/// another, since a new worker key signs the roster that there is anew. `bundle` is the one it was verified with.
///
/// Of a worker whose key a newer bundle retired nothing is held against the new roster. The next worker signed none before
/// that bundle, so what it ever signed is as new as the last honest one of the former key; and no order is taken by a roster
/// older than the one the worker speaks of when it says how late it is.
///
/// # Errors
/// [`RosterError::OlderBundle`] beside a bundle from before, [`RosterError::Older`] for a lower version,
/// [`RosterError::Conflict`] for another roster with the same one.
pub fn accept(
    held: Option<&TakenRoster>,
    new: VerifiedRoster,
    bundle: &VerifiedBundle,
) -> Result<VerifiedRoster, RosterError> {
    match taken::supersedes(held, &new.mark(), bundle) {
        Ok(()) => Ok(new),
        Err(Stale::Bundle { current, offered }) => Err(RosterError::OlderBundle { current, offered }),
        Err(Stale::Older { current, offered }) => Err(RosterError::Older { current, offered }),
        Err(Stale::Conflict { version }) => Err(RosterError::Conflict { version }),
    }
}

#[cfg(test)]
mod tests;

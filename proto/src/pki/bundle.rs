//! The bundle: the root-signed file of trust (design.md F1; wire-facts 2.2).
//!
//! It says which CAs issue leaves, which keys the enrollment worker signs answers with, and which keys sign
//! releases. The root signs `lucia-bundle-v1\n` and its exact bytes; its version only rises. One wrong CA or key refuses
//! the whole.
//!
//! Bundles of before that first line are signed as they are, and are taken still: they begin with `{`, as nothing with a
//! first line does, so neither can stand for the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::extensions::Extensions;
use crate::base::json::{self, JsonError};
use crate::base::limits::{BUNDLE_ENTRIES_MAX, BUNDLE_PAYLOAD_MAX, JSON_DEPTH_MAX};
use crate::base::time::UnixTime;
use crate::pki::certificate::CertificateError;
use crate::pki::chain::Root;
use crate::pki::key::{KeyError, NodeKey, NodePublicKey};
use crate::pki::signed::{SignedPayload, signed_kind};
use crate::pki::x509::Parsed;

/// The first line of what the root signs.
const TAG: &[u8] = b"lucia-bundle-v1\n";
/// Bundles signed before there was one.
const BEFORE: &[u8] = b"";

/// What the root signs, as JSON. Member names are those of the reference, ours are `workers` and `release_keys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Over 0, and only rising.
    pub version: u64,
    /// When it was made: shown, not checked.
    pub issued: UnixTime,
    /// CAs signed directly by the root, PEM, at most 8.
    pub issuing_cas: Vec<String>,
    /// Roles a CA may issue for, by the SHA-256 of its DER. A CA without an entry may issue for any; one that issues
    /// node leaves has an empty list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Digest, Vec<String>>,
    /// Keys that sign enrolment answers, PEM SubjectPublicKeyInfo, at most 8.
    #[serde(default)]
    pub workers: Vec<String>,
    /// Keys that sign release manifests, PEM SubjectPublicKeyInfo, at most 8.
    #[serde(default)]
    pub release_keys: Vec<String>,
    /// What this version does not know: what a later one adds for its own readers costs the others nothing.
    #[serde(default, skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// Why a bundle was refused.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The root did not sign these bytes.
    #[error("the bundle is not signed by the root")]
    Signature,
    /// The root signed them, but they are no bundle.
    #[error("the bundle's payload is not a bundle")]
    Json(#[source] JsonError),
    /// Version 0 means no bundle.
    #[error("the bundle has version 0")]
    Version,
    /// More entries than there may be.
    #[error("the bundle lists {count} {what}; at most {BUNDLE_ENTRIES_MAX} are allowed")]
    TooMany {
        /// Which list.
        what: &'static str,
        /// Its length.
        count: usize,
    },
    /// An issuing CA is not an authority signed directly by the root.
    #[error("issuing CA {index} of the bundle is not an authority signed by the root")]
    IssuingCa {
        /// Place in the list, from 0.
        index: usize,
        /// The rule it breaks.
        #[source]
        source: CertificateError,
    },
    /// A key of the bundle is not a P-256 public key in PEM.
    #[error("key {index} of the bundle's {what} is not a key")]
    Key {
        /// Which list.
        what: &'static str,
        /// Place in the list, from 0.
        index: usize,
        /// What it is not.
        #[source]
        source: KeyError,
    },
    /// The version went back.
    #[error("bundle version {offered} is older than {current}, which is known already")]
    Older {
        /// Version held.
        current: u64,
        /// Version offered.
        offered: u64,
    },
    /// Another bundle under the version that is known already.
    #[error("another bundle with version {version} is known already")]
    Conflict {
        /// The version both have.
        version: u64,
    },
}

signed_kind! {
    /// A bundle as it travels and lies on disk: not checked yet.
    SignedBundle
}

impl SignedBundle {
    /// Signs a bundle with the root's key. Whether its CAs and keys are right is for [`SignedBundle::verify`].
    ///
    /// # Errors
    /// The bundle cannot be written as JSON.
    pub fn sign(bundle: &Bundle, root_key: &NodeKey) -> Result<Self, BundleError> {
        let payload = json::to_string(bundle).map_err(BundleError::Json)?.into_bytes();
        Ok(Self(SignedPayload::sign(TAG, payload, root_key)))
    }

    /// Checks signature, version, every CA and every key. The CAs' lifetimes are looked at when a chain is built.
    ///
    /// # Errors
    /// The first rule that is broken; one bad entry refuses the whole.
    pub fn verify(&self, root: &Root) -> Result<VerifiedBundle, BundleError> {
        let payload = self.0.payload();
        let root_key = [root.public_key().clone()];
        if ![TAG, BEFORE].iter().any(|tag| self.0.is_of(tag, &root_key)) {
            return Err(BundleError::Signature);
        }
        let bundle: Bundle =
            json::from_slice(payload, BUNDLE_PAYLOAD_MAX, JSON_DEPTH_MAX).map_err(BundleError::Json)?;
        if bundle.version == 0 {
            return Err(BundleError::Version);
        }
        for (what, count) in [
            ("issuing CAs", bundle.issuing_cas.len()),
            ("limits", bundle.limits.len()),
            ("workers", bundle.workers.len()),
            ("release keys", bundle.release_keys.len()),
        ] {
            if count > BUNDLE_ENTRIES_MAX {
                return Err(BundleError::TooMany { what, count });
            }
        }
        let issuing = bundle.issuing_cas.iter().enumerate().map(|(index, text)| {
            root.check_issuing(text, index).map_err(|source| BundleError::IssuingCa { index, source })
        });
        Ok(VerifiedBundle {
            issuing: issuing.collect::<Result<_, _>>()?,
            workers: keys("workers", &bundle.workers)?,
            release_keys: keys("release keys", &bundle.release_keys)?,
            signed: self.clone(),
            bundle,
        })
    }
}

fn keys(what: &'static str, texts: &[String]) -> Result<Vec<NodePublicKey>, BundleError> {
    let read = |(index, text): (usize, &String)| {
        NodePublicKey::from_pem(text).map_err(|source| BundleError::Key { what, index, source })
    };
    texts.iter().enumerate().map(read).collect()
}

/// A bundle the root signed, every entry of which is right. Only [`SignedBundle::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBundle {
    signed: SignedBundle,
    bundle: Bundle,
    issuing: Vec<Parsed>,
    workers: Vec<NodePublicKey>,
    release_keys: Vec<NodePublicKey>,
}

impl VerifiedBundle {
    /// What it says.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The signed form, as received: what is kept and passed on.
    #[must_use]
    pub fn signed(&self) -> &SignedBundle {
        &self.signed
    }

    /// Keys that sign enrolment answers.
    #[must_use]
    pub fn workers(&self) -> &[NodePublicKey] {
        &self.workers
    }

    /// Keys that sign release manifests.
    #[must_use]
    pub fn release_keys(&self) -> &[NodePublicKey] {
        &self.release_keys
    }

    /// The issuing CAs, DER.
    pub fn issuing_cas(&self) -> impl Iterator<Item = &[u8]> {
        self.issuing.iter().map(Parsed::der)
    }
}

/// Takes a bundle over the one held: a higher version, or the very same pair of payload and signature.
///
/// # Errors
/// [`BundleError::Older`] for a lower version, [`BundleError::Conflict`] for another bundle with the same one.
pub fn accept(current: Option<&VerifiedBundle>, new: VerifiedBundle) -> Result<VerifiedBundle, BundleError> {
    let Some(current) = current else { return Ok(new) };
    let (held, offered) = (current.bundle.version, new.bundle.version);
    if offered < held {
        Err(BundleError::Older { current: held, offered })
    } else if offered == held && current.signed != new.signed {
        Err(BundleError::Conflict { version: held })
    } else {
        Ok(new)
    }
}

#[cfg(test)]
mod tests;

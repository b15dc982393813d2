//! An owner's signature over one request, for REST and `luciactl` (design.md O1).
//!
//! The owner signs `lucia-owner-v1`, a fresh challenge of scope `owner` and a text that names method, path and the hash
//! of the body. The first line keeps it apart from what nodes sign and from what is signed under intents: whatever the
//! controller offers as a challenge, the signature is worth nothing anywhere else.

use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::base::code::Code;
use crate::base::digest::Digest;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, OWNER_PROOF_HEADER_MAX, OWNER_REQUEST_MAX, REQUEST_TARGET_MAX};
use crate::checked_text;
use crate::node::challenge::{Challenge, ChallengeId, Nonce, framed};
use crate::orders::owner::{Owner, OwnerId, Role};
use crate::orders::roster::VerifiedRoster;
use crate::pki::key::{Fingerprint, KeyError, NodeKey, NodePublicKey, Signature};

/// First line of every text that an owner signs for a request.
pub const OWNER_TEXT_HEAD: &str = "lucia-owner-v1";
/// Name of the header in which a request carries its owner's proof.
pub const OWNER_PROOF_HEADER: &str = "X-Lucia-Owner-Proof";

checked_text! {
    /// Path and query of a request, as they stand in its first line.
    Target, BadTarget, "a path that begins with /, at most 1024 printable ASCII characters without spaces",
    |text| text.starts_with('/') && text.len() <= REQUEST_TARGET_MAX && text.bytes().all(|b| b.is_ascii_graphic())
}

/// The methods of `/api/host`. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Changes.
    Post,
    /// Removes.
    Delete,
}

impl Method {
    /// As it stands in a request's first line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    /// The method of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Delete].into_iter().find(|method| method.as_str() == word)
    }
}

/// What is signed: this request and no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnerRequest {
    /// The SHA-256 of the root: an owner of two fleets signs for one of them.
    pub fleet: Digest,
    /// Who asks.
    pub owner: OwnerId,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: Target,
    /// The SHA-256 of the body's bytes; of none where there is none.
    pub body_sha256: Digest,
}

/// A request that arrived, as its receiver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The SHA-256 of the root of the receiver's fleet.
    pub fleet: &'a Digest,
    /// The method.
    pub method: Method,
    /// Path and query, as they arrived.
    pub target: &'a str,
    /// The body, as it arrived.
    pub body: &'a [u8],
}

/// The proof as it travels in [`OWNER_PROOF_HEADER`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OwnerProof {
    /// The challenge that was signed over.
    pub challenge_id: ChallengeId,
    /// The key that signed.
    pub key: Fingerprint,
    /// An [`OwnerRequest`], as the very text that was signed.
    pub request_json: String,
    /// P1363, 64 bytes in 88 base64 characters.
    pub signature: String,
}

/// Why a request is not believed.
#[derive(Debug, thiserror::Error)]
pub enum OwnerProofError {
    /// The header is not a proof.
    #[error("the header is not base64 of an owner's proof of at most {OWNER_PROOF_HEADER_MAX} characters")]
    Header,
    /// The request that was signed cannot be written or read.
    #[error("the signed request is malformed")]
    Request(#[source] JsonError),
    /// The roster has no owner key of this fingerprint.
    #[error("the roster has no owner key {0}")]
    Unknown(Fingerprint),
    /// The signature is malformed or is not the key's.
    #[error("the owner's signature is refused")]
    Signature(#[source] KeyError),
    /// Another request was signed than the one that arrived.
    #[error("the {field} that was signed is not the one that arrived")]
    Field {
        /// Its name on the wire.
        field: &'static str,
    },
}

impl OwnerProofError {
    /// What the caller is told: for an unknown key, a wrong one and another request one and the same.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Header => Code::InvalidRequest,
            Self::Request(_) | Self::Unknown(_) | Self::Signature(_) | Self::Field { .. } => Code::ActorRequired,
        }
    }
}

impl OwnerProof {
    /// Signs a request over a challenge.
    ///
    /// # Errors
    /// The request cannot be written as JSON.
    pub fn sign(request: &OwnerRequest, challenge: &Challenge, key: &NodeKey) -> Result<Self, OwnerProofError> {
        let request_json = json::to_string(request).map_err(OwnerProofError::Request)?;
        let text = signed_text(&challenge.challenge_id, &challenge.nonce, &request_json);
        Ok(Self {
            challenge_id: challenge.challenge_id.clone(),
            key: key.public().fingerprint(),
            signature: key.sign(&text).to_text(),
            request_json,
        })
    }

    /// The header's value.
    #[must_use]
    pub fn to_header(&self) -> String {
        STANDARD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the header's value.
    ///
    /// # Errors
    /// [`OwnerProofError::Header`] when it is longer than the limit, not base64 or not strict JSON of this shape.
    pub fn from_header(value: &[u8]) -> Result<Self, OwnerProofError> {
        if value.len() > OWNER_PROOF_HEADER_MAX {
            return Err(OwnerProofError::Header);
        }
        let bytes = STANDARD.decode(value).map_err(|_| OwnerProofError::Header)?;
        json::from_slice(&bytes, OWNER_PROOF_HEADER_MAX, JSON_DEPTH_MAX).map_err(|_| OwnerProofError::Header)
    }

    /// Checks the signature, then reads the request from the very bytes that were signed, then compares it with the one
    /// that arrived. For a key that the roster does not have one verification is done all the same, with `dummy`.
    ///
    /// # Errors
    /// Any [`OwnerProofError`] but the header's.
    pub fn verify(
        &self,
        nonce: &Nonce,
        roster: &VerifiedRoster,
        dummy: &NodePublicKey,
        arrived: &Arrived<'_>,
    ) -> Result<VerifiedRequest, OwnerProofError> {
        let signature = Signature::from_text(&self.signature).map_err(OwnerProofError::Signature)?;
        let text = signed_text(&self.challenge_id, nonce, &self.request_json);
        let caller = roster.caller(&self.key);
        let verified = caller.map_or(dummy, |(_, key)| key).verify(&text, &signature);
        let (owner, _) = caller.ok_or(OwnerProofError::Unknown(self.key))?;
        verified.map_err(OwnerProofError::Signature)?;
        let request: OwnerRequest =
            json::from_str(&self.request_json, OWNER_REQUEST_MAX, JSON_DEPTH_MAX).map_err(OwnerProofError::Request)?;
        for (field, same) in [
            ("fleet", request.fleet == *arrived.fleet),
            // Whoever has a further key of an owner's does not know that owner's id before the first answer.
            ("owner", request.owner == owner.id || request.owner == OwnerId::of(&self.key)),
            ("method", request.method == arrived.method),
            ("target", request.target.as_str() == arrived.target),
            ("bodySha256", request.body_sha256 == Digest::of(arrived.body)),
        ] {
            if !same {
                return Err(OwnerProofError::Field { field });
            }
        }
        Ok(VerifiedRequest { request, owner: owner.clone() })
    }
}

/// The bytes an owner signs.
fn signed_text(id: &ChallengeId, nonce: &Nonce, request_json: &str) -> Vec<u8> {
    framed(OWNER_TEXT_HEAD, id, nonce, request_json)
}

/// A request that somebody of the roster signed, and that is the one that arrived. Only [`OwnerProof::verify`] makes one.
#[derive(Debug)]
pub struct VerifiedRequest {
    request: OwnerRequest,
    owner: Owner,
}

impl VerifiedRequest {
    /// Who asks, as the roster has them.
    #[must_use]
    pub const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Whether they may do what `role` may.
    ///
    /// # Errors
    /// [`Code::RoleRequired`] when they may not.
    pub fn may(&self, role: Role) -> Result<(), Code> {
        if self.owner.role >= role { Ok(()) } else { Err(Code::RoleRequired) }
    }
}

impl Deref for VerifiedRequest {
    type Target = OwnerRequest;
    fn deref(&self) -> &OwnerRequest {
        &self.request
    }
}

#[cfg(test)]
mod tests;

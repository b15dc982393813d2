//! A secret for one node, sealed to its key (design.md W4; RFC 9180).
//!
//! HPKE in base mode: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. What it is bound to is its `info`, so
//! that a sealed text moved into another node's answer, or into the answer to another CSR, does not open:
//!
//! ```text
//! lucia-reader-v1\n{nodeId}\n{SHA-256 of the CSR's DER, 64 hex digits}
//! ```
//!
//! Whoever carries it (the controller, a queue file, a log) learns its length and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::DhP256HkdfSha256;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS, Serializable as _};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::pki::key::{NodeKey, NodePublicKey};

type Kem256 = DhP256HkdfSha256;

/// Bytes of an encapsulated key: an uncompressed point.
const ENC_LEN: usize = 65;
/// Bytes AES-256-GCM adds.
const TAG_LEN: usize = 16;
/// Longest secret: protects whoever opens one.
pub const SECRET_MAX: usize = 256;

/// A sealed secret as it travels: `{"enc": base64, "ciphertext": base64}`, padded standard base64 in its one form.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Sealed {
    enc: [u8; ENC_LEN],
    ciphertext: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    enc: String,
    ciphertext: String,
}

/// Why a secret was not sealed or not opened. Holds nothing of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealedError {
    /// Not `{enc, ciphertext}` in their lengths.
    #[error(
        "a sealed secret: enc of {ENC_LEN} bytes and ciphertext of {} to {} bytes, in padded base64",
        TAG_LEN + 1,
        TAG_LEN + SECRET_MAX
    )]
    Form,
    /// Empty or too long.
    #[error("a secret to be sealed has 1 to {SECRET_MAX} bytes")]
    Length,
    /// The key cannot be sealed to.
    #[error("nothing can be sealed to this key")]
    Key,
    /// Sealed to another key, for another node or another CSR, or damaged.
    #[error("the sealed secret is not for this key, node and CSR, or it is damaged")]
    Open,
}

/// The ephemeral key's seed as the source of randomness that hpke asks for 32 bytes, once.
struct Seed<'a>(&'a Zeroizing<[u8; 32]>);

impl TryRng for Seed<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        for (to, from) in out.iter_mut().zip(self.0.iter().cycle()) {
            *to = *from;
        }
        Ok(())
    }
}

impl TryCryptoRng for Seed<'_> {}

impl Sealed {
    /// Seals `secret` (1 to [`SECRET_MAX`] bytes) to a node's key, for its answer to this CSR.
    ///
    /// `ephemeral` must be 32 fresh random bytes: the same ones twice would tell that two secrets are the same.
    ///
    /// # Errors
    /// [`SealedError::Length`], [`SealedError::Key`].
    pub fn seal(
        secret: &[u8],
        key: &NodePublicKey,
        node_id: &NodeId,
        csr_sha256: &Digest,
        ephemeral: &Zeroizing<[u8; 32]>,
    ) -> Result<Self, SealedError> {
        if secret.is_empty() || secret.len() > SECRET_MAX {
            return Err(SealedError::Length);
        }
        let to = <Kem256 as Kem>::PublicKey::from_bytes(key.point()).map_err(|_| SealedError::Key)?;
        let (enc, ciphertext) = hpke::single_shot_seal_with_rng::<AesGcm256, HkdfSha256, Kem256>(
            &OpModeS::Base,
            &to,
            &info(node_id, csr_sha256),
            secret,
            &[],
            &mut Seed(ephemeral),
        )
        .map_err(|_| SealedError::Key)?;
        let enc = enc.to_bytes().as_slice().try_into().map_err(|_| SealedError::Key)?;
        Ok(Self { enc, ciphertext })
    }

    /// Opens it with the node's key; wiped from memory when dropped.
    ///
    /// # Errors
    /// [`SealedError::Open`]: not for this key, node and CSR, or changed on its way.
    pub fn open(
        &self,
        key: &NodeKey,
        node_id: &NodeId,
        csr_sha256: &Digest,
    ) -> Result<Zeroizing<Vec<u8>>, SealedError> {
        let scalar = key.scalar();
        let key = <Kem256 as Kem>::PrivateKey::from_bytes(scalar.as_slice()).map_err(|_| SealedError::Open)?;
        let enc = <Kem256 as Kem>::EncappedKey::from_bytes(&self.enc).map_err(|_| SealedError::Open)?;
        hpke::single_shot_open::<AesGcm256, HkdfSha256, Kem256>(
            &OpModeR::Base,
            &key,
            &enc,
            &info(node_id, csr_sha256),
            &self.ciphertext,
            &[],
        )
        .map(Zeroizing::new)
        .map_err(|_| SealedError::Open)
    }
}

fn info(node_id: &NodeId, csr_sha256: &Digest) -> Vec<u8> {
    format!("lucia-reader-v1\n{node_id}\n{csr_sha256}").into_bytes()
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes)", self.ciphertext.len())
    }
}

impl TryFrom<Wire> for Sealed {
    type Error = SealedError;

    fn try_from(wire: Wire) -> Result<Self, SealedError> {
        // Before decoding: what is too long is not worth the work.
        if wire.enc.len() > 2 * ENC_LEN || wire.ciphertext.len() > 2 * (TAG_LEN + SECRET_MAX) {
            return Err(SealedError::Form);
        }
        let read = |text: &str| STANDARD.decode(text).map_err(|_| SealedError::Form);
        let enc = read(&wire.enc)?.try_into().map_err(|_| SealedError::Form)?;
        let ciphertext = read(&wire.ciphertext)?;
        if !(TAG_LEN + 1..=TAG_LEN + SECRET_MAX).contains(&ciphertext.len()) {
            return Err(SealedError::Form);
        }
        Ok(Self { enc, ciphertext })
    }
}

impl From<Sealed> for Wire {
    fn from(sealed: Sealed) -> Self {
        Self { enc: STANDARD.encode(sealed.enc), ciphertext: STANDARD.encode(sealed.ciphertext) }
    }
}

#[cfg(test)]
mod tests;

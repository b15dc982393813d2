//! The P-256 key that is a node, its fingerprint, and the 64-byte signatures it makes.
//!
//! Signing is deterministic (RFC 6979, p256), so a machine with bad randomness leaks nothing;
//! verifying is done by ring, four times faster (design.md part 3).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use ring::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::limits::PUBLIC_KEY_PEM_MAX;
use crate::base::pem;

/// DER of a SubjectPublicKeyInfo for a P-256 key up to its point (RFC 5480, section 2): named curve,
/// uncompressed point. Any other spelling of a key is refused, so that a key has one fingerprint.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Length of that DER: the prefix and an uncompressed point of 65 bytes.
const SPKI_LEN: usize = SPKI_PREFIX.len() + 65;
/// Label of a public key in PEM.
pub const PUBLIC_KEY_LABEL: &str = "PUBLIC KEY";
/// Base64 characters of a 64-byte signature.
const SIGNATURE_TEXT_LEN: usize = 88;

/// Why something is not a key or a signature of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Not a P-256 public key in its one accepted form.
    #[error("not a P-256 public key (named curve, uncompressed point)")]
    NotP256,
    /// Not a public key in strict PEM.
    #[error("not a public key in PEM")]
    Pem(#[source] pem::PemError),
    /// Not a private key in PKCS#8 PEM.
    #[error("not a P-256 private key in PKCS#8 PEM")]
    NotPrivateKey,
    /// Not a signature of 64 bytes in 88 base64 characters.
    #[error("not a signature: 64 bytes in 88 base64 characters")]
    NotSignature,
    /// The signature is not this key's over these bytes.
    #[error("the signature does not verify")]
    Mismatch,
}

/// The SHA-256 of a public key's DER: this is the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Digest);

impl Fingerprint {
    /// The node this key is: the first 32 hex digits.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        let hex: String = self.0.to_string().chars().take(32).collect();
        // 32 lower-case hex digits by construction; the dummy is unreachable and matches no key.
        hex.parse().unwrap_or_else(|_| unreachable_id())
    }

    /// What a person compares: the first 12 hex digits as `xxxx-xxxx-xxxx`.
    #[must_use]
    pub fn verification_code(&self) -> VerificationCode {
        VerificationCode::of(&self.0)
    }

    /// How every screen shows it to be compared: two rows of eight groups of four digits, a space between groups.
    #[must_use]
    pub fn rows(&self) -> [String; 2] {
        let text = self.0.to_string();
        let (first, second) = text.split_at(text.len() / 2);
        [in_groups(first), in_groups(second)]
    }

    /// What a person typed or copied from a screen: the 64 digits in any case, with spaces and line ends anywhere between.
    ///
    /// # Errors
    /// [`BadDigest`](crate::base::digest::BadDigest): something else is left without the spaces.
    pub fn typed(text: &str) -> Result<Self, crate::base::digest::BadDigest> {
        text.split_whitespace().collect::<String>().to_ascii_lowercase().parse()
    }
}

/// A space after each four digits.
fn in_groups(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 4);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && place % 4 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A fingerprint's hex always parses as an id: the lengths are constants of this crate.
fn unreachable_id() -> NodeId {
    unreachable!("a fingerprint has 64 lower-case hex digits")
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", self.0)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = crate::base::digest::BadDigest;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The short form of a fingerprint that a person reads from one screen to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VerificationCode(String);

/// The text is not a verification code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a verification code: 12 hex digits such as 1a2b-3c4d-5e6f")]
pub struct BadVerificationCode;

impl VerificationCode {
    /// The short form of any SHA-256 value.
    #[must_use]
    pub fn of(value: &Digest) -> Self {
        let hex = value.to_string();
        let group = |at: usize| hex.get(at..at + 4).unwrap_or_default();
        Self(format!("{}-{}-{}", group(0), group(4), group(8)))
    }

    /// The code as `xxxx-xxxx-xxxx`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VerificationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for VerificationCode {
    type Err = BadVerificationCode;

    /// As a person types it: upper or lower case, with or without hyphens in their places.
    fn from_str(text: &str) -> Result<Self, BadVerificationCode> {
        let lower = text.to_ascii_lowercase();
        let hex: String = match lower.len() {
            12 => lower,
            14 if lower.bytes().enumerate().all(|(at, b)| (b == b'-') == matches!(at, 4 | 9)) => lower.replace('-', ""),
            _ => return Err(BadVerificationCode),
        };
        if !crate::base::ids::is_lower_hex(&hex) {
            return Err(BadVerificationCode);
        }
        let group = |at: usize| hex.get(at..at + 4).unwrap_or_default();
        Ok(Self(format!("{}-{}-{}", group(0), group(4), group(8))))
    }
}

impl Serialize for VerificationCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for VerificationCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let code: Self = text.parse().map_err(de::Error::custom)?;
        if code.0 == text { Ok(code) } else { Err(de::Error::custom(BadVerificationCode)) }
    }
}

/// A signature in IEEE P1363 form: r and s, 32 bytes each.
///
/// Not an identifier: `(r, n - s)` verifies as well, so nothing may be keyed by these bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Reads exactly 88 characters of padded standard base64.
    ///
    /// # Errors
    /// [`KeyError::NotSignature`] for every other text.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        if text.len() != SIGNATURE_TEXT_LEN {
            return Err(KeyError::NotSignature);
        }
        let bytes = STANDARD.decode(text).map_err(|_| KeyError::NotSignature)?;
        bytes.try_into().map(Self).map_err(|_| KeyError::NotSignature)
    }

    /// The 88 characters.
    #[must_use]
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }
}

/// A P-256 public key in its one accepted form.
#[derive(Clone, PartialEq, Eq)]
pub struct NodePublicKey {
    der: [u8; SPKI_LEN],
    fingerprint: Fingerprint,
}

impl NodePublicKey {
    /// Reads the DER of a SubjectPublicKeyInfo: exactly 91 bytes, named curve, a point on it.
    ///
    /// # Errors
    /// [`KeyError::NotP256`] for everything else (threats.md S-10).
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let der: [u8; SPKI_LEN] = der.try_into().map_err(|_| KeyError::NotP256)?;
        let point = der.strip_prefix(&SPKI_PREFIX).ok_or(KeyError::NotP256)?;
        p256::PublicKey::from_sec1_bytes(point).map_err(|_| KeyError::NotP256)?;
        Ok(Self { der, fingerprint: Fingerprint(Digest::of(&der)) })
    }

    /// Reads one strict PEM block of type `PUBLIC KEY`.
    ///
    /// # Errors
    /// When the text is not that, or not a P-256 key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = pem::one(text, PUBLIC_KEY_LABEL, PUBLIC_KEY_PEM_MAX).map_err(KeyError::Pem)?;
        Self::from_der(&der)
    }

    /// The key as one PEM block.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::encode(&self.der, PUBLIC_KEY_LABEL)
    }

    /// The SubjectPublicKeyInfo in DER.
    #[must_use]
    pub const fn der(&self) -> &[u8] {
        &self.der
    }

    /// The node this key is.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Checks a P1363 signature of this key over `text`.
    ///
    /// # Errors
    /// [`KeyError::Mismatch`] when it is not.
    pub fn verify(&self, text: &[u8], signature: &Signature) -> Result<(), KeyError> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.point())
            .verify(text, &signature.0)
            .map_err(|_| KeyError::Mismatch)
    }

    /// Checks an ASN.1 DER signature of this key over `text`: CSRs, bundles and the worker's answers.
    ///
    /// # Errors
    /// [`KeyError::Mismatch`] when it is not.
    pub fn verify_der(&self, text: &[u8], signature: &[u8]) -> Result<(), KeyError> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.point())
            .verify(text, signature)
            .map_err(|_| KeyError::Mismatch)
    }

    /// The uncompressed point, 65 bytes.
    pub(crate) fn point(&self) -> &[u8] {
        self.der.get(SPKI_PREFIX.len()..).unwrap_or_default()
    }
}

impl fmt::Debug for NodePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodePublicKey({})", self.fingerprint)
    }
}

/// A P-256 private key. It is never copied into a log: its Debug shows the fingerprint alone.
pub struct NodeKey {
    secret: p256::ecdsa::SigningKey,
    public: NodePublicKey,
}

impl NodeKey {
    /// The key these 32 random bytes are, or nothing for the few values (under one in 2^32) that are
    /// no key: the caller draws again.
    #[must_use]
    pub fn from_random(bytes: &Zeroizing<[u8; 32]>) -> Option<Self> {
        let secret = p256::ecdsa::SigningKey::from_slice(bytes.as_slice()).ok()?;
        Self::with_public(secret).ok()
    }

    /// Reads a PKCS#8 PEM.
    ///
    /// # Errors
    /// [`KeyError::NotPrivateKey`] when the text is not one.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let secret = p256::ecdsa::SigningKey::from_pkcs8_pem(text).map_err(|_| KeyError::NotPrivateKey)?;
        Self::with_public(secret)
    }

    /// The key as PKCS#8 PEM, wiped from memory when dropped.
    ///
    /// # Errors
    /// [`KeyError::NotPrivateKey`] when the key cannot be encoded, which no key of ours is.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.secret.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::NotPrivateKey)
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> &NodePublicKey {
        &self.public
    }

    /// Signs `text` in P1363 form.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> Signature {
        let signature: p256::ecdsa::Signature = self.secret.sign(text);
        Signature(signature.to_bytes().into())
    }

    /// Signs `text` in ASN.1 DER form.
    #[must_use]
    pub fn sign_der(&self, text: &[u8]) -> Vec<u8> {
        let signature: p256::ecdsa::DerSignature = self.secret.sign(text);
        signature.as_bytes().to_vec()
    }

    /// The private scalar, for opening what was sealed to this key; wiped from memory when dropped.
    pub(crate) fn scalar(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.to_bytes().into())
    }

    fn with_public(secret: p256::ecdsa::SigningKey) -> Result<Self, KeyError> {
        let der = secret.verifying_key().to_public_key_der().map_err(|_| KeyError::NotP256)?;
        Ok(Self { public: NodePublicKey::from_der(der.as_bytes())?, secret })
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.public.fingerprint)
    }
}

#[cfg(test)]
mod tests;

//! An SSH public key as it may stand on a node: kind and blob, and nothing that a person could add to them
//! (wire-facts.md 3.6; threats.md B-27, D-4).
//!
//! `authorized_keys` is read line by line and a line may begin with options, so a line feed is one more key and an option
//! is one more right. A key is therefore taken apart here and written anew: the options are refused, the comment is
//! dropped, and the blob must hold exactly the key that the first word names. The crate `ssh-key` would bring a second
//! p256 and a second sha2 along for what these five kinds take.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::base::digest::Digest;
use crate::base::limits::{RSA_BITS_MAX, RSA_BITS_MIN, SSH_KEY_LINE_MAX};

/// The kinds of key a node takes. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SshKeyKind {
    /// `ssh-ed25519`.
    Ed25519,
    /// `ecdsa-sha2-nistp256`.
    EcdsaP256,
    /// `ssh-rsa` of 2048 bits and more.
    Rsa,
    /// `sk-ssh-ed25519@openssh.com`: a FIDO authenticator holds the private key.
    FidoEd25519,
    /// `sk-ecdsa-sha2-nistp256@openssh.com`: a FIDO authenticator holds the private key.
    FidoEcdsaP256,
}

impl SshKeyKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Ed25519, Self::EcdsaP256, Self::Rsa, Self::FidoEd25519, Self::FidoEcdsaP256];

    /// As OpenSSH names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256",
            Self::Rsa => "ssh-rsa",
            Self::FidoEd25519 => "sk-ssh-ed25519@openssh.com",
            Self::FidoEcdsaP256 => "sk-ecdsa-sha2-nistp256@openssh.com",
        }
    }
}

/// A checked key. Its text is `kind base64`, the one spelling there is of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SshKey {
    kind: SshKeyKind,
    blob: Vec<u8>,
}

/// Why a line is not a key that a node takes. Repeats nothing of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadSshKey {
    /// The half that nobody else is to have.
    #[error("this is a private key: give the .pub file beside it")]
    Private,
    /// Too long, or a character that no line of such a file may have.
    #[error("a key is one line of at most {SSH_KEY_LINE_MAX} printable characters")]
    Line,
    /// The first word is no kind, which it is also not with options before it.
    #[error(
        "a key begins with ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa or a FIDO kind (sk-ssh-ed25519@openssh.com, \
         sk-ecdsa-sha2-nistp256@openssh.com); options before it are not accepted"
    )]
    Kind,
    /// The second word is not base64 as OpenSSH writes it.
    #[error("the second word is not the base64 of a key")]
    Base64,
    /// The blob holds something other than one key of this kind.
    #[error("the key inside is not of the kind that the line names, or is damaged")]
    Blob,
    /// An RSA key of a size that is not taken.
    #[error("an RSA key has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits and an odd exponent over 1")]
    Rsa,
}

impl SshKey {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> SshKeyKind {
        self.kind
    }

    /// `SHA256:` and base64 without padding, as `ssh-keygen -l` shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&self.blob).as_bytes()))
    }
}

impl FromStr for SshKey {
    type Err = BadSshKey;

    /// Reads a line of a public key file: kind, base64, and a comment that is dropped.
    fn from_str(line: &str) -> Result<Self, BadSshKey> {
        if line.contains("PRIVATE KEY") {
            return Err(BadSshKey::Private);
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        if line.len() > SSH_KEY_LINE_MAX || !crate::base::text::is_printable(line) {
            return Err(BadSshKey::Line);
        }
        let mut words = line.splitn(3, ' ');
        let first = words.next().unwrap_or_default();
        let kind = SshKeyKind::ALL.into_iter().find(|kind| kind.as_str() == first).ok_or(BadSshKey::Kind)?;
        // Strict: padding where it belongs, and no bits that are thrown away.
        let blob = STANDARD.decode(words.next().unwrap_or_default()).map_err(|_| BadSshKey::Base64)?;
        check(kind, &blob)?;
        Ok(Self { kind, blob })
    }
}

/// Whether `blob` is exactly one key of `kind` (RFC 4253 section 6.6, RFC 5656 section 3.1, RFC 8709 section 4; FIDO
/// kinds: OpenSSH's PROTOCOL.u2f, the key and then the application it was made for).
fn check(kind: SshKeyKind, blob: &[u8]) -> Result<(), BadSshKey> {
    let mut rest = blob;
    let mut field = || -> Result<&[u8], BadSshKey> {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(BadSshKey::Blob)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| BadSshKey::Blob)?;
        let (field, after) = after.split_at_checked(length).ok_or(BadSshKey::Blob)?;
        rest = after;
        Ok(field)
    };
    if field()? != kind.as_str().as_bytes() {
        return Err(BadSshKey::Blob);
    }
    match kind {
        SshKeyKind::Ed25519 | SshKeyKind::FidoEd25519 => {
            if field()?.len() != 32 {
                return Err(BadSshKey::Blob);
            }
        }
        SshKeyKind::EcdsaP256 | SshKeyKind::FidoEcdsaP256 => {
            let (curve, point) = (field()?, field()?);
            // Uncompressed and on the curve: sshd refuses any other at each login, and nobody would know why.
            let point = point.len() == 65 && p256::PublicKey::from_sec1_bytes(point).is_ok();
            if curve != b"nistp256" || !point {
                return Err(BadSshKey::Blob);
            }
        }
        SshKeyKind::Rsa => {
            let (exponent, modulus) = (bits(field()?)?, bits(field()?)?);
            if !exponent.odd || exponent.count < 2 || !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&modulus.count) {
                return Err(BadSshKey::Rsa);
            }
        }
    }
    if matches!(kind, SshKeyKind::FidoEd25519 | SshKeyKind::FidoEcdsaP256) {
        // ssh-keygen makes none for another application: a web site's credential is no login key.
        let application = field()?;
        if !application.starts_with(b"ssh:") || application.len() > 255 || !application.iter().all(u8::is_ascii_graphic)
        {
            return Err(BadSshKey::Blob);
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(BadSshKey::Blob) }
}

struct Bits {
    count: usize,
    odd: bool,
}

/// Size of a positive `mpint` in its shortest form (RFC 4251 section 5).
fn bits(number: &[u8]) -> Result<Bits, BadSshKey> {
    let digits = match number {
        [0, rest @ ..] if rest.first().is_some_and(|first| *first >= 0x80) => rest,
        [0x01..=0x7f, ..] => number,
        _ => return Err(BadSshKey::Blob),
    };
    let (Some(first), Some(last)) = (digits.first(), digits.last()) else { return Err(BadSshKey::Blob) };
    let unused = usize::try_from(first.leading_zeros()).unwrap_or(0);
    Ok(Bits { count: digits.len() * 8 - unused, odd: last & 1 == 1 })
}

impl fmt::Display for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), STANDARD.encode(&self.blob))
    }
}

impl fmt::Debug for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SshKey({} {})", self.kind.as_str(), self.fingerprint())
    }
}

impl Serialize for SshKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SshKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;

//! SHA-256 values and their one text form: 64 lower-case hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A SHA-256 value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not a SHA-256 value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a SHA-256 value: 64 lower-case hex digits")]
pub struct BadDigest;

impl Digest {
    /// All zero: the head of a chain that has no entry yet.
    pub const ZERO: Self = Self([0; 32]);

    /// The SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The SHA-256 of this value followed by `bytes`: the next head of a hash chain.
    #[must_use]
    pub fn chain(self, bytes: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(bytes).finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A journal of a full controller holds thousands of these: one text at once, and no formatting of each byte.
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        if text.len() != 64 || !crate::base::ids::is_lower_hex(text) {
            return Err(BadDigest);
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| BadDigest)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadDigest)?;
        }
        Ok(Self(out))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for bad in ["", &empty[1..], &empty.to_uppercase(), &format!("{empty}0"), &format!("+{}", &empty[1..])] {
            assert_eq!(bad.parse::<Digest>(), Err(BadDigest), "{bad:?}");
        }
        assert_eq!(Digest::ZERO.chain(b"x"), Digest::of(&[&[0; 32][..], b"x"].concat()));
    }
}

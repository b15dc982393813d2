//! A reader's password: 32 random bytes in base64url for the node, and a salted SHA-1 of it for the directory.
//!
//! `{SSHA}` is what every slapd checks without a module. That SHA-1 is weak against collisions does not matter here: a
//! password of 256 random bits is found from its hash no faster than by trying them all (THREATS.md).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::error::DirectoryError;

const SCHEME: &str = "{SSHA}";
const SALT_LEN: usize = 16;
const SHA1_LEN: usize = 20;

/// What the directory holds: `{SSHA}` and base64 of SHA-1 and salt. Its Debug shows none of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stored(String);

/// The text is not a stored password of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored password: {{SSHA}} and the base64 of {} bytes", SHA1_LEN + SALT_LEN)]
pub struct BadStored;

/// A new password, in clear for as long as it takes to seal it.
pub struct New {
    /// What the node gets.
    pub clear: Zeroizing<String>,
    /// What the directory gets.
    pub stored: Stored,
}

impl New {
    /// Draws one.
    ///
    /// # Errors
    /// [`DirectoryError::Random`].
    pub fn draw() -> Result<Self, DirectoryError> {
        let secret = random::<32>()?;
        let clear = Zeroizing::new(URL_SAFE_NO_PAD.encode(secret.as_slice()));
        let salt = random::<SALT_LEN>()?;
        let stored = Stored::of(&clear, &salt);
        Ok(Self { clear, stored })
    }
}

/// Fresh random bytes.
///
/// # Errors
/// [`DirectoryError::Random`].
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, DirectoryError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| DirectoryError::Random)?;
    Ok(bytes)
}

impl Stored {
    fn of(clear: &str, salt: &[u8; SALT_LEN]) -> Self {
        let mut sha1 = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        sha1.update(clear.as_bytes());
        sha1.update(salt);
        let both = [sha1.finish().as_ref(), salt].concat();
        Self(format!("{SCHEME}{}", STANDARD.encode(both)))
    }

    /// As the attribute `userPassword` has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored(..)")
    }
}

impl TryFrom<String> for Stored {
    type Error = BadStored;

    fn try_from(text: String) -> Result<Self, BadStored> {
        let both = text.strip_prefix(SCHEME).and_then(|rest| STANDARD.decode(rest).ok());
        if both.is_some_and(|both| both.len() == SHA1_LEN + SALT_LEN) { Ok(Self(text)) } else { Err(BadStored) }
    }
}

impl From<Stored> for String {
    fn from(stored: Stored) -> Self {
        stored.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LD-2
    #[test]
    fn a_password_needs_no_quoting_and_is_shown_nowhere() {
        let (one, two) = (New::draw().unwrap(), New::draw().unwrap());
        assert_ne!(*one.clear, *two.clear);
        assert_ne!(one.stored, two.stored);
        assert_eq!(one.clear.len(), 43);
        assert!(one.clear.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_eq!(format!("{:?}", one.stored), "Stored(..)");
        assert!(!one.stored.as_str().contains(one.clear.as_str()));
        assert_eq!(Stored::try_from(one.stored.as_str().to_owned()), Ok(one.stored));
    }

    #[test]
    fn a_stored_password_has_one_form() {
        // SHA-1 of secret and salt, then the salt, in base64: computed by Python's hashlib.
        let known = Stored::of("secret", b"0123456789abcdef");
        assert_eq!(known.as_str(), "{SSHA}FTtLy4UHGF6CE6rK0obse+lIYuYwMTIzNDU2Nzg5YWJjZGVm");
        for bad in ["", "{SSHA}", "secret", "{SSHA}AAAA", "{CRYPT}x"] {
            assert_eq!(Stored::try_from(bad.to_owned()), Err(BadStored));
        }
    }
}

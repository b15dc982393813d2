//! The small types that messages are made of: bounded text and the one version number of a file.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::text::is_printable;

/// `MIN` to `MAX` characters that are safe to show to a person (threats.md V-2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const MIN: usize, const MAX: usize>(String);

/// The text is too long, too short or not safe to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{min} to {max} printable characters")]
pub struct BadText {
    min: usize,
    max: usize,
}

impl<const MIN: usize, const MAX: usize> Text<MIN, MAX> {
    /// The checked text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes `text` fit: what must not be shown becomes `?`, what is too long is cut. For text that we report about
    /// our own machine. `None` when fewer than `MIN` characters are there.
    #[must_use]
    pub fn fitted(text: &str) -> Option<Self> {
        let text = text.trim().chars().take(MAX);
        let text = text.map(|c| if crate::text::is_printable_char(c) { c } else { '?' }).collect::<String>();
        Self::try_from(text).ok()
    }
}

impl<const MIN: usize, const MAX: usize> TryFrom<String> for Text<MIN, MAX> {
    type Error = BadText;
    fn try_from(text: String) -> Result<Self, BadText> {
        let length = text.chars().count();
        if length < MIN || length > MAX || !is_printable(&text) {
            return Err(BadText { min: MIN, max: MAX });
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> std::str::FromStr for Text<MIN, MAX> {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        Self::try_from(text.to_owned())
    }
}

impl<const MIN: usize, const MAX: usize> fmt::Display for Text<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MIN: usize, const MAX: usize> fmt::Debug for Text<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<const MIN: usize, const MAX: usize> Serialize for Text<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Text of at most `MAX` bytes that may be PEM: printable ASCII and line feeds. What the blocks are is decided by who
/// reads them; this type keeps anything else from being carried around.
#[derive(Clone, PartialEq, Eq)]
pub struct PemText<const MAX: usize>(String);

/// The text cannot be PEM, or is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("PEM of at most {max} bytes")]
pub struct BadPemText {
    max: usize,
}

impl<const MAX: usize> PemText<MAX> {
    /// The checked text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for PemText<MAX> {
    type Error = BadPemText;
    fn try_from(text: String) -> Result<Self, BadPemText> {
        let plain = text.bytes().all(|b| matches!(b, b'\n' | b' '..=b'~'));
        if text.len() > MAX || !plain || !text.starts_with("-----BEGIN ") {
            return Err(BadPemText { max: MAX });
        }
        Ok(Self(text))
    }
}

impl<const MAX: usize> fmt::Debug for PemText<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PemText({} bytes)", self.0.len())
    }
}

impl<const MAX: usize> Serialize for PemText<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for PemText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The number that says which schema a file has: always `N`, and any other is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version<const N: u64>;

impl<const N: u64> Serialize for Version<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(N)
    }
}

impl<'de, const N: u64> Deserialize<'de> for Version<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if u64::deserialize(deserializer)? == N {
            Ok(Self)
        } else {
            Err(D::Error::custom(format_args!("a version that this program does not know; it knows {N}")))
        }
    }
}

/// A field is out of its bounds. Holds no value, so it may be logged and sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field}: {rule}")]
pub struct OutOfBounds {
    /// The field by its name in JSON.
    pub field: &'static str,
    /// What it must be.
    pub rule: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_printable() {
        for (text, ok) in
            [("a", true), ("äöü€", true), ("", false), ("abcde", false), ("a\n", false), ("\u{202e}", false)]
        {
            assert_eq!(text.parse::<Text<1, 4>>().is_ok(), ok, "{text:?}");
        }
        assert_eq!(Text::<1, 4>::fitted(" a\tbcdef ").as_ref().map(Text::as_str), Some("a?bc"));
        assert_eq!(Text::<1, 4>::fitted(" "), None);
        assert_eq!("".parse::<Text<0, 4>>().map(|t| t.to_string()), Ok(String::new()));
    }

    #[test]
    fn pem_text_is_plain_and_bounded() {
        let begin = "-----BEGIN X-----\n";
        assert!(PemText::<18>::try_from(begin.to_owned()).is_ok());
        assert!(PemText::<17>::try_from(begin.to_owned()).is_err());
        for bad in ["", "x", "-----BEGIN X-----\r\n", "-----BEGIN \u{e4}"] {
            assert!(PemText::<100>::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}

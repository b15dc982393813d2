//! The small types that messages are made of: bounded text and the one version number of a file.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::base::text::{fitted, is_printable, was_printable_char};

/// The name by which [`Text`] asks a reader for itself.
pub(crate) const TEXT: &str = "lucia.text";

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

    fn checked(text: String, rule: fn(&str) -> bool) -> Result<Self, BadText> {
        let length = text.chars().count();
        let fits = (MIN..=MAX).contains(&length) && rule(&text);
        if fits { Ok(Self(text)) } else { Err(BadText { min: MIN, max: MAX }) }
    }

    /// Makes `text` fit: what must not be shown becomes `?`, what is too long is cut. For text that we report about
    /// our own machine. `None` when fewer than `MIN` characters are there.
    #[must_use]
    pub fn fitted(text: &str) -> Option<Self> {
        let text: String = text.trim().chars().take(MAX).collect();
        Self::try_from(fitted(&text)).ok()
    }
}

impl<const MIN: usize, const MAX: usize> TryFrom<String> for Text<MIN, MAX> {
    type Error = BadText;
    fn try_from(text: String) -> Result<Self, BadText> {
        Self::checked(text, is_printable)
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

/// Reads what earlier programs wrote as well, whose rule let more through: none of their files stops a start, and no hash of
/// theirs changes. It is escaped wherever it is shown ([`shown`](crate::base::text::shown)); what somebody hands in now is read by
/// [`from_person`](crate::base::json::from_person), which lets nothing of that kind through.
impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<const MIN: usize, const MAX: usize>;
        impl<'de, const MIN: usize, const MAX: usize> Visitor<'de> for Read<MIN, MAX> {
            type Value = Text<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a string of {MIN} to {MAX} printable characters")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                let text = String::deserialize(deserializer)?;
                Text::checked(text, |text| text.chars().all(was_printable_char)).map_err(D::Error::custom)
            }
        }
        deserializer.deserialize_newtype_struct(TEXT, Read)
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

/// The name of an event or of who caused it.
pub type Label = Text<1, 128>;
/// What a person calls an SSH key.
pub type KeyLabel = Text<1, 64>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    // spec: JS-321
    #[test]
    fn text_of_an_earlier_program_is_read_and_no_such_text_is_taken_now() {
        for (text, is_read) in [
            ("plain é 😀", true),
            ("my\u{a0}key", true),
            ("\u{2764}\u{fe0f}", true),
            ("a\u{3164}b", true),
            ("a\u{301}\u{301}\u{301}", true),
            ("a\u{202e}b", false),
            ("a\u{200b}b", false),
            ("thirteen long", false),
        ] {
            let json = crate::base::json::to_string(&BTreeMap::from([("text", text)])).unwrap();
            let read = crate::base::json::from_str::<BTreeMap<String, Text<1, 12>>>(&json, 100, 2).ok();
            let kept = read.and_then(|texts| texts.get("text").map(ToString::to_string));
            assert_eq!(kept.as_deref(), Some(text).filter(|_| is_read), "{text:?}");
            let taken = text.parse::<Text<1, 12>>().is_ok();
            assert_eq!(taken, text.is_ascii() && is_read || text == "plain é 😀", "{text:?}");
            let handed_in =
                crate::base::json::from_person::<BTreeMap<String, Option<Text<1, 12>>>>(json.as_bytes(), 100, 2);
            assert_eq!(handed_in.is_ok(), taken, "{text:?}");
        }
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

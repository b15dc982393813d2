//! Text that is safe to show: the one rule for free text from a machine, and the macro behind every
//! checked text type.
//!
//! A text type has a private field and one fallible door, [`FromStr`](std::str::FromStr); serde goes
//! through the same door. Holding a value is proof that it was checked.

/// Whether `text` may be shown to a person as it is: no control characters, no line or paragraph
/// separators, no bidirectional overrides, nothing invisible (threats.md V-2, B-15, B-33).
#[must_use]
pub fn is_printable(text: &str) -> bool {
    text.chars().all(is_printable_char)
}

/// The rule of [`is_printable`] for one character.
#[must_use]
pub const fn is_printable_char(c: char) -> bool {
    !matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}')
}

/// `text` with every character that must not be shown replaced by `\u{..}`; for logs and tables.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable_char(c) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// A number of things in words: `1 heartbeat`, `2 heartbeats`. For words that take an s.
#[must_use]
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// A span of time in its two largest units, shorter than a minute in seconds: `59 s`, `1 h 1 min`, `1 d 1 h`.
#[must_use]
pub fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A size in the binary unit people read it in: `999 B`, `1.5 KiB`, `8.0 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut unit = "B";
    let mut tenths = u128::from(bytes) * 10;
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if tenths < 10 * 1024 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{}.{} {unit}", tenths / 10, tenths % 10) }
}

/// An error and all that caused it, in one line: the one place where a chain is put together.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        out.push_str(": ");
        out.push_str(&cause.to_string());
        next = cause.source();
    }
    out
}

/// Makes a checked text type: `checked_text!(/// doc Name, "what it must be", |text| bool)`.
#[macro_export]
macro_rules! checked_text {
    ($(#[$meta:meta])* $name:ident, $error:ident, $expected:literal, $check:expr) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        #[doc = concat!("The text is not ", $expected, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error($expected)]
        pub struct $error;

        impl $name {
            /// The checked text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err($error) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                let check: fn(&str) -> bool = $check;
                if check(&text) { Ok(Self(text)) } else { Err($error) }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::try_from(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_s() {
        let words: Vec<_> = [0, 1, 2].map(|count| counted(count, "heartbeat")).into();
        assert_eq!(words, ["0 heartbeats", "1 heartbeat", "2 heartbeats"]);
    }

    #[test]
    fn spans_are_said_in_units_people_use() {
        for (seconds, want) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3660, "1 h 1 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(span(std::time::Duration::from_secs(seconds)), want);
        }
    }

    #[test]
    fn sizes_are_said_in_units_people_use() {
        for (size, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (8_200_000_000, "7.6 GiB"),
            (8 << 30, "8.0 GiB"),
            (1 << 53, "8.0 PiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(bytes(size), want);
        }
    }

    #[test]
    fn what_may_not_be_shown_is_escaped() {
        for (text, want) in [
            ("plain é 😀", "plain é 😀"),
            ("a\nb", "a\\u{a}b"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("\u{202e}drow", "\\u{202e}drow"),
            ("\u{2028}", "\\u{2028}"),
            ("\u{85}", "\\u{85}"),
        ] {
            assert_eq!(shown(text), want);
            assert_eq!(is_printable(text), text == want, "{want}");
        }
    }
}

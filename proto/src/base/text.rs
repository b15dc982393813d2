//! Text that is safe to show: the one rule for free text from a machine, and the macro behind every
//! checked text type.
//!
//! A text type has a private field and one fallible door, [`FromStr`](std::str::FromStr); serde goes
//! through the same door. Holding a value is proof that it was checked.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Combining marks in a row: an accent and a tone. What is stacked higher covers the lines above.
const MARKS_MAX: u32 = 2;

/// Whether `text` may be shown to a person as it is: no control characters, no line or paragraph
/// separators, no bidirectional overrides, nothing invisible, no blank but U+0020, no piles of marks (threats.md V-2, B-15,
/// B-33). Unicode's properties decide.
#[must_use]
pub fn is_printable(text: &str) -> bool {
    judged(text).all(|(_, ok)| ok)
}

/// The rule of [`is_printable`] for one character by itself.
#[must_use]
pub fn is_printable_char(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    !GeneralCategoryGroup::Other.contains(category)
        && !GeneralCategoryGroup::Separator.contains(category)
        && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        // Symbols by their category: the blank of braille, and what stands for something that is not there.
        && !matches!(c, '\u{2800}' | '\u{fffc}' | '\u{fffd}')
}

/// Each character, and whether it may be shown where it stands.
fn judged(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut marks = 0;
    text.chars().map(move |c| {
        let is_mark =
            !c.is_ascii() && GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(c));
        marks = if is_mark { marks + 1 } else { 0 };
        (c, marks <= MARKS_MAX && is_printable_char(c))
    })
}

/// `text` with `?` for every character that must not be shown.
#[must_use]
pub fn fitted(text: &str) -> String {
    judged(text).map(|(c, ok)| if ok { c } else { '?' }).collect()
}

/// What [`is_printable`] let through until version 0.1: files of that time are still read.
pub(crate) const fn was_printable_char(c: char) -> bool {
    !matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}')
}

/// `text` with every character that must not be shown replaced by `\u{..}`; for logs and tables.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (c, ok) in judged(text) {
        if ok {
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

    // spec: JS-320
    #[test]
    fn nothing_that_cannot_be_seen_is_printable() {
        for (what, hidden) in [
            ("hangul filler", "\u{3164}"),
            ("hangul choseong filler", "\u{115f}"),
            ("hangul jungseong filler", "\u{1160}"),
            ("halfwidth hangul filler", "\u{ffa0}"),
            ("braille blank", "\u{2800}"),
            ("grapheme joiner", "\u{34f}"),
            ("mongolian vowel separator", "\u{180e}"),
            ("mongolian variation selector", "\u{180b}"),
            ("variation selector 1", "\u{fe00}"),
            ("variation selector 16", "\u{fe0f}"),
            ("variation selector 17", "\u{e0100}"),
            ("tag", "\u{e0061}"),
            ("arabic number sign", "\u{600}"),
            ("musical begin beam", "\u{1d173}"),
            ("shorthand format", "\u{1bca0}"),
            ("hieroglyph joiner", "\u{13430}"),
            ("khmer inherent vowel", "\u{17b4}"),
            ("no-break space", "\u{a0}"),
            ("ogham space", "\u{1680}"),
            ("em space", "\u{2003}"),
            ("thin space", "\u{2009}"),
            ("narrow no-break space", "\u{202f}"),
            ("mathematical space", "\u{205f}"),
            ("ideographic space", "\u{3000}"),
            ("private use", "\u{e000}"),
            ("not a character", "\u{fdd0}"),
            ("three marks", "a\u{301}\u{302}\u{303}"),
            ("three marks at the start", "\u{20dd}\u{301}\u{903}"),
        ] {
            let text = format!("a{hidden}b");
            assert!(!is_printable(&text) && is_printable(&shown(&text)), "{what}");
            assert!(fitted(&text).contains('?') && is_printable(&fitted(&text)), "{what}");
            assert_eq!(fitted(&text).chars().count(), text.chars().count(), "{what}");
        }
        for text in [
            "Zoë’s laptop — 2",
            "résume\u{301}",
            "ti\u{1ebf}ng Vi\u{1ec7}t",
            "ที่นี่",
            "नहीं",
            "日本語",
            "😀 €",
            "a\u{301}\u{302}b\u{301}",
        ] {
            assert_eq!((is_printable(text), shown(text), fitted(text)), (true, text.to_owned(), text.to_owned()));
        }
    }

    // spec: JS-320
    #[test]
    fn what_was_never_printable_is_not_now() {
        let let_through: Vec<char> =
            ('\0'..=char::MAX).filter(|c| is_printable_char(*c) && !was_printable_char(*c)).collect();
        assert_eq!(let_through, Vec::<char>::new());
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

//! Small files of the kernel, read with a cap; whatever cannot be read is absent.

use std::path::Path;

use lucia_proto::base::bounded::Text;
use lucia_proto::base::text::is_printable_char;

use crate::host;

/// Longest attribute: sysfs hands out one page.
const ATTRIBUTE_MAX: u64 = 4096;
/// Entries of one directory that are looked at.
const SCAN_MAX: usize = 65_536;
/// Entries of one directory that are used.
const NAMES_MAX: usize = 1024;

/// The first `max` bytes of a file.
pub(crate) fn bytes(path: &Path, max: u64) -> Option<Vec<u8>> {
    host::read_bytes(path, max).ok()
}

/// The same as text. What is no UTF-8 becomes U+FFFD, which [`clean`] takes out.
pub(crate) fn text(path: &Path, max: u64) -> Option<String> {
    bytes(path, max).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// One attribute of sysfs, without the blanks around it; an empty one is absent.
pub(crate) fn attribute(path: &Path) -> Option<String> {
    let text = text(path, ATTRIBUTE_MAX)?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// One attribute that is a number.
pub(crate) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    attribute(path)?.parse().ok()
}

/// One attribute that is `1` or something else.
pub(crate) fn flag(path: &Path) -> bool {
    attribute(path).is_some_and(|text| text == "1")
}

/// The names in a directory that `keep` wants, in order. A directory that is not there has none.
pub(crate) fn names(dir: &Path, keep: impl Fn(&str) -> bool) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.take(SCAN_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names = names.filter(|name| keep(name)).take(NAMES_MAX).collect::<Vec<_>>();
    names.sort();
    names
}

/// Text that a device says about itself, fit to be shown: what is unprintable is taken out, blanks become one space,
/// the rest is cut. Nothing left means absent.
pub(crate) fn clean<const MAX: usize>(text: &str) -> Option<Text<1, MAX>> {
    let blanks = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    let kept = blanks.filter(|c| is_printable_char(*c)).collect::<String>();
    let words = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    Text::fitted(words.chars().take(MAX).collect::<String>().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-61
    #[test]
    fn a_device_s_text_is_made_fit_to_be_shown() {
        for (text, want) in [
            ("  Samsung   SSD\t980\n", Some("Samsung SSD 980")),
            ("a\u{1b}[31mb\u{202e}c\u{fffd}", Some("a[31mbc")),
            ("\u{0}\u{1}\u{200b}", None),
            ("", None),
            ("Größe", Some("Größe")),
        ] {
            assert_eq!(clean::<128>(text).as_ref().map(Text::as_str), want, "{text:?}");
        }
        assert_eq!(clean::<4>("abc def").as_ref().map(Text::as_str), Some("abc"));
        assert_eq!(clean::<128>(&"x".repeat(5000)).map(|t| t.as_str().len()), Some(128));
    }
}

//! A name inside one directory: checked once, so that no slash, link trick or control character reaches a system call.

use std::fmt;

/// Longest name accepted, in bytes. Linux allows 255; nine are kept for the pending file `.<name>.pending` beside it.
const MAX_LEN: usize = 246;

/// What a pending file's name ends with. It begins with a dot, so [`FileName::new`] never makes one.
const PENDING: &str = ".pending";

/// A plain file name: 1 to 246 printable ASCII characters without slash. Holding one is proof that it was checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

/// Why a text is not a file name we use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// No character at all.
    #[error("a file name is empty; give it at least one character")]
    Empty,
    /// Over 246 bytes.
    #[error("a file name has {len} bytes; use at most 246")]
    TooLong {
        /// Bytes it has.
        len: usize,
    },
    /// A slash, a blank, a control character or one outside ASCII.
    #[error("file name {name:?} holds a character that is not allowed; use printable ASCII without blank and slash")]
    Character {
        /// The refused text.
        name: String,
    },
    /// It begins with a dot where that is not allowed, or not where it must.
    #[error("file name {name:?} does not fit: only hidden files, and all of them, begin with one dot")]
    Dot {
        /// The refused text.
        name: String,
    },
}

impl FileName {
    /// A visible name: as every file has that others may list.
    ///
    /// # Errors
    /// Each [`BadName`]; a leading dot is one.
    pub fn new(text: &str) -> Result<Self, BadName> {
        let name = Self::checked(text)?;
        if text.starts_with('.') { Err(BadName::Dot { name: name.0 }) } else { Ok(name) }
    }

    /// A name that begins with a dot, as `.onboarding.lease` does; [`crate::PrivateDir::list`] never shows it.
    ///
    /// # Errors
    /// Each [`BadName`]; no leading dot, or two of them, is one.
    pub fn hidden(text: &str) -> Result<Self, BadName> {
        let name = Self::checked(text)?;
        let rest = text.strip_prefix('.').unwrap_or_default();
        if rest.is_empty() || rest.starts_with('.') || text.ends_with(PENDING) {
            return Err(BadName::Dot { name: name.0 });
        }
        Ok(name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which a new version is written before it takes the place of this one.
    pub(crate) fn pending(&self) -> String {
        format!(".{}{PENDING}", self.0)
    }

    /// Whether a directory entry is a pending file left by a crash.
    pub(crate) fn is_pending(entry: &str) -> bool {
        entry
            .strip_prefix('.')
            .and_then(|rest| rest.strip_suffix(PENDING))
            .is_some_and(|inner| Self::new(inner).is_ok() || Self::hidden(inner).is_ok())
    }

    fn checked(text: &str) -> Result<Self, BadName> {
        match text.len() {
            0 => Err(BadName::Empty),
            len if len > MAX_LEN => Err(BadName::TooLong { len }),
            _ if text.bytes().all(|b| b.is_ascii_graphic() && b != b'/') => Ok(Self(text.to_owned())),
            _ => Err(BadName::Character { name: text.chars().take(80).collect() }),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, visible: bool, hidden: bool) {
        assert_eq!(FileName::new(text).is_ok(), visible, "new({text:?})");
        assert_eq!(FileName::hidden(text).is_ok(), hidden, "hidden({text:?})");
    }

    // spec: DU-1
    #[test]
    fn names_are_checked() {
        check("state.json", true, false);
        check("state.json.1", true, false);
        check("a", true, false);
        check("-rf", true, false);
        check(".onboarding.lease", false, true);
        check("", false, false);
        check(".", false, false);
        check("..", false, false);
        check("...", false, false);
        check("..x", false, false);
        check("../x", false, false);
        check("/x", false, false);
        check("a/b", false, false);
        check("./a", false, false);
        check(".state.json.pending", false, false);
        check("a b", false, false);
        check("a\nb", false, false);
        check("a\0b", false, false);
        check("a\x7f", false, false);
        check("ä", false, false);
        check(&"x".repeat(246), true, false);
        check(&"x".repeat(247), false, false);
        check(&"x".repeat(255), false, false);
    }

    #[test]
    fn pending_names_are_recognised_and_fit() {
        for name in [FileName::new(&"x".repeat(246)).unwrap(), FileName::hidden(".lease").unwrap()] {
            assert!(name.pending().len() <= 255);
            assert!(FileName::is_pending(&name.pending()));
        }
        for other in ["state.json", ".pending", "..pending", "x.pending", ".x.pendin", ".a/b.pending"] {
            assert!(!FileName::is_pending(other), "{other}");
        }
    }
}

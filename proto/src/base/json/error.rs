//! Why a text is not strict JSON, and where. Nothing of the text is repeated.

use std::fmt::{self, Write as _};

use serde::de::{Expected, Unexpected};

/// Why a text was refused, and at which field. Neither holds a value of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(
    /// Boxed, so that the good way through the readers moves one word around and not ten.
    Box<Inner>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    path: String,
    kind: JsonErrorKind,
}

/// What was wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// More bytes than the caller reads.
    TooLarge {
        /// The caller's limit.
        max_bytes: usize,
    },
    /// Some byte is not UTF-8.
    NotUtf8,
    /// The text does not start with `{` (an array, `null`, a number, a BOM).
    NotAnObject,
    /// Not JSON.
    Syntax,
    /// More levels than the caller reads.
    TooDeep {
        /// The caller's limit.
        max_depth: usize,
    },
    /// The same key twice in one object, in whatever spelling.
    DuplicateKey,
    /// A control character other than line feed and tab, a lone surrogate or a non-character in a string.
    Character,
    /// A number that does not survive a double: an integer beyond 2^53, -0, 1e400, 30 digits and more.
    Number,
    /// Something other than white space after the object.
    Trailing,
    /// A field that the type does not have.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// A value of another kind, or out of range; holds what was expected.
    Unexpected(String),
    /// A checked type refused the value; holds its words.
    Refused(String),
    /// A value could not be written as JSON.
    NotWritable,
}

/// Characters of a path or of a checked type's words kept in an error: protects the log line.
const MAX_ERROR_TEXT: usize = 200;

impl JsonError {
    #[cold]
    pub(super) fn new(kind: JsonErrorKind) -> Self {
        Self(Box::new(Inner { path: String::new(), kind }))
    }

    /// What was wrong.
    pub fn kind(&self) -> &JsonErrorKind {
        &self.0.kind
    }

    /// Where it was wrong, like `inventory.disks[3].sizeBytes`; empty for the text as a whole. Keys are escaped.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The same error, one field further out.
    #[cold]
    pub(super) fn in_field(self, key: &str) -> Self {
        let mut path = String::new();
        push_escaped(&mut path, key);
        self.prefix(path)
    }

    /// The same error, one array further out.
    #[cold]
    pub(super) fn at_index(self, index: usize) -> Self {
        self.prefix(format!("[{index}]"))
    }

    fn prefix(mut self, mut path: String) -> Self {
        // The outermost part names the place best, so a path that is long enough loses its innermost part.
        if path.len() + self.0.path.len() <= MAX_ERROR_TEXT {
            if !self.0.path.is_empty() && !self.0.path.starts_with('[') {
                path.push('.');
            }
            path.push_str(&self.0.path);
        }
        self.0.path = path;
        self
    }
}

/// Appends `text` so that it is printable and short whatever it holds.
fn push_escaped(out: &mut String, text: &str) {
    for (count, character) in text.chars().enumerate() {
        if count == 64 || out.len() >= MAX_ERROR_TEXT {
            out.push_str("..");
            return;
        }
        if is_plain(character) {
            out.push(character);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", character.escape_unicode());
        }
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_graphic() || character == ' '
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.0.path)?;
        }
        match &self.0.kind {
            JsonErrorKind::TooLarge { max_bytes } => write!(f, "more than {max_bytes} bytes"),
            JsonErrorKind::NotUtf8 => f.write_str("not UTF-8"),
            JsonErrorKind::NotAnObject => f.write_str("not a JSON object"),
            JsonErrorKind::Syntax => f.write_str("not JSON"),
            JsonErrorKind::TooDeep { max_depth } => write!(f, "more than {max_depth} levels deep"),
            JsonErrorKind::DuplicateKey => f.write_str("the same key twice"),
            JsonErrorKind::Character => f.write_str("a character that no text may hold"),
            JsonErrorKind::Number => f.write_str("a number out of the range that is exact everywhere"),
            JsonErrorKind::Trailing => f.write_str("something follows the object"),
            JsonErrorKind::UnknownField => f.write_str("not a known field"),
            JsonErrorKind::MissingField => f.write_str("missing"),
            JsonErrorKind::Unexpected(expected) => write!(f, "expected {expected}"),
            JsonErrorKind::Refused(why) => f.write_str(why),
            JsonErrorKind::NotWritable => f.write_str("cannot be written as JSON"),
        }
    }
}

impl std::error::Error for JsonError {}

/// What serde says on our behalf: it hands us the refused value each time, and each time we leave it out.
impl serde::de::Error for JsonError {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::new(JsonErrorKind::Refused(short(&words)))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(JsonErrorKind::Unexpected(short(&expected)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(JsonErrorKind::Unexpected(short(&expected)))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(JsonErrorKind::Unexpected(short(&expected)))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(JsonErrorKind::Unexpected(short(&format_args!("one of {}", expected.join(", ")))))
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self::new(JsonErrorKind::UnknownField)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(JsonErrorKind::MissingField).in_field(field)
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(JsonErrorKind::DuplicateKey).in_field(field)
    }
}

fn short(words: &dyn fmt::Display) -> String {
    let mut out = String::new();
    for character in words.to_string().chars() {
        if out.len() >= MAX_ERROR_TEXT {
            out.push_str("..");
            break;
        }
        if is_plain(character) {
            out.push(character);
        } else {
            let _ = write!(out, "{}", character.escape_unicode());
        }
    }
    out
}

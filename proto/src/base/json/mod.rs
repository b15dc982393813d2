//! Strict JSON: the one door through which JSON text enters any of the programs (design.md T2, threats.md J-1..J-9).
//!
//! Two passes. `scan` walks the whole text and refuses everything that two parsers could read differently: repeated keys
//! in any spelling, numbers that do not survive a double, characters that break logs and C strings, depth, trailing bytes.
//! It does so in ignored places too, because what one program ignores another may read. `read` then builds the value
//! through serde, without the liberties of the usual reader: a struct is never an array, an enum is only a string.
//!
//! serde_json is not used for reading: its error texts repeat the refused value, and those reach logs.
//!
//! Types read here carry `#[serde(deny_unknown_fields)]` and use neither `flatten` nor `untagged` nor a `tag`: serde
//! buffers those, and a buffered struct may again be an array.

mod error;
mod escape;
mod read;
mod scan;
/// A type that is a file: read with a limit, written as it is read.
macro_rules! json_file {
    ($name:ident, $max:expr) => {
        impl $name {
            /// The largest file that is read.
            pub const MAX: usize = $max;

            /// Reads the file's bytes.
            ///
            /// # Errors
            /// When they are too many or not this schema.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, $crate::base::json::JsonError> {
                $crate::base::json::from_slice(bytes, Self::MAX, $crate::base::limits::JSON_DEPTH_MAX)
            }

            /// The file's bytes.
            ///
            /// # Errors
            /// Never for values of this type.
            pub fn to_bytes(&self) -> Result<Vec<u8>, $crate::base::json::JsonError> {
                $crate::base::json::to_string(self).map(String::into_bytes)
            }
        }
    };
}
pub(crate) use json_file;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::{JsonError, JsonErrorKind};

/// Reads one JSON object of at most `max_bytes` bytes and `max_depth` levels (the object itself is level 1).
///
/// The bytes must be UTF-8 as a whole, without BOM, and hold nothing but the object and white space around it.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8], max_bytes: usize, max_depth: usize) -> Result<T, JsonError> {
    if bytes.len() > max_bytes {
        return Err(JsonError::new(JsonErrorKind::TooLarge { max_bytes }));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::new(JsonErrorKind::NotUtf8))?;
    from_str(text, max_bytes, max_depth)
}

/// As [`from_slice`], for text that is known to be UTF-8.
pub fn from_str<T: DeserializeOwned>(text: &str, max_bytes: usize, max_depth: usize) -> Result<T, JsonError> {
    if text.len() > max_bytes {
        return Err(JsonError::new(JsonErrorKind::TooLarge { max_bytes }));
    }
    scan::scan(text, max_depth)?;
    read::read(text, false)
}

/// As [`from_slice`], for what somebody hands in now: [`Text`](crate::base::bounded::Text) in it must be printable by the rule of
/// today. Files, and what is in signed bytes or has a hash, keep what an earlier program let through.
pub fn from_person<T: DeserializeOwned>(bytes: &[u8], max_bytes: usize, max_depth: usize) -> Result<T, JsonError> {
    if bytes.len() > max_bytes {
        return Err(JsonError::new(JsonErrorKind::TooLarge { max_bytes }));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::new(JsonErrorKind::NotUtf8))?;
    scan::scan(text, max_depth)?;
    read::read(text, true)
}

/// Writes a value as compact JSON, in the field order of its type.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, JsonError> {
    serde_json::to_string(value).map_err(|_| JsonError::new(JsonErrorKind::NotWritable))
}

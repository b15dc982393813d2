//! The machine the agent runs on: the only place that touches the operating system by name.

pub mod boot;
pub mod etc;
pub mod failed;
pub mod random;
pub mod root;
pub mod run;
#[cfg(test)]
pub(crate) mod scratch;
pub mod state;
pub mod status;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

pub use lucia_proto::base::text::chain;

/// The beginning of a file.
///
/// # Errors
/// When it cannot be read.
pub fn read_bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The beginning of a text file.
///
/// # Errors
/// When it cannot be read, or is no UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, max)?).map_err(io::Error::other)
}

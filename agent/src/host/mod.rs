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

use std::io::Read as _;
use std::path::Path;

pub use lucia_proto::base::text::chain;

/// The beginning of a text file.
///
/// # Errors
/// When it cannot be read, or is no UTF-8.
pub fn read_text(path: &Path, max: u64) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(max).read_to_string(&mut text)?;
    Ok(text)
}

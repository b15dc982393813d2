//! Names and texts of the worker's own directory.

use std::path::PathBuf;

use lucia_durable::{FileName, FileRules, Loaded, PrivateDir, ReadError};
use lucia_proto::base::ids::NodeId;
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest file of the worker's own besides receipts and ledger.
const SMALL_FILE_MAX: u64 = 64 * 1024;

/// Why a text of the worker's own cannot be had.
#[derive(Debug, Error)]
pub enum FileError {
    /// It is there and cannot be read.
    #[error("a file of the worker's directory cannot be used")]
    Read(#[source] ReadError),
    /// It is not there.
    #[error(
        "{path} is missing; run `lucia-enrollment-worker init` for a new fleet, or restore the directory from a backup"
    )]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{path} is not text; restore it from a backup")]
    NotText {
        /// Which file.
        path: PathBuf,
    },
}

/// A name in the directory. They are constants, so the checks in [`FileName`] cannot fail.
pub(crate) fn file(name: &str) -> FileName {
    FileName::new(name).unwrap_or_else(|_| unreachable!("a constant name, or an id in hex"))
}

/// `<id>.json`.
#[must_use]
pub fn id_file(node_id: &NodeId) -> FileName {
    file(&format!("{node_id}.json"))
}

/// A text of the worker's own; wiped from memory when dropped, since some are keys.
///
/// # Errors
/// [`FileError`].
pub(crate) fn text(dir: &PrivateDir, name: &str) -> Result<Zeroizing<String>, FileError> {
    let name = file(name);
    let path = dir.path_of(&name);
    match dir.read(&name, SMALL_FILE_MAX, FileRules::private()).map_err(FileError::Read)? {
        Loaded::Missing => Err(FileError::Missing { path }),
        Loaded::Found(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(FileError::NotText { path })
            }
        },
    }
}

//! A file of JSON in a directory of the controller's own: read strictly, replaced as a whole, and one that cannot be read
//! stops the start. What may stand in it, and what becomes of the fleet without it, is each file's own.

use std::path::PathBuf;

use lucia_durable::{FileName, FileRules, Format, Loaded, PrivateDir, ReadError, WriteError};
use lucia_proto::base::json::{self, JsonError};
use lucia_proto::base::limits::JSON_DEPTH_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::layout::{LayoutError, name};

const MODE: u32 = 0o600;

/// Why such a file cannot be read or written.
#[derive(Debug, Error)]
pub enum JsonFileError {
    /// What a crash left beside it cannot be removed.
    #[error("the directory of {what} cannot be cleaned up")]
    Clean {
        /// Whose file.
        what: &'static str,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// It is not a file of ours.
    #[error("{what} cannot be read")]
    Read {
        /// Whose file.
        what: &'static str,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// It is none of its kind.
    #[error("{path} is damaged: restore it from a backup, or move it away, then {without}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What becomes of the fleet without it.
        without: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It cannot be written.
    #[error("{what} cannot be written")]
    Write {
        /// Whose file.
        what: &'static str,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// It cannot be put in JSON.
    #[error("{what} cannot be put in JSON; this is a mistake in the program, report it")]
    Json {
        /// Whose file.
        what: &'static str,
        /// Why.
        #[source]
        source: JsonError,
    },
    /// Its name is refused.
    #[error("the file of {what} has no name")]
    Name {
        /// Whose file.
        what: &'static str,
        /// Why.
        #[source]
        source: LayoutError,
    },
}

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonFile {
    /// What it holds, in a sentence.
    pub(crate) what: &'static str,
    /// What becomes of the fleet when it is moved away.
    pub(crate) without: &'static str,
    /// Longest it may be.
    pub(crate) max: usize,
}

impl JsonFile {
    /// A name of ours as a file's name.
    pub(crate) fn name(self, text: &str) -> Result<FileName, JsonFileError> {
        name(text).map_err(|source| JsonFileError::Name { what: self.what, source })
    }

    /// Removes what a crash left in its directory, looking at `most` entries.
    pub(crate) fn clean(self, dir: &PrivateDir, most: usize) -> Result<(), JsonFileError> {
        dir.remove_leftovers(most).map(drop).map_err(|source| JsonFileError::Clean { what: self.what, source })
    }

    /// What it says, if it is there.
    pub(crate) fn read<T: DeserializeOwned>(self, dir: &PrivateDir, file: &str) -> Result<Option<T>, JsonFileError> {
        let file = self.name(file)?;
        let max = u64::try_from(self.max).unwrap_or(u64::MAX);
        let loaded = dir.read_as(&file, max, FileRules::private(), Format::schema(1));
        match loaded.map_err(|source| JsonFileError::Read { what: self.what, source })? {
            Loaded::Missing => Ok(None),
            Loaded::Found(bytes) => json::from_slice(&bytes, self.max, JSON_DEPTH_MAX)
                .map(Some)
                .map_err(|source| JsonFileError::Damaged { path: dir.path_of(&file), without: self.without, source }),
        }
    }

    /// Replaces it.
    pub(crate) fn write<T: Serialize>(self, dir: &PrivateDir, file: &str, value: &T) -> Result<(), JsonFileError> {
        let text = json::to_string(value).map_err(|source| JsonFileError::Json { what: self.what, source })?;
        let file = self.name(file)?;
        dir.replace(&file, text.as_bytes(), MODE).map_err(|source| JsonFileError::Write { what: self.what, source })
    }
}

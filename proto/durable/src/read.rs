//! A capped read: Missing, Found and refused are three answers, and a file is never cut to fit.
//!
//! This is the one door for files that somebody else wrote (the queue) and for our own: what is opened is a regular file
//! with one name, of the right owner, no more open than allowed and no larger than asked for. Nothing put in its place can
//! make the caller wait, read elsewhere or fill its memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::rules::check_regular;
use crate::{FileName, FileRules, PrivateDir, RuleBreach};

/// What was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// Nothing has that name.
    Missing,
    /// All bytes of the file.
    Found(Vec<u8>),
}

/// Why a file cannot be used though something has its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not what it must be.
    #[error("file {path} is refused")]
    Refused {
        /// Which file.
        path: PathBuf,
        /// The rule it breaks, with the cure.
        #[source]
        breach: RuleBreach,
    },
    /// More bytes than allowed.
    #[error("file {path} has over {max} bytes, which no program of ours writes; find out who did, then move it away")]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Bytes allowed.
        max: u64,
    },
    /// A newer program wrote it.
    #[error("file {path} has format {found}, and this version reads up to {known}: install the newer version again")]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that is known.
        known: u64,
    },
    /// The system said no.
    #[error("cannot read {path}; check its disk and that this user may read it")]
    Failed {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// How a file of JSON says which format it has: by a number in its first member. A file without it has the first format, and
/// a newer one than is known is refused before anything else of it is read, so that nobody takes it for damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    member: &'static str,
    known: u64,
}

impl Format {
    /// `schemaVersion`, known up to this one.
    #[must_use]
    pub const fn schema(known: u64) -> Self {
        Self { member: "schemaVersion", known }
    }

    /// `version`, as in the journal, known up to this one.
    #[must_use]
    pub const fn version(known: u64) -> Self {
        Self { member: "version", known }
    }

    /// The newest that is known.
    #[must_use]
    pub const fn known(self) -> u64 {
        self.known
    }

    /// The format of these bytes, if it is newer than what is known.
    #[must_use]
    pub fn newer(self, bytes: &[u8]) -> Option<u64> {
        let after = |bytes: &'_ [u8], word: &[u8]| bytes.trim_ascii_start().strip_prefix(word).map(<[u8]>::to_vec);
        let rest = after(bytes.get(..bytes.len().min(128))?, b"{")?;
        let rest = after(&after(&rest, format!("\"{}\"", self.member).as_bytes())?, b":")?;
        let digits = rest.trim_ascii_start();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let found = std::str::from_utf8(digits.get(..end)?).ok()?.parse::<u64>().ok()?;
        (found > self.known).then_some(found)
    }
}

impl Loaded {
    /// The bytes, if there were any.
    #[must_use]
    pub fn found(self) -> Option<Vec<u8>> {
        match self {
            Self::Missing => None,
            Self::Found(bytes) => Some(bytes),
        }
    }
}

impl PrivateDir {
    /// All bytes of a file that keeps the rules and has `max` bytes at most.
    ///
    /// # Errors
    /// [`ReadError::Refused`] for anything but a regular file with one name, the right owner and mode;
    /// [`ReadError::TooLarge`] over `max`, whatever its size was when opened; [`ReadError::Failed`] else.
    pub fn read(&self, name: &FileName, max: u64, rules: FileRules) -> Result<Loaded, ReadError> {
        match self.open_checked(name, OFlag::O_RDONLY, rules)? {
            None => Ok(Loaded::Missing),
            Some(file) => read_capped(file, max, &self.path_of(name)).map(Loaded::Found),
        }
    }

    /// The same of a file that says which format it has.
    ///
    /// # Errors
    /// As [`PrivateDir::read`], and [`ReadError::Newer`].
    pub fn read_as(&self, name: &FileName, max: u64, rules: FileRules, format: Format) -> Result<Loaded, ReadError> {
        let loaded = self.read(name, max, rules)?;
        if let Loaded::Found(bytes) = &loaded
            && let Some(found) = format.newer(bytes)
        {
            return Err(ReadError::Newer { path: self.path_of(name), found, known: format.known });
        }
        Ok(loaded)
    }

    /// Opens a file that is there and keeps the rules.
    pub(crate) fn open_checked(
        &self,
        name: &FileName,
        flags: OFlag,
        rules: FileRules,
    ) -> Result<Option<File>, ReadError> {
        let path = || self.path_of(name);
        let failed = |source: io::Error| ReadError::Failed { path: path(), source };
        let refused = |breach| ReadError::Refused { path: path(), breach };
        // Looked at first, because only opening a device can already do something; it decides nothing in favour.
        match self.look(name) {
            Ok(stat) => check_regular(stat.st_mode).map_err(refused)?,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        }
        let file = match self.open_file(name.as_str(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(err) => {
                return match err.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::ENOENT) => Ok(None),
                    Some(Errno::ELOOP) => Err(refused(RuleBreach::Kind { want: "regular file", got: "symbolic link" })),
                    _ => Err(failed(err)),
                };
            }
        };
        rules.check(&file.metadata().map_err(failed)?).map_err(refused)?;
        Ok(Some(file))
    }
}

/// Reads to the end; a byte over `max` is an error, so a file that grows meanwhile is never cut.
pub(crate) fn read_capped(file: File, max: u64, path: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |source| ReadError::Failed { path: path.to_owned(), source };
    let too_large = || ReadError::TooLarge { path: path.to_owned(), max };
    let size = file.metadata().map_err(failed)?.len();
    if size > max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(|_| too_large())?);
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    match u64::try_from(bytes.len()) {
        Ok(len) if len <= max => Ok(bytes),
        _ => Err(too_large()),
    }
}

#[cfg(test)]
mod tests;

//! The two files of the directory: as they are, as they are to be, and as they last worked.

use std::fmt;

use lucia_durable::{DirError, FileName, PrivateDir, ReadError, WriteError};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{sshd, sssd};
use crate::host::etc::{self, EtcDir};
use crate::host::root::Root;
use crate::host::state::{State, StateError, StateFile};

/// Longest of either file: ours have under 4 KiB.
const MAX: u64 = 64 * 1024;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUpFile {
    /// `/etc/sssd/sssd.conf`.
    Sssd,
    /// `/etc/ssh/sshd_config.d/10-lucia.conf`.
    Sshd,
}

impl SetUpFile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sssd, Self::Sshd];

    /// Its directory, its name, and the line that it begins with.
    const fn row(self) -> (EtcDir, &'static str, &'static str) {
        match self {
            Self::Sssd => (EtcDir::Sssd, "sssd.conf", sssd::MARK),
            Self::Sshd => (EtcDir::SshdConfig, sshd::NAME, sshd::MARK),
        }
    }

    /// The mode it gets, and the widest it may have: sssd gives its group a read bit at each start.
    const fn modes(self) -> (u32, u32) {
        match self {
            Self::Sssd => (0o600, 0o640),
            Self::Sshd => (0o644, 0o644),
        }
    }

    /// Its path on a node.
    #[must_use]
    pub fn path(self) -> String {
        let (dir, name, _) = self.row();
        format!("{}/{name}", dir.path())
    }
}

/// Both files; one that is none is not there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// sssd's configuration.
    pub sssd: Option<Zeroizing<String>>,
    /// sshd's drop-in.
    pub sshd: Option<String>,
}

impl Wanted {
    /// The text of one.
    #[must_use]
    pub fn text(&self, file: SetUpFile) -> Option<&str> {
        match file {
            SetUpFile::Sssd => self.sssd.as_ref().map(|text| text.as_str()),
            SetUpFile::Sshd => self.sshd.as_deref(),
        }
    }
}

impl fmt::Debug for Wanted {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("sssd", &self.sssd.is_some()).field("sshd", &self.sshd).finish()
    }
}

/// What has a file's name.
#[derive(Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// A file of the agent.
    Ours(Zeroizing<String>),
    /// A file that somebody else wrote.
    Foreign,
}

impl Found {
    /// Whether it is exactly this.
    #[must_use]
    pub fn is(&self, text: Option<&str>) -> bool {
        match self {
            Self::Missing => text.is_none(),
            Self::Ours(found) => text == Some(found.as_str()),
            Self::Foreign => false,
        }
    }

    /// The agent's own text.
    #[must_use]
    pub fn ours(&self) -> Option<&str> {
        match self {
            Self::Ours(text) => Some(text),
            _ => None,
        }
    }
}

/// A file cannot be read or written.
#[derive(Debug, Error)]
pub enum FilesError {
    /// Its directory.
    #[error("the directory of {} cannot be used", .0.path())]
    Dir(SetUpFile, #[source] DirError),
    /// Something has its name that is not a plain file of root's.
    #[error("{} is not a plain file of root's, and is left as it is", .0.path())]
    Read(SetUpFile, #[source] ReadError),
    /// Somebody else's configuration.
    #[error("{} was not written by the agent, and is left as it is", .0.path())]
    Foreign(SetUpFile),
    /// It cannot be written.
    #[error("{} cannot be written", .0.path())]
    Write(SetUpFile, #[source] WriteError),
}

impl FilesError {
    /// What cures it, in one line.
    #[must_use]
    pub fn cure(&self) -> String {
        let cure = match self {
            Self::Dir(file, DirError::Missing { .. }) => file.row().0.cure(),
            Self::Dir { .. } | Self::Read { .. } => {
                "find out who changed it, put it right as the message says; it is tried again"
            }
            Self::Foreign(file) => {
                return format!(
                    "if this node is to use the fleet's directory, move {0} away (`mv {0} {0}.old`); it is tried again",
                    file.path()
                );
            }
            Self::Write { .. } => {
                "free space on the disk of /etc and see that it is writable (`lsattr` shows a file that is not), then \
                 `systemctl restart lucia-node-agent`"
            }
        };
        cure.to_owned()
    }
}

fn open(root: &Root, file: SetUpFile) -> Result<(PrivateDir, FileName), DirError> {
    let (dir, name, _) = file.row();
    let dir = dir.open(root)?;
    // Constants of this crate, both of them names.
    let name = FileName::new(name).map_err(|_| DirError::Missing { path: file.path().into() })?;
    Ok((dir, name))
}

fn look(dir: &PrivateDir, name: &FileName, file: SetUpFile) -> Result<Found, FilesError> {
    let (_, widest) = file.modes();
    let bytes = etc::read(dir, name, MAX, widest).map_err(|source| FilesError::Read(file, source))?;
    let Some(bytes) = bytes.map(Zeroizing::new) else { return Ok(Found::Missing) };
    Ok(match std::str::from_utf8(&bytes) {
        Ok(text) if text.lines().next() == Some(file.row().2) => Found::Ours(Zeroizing::new(text.to_owned())),
        _ => Found::Foreign,
    })
}

/// What is there.
///
/// # Errors
/// [`FilesError::Dir`], [`FilesError::Read`].
pub fn find(root: &Root, file: SetUpFile) -> Result<Found, FilesError> {
    let (dir, name) = open(root, file).map_err(|source| FilesError::Dir(file, source))?;
    look(&dir, &name, file)
}

/// Puts this text there, or takes the file away; only ever in the place of nothing or of the agent's own.
///
/// # Errors
/// Any [`FilesError`]; the former file stands then, unless the disk is in doubt.
pub fn put(root: &Root, file: SetUpFile, text: Option<&str>) -> Result<(), FilesError> {
    let (dir, name) = open(root, file).map_err(|source| FilesError::Dir(file, source))?;
    if look(&dir, &name, file)? == Found::Foreign {
        return Err(FilesError::Foreign(file));
    }
    let done = match text {
        Some(text) => dir.replace(&name, text.as_bytes(), file.modes().0),
        None => dir.remove(&name).map(drop),
    };
    done.map_err(|source| FilesError::Write(file, source))
}

/// `directory.json`: both files as they last worked. It has the reader's password, like the file it is a copy of.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredFiles {
    sssd: Option<String>,
    sshd: Option<String>,
}

/// The files that last worked, if any ever did. What cannot be read counts as none.
#[must_use]
pub fn kept(state: &State) -> Option<Wanted> {
    let kept: StoredFiles = state.find_json(StateFile::Directory)?;
    Some(Wanted { sssd: kept.sssd.map(Zeroizing::new), sshd: kept.sshd })
}

/// Notes that these files work.
///
/// # Errors
/// [`StateError`].
pub fn keep(state: &State, wanted: &Wanted) -> Result<(), StateError> {
    let kept = StoredFiles { sssd: wanted.sssd.as_ref().map(|text| text.to_string()), sshd: wanted.sshd.clone() };
    state.replace_json(StateFile::Directory, &kept)
}

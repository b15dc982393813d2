//! `onboarding/state.json`: one file under a lease, replaced as a whole, never recreated (design.md T3).
//!
//! The lease's marker and the file belong together. The marker without the file is lost state; the file without the
//! marker came from elsewhere; both stop the start, as does anything that cannot be read back whole. Beside the file
//! lie three former generations: `state.json.1` is one change old, `.2` at most 16, `.3` at most 256 changes older.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucia_durable::{
    DirError, FileName, FileRules, Format, Lease, LeaseError, Loaded, Marker, Owner, PrivateDir, ReadError, WriteError,
};
use lucia_proto::base::limits::JOURNAL_MAX;
use lucia_proto::files::journal::{Journal, JournalError};
use thiserror::Error;

use super::layout::{LayoutError, SHARED_FILE, name};

/// First line of the lease once there is state.
pub(crate) const MARKER: &[u8] = b"Lucia.Onboarding.v1";
/// The lease beside the journal.
pub(crate) const LEASE: &str = ".onboarding.lease";
/// The journal.
pub(crate) const STATE: &str = "state.json";
/// Entries looked at in the directory: the journal, three generations, the lease, and what a crash left.
pub(crate) const ENTRIES_MAX: usize = 64;
/// `state.json.2` takes over `.1` each time this many changes were made, `.3` takes over `.2` at the square of it.
const ROTATION: u64 = 16;

/// Why the journal cannot be opened or written.
#[derive(Debug, Error)]
pub enum JournalFileError {
    /// Another controller is running, or the lease is not usable.
    #[error("the journal's lease is not to be had")]
    Lease(#[source] LeaseError),
    /// The lease says that there was a journal, and there is none.
    #[error(
        "{path} is missing, though this controller has written it before; `lucia-controller doctor` shows what is left and how to restore it"
    )]
    Lost {
        /// Where it should be.
        path: PathBuf,
    },
    /// There is a journal, and no lease that says who wrote it.
    #[error("{path} was not written here: its lease is missing; `lucia-controller doctor` shows how to take it over")]
    Foreign {
        /// The journal.
        path: PathBuf,
    },
    /// No journal yet, and still the directory holds files.
    #[error(
        "{path} holds files that no controller left there before its first start; find out whose they are, then move them away"
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// It is there and cannot be read: wrong owner or mode, too large, or the disk.
    #[error("the journal cannot be read; `lucia-controller doctor` shows more")]
    Read(#[source] ReadError),
    /// It is not a journal, or not whole.
    #[error(
        "{path} is damaged; it is left as it is; `lucia-controller doctor` shows what is left and how to restore it"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JournalError,
    },
    /// The directory cannot be listed.
    #[error("the journal's directory cannot be looked at")]
    Dir(#[source] DirError),
    /// It could not be written.
    #[error("the journal cannot be written")]
    Write(#[source] WriteError),
    /// A file name of ours is refused.
    #[error("the journal has no name")]
    Name(#[source] LayoutError),
}

impl JournalFileError {
    /// Whether nothing of a change reached the disk for sure, so that the next one may be tried: the former generations
    /// could not be looked at, no file could be made beside them, or there was no space.
    pub(crate) fn wrote_nothing(&self) -> bool {
        match self {
            Self::Write(WriteError::Full { .. } | WriteError::Twice { .. }) | Self::Read(_) | Self::Dir(_) => true,
            Self::Write(WriteError::Failed { doing, .. }) => matches!(*doing, "clear" | "create"),
            _ => false,
        }
    }
}

/// The journal's file, with its lease held.
#[derive(Debug)]
pub(crate) struct JournalFile {
    dir: Arc<PrivateDir>,
    names: Names,
    lease: Arc<Lease>,
}

/// The names in the journal's directory.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) state: FileName,
    pub(crate) former: [FileName; 3],
    pub(crate) lease: FileName,
}

impl Names {
    pub(crate) fn new() -> Result<Self, LayoutError> {
        let former = |at| name(&format!("{STATE}.{at}"));
        Ok(Self {
            state: name(STATE)?,
            former: [former(1)?, former(2)?, former(3)?],
            lease: FileName::hidden(LEASE).map_err(LayoutError::Name)?,
        })
    }
}

/// What a journal's file must be like.
pub(crate) const fn rules() -> FileRules {
    FileRules { mode: SHARED_FILE, owner: Owner::Us }
}

/// Reads one of the journal's files; `None` when it is not there.
pub(crate) fn read(dir: &PrivateDir, file: &FileName) -> Result<Option<Journal>, JournalFileError> {
    let max = u64::try_from(JOURNAL_MAX).unwrap_or(u64::MAX);
    match dir.read_as(file, max, rules(), Format::version(4)).map_err(JournalFileError::Read)? {
        Loaded::Missing => Ok(None),
        Loaded::Found(bytes) => Journal::from_bytes(&bytes)
            .map(Some)
            .map_err(|source| JournalFileError::Damaged { path: dir.path_of(file), source }),
    }
}

/// Whether nobody left anything where no controller ever started, but for `ours` hidden files.
fn check_unwritten(dir: &PrivateDir, names: &Names, ours: usize) -> Result<(), JournalFileError> {
    if dir.exists(&names.state).map_err(JournalFileError::Dir)? {
        return Err(JournalFileError::Foreign { path: dir.path_of(&names.state) });
    }
    let listing = dir.list(ENTRIES_MAX).map_err(JournalFileError::Dir)?;
    if !listing.names.is_empty() || listing.ignored > ours || !listing.complete {
        return Err(JournalFileError::NotEmpty { path: dir.path().to_owned() });
    }
    Ok(())
}

impl JournalFile {
    /// Takes the lease and reads the journal; makes an empty one at the very first start.
    pub(crate) fn open(dir: PrivateDir) -> Result<(Self, Journal), JournalFileError> {
        let names = Names::new().map_err(JournalFileError::Name)?;
        // Looked at before the lease is made: a refusal that left one behind would be none at the next start.
        if Lease::look(&dir, &names.lease, MARKER).map_err(JournalFileError::Lease)? == Marker::Absent {
            check_unwritten(&dir, &names, 0)?;
        }
        let holder = format!("lucia-controller, pid {}", std::process::id());
        let mut lease = Lease::take(&dir, &names.lease, MARKER, &holder).map_err(JournalFileError::Lease)?;
        let path = || dir.path_of(&names.state);
        let there = dir.exists(&names.state).map_err(JournalFileError::Dir)?;
        match (lease.found(), there) {
            (Marker::Present, false) => return Err(JournalFileError::Lost { path: path() }),
            // Once more under the lease, which is the one hidden file.
            (Marker::Absent, _) => check_unwritten(&dir, &names, 1)?,
            (Marker::Starting, _) | (Marker::Present, true) => {
                dir.remove_leftovers(ENTRIES_MAX).map_err(JournalFileError::Write)?;
            }
        }
        let journal = match read(&dir, &names.state)? {
            Some(journal) => journal,
            None => {
                let journal = Journal::empty();
                let bytes = journal.to_bytes().map_err(|source| JournalFileError::Damaged { path: path(), source })?;
                dir.replace(&names.state, &bytes, SHARED_FILE).map_err(JournalFileError::Write)?;
                journal
            }
        };
        lease.confirm(&dir).map_err(JournalFileError::Lease)?;
        Ok((Self { dir: Arc::new(dir), names, lease: Arc::new(lease) }, journal))
    }

    /// Whether the lease is still this program's. What lies in other directories is written under it as well.
    pub(crate) fn check(&self) -> Result<(), LeaseError> {
        self.lease.check(&self.dir)
    }

    /// Asked before each write into those.
    pub(crate) fn guard(&self) -> impl Fn() -> io::Result<()> + Send + Sync + use<> {
        self.lease.guard(&self.dir)
    }

    /// Puts `bytes`, which are generation `generation`, in the place of the journal; the former one becomes
    /// `state.json.1`. After an error the former journal stands, but for `WriteError::Unsure`.
    pub(crate) fn write(&self, bytes: &[u8], generation: u64) -> Result<(), JournalFileError> {
        // Whoever slept while another took the directory over writes nothing into it any more (threats.md F-12).
        self.check().map_err(JournalFileError::Lease)?;
        let [first, second, third] = &self.names.former;
        let mut files: Vec<(FileName, Vec<u8>)> = Vec::new();
        let mut shift = |from: &FileName, to: &FileName| -> Result<(), JournalFileError> {
            let max = u64::try_from(JOURNAL_MAX).unwrap_or(u64::MAX);
            if let Loaded::Found(bytes) = self.dir.read(from, max, rules()).map_err(JournalFileError::Read)? {
                files.push((to.clone(), bytes));
            }
            Ok(())
        };
        let missing = |file: &FileName| self.dir.exists(file).map(|there| !there).map_err(JournalFileError::Dir);
        // The oldest first: a crash in between leaves two copies of one generation, never none.
        if generation.is_multiple_of(ROTATION * ROTATION) || missing(third)? {
            shift(second, third)?;
        }
        if generation.is_multiple_of(ROTATION) || missing(second)? {
            shift(first, second)?;
        }
        shift(&self.names.state, first)?;
        files.push((self.names.state.clone(), bytes.to_vec()));
        self.dir.replace_all(&files, SHARED_FILE).map_err(JournalFileError::Write)
    }

    /// Where it lies, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

#[cfg(test)]
mod tests;

//! The files of one person: contexts, root and key, 0600 in a directory of 0700.
//!
//! A file is read only when it is a regular one, not through a link, and nobody else can have written it; a key besides
//! only when nobody else can have read it. What is written is whole or absent after a crash, and two runs at a time write
//! one after the other.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lucia_proto::base::text::shown;

use lucia_durable::Format;

use crate::problem::{FAILED, problems};

/// Locked by whoever writes in its directory. It holds nothing, and stays.
const LOCK: &str = ".luciactl.lock";
/// Nobody else may even read.
const OTHERS: u32 = 0o077;
/// Nobody else may write.
const OTHERS_WRITE: u32 = 0o022;

problems! {
    /// Why a file is not used.
    pub(crate) enum FileError {
        Io(path: PathBuf, source: io::Error) = "", FAILED, ["{}: {source}", name(path)];
        Kind(path: PathBuf) = "file_irregular", FAILED, ["{} is no regular file", name(path)], ["put the file itself there"];
        Owner(path: PathBuf) = "file_foreign", FAILED, ["{} is another user's", name(path)],
            ["run luciactl as that user, or use a file of your own"];
        Mode(path: PathBuf, mode: u32, what: &'static str, right: &'static str) = "file_mode", FAILED,
            ["{} has mode {mode:04o}, so that others can {what} it", name(path)], ["chmod {right} {}", name(path)];
        TooLong(path: PathBuf, max: u64) = "file_too_long", FAILED, ["{} has more than {max} bytes", name(path)],
            ["is it the file that you mean?"];
        Newer(path: PathBuf, found: u64) = "file_newer", FAILED,
            ["{} has format {found}, and this luciactl reads up to 1", name(path)], ["install the newer luciactl again"];
        Text(path: PathBuf) = "file_not_text", FAILED, ["{} is no text", name(path)];
    }
}

/// A path as it is shown.
pub(crate) fn name(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

impl FileError {
    /// Whether the file is simply not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io(_, source) if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Held by whoever writes in a directory; the system lets go of it when its run ends, however that ends.
pub(crate) struct Turn {
    directory: PathBuf,
    _lock: File,
}

impl Turn {
    /// Waits until no other run writes beside `path`.
    ///
    /// # Errors
    /// When the lock cannot be made or had.
    pub(crate) fn beside(path: &Path) -> Result<Self, FileError> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        // A run as another user may have left one that is not ours.
        let failed = |source| FileError::Io(directory.join(LOCK), source);
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = how.custom_flags(nix::libc::O_NOFOLLOW).open(directory.join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { directory, _lock: lock })
    }

    /// Writes a file of the directory, over the former one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn replace(&self, path: &Path, text: &str) -> Result<(), FileError> {
        self.whole(path, text, |from, to| std::fs::rename(from, to))
    }

    fn whole(
        &self,
        path: &Path,
        text: &str,
        put: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let failed = |source| FileError::Io(path.to_owned(), source);
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut beside = name.to_owned();
        beside.push(".new");
        let beside = self.directory.join(beside);
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => (),
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| put(&beside, path));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&beside);
            return Err(failed(error));
        }
        File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Nobody else: contexts and keys.
    Yes,
    /// Anybody: a root.
    No,
}

/// Reads a text of at most `max` bytes.
///
/// # Errors
/// When the file is not there, or is not to be trusted; see [`FileError`].
pub(crate) fn read(path: &Path, max: u64, secret: Secret) -> Result<String, FileError> {
    let failed = |source| FileError::Io(path.to_owned(), source);
    let file = OpenOptions::new()
        .read(true)
        // A queue in its place must not make us wait, a link not lead us elsewhere.
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(FileError::Kind(path.to_owned()));
    }
    ours(path, found.uid())?;
    narrow(path, found.mode(), secret)?;
    let mut text = Vec::new();
    file.take(max + 1).read_to_end(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > max {
        return Err(FileError::TooLong(path.to_owned(), max));
    }
    String::from_utf8(text).map_err(|_| FileError::Text(path.to_owned()))
}

/// The same, of a file that may be missing.
///
/// # Errors
/// As [`read`].
pub(crate) fn find(path: &Path, max: u64) -> Result<Option<String>, FileError> {
    match read(path, max, Secret::Yes) {
        Err(error) if error.is_missing() => Ok(None),
        found => {
            let newer = found.as_ref().ok().and_then(|text| Format::schema(1).newer(text.as_bytes()));
            newer.map_or(found, |found| Err(FileError::Newer(path.to_owned(), found))).map(Some)
        }
    }
}

/// The first line of whatever `path` leads to: a file, or a descriptor that was passed.
///
/// # Errors
/// When it cannot be read, or is a file that others can read.
pub(crate) fn first_line(path: &Path, max: u64) -> Result<zeroize::Zeroizing<String>, FileError> {
    let failed = |source| FileError::Io(path.to_owned(), source);
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_file() {
        ours(path, found.uid())?;
        narrow(path, found.mode(), Secret::Yes)?;
    }
    // Room for all of it from the start: what grows leaves copies behind.
    let mut text = zeroize::Zeroizing::new(String::with_capacity(usize::try_from(max).unwrap_or(0) + 2));
    file.take(max + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > max {
        return Err(FileError::TooLong(path.to_owned(), max));
    }
    Ok(zeroize::Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

/// Makes a directory of our own, or checks the one that is there.
///
/// # Errors
/// When it cannot be made, is another user's, or others may write there.
pub(crate) fn directory(path: &Path) -> Result<(), FileError> {
    let failed = |source| FileError::Io(path.to_owned(), source);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    checked_directory(path)
}

/// Checks a directory that is to be there.
///
/// # Errors
/// When it is not there, is another user's, or others may write there.
pub(crate) fn checked_directory(path: &Path) -> Result<(), FileError> {
    let found = std::fs::metadata(path).map_err(|source| FileError::Io(path.to_owned(), source))?;
    ours(path, found.uid())?;
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 { Ok(()) } else { Err(FileError::Mode(path.to_owned(), mode, "write in", "700")) }
}

/// Writes a file that was not there before.
///
/// # Errors
/// When it is there, or cannot be written.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), FileError> {
    Turn::beside(path)?.whole(path, text, |from, to| {
        // A link refuses where a rename would replace: a key that is there is never written over.
        std::fs::hard_link(from, to)?;
        std::fs::remove_file(from)
    })
}

/// Writes a file, over the former one.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    Turn::beside(path)?.replace(path, text)
}

/// Ours, or the system's.
fn ours(path: &Path, owner: u32) -> Result<(), FileError> {
    if owner == 0 || owner == nix::unistd::geteuid().as_raw() { Ok(()) } else { Err(FileError::Owner(path.to_owned())) }
}

fn narrow(path: &Path, mode: u32, secret: Secret) -> Result<(), FileError> {
    let mode = mode & 0o7777;
    let (mask, what, cure) = match secret {
        Secret::Yes => (OTHERS, "read or write", "600"),
        Secret::No => (OTHERS_WRITE, "write", "644"),
    };
    if mode & mask == 0 { Ok(()) } else { Err(FileError::Mode(path.to_owned(), mode, what, cure)) }
}

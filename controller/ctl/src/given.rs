//! A text that somebody gives in a file, or pastes.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::files::name;
use crate::problem::{FAILED, problems};
use crate::tell::paste;

problems! {
    /// Why it cannot be used.
    pub(crate) enum GivenError {
        Bad(file: PathBuf, why: String) = "", FAILED, ["{}: {why}", name(file)];
    }
}

/// What is wrong with the file of this name.
pub(crate) fn bad(file: &Path, why: impl Display) -> GivenError {
    GivenError::Bad(file.to_owned(), why.to_string())
}

/// At most `max` bytes of a file; `-` is standard input, and `what` is pasted there.
pub(crate) fn read(file: &Path, max: usize, what: &str) -> Result<String, GivenError> {
    let max = u64::try_from(max).unwrap_or(u64::MAX);
    let mut text = String::new();
    let read = if file == Path::new("-") {
        paste(what);
        io::stdin().lock().take(max).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(max).read_to_string(&mut text))
    };
    read.map(|_| text).map_err(|error| bad(file, error))
}

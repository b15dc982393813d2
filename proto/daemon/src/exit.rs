//! How a program ends: a code for a program, a text for a person.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use lucia_proto::base::text::chain;

/// Failed.
pub const FAILED: u8 = 1;
/// Wrong usage (sysexits.h).
pub const USAGE: u8 = 64;
/// Wrong settings (sysexits.h).
pub const CONFIG: u8 = 78;

/// A verb that did not succeed. Any error becomes one with [`FAILED`] by `?`.
#[derive(Debug)]
pub struct Exit {
    /// For a program.
    pub code: u8,
    /// For a person; empty when standard output has it all.
    pub message: String,
}

impl Exit {
    /// With a code and a text of its own.
    pub fn said(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// With a code of its own, and what the error and its causes say.
    #[must_use]
    pub fn with(code: u8, error: &dyn Error) -> Self {
        Self { code, message: chain(error) }
    }

    /// Failed, in plain words.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::said(FAILED, message)
    }

    /// Called wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::said(USAGE, message)
    }

    /// Wrong settings.
    pub fn config(error: impl Error) -> Self {
        Self::with(CONFIG, &error)
    }

    /// With nothing more to say.
    #[must_use]
    pub const fn silent(code: u8) -> Self {
        Self { code, message: String::new() }
    }
}

impl<E: Error> From<E> for Exit {
    fn from(error: E) -> Self {
        Self::with(FAILED, &error)
    }
}

/// Says on standard error what went wrong. The code says it too, where that cannot be written.
#[must_use]
pub fn report(program: &str, exit: &Exit) -> ExitCode {
    if !exit.message.is_empty() {
        let _ = std::io::stderr().write_all(format!("{program}: {}\n", exit.message).as_bytes());
    }
    exit.code.into()
}

/// Prints what the command line's grammar answers: help and version, which are no errors, or what is wrong.
#[must_use]
pub fn unparsed(error: &clap::Error) -> ExitCode {
    // A closed pipe is no reason for another exit code.
    let _ = error.print();
    if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS }
}

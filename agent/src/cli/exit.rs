//! How a verb ends: a text for a person and a code for a program.

use std::error::Error;

/// Wrong usage (sysexits.h).
pub(super) const USAGE: u8 = 64;
/// Wrong settings (sysexits.h).
const CONFIG: u8 = 78;

/// A verb that did not succeed.
#[derive(Debug)]
pub(super) struct Exit {
    pub(super) code: u8,
    pub(super) message: String,
}

impl Exit {
    /// With a code of its own.
    pub(super) fn with(code: u8, error: &dyn Error) -> Self {
        Self { code, message: crate::host::chain(error) }
    }

    /// Failed.
    pub(super) fn failed(error: impl Error) -> Self {
        Self::with(1, &error)
    }

    /// Wrong settings.
    pub(super) fn config(error: impl Error) -> Self {
        Self::with(CONFIG, &error)
    }

    /// With nothing more to say: standard output has it.
    pub(super) const fn silent(code: u8) -> Self {
        Self { code, message: String::new() }
    }

    /// Called wrongly.
    pub(super) fn usage(error: impl Error) -> Self {
        Self::with(USAGE, &error)
    }

    /// Failed, in plain words.
    pub(super) fn said(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

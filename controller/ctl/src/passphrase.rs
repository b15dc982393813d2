//! The passphrase of an owner key: from the terminal without an echo, or from a file. Never from an argument or the
//! environment, which others can see.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::files::{self, FileError};
use crate::problem::{FAILED, problems};

/// Bytes of a passphrase at most.
const MOST: usize = 1024;
/// Characters of a new one at least.
const LEAST: usize = 8;
const TERMINAL: &str = "/dev/tty";

problems! {
    /// Why there is no passphrase.
    pub(crate) enum PassphraseError {
        File(error: FileError) = error.code(), FAILED, ["the passphrase cannot be read: {error}"], ["{}", error.cure()];
        NoTerminal(error: io::Error) = "", FAILED, ["there is no terminal to ask for the passphrase on ({error})"],
            ["give --passphrase-file FILE"];
        Cancelled = "passphrase_missing", FAILED, ["no passphrase was typed; nothing was done"];
        Differ = "passphrase_mismatch", FAILED, ["the two passphrases differ; nothing was done"], ["try again"];
        TooShort = "passphrase_too_short", FAILED, ["a passphrase has at least {LEAST} characters"], ["take a longer one"];
        TooLong = "", FAILED, ["a passphrase has at most {MOST} bytes"], ["take a shorter one"];
    }
}

/// Where a passphrase comes from: the first line of this file; without one somebody types it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a>(pub(crate) Option<&'a Path>);

impl Source<'_> {
    /// The passphrase of a key that is there.
    pub(crate) fn known(self, of: &str) -> Result<Zeroizing<String>, PassphraseError> {
        match self.0 {
            None => typed(&format!("Passphrase of {of}: ")),
            Some(file) => files::first_line(file, file_most()).map_err(PassphraseError::File),
        }
    }

    /// A passphrase for a new key: typed twice.
    pub(crate) fn new_one(self, of: &str) -> Result<Zeroizing<String>, PassphraseError> {
        let passphrase = self.known(&format!("the new {of}"))?;
        if passphrase.chars().count() < LEAST {
            return Err(PassphraseError::TooShort);
        }
        if self.0.is_none() && *typed("The same again: ")? != *passphrase {
            return Err(PassphraseError::Differ);
        }
        Ok(passphrase)
    }
}

fn file_most() -> u64 {
    u64::try_from(MOST).unwrap_or(u64::MAX)
}

/// Puts the terminal back as it was, whatever happens.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    /// No echo, byte by byte, and Ctrl-C as a byte: it must not end us before the echo is back.
    fn begin(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, SetArg::TCSAFLUSH, &self.before);
        let _ = self.terminal.write_all(b"\n");
    }
}

fn typed(prompt: &str) -> Result<Zeroizing<String>, PassphraseError> {
    let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL).map_err(PassphraseError::NoTerminal)?;
    let mut quiet = Quiet::begin(terminal).map_err(PassphraseError::NoTerminal)?;
    quiet.terminal.write_all(prompt.as_bytes()).map_err(PassphraseError::NoTerminal)?;
    let mut line = Line::new();
    loop {
        let mut byte = [0];
        match quiet.terminal.read(&mut byte) {
            Ok(0) => return Err(PassphraseError::Cancelled),
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PassphraseError::NoTerminal(error)),
        }
        if let Some(done) = line.take(byte[0])? {
            return Ok(done);
        }
    }
}

/// A line as it is typed.
struct Line(Zeroizing<Vec<u8>>);

impl Line {
    fn new() -> Self {
        // Room for all of it from the start: what grows leaves copies behind.
        Self(Zeroizing::new(Vec::with_capacity(MOST + 1)))
    }

    /// The whole, once its end was typed.
    fn take(&mut self, byte: u8) -> Result<Option<Zeroizing<String>>, PassphraseError> {
        match byte {
            b'\r' | b'\n' => {
                let text = std::str::from_utf8(&self.0).map_err(|_| PassphraseError::Cancelled)?;
                return Ok(Some(Zeroizing::new(text.to_owned())));
            }
            3 | 4 => return Err(PassphraseError::Cancelled),
            // One character back, all its bytes.
            8 | 127 => while self.0.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            // The whole line.
            21 => self.0.clear(),
            byte => {
                if self.0.len() >= MOST {
                    return Err(PassphraseError::TooLong);
                }
                self.0.push(byte);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_in(bytes: &[u8]) -> Result<Option<String>, PassphraseError> {
        let mut line = Line::new();
        for byte in bytes {
            if let Some(done) = line.take(*byte)? {
                return Ok(Some(done.to_string()));
            }
        }
        Ok(None)
    }

    #[test]
    fn what_is_typed_is_taken_as_a_terminal_would() {
        for (bytes, want) in [
            (&b"secret\n"[..], Some("secret")),
            (b"secret", None),
            (b"sx\x7fecret\r", Some("secret")),
            ("sé\x7fecret\n".as_bytes(), Some("secret")),
            (b"\x7f\x7fa\n", Some("a")),
            (b"wrong\x15right\n", Some("right")),
            (b"\n", Some("")),
        ] {
            assert_eq!(type_in(bytes).unwrap().as_deref(), want, "{bytes:?}");
        }
        for end in [3, 4] {
            assert!(matches!(type_in(&[b'a', end]), Err(PassphraseError::Cancelled)), "{end}");
        }
        assert!(matches!(type_in(&[b'a'; MOST + 1]), Err(PassphraseError::TooLong)));
    }
}

//! An agent release: its id, and the one form of archive it travels in (managed-nodes.md "The rest of managed-run",
//! wire-facts 3.7, threats.md group T).
//!
//! The archive is flat ustar, and the reader accepts exactly one header for a name and a size: it builds the header
//! that must be there and compares all 512 bytes. So there is nothing to interpret: no links, no long names, no
//! second size, no owner, no set-user-id bit, no time. `tar --format=ustar --owner=0 --group=0 --numeric-owner
//! --mtime=@0 --mode=0755 --sort=name -b1` writes this form.
//!
//! [`ArchiveReader`] takes one block at a time and keeps no content, so it works on a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thiserror::Error;

use crate::base::digest::Digest;
use crate::base::limits::{RELEASE_FILE_MAX, RELEASE_FILES_MAX, RELEASE_MAX};
use crate::checked_text;

/// Bytes of a block: an archive is made of nothing else.
pub const BLOCK: usize = 512;

checked_text! {
    /// The name of a file in a release: one path component, visible, harmless in any shell.
    FileName, BadFileName, "a file name: a letter or digit, then up to 63 of A-Z, a-z, 0-9, . _ and -",
    |text| {
        text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    }
}

/// Why an archive is refused, as a whole and at once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A header is not the one that a plain file of its name and size has.
    #[error("block {block}: {field} is not a plain file's")]
    Header {
        /// Which block of the archive, from 0.
        block: u64,
        /// Which field of the header.
        field: &'static str,
    },
    /// A name appears twice, or in two spellings of upper and lower case.
    #[error("block {block}: a name is there twice")]
    Twice {
        /// Which block of the archive, from 0.
        block: u64,
    },
    /// A size or count is over its limit.
    #[error("block {block}: more than {what}")]
    TooMuch {
        /// Which block of the archive, from 0.
        block: u64,
        /// The limit.
        what: &'static str,
    },
    /// The rest of a file's last block is not zero.
    #[error("block {block}: something hides behind a file's end")]
    Padding {
        /// Which block of the archive, from 0.
        block: u64,
    },
    /// The end is not exactly two zero blocks.
    #[error("block {block}: the archive does not end with two zero blocks and nothing after them")]
    End {
        /// Which block of the archive, from 0.
        block: u64,
    },
    /// The archive holds no file.
    #[error("the archive is empty")]
    Empty,
}

/// A file of the archive; its content follows in the next blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseEntry {
    /// Its name.
    pub name: FileName,
    /// Its size in bytes.
    pub size: u64,
}

/// What a block was.
#[derive(Debug, PartialEq, Eq)]
pub enum ReleaseStep<'a> {
    /// A new file begins.
    File(ReleaseEntry),
    /// These are the next bytes of the file that began last.
    Data(&'a [u8]),
    /// One of the two blocks that end the archive.
    End,
}

#[derive(Clone, Copy, Debug)]
enum ReleaseState {
    Header,
    Data { left: u64 },
    OneZero,
    Done,
}

/// Reads an archive block by block. After an error the whole archive is refused: nothing of it may be kept.
#[derive(Debug)]
pub struct ArchiveReader {
    state: ReleaseState,
    block: u64,
    total: u64,
    /// Names seen so far, in lower case.
    names: BTreeSet<String>,
}

impl ArchiveReader {
    /// A reader at the start of an archive.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: ReleaseState::Header, block: 0, total: 0, names: BTreeSet::new() }
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// Why the archive is refused.
    pub fn block<'a>(&mut self, block: &'a [u8; BLOCK]) -> Result<ReleaseStep<'a>, ArchiveError> {
        let at = self.block;
        self.block += 1;
        match self.state {
            ReleaseState::Header if is_zero(block) => {
                self.state = ReleaseState::OneZero;
                Ok(ReleaseStep::End)
            }
            ReleaseState::Header => self.header(block, at).map(ReleaseStep::File),
            ReleaseState::Data { left } => {
                let here = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
                let (data, padding) = block.split_at_checked(here).unwrap_or((block, &[]));
                if !is_zero(padding) {
                    return Err(ArchiveError::Padding { block: at });
                }
                self.advance(left.saturating_sub(BLOCK as u64));
                Ok(ReleaseStep::Data(data))
            }
            ReleaseState::OneZero if is_zero(block) => {
                self.state = ReleaseState::Done;
                Ok(ReleaseStep::End)
            }
            ReleaseState::OneZero | ReleaseState::Done => Err(ArchiveError::End { block: at }),
        }
    }

    /// Says that no block follows.
    ///
    /// # Errors
    /// When the archive was not complete, or empty.
    pub fn finish(self) -> Result<(), ArchiveError> {
        match self.state {
            ReleaseState::Done if self.names.is_empty() => Err(ArchiveError::Empty),
            ReleaseState::Done => Ok(()),
            _ => Err(ArchiveError::End { block: self.block }),
        }
    }

    fn advance(&mut self, left: u64) {
        self.state = if left == 0 { ReleaseState::Header } else { ReleaseState::Data { left } };
    }

    fn header(&mut self, block: &[u8; BLOCK], at: u64) -> Result<ReleaseEntry, ArchiveError> {
        let refuse = |field| ArchiveError::Header { block: at, field };
        let name = read_name(block).ok_or_else(|| refuse("name"))?;
        let size = read_size(block).ok_or_else(|| refuse("size"))?;
        // Whether it may be executed is the header's to say in two ways, and the receiver's to decide.
        let mode = if block.get(100..108) == Some(b"0000755\0") { MODE_PROGRAM } else { MODE_FILE };
        let expected = header(&name, size, mode).ok_or_else(|| refuse("size"))?;
        if let Some(field) = first_difference(&expected, block) {
            return Err(refuse(field));
        }
        if self.names.len() == RELEASE_FILES_MAX {
            return Err(ArchiveError::TooMuch { block: at, what: "512 files" });
        }
        self.total = self.total.saturating_add(size);
        if size > RELEASE_FILE_MAX {
            return Err(ArchiveError::TooMuch { block: at, what: "256 MiB in a file" });
        }
        if self.total > RELEASE_MAX {
            return Err(ArchiveError::TooMuch { block: at, what: "512 MiB in all" });
        }
        if !self.names.insert(name.as_str().to_ascii_lowercase()) {
            return Err(ArchiveError::Twice { block: at });
        }
        self.advance(size);
        Ok(ReleaseEntry { name, size })
    }
}

impl Default for ArchiveReader {
    fn default() -> Self {
        Self::new()
    }
}

/// The files of a whole archive in memory, in its order.
///
/// # Errors
/// Why the archive is refused.
pub fn files(archive: &[u8]) -> Result<Vec<(FileName, Vec<u8>)>, ArchiveError> {
    let mut reader = ArchiveReader::new();
    let mut files: Vec<(FileName, Vec<u8>)> = Vec::new();
    let (blocks, rest) = archive.as_chunks::<BLOCK>();
    for block in blocks {
        match reader.block(block)? {
            ReleaseStep::File(entry) => files.push((entry.name, Vec::new())),
            ReleaseStep::Data(data) => files.last_mut().map(|file| file.1.extend_from_slice(data)).unwrap_or_default(),
            ReleaseStep::End => {}
        }
    }
    if !rest.is_empty() {
        return Err(ArchiveError::End { block: reader.block });
    }
    reader.finish()?;
    Ok(files)
}

/// Mode of a file that is not executed.
pub const MODE_FILE: u32 = 0o644;
/// Mode of a file that is.
pub const MODE_PROGRAM: u32 = 0o755;

/// The fields of a ustar header and where each ends (POSIX.1-2017, pax, "ustar Interchange Format").
const FIELDS: [(&str, usize); 16] = [
    ("name", 100),
    ("mode", 108),
    ("uid", 116),
    ("gid", 124),
    ("size", 136),
    ("mtime", 148),
    ("checksum", 156),
    ("type", 157),
    ("link name", 257),
    ("magic", 263),
    ("version", 265),
    ("user name", 297),
    ("group name", 329),
    ("device", 345),
    ("prefix", 500),
    ("rest of the header", 512),
];

/// The one header of a plain file: `None` when the size needs more than 11 octal digits or the mode more than 7.
#[must_use]
pub fn header(name: &FileName, size: u64, mode: u32) -> Option<[u8; BLOCK]> {
    if size >= 1 << 33 || mode >= 1 << 21 {
        return None;
    }
    let mut text = String::with_capacity(BLOCK);
    text.push_str(name.as_str());
    fill(&mut text, 100);
    // Writing to a String cannot fail.
    let _ = write!(text, "{mode:07o}\0{:07o}\0{:07o}\0{size:011o}\0{:011o}\0", 0, 0, 0);
    // The checksum counts its own eight bytes as spaces.
    let before = text.len();
    text.push_str("        0");
    fill(&mut text, 257);
    text.push_str("ustar\x0000");
    fill(&mut text, 329);
    text.push_str("0000000\x000000000\0");
    fill(&mut text, BLOCK);
    let sum: u32 = text.bytes().map(u32::from).sum();
    text.replace_range(before..before + 8, &format!("{sum:06o}\0 "));
    text.into_bytes().try_into().ok()
}

fn fill(text: &mut String, end: usize) {
    while text.len() < end {
        text.push('\0');
    }
}

/// The name up to its first NUL; what follows is compared with the rest of the header.
fn read_name(block: &[u8; BLOCK]) -> Option<FileName> {
    let field = block.get(..100)?;
    let length = field.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(field.get(..length)?).ok()?.parse().ok()
}

/// Eleven octal digits.
fn read_size(block: &[u8; BLOCK]) -> Option<u64> {
    let digits = std::str::from_utf8(block.get(124..135)?).ok()?;
    digits.bytes().all(|b| matches!(b, b'0'..=b'7')).then(|| u64::from_str_radix(digits, 8).ok())?
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn first_difference(expected: &[u8; BLOCK], found: &[u8; BLOCK]) -> Option<&'static str> {
    // Any difference changes the checksum too, so that comes last.
    let mut start = 0;
    let mut first = None;
    for (field, end) in FIELDS {
        if expected.get(start..end) != found.get(start..end) && first.is_none_or(|name| name == "checksum") {
            first = Some(field);
        }
        start = end;
    }
    first
}

/// The id of a release: SHA-256 over `name NUL sha256hex LF` of each file, names in byte order.
///
/// # Errors
/// When there is no file or there are more than 512.
pub fn release_id(files: &BTreeMap<FileName, Digest>) -> Result<Digest, ArchiveError> {
    if files.is_empty() {
        return Err(ArchiveError::Empty);
    }
    if files.len() > RELEASE_FILES_MAX {
        return Err(ArchiveError::TooMuch { block: 0, what: "512 files" });
    }
    let mut list = String::new();
    for (name, digest) in files {
        let _ = writeln!(list, "{name}\0{digest}");
    }
    Ok(Digest::of(list.as_bytes()))
}

#[cfg(test)]
mod tests;

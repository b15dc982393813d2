//! Which SSH keys may log in: what owners signed, on the disk (design.md N2, O7; wire-facts.md 3.6; threats.md D-4, D-5,
//! D-7, B-27).
//!
//! | module | holds |
//! |---|---|
//! | [`passwd`] | which accounts are this machine's own, and what getent says of the directory's |
//! | [`files`] | one file an account, of keys that were taken apart and written anew |
//!
//! The signed orders are all there is: an account that none of them names has no file.

pub mod files;
pub mod passwd;

use std::collections::BTreeMap;

use lucia_proto::base::names::AccountName;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::orders::ssh_key::SshKey;
use thiserror::Error;

/// Entries that a message names; the rest is counted.
const NAMED: usize = 3;
/// Most characters of a name that a message repeats.
const NAME_MAX: usize = 32;

/// The keys of every account that owners ordered any for, or took them from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedKeys {
    /// Each account's keys; an account without any has no file.
    pub accounts: BTreeMap<AccountName, Vec<SshKey>>,
    /// Orders were lost or are damaged: an account that is not named may have been given keys, and keeps its file.
    pub is_partial: bool,
}

impl OrderedKeys {
    /// No owner ordered any.
    #[must_use]
    pub const fn none() -> Self {
        Self { accounts: BTreeMap::new(), is_partial: false }
    }

    /// What owners ordered is not known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { accounts: BTreeMap::new(), is_partial: true }
    }
}

/// Why an account's keys, or a file, are not used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Why {
    /// Not an account's name, or one that never gets keys.
    #[error("no account of that name gets keys")]
    Name,
    /// The machine's own account.
    #[error("it is an account of this machine itself")]
    Local,
    /// A directory account below 1000, or with the uid of a local account.
    #[error("its uid is below 1000 or that of an account of this machine")]
    System,
    /// The directory does not have it, or does not answer.
    #[error("the directory does not answer with it")]
    Unknown,
    /// The fleet has no directory.
    #[error("the fleet has no directory")]
    NoDirectory,
    /// Its file is not a plain file of root's.
    #[error("{0}")]
    File(String),
}

/// An entry or a file that is not used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dropped {
    /// Whose, as far as it may be shown.
    pub account: String,
    /// Why.
    pub why: Why,
}

impl Dropped {
    /// Of this account.
    #[must_use]
    pub fn new(account: &str, why: Why) -> Self {
        Self { account: short(account), why }
    }
}

/// A name as far as it may be shown.
fn short(name: &str) -> String {
    shown(&name.chars().take(NAME_MAX).collect::<String>())
}

/// What was dropped, in one line; nothing where nothing was.
#[must_use]
pub fn told(dropped: &[Dropped]) -> Option<String> {
    if dropped.is_empty() {
        return None;
    }
    let named: Vec<_> = dropped.iter().take(NAMED).map(|one| format!("{}: {}", one.account, one.why)).collect();
    let rest = dropped.len().saturating_sub(NAMED);
    let rest = if rest == 0 { String::new() } else { format!("; and {rest} more") };
    let count = u64::try_from(dropped.len()).unwrap_or(u64::MAX);
    Some(format!(
        "{} left out: {}{rest}",
        counted(count, "SSH key entry").replace("entrys", "entries"),
        named.join("; ")
    ))
}

#[cfg(test)]
pub(crate) mod tests;

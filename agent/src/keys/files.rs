//! One file an account in `/etc/ssh/lucia-authorized-keys`: 0644 and root's, in a directory that only root writes to.
//!
//! What has an account's name and is no plain file of root's is left as it is and told of; what has no account's name any
//! more goes, whatever it is but a directory: taking a name away changes nothing that lies elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use lucia_durable::{Crashed, DirError, FileName, PrivateDir, WriteError, crash_point};
use lucia_proto::base::names::AccountName;
use lucia_proto::orders::ssh_key::SshKey;
use thiserror::Error;

use super::passwd::Local;
use super::{Dropped, OrderedKeys, Why, short};
use crate::host::etc::{self, EtcDir};
use crate::host::root::Root;

/// Mode of a file: sshd reads it as the user who logs in.
const MODE: u32 = 0o644;
/// Longest file: ten of the longest keys.
const MAX: u64 = 64 * 1024;
/// Entries that are looked at: a record of orders names fewer accounts.
const ENTRIES_MAX: usize = 4096;

/// The keys cannot be brought up to date.
#[derive(Debug, Error)]
pub enum KeysError {
    /// The directory.
    #[error("the SSH keys of directory users cannot be brought up to date")]
    Dir(#[source] DirError),
    /// What a crash left cannot be cleared away.
    #[error("what a crash left among the SSH keys cannot be cleared away")]
    Leftovers(#[source] WriteError),
    /// A test stopped the program.
    #[error("stopped while SSH keys were written; only tests do this")]
    Crashed(#[source] Crashed),
}

/// What a turn did, and what is left of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Accounts whose file holds their keys now.
    pub held: BTreeSet<AccountName>,
    /// Accounts that had no file before: whether the directory has them is to be asked first.
    pub new: BTreeSet<AccountName>,
    /// Names of removed files that no order names, as far as they may be shown.
    pub unordered: Vec<String>,
    /// Files that no order names, and that stay because orders are not known.
    pub others: u32,
    /// Files written or removed.
    pub changed: u32,
    /// What was left out.
    pub dropped: Vec<Dropped>,
}

/// What an account's file holds.
#[must_use]
pub fn text(keys: &[SshKey]) -> String {
    keys.iter().map(|key| format!("{key}\n")).collect()
}

/// The directory of the files.
pub struct Files(PrivateDir);

impl Files {
    /// Opens it.
    ///
    /// # Errors
    /// [`KeysError::Dir`], [`KeysError::Leftovers`].
    pub fn open(root: &Root) -> Result<Self, KeysError> {
        let dir = EtcDir::AuthorizedKeys.open(root).map_err(KeysError::Dir)?;
        dir.remove_leftovers(ENTRIES_MAX).map_err(KeysError::Leftovers)?;
        Ok(Self(dir))
    }

    /// How many files there are.
    ///
    /// # Errors
    /// [`KeysError::Dir`].
    pub fn count(&self) -> Result<usize, KeysError> {
        Ok(self.0.list(ENTRIES_MAX).map_err(KeysError::Dir)?.names.len())
    }

    /// Removes every file that `ordered` gives no keys, then brings those that are there up to date. Nothing is asked for
    /// it, so a withdrawn key is gone whether or not the directory answers. `local` are this machine's own accounts, where
    /// they are known.
    ///
    /// # Errors
    /// [`KeysError`]; what was done stays done, and the next turn does the rest.
    pub fn bring(
        &self,
        ordered: &OrderedKeys,
        local: Option<&Local>,
        has_directory: bool,
    ) -> Result<Brought, KeysError> {
        let mut brought = Brought::default();
        let mut wanted: BTreeMap<&AccountName, &Vec<SshKey>> = BTreeMap::new();
        for (account, keys) in &ordered.accounts {
            let why = match local {
                _ if !has_directory => Some(Why::NoDirectory),
                Some(local) if local.names.contains(account.as_str()) => Some(Why::Local),
                _ => None,
            };
            match why {
                // An account without keys has no file, whatever account it is.
                _ if keys.is_empty() => {}
                Some(why) => brought.dropped.push(Dropped::new(account.as_str(), why)),
                None => drop(wanted.insert(account, keys)),
            }
        }
        let listing = self.0.list(ENTRIES_MAX).map_err(KeysError::Dir)?;
        if listing.ignored > 0 || !listing.complete {
            let what = format!("{} has files that are nobody's; remove them", self.0.path().display());
            brought.dropped.push(Dropped::new("?", Why::File(what)));
        }
        for name in listing {
            let is_named = ordered.accounts.keys().any(|account| account.as_str() == name.as_str());
            if ordered.is_partial && !is_named {
                brought.others += 1;
                continue;
            }
            if wanted.keys().any(|account| account.as_str() == name.as_str()) {
                continue;
            }
            if self.remove(&name, &mut brought) {
                brought.unordered.extend((!is_named).then(|| short(name.as_str())));
            }
        }
        crash_point!("agent/keys-removed", self.0.path()).map_err(KeysError::Crashed)?;
        for (account, keys) in wanted {
            match self.found(account) {
                Err(dropped) => brought.dropped.push(dropped),
                Ok(None) if local.is_none() => {
                    let why =
                        Why::File("/etc/passwd cannot be read, so nobody gets keys for the first time".to_owned());
                    brought.dropped.push(Dropped::new(account.as_str(), why));
                }
                Ok(None) => drop(brought.new.insert(account.clone())),
                Ok(Some(found)) if found == text(keys).as_bytes() => drop(brought.held.insert(account.clone())),
                Ok(Some(found)) => {
                    self.write(account, keys, &mut brought);
                    // It could not be written and still opens to a withdrawn key: a full disk, which anybody with a shell
                    // can fill, must not keep one. What the account may have comes back with a later turn.
                    let stays = !brought.held.contains(account) && withdraws(&found, keys);
                    if let Ok(name) = FileName::new(account.as_str())
                        && stays
                    {
                        self.remove(&name, &mut brought);
                    }
                }
            }
        }
        Ok(brought)
    }

    /// Writes an account's file.
    pub fn write(&self, account: &AccountName, keys: &[SshKey], brought: &mut Brought) {
        let Ok(name) = FileName::new(account.as_str()) else {
            return brought.dropped.push(Dropped::new(account.as_str(), Why::Name));
        };
        match self.0.replace(&name, text(keys).as_bytes(), MODE) {
            Ok(()) => {
                brought.changed += 1;
                brought.held.insert(account.clone());
            }
            Err(error) => brought.dropped.push(failed(account.as_str(), &error)),
        }
    }

    /// Takes a file away, and says whether it is gone.
    fn remove(&self, name: &FileName, brought: &mut Brought) -> bool {
        let gone = self.0.remove(name);
        match &gone {
            Ok(_) => brought.changed += 1,
            Err(error) => brought.dropped.push(failed(name.as_str(), error)),
        }
        gone.is_ok()
    }

    /// Takes away the files of this machine's own accounts, some of which may have been made since the last turn.
    ///
    /// # Errors
    /// [`KeysError::Dir`].
    pub fn without(&self, local: &Local) -> Result<u32, KeysError> {
        let mut gone = 0;
        for name in self.0.list(ENTRIES_MAX).map_err(KeysError::Dir)? {
            if local.names.contains(name.as_str()) && self.0.remove(&name).is_ok() {
                gone += 1;
            }
        }
        Ok(gone)
    }

    fn found(&self, account: &AccountName) -> Result<Option<Vec<u8>>, Dropped> {
        let name = FileName::new(account.as_str()).map_err(|_| Dropped::new(account.as_str(), Why::Name))?;
        etc::read(&self.0, &name, MAX, MODE).map_err(|error| failed(account.as_str(), &error))
    }
}

/// Whether a file has a line that is none of these keys.
fn withdraws(found: &[u8], keys: &[SshKey]) -> bool {
    let kept: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
    String::from_utf8_lossy(found).lines().any(|line| !kept.contains(line))
}

fn failed(account: &str, error: &dyn std::error::Error) -> Dropped {
    Dropped::new(account, Why::File(crate::host::chain(error)))
}

#[cfg(test)]
mod tests;

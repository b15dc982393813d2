//! `keys/ssh-keys.json`: the SSH keys that nodes are given (wire-facts.md 3.6).
//!
//! A file that is missing is not an empty list: nodes are then told nothing and keep what they have, while an empty list
//! makes them remove every key. The file begins with the first key and never goes away again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use lucia_durable::PrivateDir;
use lucia_proto::bounded::Version;
use lucia_proto::code::Code;
use lucia_proto::host_api::{KeyLabel, Label, RemoveSshKey, SshKeyForm, SshKeyView, SshKeysView};
use lucia_proto::limits::{SSH_KEYS_CHARS_MAX, SSH_KEYS_FILE_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use lucia_proto::names::AccountName;
use lucia_proto::ssh_key::SshKey;
use lucia_proto::time::UnixTime;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::json_file::{JsonFile, JsonFileError};
use crate::refusal::Refusal;

/// The file.
const FILE: &str = "ssh-keys.json";
const KEYS: JsonFile = JsonFile {
    what: "the list of SSH keys",
    without: "nodes keep the keys they have until you add one",
    max: SSH_KEYS_FILE_MAX,
};

/// Why the keys cannot be read or written.
#[derive(Debug, Error)]
pub enum SshKeysError {
    /// Their file.
    #[error(transparent)]
    File(#[from] JsonFileError),
    /// The list holds more than it may.
    #[error("{path} breaks a rule of the list of keys: {what}; restore it from a backup")]
    Rule {
        /// The file.
        path: PathBuf,
        /// Which.
        what: String,
    },
}

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    schema_version: Version<1>,
    keys: Vec<Row>,
}

/// One key of one account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    account: AccountName,
    label: KeyLabel,
    key: SshKey,
    added_at: UnixTime,
    added_by: Label,
}

/// What every reply to a heartbeat carries.
pub(crate) type Delivered = BTreeMap<AccountName, Vec<String>>;

/// What nodes are told now: nothing before the first key ever, then each account that has keys. Made once a change and
/// not once a heartbeat, and read without the list's lock, which is held while a change goes to the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<RwLock<Option<Arc<Delivered>>>>);

impl Told {
    pub(crate) fn now(&self) -> Option<Arc<Delivered>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, rows: &[Row]) {
        let delivered = Some(Arc::new(deliver(rows)));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = delivered;
    }
}

/// The list and its file.
#[derive(Debug)]
pub(crate) struct SshKeys {
    dir: PrivateDir,
    rows: Option<Vec<Row>>,
    told: Told,
}

impl SshKeys {
    /// Reads the list, if there ever was one.
    pub(crate) fn open(dir: PrivateDir) -> Result<Self, SshKeysError> {
        KEYS.clean(&dir, 16)?;
        let path = KEYS.name(FILE).map(|file| dir.path_of(&file))?;
        let mut rows = None;
        if let Some(file) = KEYS.read::<File>(&dir, FILE)? {
            let rows = rows.insert(Vec::new());
            for row in file.keys {
                admit(rows, &row).map_err(|refusal| SshKeysError::Rule { path: path.clone(), what: refusal.log })?;
                rows.push(row);
            }
        }
        let told = Told::default();
        if let Some(rows) = &rows {
            told.set(rows);
        }
        Ok(Self { dir, rows, told })
    }

    /// What nodes are told, as it changes.
    pub(crate) fn told(&self) -> Told {
        self.told.clone()
    }

    /// The list for people.
    pub(crate) fn view(&self) -> SshKeysView {
        let rows = self.rows.iter().flatten();
        let view = |row: &Row| SshKeyView {
            account: row.account.clone(),
            label: row.label.clone(),
            fingerprint: row.key.fingerprint(),
            key: row.key.to_string(),
            added_at: row.added_at,
            added_by: row.added_by.clone(),
        };
        SshKeysView { keys: rows.map(view).collect() }
    }

    /// Adds a key. `note` tells of it once it is known to be allowed and before it counts: rather told of and not there
    /// than there and not told of.
    pub(crate) fn add(
        &mut self,
        form: SshKeyForm,
        now: UnixTime,
        actor: &str,
        note: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let key = form.key.parse().map_err(|error| Refusal::new(Code::InvalidSshKey, format!("key: {error}.")))?;
        let added_by = Label::fitted(actor)
            .ok_or_else(|| Refusal::new(Code::InvalidOnboardingRequest, "This call names nobody who makes it."))?;
        let row = Row { account: form.account, label: form.label, key, added_at: now, added_by };
        let mut rows = self.rows.clone().unwrap_or_default();
        admit(&rows, &row)?;
        rows.push(row);
        note()?;
        self.keep(rows)
    }

    /// Removes a key by its fingerprint; `note` as with [`SshKeys::add`].
    pub(crate) fn remove(
        &mut self,
        form: &RemoveSshKey,
        note: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut rows = self.rows.clone().unwrap_or_default();
        let before = rows.len();
        rows.retain(|row| row.account != form.account || row.key.fingerprint() != form.fingerprint);
        if rows.len() == before {
            let message = format!("{} has no key with that fingerprint.", form.account);
            return Err(Refusal::new(Code::SshKeyNotFound, message));
        }
        note()?;
        self.keep(rows)
    }

    /// The disk first, then memory: what is told to nodes is what a restart tells them as well.
    fn keep(&mut self, rows: Vec<Row>) -> Result<(), Refusal> {
        let file = File { schema_version: Version, keys: rows };
        KEYS.write(&self.dir, FILE, &file).map_err(|error| Refusal::persistence(&error))?;
        self.told.set(&file.keys);
        self.rows = Some(file.keys);
        Ok(())
    }
}

fn deliver(rows: &[Row]) -> Delivered {
    let mut delivered = Delivered::new();
    for row in rows {
        delivered.entry(row.account.clone()).or_default().push(row.key.to_string());
    }
    delivered
}

/// Whether `row` may be added to `rows`.
fn admit(rows: &[Row], row: &Row) -> Result<(), Refusal> {
    let own = || rows.iter().filter(|other| other.account == row.account);
    if own().any(|other| other.key == row.key) {
        return Err(Refusal::new(Code::DuplicateSshKey, format!("{} has this key already.", row.account)));
    }
    if own().count() >= SSH_KEYS_PER_ACCOUNT_MAX {
        let message = format!("{} has {SSH_KEYS_PER_ACCOUNT_MAX} keys already; remove one first.", row.account);
        return Err(Refusal::new(Code::TooManySshKeys, message));
    }
    // As they travel: account, key, and what JSON puts around them.
    let size = |row: &Row| row.account.as_str().len() + row.key.to_string().len() + 8;
    if rows.iter().map(size).sum::<usize>() + size(row) > SSH_KEYS_CHARS_MAX {
        let message = format!("All keys together have {SSH_KEYS_CHARS_MAX} characters at most; remove some first.");
        return Err(Refusal::new(Code::SshKeyListFull, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

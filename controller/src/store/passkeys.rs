//! `passkeys/passkeys.json`: the passkeys that sign people in to the page, each bound to somebody of the roster.
//!
//! They are the controller's affair and stand in no roster: they sign no intents, and whoever forges this file can look
//! and draft on the page, and order nothing that a node or the worker checks (design.md O2).

use std::path::PathBuf;

use lucia_durable::PrivateDir;
use lucia_proto::base::bounded::KeyLabel;
use lucia_proto::base::bounded::Version;
use lucia_proto::base::limits::{OWNERS_MAX, PASSKEYS_FILE_MAX, PASSKEYS_PER_OWNER_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::{CredentialId, OwnerId};
use lucia_proto::pki::key::{Fingerprint, KeyError, NodePublicKey, VerificationCode};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::json_file::{JsonFile, JsonFileError};

/// The file.
const FILE: &str = "passkeys.json";
const PASSKEYS: JsonFile =
    JsonFile { what: "the passkeys", without: "everybody adds a passkey anew", max: PASSKEYS_FILE_MAX };
/// Rows of all people together.
const ROWS_MAX: usize = OWNERS_MAX * PASSKEYS_PER_OWNER_MAX;

/// Why the passkeys cannot be read or written.
#[derive(Debug, Error)]
pub enum PasskeysError {
    /// Their file.
    #[error(transparent)]
    File(#[from] JsonFileError),
    /// A passkey's key is none.
    #[error("{path} holds a key that is none: restore it from a backup, or move it away")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
}

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    schema_version: Version<1>,
    passkeys: Vec<StoredPasskey>,
}

/// One passkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredPasskey {
    owner: OwnerId,
    code: VerificationCode,
    label: KeyLabel,
    credential_id: CredentialId,
    public_key_pem: String,
    added_at: UnixTime,
    /// Not in files from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confirmed_by: Option<Fingerprint>,
}

/// One passkey, its key read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passkey {
    /// Whom it signs in.
    pub(crate) owner: OwnerId,
    /// Its name for people.
    pub(crate) code: VerificationCode,
    /// What they call it.
    pub(crate) label: KeyLabel,
    /// By which a browser finds it.
    pub(crate) credential_id: CredentialId,
    /// What it signs with.
    pub(crate) key: NodePublicKey,
    /// Since when.
    pub(crate) added_at: UnixTime,
    /// The owner key that confirmed it: once that is out of the roster, the passkey signs nobody in.
    pub(crate) confirmed_by: Option<Fingerprint>,
}

/// The list and its file.
#[derive(Debug)]
pub(crate) struct Passkeys {
    dir: PrivateDir,
    list: Vec<Passkey>,
}

impl Passkeys {
    /// Reads the list, if there ever was one.
    pub(crate) fn open(dir: PrivateDir) -> Result<Self, PasskeysError> {
        PASSKEYS.clean(&dir, 16)?;
        let path = PASSKEYS.name(FILE).map(|file| dir.path_of(&file))?;
        let rows = PASSKEYS.read(&dir, FILE)?.map_or_else(Vec::new, |read: File| read.passkeys);
        let read = |row: StoredPasskey| {
            let key = NodePublicKey::from_pem(&row.public_key_pem)
                .map_err(|source| PasskeysError::Key { path: path.clone(), source })?;
            let StoredPasskey { owner, code, label, credential_id, added_at, confirmed_by, .. } = row;
            Ok(Passkey { owner, code, label, credential_id, key, added_at, confirmed_by })
        };
        let list = rows.into_iter().map(read).collect::<Result<_, PasskeysError>>()?;
        Ok(Self { dir, list })
    }

    /// All of them, in the order they were added.
    pub(crate) fn list(&self) -> &[Passkey] {
        &self.list
    }

    /// The one of this id.
    pub(crate) fn find(&self, id: &CredentialId) -> Option<&Passkey> {
        self.list.iter().find(|passkey| passkey.credential_id == *id)
    }

    /// Whether there is room for one more of `owner`, once those are gone that `stays` does not name.
    pub(crate) fn has_room(&self, owner: &OwnerId, stays: impl Fn(&OwnerId) -> bool) -> bool {
        let own = self.list.iter().filter(|passkey| passkey.owner == *owner).count();
        let all = self.list.iter().filter(|passkey| stays(&passkey.owner)).count();
        own < PASSKEYS_PER_OWNER_MAX && all < ROWS_MAX
    }

    /// Adds one. Those of people whom `stays` does not name go when there are as many as there may be.
    pub(crate) fn add(&mut self, passkey: Passkey, stays: impl Fn(&OwnerId) -> bool) -> Result<(), PasskeysError> {
        let mut list = self.list.clone();
        if list.len() >= ROWS_MAX {
            list.retain(|there| stays(&there.owner));
        }
        list.push(passkey);
        self.keep(list)
    }

    /// Removes the ones that `goes` names, and says how many those were.
    pub(crate) fn remove(&mut self, goes: impl Fn(&Passkey) -> bool) -> Result<usize, PasskeysError> {
        let list: Vec<Passkey> = self.list.iter().filter(|passkey| !goes(passkey)).cloned().collect();
        let gone = self.list.len() - list.len();
        if gone > 0 {
            self.keep(list)?;
        }
        Ok(gone)
    }

    /// The disk first, then memory: what signs somebody in does so after a restart as well.
    fn keep(&mut self, list: Vec<Passkey>) -> Result<(), PasskeysError> {
        let row = |passkey: &Passkey| StoredPasskey {
            owner: passkey.owner.clone(),
            code: passkey.code.clone(),
            label: passkey.label.clone(),
            credential_id: passkey.credential_id.clone(),
            public_key_pem: passkey.key.to_pem(),
            added_at: passkey.added_at,
            confirmed_by: passkey.confirmed_by,
        };
        let file = File { schema_version: Version, passkeys: list.iter().map(row).collect() };
        PASSKEYS.write(&self.dir, FILE, &file)?;
        self.list = list;
        Ok(())
    }
}

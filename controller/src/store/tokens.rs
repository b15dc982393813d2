//! `tokens/tokens.json`: the automation tokens, each as its hash, bound to the owner who made it.
//!
//! They are the controller's affair and stand in no roster: they sign nothing, and whoever reads this file can present none
//! of them. Whoever writes it can look, as whoever holds this controller can anyway.

use std::path::PathBuf;

use lucia_durable::{FileRules, Loaded, PrivateDir, ReadError, WriteError};
use lucia_proto::bounded::Version;
use lucia_proto::digest::Digest;
use lucia_proto::json::{self, JsonError};
use lucia_proto::limits::{JSON_DEPTH_MAX, TOKENS_FILE_MAX};
use lucia_proto::owner::OwnerId;
use lucia_proto::time::UnixTime;
use lucia_proto::token::{TokenName, TokenScopes};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::layout::{LayoutError, name};

/// The file.
const FILE: &str = "tokens.json";
const MODE: u32 = 0o600;

/// Why the tokens cannot be read or written.
#[derive(Debug, Error)]
pub enum TokensError {
    /// Leftovers of a crash cannot be removed.
    #[error("the directory of the automation tokens cannot be cleaned up")]
    Clean(#[source] WriteError),
    /// It is not a file of ours.
    #[error("the automation tokens cannot be read")]
    Read(#[source] ReadError),
    /// It is not such a list.
    #[error("{path} is damaged: restore it from a backup, or move it away, then owners make their tokens anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
    /// It cannot be written.
    #[error("the automation tokens cannot be written")]
    Write(#[source] WriteError),
    /// It cannot be put in JSON.
    #[error("the automation tokens cannot be put in JSON; this is a mistake in the program, report it")]
    Json(#[source] JsonError),
    /// A file name of ours is refused.
    #[error("the file of the automation tokens has no name")]
    Name(#[source] LayoutError),
}

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    schema_version: Version<1>,
    tokens: Vec<Token>,
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Token {
    /// Who made it.
    pub(crate) owner: OwnerId,
    /// What it is called.
    pub(crate) name: TokenName,
    /// What it may look at.
    pub(crate) scopes: TokenScopes,
    /// SHA-256 of the token's text.
    pub(crate) hash: Digest,
    /// Since when.
    pub(crate) added_at: UnixTime,
    /// Until when.
    pub(crate) expires_at: UnixTime,
}

/// The list and its file.
#[derive(Debug)]
pub(crate) struct TokenStore {
    dir: PrivateDir,
    list: Vec<Token>,
}

impl TokenStore {
    /// Reads the list, if there ever was one.
    pub(crate) fn open(dir: PrivateDir) -> Result<Self, TokensError> {
        dir.remove_leftovers(16).map_err(TokensError::Clean)?;
        let file = name(FILE).map_err(TokensError::Name)?;
        let max = u64::try_from(TOKENS_FILE_MAX).unwrap_or(u64::MAX);
        let list = match dir.read(&file, max, FileRules::private()).map_err(TokensError::Read)? {
            Loaded::Missing => Vec::new(),
            Loaded::Found(bytes) => {
                let read: File = json::from_slice(&bytes, TOKENS_FILE_MAX, JSON_DEPTH_MAX)
                    .map_err(|source| TokensError::Damaged { path: dir.path_of(&file), source })?;
                read.tokens
            }
        };
        Ok(Self { dir, list })
    }

    /// All of them, in the order they were made.
    pub(crate) fn list(&self) -> &[Token] {
        &self.list
    }

    /// Adds one; those that `stays` does not name go.
    pub(crate) fn add(&mut self, token: Token, stays: impl Fn(&Token) -> bool) -> Result<(), TokensError> {
        let there = self.list.iter().filter(|there| stays(there)).cloned();
        let list = there.chain(std::iter::once(token)).collect();
        self.keep(list)
    }

    /// Removes the ones that `goes` names, and says which those were.
    pub(crate) fn forget(&mut self, goes: impl Fn(&Token) -> bool) -> Result<Vec<Token>, TokensError> {
        let (gone, list): (Vec<Token>, Vec<Token>) = self.list.iter().cloned().partition(|token| goes(token));
        if !gone.is_empty() {
            self.keep(list)?;
        }
        Ok(gone)
    }

    /// The disk first, then memory: what opens something does so after a restart as well.
    fn keep(&mut self, list: Vec<Token>) -> Result<(), TokensError> {
        let file = File { schema_version: Version, tokens: list };
        let bytes = json::to_string(&file).map_err(TokensError::Json)?;
        let name = name(FILE).map_err(TokensError::Name)?;
        self.dir.replace(&name, bytes.as_bytes(), MODE).map_err(TokensError::Write)?;
        self.list = file.tokens;
        Ok(())
    }
}

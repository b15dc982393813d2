//! `tokens/tokens.json`: the automation tokens, each as its hash, bound to the owner who made it.
//!
//! They are the controller's affair and stand in no roster: they sign nothing, and whoever reads this file can present none
//! of them. Whoever writes it can look, as whoever holds this controller can anyway.

use lucia_durable::PrivateDir;
use lucia_people::token::{TokenName, TokenScopes};
use lucia_proto::base::bounded::Version;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::TOKENS_FILE_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::OwnerId;
use serde::{Deserialize, Serialize};

use super::json_file::{JsonFile, JsonFileError};

/// The file.
const FILE: &str = "tokens.json";
const TOKENS: JsonFile =
    JsonFile { what: "the automation tokens", without: "owners make their tokens anew", max: TOKENS_FILE_MAX };

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
    pub(crate) fn open(dir: PrivateDir) -> Result<Self, JsonFileError> {
        TOKENS.clean(&dir, 16)?;
        let list = TOKENS.read(&dir, FILE)?.map_or_else(Vec::new, |file: File| file.tokens);
        Ok(Self { dir, list })
    }

    /// All of them, in the order they were made.
    pub(crate) fn list(&self) -> &[Token] {
        &self.list
    }

    /// Adds one; those that `stays` does not name go.
    pub(crate) fn add(&mut self, token: Token, stays: impl Fn(&Token) -> bool) -> Result<(), JsonFileError> {
        let there = self.list.iter().filter(|there| stays(there)).cloned();
        let list = there.chain(std::iter::once(token)).collect();
        self.keep(list)
    }

    /// Removes the ones that `goes` names, and says which those were.
    pub(crate) fn forget(&mut self, goes: impl Fn(&Token) -> bool) -> Result<Vec<Token>, JsonFileError> {
        let (gone, list): (Vec<Token>, Vec<Token>) = self.list.iter().cloned().partition(|token| goes(token));
        if !gone.is_empty() {
            self.keep(list)?;
        }
        Ok(gone)
    }

    /// The disk first, then memory: what opens something does so after a restart as well.
    fn keep(&mut self, list: Vec<Token>) -> Result<(), JsonFileError> {
        let file = File { schema_version: Version, tokens: list };
        TOKENS.write(&self.dir, FILE, &file)?;
        self.list = file.tokens;
        Ok(())
    }
}

//! The reply to a heartbeat, read so that one bad entry costs no other.

use std::collections::BTreeMap;

use lucia_proto::digest::Digest;
use lucia_proto::limits::{SSH_KEYS_CHARS_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use lucia_proto::names::{AccountName, Hostname};
use lucia_proto::ssh_key::SshKey;
use serde::Deserialize;
use serde_json::Value;

use super::{Dropped, Why};

/// [`lucia_proto::heartbeat::HeartbeatReply`], with its keys not looked at yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Reply {
    /// Always true.
    pub accepted: bool,
    /// The keys of every account; absent where nothing changes.
    #[serde(default)]
    pub ssh_keys: Option<BTreeMap<String, Value>>,
    /// What the next heartbeat says.
    #[serde(default)]
    pub chain: Option<Digest>,
    /// Whether the identity is frozen.
    #[serde(default)]
    pub frozen: bool,
    /// The approved name, while it is another than the certificate's.
    #[serde(default)]
    pub hostname: Option<Hostname>,
    /// What the node lacks of who may order, and the next order: each is looked at by itself.
    #[serde(default)]
    pub orders: Option<Value>,
}

/// The keys of a reply: what can be used, and what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Each account's keys. None: it has none any more.
    pub accounts: BTreeMap<AccountName, Vec<SshKey>>,
    /// What was left out.
    pub dropped: Vec<Dropped>,
    /// Whether owners signed each of them. Then an account that is not named keeps what it has; else it has none.
    pub signed: bool,
}

impl Told {
    /// Takes the entries apart. Of an entry with a bad key the others are used.
    #[must_use]
    pub fn of(entries: &BTreeMap<String, Value>) -> Self {
        let mut told = Self::default();
        let mut room = SSH_KEYS_CHARS_MAX;
        for (name, list) in entries {
            let mut drop = |why| told.dropped.push(Dropped::new(name, why));
            let Ok(account) = name.parse::<AccountName>() else {
                drop(Why::Name);
                continue;
            };
            let Some(list) = list.as_array() else {
                drop(Why::List);
                continue;
            };
            let mut keys: Vec<SshKey> = Vec::new();
            for line in list {
                match line.as_str().and_then(|line| line.parse::<SshKey>().ok()) {
                    None => drop(Why::Key),
                    Some(key) if keys.contains(&key) => {}
                    Some(_) if keys.len() == SSH_KEYS_PER_ACCOUNT_MAX => {
                        drop(Why::TooMany);
                        break;
                    }
                    Some(key) => keys.push(key),
                }
            }
            let length: usize = keys.iter().map(|key| key.to_string().len()).sum();
            if length > room {
                drop(Why::TooMuch);
                continue;
            }
            room -= length;
            if !keys.is_empty() {
                told.accounts.insert(account, keys);
            }
        }
        told
    }
}

#[cfg(test)]
pub(crate) mod tests;

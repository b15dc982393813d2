//! `ssh-key`: from now on an account has these SSH keys and no others.

use serde::{Deserialize, Serialize};

use super::body::{Actor, Flow, OrderBody, ensure, visible};
use super::ssh_key::{BadSshKey, SshKey};
use crate::base::bounded::{KeyLabel, OutOfBounds};
use crate::base::ids::NodeId;
use crate::base::json;
use crate::base::limits::{JSON_DEPTH_MAX, ORDER_BODY_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use crate::base::names::AccountName;
use crate::base::text::{counted, is_printable, shown};

/// Keys that a list names; the others are counted.
const KEYS_NAMED: usize = 3;
/// Characters of a key's label there.
const LABEL_CHARS: usize = 20;

/// Body of `ssh-key`: all keys of one account from this revision on. None takes the account its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SshKeys {
    /// Whose; the intent's subject is the same.
    pub account: AccountName,
    /// At most 10, none twice.
    pub keys: Vec<LabelledKey>,
}

/// One SSH key and what people call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelledKey {
    /// What people call it.
    pub label: KeyLabel,
    /// Kind and base64, in their one spelling.
    pub key: PlainSshKey,
}

/// An SSH key whose text is the key and nothing else: a comment would be signed and then dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlainSshKey(SshKey);

impl PlainSshKey {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &SshKey {
        &self.0
    }
}

impl From<SshKey> for PlainSshKey {
    fn from(key: SshKey) -> Self {
        Self(key)
    }
}

impl From<PlainSshKey> for String {
    fn from(key: PlainSshKey) -> Self {
        key.0.to_string()
    }
}

impl TryFrom<String> for PlainSshKey {
    type Error = NotPlain;
    fn try_from(text: String) -> Result<Self, NotPlain> {
        let key: SshKey = text.parse().map_err(|_| NotPlain)?;
        if key.to_string() == text { Ok(Self(key)) } else { Err(NotPlain) }
    }
}

/// The text is no SSH key, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an SSH key of a kind that nodes take, without options and comment")]
pub struct NotPlain;

impl OrderBody for SshKeys {
    const WORD: &'static str = "ssh-key";
    const TITLE: &'static str = "SSH keys of an account";
    const FLOW: Flow = Flow::State;
    const ACTORS: &'static [Actor] = &[Actor::Node];

    fn fits(&self, _: &[NodeId], subject: Option<&str>) -> Result<(), OutOfBounds> {
        let subject = subject.ok_or(OutOfBounds { field: "subject", rule: "the account" })?;
        ensure(subject == self.account.as_str(), "account", "the intent's subject")?;
        ensure(self.keys.len() <= SSH_KEYS_PER_ACCOUNT_MAX, "keys", "at most 10")?;
        let once = |at: usize, key: &LabelledKey| self.keys.iter().skip(at + 1).all(|o| o.key != key.key);
        ensure(self.keys.iter().enumerate().all(|(at, key)| once(at, key)), "keys", "each once")
    }

    fn words(&self, lines: &mut Vec<String>) {
        if self.keys.is_empty() {
            return lines.push(format!("Takes all SSH keys from account {}", self.account));
        }
        let count = counted(u64::try_from(self.keys.len()).unwrap_or(u64::MAX), "SSH key");
        lines.push(format!("Lets whoever holds {count} log in as {}, and no other:", self.account));
        for LabelledKey { label, key } in &self.keys {
            lines.push(format!("  {} {}", key.key().fingerprint(), shown(label.as_str())));
            lines.extend(visible(&key.key().to_string()));
        }
    }

    fn about(&self, before: Option<&Self>) -> String {
        format!("{}: {}", self.account, changes(self, before))
    }

    fn before_the_first(&self) -> Option<Self> {
        Some(Self { account: self.account.clone(), keys: Vec::new() })
    }

    fn hides_text(&self) -> bool {
        self.keys.iter().any(|key| !is_printable(key.label.as_str()))
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(_: &super::body::OrderSample) -> Self {
        use super::body::OrderSample;
        let key: SshKey =
            OrderSample::text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f");
        Self {
            account: OrderSample::text("alice"),
            keys: vec![LabelledKey { label: OrderSample::text("laptop"), key: key.into() }],
        }
    }
}

impl SshKeys {
    /// What is wrong with the first key that is none in a body that cannot be read; nothing where it is something else. It
    /// repeats nothing of the body.
    #[must_use]
    pub fn first_bad_key(text: &str) -> Option<BadSshKey> {
        #[derive(Deserialize)]
        struct Keys {
            keys: Vec<Key>,
        }
        #[derive(Deserialize)]
        struct Key {
            key: String,
        }
        let read: Keys = json::from_str(text, ORDER_BODY_MAX, JSON_DEPTH_MAX).ok()?;
        read.keys.iter().find_map(|key| key.key.parse::<SshKey>().err())
    }
}

/// Which keys come and go; which there are, where nobody knows what was before.
fn changes(body: &SshKeys, before: Option<&SshKeys>) -> String {
    let mut named: Vec<String> = match before {
        Some(before) => {
            let of = |sign: char, keys: &[LabelledKey], others: &[LabelledKey]| -> Vec<String> {
                let other = keys.iter().filter(|key| !others.contains(key));
                other.map(|key| format!("{sign}{}", short(&key.label))).collect()
            };
            [of('+', &body.keys, &before.keys), of('-', &before.keys, &body.keys)].concat()
        }
        None => body.keys.iter().map(|key| short(&key.label)).collect(),
    };
    let more = named.len().saturating_sub(KEYS_NAMED);
    named.truncate(KEYS_NAMED);
    match (named.is_empty(), more, before) {
        (true, _, Some(_)) => "the same keys".to_owned(),
        (true, _, None) => "no keys".to_owned(),
        (false, 0, _) => named.join(", "),
        (false, more, _) => format!("{} and {more} more", named.join(", ")),
    }
}

/// A label, cut, and in quotes where it could be taken for more than one.
fn short(label: &KeyLabel) -> String {
    let is_long = label.as_str().chars().count() > LABEL_CHARS;
    let kept = if is_long { LABEL_CHARS - 1 } else { LABEL_CHARS };
    let mut text: String = label.as_str().chars().take(kept).collect();
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'));
    if is_long {
        text.push('…');
    }
    if is_plain { text } else { format!("\"{}\"", shown(&text).replace('"', "'")) }
}

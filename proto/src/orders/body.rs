//! What an intent is about beyond its head: signed by its hash, one shape a kind, strict JSON.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::kind::OrderKind;
use super::{OrderHead, Terms};
use crate::base::bounded::KeyLabel;
use crate::base::bounded::OutOfBounds;
use crate::base::ids::{BootId, NodeId, StartId};
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, ORDER_BODY_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use crate::base::names::{AccountName, Hostname};
use crate::base::time::UnixTime;
use crate::orders::ssh_key::{BadSshKey, SshKey};
use crate::pki::key::Fingerprint;

/// Body of `admit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Admit {
    /// The machine's key, whole; the intent names the node it makes.
    pub fingerprint: Fingerprint,
    /// The name it gets.
    pub hostname: Hostname,
    /// The node that has the name now: its key is barred in the same act. Absent: nobody has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<NodeId>,
}

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

/// Body of `release-lapse`. The worker compares name, key and end with its ledger; the rest is shown and not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReleaseLapse {
    /// The node's key, whole.
    pub fingerprint: Fingerprint,
    /// Its name.
    pub hostname: Hostname,
    /// When its last certificate ended.
    pub ended_at: UnixTime,
    /// Where it called from before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_address: Option<IpAddr>,
    /// Where it calls from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Its present boot, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<BootId>,
}

/// Body of `clone-decision`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CloneDecision {
    /// The node's name.
    pub hostname: Hostname,
    /// What becomes of the identity.
    pub decision: Decision,
    /// The start of the holder that stays: with `keep`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_id: Option<StartId>,
}

/// What becomes of an identity that was seen twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// One holder stays, the other is told that it is frozen for good.
    Keep,
    /// Neither stays: the key is barred.
    Split,
}

/// Body of `remove-identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RemoveIdentity {
    /// The node's name.
    pub hostname: Hostname,
}

/// A body of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// See [`Admit`].
    Admit(Admit),
    /// See [`SshKeys`].
    SshKey(SshKeys),
    /// See [`ReleaseLapse`].
    ReleaseLapse(ReleaseLapse),
    /// See [`CloneDecision`].
    CloneDecision(CloneDecision),
    /// See [`RemoveIdentity`].
    RemoveIdentity(RemoveIdentity),
}

impl SshKeys {
    /// Whether a label has characters that must not be shown. Older orders may have them; a new one may not.
    #[must_use]
    pub(super) fn hides_text(&self) -> bool {
        self.keys.iter().any(|key| !crate::base::text::is_printable(key.label.as_str()))
    }

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

impl Body {
    /// Reads the body of an intent of `kind`.
    ///
    /// # Errors
    /// When it is longer than 32 KiB or not strict JSON of that kind's shape.
    pub fn parse(kind: OrderKind, text: &str) -> Result<Self, JsonError> {
        fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, JsonError> {
            json::from_str(text, ORDER_BODY_MAX, JSON_DEPTH_MAX)
        }
        Ok(match kind {
            OrderKind::Admit => Self::Admit(read(text)?),
            OrderKind::SshKey => Self::SshKey(read(text)?),
            OrderKind::ReleaseLapse => Self::ReleaseLapse(read(text)?),
            OrderKind::CloneDecision => Self::CloneDecision(read(text)?),
            OrderKind::RemoveIdentity => Self::RemoveIdentity(read(text)?),
        })
    }

    /// The text that is hashed and travels.
    ///
    /// # Errors
    /// Never for values of this type.
    pub fn to_text(&self) -> Result<String, JsonError> {
        match self {
            Self::Admit(body) => json::to_string(body),
            Self::SshKey(body) => json::to_string(body),
            Self::ReleaseLapse(body) => json::to_string(body),
            Self::CloneDecision(body) => json::to_string(body),
            Self::RemoveIdentity(body) => json::to_string(body),
        }
    }

    /// The kind whose body it is.
    #[must_use]
    pub const fn kind(&self) -> OrderKind {
        match self {
            Self::Admit(_) => OrderKind::Admit,
            Self::SshKey(_) => OrderKind::SshKey,
            Self::ReleaseLapse(_) => OrderKind::ReleaseLapse,
            Self::CloneDecision(_) => OrderKind::CloneDecision,
            Self::RemoveIdentity(_) => OrderKind::RemoveIdentity,
        }
    }

    /// The name of the one node it is about: what its owner read, so it has to be true where it is carried out.
    #[must_use]
    pub const fn hostname(&self) -> Option<&Hostname> {
        match self {
            Self::Admit(body) => Some(&body.hostname),
            Self::ReleaseLapse(body) => Some(&body.hostname),
            Self::CloneDecision(body) => Some(&body.hostname),
            Self::RemoveIdentity(body) => Some(&body.hostname),
            Self::SshKey(_) => None,
        }
    }

    /// Whether head and body speak of the same.
    ///
    /// # Errors
    /// The first member that does not fit.
    pub fn fits(&self, intent: &OrderHead) -> Result<(), OutOfBounds> {
        ensure(self.kind() == intent.kind, "kind", "the body's")?;
        match self {
            Self::SshKey(body) => {
                let Terms::State { subject, .. } = &intent.terms else {
                    return ensure(false, "subject", "the account");
                };
                ensure(subject.as_str() == body.account.as_str(), "account", "the intent's subject")?;
                ensure(body.keys.len() <= SSH_KEYS_PER_ACCOUNT_MAX, "keys", "at most 10")?;
                let once = |at: usize, key: &LabelledKey| body.keys.iter().skip(at + 1).all(|o| o.key != key.key);
                ensure(body.keys.iter().enumerate().all(|(at, key)| once(at, key)), "keys", "each once")
            }
            Self::Admit(body) => {
                one_key(intent, &body.fingerprint)?;
                ensure(body.replaces.as_ref() != intent.nodes.first(), "replaces", "another node")
            }
            Self::ReleaseLapse(body) => one_key(intent, &body.fingerprint),
            Self::CloneDecision(body) => {
                one_node(intent)?;
                let keep = body.decision == Decision::Keep;
                ensure(body.start_id.is_some() == keep, "startId", "there if and only if one holder is kept")
            }
            Self::RemoveIdentity(_) => one_node(intent),
        }
    }
}

fn one_node(intent: &OrderHead) -> Result<(), OutOfBounds> {
    ensure(intent.nodes.len() == 1, "nodes", "exactly one")
}

fn one_key(intent: &OrderHead, fingerprint: &Fingerprint) -> Result<(), OutOfBounds> {
    one_node(intent)?;
    ensure(intent.nodes.first() == Some(&fingerprint.node_id()), "fingerprint", "the key of the node that is named")
}

fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), OutOfBounds> {
    if holds { Ok(()) } else { Err(OutOfBounds { field, rule }) }
}

//! Which kinds are carried out at all: `/etc/lucia/agent-policy.toml` of a node, and the roster's part for the whole
//! fleet (design.md O5). Of the two the stricter counts.
//!
//! ```toml
//! default = "forbid"
//! ssh-key = "allow"
//! remove-identity = "two-owners"
//! ```
//!
//! A kind that is not named goes by `default`, and without one it is forbidden: what a later version brings is not
//! allowed on a machine whose policy was written before it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::OrderKind;
use super::kind::LaterKind;

/// The key of what counts for kinds that are not named.
const DEFAULT: &str = "default";

/// What is asked of an intent of one kind. The later is the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// One owner's signature.
    Allow,
    /// Signatures of two owners: persons are counted, not keys.
    TwoOwners,
    /// None is enough.
    Forbid,
}

impl Rule {
    /// Its word in a policy.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::TwoOwners => "two-owners",
            Self::Forbid => "forbid",
        }
    }
}

/// A rule for every kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderPolicy {
    default: Rule,
    kinds: BTreeMap<OrderKind, Rule>,
    /// Of kinds that this version does not know: kept for who does, and nothing is allowed by them here.
    later: BTreeMap<LaterKind, Rule>,
}

/// A policy as other versions may have written it: a kind that this one does not know is kept, and refuses nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPolicy(pub OrderPolicy);

impl OrderPolicy {
    /// What counts where the file cannot be read, is missing, or is none.
    #[must_use]
    pub const fn forbid_all() -> Self {
        Self { default: Rule::Forbid, kinds: BTreeMap::new(), later: BTreeMap::new() }
    }

    /// Adds nothing to what another policy asks.
    #[must_use]
    pub const fn allow_all() -> Self {
        Self { default: Rule::Allow, kinds: BTreeMap::new(), later: BTreeMap::new() }
    }

    /// This policy with another rule for one kind.
    #[must_use]
    pub fn with(mut self, kind: OrderKind, rule: Rule) -> Self {
        self.kinds.insert(kind, rule);
        self
    }

    /// This policy with another rule for kinds that are not named.
    #[must_use]
    pub fn with_default(mut self, rule: Rule) -> Self {
        self.default = rule;
        self
    }

    /// The rule for kinds that are not named.
    #[must_use]
    pub const fn default_rule(&self) -> Rule {
        self.default
    }

    /// The kinds it names that this version does not know.
    pub fn later(&self) -> impl Iterator<Item = &LaterKind> {
        self.later.keys()
    }

    /// The rule for `kind` where the policy names it.
    #[must_use]
    pub fn named(&self, kind: OrderKind) -> Option<Rule> {
        self.kinds.get(&kind).copied()
    }

    /// The rule for `kind`.
    #[must_use]
    pub fn rule(&self, kind: OrderKind) -> Rule {
        self.named(kind).unwrap_or(self.default)
    }

    /// The rule for `kind` where both policies hold.
    #[must_use]
    pub fn stricter(&self, other: &Self, kind: OrderKind) -> Rule {
        self.rule(kind).max(other.rule(kind))
    }
}

impl Serialize for OrderPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let default = std::iter::once((DEFAULT, self.default));
        let later = self.later.iter().map(|(kind, rule)| (kind.as_str(), *rule));
        serializer.collect_map(default.chain(self.kinds.iter().map(|(kind, rule)| (kind.as_str(), *rule))).chain(later))
    }
}

impl<'de> Deserialize<'de> for OpenPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut policy = OrderPolicy::forbid_all();
        for (word, rule) in BTreeMap::<String, Rule>::deserialize(deserializer)? {
            if word == DEFAULT {
                policy.default = rule;
            } else if let Some(kind) = OrderKind::of_word(&word) {
                policy.kinds.insert(kind, rule);
            } else {
                policy.later.insert(word.parse().map_err(de::Error::custom)?, rule);
            }
        }
        Ok(Self(policy))
    }
}

/// Settings that a person writes here name kinds of this version alone: another word is a slip of the pen.
impl<'de> Deserialize<'de> for OrderPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OpenPolicy(policy) = OpenPolicy::deserialize(deserializer)?;
        if policy.later.is_empty() { Ok(policy) } else { Err(de::Error::custom("not a kind of order")) }
    }
}

/// For a member of something signed: see [`OpenPolicy`].
pub(super) fn open<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderPolicy, D::Error> {
    OpenPolicy::deserialize(deserializer).map(|OpenPolicy(policy)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OrderPolicy, toml::de::Error> {
        toml::from_str(text)
    }

    // spec: IN-2
    #[test]
    fn what_is_not_named_goes_by_the_default_and_without_one_is_forbidden() {
        let policy = read("ssh-key = \"allow\"\nremove-identity = \"two-owners\"\n").unwrap();
        for (kind, rule) in [
            (OrderKind::SshKey, Rule::Allow),
            (OrderKind::RemoveIdentity, Rule::TwoOwners),
            (OrderKind::Admit, Rule::Forbid),
            (OrderKind::CloneDecision, Rule::Forbid),
        ] {
            assert_eq!(policy.rule(kind), rule, "{kind:?}");
        }
        let policy = read("default = \"allow\"\nssh-key = \"forbid\"").unwrap();
        assert_eq!(policy.rule(OrderKind::Admit), Rule::Allow);
        assert_eq!(policy.rule(OrderKind::SshKey), Rule::Forbid);
        assert_eq!(read("").unwrap(), OrderPolicy::forbid_all());
    }

    // spec: IN-3
    #[test]
    fn a_policy_that_cannot_be_read_forbids_everything() {
        for (name, text) in [
            ("no TOML", "ssh-key: allow"),
            ("a word that is none", "ssh-key = \"yes\""),
            ("a truth value", "ssh-key = true"),
            ("a kind that is none", "default = \"allow\"\nexecute = \"allow\""),
            ("a kind in upper case", "SSH-KEY = \"allow\""),
            ("twice", "ssh-key = \"allow\"\nssh-key = \"allow\""),
            ("a table", "[kinds]\nssh-key = \"allow\""),
        ] {
            assert!(read(text).is_err(), "{name}");
        }
        let nothing = OrderPolicy::forbid_all();
        assert!(OrderKind::ALL.iter().all(|kind| nothing.rule(*kind) == Rule::Forbid));
        assert_eq!(read("default = \"allow\"").unwrap().rule(OrderKind::SshKey), Rule::Allow);
    }

    // spec: IN-4
    #[test]
    fn of_two_policies_the_stricter_counts() {
        let all = [Rule::Allow, Rule::TwoOwners, Rule::Forbid];
        let with = |rule| OrderPolicy::allow_all().with(OrderKind::SshKey, rule);
        for (left, one) in all.into_iter().enumerate() {
            for (right, other) in all.into_iter().enumerate() {
                let want = all[left.max(right)];
                assert_eq!(with(one).stricter(&with(other), OrderKind::SshKey), want);
            }
        }
    }

    #[test]
    fn a_policy_survives_its_text() {
        let policy = OrderPolicy::allow_all().with(OrderKind::Admit, Rule::TwoOwners);
        let text = crate::base::json::to_string(&policy).unwrap();
        assert_eq!(text, r#"{"default":"allow","admit":"two-owners"}"#);
        assert_eq!(crate::base::json::from_str::<OrderPolicy>(&text, 100, 1).unwrap(), policy);
        assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
    }
}

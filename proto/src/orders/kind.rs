//! How a roster or a node's policy may name a kind of order that a later version has.

use std::collections::BTreeSet;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::OrderKind;
use crate::checked_text;

checked_text! {
    /// A kind of order that this version does not know, as a roster or a node's policy names it. It allows nothing here.
    LaterKind, BadLaterKind, "a kind of order that this version does not know: up to 64 of a-z, 0-9 and -, from a letter on",
    |text| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && text.len() <= 64
            && OrderKind::of_word(text).is_none()
    }
}

/// Kinds that may be signed on the page. It is the list of those that this version knows; others are kept as words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageKinds {
    known: Vec<OrderKind>,
    later: Vec<LaterKind>,
}

impl PageKinds {
    /// Those that this version does not know.
    #[must_use]
    pub fn later(&self) -> &[LaterKind] {
        &self.later
    }

    /// Whether it names none, known or not.
    #[must_use]
    pub fn names_none(&self) -> bool {
        self.known.is_empty() && self.later.is_empty()
    }

    /// Whether it names one twice.
    pub(super) fn repeats(&self) -> bool {
        let (known, later): (BTreeSet<_>, BTreeSet<_>) = (self.known.iter().collect(), self.later.iter().collect());
        known.len() < self.known.len() || later.len() < self.later.len()
    }
}

impl From<Vec<OrderKind>> for PageKinds {
    fn from(known: Vec<OrderKind>) -> Self {
        Self { known, later: Vec::new() }
    }
}

impl Deref for PageKinds {
    type Target = [OrderKind];

    fn deref(&self) -> &[OrderKind] {
        &self.known
    }
}

impl Serialize for PageKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.known.iter().map(|kind| kind.as_str()).chain(self.later.iter().map(LaterKind::as_str)))
    }
}

impl<'de> Deserialize<'de> for PageKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut kinds = Self::default();
        for word in Vec::<String>::deserialize(deserializer)? {
            match OrderKind::of_word(&word) {
                Some(kind) => kinds.known.push(kind),
                None => kinds.later.push(word.parse().map_err(de::Error::custom)?),
            }
        }
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Actor;

    // spec: IN-1
    #[test]
    fn each_kind_has_one_word_and_somebody_who_acts() {
        let mut words = BTreeSet::new();
        for kind in OrderKind::ALL {
            assert!(words.insert(kind.as_str()), "{kind:?}");
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{}\"", kind.as_str()));
            assert_eq!(OrderKind::of_word(kind.as_str()), Some(*kind));
            assert!(!kind.actors().is_empty());
        }
        for word in ["", "Admit", "exec", "all", "ssh_key"] {
            assert_eq!(OrderKind::of_word(word), None);
        }
        // What gives a key to a machine or takes its name is the worker's to decide, what is written on a node the node's.
        assert_eq!(OrderKind::Admit.actors(), [Actor::Worker]);
        assert_eq!(OrderKind::SshKey.actors(), [Actor::Node]);
        assert_eq!(OrderKind::ReleaseLapse.actors(), [Actor::Worker]);
    }
}

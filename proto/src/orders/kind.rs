//! The kinds of intent, a closed list, and who acts on each.

use serde::{Deserialize, Serialize};

/// Who acts on an intent, and therefore checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The node that the intent names.
    Node,
    /// The enrollment worker.
    Worker,
    /// The controller, for what it keeps itself: it is not believed by the two others.
    Controller,
}

impl Actor {
    /// As a refusal names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "a node",
            Self::Worker => "the enrollment worker",
            Self::Controller => "the controller",
        }
    }
}

/// What an intent orders. A closed list: what is not on it is refused before anything else is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// A machine's key becomes a node of this name.
    Admit,
    /// From now on an account has these SSH keys and no others.
    SshKey,
    /// A node that was off for too long may renew.
    ReleaseLapse,
    /// What becomes of an identity that was seen twice.
    CloneDecision,
    /// A node wipes what it has of the fleet and is a plain machine again.
    RemoveIdentity,
}

impl OrderKind {
    /// Every kind.
    pub const ALL: &'static [Self] =
        &[Self::Admit, Self::SshKey, Self::ReleaseLapse, Self::CloneDecision, Self::RemoveIdentity];

    /// The word that is signed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::SshKey => "ssh-key",
            Self::ReleaseLapse => "release-lapse",
            Self::CloneDecision => "clone-decision",
            Self::RemoveIdentity => "remove-identity",
        }
    }

    /// Whether it says how something is from now on, with a revision that rises. Else it is done once, within a day.
    #[must_use]
    pub const fn is_state(self) -> bool {
        match self {
            Self::SshKey => true,
            Self::Admit | Self::ReleaseLapse | Self::CloneDecision | Self::RemoveIdentity => false,
        }
    }

    /// Who acts on it; anybody else refuses it.
    #[must_use]
    pub const fn actors(self) -> &'static [Actor] {
        match self {
            Self::Admit | Self::ReleaseLapse => &[Actor::Worker],
            Self::SshKey => &[Actor::Node],
            Self::CloneDecision | Self::RemoveIdentity => &[Actor::Node, Actor::Worker, Actor::Controller],
        }
    }

    /// The kind of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: IN-1
    #[test]
    fn each_kind_has_one_word_and_somebody_who_acts() {
        let mut words = std::collections::BTreeSet::new();
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

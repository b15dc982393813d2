//! What an agent says of itself in each heartbeat: its version, what it can do, and what its machine's policy lets owners
//! order (managed-nodes.md "Extension points", design.md V1).
//!
//! Version and rules travel in `extensions`, so a controller of before this says nothing against them. The controller sends
//! nothing that an agent did not name: an order of a kind only where the kind is among its features, and a member of a
//! reply's `extensions` only where [`EXTENSIONS`] is.

use std::collections::BTreeMap;

use crate::base::bounded::Text;
use crate::base::extensions::{ExtensionName, Extensions};
use crate::node::feature::{FeatureName, Features};
use crate::orders::{Actor, OrderKind, OrderPolicy, Rule};

/// The feature of an agent that ignores members of a reply's `extensions` that it does not know.
pub const EXTENSIONS: &str = "extensions";
/// Kinds that an agent carries out whose heartbeats name no features: it is of before they did.
pub const BEFORE_FEATURES: [OrderKind; 3] = [OrderKind::SshKey, OrderKind::CloneDecision, OrderKind::RemoveIdentity];

const VERSION: &str = "version";
/// Where each rule is told: the words of its kinds, with spaces between. What is told under neither is forbidden.
const RULES: [(&str, Rule); 2] = [("policy.allow", Rule::Allow), ("policy.two-owners", Rule::TwoOwners)];

/// The version of an agent, as Cargo writes it.
pub type AgentVersion = Text<1, 64>;

/// The kinds that a node carries out.
pub fn carried() -> impl Iterator<Item = OrderKind> {
    OrderKind::ALL.iter().copied().filter(|kind| kind.actors().contains(&Actor::Node))
}

/// What this version of the agent can do: the words of the kinds it carries out, and that it knows of extensions.
#[must_use]
pub fn features() -> Features {
    let words = carried().map(OrderKind::as_str).chain([EXTENSIONS]);
    let names: Vec<FeatureName> = words.filter_map(|word| word.parse().ok()).collect();
    Features::try_from(names).unwrap_or_default()
}

/// What a heartbeat's `extensions` hold for an agent of this version under these rules.
#[must_use]
pub fn extensions(version: &str, rules: &OrderPolicy) -> Extensions {
    let of = |rule: Rule| carried().filter(|kind| rules.rule(*kind) == rule).map(OrderKind::as_str).collect::<Vec<_>>();
    let told = RULES.map(|(name, rule)| (name, of(rule).join(" ")));
    let all = told.into_iter().chain([(VERSION, version.to_owned())]);
    let members = all.filter_map(|(name, text)| Some((name.parse().ok()?, text.parse().ok()?)));
    Extensions::try_from(members.collect::<BTreeMap<ExtensionName, _>>()).unwrap_or_default()
}

/// The version that a heartbeat tells.
#[must_use]
pub fn version(extensions: &Extensions) -> Option<AgentVersion> {
    extensions.get(VERSION)?.parse().ok()
}

/// The rules that a heartbeat tells; nothing of an agent that tells none.
#[must_use]
pub fn rules(extensions: &Extensions) -> Option<OrderPolicy> {
    let told = RULES.map(|(name, rule)| (extensions.get(name), rule));
    if told.iter().any(|(text, _)| text.is_none()) {
        return None;
    }
    let mut rules = OrderPolicy::forbid_all();
    for (text, rule) in told {
        for kind in text.into_iter().flat_map(|text| text.split(' ')).filter_map(OrderKind::of_word) {
            // Told under both: the stricter counts.
            rules = rules.with(kind, rule);
        }
    }
    Some(rules)
}

/// The kinds of order that one agent carries out, by its own word: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries(u32);

impl Carries {
    /// Those of an agent with these features.
    #[must_use]
    pub fn of(features: &Features) -> Self {
        let named = features.names().filter_map(|name| OrderKind::of_word(name.as_str()));
        let before = features.is_empty().then_some(BEFORE_FEATURES).into_iter().flatten();
        Self(named.chain(before).fold(0, |bits, kind| bits | bit(kind)))
    }

    /// Whether this kind is among them.
    #[must_use]
    pub const fn has(self, kind: OrderKind) -> bool {
        self.0 & bit(kind) != 0
    }
}

const fn bit(kind: OrderKind) -> u32 {
    1 << kind as u32
}

const _: () = assert!(OrderKind::ALL.len() <= 32);

#[cfg(test)]
mod tests {
    use super::*;

    // spec: VE-400
    #[test]
    fn an_agent_names_what_it_carries_out_and_one_of_before_carries_out_three_kinds() {
        let (ours, none) = (features(), Features::default());
        assert!(ours.has(EXTENSIONS) && !none.has(EXTENSIONS));
        for kind in OrderKind::ALL {
            let node = kind.actors().contains(&Actor::Node);
            assert_eq!(Carries::of(&ours).has(*kind), node, "{kind:?}");
            assert_eq!(Carries::of(&none).has(*kind), BEFORE_FEATURES.contains(kind), "{kind:?}");
            assert!(!BEFORE_FEATURES.contains(kind) || node, "{kind:?}");
        }
    }

    // spec: VE-401
    #[test]
    fn the_rules_in_force_survive_the_heartbeat_whatever_they_are() {
        let all = OrderPolicy::allow_all();
        let mixed = all.clone().with(OrderKind::SshKey, Rule::TwoOwners).with(OrderKind::CloneDecision, Rule::Forbid);
        for policy in [all, mixed, OrderPolicy::forbid_all()] {
            let told = extensions("0.5.0", &policy);
            let read = rules(&told).unwrap();
            assert_eq!(version(&told).unwrap().as_str(), "0.5.0");
            for kind in OrderKind::ALL {
                let want = if carried().any(|one| one == *kind) { policy.rule(*kind) } else { Rule::Forbid };
                assert_eq!(read.rule(*kind), want, "{kind:?}");
            }
        }
        assert_eq!(rules(&Extensions::default()), None);
        assert_eq!(version(&Extensions::default()), None);
    }

    // spec: VE-401
    #[test]
    fn a_rule_that_is_told_twice_counts_as_the_stricter_and_words_of_later_kinds_allow_nothing() {
        let read = |allow: &str, two: &str| {
            let members = [("policy.allow", allow), ("policy.two-owners", two)];
            let members = members.map(|(name, text)| (name.parse().unwrap(), text.parse().unwrap()));
            rules(&Extensions::try_from(BTreeMap::from(members)).unwrap()).unwrap()
        };
        assert_eq!(read("ssh-key", "ssh-key").rule(OrderKind::SshKey), Rule::TwoOwners);
        assert_eq!(read("later ssh-key", "").rule(OrderKind::SshKey), Rule::Allow);
        assert_eq!(read("later", "SSH-KEY  all").rule(OrderKind::SshKey), Rule::Forbid);
    }
}

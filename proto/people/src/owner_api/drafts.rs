//! Where orders stand: what a list of them says, and that in words for whoever shows it.

use lucia_proto::files::owner_queue::Outcome;
use serde::{Deserialize, Serialize};

use lucia_proto::base::bounded::Label;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{DRAFTS_PER_ANSWER_MAX, DRAFTS_TOLD_PER_ANSWER_MAX, ORDER_NODES_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::{Actor, Draft, OrderCode, OrderId, OrderKind, OrderSignature, Subject};
use lucia_proto::pki::key::VerificationCode;

/// Nodes that one sentence names at most; the others are counted.
const GONE_NAMED: usize = 4;

/// What is to be drafted for the person who asks: fleet, owner, time and nonce are the controller's to add. Nobody has signed
/// anything by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DraftForm {
    /// What is ordered.
    pub kind: OrderKind,
    /// Whom it is for.
    pub nodes: Vec<NodeId>,
    /// The order's body, as JSON.
    pub body: String,
    /// Of a kind that says how something is from now on: what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// And its revision, which rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// Where a draft stands. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DraftState {
    /// It waits for a signature.
    Drafted,
    /// It was signed and not carried out by all yet.
    Signed,
    /// Whoever it names carried it out, but for those who are gone.
    Done,
    /// Somebody refused it; the code says why.
    Refused,
    /// A later order about the same took its place, and nobody said that this one was carried out.
    Replaced,
    /// Every node that it names was removed before it carried it out.
    NobodyLeft,
    /// Its time was over first.
    Expired,
}

impl DraftState {
    /// In words, for the page and for `luciactl`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Drafted => "waits for a signature",
            Self::Signed => "signed, not carried out by all yet",
            Self::Done => "carried out",
            Self::Refused => "refused",
            Self::Replaced => "replaced by a later order",
            Self::NobodyLeft => "nobody is left to carry it out",
            Self::Expired => "ran out",
        }
    }

    /// Whether nothing becomes of it any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Drafted | Self::Signed => false,
            Self::Done | Self::Refused | Self::Replaced | Self::NobodyLeft | Self::Expired => true,
        }
    }
}

/// One draft in a list. What it says in words is nobody's word but the draft's: read that before signing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftLine {
    /// What to type to sign it.
    pub code: VerificationCode,
    /// Which order it is.
    pub intent: OrderId,
    /// What is ordered.
    pub kind: OrderKind,
    /// What it is about, in a few words made from its own body, and of an order about keys from the one before it; see
    /// [`about`](lucia_proto::orders::about). For telling orders apart in a list, and nothing to sign by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Label>,
    /// By whom.
    pub owner: OwnerId,
    /// Who signed so far.
    pub signers: Vec<OwnerId>,
    /// Where it stands.
    pub state: DraftState,
    /// Whether it was handed out, or may have been, to somebody who has not said what became of it: then nobody can call
    /// it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_out: bool,
    /// When it was handed in.
    pub at: UnixTime,
    /// By whom it was handed in: an owner, or the operator.
    pub drafted_by: Label,
    /// What those said who refused it or carried it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// The nodes it names that were removed before they carried it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<GoneNode>,
}

/// A node that an order names and that is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneNode {
    /// The node.
    pub node_id: NodeId,
    /// The name it had; absent once the controller's events reach back no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// When it was removed; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<UnixTime>,
}

impl DraftLine {
    /// Who is gone, as a part of a sentence: `web-1 was removed on 2026-11-30T20:00:00Z`; nothing when nobody is.
    #[must_use]
    pub fn gone_words(&self) -> Option<String> {
        let one = |node: &GoneNode| {
            let name = node.hostname.as_ref().map_or_else(|| format!("node {}", node.node_id), ToString::to_string);
            match node.removed_at {
                Some(at) => format!("{name} was removed on {at}"),
                None => format!("{name} was removed"),
            }
        };
        let named: Vec<String> = self.gone.iter().take(GONE_NAMED).map(one).collect();
        let more = self.gone.len().saturating_sub(GONE_NAMED);
        match (named.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(named.join(", ")),
            (false, more) => Some(format!("{}, and so were {more} more", named.join(", "))),
        }
    }

    /// Where it stands, as sentences.
    #[must_use]
    pub fn words(&self) -> String {
        match (self.state, self.gone_words()) {
            (DraftState::NobodyLeft, Some(gone)) => format!("Nobody is left to carry it out: {gone}."),
            (DraftState::Done, Some(gone)) => format!("Carried out by all who are left; {gone}."),
            (state, gone) => {
                let mut words = state.words().to_owned();
                if let Some(first) = words.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                let gone = gone.map(|gone| format!("; {gone}")).unwrap_or_default();
                format!("{words}{gone}.")
            }
        }
    }
}

impl DraftLine {
    /// What was told, and by whom: of what the worker carries out the worker speaks first, its node next, and the controller
    /// last, where it could not do its part.
    pub fn told(&self) -> impl Iterator<Item = (Actor, &Outcome)> {
        let has_worker = self.kind.actors().contains(&Actor::Worker);
        self.outcomes.iter().enumerate().map(move |(at, outcome)| match (has_worker, at) {
            (true, 0) => (Actor::Worker, outcome),
            (true, 1) | (false, _) => (Actor::Node, outcome),
            (true, _) => (Actor::Controller, outcome),
        })
    }

    /// Who carried it out, and who did not and said so, in words: `worker, web-1; refused by web-2`. Nothing while nobody
    /// told. `name` is what a node is called.
    #[must_use]
    pub fn told_words(&self, name: impl Fn(&NodeId) -> String) -> Option<String> {
        let named = |wanted: &dyn Fn(&Outcome) -> bool| {
            let of = |(actor, outcome): (Actor, &Outcome)| match actor {
                Actor::Worker => "worker".to_owned(),
                Actor::Node => name(&outcome.node_id),
                Actor::Controller => "controller".to_owned(),
            };
            let count = self.told().filter(|(_, outcome)| wanted(outcome)).count();
            let first: Vec<String> =
                self.told().filter(|(_, outcome)| wanted(outcome)).take(GONE_NAMED).map(of).collect();
            match (count, count.saturating_sub(GONE_NAMED)) {
                (0, _) => None,
                (_, 0) => Some(first.join(", ")),
                (_, more) => Some(format!("{} and {more} more", first.join(", "))),
            }
        };
        let done = named(&|outcome| outcome.refused.is_none_or(OrderCode::is_repeat));
        let replaced = named(&|outcome| outcome.refused.is_some_and(OrderCode::is_overtaken));
        let refused = named(&|outcome| outcome.refused.is_some_and(|code| !code.is_repeat() && !code.is_overtaken()));
        let parts: Vec<String> = done
            .into_iter()
            .chain(replaced.map(|who| format!("replaced at {who}")))
            .chain(refused.map(|who| format!("refused by {who}")))
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Who comes next and how long that takes, once it is signed; nothing before and after.
    #[must_use]
    pub fn awaited(&self) -> Option<&'static str> {
        if self.state != DraftState::Signed {
            return None;
        }
        let actors = self.kind.actors();
        Some(match (actors.contains(&Actor::Worker), self.outcomes.is_empty(), actors.contains(&Actor::Node)) {
            (true, true, false) => "The worker takes it within seconds.",
            (true, true, true) => {
                "The worker takes it within seconds; its node takes it after that with a heartbeat, every 30 s."
            }
            (true, false, _) | (false, _, _) => {
                "A node takes it with its next heartbeat, within 30 s, and says with the one after what became of it: within \
                 a minute it is to be seen here."
            }
        })
    }
}

/// Answer to the call `Drafts`, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftsView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// A page of them.
    pub drafts: Vec<DraftLine>,
}

impl DraftsView {
    /// Whether older ones may follow: it has as many lines as an answer may have, or the next would have told of more nodes
    /// than one answer does.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let told: usize = self.drafts.iter().map(|line| 1 + line.outcomes.len() + line.gone.len()).sum();
        // Of each node the next one tells what it said and that it is gone, at most.
        let next = 1 + 2 * ORDER_NODES_MAX;
        self.drafts.len() >= DRAFTS_PER_ANSWER_MAX || told + next > DRAFTS_TOLD_PER_ANSWER_MAX
    }
}

/// Answer to the call `Draft` and to
/// the call `AddDraft`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftView {
    /// What is signed.
    pub draft: Draft,
    /// What there is of signatures.
    pub signatures: Vec<OrderSignature>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PG-90
    #[test]
    fn an_order_says_who_of_its_nodes_is_gone() {
        let id = "1a2b3c4d5e6f00000000000000000000";
        let line = |state: &str, gone: &str| -> DraftLine {
            let text = format!(
                r#"{{"code":"1a2b-3c4d-5e6f","intent":"{id}{id}","kind":"ssh-key","owner":"{id}","signers":[],
                "state":"{state}","at":"2026-11-29T19:00:00Z","draftedBy":"owner:alice","gone":[{gone}]}}"#
            );
            lucia_proto::base::json::from_str(&text, 1 << 14, 8).unwrap()
        };
        let web = format!(r#"{{"nodeId":"{id}","hostname":"web-1","removedAt":"2026-11-30T20:00:00Z"}}"#);
        let old = format!(r#"{{"nodeId":"{id}"}}"#);
        let many = vec![old.clone(); GONE_NAMED + 2].join(",");
        let mut shown = String::new();
        for (state, gone, names) in [
            ("done", "", ""),
            ("replaced", "", ""),
            ("nobody-left", web.as_str(), "web-1"),
            ("done", &web, "web-1"),
            ("signed", &old, id),
            ("nobody-left", &many, id),
        ] {
            let words = line(state, gone).words();
            assert!(words.contains(names) && (!names.is_empty() || !words.contains("removed")), "{words}");
            shown.push_str(&format!("{state}\n    {words}\n"));
        }
        // Of many the first are named, the others counted.
        assert_eq!(line("nobody-left", &many).words().matches(id).count(), GONE_NAMED);
        expect_test::expect_file!["snapshots/order-words.txt"].assert_eq(&shown);
    }

    // spec: PG-101
    #[test]
    fn an_order_says_who_carried_it_out_and_who_comes_next() {
        let id = "1a2b3c4d5e6f00000000000000000000";
        let line = |kind: &str, state: &str, outcomes: &[(&str, &str)]| -> DraftLine {
            let told: Vec<String> = outcomes
                .iter()
                .map(|(node, code)| {
                    let refused = if code.is_empty() { String::new() } else { format!(r#","refused":"{code}""#) };
                    format!(r#"{{"nodeId":"{}","at":"2026-11-29T19:30:00Z"{refused}}}"#, node.repeat(32))
                })
                .collect();
            let text = format!(
                r#"{{"code":"1a2b-3c4d-5e6f","intent":"{id}{id}","kind":"{kind}","owner":"{id}","signers":[],
                "state":"{state}","at":"2026-11-29T19:00:00Z","draftedBy":"owner:alice","outcomes":[{}]}}"#,
                told.join(",")
            );
            lucia_proto::base::json::from_str(&text, 1 << 14, 8).unwrap()
        };
        let said = |line: &DraftLine| line.told_words(|node| node.as_str().chars().take(1).collect());
        for (kind, outcomes, words) in [
            ("admit", [("a", "")].as_slice(), "worker"),
            ("remove-identity", &[("a", ""), ("a", "")], "worker, a"),
            ("remove-identity", &[("a", ""), ("a", ""), ("a", "malformed")], "worker, a; refused by controller"),
            ("remove-identity", &[("a", "name_differs")], "refused by worker"),
            (
                "ssh-key",
                &[("a", ""), ("b", "already_done"), ("c", "older_revision"), ("d", "kind_forbidden")],
                "a, b; replaced at c; refused by d",
            ),
        ] {
            assert_eq!(said(&line(kind, "done", outcomes)).as_deref(), Some(words));
        }
        // Of many the first are named, the others counted.
        let many = said(&line("ssh-key", "done", &["a", "b", "c", "d", "e", "f"].map(|node| (node, "")))).unwrap();
        assert!(many.starts_with("a, b, c, d ") && many.contains('2'), "{many}");
        assert_eq!(said(&line("ssh-key", "signed", &[])), None);
        let next = |kind: &str, outcomes: &[(&str, &str)]| line(kind, "signed", outcomes).awaited().unwrap();
        // Whoever comes next: the worker, the worker and then a node, or a node.
        let [worker, both, node] = [next("admit", &[]), next("remove-identity", &[]), next("ssh-key", &[])];
        assert!(worker != both && both != node && worker != node, "{worker} {both} {node}");
        assert_eq!(next("remove-identity", &[("a", "")]), node);
        assert_eq!(line("ssh-key", "done", &[]).awaited(), None);
    }
}

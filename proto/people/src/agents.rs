//! What the nodes' agents are and let owners order, by their last heartbeats: so page and `luciactl` say before a signature
//! what a node will refuse, and what changes it.

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::agent::{self, AgentVersion, Carries};
use lucia_proto::node::feature::FeatureName;
use lucia_proto::node::heartbeat::HeartbeatFields;
use lucia_proto::orders::{OrderKind, Rule};
use serde::{Deserialize, Serialize};

/// Answer of `GET /api/host/agents`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentsView {
    /// The controller's clock when it answered.
    pub server_time: UnixTime,
    /// A part of them, by hostname: at most 1000.
    pub agents: Vec<AgentLine>,
    /// There are more: they come after this name, which is the last one's. Absent: these are the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Hostname>,
}

/// The agent of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentLine {
    /// The node.
    pub node_id: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// The agent's version; absent while its heartbeats tell none, as those of 0.1 do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<AgentVersion>,
    /// The kinds of order that nodes carry out, and how it stands to each.
    pub kinds: Vec<AgentKind>,
}

/// One kind of order at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentKind {
    /// The kind's word.
    pub kind: FeatureName,
    /// Whether its agent carries it out; the controller hands over no other.
    pub carried: bool,
    /// What the machine's policy file asks of it; absent while the heartbeats do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// What stands between a signed order and its being carried out on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The agent does not know the kind.
    NotCarried,
    /// The machine's policy forbids it.
    Forbidden,
    /// The machine's policy asks two owners.
    TwoOwners,
}

impl AgentLine {
    /// What a node's last heartbeat tells; nothing of kinds that it has no policy for, where it told none.
    #[must_use]
    pub fn new(node_id: NodeId, hostname: Hostname, heartbeat: &HeartbeatFields) -> Self {
        let (carries, rules) = (Carries::of(&heartbeat.features), agent::rules(&heartbeat.extensions));
        let kind = |kind: OrderKind| {
            let rule = rules.as_ref().map(|rules| rules.rule(kind));
            Some(AgentKind { kind: kind.as_str().parse().ok()?, carried: carries.has(kind), rule })
        };
        let kinds = agent::carried().filter_map(kind).collect();
        Self { node_id, hostname, version: agent::version(&heartbeat.extensions), kinds }
    }

    /// What stands in the way of an order of this kind; nothing for one that somebody else carries out.
    #[must_use]
    pub fn obstacle(&self, kind: OrderKind) -> Option<Obstacle> {
        let known = self.kinds.iter().find(|known| known.kind.as_str() == kind.as_str())?;
        match (known.carried, known.rule) {
            (false, _) => Some(Obstacle::NotCarried),
            (true, Some(Rule::Forbid)) => Some(Obstacle::Forbidden),
            (true, Some(Rule::TwoOwners)) => Some(Obstacle::TwoOwners),
            (true, Some(Rule::Allow) | None) => None,
        }
    }

    /// Its version, for a person.
    #[must_use]
    pub fn version_words(&self) -> String {
        self.version.as_ref().map_or_else(|| "unknown (0.1 or older)".to_owned(), |version| format!("{version}"))
    }

    /// Every obstacle, a line each, with what removes it.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let line = |kind: OrderKind| Some(self.obstacle(kind)?.words(kind));
        agent::carried().filter_map(line).collect()
    }
}

impl Obstacle {
    /// In words, with what removes it.
    #[must_use]
    pub fn words(self, kind: OrderKind) -> String {
        let kind = kind.as_str();
        match self {
            Self::NotCarried => format!("{kind}: not known to this agent; update lucia-node-agent on the node"),
            Self::Forbidden => {
                format!("{kind}: forbidden by the node's policy; on the node: lucia-node-agent policy allow {kind}")
            }
            Self::TwoOwners => format!("{kind}: needs the signatures of two owners"),
        }
    }
}

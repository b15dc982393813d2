//! `remove-identity`: a node wipes what it has of the fleet and is a plain machine again.

use serde::{Deserialize, Serialize};

use super::body::{Actor, Effect, Flow, OrderBody, one_node};
use crate::base::bounded::OutOfBounds;
use crate::base::ids::NodeId;
use crate::base::names::Hostname;

/// Body of `remove-identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RemoveIdentity {
    /// The node's name.
    pub hostname: Hostname,
}

impl OrderBody for RemoveIdentity {
    const WORD: &'static str = "remove-identity";
    const TITLE: &'static str = "Remove an identity";
    const FLOW: Flow = Flow::Once;
    const ACTORS: &'static [Actor] = &[Actor::Node, Actor::Worker, Actor::Controller];

    fn fits(&self, nodes: &[NodeId], _: Option<&str>) -> Result<(), OutOfBounds> {
        one_node(nodes)
    }

    fn words(&self, lines: &mut Vec<String>) {
        lines.push(format!("Ends {}: it wipes what it has of the fleet and is a plain machine again", self.hostname));
    }

    fn about(&self, _: Option<&Self>) -> String {
        self.hostname.to_string()
    }

    fn hostname(&self) -> Option<&Hostname> {
        Some(&self.hostname)
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Wipes
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &super::body::OrderSample) -> Self {
        Self { hostname: of.hostname.clone() }
    }
}

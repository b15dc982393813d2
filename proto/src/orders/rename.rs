//! `rename`: a node gets the name that its machine calls itself by.

use serde::{Deserialize, Serialize};

use super::body::{Actor, Effect, Flow, OrderBody, ensure, one_node};
use crate::base::bounded::OutOfBounds;
use crate::base::ids::NodeId;
use crate::base::names::Hostname;

/// Body of `rename`. While it is under way a node may hold a certificate under either name, so who carries it out compares both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RenameNode {
    /// The node's name.
    pub hostname: Hostname,
    /// The one that it gets.
    pub new_hostname: Hostname,
}

impl OrderBody for RenameNode {
    const WORD: &'static str = "rename";
    const TITLE: &'static str = "RenameNode a node";
    const FLOW: Flow = Flow::Once;
    const ACTORS: &'static [Actor] = &[Actor::Node, Actor::Worker, Actor::Controller];

    fn fits(&self, nodes: &[NodeId], _: Option<&str>) -> Result<(), OutOfBounds> {
        one_node(nodes)?;
        ensure(self.new_hostname != self.hostname, "newHostname", "another name than hostname")
    }

    fn words(&self, lines: &mut Vec<String>) {
        lines.push(format!("Renames {} to {}, as its machine calls itself", self.hostname, self.new_hostname));
    }

    fn about(&self, _: Option<&Self>) -> String {
        format!("{} to {}", self.hostname, self.new_hostname)
    }

    fn effect(&self) -> Effect<'_> {
        Effect::Renames(&self.new_hostname)
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &super::body::OrderSample) -> Self {
        Self { hostname: of.hostname.clone(), new_hostname: super::body::OrderSample::text("renamed") }
    }
}

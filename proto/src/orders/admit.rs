//! `admit`: a machine's key becomes a node of this name.

use serde::{Deserialize, Serialize};

use super::body::{Actor, Effect, Flow, OrderBody, ensure, one_key};
use crate::base::bounded::OutOfBounds;
use crate::base::ids::NodeId;
use crate::base::names::Hostname;
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

impl OrderBody for Admit {
    const WORD: &'static str = "admit";
    const TITLE: &'static str = "Admit a machine";
    const FLOW: Flow = Flow::Once;
    const ACTORS: &'static [Actor] = &[Actor::Worker];

    fn fits(&self, nodes: &[NodeId], _: Option<&str>) -> Result<(), OutOfBounds> {
        one_key(nodes, &self.fingerprint)?;
        ensure(self.replaces.as_ref() != nodes.first(), "replaces", "another node")
    }

    fn words(&self, lines: &mut Vec<String>) {
        lines.push(format!("Makes the machine with this key a node called {}:", self.hostname));
        lines.push(format!("  {}", self.fingerprint));
        lines.push(match &self.replaces {
            Some(node) => format!("Takes the name {} from node {node}, whose key is barred for good", self.hostname),
            None => "Takes the name from nobody".to_owned(),
        });
    }

    fn about(&self, _: Option<&Self>) -> String {
        let place = if self.replaces.is_some() { ", in the place of another" } else { "" };
        format!("{}{place}", self.hostname)
    }

    fn hostname(&self) -> Option<&Hostname> {
        Some(&self.hostname)
    }

    fn new_key(&self) -> Option<&Fingerprint> {
        Some(&self.fingerprint)
    }

    fn effect(&self) -> Effect<'_> {
        self.replaces.as_ref().map_or(Effect::None, Effect::Replaces)
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &super::body::OrderSample) -> Self {
        Self { fingerprint: of.fingerprint, hostname: of.hostname.clone(), replaces: None }
    }
}

//! `clone-decision`: what becomes of an identity that was seen twice.

use serde::{Deserialize, Serialize};

use super::body::{Actor, Effect, Flow, OrderBody, ensure, one_node, told};
use crate::base::bounded::OutOfBounds;
use crate::base::ids::{NodeId, StartId};
use crate::base::names::Hostname;

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

impl OrderBody for CloneDecision {
    const WORD: &'static str = "clone-decision";
    const TITLE: &'static str = "Decide about a clone";
    const FLOW: Flow = Flow::Once;
    const ACTORS: &'static [Actor] = &[Actor::Node, Actor::Worker, Actor::Controller];

    fn fits(&self, nodes: &[NodeId], _: Option<&str>) -> Result<(), OutOfBounds> {
        one_node(nodes)?;
        let keep = self.decision == Decision::Keep;
        ensure(self.start_id.is_some() == keep, "startId", "there if and only if one holder is kept")
    }

    fn words(&self, lines: &mut Vec<String>) {
        lines.push(format!("Decides about {}, whose identity was seen twice", self.hostname));
        lines.push(match self.decision {
            Decision::Keep => {
                let start = told(self.start_id.as_ref());
                format!("The holder with start {start} goes on; every other is frozen for good")
            }
            Decision::Split => "No holder goes on: the key is barred for good".to_owned(),
        });
    }

    fn about(&self, _: Option<&Self>) -> String {
        match self.decision {
            Decision::Keep => format!("{}: one holder stays", self.hostname),
            Decision::Split => format!("{}: no holder stays", self.hostname),
        }
    }

    fn hostname(&self) -> Option<&Hostname> {
        Some(&self.hostname)
    }

    fn effect(&self) -> Effect<'_> {
        match self.decision {
            Decision::Keep => Effect::Keeps(self.start_id.as_ref()),
            Decision::Split => Effect::Ends,
        }
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &super::body::OrderSample) -> Self {
        let start_id = Some(StartId::from_random([9; 16]));
        Self { hostname: of.hostname.clone(), decision: Decision::Keep, start_id }
    }
}

//! What a node and the controller tell each other about orders, inside the heartbeat and its reply (design.md O3, O4).
//!
//! The controller carries all of it and can make none of it: bundle, roster, freshness and intent are each checked by the
//! node. What it can do is withhold.

use serde::{Deserialize, Serialize};

use crate::node::challenge::Nonce;
use crate::orders::freshness::SignedFreshness;
use crate::orders::roster::SignedRoster;
use crate::orders::{OrderCode, OrderId, SignedOrder};
use crate::pki::bundle::SignedBundle;

/// What a node holds, asks and did: a member of its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrdersReport {
    /// The version of the bundle it holds.
    pub bundle_version: u64,
    /// The version of the roster it holds; 0 where it has none.
    pub roster_version: u64,
    /// Its open question how late it is, in the form of [`crate::orders::freshness::FreshnessRequest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Nonce>,
    /// What became of the last orders, at most 8, each intent once; said again until a reply came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<NodeOutcome>,
}

/// What became of one order at the node that says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeOutcome {
    /// Which order.
    pub intent: OrderId,
    /// Why it was refused; absent when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<OrderCode>,
}

/// What the node lacks: a member of the heartbeat's reply. All of it fits into one reply with nothing else beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrdersReply {
    /// A newer bundle than the node's. It comes before what is checked with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SignedBundle>,
    /// A newer roster than the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roster: Option<SignedRoster>,
    /// The answer to the node's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<SignedFreshness>,
    /// The next order for this node: one at a time, until its outcome was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Box<SignedOrder>>,
}

impl OrdersReply {
    /// Whether there is nothing to say; then the member is left out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bundle.is_none() && self.roster.is_none() && self.freshness.is_none() && self.intent.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::extensions::Extensions;
    use crate::base::json;
    use crate::base::limits::{ANSWER_MAX, JSON_DEPTH_MAX, OUTCOMES_MAX, REPORT_MAX};
    use crate::base::time::UnixTime;
    use crate::node::heartbeat::{Heartbeat, HeartbeatFields, HeartbeatReply};
    use crate::orders::OrderKind;
    use crate::test_support::OrderWorld;

    const NOW: UnixTime = UnixTime::from_secs(1_795_982_400);

    fn report(outcomes: Vec<NodeOutcome>) -> Result<Heartbeat, crate::base::bounded::OutOfBounds> {
        let text = include_str!("../../../tests/vectors/heartbeat-minimal.json");
        let mut fields: HeartbeatFields = json::from_str(text, REPORT_MAX, JSON_DEPTH_MAX).unwrap();
        fields.orders = Some(OrdersReport { bundle_version: 1, roster_version: 0, freshness: None, outcomes });
        Heartbeat::try_from(fields)
    }

    // spec: HB-7
    #[test]
    fn outcomes_are_bounded_and_each_intent_is_told_of_once() {
        let outcome = |text: &str| NodeOutcome { intent: OrderId::of(text), refused: None };
        let many = |count: usize| (0..count).map(|n| outcome(&n.to_string())).collect::<Vec<_>>();
        let beat = report(many(OUTCOMES_MAX)).unwrap();
        let text = json::to_string(&beat).unwrap();
        assert_eq!(json::from_str::<Heartbeat>(&text, REPORT_MAX, JSON_DEPTH_MAX).unwrap(), beat);
        assert_eq!(report(many(OUTCOMES_MAX + 1)).unwrap_err().field, "orders.outcomes");
        let refused = NodeOutcome { refused: Some(OrderCode::Expired), ..outcome("a") };
        assert_eq!(report(vec![outcome("a"), refused]).unwrap_err().field, "orders.outcomes");
    }

    // spec: HB-8
    #[test]
    fn what_a_node_lacks_travels_in_one_reply() {
        let world = OrderWorld::new(NOW);
        let orders = OrdersReply {
            bundle: Some(world.ca.signed_bundle(1, NOW)),
            roster: Some(world.roster.signed().clone()),
            freshness: None,
            intent: Some(Box::new(world.order(OrderKind::SshKey))),
        };
        assert!(!orders.is_empty() && OrdersReply::default().is_empty());
        let reply = HeartbeatReply {
            accepted: true,
            chain: None,
            frozen: false,
            hostname: None,
            orders: Some(orders),
            extensions: Extensions::default(),
        };
        let text = json::to_string(&reply).unwrap();
        assert!(text.len() <= ANSWER_MAX);
        assert_eq!(json::from_str::<HeartbeatReply>(&text, ANSWER_MAX, JSON_DEPTH_MAX).unwrap(), reply);
        let old = r#"{"accepted":true}"#;
        assert_eq!(json::from_str::<HeartbeatReply>(old, ANSWER_MAX, JSON_DEPTH_MAX).unwrap().orders, None);
    }
}

//! `why`: what the controller knows of a node, what is wrong with it, and what cures that.

use lucia_people::host_api::NodeView;
use lucia_people::owner_api::DraftLine;
use lucia_people::why;
use lucia_people::words;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::{OrderCode, OrderKind};
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;

use super::{certificate, clones::clones, line, paint, span, state};
use crate::table::Screen;

/// An order of this node that was refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusedOrder {
    code: VerificationCode,
    kind: OrderKind,
    at: UnixTime,
    refused: OrderCode,
    cure: &'static str,
}

/// Everything that is not as it should be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Why<'a> {
    node_id: NodeId,
    hostname: Hostname,
    state: SnapshotState,
    frozen: bool,
    /// Each with what cures it.
    findings: Vec<String>,
    /// Whether it could take an order now.
    freshness: String,
    /// Orders it is about to be handed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<String>,
    refused_orders: Vec<RefusedOrder>,
    #[serde(skip)]
    view: &'a NodeView,
}

impl<'a> Why<'a> {
    /// Judges what the controller has of a node, and what became of orders for it.
    pub(crate) fn new(view: &'a NodeView, drafts: &[DraftLine]) -> Self {
        let node = &view.node;
        let why = why::Why::of(view, drafts);
        let pending = why.pending();
        let refused_orders = why.refused.into_iter().map(|order| {
            let why::RefusedOrder { code, kind, at, refused } = order;
            RefusedOrder { code, kind, at, refused, cure: refused.cure() }
        });
        Self {
            node_id: node.node_id.clone(),
            hostname: node.hostname.clone(),
            state: node.state,
            frozen: why.frozen,
            findings: why.findings.iter().map(ToString::to_string).collect(),
            freshness: why.orders.to_string(),
            pending,
            refused_orders: refused_orders.collect(),
            view,
        }
    }

    /// For a person.
    pub(crate) fn words(&self, screen: Screen) -> String {
        let (view, now) = (self.view, self.view.server_time);
        let (text, tone) = state(&view.node);
        let mut out = format!("{}  {}\n", view.node.names(), paint(&text, tone, screen));
        line(&mut out, "node", view.node.node_id.as_str());
        match view.node.last_seen_at {
            Some(at) => line(&mut out, "last seen", &format!("{at}, {} ago", span(now.since(at)))),
            None => line(&mut out, "last seen", "never"),
        }
        let (text, tone) = certificate(&view.node, now);
        line(&mut out, "certificate", &paint(&text, tone, screen));
        line(&mut out, "orders", &self.freshness);
        if let Some(pending) = &self.pending {
            line(&mut out, "waiting", pending);
        }
        clones(&mut out, view);
        for finding in &self.findings {
            line(&mut out, "finding", finding);
        }
        for order in &self.refused_orders {
            let RefusedOrder { code, kind, at, refused, cure } = order;
            let why = words::order_refused(*refused);
            line(
                &mut out,
                "order",
                &format!("{code} ({}) refused at {at}: {why} ({})", kind.as_str(), refused.as_str()),
            );
            line(&mut out, "", cure);
        }
        if self.findings.is_empty() && self.refused_orders.is_empty() && !self.frozen {
            line(&mut out, "finding", "nothing is wrong as far as the controller knows");
        }
        line(&mut out, "next", "on its own console, lucia-node-agent why says what the node itself knows");
        out
    }
}

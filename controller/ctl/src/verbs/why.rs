//! `why`: what the controller knows of a node, what is wrong with it, and what cures that.

use clap::Args;
use lucia_people::calls::PeopleCall;
use lucia_people::host_api::NodeView;
use lucia_people::owner_api::{DraftLine, DraftsView};
use lucia_people::{why, words};
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::span;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::state::SnapshotState;
use lucia_proto::orders::{OrderCode, OrderKind};
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;

use super::nodes::{certificate, clones, state};
use super::onboarding::no_node;
use crate::call::CallError;
use crate::find::{Looked, about, find_to_look};
use crate::problem::Failure;
use crate::session::Session;
use crate::table::{Screen, paint};
use crate::text::line;

/// Says what the controller knows of a node, what is wrong, and what cures it; also of a removed one, and of a machine
/// that is no node yet.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  luciactl why web-1")]
pub(crate) struct Why {
    /// Its hostname, node id or verification code.
    node: String,
}

pub(super) async fn why(session: &Session, asked: Why) -> Result<(), Failure> {
    let (client, out) = (&session.client, session.out);
    let id = match find_to_look(client, &asked.node).await? {
        Looked::Node(id) => id,
        Looked::Device(device, now) => return out.say(&device, || no_node(&device, now, out.screen)),
    };
    let view = about(client, &id).await?;
    let drafts: Result<DraftsView, CallError> = client.call(PeopleCall::Drafts, &"").await;
    let drafts = match drafts {
        Ok(view) => view.drafts,
        // One that knows no owners has no orders either.
        Err(error) if matches!(error.code(), Some(Code::NotFound | Code::NoRoster)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let why = WhyView::new(&view, &drafts);
    out.say(&why, || why.words(out.screen))
}

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
struct WhyView<'a> {
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

impl<'a> WhyView<'a> {
    /// Judges what the controller has of a node, and what became of orders for it.
    fn new(view: &'a NodeView, drafts: &[DraftLine]) -> Self {
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
    fn words(&self, screen: Screen) -> String {
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

//! What takes several parts to be shown; no lock is held from one to the next.

use lucia_people::host_api::{NodeView, NodesView};
use lucia_people::why::refused_orders;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::orders::exchange::OrdersReport;

use super::Parts;
use super::fleet::ServerRow;
use crate::refusal::Refusal;

impl Parts {
    /// Every node.
    pub fn nodes(&self) -> NodesView {
        let now = self.clock.now();
        let mut nodes = self.fleet.lines(now);
        self.enrollment.with_requests(nodes.iter_mut(), now);
        NodesView { server_time: now, nodes, next: None }
    }

    /// At most `limit` nodes whose name comes after `after`.
    pub fn nodes_after(&self, after: Option<&Hostname>, limit: usize) -> NodesView {
        let mut view = self.nodes();
        let begin = after.map_or(0, |after| view.nodes.partition_point(|node| node.hostname <= *after));
        view.nodes.drain(..begin);
        if view.nodes.len() > limit {
            view.nodes.truncate(limit);
            view.next = view.nodes.last().map(|node| node.hostname.clone());
        }
        view
    }

    /// One node with its last hour.
    ///
    /// # Errors
    /// `unknown_node`.
    pub fn node(&self, id: &NodeId) -> Result<NodeView, Refusal> {
        // Who was removed is told apart: whoever asks may look at everything that says so.
        let told = |refusal| match self.orders.removed(id) {
            Some(removed) => Refusal::new(Code::UnknownNode, removed.to_string()),
            None => refusal,
        };
        let (mut view, report) = self.fleet.node(id).map_err(told)?;
        self.enrollment.with_requests(std::iter::once(&mut view.node), self.clock.now());
        view.orders = report.map(|report| self.orders.held(id, &report));
        Ok(view)
    }

    /// Every node by hostname.
    pub fn servers(&self) -> Vec<ServerRow> {
        // The newest orders are those that `why` goes by.
        let mut orders = self.orders.drafts(None).map(|view| refused_orders(&view.drafts)).unwrap_or_default();
        let told = |(mut row, report): (ServerRow, Option<OrdersReport>)| {
            let id = &row.line.node_id;
            row.orders = report.map(|report| self.orders.held(id, &report));
            row.refused = orders.remove(id).unwrap_or_default();
            row
        };
        let mut servers: Vec<ServerRow> = self.fleet.servers().into_iter().map(told).collect();
        self.enrollment.with_requests(servers.iter_mut().map(|row| &mut row.line), self.clock.now());
        servers
    }
}

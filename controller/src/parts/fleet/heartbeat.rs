//! A heartbeat: what it says of its node, and of who of several holds the identity.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lucia_proto::base::code::Code;
use lucia_proto::base::extensions::Extensions;
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::agent::Carries;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::report::{NodeCall, Purpose};
use lucia_proto::orders::exchange::OrdersReport;

use super::Fleet;
use super::clones::Verdict;
use super::nodes::{Known, Lapsed, Under};
use crate::lock::lock;
use crate::parts::journal;
use crate::refusal::Refusal;

/// Which holder of an identity calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// The only one there is.
    Free,
    /// One of those it is frozen for: it is told of the decision and of nothing else.
    Frozen,
    /// One that was not kept: the same, and neither its word nor its questions are the node's.
    Refused,
}

/// What a heartbeat is answered, but for orders, and what it says of those.
pub(crate) struct AcceptedHeartbeat {
    pub(crate) reply: HeartbeatReply,
    /// Nothing of an agent that does not know of orders.
    pub(crate) orders: Option<OrdersReport>,
    /// The start that asks for a worker time, if one does.
    pub(crate) asker: Option<StartId>,
    pub(crate) caller: CallerKind,
    /// The kinds of order that its agent carries out.
    pub(crate) carries: Carries,
    pub(crate) at: UnixTime,
}

impl Fleet {
    /// A node is alive.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub(crate) fn heartbeat(&self, id: &NodeId, call: &NodeCall, from: IpAddr) -> Result<AcceptedHeartbeat, Refusal> {
        let now = self.clock.now();
        let (known, heartbeat, under) =
            self.node_call::<Heartbeat>(id, Purpose::Heartbeat, call, Lapsed::Refused, from, now)?;
        let called = lock(&known.state).called(under);
        if called.is_some_and(|name| name != heartbeat.hostname) {
            let log = format!("a heartbeat of node {id} has another name than its certificate");
            return Err(Refusal::logged(
                Code::InvalidBody,
                "reportJson: hostname: not the name in the certificate.",
                log,
            ));
        }
        if !lock(&known.state).managed {
            self.journal.change(|journal| journal::heard(journal, id, now))?;
        }
        let hostname = self.named(id, &known, under);
        let from = from.to_canonical();
        let mut state = lock(&known.state);
        let heartbeat = heartbeat.into_report();
        let heard = self.hear(id, &mut state, call, &heartbeat, from, now);
        state.dirty = true;
        let (Some(heard), Some(record)) = (heard, &mut state.record) else {
            return Err(Refusal::identity(format!("node {id} was removed")));
        };
        let caller = match (&heard.verdict, heard.frozen) {
            (Verdict::Refused, _) => CallerKind::Refused,
            (_, true) => CallerKind::Frozen,
            (_, false) => CallerKind::Free,
        };
        let reply = HeartbeatReply {
            accepted: true,
            chain: heard.chain,
            frozen: heard.frozen,
            hostname,
            orders: None,
            extensions: Extensions::default(),
        };
        let orders = heartbeat.orders.clone();
        let asker =
            orders.as_ref().and_then(|report| report.freshness.as_ref()).and_then(|_| heartbeat.start_id.clone());
        let carries = Carries::of(&heartbeat.features);
        let accepted = AcceptedHeartbeat { reply, orders, asker, caller, carries, at: now };
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        if heard.verdict == Verdict::Refused {
            // Noted with its start; what the node looks like is what the one that was kept says.
            return Ok(accepted);
        }
        if let Some(former) = record.address.replace(from)
            && former != from
        {
            tracing::info!(node = %id, %former, now = %from, "a node calls from another address");
        }
        record.last_seen_at = Some(now);
        state.samples.push(&heartbeat, now);
        if let Some(record) = &mut state.record {
            record.last_heartbeat = Some(heartbeat);
        }
        state.managed = true;
        Ok(accepted)
    }

    /// What an accepted heartbeat under this name means for a node that is renamed: under the new one the rename is done;
    /// under the former one the answer tells the new one.
    fn named(&self, id: &NodeId, known: &Arc<Known>, under: Under) -> Option<Hostname> {
        let renaming = lock(&known.state).renaming().cloned()?;
        if under == Under::Former {
            return Some(renaming.to);
        }
        let done = self.journal.change(|journal| {
            journal::renamed(journal, id, &renaming.from, &renaming.to);
            Ok(())
        });
        match done {
            Ok(()) => {
                self.follow_name(id);
                tracing::info!(node = %id, from = %renaming.from, to = %renaming.to, "a node is heard under its new name");
            }
            // The next heartbeat says it again.
            Err(refusal) => {
                tracing::warn!(node = %id, code = refusal.code.as_str(), "a rename is done and not written: {refusal}");
            }
        }
        None
    }

    /// What the journal says of a node's name.
    pub(crate) fn follow_name(&self, id: &NodeId) {
        if let Some(known) = self.nodes.get(id) {
            lock(&known.state).follow_name(self.journal.read().device(id));
        }
    }

    /// What the machine of a node calls itself, where that is another name than the node's.
    pub(crate) fn reported_name(&self, id: &NodeId) -> Result<Option<Hostname>, Refusal> {
        let known = self.nodes.get(id).ok_or_else(|| Refusal::unknown_node(id))?;
        let state = lock(&known.state);
        let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
        Ok(heartbeat.and_then(|heartbeat| heartbeat.new_hostname.clone()))
    }
}

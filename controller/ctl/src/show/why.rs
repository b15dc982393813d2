//! `why`: what the controller knows of a node, what is wrong with it, and what cures that.

use std::time::Duration;

use lucia_proto::host_api::{NodeView, SnapshotState};
use lucia_proto::ids::NodeId;
use lucia_proto::intent::{IntentCode, IntentKind};
use lucia_proto::key::VerificationCode;
use lucia_proto::names::Hostname;
use lucia_proto::owner_api::DraftLine;
use lucia_proto::text::shown;
use lucia_proto::time::UnixTime;
use serde::Serialize;

use super::{certificate, clones::clones, left, line, names, paint, renaming, span, state};
use crate::table::Screen;

/// An order of this node that was refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusedOrder {
    code: VerificationCode,
    kind: IntentKind,
    at: UnixTime,
    refused: IntentCode,
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
    refused_orders: Vec<RefusedOrder>,
    #[serde(skip)]
    view: &'a NodeView,
}

impl<'a> Why<'a> {
    /// Judges what the controller has of a node, and what became of orders for it.
    pub(crate) fn new(view: &'a NodeView, drafts: &[DraftLine]) -> Self {
        let node = &view.node;
        let mut refused_orders = Vec::new();
        for draft in drafts {
            for outcome in draft.outcomes.iter().filter(|outcome| outcome.node_id == node.node_id) {
                if let Some(refused) = outcome.refused.filter(|code| !code.is_repeat()) {
                    refused_orders.push(RefusedOrder {
                        code: draft.code.clone(),
                        kind: draft.kind,
                        at: outcome.at,
                        refused,
                        cure: refused.cure(),
                    });
                }
            }
        }
        Self {
            node_id: node.node_id.clone(),
            hostname: node.hostname.clone(),
            state: node.state,
            frozen: node.frozen || view.frozen.is_some(),
            findings: findings(view),
            refused_orders,
            view,
        }
    }

    /// For a person.
    pub(crate) fn words(&self, screen: Screen) -> String {
        let (view, now) = (self.view, self.view.server_time);
        let (text, tone) = state(&view.node);
        let mut out = format!("{}  {}\n", names(&view.node), paint(&text, tone, screen));
        line(&mut out, "node", view.node.node_id.as_str());
        match view.node.last_seen_at {
            Some(at) => line(&mut out, "last seen", &format!("{at}, {} ago", span(now.since(at)))),
            None => line(&mut out, "last seen", "never"),
        }
        let (text, tone) = certificate(&view.node, now);
        line(&mut out, "certificate", &paint(&text, tone, screen));
        renaming(&mut out, &view.node);
        clones(&mut out, view);
        for finding in &self.findings {
            line(&mut out, "finding", finding);
        }
        for order in &self.refused_orders {
            let RefusedOrder { code, kind, at, refused, cure } = order;
            line(&mut out, "order", &format!("{code} ({}) refused at {at}: {}", kind.as_str(), refused.as_str()));
            line(&mut out, "", cure);
        }
        if self.findings.is_empty() && self.refused_orders.is_empty() && !self.frozen {
            line(&mut out, "finding", "nothing is wrong as far as the controller knows");
        }
        line(&mut out, "next", "on its own console, lucia-node-agent why says what the node itself knows");
        out
    }
}

fn findings(view: &NodeView) -> Vec<String> {
    let (node, now) = (&view.node, view.server_time);
    let mut out = Vec::new();
    match (node.state, node.last_seen_at) {
        (SnapshotState::Online, _) => (),
        (SnapshotState::AwaitingHeartbeat, _) | (SnapshotState::Stale, None) => {
            out.push("it was never heard from: start the machine and look at its console".to_owned());
        }
        (SnapshotState::Stale, Some(at)) => out.push(format!(
            "it was last heard from {} ago: is it up, does it reach the controller, is its clock right?",
            span(now.since(at))
        )),
    }
    match node.certificate_expires_at {
        None => out.push("it has no certificate yet: lucia-enrollment-worker pending says what the worker waits for".to_owned()),
        Some(until) if until <= now => out.push(format!(
            "its certificate ended {} ago: it renews by itself while the worker allows that, beyond it luciactl \
             release-lapse {}",
            span(now.since(until)),
            node.hostname
        )),
        // It renews with six days left: under five something is in the way.
        Some(until) if until.since(now) < Duration::from_secs(5 * 24 * 3600) => out.push(format!(
            "its certificate has {} left and was to be renewed before: lucia-enrollment-worker status says whether it can sign",
            left(now, until)
        )),
        Some(_) => (),
    }
    if let Some(message) = view.directory.as_ref().and_then(|report| report.message.as_ref()) {
        out.push(format!("its directory: {}", shown(message.as_str())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(more: &str) -> NodeView {
        let text = format!(
            r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{{"nodeId":"{id}","hostname":"web-1",
            "verificationCode":"1a2b-3c4d-5e6f"{more}}},"fingerprint":"{id}{id}",
            "taskId":"00000000-0000-4000-8000-000000000000","samples":[]}}"#,
            id = "1a2b3c4d5e6f00000000000000000000",
        );
        lucia_proto::json::from_str(&text, 1 << 16, 24).unwrap()
    }

    // spec: LC-11
    #[test]
    fn each_finding_says_what_cures_it() {
        let online = r#","state":"Online","lastSeenAt":"2026-11-29T19:59:50Z""#;
        for (more, says) in [
            (format!(r#"{online},"certificateExpiresAt":"2026-12-06T20:00:00Z""#), None),
            (
                format!(r#"{online},"certificateExpiresAt":"2026-12-01T20:00:00Z""#),
                Some("lucia-enrollment-worker status"),
            ),
            (
                format!(r#"{online},"certificateExpiresAt":"2026-11-29T19:00:00Z""#),
                Some("luciactl release-lapse web-1"),
            ),
            (online.to_owned(), Some("lucia-enrollment-worker pending")),
            (
                r#","state":"Stale","lastSeenAt":"2026-11-29T19:00:00Z","certificateExpiresAt":"2026-12-06T20:00:00Z""#
                    .to_owned(),
                Some("1 h 0 min ago"),
            ),
        ] {
            let found = findings(&view(&more));
            assert_eq!(found.len(), usize::from(says.is_some()), "{found:?}");
            assert!(says.is_none_or(|says| found.iter().all(|one| one.contains(says))), "{found:?}");
        }
    }
}

//! A frozen identity, which two machines hold: one is kept, or none.

use lucia_people::calls::PeopleCall;
use std::fmt::Write as _;

use clap::Subcommand;
use lucia_people::host_api::{KeepForm, NodeView};
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::text::shown;
use lucia_proto::orders::{Body, CloneDecision, Decision, Draft, OrderKind};

use super::nodes::{self, holder};
use super::onboarding;
use crate::client::{Client, Me};
use crate::find::{about, find};
use crate::nodes_named::Meant;
use crate::problem::{FAILED, Failure, problems};
use crate::session::Session;
use crate::tell::ask;
use crate::{order, roster, sign};

problems! {
    /// Why nothing was decided.
    pub(crate) enum CloneError {
        NotFrozen(name: String) = "not_frozen", FAILED,
            ["the identity of {} is not frozen: it was not seen twice, so there is nothing to decide", shown(name)];
        NoHolder(name: String, start: StartId) = "not_found", FAILED, ["no holder of {} has the start {start}", shown(name)],
            ["luciactl node {} shows those there are", shown(name)];
    }
}

/// Decides about a node whose identity is frozen, because two machines hold it.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  luciactl node web-1\n  luciactl clone keep web-1 --start ID\n  luciactl clone split web-1"
)]
pub(crate) enum Clone {
    /// Keeps the machine with this start: it goes on as before, the other one is told that it is frozen.
    ///
    /// The other machine still has the key. Where you do not know what became of it, split instead.
    #[command(after_help = "Example:\n  luciactl clone keep web-1 --start ID")]
    Keep {
        /// Its hostname, node id or verification code.
        node: String,
        /// The start of the machine that stays, as `luciactl node NODE` and, there, `lucia-node-agent status` show it.
        #[arg(long, value_name = "ID")]
        start: StartId,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Keeps neither: removes the identity for good. Each machine gets a new one by `lucia-node-agent rekey`.
    #[command(after_help = "Example:\n  luciactl clone split web-1")]
    Split {
        /// Its hostname, node id or verification code.
        node: String,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

pub(super) async fn clone(session: &Session, asked: Clone) -> Result<(), Failure> {
    match asked {
        Clone::Keep { node, start, yes } => keep(session, &node, start, yes).await,
        Clone::Split { node, yes } => split(session, &node, yes).await,
    }
}

/// A frozen node, its name, and what its holders are. An owner has to be one who may decide about it.
async fn frozen(client: &Client, node: &str) -> Result<(NodeId, String, NodeView), Failure> {
    if let Some(me) = client.me() {
        roster::signer(client, me, &[OrderKind::CloneDecision]).await?;
    }
    let (id, name) = find(client, node).await?;
    let view = about(client, &id).await?;
    if view.frozen.is_none() {
        return Err(CloneError::NotFrozen(name).into());
    }
    Ok((id, name, view))
}

/// The order that decides: for the holder of `start`, or for none.
fn decide(me: &Me, view: &NodeView, start: Option<StartId>) -> Result<Draft, Failure> {
    let hostname = view.node.certified_name().clone();
    let decision = if start.is_some() { Decision::Keep } else { Decision::Split };
    let body = Body::CloneDecision(CloneDecision { hostname, decision, start_id: start });
    order::once(me, view.node.node_id.clone(), &body)
}

/// Decides for one holder, by the call itself or by an owner's order.
async fn keep(session: &Session, node: &str, start: StartId, yes: bool) -> Result<(), Failure> {
    let client = &session.client;
    let (id, name, view) = frozen(client, node).await?;
    if !view.frozen.iter().flat_map(|frozen| &frozen.holders).any(|holder| holder.start_id.as_ref() == Some(&start)) {
        return Err(CloneError::NoHolder(name, start).into());
    }
    if let Some(me) = client.me() {
        let draft = decide(me, &view, Some(start.clone()))?;
        let meant = [Meant::new(node, &id)];
        return sign::order(session, me, &draft, &meant, &keeping(&view, &start), yes).await;
    }
    ask(&keeping(&view, &start), &name, yes)?;
    let view = client.post(PeopleCall::KeepClone, &id, &KeepForm { start_id: start }).await?;
    nodes::say(session.out, &view)
}

/// Decides against every holder, in the same two ways.
async fn split(session: &Session, node: &str, yes: bool) -> Result<(), Failure> {
    let client = &session.client;
    let (id, name, view) = frozen(client, node).await?;
    if let Some(me) = client.me() {
        let draft = decide(me, &view, None)?;
        return sign::order(session, me, &draft, &[Meant::new(node, &id)], &splitting(&view), yes).await;
    }
    ask(&splitting(&view), &name, yes)?;
    onboarding::say(session.out, &client.call(PeopleCall::SplitClone, &id).await?)
}

/// What `clone keep` will do.
fn keeping(view: &NodeView, start: &StartId) -> String {
    let holders = view.frozen.iter().flat_map(|frozen| &frozen.holders);
    let mut out = String::new();
    for who in holders {
        let stays = who.start_id.as_ref() == Some(start);
        let becomes = if stays { "goes on as before" } else { "is told that it is frozen, and gets nothing new" };
        let _ = writeln!(out, "{}\n  {becomes}", holder(who));
    }
    out.push_str(
        "The other machine still has the key, and with it can renew the certificate: run `lucia-node-agent rekey` on it, \
         or destroy its disk. If somebody else may have it, split instead.",
    );
    out
}

/// What `clone split` will do.
fn splitting(view: &NodeView) -> String {
    let mut out = String::new();
    for who in view.frozen.iter().flat_map(|frozen| &frozen.holders) {
        let _ = writeln!(out, "{}\n  is refused from its next call on", holder(who));
    }
    let _ = write!(
        out,
        "This removes {} ({}) for good. Each machine that is to be a node again needs `lucia-node-agent rekey` and a new \
         approval, under a name that is free.",
        view.node.certified_name(),
        view.node.node_id
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: CT-40
    #[test]
    fn each_decision_says_what_becomes_of_each_holder() {
        let start = |digit: char| digit.to_string().repeat(32);
        let holder = |digit, address| {
            format!(r#"{{"startId":"{}","address":"{address}","firstSeenAt":"2026-11-29T19:51:00Z"}}"#, start(digit))
        };
        let text = format!(
            r#"{{"serverTime":"2026-11-29T20:00:00Z","node":{{"nodeId":"{id}","hostname":"web-1",
            "verificationCode":"1a2b-3c4d-5e6f","state":"Online"}},"fingerprint":"{id}{id}",
            "taskId":"00000000-0000-4000-8000-000000000000","samples":[],
            "frozen":{{"at":"2026-11-29T19:59:00Z","holders":[{},{}]}}}}"#,
            holder('a', "192.0.2.1"),
            holder('b', "192.0.2.2"),
            id = "1a2b3c4d5e6f00000000000000000000",
        );
        let view: NodeView = lucia_proto::base::json::from_str(&text, 1 << 16, 24).unwrap();
        let becomes = |text: &str, digit| {
            let mut lines = text.lines().skip_while(|line| !line.contains(&start(digit)));
            lines.nth(1).map(str::to_owned).unwrap()
        };
        let [first, second] = ['a', 'b'].map(|digit| keeping(&view, &start(digit).parse().unwrap()));
        // Who stays is told so, whichever it is, and the other one something else.
        assert_eq!(becomes(&first, 'a'), becomes(&second, 'b'));
        assert_eq!(becomes(&first, 'b'), becomes(&second, 'a'));
        assert_ne!(becomes(&first, 'a'), becomes(&first, 'b'));
        let split = splitting(&view);
        assert_eq!(becomes(&split, 'a'), becomes(&split, 'b'));
        assert!(split.contains("rekey") && split.contains("web-1"), "{split}");
        expect_test::expect_file!["snapshots/clones.txt"].assert_eq(&format!("{second}\n\n{split}\n"));
    }
}

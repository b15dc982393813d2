//! Orders as an owner drafts them on his own machine: what is asked for, for which nodes, until when.

use lucia_daemon::clock;
use lucia_people::host_api::NodeView;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::{NodeId, StartId};
use lucia_proto::base::limits::{ORDER_LIFETIME_MAX, SSH_KEYS_PER_ACCOUNT_MAX};
use lucia_proto::base::names::{AccountName, Hostname};
use lucia_proto::base::text::{chain, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::{
    Admit, Body, CloneDecision, Decision, Draft, DraftError, OrderHead, ReleaseLapse, RemoveIdentity, SshKeys, Terms,
};
use lucia_proto::pki::key::Fingerprint;
use thiserror::Error;

use crate::client::Me;
use crate::failure::Failure;
use crate::owner_key;

/// Why nothing was ordered.
#[derive(Debug, Error)]
pub(crate) enum OrderError {
    /// It could not be carried out by anybody.
    #[error("nothing was ordered: {}", shown(&chain(.0)))]
    Draft(DraftError),
    /// Nothing says for which nodes.
    #[error("nothing was ordered: say for which nodes, with --nodes NODE,... or --all")]
    NoNodes,
    /// A name of none.
    #[error("nothing was ordered: no node is {}; luciactl nodes shows those there are", shown(.0))]
    NoNode(String),
    /// Nothing says what the machine is to be called.
    #[error(
        "nothing was ordered: nobody approved a name for {0}; say it with --hostname NAME, or luciactl approve it first"
    )]
    NoHostname(String),
    /// Another name was approved.
    #[error("nothing was ordered: {given} was said and {approved} approved; say the approved name, or approve it anew")]
    OtherHostname {
        /// As typed.
        given: Hostname,
        /// Of the task.
        approved: Hostname,
    },
    /// A name that somebody else said.
    #[error(
        "nothing was ordered: the controller says that {0} was approved; with --yes say it yourself: --hostname {0}"
    )]
    SayHostname(Hostname),
    /// A node that somebody else said.
    #[error(
        "nothing was ordered: the controller says that the machine was approved in the place of {0}, whose key would be \
         barred for good; if that is meant say it yourself: --replaces {0}"
    )]
    SayReplaces(NodeId),
    /// Its certificate still counts.
    #[error("nothing was ordered: the certificate of {name} has not lapsed; it renews by itself until {until}")]
    NotLapsed {
        /// Which node.
        name: Hostname,
        /// Its end.
        until: UnixTime,
    },
    /// It never had one.
    #[error("nothing was ordered: the controller knows of no certificate of {0}; luciactl why {0} says more")]
    NoCertificate(Hostname),
    /// The account has it already.
    #[error("nothing was ordered: {0} has this key already; luciactl drafts shows by which order")]
    HasKey(AccountName),
    /// The account does not have it.
    #[error("nothing was ordered: no order gave {account} the key {}; luciactl drafts shows the orders there are", shown(.fingerprint))]
    NoKey {
        /// Whose.
        account: AccountName,
        /// As typed.
        fingerprint: String,
    },
    /// As many as there may be.
    #[error("nothing was ordered: {0} has {SSH_KEYS_PER_ACCOUNT_MAX} keys; remove one first")]
    TooManyKeys(AccountName),
    /// There is none after the last.
    #[error("nothing was ordered: the last revision has no next one; say another with --revision N")]
    NoRevision,
    /// The answer is about another node.
    #[error(
        "nothing was ordered: the controller answered about another node than the one asked for; it is faulty or lies"
    )]
    OtherNode,
}

/// How late it is, and what makes an order one of its kind.
struct Made {
    now: UnixTime,
    nonce: Nonce,
}

fn made() -> Result<Made, Failure> {
    let mut nonce = [0; 32];
    owner_key::random(&mut nonce)?;
    Ok(Made { now: clock::now(), nonce: Nonce::from_bytes(&nonce) })
}

fn once(me: &Me, node: NodeId, body: &Body) -> Result<Draft, Failure> {
    let Made { now, nonce } = made()?;
    let terms = Terms::Once { not_after: now.plus(ORDER_LIFETIME_MAX), nonce };
    Ok(drafted(me, vec![node], body, terms, now)?)
}

fn drafted(me: &Me, nodes: Vec<NodeId>, body: &Body, terms: Terms, now: UnixTime) -> Result<Draft, OrderError> {
    let (kind, fleet, owner) = (body.kind(), me.fleet(), me.id().clone());
    // The hash of the body is put in by who writes it down.
    let intent = OrderHead { kind, fleet, owner, nodes, body_sha256: Digest::ZERO, issued_at: now, terms };
    Draft::new(intent, body).map_err(OrderError::Draft)
}

/// Makes the machine with this key a node of this name.
pub(crate) fn admit(
    me: &Me,
    fingerprint: Fingerprint,
    hostname: Hostname,
    replaces: Option<NodeId>,
) -> Result<Draft, Failure> {
    once(me, fingerprint.node_id(), &Body::Admit(Admit { fingerprint, hostname, replaces }))
}

/// Decides about a frozen node: for the holder of `start`, or for none.
pub(crate) fn decide(me: &Me, view: &NodeView, start: Option<StartId>) -> Result<Draft, Failure> {
    let hostname = view.node.certified_name().clone();
    let decision = if start.is_some() { Decision::Keep } else { Decision::Split };
    let body = Body::CloneDecision(CloneDecision { hostname, decision, start_id: start });
    once(me, view.node.node_id.clone(), &body)
}

/// Ends a node.
pub(crate) fn remove(me: &Me, node: NodeId, hostname: Hostname) -> Result<Draft, Failure> {
    once(me, node, &Body::RemoveIdentity(RemoveIdentity { hostname }))
}

/// Lets a node renew whose certificate ended before `view.server_time`.
pub(crate) fn release(me: &Me, view: &NodeView) -> Result<Draft, Failure> {
    let body = Body::ReleaseLapse(lapsed(view)?);
    once(me, view.node.node_id.clone(), &body)
}

fn lapsed(view: &NodeView) -> Result<ReleaseLapse, OrderError> {
    let node = &view.node;
    let ended_at = node.certificate_expires_at.ok_or_else(|| OrderError::NoCertificate(node.hostname.clone()))?;
    if view.server_time < ended_at {
        return Err(OrderError::NotLapsed { name: node.hostname.clone(), until: ended_at });
    }
    if view.fingerprint.node_id() != node.node_id {
        return Err(OrderError::OtherNode);
    }
    // The controller hears of a lapsed node no more: where it calls from now, and since which boot, nobody here knows.
    Ok(ReleaseLapse {
        fingerprint: view.fingerprint,
        hostname: node.certified_name().clone(),
        ended_at,
        former_address: node.address,
        address: None,
        boot_id: None,
    })
}

/// All keys of an account from this revision on.
pub(crate) fn ssh_keys(me: &Me, mut nodes: Vec<NodeId>, keys: SshKeys, revision: u64) -> Result<Draft, Failure> {
    nodes.sort();
    nodes.dedup();
    if nodes.is_empty() {
        return Err(OrderError::NoNodes.into());
    }
    let subject = keys
        .account
        .as_str()
        .parse()
        .map_err(|_| OrderError::NoKey { account: keys.account.clone(), fingerprint: String::new() })?;
    Ok(drafted(me, nodes, &Body::SshKey(keys), Terms::State { subject, revision }, clock::now())?)
}

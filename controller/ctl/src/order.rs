//! Orders as an owner drafts them on his own machine: for which nodes, from when, until when.

use lucia_daemon::clock::now;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::ORDER_LIFETIME_MAX;
use lucia_proto::base::text::{chain, shown};
use lucia_proto::node::challenge::Nonce;
use lucia_proto::orders::{Body, Draft, DraftError, OrderHead, Terms};

use crate::client::Me;
use crate::owner_key;
use crate::problem::{FAILED, Failure, problems};

problems! {
    /// Why nothing was ordered.
    pub(crate) enum OrderError {
        Draft(why: DraftError) = "", FAILED, ["nothing was ordered: {}", shown(&chain(why))];
    }
}

/// An order about one node, to be carried out once.
pub(crate) fn once(me: &Me, node: NodeId, body: &Body) -> Result<Draft, Failure> {
    let mut nonce = [0; 32];
    owner_key::random(&mut nonce)?;
    let terms = Terms::Once { not_after: now().plus(ORDER_LIFETIME_MAX), nonce: Nonce::from_bytes(&nonce) };
    Ok(drafted(me, vec![node], body, terms)?)
}

/// An order as it was thought of just now.
pub(crate) fn drafted(me: &Me, nodes: Vec<NodeId>, body: &Body, terms: Terms) -> Result<Draft, OrderError> {
    let (kind, fleet, owner) = (body.kind(), me.fleet(), me.id().clone());
    // The hash of the body is put in by who writes it down.
    let intent = OrderHead { kind, fleet, owner, nodes, body_sha256: Digest::ZERO, issued_at: now(), terms };
    Draft::new(intent, body).map_err(OrderError::Draft)
}

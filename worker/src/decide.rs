//! Sign, use the live leaf again, wait for a person, or refuse: a pure function of request, journal, ledger and time.
//!
//! The controller's word is never enough (design.md W1): the CSR must be the one this node can have made, the journal
//! must agree, and the worker's own settings and ledger have the last word, in this order.

use lucia_proto::certificate::{Leaf, LeafRules};
use lucia_proto::csr::{self, CheckedCsr, CsrError};
use lucia_proto::enrollment::{Disagreement, EnrollmentRequest, agrees};
use lucia_proto::ids::NodeId;
use lucia_proto::journal::Journal;
use lucia_proto::limits::{RENEW_UNDER, REQUEST_LIFETIME_MAX};
use lucia_proto::names::Hostname;
use lucia_proto::time::UnixTime;
use thiserror::Error;

use crate::ca::Issued;
use crate::config::{Admission, Reserved};
use crate::home::Receipt;
use crate::ledger::{AdmittedBy, NodeNames, Records};

/// All that a decision rests on besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The node the file is called after.
    pub file_of: &'a NodeId,
    /// The controller's journal, checked.
    pub journal: &'a Journal,
    /// The worker's ledger.
    pub records: &'a Records,
    /// The node's live leaf, if it has one.
    pub receipt: Option<&'a Receipt>,
    /// What lets a new node in.
    pub admission: Admission,
    /// Names no node may have.
    pub reserved: &'a Reserved,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Decision {
    /// The node gets a leaf.
    Issue {
        /// Its request, checked.
        csr: CheckedCsr,
        /// What lets it in now, when the ledger does not have it yet.
        admit: Option<AdmittedBy>,
        /// Its live leaf, while 6 days or more of it remain (design.md I9).
        live: Option<Issued>,
    },
    /// All is right, but a person has to admit it first. It gets no answer until then.
    AwaitAdmission,
    /// It gets nothing, and the answer says why.
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Too late.
    #[error("expiresAt: the request has expired; the controller writes a new one")]
    Expired,
    /// Further ahead than any controller of ours writes.
    #[error("expiresAt: more than 15 minutes ahead; compare the clocks of controller and worker")]
    TooFarAhead,
    /// File name, node id and key do not belong together.
    #[error("nodeId: it is not the node of this file and this key")]
    Ids,
    /// Not the CSR this node makes.
    #[error("csrPem: refused")]
    Csr(#[source] CsrError),
    /// The journal says something else.
    #[error("the journal does not agree")]
    Journal(#[source] Disagreement),
    /// A name no node may have.
    #[error("hostname: {name} is reserved by the worker's settings; approve the machine under another name")]
    Reserved {
        /// The name.
        name: Hostname,
    },
    /// The node was removed once.
    #[error("nodeId: this key was removed from the fleet and stays barred; install the machine anew with a new key")]
    Removed,
    /// The ledger knows this node by another key.
    #[error("publicKeyFingerprint: the worker's ledger has another key for this node")]
    OtherKey,
    /// The ledger knows this node by another name.
    #[error("hostname: the worker's ledger has this node as {name}; a node keeps its name")]
    OtherName {
        /// The name in the ledger.
        name: Hostname,
    },
    /// Another node has or had this name.
    #[error("hostname: the worker's ledger has it for node {owner}; approve the machine under another name")]
    NameTaken {
        /// Who has it.
        owner: NodeId,
    },
    /// The node has a live leaf for another CSR.
    #[error(
        "csrPem: this node's certificate was issued for another CSR; it sends the former one, or waits until 6 days of it remain"
    )]
    OtherCsr,
}

/// Decides about one request.
#[must_use]
pub fn decide(request: &EnrollmentRequest, facts: &Facts<'_>, now: UnixTime) -> Decision {
    match judge(request, facts, now) {
        Ok(decision) => decision,
        Err(refusal) => Decision::Refuse(refusal),
    }
}

fn judge(request: &EnrollmentRequest, facts: &Facts<'_>, now: UnixTime) -> Result<Decision, Refusal> {
    if request.expires_at <= now {
        return Err(Refusal::Expired);
    }
    if request.expires_at > now.plus(REQUEST_LIFETIME_MAX) {
        return Err(Refusal::TooFarAhead);
    }
    let fingerprint = &request.public_key_fingerprint;
    if request.node_id != *facts.file_of || fingerprint.node_id() != request.node_id {
        return Err(Refusal::Ids);
    }
    let csr =
        csr::check(request.csr_pem.as_str(), &request.node_id, &request.hostname, fingerprint).map_err(Refusal::Csr)?;
    agrees(request, facts.journal, now).map_err(Refusal::Journal)?;
    if facts.reserved.holds(&request.hostname) {
        return Err(Refusal::Reserved { name: request.hostname.clone() });
    }
    let Some(admit) = admission(request, facts)? else { return Ok(Decision::AwaitAdmission) };
    let live = live(request, facts.receipt, &csr, now)?;
    Ok(Decision::Issue { csr, admit, live })
}

/// What the ledger says: known (nothing to add), new (what lets it in), or new and waiting (nothing at all).
fn admission(request: &EnrollmentRequest, facts: &Facts<'_>) -> Result<Option<Option<AdmittedBy>>, Refusal> {
    let records = facts.records;
    if records.is_barred(&request.public_key_fingerprint) {
        return Err(Refusal::Removed);
    }
    if let Some(known) = records.node(&request.node_id) {
        if known.names.fingerprint != request.public_key_fingerprint {
            return Err(Refusal::OtherKey);
        }
        if known.names.hostname != request.hostname {
            return Err(Refusal::OtherName { name: known.names.hostname.clone() });
        }
        return Ok(Some(None));
    }
    if let Some(owner) = records.owner_of(&request.hostname) {
        return Err(Refusal::NameTaken { owner: owner.names.node_id.clone() });
    }
    Ok(match facts.admission {
        Admission::Operator => None,
        Admission::Journal => Some(Some(AdmittedBy::Journal)),
    })
}

/// The leaf to use again, if there is one.
fn live(
    request: &EnrollmentRequest,
    receipt: Option<&Receipt>,
    csr: &CheckedCsr,
    now: UnixTime,
) -> Result<Option<Issued>, Refusal> {
    let Some(receipt) = receipt.filter(|receipt| receipt.not_after.since(now) >= RENEW_UNDER) else {
        return Ok(None);
    };
    if receipt.csr_sha256 != csr.sha256() {
        return Err(Refusal::OtherCsr);
    }
    // Our own file; but only a leaf that keeps every rule for this node leaves, wherever it comes from.
    let leaf = Leaf::parse(&receipt.certificate_pem).and_then(|leaf| leaf.check(&rules(request)));
    Ok(leaf.ok().map(|leaf| Issued::new(&leaf, receipt.certificate_pem.clone())))
}

/// What the leaf of a request must be.
#[must_use]
pub fn rules(request: &EnrollmentRequest) -> LeafRules<'_> {
    LeafRules { node_id: &request.node_id, hostname: &request.hostname, fingerprint: &request.public_key_fingerprint }
}

/// The node of a request, as the ledger names it.
#[must_use]
pub fn names(request: &EnrollmentRequest) -> NodeNames {
    NodeNames {
        node_id: request.node_id.clone(),
        fingerprint: request.public_key_fingerprint,
        hostname: request.hostname.clone(),
    }
}

#[cfg(test)]
mod tests;

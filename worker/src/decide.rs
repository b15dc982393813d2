//! Sign, use the live leaf again, wait for a person, or refuse: a pure function of request, journal, ledger and time.
//!
//! The controller's word is never enough (design.md W1): the CSR must be the one this node can have made, the journal
//! must agree, and the worker's own settings and ledger have the last word, in this order.

use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{LIST_ENTRIES_MAX, RENEW_UNDER, REQUEST_LIFETIME_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::enrollment::{Disagreement, EnrollmentRequest, agrees};
use lucia_proto::pki::certificate::{Leaf, LeafRules};
use lucia_proto::pki::csr::{self, CheckedCsr, CsrError};
use thiserror::Error;

use crate::answers;
use crate::ca::Issued;
use crate::config::{Admission, Config};
use crate::home::Receipt;
use crate::ledger::{By, NodeNames, NodeRecord, Records};

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
    /// What the administrator decided.
    pub config: &'a Config,
    /// The last second of the issuing CA, which no leaf outlives; nothing where the CA is not at hand.
    pub issuer_ends: Option<UnixTime>,
}

/// What becomes of a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one match")]
pub enum Decision {
    /// The node gets a leaf.
    Issue {
        /// Its request, checked.
        csr: CheckedCsr,
        /// What lets it in now, when the ledger does not have it yet.
        admit: Option<By>,
        /// Its live leaf, while 6 days or more of it remain (design.md I9).
        live: Option<Issued>,
        /// What lets it have this name now, when the ledger has it under another.
        rename: Option<Renaming>,
    },
    /// All is right, but a person has to admit it first. It gets no answer until then.
    AwaitAdmission,
    /// As before, by an owner's signed order; an operator here may do it as well.
    AwaitOwner,
    /// As before, and its name is another key's: the journal says that it is to replace this node, and only a person
    /// here can say so.
    AwaitReplacement {
        /// Who has the name.
        owner: NodeId,
    },
    /// All is right, but the ledger has it under this name: a person here has to say that it may have the other one.
    AwaitRename {
        /// The name in the ledger.
        from: Hostname,
    },
    /// All is right, but as much was signed within the hour as the settings allow. It gets no answer until then.
    AwaitRoom(Limit),
    /// It gets nothing, and the answer says why.
    Refuse(Refusal),
}

/// A node of the ledger that gets another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// By the name before.
    pub node: NodeNames,
    /// Who says so.
    pub by: By,
}

/// A limit of the settings that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{key} = {max} of worker.toml is reached; it goes on at {until}, or raise the setting and restart the worker")]
pub struct Limit {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub max: usize,
    /// When there is room again.
    pub until: UnixTime,
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
    /// The node was removed or replaced once.
    #[error("nodeId: this key was removed from the fleet and stays barred; install the machine anew with a new key")]
    Removed,
    /// The journal removed the node once, and it is not decided yet.
    #[error(
        "nodeId: the controller removed this node at {at} and it is suspended; on the worker's host, either \
         `lucia-enrollment-worker resume {name}` or `lucia-enrollment-worker confirm-removals {name}`"
    )]
    Suspended {
        /// When.
        at: UnixTime,
        /// Its name.
        name: Hostname,
    },
    /// The node was gone for longer than it may.
    #[error(
        "nodeId: reapproval_needed: this node's certificate ended {} days ago, and max-lapse is {}; make sure that it is \
         the machine it was, then on the worker's host: lucia-enrollment-worker release-lapse {name}",
        gone.as_secs() / 86400, max.as_secs() / 86400
    )]
    Lapsed {
        /// Since its certificate's end.
        gone: Duration,
        /// How long it may be.
        max: Duration,
        /// Its name.
        name: Hostname,
    },
    /// The ledger has as many nodes as the lists that are signed from it have room for.
    #[error(
        "nodeId: {LIST_ENTRIES_MAX} nodes were let in, and the list of barred keys has no room for another key that may have \
         to be barred; begin a new fleet for further machines (lucia-enrollment-worker init)"
    )]
    Full,
    /// The ledger knows this node by another key.
    #[error("publicKeyFingerprint: the worker's ledger has another key for this node")]
    OtherKey,
    /// The ledger knows this node by another name, and the journal does not say that it is to have this one.
    #[error("hostname: the worker's ledger has this node as {name}; a node keeps its name until it is renamed")]
    OtherName {
        /// The name in the ledger.
        name: Hostname,
    },
    /// Another node has or had this name.
    #[error(
        "hostname: the worker's ledger has it for node {owner}; approve the machine under another name. If it is that \
         machine with a new key, the name moves by `admit CODE --fingerprint HEX --replaces {name}` on the worker's host"
    )]
    NameTaken {
        /// The name.
        name: Hostname,
        /// Who has it.
        owner: NodeId,
    },
    /// The node whose name is to move does not have it.
    #[error(
        "hostname: node {node} does not have {name}, so there is nothing to replace; draft the order anew without it"
    )]
    NameNotTheirs {
        /// The name.
        name: Hostname,
        /// Who was to give it away.
        node: NodeId,
    },
    /// Another node was renamed and still has a leaf under this name.
    #[error(
        "hostname: node {owner} was called {name} and has a certificate under that name until {until}; take another name, or          wait until then"
    )]
    NameHeld {
        /// The name.
        name: Hostname,
        /// Who had it.
        owner: NodeId,
        /// Last second of its leaf.
        until: UnixTime,
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
    if facts.config.reserved.holds(&request.hostname) {
        return Err(Refusal::Reserved { name: request.hostname.clone() });
    }
    let (admit, rename) = match standing(request, facts, now)? {
        NodeStanding::Known => (None, None),
        NodeStanding::New(by) => (Some(by), None),
        NodeStanding::Renamed(renaming) => (None, Some(renaming)),
        NodeStanding::Waits(decision) => return Ok(decision),
    };
    let live = live(request, facts, &csr, now)?;
    let (leaves, max) = (&facts.records.rates().leaves, facts.config.limits.certificates);
    if live.is_none() && leaves.count(now) >= max {
        return Ok(await_room("certificates-per-hour", max, leaves.frees_at(now), now));
    }
    Ok(Decision::Issue { csr, admit, live, rename })
}

/// What the ledger says of a node.
#[expect(clippy::large_enum_variant, reason = "it lives for one match")]
enum NodeStanding {
    /// It has this node, and nothing stands in its way.
    Known,
    /// It has neither key nor name, and this lets it in.
    New(By),
    /// It has this node under another name, and this lets it have the new one.
    Renamed(Renaming),
    /// Something has to happen first.
    Waits(Decision),
}

fn await_room(key: &'static str, max: usize, until: Option<UnixTime>, now: UnixTime) -> Decision {
    Decision::AwaitRoom(Limit { key, max, until: until.unwrap_or(now) })
}

fn standing(request: &EnrollmentRequest, facts: &Facts<'_>, now: UnixTime) -> Result<NodeStanding, Refusal> {
    let (records, config) = (facts.records, facts.config);
    if records.is_barred(&request.public_key_fingerprint) {
        return Err(Refusal::Removed);
    }
    if let Some(record) = records.node(&request.node_id) {
        known(request, record, config, now)?;
        return match record.names.hostname == request.hostname {
            true => Ok(NodeStanding::Known),
            false => renamed(request, record, facts, now),
        };
    }
    if records.is_full() {
        return Err(Refusal::Full);
    }
    if config.reserved.denies(&request.hostname) {
        return Err(Refusal::Reserved { name: request.hostname.clone() });
    }
    if let Some(owner) = records.owner_of(&request.hostname) {
        let (name, owner) = (request.hostname.clone(), owner.names.node_id.clone());
        let announced = facts.journal.task(&request.task_id).and_then(|task| task.replaces.as_ref());
        return match announced == Some(&owner) {
            true => Ok(NodeStanding::Waits(Decision::AwaitReplacement { owner })),
            false => Err(Refusal::NameTaken { name, owner }),
        };
    }
    held(records, &request.node_id, &request.hostname, now)?;
    Ok(match config.admission(records.has_owner()) {
        Admission::Operator => NodeStanding::Waits(Decision::AwaitAdmission),
        Admission::Owner => NodeStanding::Waits(Decision::AwaitOwner),
        Admission::Journal => match no_room(facts, now) {
            Some(waits) => NodeStanding::Waits(waits),
            None => NodeStanding::New(By::Journal),
        },
    })
}

/// What waits since the journal alone let in or renamed as many nodes within the hour as the settings allow.
fn no_room(facts: &Facts<'_>, now: UnixTime) -> Option<Decision> {
    let (admissions, max) = (&facts.records.rates().admissions, facts.config.limits.new_nodes);
    let is_full = admissions.count(now) >= max;
    is_full.then(|| await_room("new-nodes-per-hour", max, admissions.frees_at(now), now))
}

/// Whether another node, which was renamed, still has a leaf under the name.
fn held(records: &Records, node_id: &NodeId, name: &Hostname, now: UnixTime) -> Result<(), Refusal> {
    match records.former_owner_of(name, now) {
        Some((owner, until)) if owner != node_id => {
            Err(Refusal::NameHeld { name: name.clone(), owner: owner.clone(), until })
        }
        _ => Ok(()),
    }
}

/// What becomes of a node of the ledger that asks under another name than it has there.
fn renamed(
    request: &EnrollmentRequest,
    record: &NodeRecord,
    facts: &Facts<'_>,
    now: UnixTime,
) -> Result<NodeStanding, Refusal> {
    let approved = facts.journal.device(&request.node_id).and_then(|device| device.hostname.as_ref());
    if approved != Some(&request.hostname) {
        // The name it had: the journal still agrees with that one, but the ledger has gone on.
        return Err(Refusal::OtherName { name: record.names.hostname.clone() });
    }
    free(facts.config, facts.records, &request.node_id, &request.hostname, None, now)?;
    Ok(match facts.config.admission(facts.records.has_owner()) {
        // No order of an owner renames: it is a person's here.
        Admission::Operator | Admission::Owner => {
            NodeStanding::Waits(Decision::AwaitRename { from: record.names.hostname.clone() })
        }
        Admission::Journal => match no_room(facts, now) {
            Some(waits) => NodeStanding::Waits(waits),
            None => NodeStanding::Renamed(Renaming { node: record.names.clone(), by: By::Journal }),
        },
    })
}

/// Whether a node may have this name from now on: neither reserved nor denied, and nobody's but that of the node it
/// replaces, which has it.
///
/// # Errors
/// [`Refusal::Reserved`], [`Refusal::NameTaken`], [`Refusal::NameNotTheirs`], [`Refusal::NameHeld`].
pub fn free(
    config: &Config,
    records: &Records,
    node_id: &NodeId,
    name: &Hostname,
    replaces: Option<&NodeId>,
    now: UnixTime,
) -> Result<(), Refusal> {
    if config.reserved.holds(name) || config.reserved.denies(name) {
        return Err(Refusal::Reserved { name: name.clone() });
    }
    match (records.owner_of(name).map(|owner| owner.names.node_id.clone()), replaces) {
        (None, None) => {}
        (Some(owner), Some(replaced)) if owner == *replaced => {}
        (Some(owner), _) => return Err(Refusal::NameTaken { name: name.clone(), owner }),
        (None, Some(replaced)) => {
            return Err(Refusal::NameNotTheirs { name: name.clone(), node: replaced.clone() });
        }
    }
    held(records, node_id, name, now)
}

/// Whether a node of the ledger may have a leaf, under whatever name.
fn known(request: &EnrollmentRequest, record: &NodeRecord, config: &Config, now: UnixTime) -> Result<(), Refusal> {
    if record.names.fingerprint != request.public_key_fingerprint {
        return Err(Refusal::OtherKey);
    }
    let name = &record.names.hostname;
    if let Some((at, _)) = record.suspended {
        return Err(Refusal::Suspended { at, name: name.clone() });
    }
    let gone = record.leaf.as_ref().map_or(Duration::ZERO, |(_, not_after)| now.since(*not_after));
    if gone > config.max_lapse && !record.is_released(now) {
        return Err(Refusal::Lapsed { gone, max: config.max_lapse, name: name.clone() });
    }
    Ok(())
}

/// The leaf to use again, if there is one.
fn live(
    request: &EnrollmentRequest,
    facts: &Facts<'_>,
    csr: &CheckedCsr,
    now: UnixTime,
) -> Result<Option<Issued>, Refusal> {
    // In the last days of an issuing CA a new leaf would end no later than the one there is.
    let last = |receipt: &Receipt| receipt.not_after >= now && facts.issuer_ends == Some(receipt.not_after);
    let Some(receipt) = facts.receipt.filter(|receipt| receipt.not_after.since(now) >= RENEW_UNDER || last(receipt))
    else {
        return Ok(None);
    };
    if receipt.csr_sha256 != csr.sha256() {
        // One under the name before or after a rename stands in nobody's way.
        return match answers::hostname(receipt).as_ref() == Some(&request.hostname) {
            true => Err(Refusal::OtherCsr),
            false => Ok(None),
        };
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

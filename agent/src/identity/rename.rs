//! Another name with the same key: asked for beside the own one, which stays in force until the answer is kept.
//!
//! What decides after a crash is the answer: it is kept before its certificate, and CSR and `installed.json` are made to
//! follow it, now or at the next start.

use lucia_proto::base::ids::TaskId;
use lucia_proto::base::names::Hostname;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::pki::certificate::{Leaf, LeafRules};
use lucia_proto::pki::csr::{self, CheckedCsr, CsrError};
use lucia_proto::pki::key::NodeKey;
use zeroize::Zeroizing;

use super::disk::payload;
use super::installed::InstalledFacts;
use crate::host::state::{State, StateError, StateFile};

/// What is asked for under another name.
#[derive(Debug)]
pub(super) struct RenameRequest {
    pub(super) hostname: Hostname,
    pub(super) csr_pem: String,
    pub(super) csr: CheckedCsr,
}

impl RenameRequest {
    pub(super) fn of(hostname: &Hostname, key: &NodeKey) -> Result<Self, CsrError> {
        let fingerprint = key.public().fingerprint();
        let node_id = fingerprint.node_id();
        let csr_pem = csr::build(&node_id, hostname, key);
        let csr = csr::check(&csr_pem, &node_id, hostname, &fingerprint)?;
        Ok(Self { hostname: hostname.clone(), csr_pem, csr })
    }
}

/// The name that counts: the kept answer's where it is another one than the installation's, which a crash left behind.
pub(super) fn name(state: &State, installed: &Hostname, task_id: &TaskId, key: &NodeKey) -> Hostname {
    let signed = state.find_json::<SignedAnswer>(StateFile::Answer);
    let answer = signed.and_then(|signed| payload(&signed));
    let fingerprint = key.public().fingerprint();
    let node_id = fingerprint.node_id();
    let ours = answer.filter(|answer| answer.node_id == node_id && answer.task_id == *task_id);
    let renamed = ours.filter(|answer| {
        let rules = LeafRules { node_id: &node_id, hostname: &answer.hostname, fingerprint: &fingerprint };
        answer.hostname != *installed
            && Leaf::parse(&answer.certificate_pem).and_then(|leaf| leaf.check(&rules)).is_ok()
    });
    renamed.map_or_else(|| installed.clone(), |answer| answer.hostname)
}

/// `installed.json` with this name, where there is one and it has another.
///
/// # Errors
/// It cannot be read, or written as JSON.
pub(super) fn installed_as(state: &State, hostname: &Hostname) -> Result<Option<Zeroizing<String>>, StateError> {
    let facts = InstalledFacts::read(state)?.filter(|facts| facts.hostname != *hostname);
    let renamed = facts.map(|facts| InstalledFacts { hostname: hostname.clone(), ..facts });
    renamed.map(|facts| StateFile::Installed.text(&facts)).transpose()
}

#[cfg(test)]
mod tests;

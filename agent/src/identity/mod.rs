//! Who this machine is: its key, the name it was approved under, its certificate and how it gets the next one.
//!
//! What is on disk heals by itself as long as the key is there: the CSR is made again byte for byte, a certificate
//! that a crash cut is taken from the answer beside it, or asked for again. A lost or broken key is never replaced.

pub mod accept;
mod disk;
pub mod enroll;
pub mod installed;
pub mod key;
pub mod rekey;
mod rename;
pub mod renew;
pub mod running;
pub mod starts;

use std::sync::Arc;

use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::limits::LAPSED_CHAIN_OFFSET;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::bundle::{BundleError, SignedBundle, VerifiedBundle};
use lucia_proto::pki::certificate::{CheckedLeaf, Leaf, LeafRules};
use lucia_proto::pki::chain::{self, Root};
use lucia_proto::pki::key::{Fingerprint, NodeKey};

use self::disk::{payload, read};
use self::rename::RenameRequest;
use crate::directory::Orders;
use crate::host::failed::{Failed, OrFailed as _};
use crate::host::state::{State, StateError, StateFile};

/// A certificate in force, or lapsed.
#[derive(Debug)]
pub struct Certificate {
    /// The name it is for.
    pub hostname: Hostname,
    /// Leaf and issuing CA: what a node's call carries.
    pub pem: String,
    /// First second.
    pub not_before: UnixTime,
    /// Last second.
    pub not_after: UnixTime,
}

impl Certificate {
    fn new(leaf: &CheckedLeaf, hostname: &Hostname) -> Self {
        Self { hostname: hostname.clone(), pem: leaf.pem(), not_before: leaf.not_before(), not_after: leaf.not_after() }
    }
}

/// The node that this machine is.
#[derive(Debug)]
pub struct Identity {
    node_id: NodeId,
    fingerprint: Fingerprint,
    task_id: TaskId,
    root: Root,
    /// What it asks for under its own name.
    own: RenameRequest,
    /// And under another one, while it asks for that.
    other: Option<RenameRequest>,
    bundle: Option<VerifiedBundle>,
    /// The roster of the last answer, until it is taken.
    roster: Option<VerifiedRoster>,
    certificate: Option<Arc<Certificate>>,
    directory: Orders,
}

impl Identity {
    /// Reads what is there, makes the CSR unless it is there, and heals what a crash cut. What cannot be read is told
    /// in the log and asked for again; nothing is deleted.
    ///
    /// # Errors
    /// When the private directory fails.
    pub fn open(
        state: &State,
        key: &NodeKey,
        hostname: &Hostname,
        task_id: &TaskId,
        root: Root,
    ) -> Result<Self, Failed> {
        let fingerprint = key.public().fingerprint();
        let node_id = fingerprint.node_id();
        let own = request(&rename::name(state, hostname, task_id, key), key)?;
        // Persisted before it is ever sent. The signature is deterministic, so a broken file becomes the same again.
        if read(state, StateFile::Csr).as_deref() != Some(own.csr_pem.as_bytes()) {
            state.replace(StateFile::Csr, own.csr_pem.as_bytes())?;
        }
        let mut identity = Self {
            node_id,
            fingerprint,
            task_id: task_id.clone(),
            root,
            own,
            other: None,
            bundle: None,
            roster: None,
            certificate: None,
            directory: Orders::Unknown,
        };
        identity.load(state)?;
        if let Some(text) = rename::installed_as(state, identity.hostname())? {
            state.replace(StateFile::Installed, text.as_bytes())?;
        }
        Ok(identity)
    }

    /// This node.
    #[must_use]
    pub const fn node_id(&self) -> &NodeId {
        &self.node_id
    }

    /// Its approved name.
    #[must_use]
    pub const fn hostname(&self) -> &Hostname {
        &self.own.hostname
    }

    /// Its installation.
    #[must_use]
    pub const fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// The CSR of what it asks for now: one for each name.
    #[must_use]
    pub fn csr_pem(&self) -> &str {
        &self.asked().csr_pem
    }

    /// Its certificate, lapsed or not.
    #[must_use]
    pub const fn certificate(&self) -> Option<&Arc<Certificate>> {
        self.certificate.as_ref()
    }

    /// The newest bundle it holds.
    #[must_use]
    pub const fn bundle(&self) -> Option<&VerifiedBundle> {
        self.bundle.as_ref()
    }

    /// The fleet's root.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Goes by a newer bundle than its own, which is on the disk.
    pub fn hold(&mut self, bundle: &VerifiedBundle) {
        if self.bundle.as_ref().is_none_or(|held| held.bundle().version < bundle.bundle().version) {
            self.bundle = Some(bundle.clone());
        }
    }

    /// The roster that the last answer brought, once.
    pub const fn take_roster(&mut self) -> Option<VerifiedRoster> {
        self.roster.take()
    }

    /// What the last answer says of a directory.
    #[must_use]
    pub const fn directory(&self) -> &Orders {
        &self.directory
    }

    /// Asks for its next certificate under this name, or under its own.
    ///
    /// # Errors
    /// [`Failed`], a mistake in the agent.
    pub fn ask_as(&mut self, hostname: &Hostname, key: &NodeKey) -> Result<(), Failed> {
        if *hostname == self.own.hostname {
            self.other = None;
        } else if self.other.as_ref().is_none_or(|other| other.hostname != *hostname) {
            self.other = Some(request(hostname, key)?);
        }
        Ok(())
    }

    /// Whether what it asks for now is another name than its own.
    #[must_use]
    pub const fn csr_is_for_another_name(&self) -> bool {
        self.other.is_some()
    }

    /// What it asks for now.
    const fn asked(&self) -> &RenameRequest {
        match &self.other {
            Some(other) => other,
            None => &self.own,
        }
    }

    fn load(&mut self, state: &State) -> Result<(), StateError> {
        let answer = state.find_json::<SignedAnswer>(StateFile::Answer);
        let answer = answer.and_then(|signed| payload(&signed));
        self.directory = answer.as_ref().map_or(Orders::Unknown, disk::orders);
        let held = state.find_json::<SignedBundle>(StateFile::Bundle);
        let bundles = [held, answer.as_ref().map(|answer| answer.bundle.clone())];
        self.bundle = bundles
            .into_iter()
            .flatten()
            .filter_map(|signed| {
                let told = |error: &BundleError| {
                    tracing::warn!("a bundle on disk is passed over: {}", crate::host::chain(error));
                };
                signed.verify(&self.root).inspect_err(told).ok()
            })
            .max_by_key(|bundle| bundle.bundle().version);
        // The answer was kept, and a crash may have come before its roster was. A newer bundle may know its worker no more.
        let roster = answer.as_ref().and_then(|answer| answer.roster.as_ref());
        let roster = roster.zip(self.bundle.as_ref());
        self.roster = roster.and_then(|(roster, bundle)| roster.verify(bundle, &self.root.sha256()).ok());

        let on_disk = read(state, StateFile::Certificate);
        let text = on_disk.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
        let texts = [text, answer.map(|answer| answer.certificate_pem)];
        let newest = texts.into_iter().flatten().filter_map(|pem| self.check(&pem)).max_by_key(CheckedLeaf::not_after);
        let Some(leaf) = newest else { return Ok(()) };
        let certificate = Certificate::new(&leaf, self.hostname());
        if on_disk.as_deref() != Some(certificate.pem.as_bytes()) {
            tracing::info!("certificate.pem was missing or cut; it is written again from answer.json");
            state.replace(StateFile::Certificate, certificate.pem.as_bytes())?;
        }
        self.certificate = Some(Arc::new(certificate));
        Ok(())
    }

    /// A chain from the disk, if it is this node's and chained to the root when it was issued. Whether it is over
    /// is not asked here: the machine's clock may be wrong.
    fn check(&self, pem: &str) -> Option<CheckedLeaf> {
        let told = |error: &dyn std::error::Error| {
            tracing::warn!("a certificate on disk is passed over: {}", crate::host::chain(error));
        };
        let rules = LeafRules { node_id: &self.node_id, hostname: self.hostname(), fingerprint: &self.fingerprint };
        let leaf = Leaf::parse(pem).and_then(|leaf| leaf.check(&rules)).inspect_err(|error| told(error)).ok()?;
        let issued = leaf.not_before().plus(LAPSED_CHAIN_OFFSET);
        let roots = std::slice::from_ref(&self.root);
        chain::verify_lapsed(&leaf, roots, issued).inspect_err(|error| told(error)).ok()?;
        Some(leaf)
    }
}

/// What is asked for under this name.
fn request(hostname: &Hostname, key: &NodeKey) -> Result<RenameRequest, Failed> {
    let made = RenameRequest::of(hostname, key);
    made.or_failed(format!("the certificate request made for {hostname} is refused; a mistake in the agent, report it"))
}

#[cfg(test)]
mod tests;

//! The enrolment answer, which is the worker's and nobody else's (design.md W4).
//!
//! The controller carries it and cannot make one. A node takes it in this order: the bundle inside is checked with
//! the root the node was given, the whole answer with a worker key of that bundle, then every field against what
//! the node asked, then the leaf and its chain. Only after all of it is any of it used: [`AcceptedAnswer`] is
//! the proof.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::ids::{NodeId, TaskId};
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::node::directory::{DirectoryAccess, Dn, GroupDn, LdapUri};
use crate::orders::roster::{RosterError, SignedRoster, VerifiedRoster};
use crate::pki::bundle::{self, BundleError, SignedBundle, VerifiedBundle};
use crate::pki::certificate::{CertificateError, CheckedLeaf, Leaf, LeafRules};
use crate::pki::chain::{self, ChainError, Root, Usage, VerifiedChain};
use crate::pki::key::{Fingerprint, NodeKey};
use crate::pki::sealed::Sealed;
use crate::pki::signed::{SignedPayload, signed_kind};

/// First line of what is signed: no signature over anything else can be taken for one over an answer.
const TAG: &[u8] = b"lucia-answer-v1\n";
/// The only version there is.
pub const ANSWER_SCHEMA_VERSION: u32 = 1;

/// What the worker says to a node, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Answer {
    /// [`ANSWER_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The node it is for.
    pub node_id: NodeId,
    /// The installation it belongs to.
    pub task_id: TaskId,
    /// SHA-256 of the DER of the CSR it answers.
    pub csr_sha256: Digest,
    /// The name the node has.
    pub hostname: Hostname,
    /// The leaf and its intermediates, PEM.
    pub certificate_pem: String,
    /// The root, PEM: the node compares it with the one it was given.
    pub ca_pem: String,
    /// When the worker signed.
    pub issued_at: UnixTime,
    /// The bundle in force.
    pub bundle: SignedBundle,
    /// The directory, where the fleet has one: `ldapUri`, `ldapBaseDn`, `ldapBindDn`, `ldapBindPasswordSealed` and
    /// `ownerGroupDn` on the wire, all or none. Since step 2.
    pub directory: Option<DirectoryAccess>,
    /// Who may order, where the fleet has a roster. Since step 3.
    pub roster: Option<SignedRoster>,
}

/// [`Answer`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    schema_version: u32,
    node_id: NodeId,
    task_id: TaskId,
    csr_sha256: Digest,
    hostname: Hostname,
    certificate_pem: String,
    ca_pem: String,
    issued_at: UnixTime,
    bundle: SignedBundle,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ldap_uri: Option<LdapUri>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ldap_base_dn: Option<Dn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ldap_bind_dn: Option<Dn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ldap_bind_password_sealed: Option<Sealed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner_group_dn: Option<GroupDn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster: Option<SignedRoster>,
}

/// Some members of the directory are there and others not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ldapUri, ldapBaseDn, ldapBindDn, ldapBindPasswordSealed and ownerGroupDn belong together: all or none")]
pub struct HalfADirectory;

impl TryFrom<Wire> for Answer {
    type Error = HalfADirectory;

    fn try_from(wire: Wire) -> Result<Self, HalfADirectory> {
        let members =
            (wire.ldap_uri, wire.ldap_base_dn, wire.ldap_bind_dn, wire.ldap_bind_password_sealed, wire.owner_group_dn);
        let directory = match members {
            (None, None, None, None, None) => None,
            (Some(uri), Some(base_dn), Some(bind_dn), Some(bind_password), Some(owner_group)) => {
                Some(DirectoryAccess { uri, base_dn, bind_dn, bind_password, owner_group })
            }
            _ => return Err(HalfADirectory),
        };
        Ok(Self {
            schema_version: wire.schema_version,
            node_id: wire.node_id,
            task_id: wire.task_id,
            csr_sha256: wire.csr_sha256,
            hostname: wire.hostname,
            certificate_pem: wire.certificate_pem,
            ca_pem: wire.ca_pem,
            issued_at: wire.issued_at,
            bundle: wire.bundle,
            directory,
            roster: wire.roster,
        })
    }
}

impl From<Answer> for Wire {
    fn from(answer: Answer) -> Self {
        let mut wire = Self {
            schema_version: answer.schema_version,
            node_id: answer.node_id,
            task_id: answer.task_id,
            csr_sha256: answer.csr_sha256,
            hostname: answer.hostname,
            certificate_pem: answer.certificate_pem,
            ca_pem: answer.ca_pem,
            issued_at: answer.issued_at,
            bundle: answer.bundle,
            ldap_uri: None,
            ldap_base_dn: None,
            ldap_bind_dn: None,
            ldap_bind_password_sealed: None,
            owner_group_dn: None,
            roster: answer.roster,
        };
        if let Some(directory) = answer.directory {
            wire.ldap_uri = Some(directory.uri);
            wire.ldap_base_dn = Some(directory.base_dn);
            wire.ldap_bind_dn = Some(directory.bind_dn);
            wire.ldap_bind_password_sealed = Some(directory.bind_password);
            wire.owner_group_dn = Some(directory.owner_group);
        }
        wire
    }
}

/// Why an answer was refused.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Not an answer.
    #[error("the answer's payload is not an answer")]
    Json(#[source] JsonError),
    /// The bundle inside is not the root's, or goes back.
    #[error("the answer's bundle is refused")]
    Bundle(#[source] BundleError),
    /// No worker of the bundle signed it.
    #[error("the answer is not signed by a worker of the bundle")]
    Signature,
    /// A field is not what the node asked for.
    #[error("the answer's {field} is not the one that was asked for")]
    Field {
        /// Its name on the wire.
        field: &'static str,
    },
    /// The roster inside is not a worker's, or another fleet's.
    #[error("the answer's roster is refused")]
    Roster(#[source] RosterError),
    /// The root in it cannot be read.
    #[error("the answer's caPem is not a root")]
    Root(#[source] CertificateError),
    /// The leaf breaks a rule.
    #[error("the answer's certificate is not this node's")]
    Certificate(#[source] CertificateError),
    /// The leaf does not chain to the root now.
    #[error("the answer's certificate does not chain to the root")]
    Chain(#[source] ChainError),
}

impl AnswerError {
    /// A short name of what was wrong, for logs and tables.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Json(_) => "payload",
            Self::Bundle(_) => "bundle",
            Self::Roster(_) => "roster",
            Self::Signature => "signature",
            Self::Field { field } => field,
            Self::Root(_) => "caPem",
            Self::Certificate(_) | Self::Chain(_) => "certificatePem",
        }
    }
}

/// What the node asked and knows, against which an answer is held.
#[derive(Clone, Copy, Debug)]
pub struct AnswerExpectation<'a> {
    /// The root that came from outside the controller.
    pub root: &'a Root,
    /// This node.
    pub node_id: &'a NodeId,
    /// The installation, where the caller knows it.
    pub task_id: Option<&'a TaskId>,
    /// The name this node was approved under.
    pub hostname: &'a Hostname,
    /// This node's key.
    pub fingerprint: &'a Fingerprint,
    /// SHA-256 of the DER of the CSR that was sent.
    pub csr_sha256: &'a Digest,
    /// The time at the server, as the node keeps it.
    pub now: UnixTime,
    /// The bundle held so far.
    pub current_bundle: Option<&'a VerifiedBundle>,
}

signed_kind! {
    /// An answer as it travels: not checked yet.
    SignedAnswer
}

/// An answer that is the worker's, for this node, this CSR and this key. Only [`SignedAnswer::accept`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedAnswer {
    answer: Answer,
    leaf: CheckedLeaf,
    chain: VerifiedChain,
    bundle: VerifiedBundle,
    roster: Option<VerifiedRoster>,
}

impl SignedAnswer {
    /// Signs an answer with a worker's key.
    ///
    /// # Errors
    /// The answer cannot be written as JSON.
    pub fn sign(answer: &Answer, worker_key: &NodeKey) -> Result<Self, AnswerError> {
        let payload = json::to_string(answer).map_err(AnswerError::Json)?.into_bytes();
        Ok(Self(SignedPayload::sign(TAG, payload, worker_key)))
    }

    /// Whether a worker of this bundle signed it.
    #[must_use]
    pub fn is_of_worker(&self, bundle: &VerifiedBundle) -> bool {
        self.0.is_of(TAG, bundle.workers())
    }

    /// Takes the answer, if it is the worker's and answers exactly what was asked.
    ///
    /// # Errors
    /// The first check that fails; nothing of a refused answer may be used.
    pub fn accept(&self, expected: &AnswerExpectation<'_>) -> Result<AcceptedAnswer, AnswerError> {
        let payload = self.0.payload();
        let answer: Answer =
            json::from_slice(payload, SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).map_err(AnswerError::Json)?;
        let bundle = answer.bundle.verify(expected.root).map_err(AnswerError::Bundle)?;
        let bundle = bundle::accept(expected.current_bundle, bundle).map_err(AnswerError::Bundle)?;
        if !self.is_of_worker(&bundle) {
            return Err(AnswerError::Signature);
        }
        for (field, same) in [
            ("schemaVersion", answer.schema_version == ANSWER_SCHEMA_VERSION),
            ("nodeId", answer.node_id == *expected.node_id),
            ("taskId", expected.task_id.is_none_or(|task_id| answer.task_id == *task_id)),
            ("csrSha256", answer.csr_sha256 == *expected.csr_sha256),
            ("hostname", answer.hostname == *expected.hostname),
        ] {
            if !same {
                return Err(AnswerError::Field { field });
            }
        }
        if let Some(field) = answer.directory.as_ref().and_then(|directory| directory.wrong_for(expected.node_id)) {
            return Err(AnswerError::Field { field });
        }
        let fleet = expected.root.sha256();
        let roster = answer.roster.as_ref().map(|roster| roster.verify(&bundle, &fleet));
        let roster = roster.transpose().map_err(AnswerError::Roster)?;
        let root = Root::from_pem(&answer.ca_pem).map_err(AnswerError::Root)?;
        if root != *expected.root {
            return Err(AnswerError::Field { field: "caPem" });
        }
        let rules =
            LeafRules { node_id: expected.node_id, hostname: expected.hostname, fingerprint: expected.fingerprint };
        let leaf = Leaf::parse(&answer.certificate_pem)
            .and_then(|leaf| leaf.check(&rules))
            .map_err(AnswerError::Certificate)?;
        let roots = std::slice::from_ref(expected.root);
        let chain = chain::verify(&leaf, roots, expected.now, Usage::Client).map_err(AnswerError::Chain)?;
        Ok(AcceptedAnswer { answer, leaf, chain, bundle, roster })
    }
}

impl AcceptedAnswer {
    /// What the worker said.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The node's leaf.
    #[must_use]
    pub fn leaf(&self) -> &CheckedLeaf {
        &self.leaf
    }

    /// That it chains to the root.
    #[must_use]
    pub fn chain(&self) -> &VerifiedChain {
        &self.chain
    }

    /// The bundle to hold from now on.
    #[must_use]
    pub fn bundle(&self) -> &VerifiedBundle {
        &self.bundle
    }

    /// A roster of this fleet. An answer that was given once is given again, so it may be an older one than the node
    /// holds: [`crate::orders::roster::accept`] decides.
    #[must_use]
    pub const fn roster(&self) -> Option<&VerifiedRoster> {
        self.roster.as_ref()
    }
}

#[cfg(test)]
mod tests;

//! What a node signs and how it becomes believed: [`Proof`] in, [`Verified`] out.
//!
//! The bytes that were signed are the bytes that are parsed (design.md I3): a report reaches a
//! handler only inside a [`Verified`], and only [`Proof::verify`] makes one.

use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::digest::Digest;
use crate::base::ids::{NodeId, RequestId, TaskId};
use crate::base::json::{self, JsonError};
use crate::base::limits::{DISCOVER_REPORT_MAX, JSON_DEPTH_MAX, PROOF_HEADER_MAX, REPORT_MAX, REPORT_MIN};
use crate::base::names::DiskId;
use crate::node::challenge::{ChallengeId, Nonce, signed_text};
use crate::node::phase::DevicePhase;
use crate::pki::key::{KeyError, NodeKey, NodePublicKey, Signature};

/// What a report is for. Signed, and compared with the endpoint that received it: a signature for
/// one purpose is worth nothing at another. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// First contact: key and inventory.
    Discover,
    /// The device asks what became of it.
    DeviceState,
    /// The device asks what it may install.
    Installation,
    /// The device asks for the one-time permission to install.
    Grant,
    /// The installer tells how far it is.
    Progress,
    /// The installed system asks for its first certificate.
    Enroll,
    /// The node is alive, and how it is.
    Heartbeat,
    /// The node asks for its next certificate.
    Renew,
}

/// A report of one purpose.
pub trait Report: DeserializeOwned + Serialize {
    /// The purposes this report serves.
    const PURPOSES: &'static [Purpose];
    /// The node that says it is the sender.
    fn node_id(&self) -> &NodeId;
    /// What the sender signed it for.
    fn purpose(&self) -> Purpose;
    /// Longest report of this kind in bytes.
    const MAX: usize = REPORT_MAX;
}

/// A report and the signature over it, as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Proof {
    /// The challenge that was signed over.
    pub challenge_id: ChallengeId,
    /// The report, as the very text that was signed.
    pub report_json: String,
    /// P1363, 64 bytes in 88 base64 characters.
    pub signature: String,
}

/// Why a proof is not believed.
#[derive(Debug, Error)]
pub enum ProofError {
    /// The report is shorter or longer than a report of this kind may be.
    #[error("a report of {size} bytes, where {REPORT_MIN} to {max} are allowed")]
    Size {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The signature is malformed or is not the key's.
    #[error("the proof's signature is refused")]
    Signature(#[source] KeyError),
    /// The signed report is not one of this kind.
    #[error("the signed report is malformed")]
    Report(#[source] JsonError),
    /// The report names another node than the call.
    #[error("the report is of node {found}, the call of node {expected}")]
    Node {
        /// The node the call is for.
        expected: NodeId,
        /// The node the report names.
        found: NodeId,
    },
    /// The report was signed for another purpose.
    #[error("the report was signed for {found:?}, not for {expected:?}")]
    Purpose {
        /// The endpoint's purpose.
        expected: Purpose,
        /// The report's purpose.
        found: Purpose,
    },
}

impl Proof {
    /// Signs `report` over a challenge.
    ///
    /// # Errors
    /// When the report cannot be written as JSON or is longer than its kind may be.
    pub fn sign<T: Report>(
        report: &T,
        challenge: &crate::node::challenge::Challenge,
        key: &NodeKey,
    ) -> Result<Self, ProofError> {
        let report_json = json::to_string(report).map_err(ProofError::Report)?;
        check_size(report_json.len(), T::MAX)?;
        let text = signed_text(&challenge.challenge_id, &challenge.nonce, &report_json);
        Ok(Self { challenge_id: challenge.challenge_id.clone(), signature: key.sign(&text).to_text(), report_json })
    }

    /// Refuses what cannot be a proof of a `T`, before any public-key operation.
    ///
    /// # Errors
    /// [`ProofError::Size`] or [`ProofError::Signature`].
    pub fn check_form<T: Report>(&self) -> Result<Signature, ProofError> {
        check_size(self.report_json.len(), T::MAX)?;
        Signature::from_text(&self.signature).map_err(ProofError::Signature)
    }

    /// Checks the signature, then reads the report from the very bytes that were signed, then
    /// compares node and purpose with the call.
    ///
    /// # Errors
    /// Any [`ProofError`]; nothing of the report is used before the signature verified.
    pub fn verify<T: Report>(
        &self,
        nonce: &Nonce,
        key: &NodePublicKey,
        node: &NodeId,
        purpose: Purpose,
    ) -> Result<Verified<T>, ProofError> {
        let signature = self.check_form::<T>()?;
        let text = signed_text(&self.challenge_id, nonce, &self.report_json);
        key.verify(&text, &signature).map_err(ProofError::Signature)?;
        let report: T = json::from_str(&self.report_json, T::MAX, JSON_DEPTH_MAX).map_err(ProofError::Report)?;
        if report.node_id() != node {
            return Err(ProofError::Node { expected: node.clone(), found: report.node_id().clone() });
        }
        if report.purpose() != purpose || !T::PURPOSES.contains(&purpose) {
            return Err(ProofError::Purpose { expected: purpose, found: report.purpose() });
        }
        Ok(Verified { report, key: key.clone() })
    }
}

const fn check_size(size: usize, max: usize) -> Result<(), ProofError> {
    if size < REPORT_MIN || size > max { Err(ProofError::Size { size, max }) } else { Ok(()) }
}

/// A report whose signature, node and purpose were checked. Only [`Proof::verify`] makes one.
#[derive(Debug)]
pub struct Verified<T> {
    report: T,
    key: NodePublicKey,
}

impl<T> Verified<T> {
    /// The key that signed it: the only key that may authorise what follows (threats.md B-12).
    #[must_use]
    pub const fn key(&self) -> &NodePublicKey {
        &self.key
    }

    /// The report, no longer tied to its proof.
    #[must_use]
    pub fn into_report(self) -> T {
        self.report
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.report
    }
}

/// Body of a discovery: the key comes with its first proof, since nobody knows it yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DiscoverCall {
    /// The challenge that was signed over, of scope `boot`.
    pub challenge_id: ChallengeId,
    /// The machine's key, one PEM block.
    pub public_key_pem: String,
    /// The [`Discover`] report, as the very text that was signed.
    pub report_json: String,
    /// P1363, 64 bytes in 88 base64 characters.
    pub signature: String,
}

/// Body of a device's call: the proof alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeviceCall {
    /// The signed report.
    pub proof: Proof,
}

/// Body of a node's call: its certificate chain and the proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeCall {
    /// Leaf and issuing CA, as the enrolment answer held them.
    pub certificate_pem: String,
    /// The signed report.
    pub proof: Proof,
}

/// Name of the header in which a GET carries its proof.
pub const PROOF_HEADER: &str = "X-Lucia-Node-Proof";

/// The proof in a GET's header: base64 of the same JSON as a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderProof {
    /// Present once the sender has a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_pem: Option<String>,
    /// The signed report.
    pub proof: Proof,
}

/// The header is not a proof.
#[derive(Debug, Error)]
#[error("the header is not base64 of a proof of at most {PROOF_HEADER_MAX} characters")]
pub struct BadHeaderProof;

impl HeaderProof {
    /// The header's value.
    #[must_use]
    pub fn to_header(&self) -> String {
        STANDARD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the header's value.
    ///
    /// # Errors
    /// When it is longer than the limit, not base64 or not strict JSON of this shape.
    pub fn from_header(value: &[u8]) -> Result<Self, BadHeaderProof> {
        if value.len() > PROOF_HEADER_MAX {
            return Err(BadHeaderProof);
        }
        let bytes = STANDARD.decode(value).map_err(|_| BadHeaderProof)?;
        json::from_slice(&bytes, PROOF_HEADER_MAX, JSON_DEPTH_MAX).map_err(|_| BadHeaderProof)
    }
}

/// A report that says who asks and for what, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Question {
    /// The sender.
    pub node_id: NodeId,
    /// `device-state` or `installation`.
    pub purpose: Purpose,
}

/// The device's request for its grant. The same `requestId` gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrantRequest {
    /// The sender.
    pub node_id: NodeId,
    /// `grant`.
    pub purpose: Purpose,
    /// Names this request.
    pub request_id: RequestId,
    /// The inventory the approval was for.
    pub inventory_revision: u32,
    /// The disk the approval was for; absent where a running machine joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_id: Option<DiskId>,
}

/// How far the installer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Progress {
    /// The sender.
    pub node_id: NodeId,
    /// `progress`.
    pub purpose: Purpose,
    /// `Installing`, `AwaitingEnrollment` or `Failed`; every other phase is refused.
    pub phase: DevicePhase,
    /// For people; at most 512 printable characters.
    pub message: String,
}

/// Asks for a first or a next certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnrollRequest {
    /// The sender.
    pub node_id: NodeId,
    /// `enroll` or `renew`.
    pub purpose: Purpose,
    /// The approved installation.
    pub task_id: TaskId,
    /// The persisted CSR, the same each time.
    pub csr_pem: String,
}

/// Stands for a body too large to sign: the report signs its hash (managed-nodes.md).
///
/// The first call that uses it comes with stacks and requests; until then no purpose serves it, so
/// every such proof is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BodyProof {
    /// The sender.
    pub node_id: NodeId,
    /// What the body is for.
    pub purpose: Purpose,
    /// SHA-256 of the body's UTF-8 text.
    pub body_sha256: Digest,
}

impl BodyProof {
    /// Whether `body` is what was signed for.
    #[must_use]
    pub fn covers(&self, body: &str) -> bool {
        self.body_sha256 == Digest::of(body.as_bytes())
    }
}

/// The discovery report: the first thing a machine ever says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Discover {
    /// The id of the key that signs.
    pub node_id: NodeId,
    /// `discover`.
    pub purpose: Purpose,
    /// What the machine is.
    pub inventory: crate::node::inventory::HardwareInventory,
    /// An installed system speaks, not an installer: the machine becomes a node as it runs, and no disk is erased. What an
    /// installer sends has no such member, as before there was one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
}

macro_rules! report {
    ($name:ident, $purposes:expr, $max:expr) => {
        impl Report for $name {
            const PURPOSES: &'static [Purpose] = $purposes;
            const MAX: usize = $max;
            fn node_id(&self) -> &NodeId {
                &self.node_id
            }
            fn purpose(&self) -> Purpose {
                self.purpose
            }
        }
    };
}

report!(Question, &[Purpose::DeviceState, Purpose::Installation], REPORT_MAX);
report!(GrantRequest, &[Purpose::Grant], REPORT_MAX);
report!(Progress, &[Purpose::Progress], REPORT_MAX);
report!(EnrollRequest, &[Purpose::Enroll, Purpose::Renew], REPORT_MAX);
report!(Discover, &[Purpose::Discover], DISCOVER_REPORT_MAX);
report!(BodyProof, &[], REPORT_MAX);

#[cfg(test)]
mod tests;

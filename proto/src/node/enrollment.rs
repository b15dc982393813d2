//! The files of the enrollment queue: what the controller asks the worker, and what it is answered (wire-facts 3.5,
//! managed-nodes.md "Enrollment").
//!
//! A file is never authority. [`agrees`] is the check that makes a request worth more than its bytes: the journal must
//! say the same; and beyond the journal the worker has its own ledger (design.md W1).

mod agree;
mod identity;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Deserializer, Serialize, de};

pub use agree::{Disagreement, agrees};
pub use identity::{IdentityRecord, Lineage};

use crate::base::bounded::{OutOfBounds, PemText, Text, Version};
use crate::base::digest::Digest;
use crate::base::ids::{NodeId, TaskId};
use crate::base::json::json_file;
use crate::base::limits::{
    ANSWER_FILE_MAX, CHAIN_PEM_MAX, IDENTITY_RECORD_MAX, MESSAGE_MAX, QUEUE_CSR_PEM_MAX, QUEUE_FILE_MAX,
};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::node::answer::SignedAnswer;
use crate::pki::key::Fingerprint;

/// `enrollment-requests/<id>.json`: the controller asks for a node's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnrollmentRequest {
    /// Always 1.
    pub schema_version: Version<1>,
    /// The node.
    pub node_id: NodeId,
    /// Its approved installation.
    pub task_id: TaskId,
    /// Its approved name.
    pub hostname: Hostname,
    /// Its key.
    pub public_key_fingerprint: Fingerprint,
    /// What it wants signed.
    pub csr_pem: PemText<QUEUE_CSR_PEM_MAX>,
    /// When the controller gives up waiting: at most 15 minutes ahead.
    pub expires_at: UnixTime,
}

/// `enrollment-responses/<id>.json`: the worker's answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentAnswerFile {
    /// Always 1.
    pub schema_version: Version<1>,
    /// The node.
    pub node_id: NodeId,
    /// Its approved installation.
    pub task_id: TaskId,
    /// SHA-256 of the bytes of the request file that were parsed.
    pub request_hash: Digest,
    /// Whether there is an answer for the node.
    pub success: bool,
    /// Why not, or nothing to say.
    pub message: Text<0, MESSAGE_MAX>,
    /// When the worker decided.
    pub checked_at: UnixTime,
    /// What the node gets; there if and only if `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<SignedAnswer>,
}

/// `enrollment-requests/endpoint.json`: the controller asks for its own certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointRequest {
    /// Always 1.
    pub schema_version: Version<1>,
    /// What it wants signed; the names in it must be the worker's own configuration's.
    pub csr_pem: PemText<QUEUE_CSR_PEM_MAX>,
}

/// `enrollment-responses/endpoint.json`: the worker's answer to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointAnswer {
    /// Always 1.
    pub schema_version: Version<1>,
    /// SHA-256 of the bytes of the request file that were parsed.
    pub request_hash: Digest,
    /// Whether there is a certificate.
    pub success: bool,
    /// Why not, or nothing to say.
    pub message: Text<0, MESSAGE_MAX>,
    /// When the worker decided.
    pub checked_at: UnixTime,
    /// The certificate and its intermediates; there if and only if `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_pem: Option<PemText<CHAIN_PEM_MAX>>,
}

/// `removals/<id>.json`: the controller says that a node is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Removal {
    /// Always 1.
    pub schema_version: Version<1>,
    /// The node.
    pub node_id: NodeId,
}

/// SHA-256 of the bytes of a request file: what its answer acknowledges.
#[must_use]
pub fn request_hash(bytes: &[u8]) -> Digest {
    Digest::of(bytes)
}

json_file!(EnrollmentRequest, QUEUE_FILE_MAX);
json_file!(EnrollmentAnswerFile, ANSWER_FILE_MAX);
json_file!(EndpointRequest, QUEUE_FILE_MAX);
json_file!(EndpointAnswer, QUEUE_FILE_MAX);
json_file!(Removal, QUEUE_FILE_MAX);
json_file!(IdentityRecord, IDENTITY_RECORD_MAX);

/// Reads a type whose success flag must go with its content; fields as in the type itself.
macro_rules! answer_file {
    ($name:ident { $($field:ident: $type:ty,)* } $content:ident: $content_type:ty, $content_name:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields, rename_all = "camelCase")]
                struct Raw {
                    $($field: $type,)*
                    #[serde(default)]
                    $content: Option<$content_type>,
                }
                let raw = Raw::deserialize(deserializer)?;
                if raw.success != raw.$content.is_some() {
                    let rule = "there if and only if success";
                    return Err(de::Error::custom(OutOfBounds { field: $content_name, rule }));
                }
                Ok(Self { $($field: raw.$field,)* $content: raw.$content })
            }
        }
    };
}

answer_file!(EnrollmentAnswerFile {
    schema_version: Version<1>,
    node_id: NodeId,
    task_id: TaskId,
    request_hash: Digest,
    success: bool,
    message: Text<0, MESSAGE_MAX>,
    checked_at: UnixTime,
} answer: SignedAnswer, "answer");

answer_file!(EndpointAnswer {
    schema_version: Version<1>,
    request_hash: Digest,
    success: bool,
    message: Text<0, MESSAGE_MAX>,
    checked_at: UnixTime,
} certificate_pem: PemText<CHAIN_PEM_MAX>, "certificatePem");

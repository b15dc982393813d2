//! The bytes that go out: signed answers for nodes, answer files for the controller, receipts for ourselves.

use lucia_proto::answer::{ANSWER_SCHEMA_VERSION, Answer, AnswerError, SignedAnswer};
use lucia_proto::bounded::{Text, Version};
use lucia_proto::digest::Digest;
use lucia_proto::enrollment::{EndpointAnswer, EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::json;
use lucia_proto::limits::{JSON_DEPTH_MAX, MESSAGE_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::time::UnixTime;

use crate::ca::{EndpointLeaf, Issued};
use crate::directory::readers::Reader;
use crate::home::{Identity, Receipt};

/// The receipt of a leaf: the former one where nothing changed, so that the same request gets the same bytes.
///
/// # Errors
/// The answer cannot be signed.
pub fn receipt(
    identity: &Identity,
    former: Option<Receipt>,
    request: &EnrollmentRequest,
    leaf: &Issued,
    csr_sha256: Digest,
    reader: Option<Reader>,
    now: UnixTime,
) -> Result<Receipt, AnswerError> {
    if let Some(former) = former
        && former.certificate_pem == leaf.pem
        && still_says(&former, request, identity)
        && reader_of(&former) == reader
    {
        return Ok(former);
    }
    let answer = Answer {
        schema_version: ANSWER_SCHEMA_VERSION,
        node_id: request.node_id.clone(),
        task_id: request.task_id.clone(),
        csr_sha256,
        hostname: request.hostname.clone(),
        certificate_pem: leaf.pem.clone(),
        ca_pem: identity.root.pem(),
        issued_at: now,
        bundle: identity.bundle.signed().clone(),
        directory: reader.as_ref().map(|reader| reader.access.clone()),
    };
    Ok(Receipt {
        node_id: request.node_id.clone(),
        csr_sha256,
        certificate_pem: leaf.pem.clone(),
        not_after: leaf.not_after,
        answer: SignedAnswer::sign(&answer, &identity.worker_key)?,
        reader: reader.map(|reader| reader.record),
    })
}

/// When the answer of a receipt was signed.
#[must_use]
pub fn issued_at(receipt: &Receipt) -> Option<UnixTime> {
    let said = json::from_slice::<Answer>(receipt.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX);
    said.ok().map(|said| said.issued_at)
}

/// The reader a node was last answered with, where there was a directory.
#[must_use]
pub fn reader_of(receipt: &Receipt) -> Option<Reader> {
    let record = receipt.reader.clone()?;
    let said: Answer = json::from_slice(receipt.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).ok()?;
    Some(Reader { access: said.directory?, record })
}

/// Whether a former answer is still right: of this task, and with the bundle in force.
fn still_says(former: &Receipt, request: &EnrollmentRequest, identity: &Identity) -> bool {
    json::from_slice::<Answer>(former.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX)
        .is_ok_and(|said| said.task_id == request.task_id && said.bundle == *identity.bundle.signed())
}

/// The answer file of a request: with an answer, or with the reason why there is none.
#[must_use]
pub fn file(
    request: &EnrollmentRequest,
    request_hash: Digest,
    outcome: Result<SignedAnswer, &str>,
    now: UnixTime,
) -> EnrollmentAnswerFile {
    EnrollmentAnswerFile {
        schema_version: Version,
        node_id: request.node_id.clone(),
        task_id: request.task_id.clone(),
        request_hash,
        success: outcome.is_ok(),
        message: message(outcome.as_ref().err().copied().unwrap_or_default()),
        checked_at: now,
        answer: outcome.ok(),
    }
}

/// The answer file of the endpoint's request.
#[must_use]
pub fn endpoint_file(request_hash: Digest, outcome: Result<EndpointLeaf, &str>, now: UnixTime) -> EndpointAnswer {
    let failure = outcome.as_ref().err().copied().unwrap_or_default().to_owned();
    let certificate_pem = outcome.ok().and_then(|leaf| leaf.pem.try_into().ok());
    EndpointAnswer {
        schema_version: Version,
        request_hash,
        success: certificate_pem.is_some(),
        message: message(&failure),
        checked_at: now,
        certificate_pem,
    }
}

/// Text for a file: what does not fit is cut.
#[must_use]
pub fn message(text: &str) -> Text<0, MESSAGE_MAX> {
    Text::fitted(text).unwrap_or_else(|| unreachable!("a text of no characters fits"))
}

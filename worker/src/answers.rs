//! The bytes that go out: signed answers for nodes, answer files for the controller, receipts for ourselves.

use lucia_proto::base::bounded::{Text, Version};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::limits::{JSON_DEPTH_MAX, MESSAGE_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::files::owner_queue::{FreshnessFile, OrderAnswerFile};
use lucia_proto::node::answer::{ANSWER_SCHEMA_VERSION, Answer, AnswerError, SignedAnswer};
use lucia_proto::node::enrollment::{EndpointAnswer, EnrollmentAnswerFile, EnrollmentRequest};
use lucia_proto::orders::freshness::{FreshnessAnswer, FreshnessError, FreshnessRequest, SignedFreshness};
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::orders::{OrderCode, OrderId};

use crate::ca::{Issued, ServerLeaf};
use crate::directory::readers::Reader;
use crate::home::{Identity, Receipt};

/// The receipt of a leaf: the former one where nothing changed, so that the same request gets the same bytes.
///
/// # Errors
/// The answer cannot be signed.
pub fn receipt(
    (identity, roster): (&Identity, Option<&SignedRoster>),
    former: Option<Receipt>,
    request: &EnrollmentRequest,
    leaf: &Issued,
    csr_sha256: Digest,
    reader: Option<Reader>,
    now: UnixTime,
) -> Result<Receipt, AnswerError> {
    if let Some(former) = former
        && former.certificate_pem == leaf.pem
        && still_says(&former, request, identity, roster)
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
        roster: roster.cloned(),
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

/// Under which name the leaf of a receipt is.
#[must_use]
pub fn hostname(receipt: &Receipt) -> Option<Hostname> {
    let said = json::from_slice::<Answer>(receipt.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX);
    said.ok().map(|said| said.hostname)
}

/// The reader a node was last answered with, where there was a directory.
#[must_use]
pub fn reader_of(receipt: &Receipt) -> Option<Reader> {
    let record = receipt.reader.clone()?;
    let said: Answer = json::from_slice(receipt.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).ok()?;
    Some(Reader { access: said.directory?, record })
}

/// Whether a former answer is still right: of this task, and with the bundle and the roster in force.
fn still_says(
    former: &Receipt,
    request: &EnrollmentRequest,
    identity: &Identity,
    roster: Option<&SignedRoster>,
) -> bool {
    json::from_slice::<Answer>(former.answer.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).is_ok_and(|said| {
        said.task_id == request.task_id && said.bundle == *identity.bundle.signed() && said.roster.as_ref() == roster
    })
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
pub fn endpoint_file(request_hash: Digest, outcome: Result<ServerLeaf, &str>, now: UnixTime) -> EndpointAnswer {
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

/// The answer to a node that asks how late it is.
///
/// # Errors
/// It cannot be signed.
pub fn freshness_file(
    identity: &Identity,
    roster_version: u64,
    request: &FreshnessRequest,
    now: UnixTime,
) -> Result<FreshnessFile, FreshnessError> {
    let answer = FreshnessAnswer {
        fleet: identity.root.sha256(),
        node_id: request.node_id.clone(),
        nonce: request.nonce.clone(),
        bundle_version: identity.bundle.bundle().version,
        roster_version,
        time: now,
    };
    let answer = SignedFreshness::sign(&answer, &identity.worker_key)?;
    Ok(FreshnessFile { schema_version: Version, nonce: request.nonce.clone(), answer })
}

/// What became of an owner's order: when it was carried out, or why not and since when that is known.
#[must_use]
pub fn intent_file(
    intent: OrderId,
    node_id: NodeId,
    at: UnixTime,
    refused: Option<OrderCode>,
    text: &str,
) -> OrderAnswerFile {
    OrderAnswerFile {
        schema_version: Version,
        intent,
        outcome: Outcome { node_id, at, refused },
        message: message(text),
    }
}

/// Text for a file: what does not fit is cut.
#[must_use]
pub fn message(text: &str) -> Text<0, MESSAGE_MAX> {
    Text::fitted(text).unwrap_or_else(|| unreachable!("a text of no characters fits"))
}

//! Takes the worker's answer, or refuses it whole: nothing of a refused answer is written or used (design.md W4).

use std::sync::Arc;

use lucia_proto::answer::{Answer, AnswerError, AnswerExpectation, SignedAnswer};
use lucia_proto::json;
use lucia_proto::limits::{JSON_DEPTH_MAX, SIGNED_PAYLOAD_MAX};
use lucia_proto::time::UnixTime;
use thiserror::Error;

use super::{Certificate, Identity};
use crate::host::state::{State, StateError, StateFile};

/// The answer was not taken.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// It is not the worker's, or not for this node and CSR.
    #[error("the enrolment answer is refused, and nothing of it is used")]
    Refused(#[source] AnswerError),
    /// It is right and cannot be kept; it is asked for again.
    #[error("the enrolment answer cannot be kept")]
    State(#[source] StateError),
    /// It is right and cannot be written as JSON; a mistake in the agent.
    #[error("the enrolment answer cannot be kept as JSON")]
    Form(#[source] json::JsonError),
}

impl Identity {
    /// Checks the answer with the root, the newest bundle and the controller's time `now`, keeps it, then uses it.
    ///
    /// # Errors
    /// Any [`AcceptError`]; the identity is then as before.
    pub fn accept(&mut self, state: &State, signed: &SignedAnswer, now: UnixTime) -> Result<(), AcceptError> {
        let accepted = signed
            .accept(&AnswerExpectation {
                root: &self.root,
                node_id: &self.node_id,
                task_id: Some(&self.task_id),
                hostname: &self.hostname,
                fingerprint: &self.fingerprint,
                csr_sha256: &self.csr.sha256(),
                now,
                current_bundle: self.bundle.as_ref(),
            })
            .map_err(AcceptError::Refused)?;
        let certificate = Certificate::new(accepted.leaf());
        let bundle = json::to_string(accepted.bundle().signed()).map_err(AcceptError::Form)?;
        let answer = json::to_string(signed).map_err(AcceptError::Form)?;
        // In this order: a bundle is never older than the answer beside it, and the answer heals the certificate.
        let files = [
            (StateFile::Bundle, bundle.as_bytes()),
            (StateFile::Answer, answer.as_bytes()),
            (StateFile::Certificate, certificate.pem.as_bytes()),
        ];
        state.replace_all(&files).map_err(AcceptError::State)?;
        self.bundle = Some(accepted.bundle().clone());
        self.certificate = Some(Arc::new(certificate));
        Ok(())
    }
}

/// What a kept answer says. It was checked before it was kept, in a directory that is ours alone.
pub(super) fn payload(signed: &SignedAnswer) -> Option<Answer> {
    json::from_slice(signed.parts().payload(), SIGNED_PAYLOAD_MAX, JSON_DEPTH_MAX).ok()
}

//! Takes the worker's answer, or refuses it whole: nothing of a refused answer is written or used (design.md W4).

use std::sync::Arc;

use lucia_durable::crash_point;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::{AnswerError, AnswerExpectation, SignedAnswer};
use lucia_proto::pki::bundle::{SignedBundle, VerifiedBundle};
use thiserror::Error;

use super::{Certificate, Identity, disk, rename};
use crate::host::state::{State, StateError, StateFile};

/// The answer was not taken.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// It is not the worker's, or not for this node and CSR.
    #[error("the enrolment answer is refused, and nothing of it is used")]
    Refused(#[source] AnswerError),
    /// It was right once: its certificate ends before the one held. Somebody sends an old answer again.
    #[error("the enrolment answer is an old one: its certificate ends {offered}, the one held ends {held}")]
    Older {
        /// End of the certificate offered.
        offered: UnixTime,
        /// End of the certificate held.
        held: UnixTime,
    },
    /// It is right and cannot be kept; it is asked for again.
    #[error("the enrolment answer cannot be kept")]
    State(#[from] StateError),
}

impl Identity {
    /// Checks the answer with the root, the newest bundle and the controller's time `now`, keeps it, then uses it.
    ///
    /// # Errors
    /// Any [`AcceptError`]; the identity is then as before.
    pub fn accept(&mut self, state: &State, signed: &SignedAnswer, now: UnixTime) -> Result<(), AcceptError> {
        let asked = self.asked();
        let accepted = signed
            .accept(&AnswerExpectation {
                root: &self.root,
                node_id: &self.node_id,
                task_id: Some(&self.task_id),
                hostname: &asked.hostname,
                fingerprint: &self.fingerprint,
                csr_sha256: &asked.csr.sha256(),
                now,
                current_bundle: self.bundle.as_ref(),
            })
            .map_err(AcceptError::Refused)?;
        let certificate = Certificate::new(accepted.leaf(), &asked.hostname);
        // By ends and not by the time, which is the controller's: with a false one every answer is fresh again.
        if let Some(held) = self.certificate.as_ref().filter(|held| certificate.not_after < held.not_after) {
            return Err(AcceptError::Older { offered: certificate.not_after, held: held.not_after });
        }
        // A newer one may have come with a reply while this answer was on its way: the older never reaches the disk.
        let newest = self.newest(state, accepted.bundle());
        if !signed.is_of_worker(&newest) {
            return Err(AcceptError::Refused(AnswerError::Signature));
        }
        let bundle = StateFile::Bundle.text(newest.signed())?;
        let answer = StateFile::Answer.text(signed)?;
        crash_point!("agent/answer-checked", state.path()).map_err(StateError::from)?;
        // In this order: a bundle is never older than the answer beside it, nor than the one before it, and the answer heals
        // the certificate.
        let mut files = vec![
            (StateFile::Bundle, bundle.as_bytes()),
            (StateFile::Answer, answer.as_bytes()),
            (StateFile::Certificate, certificate.pem.as_bytes()),
        ];
        let installed = match &self.other {
            Some(other) => {
                files.push((StateFile::Csr, other.csr_pem.as_bytes()));
                rename::installed_as(state, &other.hostname)?
            }
            None => None,
        };
        files.extend(installed.as_ref().map(|text| (StateFile::Installed, text.as_bytes())));
        state.replace_all(&files)?;
        crash_point!("agent/answer-kept", state.path()).map_err(StateError::from)?;
        self.bundle = Some(newest);
        self.roster = accepted.roster().cloned();
        self.certificate = Some(Arc::new(certificate));
        self.directory = disk::orders(accepted.answer());
        if let Some(other) = self.other.take() {
            self.own = other;
        }
        Ok(())
    }

    /// This bundle, or the one on the disk where that is newer.
    fn newest(&self, state: &State, bundle: &VerifiedBundle) -> VerifiedBundle {
        let on_disk = state.find_json::<SignedBundle>(StateFile::Bundle);
        let on_disk = on_disk.and_then(|signed| signed.verify(&self.root).ok());
        let newer = on_disk.filter(|held| held.bundle().version > bundle.bundle().version);
        newer.unwrap_or_else(|| bundle.clone())
    }
}

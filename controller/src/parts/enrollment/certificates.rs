//! Certificates: a proven request goes to the worker, and its answer is checked as the node will check it.

use std::net::IpAddr;

use lucia_proto::base::bounded::PemText;
use lucia_proto::base::code::Code;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::{AnswerExpectation, SignedAnswer};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{EnrollRequest, NodeCall};
use lucia_proto::pki::csr;

use super::Enrollment;
use crate::bridge::queue::Wanted;
use crate::lock::lock;
use crate::parts::journal;
use crate::refusal::{Refusal, chain};

/// What became of a request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrolled {
    /// The worker has not answered yet.
    Pending,
    /// The worker's signed answer.
    Ready(SignedAnswer),
}

impl Enrollment {
    /// The next certificate; the only call a lapsed leaf may make.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn renew(&self, id: &NodeId, call: &NodeCall, from: IpAddr) -> Result<Enrolled, Refusal> {
        let request = self.fleet.renewal(id, call, from)?;
        self.note_address(id, from.to_canonical());
        self.enrolment(id, &request)
    }

    /// Keeps the journal's address of a node current once a day or so: who decides at the worker about one that was gone
    /// for long is shown it (design.md I7). Heartbeats keep theirs in the record, so that none of them writes the journal;
    /// and a node that moves all the time does so once a minute at most.
    fn note_address(&self, id: &NodeId, from: IpAddr) {
        let known = self.journal.read().device(id).map(|device| device.address);
        if known.is_none_or(|address| address == from) || !lock(&self.moves).take(id, self.clock.since_boot()) {
            return;
        }
        if let Err(refusal) = self.journal.change(|journal| journal::moved(journal, id, from)) {
            // The renewal does not hang on it.
            tracing::warn!(node = %id, "a node's address is not written: {refusal}");
        }
    }

    /// A proven request for a certificate, first or next.
    pub(super) fn enrolment(&self, id: &NodeId, request: &EnrollRequest) -> Result<Enrolled, Refusal> {
        let now = self.clock.now();
        let queue = lock(&self.queue);
        // Looked at under the queue's lock, so that a removal comes before or after this and never in between.
        let journal = self.journal.read();
        let open = journal::enrolment(&journal, id, &request.task_id, now)?;
        let mut wanted = Wanted {
            node_id: id.clone(),
            task_id: open.task.task_id.clone(),
            hostname: open.task.hostname.clone(),
            fingerprint: open.device.fingerprint,
            csr_pem: request.csr_pem.clone(),
            is_renamed: open.device.former_hostname.is_some(),
        };
        self.verifier.count();
        let mut checked = csr::check(&wanted.csr_pem, id, &wanted.hostname, &wanted.fingerprint);
        if let (Err(_), Some(former)) = (&checked, &open.device.former_hostname)
            && let Ok(csr) = csr::check(&wanted.csr_pem, id, former, &wanted.fingerprint)
        {
            // While it is renamed it keeps its certificate in force under the name it has.
            (checked, wanted.hostname) = (Ok(csr), former.clone());
        }
        let csr =
            checked.map_err(|error| Refusal::new(Code::EnrollmentMismatch, format!("csrPem: {}.", chain(&error))))?;
        let Some(answer) = queue.prepare(&wanted, now)? else { return Ok(Enrolled::Pending) };
        self.keep_certificate(&wanted, &answer, csr.sha256(), open.device.phase, now)?;
        Ok(Enrolled::Ready(answer))
    }

    /// Checks the worker's answer as the node will, and keeps the certificate on the node's record.
    fn keep_certificate(
        &self,
        wanted: &Wanted,
        answer: &SignedAnswer,
        csr_sha256: Digest,
        phase: DevicePhase,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let id = &wanted.node_id;
        self.verifier.count();
        let expected = AnswerExpectation {
            root: self.verifier.root(),
            node_id: id,
            task_id: Some(&wanted.task_id),
            hostname: &wanted.hostname,
            fingerprint: &wanted.fingerprint,
            csr_sha256: &csr_sha256,
            now,
            current_bundle: None,
        };
        let wrong = |log: String| {
            let message =
                "The enrollment worker's answer is not for this request; its log and the controller's say more.";
            Refusal::logged(Code::NodeEnrollmentFailed, message, log)
        };
        let accepted = answer.accept(&expected).map_err(|error| wrong(chain(&error)))?;
        let certificate_pem = PemText::try_from(accepted.answer().certificate_pem.clone())
            .map_err(|error| wrong(format!("certificatePem: not {error}")))?;
        self.fleet.certified(wanted, certificate_pem, accepted.leaf().not_after(), phase)
    }
}

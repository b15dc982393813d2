//! The calls under `/api/nodes`: heartbeat and renewal; and how a certificate is asked for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lucia_proto::base::bounded::PemText;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::CHAIN_PEM_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::{AnswerExpectation, SignedAnswer};
use lucia_proto::node::challenge::Scope;
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::heartbeat::{Heartbeat, HeartbeatReply};
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::node::report::{EnrollRequest, NodeCall, Purpose, Report, Verified};
use lucia_proto::pki::csr;

use super::challenges::Whose;
use super::clones::Verdict;
use super::device_calls::check_form;
use super::nodes::{Known, Lapsed, Under};
use super::owners::CallerKind;
use super::{Controller, Enrolled, journal};
use crate::bridge::queue::Wanted;
use crate::lock::lock;
use crate::refusal::{Refusal, chain};

/// How far the clock may be behind the last event before it counts as not set.
const CLOCK_SLACK: Duration = Duration::from_secs(2 * 86_400);

/// The node is not to blame, and is to come back soon.
fn clock_is_behind(now: UnixTime) -> Refusal {
    let log =
        format!("the clock says {now}, days before the last event in the journal; see that it is set (timedatectl)");
    Refusal::logged(Code::Busy, "The controller's clock is not set yet.", log)
}

impl Controller {
    /// A node is alive.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn heartbeat(&self, id: &NodeId, call: &NodeCall, from: IpAddr) -> Result<HeartbeatReply, Refusal> {
        let now = self.clock.now();
        let (known, heartbeat, under) =
            self.node_call::<Heartbeat>(id, Purpose::Heartbeat, call, Lapsed::Refused, from, now)?;
        let called = lock(&known.state).called(under);
        if called.is_some_and(|name| name != heartbeat.hostname) {
            let log = format!("a heartbeat of node {id} has another name than its certificate");
            return Err(Refusal::logged(
                Code::InvalidBody,
                "reportJson: hostname: not the name in the certificate.",
                log,
            ));
        }
        if !lock(&known.state).managed {
            self.journal.change(|journal| journal::heard(journal, id, now))?;
        }
        let hostname = self.named(id, &known, under);
        let from = from.to_canonical();
        let mut state = lock(&known.state);
        let heartbeat = heartbeat.into_report();
        let heard = self.hear(id, &mut state, call, &heartbeat, from, now);
        state.dirty = true;
        let (Some(heard), Some(record)) = (heard, &mut state.record) else {
            return Err(Refusal::identity(format!("node {id} was removed")));
        };
        let standing = match (&heard.verdict, heard.frozen) {
            (Verdict::Refused, _) => CallerKind::Refused,
            (_, true) => CallerKind::Frozen,
            (_, false) => CallerKind::Free,
        };
        let orders = self.relay(id, heartbeat.orders.as_ref(), (heartbeat.start_id.as_ref(), standing), now);
        let reply = HeartbeatReply { accepted: true, chain: heard.chain, frozen: heard.frozen, hostname, orders };
        self.heartbeats.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if heard.verdict == Verdict::Refused {
            // Noted with its start; what the node looks like is what the one that was kept says.
            return Ok(reply);
        }
        if let Some(former) = record.address.replace(from)
            && former != from
        {
            tracing::info!(node = %id, %former, now = %from, "a node calls from another address");
        }
        record.last_seen_at = Some(now);
        state.samples.push(&heartbeat, now);
        if let Some(record) = &mut state.record {
            record.last_heartbeat = Some(heartbeat);
        }
        state.managed = true;
        Ok(reply)
    }

    /// The next certificate; the only call a lapsed leaf may make.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn renew(&self, id: &NodeId, call: &NodeCall, from: IpAddr) -> Result<Enrolled, Refusal> {
        let now = self.clock.now();
        let (_, request, _) = self.node_call::<EnrollRequest>(id, Purpose::Renew, call, Lapsed::Taken, from, now)?;
        self.note_address(id, from.to_canonical());
        self.enrolment(id, &request)
    }

    /// Keeps the journal's address of a node current once a day or so: who decides at the worker about one that was gone
    /// for long is shown it (design.md I7). Heartbeats keep theirs in the record, so that none of them writes the journal;
    /// and a node that moves all the time does so once a minute at most.
    fn note_address(&self, id: &NodeId, from: IpAddr) {
        let known = self.journal.read().device(id).map(|device| device.address);
        if known.is_none_or(|address| address == from) || self.moves.allow(id, self.clock.since_boot()).is_err() {
            return;
        }
        if let Err(refusal) = self.journal.change(|journal| journal::moved(journal, id, from)) {
            // The renewal does not hang on it.
            tracing::warn!(node = %id, "a node's address is not written: {refusal}");
        }
    }

    /// Proof of a node: its key, this purpose, its certificate, a challenge used up by it.
    fn node_call<T: Report>(
        &self,
        id: &NodeId,
        purpose: Purpose,
        call: &NodeCall,
        lapsed: Lapsed,
        from: IpAddr,
        now: UnixTime,
    ) -> Result<(Arc<Known>, Verified<T>, Under), Refusal> {
        if call.certificate_pem.len() > CHAIN_PEM_MAX {
            return Err(Refusal::new(Code::InvalidBody, format!("certificatePem: over {CHAIN_PEM_MAX} characters.")));
        }
        check_form::<T>(&call.proof)?;
        let scope = Scope::Node(id.clone());
        let nonce = self.challenges.open(&call.proof.challenge_id, &scope, from)?;
        let (known, verified) = self.nodes.prove((id, self.refuses(id)), purpose, &call.proof, &nonce)?;
        let under = match self.nodes.certificate(&known, &call.certificate_pem, lapsed, now) {
            Ok(under) => under,
            Err(_) if self.is_behind(now) => return Err(clock_is_behind(now)),
            Err(refusal) => return Err(refusal),
        };
        self.challenges.accept(&call.proof.challenge_id, Whose::Device(id))?;
        Ok((known, verified, under))
    }

    /// Whether the clock is days behind what this controller wrote itself, as at a start before the time is set: no
    /// certificate is judged by it then (threats.md F-8).
    fn is_behind(&self, now: UnixTime) -> bool {
        self.journal.read().events.iter().map(|event| event.at).max().is_some_and(|last| now < last.minus(CLOCK_SLACK))
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
        csr_sha256: lucia_proto::base::digest::Digest,
        phase: DevicePhase,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let id = &wanted.node_id;
        let Some(known) = self.nodes.get(id) else { return Err(Refusal::identity(format!("node {id} was removed"))) };
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
        // The records' lock keeps writes and removals in order; the node's own is not held while the disk takes its
        // time, so that its heartbeats go on meanwhile.
        let records = lock(&self.records);
        let certificate_expires_at = accepted.leaf().not_after();
        let (record, was_dirty) = {
            let mut state = lock(&known.state);
            let former = state.record.as_ref().filter(|record| record.task_id == wanted.task_id);
            if former.is_some_and(|record| record.certificate_pem == certificate_pem) {
                return Ok(());
            }
            let record = IdentityRecord {
                node_id: id.clone(),
                task_id: wanted.task_id.clone(),
                hostname: wanted.hostname.clone(),
                public_key_fingerprint: wanted.fingerprint,
                certificate_expires_at,
                certificate_pem,
                last_seen_at: former.and_then(|record| record.last_seen_at),
                address: former.and_then(|record| record.address),
                last_heartbeat: former.and_then(|record| record.last_heartbeat.clone()),
                lineage: former.map_or_else(|| self.decided(id), |record| record.lineage.clone()),
            };
            (record, std::mem::replace(&mut state.dirty, false))
        };
        if let Err(error) = records.write(&record) {
            lock(&known.state).dirty |= was_dirty;
            return Err(Refusal::persistence(&error));
        }
        let mut state = lock(&known.state);
        match &mut state.record {
            // What its heartbeats said meanwhile stays, and is yet to be written.
            Some(current) if current.task_id == record.task_id => {
                current.certificate_expires_at = record.certificate_expires_at;
                current.certificate_pem = record.certificate_pem;
                current.hostname = record.hostname;
            }
            other => {
                *other = Some(record);
                state.dirty = false;
                state.managed = phase == DevicePhase::Managed;
            }
        }
        Ok(())
    }
}

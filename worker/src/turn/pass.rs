//! One pass under the ledger's lock: what becomes of each file, drafted and not yet written.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use lucia_durable::FileName;
use lucia_durable::crash_point::crash_point;
use lucia_proto::certificate::Leaf;
use lucia_proto::csr::{self, CheckedCsr};
use lucia_proto::digest::Digest;
use lucia_proto::enrollment::{EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, request_hash};
use lucia_proto::ids::NodeId;
use lucia_proto::journal::{EventKind, Journal};
use lucia_proto::json;
use lucia_proto::time::UnixTime;
use tracing::{info, warn};

use super::{CRASH_POINTS, Summary, TurnError};
use crate::authority::mark_of;
use crate::ca::{self, Ca as _, Issued};
use crate::config::Config;
use crate::decide::{self, Decision, Facts, Refusal, decide};
use crate::directory::readers::{For, Readers};
use crate::home::{Home, Identity, Receipt, file, id_file};
use crate::ledger::{By, Entry, NodeRecord, Transaction};
use crate::queue::Queue;
use crate::remarks::Remarks;
use crate::{answers, chain};

/// The endpoint's certificate is signed anew after this long.
const ENDPOINT_RENEWED: Duration = Duration::from_secs(24 * 3600);
/// Certificates signed for the endpoint in an hour: a controller that makes its key anew needs one.
pub(crate) const ENDPOINT_AN_HOUR: usize = 4;
/// Keys barred in an hour on the journal's word alone.
pub(crate) const REMOVALS_AN_HOUR: usize = 5;
/// Marks of the journal in an hour, when there is nothing else to write: protects the ledger from a journal that
/// changes all the time.
const MARKS_AN_HOUR: usize = 12;

/// What a turn has put together and not yet written.
#[derive(Default)]
pub(super) struct Drafts {
    pub(super) receipts: Vec<(FileName, Vec<u8>)>,
    pub(super) answers: Vec<(FileName, Vec<u8>)>,
    pub(super) gone: Vec<NodeId>,
}

/// One pass under the ledger's lock.
pub(super) struct Pass<'a> {
    pub(super) config: &'a Config,
    pub(super) home: &'a Home,
    pub(super) identity: &'a Identity,
    pub(super) remarks: &'a mut Remarks,
    pub(super) readers: &'a mut Readers,
    pub(super) queue: &'a Queue,
    pub(super) transaction: Transaction<'a>,
    pub(super) drafts: Drafts,
    pub(super) now: UnixTime,
}

/// A request that is to be answered with a leaf.
struct Granted {
    request: EnrollmentRequest,
    /// Of the bytes it was read from.
    hash: Digest,
    csr: CheckedCsr,
    admit: Option<By>,
    live: Option<Issued>,
}

impl Pass<'_> {
    /// Suspends nodes that the controller removed, bars as many of them as go without a person, and finishes what is left
    /// of barred ones.
    pub(super) fn removals(
        &mut self,
        ids: &[NodeId],
        journal: &Journal,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let here: BTreeSet<&NodeId> = journal.devices.iter().map(|device| &device.device_id).collect();
        let told: BTreeSet<&NodeId> = ids.iter().collect();
        // A copy of the few that something is to be done about: the ledger is written to in between.
        let records = self.transaction.records().nodes();
        let is_due = |record: &&NodeRecord| match record.barred_at {
            Some(_) => record.removed_at.is_none(),
            None => !here.contains(&record.names.node_id),
        };
        let due: Vec<NodeRecord> = records.filter(is_due).cloned().collect();
        for record in due {
            if record.barred_at.is_some() {
                self.clean(record)?;
            } else if record.suspended.is_some() || self.is_removed(&record, &told, journal) {
                self.remove(record, summary)?;
            }
        }
        Ok(())
    }

    /// Whether a node that the journal does not have was removed from it, and not only never got there.
    fn is_removed(&mut self, record: &NodeRecord, told: &BTreeSet<&NodeId>, journal: &Journal) -> bool {
        let id = &record.names.node_id;
        let is_said = journal.events.iter().rev().any(|event| {
            event.kind == EventKind::DeviceRemoved
                && event.device_id.as_ref() == Some(id)
                && event.at >= record.admitted_at
        });
        if is_said || !told.contains(id) {
            return is_said;
        }
        self.queue.is_removal(id).unwrap_or_else(|error| {
            let text = chain(&error);
            if self.remarks.is_new(&format!("removal {id}"), &text) {
                warn!(node = %id, "removal ignored: {text}");
            }
            false
        })
    }

    fn remove(&mut self, record: NodeRecord, summary: &mut Summary) -> Result<(), TurnError> {
        let node = record.names;
        let held = match record.suspended {
            Some((_, held)) => held,
            None => {
                let held = self.transaction.records().rates().barrings.count(self.now) >= REMOVALS_AN_HOUR;
                self.add(Entry::Suspended { node: node.clone(), held })?;
                summary.suspended += 1;
                if held {
                    let why =
                        "more were removed this hour than go by themselves: see `status`, then `confirm-removals`";
                    warn!(node = %node.node_id, hostname = %node.hostname, "suspended: {why}");
                }
                held
            }
        };
        if !held {
            info!(node = %node.node_id, hostname = %node.hostname, "removed: its key is barred");
            self.drafts.gone.push(node.node_id.clone());
            self.add(Entry::Barred { node, by: By::Journal })?;
            summary.removed += 1;
        }
        Ok(())
    }

    /// Deletes what is left of a barred node; once nothing is, says so in the ledger.
    fn clean(&mut self, record: NodeRecord) -> Result<(), TurnError> {
        let name = id_file(&record.names.node_id);
        let is_left = [&self.home.receipts, &self.queue.responses].iter().any(|dir| dir.exists(&name).unwrap_or(true));
        if is_left {
            self.drafts.gone.push(record.names.node_id);
            return Ok(());
        }
        self.add(Entry::Removed { node: record.names })
    }

    /// Notes where the journal stands: with everything that rests on it, and else now and then.
    pub(super) fn mark(&mut self, journal: &Journal) -> Result<(), TurnError> {
        let (mark, records) = (mark_of(journal), self.transaction.records());
        let is_new = records.mark() != Some(&mark);
        if is_new && (!self.transaction.is_empty() || records.rates().marks.count(self.now) < MARKS_AN_HOUR) {
            self.add(Entry::JournalSeen(mark))?;
        }
        Ok(())
    }

    /// Signs the controller's endpoint certificate: the names in our own settings and no others. Rests on no journal, so
    /// that a damaged one does not take the endpoint down as well.
    pub(super) fn endpoint(&mut self, summary: &mut Summary) -> Result<(), TurnError> {
        let bytes = match self.queue.endpoint() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(error) => {
                let text = chain(&error);
                if self.remarks.is_new("endpoint", &text) {
                    warn!("endpoint request ignored: {text}");
                }
                return Ok(());
            }
        };
        let hash = request_hash(&bytes);
        let before = self.queue.endpoint_answer().filter(|answer| answer.request_hash == hash);
        let is_young = |at: UnixTime| at <= self.now && self.now.since(at) < ENDPOINT_RENEWED;
        if before.as_ref().is_some_and(|answer| answer.success && is_young(answer.checked_at)) {
            return Ok(());
        }
        let signed = &self.transaction.records().rates().endpoint;
        if signed.count(self.now) >= ENDPOINT_AN_HOUR {
            let until = signed.frees_at(self.now).unwrap_or(self.now);
            if self.remarks.is_new("endpoint", "limit") {
                warn!(
                    "the endpoint got {ENDPOINT_AN_HOUR} certificates this hour; the next one is signed after {until}"
                );
            }
            return Ok(());
        }
        let outcome = self.endpoint_leaf(&bytes);
        if let Err(text) = &outcome {
            if self.remarks.is_new("endpoint", text) {
                warn!("endpoint certificate refused: {text}");
            }
            if before.is_some_and(|answer| !answer.success && answer.message == answers::message(text)) {
                return Ok(());
            }
        }
        if let Ok(leaf) = &outcome {
            info!(serial = leaf.serial, until = %leaf.not_after, "endpoint certificate signed");
            let entry = Entry::EndpointIssued { serial: leaf.serial.clone(), not_after: leaf.not_after };
            self.add(entry)?;
            summary.endpoint = true;
        }
        let answer = answers::endpoint_file(hash, outcome.as_ref().cloned().map_err(String::as_str), self.now);
        self.drafts.answers.push((file("endpoint.json"), answer.to_bytes().map_err(TurnError::Json)?));
        Ok(())
    }

    fn endpoint_leaf(&self, bytes: &[u8]) -> Result<ca::EndpointLeaf, String> {
        let names =
            self.config.endpoint_names.as_ref().ok_or(
                "the worker signs no endpoint certificate; set endpoint-names in its worker.toml and restart it",
            )?;
        let request = EndpointRequest::from_bytes(bytes).map_err(|error| chain(&error))?;
        let csr = csr::endpoint_check(request.csr_pem.as_str(), names).map_err(|error| {
            format!("{}; they must be those of endpoint-names in worker.toml, with the same one first", chain(&error))
        })?;
        self.identity.ca.sign_endpoint(&csr, self.now).map_err(|error| chain(&error))
    }

    /// Decides about one request and drafts what follows.
    pub(super) fn request(
        &mut self,
        id: &NodeId,
        bytes: &[u8],
        journal: &Journal,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let hash = request_hash(bytes);
        // A success is never repeated; after a failure the controller writes other bytes once the request expired. Only
        // an act at the worker makes a refusal worth another look.
        let before = self.queue.answer(id);
        let acted = |at| self.transaction.records().node(id).is_some_and(|record| record.acted_since(at));
        let stands = |said: &EnrollmentAnswerFile| said.success || !acted(said.checked_at);
        if self.drafts.gone.contains(id)
            || before.as_ref().filter(|said| stands(said)).is_some_and(|answer| answer.request_hash == hash)
        {
            return Ok(());
        }
        let request = match EnrollmentRequest::from_bytes(bytes) {
            Ok(request) => request,
            Err(error) => {
                summary.refused += 1;
                self.remark(id, &format!("request ignored: {}", chain(&error)));
                return Ok(());
            }
        };
        let receipt = match self.home.receipt(id) {
            Ok(receipt) => receipt,
            Err(error) => {
                let text = chain(&error);
                self.remark(id, &text);
                summary.problems.push(text);
                return Ok(());
            }
        };
        let facts = Facts {
            file_of: id,
            journal,
            records: self.transaction.records(),
            receipt: receipt.as_ref(),
            config: self.config,
        };
        match decide(&request, &facts, self.now) {
            Decision::AwaitAdmission => {
                summary.awaiting += 1;
                let code = request.public_key_fingerprint.verification_code();
                self.remark(
                    id,
                    &format!("{} waits for admission, code {code}: see `pending`, then `admit`", request.hostname),
                );
            }
            Decision::AwaitReplacement { owner } => {
                summary.awaiting += 1;
                let text = format!(
                    "{} is to replace node {owner}, which needs somebody at the worker: see `pending`, then `admit`",
                    request.hostname
                );
                self.remark(id, &text);
            }
            Decision::AwaitRoom(limit) => {
                summary.limited += 1;
                self.remark(id, &format!("{} waits: {limit}", request.hostname));
            }
            Decision::Refuse(refusal) => {
                summary.refused += 1;
                if matches!(refusal, Refusal::Expired) {
                    self.orphan(&request, receipt.as_ref(), before.as_ref())?;
                }
                let text = chain(&refusal);
                self.remark(id, &format!("refused: {text}"));
                self.draft(&answers::file(&request, hash, Err(&text), self.now))?;
            }
            Decision::Issue { csr, admit, live } => {
                let granted = Granted { request, hash, csr, admit, live };
                let address = journal.device(id).map(|device| device.address);
                self.issue(granted, receipt, address, summary)?;
            }
        }
        Ok(())
    }

    /// Notes a leaf that was signed for a request which ran out before the answer left (threats.md Q-8). It stays in its
    /// receipt, so the node's next request gets this one and no second.
    fn orphan(
        &mut self,
        request: &EnrollmentRequest,
        receipt: Option<&Receipt>,
        before: Option<&EnrollmentAnswerFile>,
    ) -> Result<(), TurnError> {
        let id = &request.node_id;
        let leaf = receipt.and_then(|receipt| {
            let leaf =
                Leaf::parse(&receipt.certificate_pem).and_then(|leaf| leaf.check(&decide::rules(request))).ok()?;
            Some((leaf.serial(), receipt.not_after, answers::issued_at(receipt)?))
        });
        let Some((serial, not_after, signed_at)) = leaf else { return Ok(()) };
        let is_known = self.transaction.records().orphan(id).is_some_and(|(known, _)| *known == serial);
        let is_told = before.is_some_and(|answer| answer.checked_at >= signed_at);
        if is_known || is_told {
            return Ok(());
        }
        info!(node = %id, serial, "a certificate was signed too late to be handed out; the next request gets it");
        self.add(Entry::Orphaned { node: decide::names(request), serial, not_after })
    }

    /// Has the leaf signed unless there is a live one, and drafts receipt, ledger lines and answer.
    fn issue(
        &mut self,
        granted: Granted,
        receipt: Option<Receipt>,
        address: Option<IpAddr>,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let Granted { request, hash, csr, admit, live } = granted;
        let (id, identity, now) = (&request.node_id, self.identity, self.now);
        let is_new = live.is_none();
        let who = For { node_id: id, key: csr.public_key(), csr_sha256: &csr.sha256() };
        let before = receipt.as_ref().and_then(answers::reader_of);
        // The directory first: where it fails no leaf is signed that nobody gets. The request stays and is tried again.
        let reader = match self.readers.of(&who, before, !is_new, now) {
            Ok(reader) => reader,
            Err(error) => {
                let text = chain(&error);
                self.remark(id, &format!("{} waits: {text}", request.hostname));
                if self.readers.trouble().is_none() {
                    summary.problems.push(text);
                }
                return Ok(());
            }
        };
        let leaf = match live {
            Some(leaf) => Ok(leaf),
            None => ca::issue(&identity.ca, &identity.root, &csr, &decide::rules(&request), now),
        };
        let [signed, ..] = CRASH_POINTS;
        crash_point(signed, self.home.dir.path()).map_err(TurnError::Crashed)?;
        let leaf = match leaf {
            Ok(leaf) => leaf,
            // Not the request's fault: it stays in the queue and is tried again.
            Err(error) => {
                let text = chain(&error);
                self.remark(id, &text);
                summary.problems.push(text);
                return Ok(());
            }
        };
        let node = decide::names(&request);
        if let Some(by) = admit {
            self.add(Entry::Admitted { node: node.clone(), by })?;
        }
        let known = self.transaction.records().node(id).and_then(|record| record.leaf.clone());
        let serial = &leaf.serial;
        // Also where a crash came between a receipt and its ledger line.
        if known.is_none_or(|(known, _)| known != *serial) {
            self.add(Entry::Issued { node, serial: serial.clone(), not_after: leaf.not_after, address })?;
        }
        if is_new {
            summary.issued += 1;
            info!(node = %id, hostname = %request.hostname, serial, until = %leaf.not_after, "issued");
        } else {
            summary.reused += 1;
        }
        self.remarks.settle(id.as_str());
        let kept = answers::receipt(identity, receipt.clone(), &request, &leaf, csr.sha256(), reader, now)
            .map_err(TurnError::Answer)?;
        if receipt.as_ref() != Some(&kept) {
            let bytes = json::to_string(&kept).map_err(TurnError::Json)?.into_bytes();
            self.drafts.receipts.push((id_file(id), bytes));
        }
        self.draft(&answers::file(&request, hash, Ok(kept.answer), now))
    }

    fn add(&mut self, entry: Entry) -> Result<(), TurnError> {
        self.transaction.add(self.now, entry).map_err(TurnError::Ledger)
    }

    fn draft(&mut self, answer: &EnrollmentAnswerFile) -> Result<(), TurnError> {
        let bytes = answer.to_bytes().map_err(TurnError::Json)?;
        self.drafts.answers.push((id_file(&answer.node_id), bytes));
        Ok(())
    }

    fn remark(&mut self, id: &NodeId, text: &str) {
        if self.remarks.is_new(id.as_str(), text) {
            warn!(node = %id, "{text}");
        }
    }
}

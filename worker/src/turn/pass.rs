//! One pass under the ledger's lock: what becomes of each file, drafted and not yet written.

use std::time::Duration;

use lucia_durable::FileName;
use lucia_proto::csr::{self, CheckedCsr};
use lucia_proto::digest::Digest;
use lucia_proto::enrollment::{EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, request_hash};
use lucia_proto::ids::NodeId;
use lucia_proto::journal::Journal;
use lucia_proto::json;
use lucia_proto::time::UnixTime;
use tracing::{info, warn};

use super::{Summary, TurnError};
use crate::ca::{self, Ca as _, Issued};
use crate::config::Config;
use crate::decide::{self, Decision, Facts, decide};
use crate::home::{Home, Identity, Receipt, file, id_file};
use crate::ledger::{AdmittedBy, Entry, Transaction};
use crate::queue::Queue;
use crate::remarks::Remarks;
use crate::{answers, chain};

/// The endpoint's certificate is signed anew after this long.
const ENDPOINT_RENEWED: Duration = Duration::from_secs(24 * 3600);

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
    admit: Option<AdmittedBy>,
    live: Option<Issued>,
}

impl Pass<'_> {
    /// Bars nodes that the controller removed, once its journal no longer has them.
    pub(super) fn removals(
        &mut self,
        ids: &[NodeId],
        journal: &Journal,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        for id in ids.iter().filter(|id| journal.device(id).is_none()) {
            let Some(record) = self.transaction.records().node(id) else { continue };
            let (node, barred) = (record.names.clone(), record.removed_at.is_some());
            if !barred {
                match self.queue.is_removal(id) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => {
                        let text = chain(&error);
                        if self.remarks.is_new(&format!("removal {id}"), &text) {
                            warn!(node = %id, "removal ignored: {text}");
                        }
                        continue;
                    }
                }
                info!(node = %id, hostname = %node.hostname, "removed: its key is barred");
                self.add(Entry::Removed { node })?;
                summary.removed += 1;
            }
            self.drafts.gone.push(id.clone());
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
        // A success is never repeated; after a failure the controller writes other bytes once the request expired.
        if self.drafts.gone.contains(id) || self.queue.answer(id).is_some_and(|answer| answer.request_hash == hash) {
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
            admission: self.config.admission,
            reserved: &self.config.reserved,
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
            Decision::Refuse(refusal) => {
                summary.refused += 1;
                let text = chain(&refusal);
                self.remark(id, &format!("refused: {text}"));
                self.draft(&answers::file(&request, hash, Err(&text), self.now))?;
            }
            Decision::Issue { csr, admit, live } => {
                let granted = Granted { request, hash, csr, admit, live };
                self.issue(granted, receipt, summary)?;
            }
        }
        Ok(())
    }

    /// Has the leaf signed unless there is a live one, and drafts receipt, ledger lines and answer.
    fn issue(&mut self, granted: Granted, receipt: Option<Receipt>, summary: &mut Summary) -> Result<(), TurnError> {
        let Granted { request, hash, csr, admit, live } = granted;
        let (id, identity, now) = (&request.node_id, self.identity, self.now);
        let is_new = live.is_none();
        let leaf = match live {
            Some(leaf) => Ok(leaf),
            None => ca::issue(&identity.ca, &identity.root, &csr, &decide::rules(&request), now),
        };
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
            self.add(Entry::Issued { node, serial: serial.clone(), not_after: leaf.not_after })?;
        }
        if is_new {
            summary.issued += 1;
            info!(node = %id, hostname = %request.hostname, serial, until = %leaf.not_after, "issued");
        } else {
            summary.reused += 1;
        }
        self.remarks.settle(id.as_str());
        let kept = answers::receipt(identity, receipt.clone(), &request, &leaf, csr.sha256(), now)
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

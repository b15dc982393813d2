//! One pass under the ledger's lock: what becomes of each file, drafted and not yet written.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lucia_durable::FileName;
use lucia_durable::crash_point::crash_point;
use lucia_proto::base::acts::Act;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::json;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::Journal;
use lucia_proto::node::enrollment::{EnrollmentAnswerFile, EnrollmentRequest, request_hash};
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::certificate::Leaf;
use lucia_proto::pki::csr::CheckedCsr;
use tracing::{info, warn};

use super::error::TurnError;
use super::places::OwnerFiles;
use super::summary::{CRASH_POINTS, Summary};
use crate::authority::mark_of;
use crate::ca::{self, CaError, Issued, Pauses};
use crate::config::Config;
use crate::decide::{self, Decision, Facts, Refusal, Renaming, decide};
use crate::directory::DirectoryError;
use crate::directory::readers::{For, Readers};
use crate::files::id_file;
use crate::home::{Home, Identity, Receipt};
use crate::ledger::{By, Entry, NodeRecord, Transaction};
use crate::owner_queue::OwnerQueue;
use crate::queue::Queue;
use crate::remarks::Remarks;
use crate::{answers, chain};

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
    pub(super) owner_answers: Vec<(FileName, Vec<u8>)>,
    pub(super) owner_gone: Vec<FileName>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// All that can be done about it now.
    Now,
    /// CA or directory had their part of this turn.
    NextTurn,
}

/// One pass under the ledger's lock.
pub(super) struct Pass<'a> {
    pub(super) config: &'a Config,
    pub(super) home: &'a Home,
    pub(super) identity: &'a Identity,
    pub(super) remarks: &'a mut Remarks,
    pub(super) pauses: &'a mut Pauses,
    pub(super) readers: &'a mut Readers,
    pub(super) queue: &'a Queue,
    pub(super) roster: Option<&'a VerifiedRoster>,
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
    rename: Option<Renaming>,
}

impl Pass<'_> {
    /// Everything of one turn; gives the place of the first request that had to wait for the next one.
    pub(super) fn all(
        &mut self,
        journal: Option<&Journal>,
        removals: &[NodeId],
        owners: Option<&(OwnerQueue, OwnerFiles)>,
        requests: &[(NodeId, Vec<u8>)],
        summary: &mut Summary,
    ) -> Result<Option<usize>, TurnError> {
        if let Some((queue, looked)) = owners {
            // First, so that nothing of this turn is in the ledger before the orders are stored.
            self.orders(queue, looked, summary)?;
            self.told_nodes(queue, looked)?;
            self.audit(queue, looked, summary)?;
        }
        if let Some(journal) = journal {
            self.removals(removals, journal, summary)?;
        }
        self.endpoint(summary)?;
        let Some(journal) = journal else { return Ok(None) };
        for (at, (id, bytes)) in requests.iter().enumerate() {
            if self.request(id, bytes, journal, summary)? == Handled::NextTurn {
                self.mark(journal)?;
                return Ok(Some(at));
            }
        }
        self.mark(journal)?;
        Ok(None)
    }

    /// Suspends nodes that the controller removed, bars as many of them as go without a person, and finishes what is left
    /// of barred ones. Where somebody is an owner none goes without a person: an owner's order bars, or `confirm-removals`.
    fn removals(&mut self, ids: &[NodeId], journal: &Journal, summary: &mut Summary) -> Result<(), TurnError> {
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
            event.kind == Act::Removed && event.device_id.as_ref() == Some(id) && event.at >= record.admitted_at
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
        let (node, owned) = (record.names, self.transaction.records().has_owner());
        let held = match record.suspended {
            Some((_, held)) => held || owned,
            None => {
                let held = owned || self.transaction.records().rates().barrings.count(self.now) >= REMOVALS_AN_HOUR;
                self.add(Entry::Suspended { node: node.clone(), held })?;
                summary.suspended += 1;
                if held {
                    let why = if owned { "no owner ordered it" } else { "more than go by themselves in an hour" };
                    let cure = "see `status`, then `confirm-removals`";
                    warn!(node = %node.node_id, hostname = %node.hostname, "removed and suspended: {why}: {cure}");
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
    fn mark(&mut self, journal: &Journal) -> Result<(), TurnError> {
        let (mark, records) = (mark_of(journal), self.transaction.records());
        let is_new = records.mark() != Some(&mark);
        if is_new && (!self.transaction.is_empty() || records.rates().marks.count(self.now) < MARKS_AN_HOUR) {
            self.add(Entry::JournalSeen(mark))?;
        }
        Ok(())
    }

    /// Tells what is wrong with the CA: once in the log, and as a problem when it is the CA's and not one request's.
    pub(super) fn ca_trouble(&mut self, about: &str, error: &CaError, summary: &mut Summary) -> Handled {
        if matches!(error, CaError::NextTurn) {
            return Handled::NextTurn;
        }
        let text = chain(error);
        if !matches!(error, CaError::Waits { .. }) && self.remarks.is_new(about, &text) {
            warn!(about, "{text}");
        }
        let text = self.pauses.trouble().map_or(text, str::to_owned);
        if !summary.problems.contains(&text) {
            summary.problems.push(text);
        }
        Handled::Now
    }

    /// Tells why a request waits for the directory. What is wrong with the directory itself is told once, with its readers.
    fn directory_trouble(
        &mut self,
        request: &EnrollmentRequest,
        error: &DirectoryError,
        summary: &mut Summary,
    ) -> Handled {
        if matches!(error, DirectoryError::NextTurn) {
            return Handled::NextTurn;
        }
        let text = chain(error);
        self.remark(&request.node_id, &format!("{} waits: {text}", request.hostname));
        if self.readers.trouble().is_none() {
            summary.problems.push(text);
        }
        Handled::Now
    }

    /// Decides about one request and drafts what follows.
    fn request(
        &mut self,
        id: &NodeId,
        bytes: &[u8],
        journal: &Journal,
        summary: &mut Summary,
    ) -> Result<Handled, TurnError> {
        let hash = request_hash(bytes);
        // A success is never repeated; after a failure the controller writes other bytes once the request expired. Only
        // an act at the worker makes a refusal worth another look.
        let before = self.queue.answer(id);
        let acted = |at| self.transaction.records().node(id).is_some_and(|record| record.acted_since(at));
        let stands = |said: &EnrollmentAnswerFile| said.success || !acted(said.checked_at);
        if self.drafts.gone.contains(id)
            || before.as_ref().filter(|said| stands(said)).is_some_and(|answer| answer.request_hash == hash)
        {
            return Ok(Handled::Now);
        }
        let request = match EnrollmentRequest::from_bytes(bytes) {
            Ok(request) => request,
            Err(error) => {
                summary.refused += 1;
                self.remark(id, &format!("request ignored: {}", chain(&error)));
                return Ok(Handled::Now);
            }
        };
        let receipt = match self.home.receipt(id) {
            Ok(receipt) => receipt,
            Err(error) => {
                let text = chain(&error);
                self.remark(id, &text);
                summary.problems.push(text);
                return Ok(Handled::Now);
            }
        };
        let facts = Facts {
            file_of: id,
            journal,
            records: self.transaction.records(),
            receipt: receipt.as_ref(),
            config: self.config,
            issuer_ends: Some(self.identity.ca.not_after()),
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
            Decision::AwaitOwner => {
                summary.awaiting += 1;
                let code = request.public_key_fingerprint.verification_code();
                let text = format!(
                    "{} waits for an owner's signed admit, code {code}: on an owner's machine `luciactl sign CODE`",
                    request.hostname
                );
                self.remark(id, &text);
            }
            Decision::AwaitReplacement { owner } => {
                summary.awaiting += 1;
                let text = format!(
                    "{} is to replace node {owner}, which needs an owner's order or somebody at the worker: see \
                     `pending`, then `admit`",
                    request.hostname
                );
                self.remark(id, &text);
            }
            Decision::AwaitRename { from } => {
                summary.awaiting += 1;
                let text = format!(
                    "{from} is to be called {to}, which needs somebody at the worker: lucia-enrollment-worker rename {from} {to}",
                    to = request.hostname
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
            Decision::Issue { csr, admit, live, rename } => {
                let granted = Granted { request, hash, csr, admit, live, rename };
                let address = journal.device(id).map(|device| device.address);
                return self.issue(granted, receipt, address, summary);
            }
        }
        Ok(Handled::Now)
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
    ) -> Result<Handled, TurnError> {
        let Granted { request, hash, csr, admit, live, rename } = granted;
        let (id, identity, now) = (&request.node_id, self.identity, self.now);
        let is_new = live.is_none();
        let who = For { node_id: id, key: csr.public_key(), csr_sha256: &csr.sha256() };
        let before = receipt.as_ref().and_then(answers::reader_of);
        // While the CA is not asked, no password is drawn for a leaf that does not come.
        let may = if is_new { self.pauses.may(identity.ca.as_ref(), id.as_str(), now) } else { Ok(()) };
        if let Err(error) = may {
            return Ok(self.ca_trouble(id.as_str(), &error, summary));
        }
        if let Err(error) = self.readers.may(now) {
            return Ok(self.directory_trouble(&request, &error, summary));
        }
        let node = decide::names(&request);
        let mut admit = admit;
        if self.config.directory.is_some()
            && let Some(by) = admit.take()
        {
            // In the ledger, on disk, before it has a reader: no reader is ever one that nobody answers for.
            self.add(Entry::Admitted { node: node.clone(), by })?;
            self.transaction.flush().map_err(TurnError::Ledger)?;
        }
        // The directory first: where it fails no leaf is signed that nobody gets. The request stays and is tried again.
        let reader = match self.readers.of(&who, before, !is_new, now) {
            Ok(reader) => reader,
            Err(error) => return Ok(self.directory_trouble(&request, &error, summary)),
        };
        let [reader_set, signed, ..] = CRASH_POINTS;
        let die = |at| crash_point(at, self.home.dir.path()).map_err(TurnError::Crashed);
        die(reader_set)?;
        let leaf = match live {
            Some(leaf) => Ok(leaf),
            None => self.pauses.ask(identity.ca.as_ref(), id.as_str(), now, |ca| {
                ca::issue(ca, &identity.root, &csr, &decide::rules(&request), now)
            }),
        };
        die(signed)?;
        let leaf = match leaf {
            Ok(leaf) => leaf,
            // Not the request's fault: it stays in the queue and is tried again.
            Err(error) => return Ok(self.ca_trouble(id.as_str(), &error, summary)),
        };
        if let Some(by) = admit {
            self.add(Entry::Admitted { node: node.clone(), by })?;
        }
        if let Some(Renaming { node: before, by }) = rename {
            info!(node = %id, from = %before.hostname, to = %request.hostname, "renamed, as the journal says");
            self.add(Entry::Renamed { node: before, new: request.hostname.clone(), by })?;
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
        let trust = (identity, self.roster.map(VerifiedRoster::signed));
        let kept = answers::receipt(trust, receipt.clone(), &request, &leaf, csr.sha256(), reader, now)
            .map_err(TurnError::Answer)?;
        if receipt.as_ref() != Some(&kept) {
            let bytes = json::to_string(&kept).map_err(TurnError::Json)?.into_bytes();
            self.drafts.receipts.push((id_file(id), bytes));
        }
        self.draft(&answers::file(&request, hash, Ok(kept.answer), now))?;
        Ok(Handled::Now)
    }

    pub(super) fn add(&mut self, entry: Entry) -> Result<(), TurnError> {
        self.transaction.add(self.now, entry).map_err(TurnError::Ledger)
    }

    fn draft(&mut self, answer: &EnrollmentAnswerFile) -> Result<(), TurnError> {
        let name = id_file(&answer.node_id);
        if self.queue.is_blocked(&name) {
            self.remark(&answer.node_id, "a directory lies in the place of its answer; remove it");
            return Ok(());
        }
        self.drafts.answers.push((name, answer.to_bytes().map_err(TurnError::Json)?));
        Ok(())
    }

    fn remark(&mut self, id: &NodeId, text: &str) {
        if self.remarks.is_new(id.as_str(), text) {
            warn!(node = %id, "{text}");
        }
    }
}

//! Requests to the worker and its answers: one file a node, the same question never asked in two ways.

use std::path::Path;

use lucia_durable::{FileName, FileRules, Loaded, Owner, PrivateDir};
use lucia_proto::base::bounded::{PemText, Version};
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::limits::{ANSWER_FILE_MAX, DEVICES_MAX, QUEUE_FILE_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::answer::SignedAnswer;
use lucia_proto::node::enrollment::{
    EndpointAnswer, EndpointRequest, EnrollmentAnswerFile, EnrollmentRequest, Removal, request_hash,
};
use lucia_proto::pki::key::Fingerprint;

use super::worker;
use crate::refusal::{Refusal, chain};
use crate::store::layout::{LayoutError, Responses, SHARED_FILE, file_of, name, node_of};

/// An unanswered request is given up after this long; asking again then makes a new one.
const REQUEST_LIFETIME: std::time::Duration = std::time::Duration::from_secs(10 * 60);
/// An answered one can be collected for this long beyond that. A node that was told to wait may come back only after
/// the longest of its pauses, 15 minutes: were its answer gone by then, it would be told to wait for ever.
const COLLECTED_WITHIN: std::time::Duration = std::time::Duration::from_secs(50 * 60);
/// The controller's own request.
const ENDPOINT: &str = "endpoint.json";

/// The directories of the queue. Callers serialise their calls.
#[derive(Debug)]
pub(crate) struct Queue {
    requests: PrivateDir,
    removals: PrivateDir,
    responses: Responses,
}

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) node_id: NodeId,
    pub(crate) task_id: TaskId,
    pub(crate) hostname: Hostname,
    pub(crate) fingerprint: Fingerprint,
    /// A checked CSR, as it arrived.
    pub(crate) csr_pem: String,
    /// Whether the node is being given another name: then it may turn from the one to the other.
    pub(crate) is_renamed: bool,
}

/// A request that lies in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedRequest {
    /// The name that it asks for.
    pub(crate) hostname: Hostname,
    /// When it was made.
    pub(crate) since: UnixTime,
    /// The worker granted it.
    pub(crate) is_granted: bool,
    /// Why the worker refused it.
    pub(crate) refused: Option<String>,
}

/// What is to be done about a request, given the one that lies there.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// None, or one that ran out: write this one.
    Ask,
    /// The very same: look for its answer.
    Wait,
    /// Another that is still open, and the first field that differs.
    Refuse(&'static str),
}

fn decide(there: Option<&EnrollmentRequest>, wanted: &Wanted, now: UnixTime) -> Decision {
    match there.filter(|there| there.expires_at > now) {
        None => Decision::Ask,
        Some(there) if wanted.is_renamed && there.hostname != wanted.hostname => Decision::Ask,
        Some(there) => difference(there, wanted).map_or(Decision::Wait, Decision::Refuse),
    }
}

/// The first field in which the request that lies there is not the one that is wanted.
fn difference(there: &EnrollmentRequest, wanted: &Wanted) -> Option<&'static str> {
    let differs = [
        ("nodeId", there.node_id != wanted.node_id),
        ("taskId", there.task_id != wanted.task_id),
        ("hostname", there.hostname != wanted.hostname),
        ("publicKeyFingerprint", there.public_key_fingerprint != wanted.fingerprint),
        ("csrPem", there.csr_pem.as_str() != wanted.csr_pem),
    ];
    differs.iter().find(|(_, differs)| *differs).map(|(field, _)| *field)
}

/// Whether the answer to this request can still be collected.
fn is_kept(request: &EnrollmentRequest, now: UnixTime) -> bool {
    request.expires_at.plus(COLLECTED_WITHIN) > now
}

impl Queue {
    pub(crate) const fn new(requests: PrivateDir, removals: PrivateDir, responses: Responses) -> Self {
        Self { requests, removals, responses }
    }

    /// Where requests lie, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.requests.path()
    }

    /// Where the worker's files are.
    pub(crate) const fn responses(&self) -> &Responses {
        &self.responses
    }

    /// Asks the worker, or looks whether it answered what was asked before: idempotent for the same request.
    ///
    /// # Errors
    /// `enrollment_mismatch` when an open request asks for something else; `node_worker_unavailable`;
    /// `node_enrollment_failed` with the worker's words until the refused request runs out.
    pub(crate) fn prepare(&self, wanted: &Wanted, now: UnixTime) -> Result<Option<SignedAnswer>, Refusal> {
        let file = file_of(&wanted.node_id).map_err(Refusal::persistence)?;
        let bytes = self.read(&self.requests, &file, Owner::Us, QUEUE_FILE_MAX)?;
        let there = bytes.as_deref().and_then(|bytes| EnrollmentRequest::from_bytes(bytes).ok());
        match decide(there.as_ref(), wanted, now) {
            Decision::Refuse(field) => Err(Refusal::new(
                Code::EnrollmentMismatch,
                format!("{field}: an open request of this node asks for something else; it runs out in ten minutes."),
            )),
            Decision::Ask => {
                let same = there.filter(|there| is_kept(there, now) && difference(there, wanted).is_none());
                let before = match (same, bytes.as_deref()) {
                    (Some(_), Some(bytes)) => self.answer(wanted, &file, bytes),
                    _ => Ok(None),
                };
                if let Ok(Some(answer)) = before {
                    return Ok(Some(answer));
                }
                worker::available(&self.responses, now)?;
                self.ask(wanted, &file, now)?;
                match before {
                    // A node that comes by less often than requests run out is told as well what the worker said, while
                    // the worker looks anew.
                    Err(refusal) if refusal.code == Code::NodeEnrollmentFailed => Err(refusal),
                    _ => Ok(None),
                }
            }
            Decision::Wait => {
                let answer = self.answer(wanted, &file, bytes.as_deref().unwrap_or_default())?;
                if answer.is_none() {
                    worker::available(&self.responses, now)?;
                }
                Ok(answer)
            }
        }
    }

    fn ask(&self, wanted: &Wanted, file: &FileName, now: UnixTime) -> Result<(), Refusal> {
        let csr_pem = PemText::try_from(wanted.csr_pem.clone())
            .map_err(|error| Refusal::new(Code::EnrollmentMismatch, format!("csrPem: not {error}.")))?;
        let request = EnrollmentRequest {
            schema_version: Version,
            node_id: wanted.node_id.clone(),
            task_id: wanted.task_id.clone(),
            hostname: wanted.hostname.clone(),
            public_key_fingerprint: wanted.fingerprint,
            csr_pem,
            expires_at: now.plus(REQUEST_LIFETIME),
        };
        let bytes = request.to_bytes().map_err(Refusal::persistence)?;
        self.requests.replace(file, &bytes, SHARED_FILE).map_err(Refusal::persistence)
    }

    /// The answer to these request bytes: of this node and task, acknowledging exactly them.
    fn answer(&self, wanted: &Wanted, file: &FileName, request: &[u8]) -> Result<Option<SignedAnswer>, Refusal> {
        let Some(bytes) = self.read_answer(file, ANSWER_FILE_MAX)? else { return Ok(None) };
        let answer = EnrollmentAnswerFile::from_bytes(&bytes)
            .map_err(|error| worker::unavailable(format!("the worker's answer {file} is refused: {error}")))?;
        // The answer to an earlier request, or to none: the worker has not come to this one yet.
        if answer.request_hash != request_hash(request) {
            return Ok(None);
        }
        if answer.node_id != wanted.node_id || answer.task_id != wanted.task_id {
            return Err(worker::unavailable(format!("the worker's answer {file} is of another node or task")));
        }
        match answer.answer {
            Some(answer) => Ok(Some(answer)),
            None => Err(failed(answer.message.as_str())),
        }
    }

    /// The request of this node that lies in the queue; nothing when none lies there.
    pub(crate) fn asked(&self, id: &NodeId) -> Option<QueuedRequest> {
        let file = file_of(id).ok()?;
        let bytes = self.read(&self.requests, &file, Owner::Us, QUEUE_FILE_MAX).ok()??;
        let request = EnrollmentRequest::from_bytes(&bytes).ok()?;
        let answer = self.read_answer(&file, ANSWER_FILE_MAX).ok().flatten();
        let answer = answer.and_then(|bytes| EnrollmentAnswerFile::from_bytes(&bytes).ok());
        // That it came to the request too late is no judgement of it: the next request gets one.
        let answer = answer
            .filter(|answer| answer.request_hash == request_hash(&bytes) && answer.checked_at < request.expires_at);
        Some(QueuedRequest {
            hostname: request.hostname,
            since: request.expires_at.minus(REQUEST_LIFETIME),
            is_granted: answer.as_ref().is_some_and(|answer| answer.success),
            refused: answer.filter(|answer| !answer.success).map(|answer| answer.message.as_str().to_owned()),
        })
    }

    /// Says that a node is gone: before the journal says so.
    pub(crate) fn announce_removal(&self, id: &NodeId) -> Result<(), Refusal> {
        let file = file_of(id).map_err(Refusal::persistence)?;
        let removal = Removal { schema_version: Version, node_id: id.clone() };
        let bytes = removal.to_bytes().map_err(Refusal::persistence)?;
        self.removals.replace(&file, &bytes, SHARED_FILE).map_err(Refusal::persistence)
    }

    /// Takes back what was announced, since the node is there (again).
    pub(crate) fn withdraw_removal(&self, id: &NodeId) -> Result<(), Refusal> {
        let file = file_of(id).map_err(Refusal::persistence)?;
        self.removals.remove(&file).map(drop).map_err(Refusal::persistence)
    }

    /// Nodes whose removal is announced.
    pub(crate) fn removals(&self) -> Result<Vec<NodeId>, Refusal> {
        let listing = self.removals.list(DEVICES_MAX * 8).map_err(Refusal::persistence)?;
        Ok(listing.names.iter().filter_map(node_of).collect())
    }

    /// Deletes a node's request, if there is one.
    pub(crate) fn forget(&self, id: &NodeId) -> Result<(), Refusal> {
        let file = file_of(id).map_err(Refusal::persistence)?;
        self.requests.remove(&file).map(drop).map_err(Refusal::persistence)
    }

    /// Whether the worker answered these request bytes, with a signature or with a refusal.
    fn is_answered(&self, file: &FileName, request: &[u8]) -> bool {
        let bytes = self.read_answer(file, ANSWER_FILE_MAX).ok().flatten();
        let answer = bytes.and_then(|bytes| EnrollmentAnswerFile::from_bytes(&bytes).ok());
        answer.is_some_and(|answer| answer.request_hash == request_hash(request))
    }

    /// Deletes requests that ran out, and those that are not requests at all.
    pub(crate) fn expire(&self, now: UnixTime) -> Result<(), Refusal> {
        let listing = self.requests.list(DEVICES_MAX * 2).map_err(Refusal::persistence)?;
        for file in listing.names.iter().filter(|file| node_of(file).is_some()) {
            let bytes = self.read(&self.requests, file, Owner::Us, QUEUE_FILE_MAX)?.unwrap_or_default();
            let request = EnrollmentRequest::from_bytes(&bytes).ok();
            let stays = request.is_some_and(|request| {
                request.expires_at > now || (is_kept(&request, now) && self.is_answered(file, &bytes))
            });
            if !stays {
                self.requests.remove(file).map_err(Refusal::persistence)?;
            }
        }
        Ok(())
    }

    /// Removes what a crash left in the controller's own directories.
    pub(crate) fn clean(&self) -> Result<(), Refusal> {
        for dir in [&self.requests, &self.removals] {
            dir.remove_leftovers(DEVICES_MAX * 8).map_err(Refusal::persistence)?;
        }
        Ok(())
    }

    /// Asks for the endpoint's certificate; the same CSR is the same request.
    pub(crate) fn endpoint_request(&self, csr_pem: &str) -> Result<(), Refusal> {
        let file = name(ENDPOINT).map_err(Refusal::persistence)?;
        let csr_pem = PemText::try_from(csr_pem.to_owned())
            .map_err(|error| Refusal::new(Code::InvalidBody, format!("The endpoint's CSR is not {error}.")))?;
        let request = EndpointRequest { schema_version: Version, csr_pem };
        let bytes = request.to_bytes().map_err(Refusal::persistence)?;
        if self.read(&self.requests, &file, Owner::Us, QUEUE_FILE_MAX)?.as_deref() == Some(bytes.as_slice()) {
            return Ok(());
        }
        self.requests.replace(&file, &bytes, SHARED_FILE).map_err(Refusal::persistence)
    }

    /// The answer to that.
    pub(crate) fn endpoint_answer(&self, now: UnixTime) -> Result<Option<String>, Refusal> {
        let file = name(ENDPOINT).map_err(Refusal::persistence)?;
        let Some(request) = self.read(&self.requests, &file, Owner::Us, QUEUE_FILE_MAX)? else { return Ok(None) };
        let answer = match self.read_answer(&file, QUEUE_FILE_MAX)? {
            None => None,
            Some(bytes) => Some(
                EndpointAnswer::from_bytes(&bytes)
                    .map_err(|error| worker::unavailable(format!("the worker's answer {file} is refused: {error}")))?,
            ),
        };
        match answer.filter(|answer| answer.request_hash == request_hash(&request)) {
            None => worker::available(&self.responses, now).map(|()| None),
            Some(EndpointAnswer { certificate_pem: Some(pem), .. }) => Ok(Some(pem.as_str().to_owned())),
            Some(answer) => Err(failed(answer.message.as_str())),
        }
    }

    fn read(&self, dir: &PrivateDir, file: &FileName, owner: Owner, max: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let rules = FileRules { mode: SHARED_FILE, owner };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        dir.read(file, max, rules).map(Loaded::found).map_err(Refusal::persistence)
    }

    fn read_answer(&self, file: &FileName, max: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let dir = self.responses.open().map_err(|error| worker::unavailable(chain(&error)))?;
        let rules = FileRules { mode: SHARED_FILE, owner: self.responses.owner() };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        dir.read(file, max, rules).map(Loaded::found).map_err(|error| worker::unavailable(chain(&error)))
    }
}

/// The worker refused.
fn failed(message: &str) -> Refusal {
    Refusal::new(Code::NodeEnrollmentFailed, format!("The enrollment worker refused: {message}"))
}

impl From<LayoutError> for Refusal {
    fn from(error: LayoutError) -> Self {
        Self::persistence(&error)
    }
}

#[cfg(test)]
mod tests;

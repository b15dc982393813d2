//! Whether the enrollment worker is there: `enrollment-responses/enrollment-worker.json`.

use lucia_durable::{FileRules, Loaded};
use lucia_people::host_api::WorkerView;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::WORKER_STATUS_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::worker_status::WorkerStatus;

use crate::refusal::{Refusal, chain};
use crate::store::layout::{Responses, SHARED_FILE, name};

/// The worker's status file.
const STATUS: &str = "enrollment-worker.json";

/// Refuses unless the worker was heard from in the last 45 s and says that it can issue.
pub(crate) fn available(responses: &Responses, now: UnixTime) -> Result<(), Refusal> {
    let status = status(responses).map_err(unavailable)?;
    status.fresh(now).map_err(|error| unavailable(error.to_string()))
}

/// How the worker looks to a person.
pub(crate) fn view(responses: &Responses, now: UnixTime) -> WorkerView {
    match status(responses) {
        Err(log) => {
            WorkerView { ready: false, checked_at: None, message: lucia_people::host_api::Message::fitted(&log) }
        }
        Ok(status) => {
            let fresh = status.fresh(now);
            let message = fresh.err().and_then(|error| lucia_people::host_api::Message::fitted(&error.to_string()));
            WorkerView { ready: fresh.is_ok(), checked_at: Some(status.checked_at), message }
        }
    }
}

fn status(responses: &Responses) -> Result<WorkerStatus, String> {
    let dir = responses.open().map_err(|error| chain(&error))?;
    let file = name(STATUS).map_err(|error| chain(&error))?;
    let max = u64::try_from(WORKER_STATUS_MAX).unwrap_or(u64::MAX);
    let rules = FileRules { mode: SHARED_FILE, owner: responses.owner() };
    match dir.read(&file, max, rules).map_err(|error| chain(&error))? {
        Loaded::Missing => {
            Err(format!("the enrollment worker has written no {}", responses.path().join(STATUS).display()))
        }
        Loaded::Found(bytes) => WorkerStatus::from_bytes(&bytes)
            .map_err(|error| format!("{} is refused: {error}", dir.path_of(&file).display())),
    }
}

/// Refusal of a call that needs the worker.
pub(crate) fn unavailable(log: impl Into<String>) -> Refusal {
    let message = "The enrollment worker does not answer; its operator has to start it or look at its log.";
    Refusal::logged(Code::NodeWorkerUnavailable, message, log)
}

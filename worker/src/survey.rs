//! The decisions of the next turn, only looked at: what `pending` shows and `admit` acts on.

use lucia_proto::base::ids::{NodeId, TaskId};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::enrollment::EnrollmentRequest;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use serde::Serialize;

use crate::config::Config;
use crate::decide::{Decision, Facts, Refusal, decide, names};
use crate::home::Home;
use crate::ledger::{NodeNames, Records};
use crate::queue::Queue;
use crate::{authority, chain};

/// What will become of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outlook {
    /// `admit` is needed.
    AwaitsAdmission,
    /// An owner's signed order is needed; `admit` does it as well.
    AwaitsOwner,
    /// `admit --replaces` is needed.
    AwaitsReplacement,
    /// `rename` is needed.
    AwaitsRename,
    /// As much was signed this hour as the settings allow; it goes on by itself.
    AwaitsRoom(String),
    /// It is or will be answered.
    Answered,
    /// It is refused, for this reason.
    Refused(String),
}

/// A request in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SurveyRow {
    /// What a person compares.
    pub code: VerificationCode,
    /// The name it was approved under.
    pub hostname: Hostname,
    /// The node.
    pub node_id: NodeId,
    /// Its whole fingerprint.
    pub fingerprint: Fingerprint,
    /// The installation.
    pub task_id: TaskId,
    /// Until when the controller waits.
    pub expires_at: UnixTime,
    /// What will become of it.
    pub outlook: Outlook,
    /// The node that has its name, when that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_of: Option<NodeId>,
    /// Its name in the ledger, when that is to be another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<Hostname>,
    /// As the ledger would name it.
    #[serde(skip)]
    pub names: NodeNames,
}

/// The queue as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// Requests, by node id.
    pub requests: Vec<SurveyRow>,
    /// What is wrong, one sentence each, with the cure.
    pub problems: Vec<String>,
}

impl Survey {
    /// What waits for somebody, and nothing else.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.requests.retain(|row| row.outlook != Outlook::Answered);
        self
    }
}

/// Refused requests shown, and files that are none: protects memory from a controller that makes up requests. Those the
/// journal agrees with are all shown, and it has few devices.
const SHOWN_MAX: usize = 256;

/// Looks at the queue.
#[must_use]
pub fn survey(config: &Config, home: &Home, records: &Records, now: UnixTime) -> Survey {
    look(config, home, records, None, now)
}

/// Looks at the requests of one verification code.
#[must_use]
pub fn survey_of(code: &VerificationCode, config: &Config, home: &Home, records: &Records, now: UnixTime) -> Survey {
    look(config, home, records, Some(code), now)
}

fn look(config: &Config, home: &Home, records: &Records, only: Option<&VerificationCode>, now: UnixTime) -> Survey {
    let mut survey = Survey::default();
    let found = Queue::open(config).and_then(|queue| queue.scan().map(|scan| (queue, scan)));
    if let Ok((queue, _)) = &found {
        survey.problems.extend(queue.shut().map(|error| chain(error)));
    }
    let (queue, scan) = match found {
        Ok(found) => found,
        Err(error) => {
            survey.problems.push(chain(&error));
            return survey;
        }
    };
    // Read after the names and before the requests: whoever is in the queue was in the journal before. A request that
    // is replaced just now may look refused here; the turn, which reads the journal last, is not mistaken.
    let read = authority::read(config);
    let journal = match read.and_then(|journal| authority::continues(&journal, records.mark()).map(|()| journal)) {
        Ok(journal) => journal,
        Err(error) => {
            survey.problems.push(chain(&error));
            return survey;
        }
    };
    let (mut refused, mut ignored) = (0, 0);
    // One at a time: no more than one request is ever in memory.
    for id in scan.nodes {
        let read = queue.request(&id).map_err(|error| chain(&error)).and_then(|bytes| {
            bytes.map(|bytes| EnrollmentRequest::from_bytes(&bytes).map_err(|error| chain(&error))).transpose()
        });
        let request = match read {
            Ok(Some(request)) => request,
            Ok(None) => continue,
            Err(text) => {
                ignored += 1;
                if ignored <= SHOWN_MAX {
                    survey.problems.push(format!("request of {id} is ignored: {text}"));
                }
                continue;
            }
        };
        let code = request.public_key_fingerprint.verification_code();
        if only.is_some_and(|only| *only != code) {
            continue;
        }
        let receipt = home.receipt(&id).unwrap_or_else(|error| {
            survey.problems.push(chain(&error));
            None
        });
        let facts =
            Facts { file_of: &id, journal: &journal, records, receipt: receipt.as_ref(), config, issuer_ends: None };
        let (mut name_of, mut renamed_from) = (None, None);
        let outlook = match decide(&request, &facts, now) {
            Decision::AwaitAdmission => Outlook::AwaitsAdmission,
            Decision::AwaitOwner => Outlook::AwaitsOwner,
            Decision::AwaitReplacement { owner } => {
                name_of = Some(owner);
                Outlook::AwaitsReplacement
            }
            Decision::AwaitRename { from } => {
                renamed_from = Some(from);
                Outlook::AwaitsRename
            }
            Decision::AwaitRoom(limit) => Outlook::AwaitsRoom(limit.to_string()),
            Decision::Issue { .. } => Outlook::Answered,
            // It lies there for the node to fetch its answer again, or the controller writes another one.
            Decision::Refuse(Refusal::Expired) if only.is_none() => continue,
            Decision::Refuse(refusal) => {
                refused += 1;
                if refused > SHOWN_MAX {
                    continue;
                }
                let text = chain(&refusal);
                if let Refusal::NameTaken { owner, .. } = refusal {
                    name_of = Some(owner);
                }
                Outlook::Refused(text)
            }
        };
        survey.requests.push(SurveyRow {
            code,
            names: names(&request),
            hostname: request.hostname,
            node_id: id,
            fingerprint: request.public_key_fingerprint,
            task_id: request.task_id,
            expires_at: request.expires_at,
            outlook,
            name_of,
            renamed_from,
        });
    }
    for (count, what) in [(refused, "requests are refused"), (ignored, "files are no requests and are ignored")] {
        if let Some(more) = count.checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            survey.problems.push(format!("{more} more {what}, not shown here; find out what fills the queue"));
        }
    }
    survey
}

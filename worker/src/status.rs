//! What a person should know of the worker: whether it runs, what it holds, and one sentence for each thing that is wrong.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_proto::digest::Digest;
use lucia_proto::limits::WORKER_STATUS_MAX;
use lucia_proto::text::{counted, shown};
use lucia_proto::time::UnixTime;
use lucia_proto::worker_status::{WorkerStatus, WorkerUnavailable};
use serde::Serialize;

use crate::ca::Ca as _;
use crate::chain;
use crate::config::{Admission, Config};
use crate::home::{Home, file};
use crate::ledger::Ledger;
use crate::queue::Queue;
use crate::survey::{Outlook, Row, Survey, survey};
use crate::turn::STATUS_FILE;

/// An issuing CA that ends sooner than this is worth a sentence.
const CA_ENDS_SOON: Duration = Duration::from_secs(60 * 24 * 3600);

/// The worker, as `status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether nodes get certificates now: nothing is wrong, and the worker was there in the last 45 s.
    pub ready: bool,
    /// When the worker last took a turn.
    pub checked_at: Option<UnixTime>,
    /// `operator` or `journal`.
    pub admission: &'static str,
    /// SHA-256 of the root.
    pub fleet: Option<Digest>,
    /// Last second of the issuing CA.
    pub issuing_ca_not_after: Option<UnixTime>,
    /// Version of the bundle in force.
    pub bundle_version: Option<u64>,
    /// Lines of the ledger.
    pub ledger_lines: u64,
    /// SHA-256 of its last line.
    pub ledger_head: Option<Digest>,
    /// Nodes admitted and not removed.
    pub nodes: usize,
    /// Nodes removed.
    pub removed: usize,
    /// Last second of the endpoint's newest certificate.
    pub endpoint_not_after: Option<UnixTime>,
    /// Requests that wait for `admit`.
    pub awaiting: usize,
    /// What is wrong, one sentence each, with the cure.
    pub problems: Vec<String>,
}

/// Looks at everything, changes nothing.
#[must_use]
pub fn status(config: &Config, now: UnixTime) -> Status {
    let admission = match config.admission {
        Admission::Operator => "operator",
        Admission::Journal => "journal",
    };
    let mut status = Status { admission, ..Status::default() };
    match Home::open(config) {
        Ok(home) => look_home(&mut status, config, &home, now),
        Err(error) => status.problems.push(chain(&error)),
    }
    look_worker(&mut status, config, now);
    status.ready = status.problems.is_empty();
    status
}

fn look_home(status: &mut Status, config: &Config, home: &Home, now: UnixTime) {
    match home.identity() {
        Ok(identity) => {
            status.fleet = Some(identity.root.sha256());
            status.bundle_version = Some(identity.bundle.bundle().version);
            let end = identity.ca.not_after();
            status.issuing_ca_not_after = Some(end);
            if end.since(now) < CA_ENDS_SOON {
                status.problems.push(format!("the issuing CA ends at {end}; make a new one with the root's key"));
            }
        }
        Err(error) => status.problems.push(chain(&error)),
    }
    let ledger = match Ledger::load(&home.dir) {
        Ok(ledger) => ledger,
        Err(error) => return status.problems.push(chain(&error)),
    };
    let records = ledger.records();
    status.ledger_lines = records.lines();
    status.ledger_head = Some(ledger.head());
    status.removed = records.nodes().filter(|node| node.removed_at.is_some()).count();
    status.nodes = records.nodes().count() - status.removed;
    status.endpoint_not_after = records.endpoint().map(|(_, not_after)| *not_after);
    let Survey { requests, problems } = survey(config, home, records, now);
    status.awaiting = requests.iter().filter(|row| row.outlook == Outlook::AwaitsAdmission).count();
    status.problems.extend(problems);
}

fn look_worker(status: &mut Status, config: &Config, now: UnixTime) {
    // What is wrong with the directories was said by the survey.
    let Ok(queue) = Queue::open(config) else { return };
    let Some(seen) = queue.ours(&file(STATUS_FILE), WORKER_STATUS_MAX).and_then(|b| WorkerStatus::from_bytes(&b).ok())
    else {
        status
            .problems
            .push("the worker has not run yet; start it: systemctl start lucia-enrollment-worker".to_owned());
        return;
    };
    status.checked_at = Some(seen.checked_at);
    match seen.fresh(now) {
        Ok(()) => {}
        Err(WorkerUnavailable::NotReady) if !status.problems.is_empty() => {}
        Err(error @ WorkerUnavailable::NotReady) => {
            status.problems.push(format!("{error}; see its log: journalctl -u lucia-enrollment-worker"));
        }
        Err(error @ WorkerUnavailable::Stale { .. }) => {
            status.problems.push(format!("{error}; start it: systemctl start lucia-enrollment-worker"));
        }
        Err(error @ WorkerUnavailable::Ahead { .. }) => {
            status.problems.push(format!("{error}; set this machine's clock right"));
        }
    }
}

impl Status {
    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut out = String::new();
        for (name, value) in [
            ("ready", if self.ready { "yes" } else { "no" }.to_owned()),
            ("last turn", or_none(self.checked_at.map(|at| at.to_string()))),
            ("fleet", or_none(self.fleet.map(|fleet| fleet.to_string()))),
            ("issuing CA until", or_none(self.issuing_ca_not_after.map(|at| at.to_string()))),
            ("endpoint until", or_none(self.endpoint_not_after.map(|at| at.to_string()))),
            ("bundle version", or_none(self.bundle_version.map(|version| version.to_string()))),
            (
                "ledger",
                format!(
                    "{}, head {}",
                    counted(self.ledger_lines, "line"),
                    or_none(self.ledger_head.map(|h| h.to_string()))
                ),
            ),
            ("nodes", format!("{}, {} removed", self.nodes, self.removed)),
            ("admission", self.admission.to_owned()),
            ("awaiting admission", self.awaiting.to_string()),
        ] {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{name:<19} {value}");
        }
        for problem in &self.problems {
            let _ = writeln!(out, "\n! {}", shown(problem));
        }
        out
    }
}

/// The queue for people: one line a request, then what is wrong.
#[must_use]
pub fn pending_table(survey: &Survey) -> String {
    let mut out = String::new();
    if survey.requests.is_empty() {
        out.push_str("No request is in the queue.\n");
    } else {
        let _ = writeln!(out, "{:<15} {:<20} {:<20} STATE", "CODE", "HOSTNAME", "UNTIL");
    }
    for Row { code, hostname, expires_at, outlook, fingerprint, .. } in &survey.requests {
        let state = match outlook {
            Outlook::AwaitsAdmission => "waits for admission".to_owned(),
            Outlook::Answered => "admitted".to_owned(),
            Outlook::Refused(why) => format!("refused: {}", shown(why)),
        };
        let _ = writeln!(out, "{:<15} {:<20} {:<20} {state}", code.as_str(), hostname.as_str(), expires_at.to_string());
        if *outlook == Outlook::AwaitsAdmission {
            let _ = writeln!(out, "  compare with the machine's own screen, then:");
            let _ = writeln!(out, "  lucia-enrollment-worker admit {code} --fingerprint {fingerprint}");
        }
    }
    for problem in &survey.problems {
        let _ = writeln!(out, "\n! {}", shown(problem));
    }
    out
}

#[cfg(test)]
mod tests {
    use lucia_proto::test_support::TestNode;

    use super::*;
    use crate::decide::names;
    use crate::fixture::request;

    // spec: WK-58
    #[test]
    fn every_state_of_pending_stands_under_its_head() {
        let until = UnixTime::from_secs(1_795_982_400);
        let row = |number| {
            let request = request(&TestNode::new(number), until);
            Row {
                code: request.public_key_fingerprint.verification_code(),
                names: names(&request),
                hostname: request.hostname,
                node_id: request.node_id,
                fingerprint: request.public_key_fingerprint,
                task_id: request.task_id,
                expires_at: request.expires_at,
                outlook: Outlook::Answered,
            }
        };
        let table = pending_table(&Survey { requests: vec![row(1), row(200)], problems: Vec::new() });
        let head = table.lines().next().unwrap();
        for (title, text) in [("UNTIL", until.to_string()), ("STATE", "admitted".to_owned())] {
            let at = head.find(title).unwrap();
            assert!(table.lines().skip(1).all(|line| line.find(&text) == Some(at)), "{table}");
        }
    }
}

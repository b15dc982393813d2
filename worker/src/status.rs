//! What a person should know of the worker: whether it runs, what it holds, and one sentence for each thing that is wrong.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_proto::digest::Digest;
use lucia_proto::limits::WORKER_STATUS_MAX;
use lucia_proto::owner::{OwnerName, Role};
use lucia_proto::owner_queue::{AuditHeadFile, OwnerFile};
use lucia_proto::text::{counted, shown};
use lucia_proto::time::UnixTime;
use lucia_proto::worker_status::{WorkerStatus, WorkerUnavailable};
use serde::Serialize;

use crate::applications::applications;
use crate::audit;
use crate::authority;
use crate::chain;
use crate::config::Config;
use crate::directory;
use crate::files::file;
use crate::home::{Home, Identity};
use crate::ledger::{Anchored, Ledger, Mark, Recent, Records};
use crate::owner_queue::OwnerQueue;
use crate::queue::Queue;
use crate::roster;
use crate::survey::{Outlook, Row, Survey, survey};
use crate::turn::{ENDPOINT_AN_HOUR, REMOVALS_AN_HOUR, STATUS_FILE};

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
    /// `operator`, `journal` or `owner`.
    pub admission: &'static str,
    /// SHA-256 of the root.
    pub fleet: Option<Digest>,
    /// Who signs: `embedded`, or where step-ca is when it answers.
    pub ca: Option<String>,
    /// Last second of the issuing CA.
    pub issuing_ca_not_after: Option<UnixTime>,
    /// Version of the bundle in force.
    pub bundle_version: Option<u64>,
    /// Version of the roster in force; none before the first owner was approved.
    pub roster_version: Option<u64>,
    /// Names of those who may order.
    pub owners: Vec<OwnerName>,
    /// People who ask to become owners.
    pub applications: usize,
    /// Lines of the ledger.
    pub ledger_lines: u64,
    /// SHA-256 of its last line.
    pub ledger_head: Option<Digest>,
    /// Torn last lines of it that were dropped.
    pub ledger_torn: u64,
    /// Nodes admitted, and neither suspended nor barred.
    pub nodes: usize,
    /// Nodes that get nothing since the journal removed them, and whose keys are not barred yet.
    pub suspended: usize,
    /// Nodes whose keys are barred for ever.
    pub barred: usize,
    /// Of those, nodes of which nothing but the ledger's record is left.
    pub removed: usize,
    /// Live certificates that were signed too late to be handed out.
    pub orphaned: usize,
    /// Nodes whose certificate ended longer ago than `max-lapse`.
    pub lapsed: usize,
    /// The controller's journal, as it is and as it was seen.
    pub journal: JournalState,
    /// How far the controller's audit was seen last, and when.
    pub audit: Option<Anchored>,
    /// How much of what the settings allow in an hour is used.
    pub limits: Vec<Used>,
    /// What waits for somebody here, one sentence each. Other nodes go on meanwhile.
    pub acts: Vec<String>,
    /// Last second of the endpoint's newest certificate.
    pub endpoint_not_after: Option<UnixTime>,
    /// Last second of the newest certificate that was signed for a directory server here.
    pub directory_certificate_not_after: Option<UnixTime>,
    /// `none`, or where the directory is when it answers.
    pub directory: Option<String>,
    /// Requests that wait for `admit`.
    pub awaiting: usize,
    /// What is wrong, one sentence each, with the cure.
    pub problems: Vec<String>,
}

/// The controller's journal, as it is and as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalState {
    /// Its generation now.
    pub generation: Option<u64>,
    /// The generation that the ledger has.
    pub seen: Option<u64>,
    /// Whether the one continues the other.
    pub continues: bool,
    /// How often somebody accepted one that did not.
    pub acceptances: u64,
}

/// Something that is limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// What.
    pub what: &'static str,
    /// How often in the last hour.
    pub used: usize,
    /// How often in an hour.
    pub max: usize,
}

/// Looks at everything, changes nothing.
#[must_use]
pub fn status(config: &Config, now: UnixTime) -> Status {
    let mut status = Status { admission: config.admission(false).as_str(), ..Status::default() };
    match Home::open(config) {
        Ok(home) => look_home(&mut status, config, &home, now),
        Err(error) => status.problems.push(chain(&error)),
    }
    look_worker(&mut status, config, now);
    status.ready = status.problems.is_empty();
    status
}

fn look_home(status: &mut Status, config: &Config, home: &Home, now: UnixTime) {
    let identity = home.identity(config);
    match &identity {
        Ok(identity) => {
            status.fleet = Some(identity.root.sha256());
            status.bundle_version = Some(identity.bundle.bundle().version);
            match identity.ca.health() {
                Ok(health) => status.ca = Some(health),
                Err(error) => status.problems.push(chain(&error)),
            }
            let end = identity.ca.not_after();
            status.issuing_ca_not_after = Some(end);
            if end.since(now) < CA_ENDS_SOON {
                status.problems.push(format!("the issuing CA ends at {end}; make a new one with the root's key"));
            }
            match directory::health(config, &identity.root, &crate::stopwatch()) {
                Ok(health) => {
                    status.directory = Some(health.said);
                    status.acts.extend(health.slow);
                }
                Err(error) => status.problems.push(chain(&error)),
            }
        }
        Err(error) => status.problems.push(chain(error)),
    }
    let ledger = match Ledger::load(&home.dir) {
        Ok(ledger) => ledger,
        Err(error) => return status.problems.push(chain(&error)),
    };
    let records = ledger.records();
    status.ledger_lines = records.lines();
    status.ledger_head = Some(ledger.head());
    if let Ok(identity) = &identity {
        look_owners(status, config, home, identity, now);
    }
    status.admission = config.admission(records.has_owner()).as_str();
    look_nodes(status, config, records, now);
    look_journal(status, config, records.mark());
    status.journal.acceptances = records.acceptances();
    look_audit(status, config, records, now);
    status.limits = limits(config, records, now);
    status.endpoint_not_after = records.endpoint().map(|(_, not_after)| *not_after);
    look_directory(status, config, records, now);
    let Survey { requests, problems } = survey(config, home, records, now);
    let renames = requests.iter().filter(|row| row.outlook == Outlook::AwaitsRename).count();
    if renames > 0 {
        let count = counted(u64::try_from(renames).unwrap_or(u64::MAX), "node");
        status.acts.push(format!("{count} for `rename`; look: lucia-enrollment-worker pending"));
    }
    let owner = requests.iter().filter(|row| row.outlook == Outlook::AwaitsOwner).count();
    let waits = |row: &&Row| matches!(row.outlook, Outlook::AwaitsAdmission | Outlook::AwaitsReplacement);
    let operator = requests.iter().filter(waits).count();
    status.awaiting = owner + operator;
    for (count, what) in [
        (operator, "for `admit`"),
        (owner, "for an owner's signed admit: on an owner's machine `luciactl sign CODE`, or `admit` here"),
    ] {
        if count > 0 {
            let count = counted(u64::try_from(count).unwrap_or(u64::MAX), "request");
            status.acts.push(format!("{count} {what}; look: lucia-enrollment-worker pending"));
        }
    }
    status.problems.extend(problems);
}

fn look_owners(status: &mut Status, config: &Config, home: &Home, identity: &Identity, now: UnixTime) {
    match roster::look(&home.dir, identity) {
        Ok(Some(roster)) => {
            status.roster_version = Some(roster.version());
            let owners = roster.roster().owners.iter().filter(|owner| owner.role == Role::Owner);
            status.owners = owners.map(|owner| owner.name.clone()).collect();
        }
        Ok(None) => {}
        Err(error) => status.problems.push(chain(&error)),
    }
    // What is wrong with the queue is said by `owner pending`: an installation older than owners has none.
    status.applications = applications(config, &identity.root.sha256(), now).open.len();
    if status.applications > 0 {
        let count = counted(u64::try_from(status.applications).unwrap_or(u64::MAX), "person");
        status.acts.push(format!("{count} to be made an owner or not; look: lucia-enrollment-worker owner pending"));
    }
}

/// A certificate of the directory's server is nobody's work but an operator's: told in its last third.
fn look_directory(status: &mut Status, config: &Config, records: &Records, now: UnixTime) {
    status.directory_certificate_not_after = records.directory_not_after();
    if let (Some(server), Some(end)) = (&config.directory_server, records.directory_not_after())
        && end.since(now) < server.lifetime / 3
    {
        status.acts.push(format!(
            "the directory server's certificate ends at {end}; sign it anew: lucia-enrollment-worker sign-directory"
        ));
    }
}

fn look_nodes(status: &mut Status, config: &Config, records: &Records, now: UnixTime) {
    status.ledger_torn = records.torn().map_or(0, |(count, _)| count);
    status.orphaned = records.orphans(now);
    let (mut held, owned) = (0, records.has_owner());
    for node in records.nodes() {
        let lapsed = node.leaf.as_ref().is_some_and(|(_, end)| now.since(*end) > config.max_lapse);
        match (node.barred_at, node.suspended) {
            (Some(_), _) => {
                status.barred += 1;
                status.removed += usize::from(node.removed_at.is_some());
            }
            (None, Some((_, waits))) => {
                status.suspended += 1;
                held += usize::from(waits || owned);
            }
            (None, None) => {
                status.nodes += 1;
                status.lapsed += usize::from(lapsed && !node.is_released(now));
            }
        }
    }
    if held > 0 {
        status.acts.push(format!(
            "the controller removed {held} {}; they are suspended. Look at them: lucia-enrollment-worker confirm-removals",
            if owned { "without an owner's order" } else { "more in one hour than go by themselves" }
        ));
    }
}

fn look_journal(status: &mut Status, config: &Config, seen: Option<&Mark>) {
    status.journal.seen = seen.map(|mark| mark.generation);
    // What is wrong with it is said by the survey.
    let Ok(journal) = authority::read(config) else { return };
    status.journal.generation = Some(journal.generation);
    status.journal.continues = authority::continues(&journal, seen).is_ok();
    if !status.journal.continues {
        let cure = "see what was restored, then: lucia-enrollment-worker accept-journal";
        status.acts.push(format!("the controller's journal is not the one seen before; {cure}"));
    }
}

/// Whether the controller's audit is the one that was seen before.
fn look_audit(status: &mut Status, config: &Config, records: &Records, now: UnixTime) {
    status.audit = records.anchors().last();
    // What is wrong with the owners' queue is said by the worker's log.
    let Ok(Some(queue)) = OwnerQueue::open(config) else { return };
    let bytes = queue.request(&OwnerFile::AuditHead).ok().flatten();
    let says = bytes.and_then(|bytes| AuditHeadFile::from_bytes(&bytes).ok());
    if let Some(Err(error)) = says.map(|says| audit::next(records, says.chain, now)) {
        status.acts.push(chain(&error));
    }
}

fn limits(config: &Config, records: &Records, now: UnixTime) -> Vec<Used> {
    let rates = records.rates();
    let used = |what, recent: &Recent, max| Used { what, used: recent.count(now), max };
    vec![
        used("new nodes by the journal", &rates.admissions, config.limits.new_nodes),
        used("certificates", &rates.leaves, config.limits.certificates),
        used("removals by the journal", &rates.barrings, REMOVALS_AN_HOUR),
        used("endpoint certificates", &rates.endpoint, ENDPOINT_AN_HOUR),
    ]
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
            ("certificates by", or_none(self.ca.clone())),
            ("issuing CA until", or_none(self.issuing_ca_not_after.map(|at| at.to_string()))),
            ("endpoint until", or_none(self.endpoint_not_after.map(|at| at.to_string()))),
            ("bundle version", or_none(self.bundle_version.map(|version| version.to_string()))),
            ("roster version", or_none(self.roster_version.map(|version| version.to_string()))),
            (
                "owners",
                or_none(
                    (!self.owners.is_empty())
                        .then(|| self.owners.iter().map(OwnerName::as_str).collect::<Vec<_>>().join(" ")),
                ),
            ),
            (
                "ledger",
                format!(
                    "{}, head {}",
                    counted(self.ledger_lines, "line"),
                    or_none(self.ledger_head.map(|h| h.to_string()))
                ),
            ),
            ("torn lines dropped", self.ledger_torn.to_string()),
            (
                "nodes",
                format!(
                    "{}, {} suspended, {} barred, {} of them removed",
                    self.nodes, self.suspended, self.barred, self.removed
                ),
            ),
            ("lapsed", self.lapsed.to_string()),
            ("orphaned", self.orphaned.to_string()),
            ("journal", self.journal.sentence()),
            ("admission", self.admission.to_owned()),
            (
                "audit",
                or_none(self.audit.map(|seen| format!("{} by {}", counted(seen.chain.entries, "line"), seen.at))),
            ),
            ("directory", or_none(self.directory.clone())),
            ("directory cert until", or_none(self.directory_certificate_not_after.map(|at| at.to_string()))),
            ("awaiting admission", self.awaiting.to_string()),
        ] {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "{name:<19} {value}");
        }
        for Used { what, used, max } in &self.limits {
            let _ = writeln!(out, "{:<19} {what}: {used} of {max}", "within this hour");
        }
        for act in &self.acts {
            let _ = writeln!(out, "\n> {}", shown(act));
        }
        for problem in &self.problems {
            let _ = writeln!(out, "\n! {}", shown(problem));
        }
        out
    }
}

impl JournalState {
    fn sentence(&self) -> String {
        let number = |generation: Option<u64>| generation.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let state = if self.continues { "continues" } else { "NO CONTINUATION OF" };
        format!(
            "generation {}, {state} {}, accepted {}",
            number(self.generation),
            number(self.seen),
            counted(self.acceptances, "time")
        )
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
    for Row { code, hostname, expires_at, outlook, fingerprint, name_of, renamed_from, .. } in &survey.requests {
        let state = match outlook {
            Outlook::AwaitsAdmission => "waits for admission".to_owned(),
            Outlook::AwaitsOwner => "waits for an owner".to_owned(),
            Outlook::AwaitsReplacement => "waits to replace the node of this name".to_owned(),
            Outlook::AwaitsRename => "waits for its new name".to_owned(),
            Outlook::AwaitsRoom(why) => format!("waits: {}", shown(why)),
            Outlook::Answered => "admitted".to_owned(),
            Outlook::Refused(why) => format!("refused: {}", shown(why)),
        };
        let _ = writeln!(out, "{:<15} {:<20} {:<20} {state}", code.as_str(), hostname.as_str(), expires_at.to_string());
        if *outlook == Outlook::AwaitsOwner {
            let _ = writeln!(out, "  an owner drafts its admit, and signs it on their own machine: luciactl sign CODE");
            let _ = writeln!(out, "  or, as the operator of this host:");
        }
        if matches!(outlook, Outlook::AwaitsAdmission | Outlook::AwaitsOwner) {
            let [first, second] = fingerprint.rows();
            let _ = writeln!(out, "  compare with the machine's own screen:\n    {first}\n    {second}\n  then:");
            let _ = writeln!(out, "  lucia-enrollment-worker admit {code} --fingerprint {fingerprint}");
        }
        if let (Outlook::AwaitsRename, Some(from)) = (outlook, renamed_from) {
            let _ = writeln!(out, "  the node is {from} here and calls itself {hostname}; if that was meant:");
            let _ = writeln!(out, "  lucia-enrollment-worker rename {from} {hostname}");
        }
        if let (Outlook::AwaitsReplacement, Some(owner)) = (outlook, name_of) {
            // Its fingerprint is not shown: pasted from here it would compare the controller's word with itself.
            let _ = writeln!(
                out,
                "  bars the key of node {owner} for ever. Compare the code with the machine's own screen, and take"
            );
            let _ = writeln!(out, "  HEX from there: the fingerprint that `lucia-node-agent discover` showed. Then:");
            let _ = writeln!(out, "  lucia-enrollment-worker admit {code} --fingerprint HEX --replaces {hostname}");
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
                name_of: None,
                renamed_from: None,
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

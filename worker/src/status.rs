//! What a person should know of the worker: whether it runs, what it holds, and one sentence for each thing that is wrong.

use std::fmt::Write as _;
use std::time::Duration;

use lucia_proto::base::digest::Digest;
use lucia_proto::base::limits::WORKER_STATUS_MAX;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{AuditHeadFile, OwnerFile};
use lucia_proto::files::worker_status::{WorkerStatus, WorkerUnavailable};
use lucia_proto::orders::owner::{OwnerName, Role};
use serde::Serialize;

use crate::applications::applications;
use crate::audit;
use crate::authority;
use crate::chain;
use crate::config::Config;
use crate::directory;
use crate::files::file;
use crate::home::{Home, Identity};
use crate::ledger::{Anchored, Ledger, Recent, Records};
use crate::owner_queue::OwnerQueue;
use crate::queue::{Queue, blocked, is_movable};
use crate::roster;
use crate::survey::{Outlook, Survey, SurveyRow, survey};
use crate::turn::{ENDPOINT_AN_HOUR, REMOVALS_AN_HOUR, STATUS_FILE};

mod pending;

pub use pending::pending_table;

/// An issuing CA that ends sooner than this is worth a sentence.
const CA_ENDS_SOON: Duration = Duration::from_secs(60 * 24 * 3600);

/// Names of nodes in one line.
const NAMES_SHOWN: usize = 100;

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
    /// Of those, nodes that have no certificate yet.
    pub uncertified: usize,
    /// Nodes that get nothing since the journal removed them, and whose keys are not barred yet.
    pub suspended: usize,
    /// Nodes whose keys are barred for ever.
    pub barred: usize,
    /// Of those, nodes of which nothing but the ledger's record is left.
    pub removed: usize,
    /// Nodes that the controller's journal has and whose keys are barred: it was restored from before their removal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub back: Vec<Hostname>,
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
                Err(error) => {
                    status.directory =
                        config.directory.as_ref().map(|site| format!("{}, does not answer now; see below", site.uri));
                    status.problems.push(chain(&error));
                }
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
    look_journal(status, config, records);
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
    let waits = |row: &&SurveyRow| matches!(row.outlook, Outlook::AwaitsAdmission | Outlook::AwaitsReplacement);
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

/// Names in one line: as many as somebody reads.
#[must_use]
pub fn listed(names: &[Hostname]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN).map(Hostname::as_str).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
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
            "the directory server's certificate ends at {end}; sign a new request: lucia-enrollment-worker sign-directory \
             --csr - --out - <directory.csr >directory.pem"
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
                status.uncertified += usize::from(node.leaf.is_none());
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

fn look_journal(status: &mut Status, config: &Config, records: &Records) {
    let seen = records.mark();
    status.journal.seen = seen.map(|mark| mark.generation);
    // What is wrong with it is said by the survey.
    let Ok(journal) = authority::read(config) else { return };
    status.journal.generation = Some(journal.generation);
    status.journal.continues = authority::continues(&journal, seen).is_ok();
    let back = records.barred_of(&journal).filter(|record| record.removed_at.is_some());
    status.back = back.map(|record| record.names.hostname.clone()).collect();
    if !status.back.is_empty() {
        status.acts.push(format!(
            "the controller's journal has nodes again whose keys are barred: {}. The controller refuses them by the list of \
             barred keys; remove them there again: luciactl remove NODE",
            listed(&status.back)
        ));
    }
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
    if is_movable(config) {
        status.acts.push(
            "the controller's user can move the directories in which this worker reads and answers; lay them as root's: \
             systemd-tmpfiles --create"
                .to_owned(),
        );
    }
    let owners = OwnerQueue::open(config).ok().flatten();
    for path in [Some(&queue.responses), owners.as_ref().map(|owners| &owners.responses)]
        .into_iter()
        .flatten()
        .flat_map(blocked)
    {
        let path = path.display();
        status.problems.push(format!(
            "{path} is a directory where the worker's answer belongs; find out who made it, then remove it"
        ));
    }
    if queue.is_blocked(&file(STATUS_FILE)) {
        return;
    }
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
    /// For people: what is not there, or is none, has no row.
    #[must_use]
    pub fn table(&self) -> String {
        let time = |at: Option<UnixTime>| at.map(|at| at.to_string());
        let some = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let owners = self.owners.iter().map(OwnerName::as_str).collect::<Vec<_>>().join(" ");
        let ledger = self.ledger_head.map_or_else(String::new, |head| format!(", head {head}"));
        let torn = usize::try_from(self.ledger_torn).unwrap_or(usize::MAX);
        let mut rows = vec![
            ("ready", Some(if self.ready { "yes" } else { "no" }.to_owned())),
            ("last turn", Some(time(self.checked_at).unwrap_or_else(|| "none yet".to_owned()))),
            ("fleet", self.fleet.map(|fleet| fleet.to_string())),
            ("certificates by", self.ca.clone()),
            ("issuing CA until", time(self.issuing_ca_not_after)),
            ("endpoint until", time(self.endpoint_not_after)),
            ("bundle version", self.bundle_version.map(|version| version.to_string())),
            ("roster version", self.roster_version.map(|version| version.to_string())),
            ("owners", Some(owners).filter(|owners| !owners.is_empty())),
            ("ledger", Some(format!("{}{ledger}", counted(self.ledger_lines, "line")))),
            ("torn lines dropped", (torn > 0).then(|| torn.to_string())),
            ("nodes", Some(self.nodes_in_words())),
            ("lapsed", some(self.lapsed, "gone for longer than max-lapse")),
            ("orphaned", some(self.orphaned, "signed too late to be handed out, and still valid")),
            ("journal", Some(self.journal.sentence())),
            ("admission", Some(self.admission.to_owned())),
            ("audit", self.audit.map(|seen| anchored(&seen))),
            ("directory", self.directory.clone()),
            ("directory until", time(self.directory_certificate_not_after)),
            ("awaiting admission", some(self.awaiting, "in the queue")),
        ];
        for Used { what, used, max } in self.limits.iter().filter(|limit| limit.used > 0) {
            rows.push(("within this hour", Some(format!("{what}: {used} of {max}"))));
        }
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let mut out = String::new();
        for (name, value) in rows {
            if let Some(value) = value {
                // Writing into a String cannot fail.
                let _ = writeln!(out, "{name:<width$}  {value}");
            }
        }
        for act in &self.acts {
            let _ = writeln!(out, "\n> {}", shown(act));
        }
        for problem in &self.problems {
            let _ = writeln!(out, "\n! {}", shown(problem));
        }
        out
    }

    /// What the ledger has, which is more than the nodes that `luciactl nodes` lists: those that were admitted and have no
    /// certificate yet, and those that were removed.
    fn nodes_in_words(&self) -> String {
        let mut words = format!("{} in the ledger", self.nodes + self.suspended + self.barred);
        let without = self.uncertified;
        for (count, what) in [
            (self.nodes.saturating_sub(without), "with a certificate"),
            (without, "admitted, without a certificate yet"),
            (self.suspended, "suspended"),
            (self.barred.saturating_sub(self.removed), "barred for ever"),
            (self.removed, "removed and barred for ever"),
        ] {
            if count > 0 {
                let _ = write!(words, ", {count} {what}");
            }
        }
        words
    }
}

/// How far the audit was seen: an anchor is no count of the lines there are, for it is taken once an hour.
fn anchored(seen: &Anchored) -> String {
    let lines = counted(seen.chain.entries, "line");
    format!("the controller's first {lines} anchored at {}; anchored anew once an hour", seen.at)
}

impl JournalState {
    fn sentence(&self) -> String {
        let number = |generation: Option<u64>| generation.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (now, seen) = (number(self.generation), number(self.seen));
        let mut words = match self.continues {
            true if self.seen == self.generation => format!("generation {now}"),
            true => format!("generation {now}, continues the one seen before ({seen})"),
            false => format!("generation {now}, NO CONTINUATION OF {seen}"),
        };
        if self.acceptances > 0 {
            let _ = write!(words, ", accepted by hand {}", counted(self.acceptances, "time"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use lucia_proto::files::audit_chain::AuditChain;

    use super::*;

    /// Just begun, and with all that there may be: what is none has no row.
    #[test]
    fn the_table_is_as_its_snapshot() {
        let at = |secs: u64| Some(UnixTime::from_secs(1_795_982_400 + secs));
        let begun = Status { admission: "operator", ..Status::default() };
        let names = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let all = Status {
            ready: true,
            checked_at: at(0),
            admission: "owner",
            fleet: Some(Digest::of(b"root")),
            ca: Some("embedded".to_owned()),
            issuing_ca_not_after: at(1000),
            bundle_version: Some(2),
            roster_version: Some(3),
            owners: ["alice", "bob"].map(|name| name.parse().unwrap()).into(),
            applications: 1,
            ledger_lines: 12,
            ledger_head: Some(Digest::of(b"line")),
            ledger_torn: 1,
            nodes: 5,
            uncertified: 1,
            suspended: 2,
            barred: 4,
            removed: 3,
            back: names(&["n9"]),
            orphaned: 1,
            lapsed: 1,
            journal: JournalState { generation: Some(4), seen: Some(7), continues: false, acceptances: 1 },
            audit: at(0).map(|at| Anchored {
                at,
                chain: AuditChain { entries: 5, head: Digest::of(b"audit") },
                accepted: false,
            }),
            limits: vec![
                Used { what: "certificates", used: 3, max: 10 },
                Used { what: "endpoint certificates", used: 0, max: 2 },
            ],
            acts: vec!["somebody has to do this".to_owned()],
            endpoint_not_after: at(2000),
            directory_certificate_not_after: at(3000),
            directory: Some("none".to_owned()),
            awaiting: 2,
            problems: vec!["this is wrong".to_owned()],
        };
        let views = [begun.table(), all.table()].join("\n");
        expect_test::expect_file!["status/snapshots/status.txt"].assert_eq(&views);
    }
}

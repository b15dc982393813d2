//! `admit`: a person on the worker's host says that this key is that machine.

use lucia_proto::key::{Fingerprint, VerificationCode};
use lucia_proto::time::UnixTime;

use super::Failure;
use crate::config::Config;
use crate::home::Home;
use crate::ledger::{AdmittedBy, Entry, Held, Ledger, LedgerError, NodeRecord};
use crate::now;
use crate::survey::{Outlook, Row, survey_of};
use crate::watch::{Wake, Watch};

/// How long `run` is waited for while it has the ledger.
const BUSY_MILLIS: u16 = 50;
const BUSY_TRIES: usize = 200;

/// Admits the one pending request that has this code and this fingerprint; gives the sentence to print.
pub(super) fn admit(config: &Config, code: &str, fingerprint: &str) -> Result<String, Failure> {
    let usage = |text: String| Failure { code: Failure::USAGE, text };
    let code: VerificationCode = code.parse().map_err(|error| usage(format!("CODE is not {error}")))?;
    let fingerprint: Fingerprint = fingerprint.to_ascii_lowercase().parse().map_err(|_| {
        usage("--fingerprint is not 64 hex digits; type all of them from the machine's own screen".into())
    })?;

    let home = Home::open(config).map_err(|error| Failure::of(&error))?;
    let mut ledger = Ledger::load(&home.dir).map_err(|error| Failure::of(&error))?;
    if let Some(known) = ledger.records().node(&fingerprint.node_id())
        && fingerprint.verification_code() == code
    {
        return already(known, &fingerprint);
    }
    let now = now();
    let survey = survey_of(&code, config, &home, ledger.records(), now);
    let row = choose(&survey.requests, &code, &fingerprint)
        .map_err(|text| Failure::refused(with_problems(text, &survey.problems)))?;
    write(&home, &mut ledger, row, now)
}

/// What to say of a node that is in the ledger.
fn already(known: &NodeRecord, fingerprint: &Fingerprint) -> Result<String, Failure> {
    let names = &known.names;
    if names.fingerprint != *fingerprint {
        return Err(Failure::refused("the ledger has another key under this node id; nothing was admitted"));
    }
    match known.removed_at {
        Some(at) => Err(Failure::refused(format!(
            "{} ({}) was removed at {at} and its key stays barred; install the machine anew with a new key",
            names.hostname, names.node_id
        ))),
        None => Ok(format!("{} ({}) was admitted already, at {}\n", names.hostname, names.node_id, known.admitted_at)),
    }
}

/// The one request meant, or why there is none.
fn choose<'a>(rows: &'a [Row], code: &VerificationCode, fingerprint: &Fingerprint) -> Result<&'a Row, String> {
    let mut same_code = rows.iter().filter(|row| row.code == *code).peekable();
    if same_code.peek().is_none() {
        return Err(format!(
            "no request with code {code} is in the queue; see `pending`. The machine asks once it runs its installed system"
        ));
    }
    let Some(row) = same_code.find(|row| row.fingerprint == *fingerprint) else {
        return Err(format!(
            "the request with code {code} has another fingerprint than the one given; nothing was admitted. Compare \
             all 64 digits with the machine's own screen; if they were typed right, this is not that machine"
        ));
    };
    match &row.outlook {
        Outlook::AwaitsAdmission => Ok(row),
        Outlook::Answered => Err(format!(
            "{} needs no admission: the settings say admission = \"journal\"; nothing was written",
            row.hostname
        )),
        Outlook::Refused(why) => Err(format!("{} cannot be admitted: {why}", row.hostname)),
    }
}

fn with_problems(mut text: String, problems: &[String]) -> String {
    for problem in problems {
        text.push_str("\n! ");
        text.push_str(problem);
    }
    text
}

fn write(home: &Home, ledger: &mut Ledger, row: &Row, now: UnixTime) -> Result<String, Failure> {
    let held = hold(home)?;
    let mut transaction = ledger.begin(&home.dir, held).map_err(|error| Failure::of(&error))?;
    // Another `admit` may have come first.
    if let Some(known) = transaction.records().node(&row.node_id) {
        return already(known, &row.fingerprint);
    }
    if let Some(owner) = transaction.records().owner_of(&row.hostname) {
        let owner = &owner.names.node_id;
        return Err(Failure::refused(format!("{} was given to node {owner} meanwhile", row.hostname)));
    }
    let entry = Entry::Admitted { node: row.names.clone(), by: AdmittedBy::Operator };
    transaction.add(now, entry).and_then(|()| transaction.commit()).map_err(|error| Failure::of(&error))?;
    Ok(format!(
        "admitted {} (node {}, fingerprint {}); it gets its certificate within seconds\n",
        row.hostname, row.node_id, row.fingerprint
    ))
}

/// Waits for `run` to end its turn.
fn hold(home: &Home) -> Result<Held, Failure> {
    let mut watch = Watch::new().map_err(|error| Failure::of(&error))?;
    for _ in 0..BUSY_TRIES {
        match Ledger::hold(&home.dir) {
            Err(LedgerError::Busy) => {}
            other => return other.map_err(|error| Failure::of(&error)),
        }
        if watch.wait(BUSY_MILLIS).map_err(|error| Failure::of(&error))? == Wake::Stop {
            return Err(Failure::refused("stopped; nothing was admitted"));
        }
    }
    Err(Failure::of(&LedgerError::Busy))
}

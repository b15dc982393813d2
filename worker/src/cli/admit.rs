//! `admit`: a person on the worker's host says that this key is that machine.

use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};

use super::hold::hold;
use crate::config::Config;
use crate::files::id_file;
use crate::home::Home;
use crate::ledger::{By, Entry, Ledger, NodeRecord};
use crate::survey::{Outlook, SurveyRow, survey_of};

/// Admits the one pending request that has this code and this fingerprint; gives the sentence to print. With `replaces`
/// it takes that name from the key that had it.
pub(super) fn admit(config: &Config, code: &str, fingerprint: &str, replaces: Option<&str>) -> Result<String, Exit> {
    let usage = |text: String| Exit::usage(text);
    let code: VerificationCode = code.parse().map_err(|error| usage(format!("CODE is not {error}")))?;
    let fingerprint = Fingerprint::typed(fingerprint).map_err(|_| {
        usage("--fingerprint is not 64 hex digits; type all of them from the machine's own screen".into())
    })?;

    let home = Home::open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    if let Some(known) = ledger.records().node(&fingerprint.node_id())
        && fingerprint.verification_code() == code
    {
        return already(known, &fingerprint);
    }
    let now = now();
    let survey = survey_of(&code, config, &home, ledger.records(), now);
    let row = choose(&survey.requests, &code, &fingerprint)
        .and_then(|row| may(row, replaces).map(|()| row))
        .map_err(|text| Exit::refused(with_problems(text, &survey.problems)))?;
    write(&home, &mut ledger, row, now)
}

/// What to say of a node that is in the ledger.
fn already(known: &NodeRecord, fingerprint: &Fingerprint) -> Result<String, Exit> {
    let names = &known.names;
    if names.fingerprint != *fingerprint {
        return Err(Exit::refused("the ledger has another key under this node id; nothing was admitted"));
    }
    match (known.barred_at, known.suspended) {
        (Some(at), _) => Err(Exit::refused(format!(
            "{} ({}) was removed at {at} and its key stays barred; install the machine anew with a new key",
            names.hostname, names.node_id
        ))),
        (None, Some((at, _))) => Err(Exit::refused(format!(
            "{0} ({1}) was removed by the controller at {at} and is suspended; `resume {0}` or `confirm-removals {0}`",
            names.hostname, names.node_id
        ))),
        (None, None) => {
            Ok(format!("{} ({}) was admitted already, at {}\n", names.hostname, names.node_id, known.admitted_at))
        }
    }
}

/// The one request meant, or why there is none.
fn choose<'a>(
    rows: &'a [SurveyRow],
    code: &VerificationCode,
    fingerprint: &Fingerprint,
) -> Result<&'a SurveyRow, String> {
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
    Ok(row)
}

/// Whether this request can be admitted, in this way.
fn may(row: &SurveyRow, replaces: Option<&str>) -> Result<(), String> {
    let name = &row.hostname;
    match (&row.outlook, &row.name_of, replaces) {
        (Outlook::AwaitsRename, _, _) => {
            Err(format!("{name} is a node of the ledger under another name; see `pending`, then `rename`"))
        }
        (Outlook::AwaitsReplacement | Outlook::Refused(_), Some(_), Some(given)) if given == name.as_str() => Ok(()),
        (_, Some(owner), Some(given)) => {
            Err(format!("the request is for {name}, which node {owner} has, and not for {given}; nothing was admitted"))
        }
        (Outlook::AwaitsReplacement | Outlook::Refused(_), Some(owner), None) => Err(format!(
            "{name} is the name of node {owner}. If this is that machine with a new key, and the old key is to be barred \
             for ever, add: --replaces {name}"
        )),
        (Outlook::AwaitsAdmission | Outlook::AwaitsOwner, _, None) => Ok(()),
        (Outlook::AwaitsAdmission | Outlook::AwaitsOwner, _, Some(_)) => {
            Err(format!("no other key has {name}, so there is nothing to replace; leave --replaces out"))
        }
        (Outlook::Answered | Outlook::AwaitsRoom(_) | Outlook::AwaitsReplacement, _, _) => Err(format!(
            "{name} needs no admission: it is in the ledger, or the settings say admission = \"journal\"; nothing was \
             written"
        )),
        (Outlook::Refused(why), _, _) => Err(format!("{name} cannot be admitted: {why}")),
    }
}

fn with_problems(mut text: String, problems: &[String]) -> String {
    for problem in problems {
        text.push_str("\n! ");
        text.push_str(problem);
    }
    text
}

fn write(home: &Home, ledger: &mut Ledger, row: &SurveyRow, now: UnixTime) -> Result<String, Exit> {
    let held = hold(home)?;
    let mut transaction = ledger.begin(&home.dir, held)?;
    // Another `admit` may have come first.
    if let Some(known) = transaction.records().node(&row.node_id) {
        return already(known, &row.fingerprint);
    }
    let owner = transaction.records().owner_of(&row.hostname).cloned();
    if owner.as_ref().map(|owner| &owner.names.node_id) != row.name_of.as_ref() {
        return Err(Exit::refused(format!("{} changed hands meanwhile; look at `pending` again", row.hostname)));
    }
    let mut said = String::new();
    if let Some(owner) = &owner {
        let node = owner.names.clone();
        said = format!("node {} is barred for ever; its name goes to another key, and nothing else\n", node.node_id);
        // A former try may have been cut off between the two lines.
        if owner.successor.as_ref() != Some(&row.node_id) {
            let entry = Entry::Replaced { node, successor: row.node_id.clone() };
            transaction.add(now, entry)?;
        }
    }
    let entry = Entry::Admitted { node: row.names.clone(), by: By::Operator };
    transaction.add(now, entry).and_then(|()| transaction.commit())?;
    if let Some(owner) = &owner {
        // The worker's next turn does it as well, should this be cut off.
        home.receipts.remove(&id_file(&owner.names.node_id))?;
    }
    Ok(format!(
        "{said}admitted {} (node {}, fingerprint {}); it gets its certificate within seconds\n",
        row.hostname, row.node_id, row.fingerprint
    ))
}

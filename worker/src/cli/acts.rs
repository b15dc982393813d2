//! What only a person on the worker's host decides: removals beyond five an hour, a journal that went back, a node that
//! was gone for too long.

use std::fmt::Write as _;
use std::io::Write as _;

use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::{counted, shown};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::journal::{DeviceRow, Journal};
use lucia_proto::pki::key::VerificationCode;

use super::at::say;
use super::hold::hold;
use crate::authority::{self, mark_of};
use crate::config::Config;
use crate::files::id_file;
use crate::home::Home;
use crate::ledger::{By, Entry, Ledger, Mark, NodeRecord, Records};
use crate::status::listed;

fn open(config: &Config) -> Result<(Home, Ledger), Exit> {
    let home = Home::open(config)?;
    let ledger = Ledger::load(&home.dir)?;
    Ok((home, ledger))
}

/// Nodes that are suspended and not barred.
fn suspended(records: &Records) -> impl Iterator<Item = &NodeRecord> {
    records.nodes().filter(|node| node.suspended.is_some() && node.barred_at.is_none())
}

/// The nodes that `names` mean, by name or id; each must be suspended.
fn choose(records: &Records, names: &[String], all: bool) -> Result<Vec<NodeRecord>, Exit> {
    if all {
        return Ok(suspended(records).cloned().collect());
    }
    let find = |name: &String| {
        let none = || Exit::refused(format!("{name:?} is no suspended node, nothing was written; see `status`"));
        let is_suspended = |node: &&NodeRecord| node.suspended.is_some() && node.barred_at.is_none();
        records.called(name).filter(is_suspended).cloned().ok_or_else(none)
    };
    names.iter().map(find).collect()
}

fn list(records: &Records) -> String {
    let mut out = String::new();
    for node in suspended(records) {
        let since = node.suspended.map(|(at, _)| at.to_string()).unwrap_or_default();
        // Writing into a String cannot fail.
        let _ =
            writeln!(out, "{:<32} {:<20} suspended {since}", node.names.node_id.as_str(), node.names.hostname.as_str());
    }
    out
}

/// `confirm-removals`: bars suspended nodes; without names only shows them.
pub(super) fn confirm_removals(config: &Config, names: &[String], all: bool) -> Result<String, Exit> {
    let (home, mut ledger) = open(config)?;
    if names.is_empty() && !all {
        let shown = list(ledger.records());
        return Ok(match shown.is_empty() {
            true => "No removal waits for anybody.\n".to_owned(),
            false => format!(
                "{shown}\nThe controller removed these. If that was meant: `confirm-removals NODE...` or `--all` bars their \
                 keys for ever.\nIf not: bring the controller's journal back, then `resume NODE...` or `--all`.\n"
            ),
        });
    }
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let chosen = choose(transaction.records(), names, all)?;
    for node in &chosen {
        let entry = Entry::Barred { node: node.names.clone(), by: By::Operator };
        transaction.add(now(), entry)?;
    }
    transaction.commit()?;
    for node in &chosen {
        // The worker's next turn does it as well, should this be cut off.
        home.receipts.remove(&id_file(&node.names.node_id))?;
    }
    Ok(format!("{} barred for ever\n", counted(u64::try_from(chosen.len()).unwrap_or(u64::MAX), "node")))
}

/// `resume`: lets suspended nodes go on that the journal has again.
pub(super) fn resume(config: &Config, names: &[String], all: bool) -> Result<String, Exit> {
    let (home, mut ledger) = open(config)?;
    if names.is_empty() && !all {
        let text = "name the nodes that are to go on, or say --all; `confirm-removals` lists them";
        return Err(Exit::usage(text.to_owned()));
    }
    let journal = trusted(config, ledger.records())?;
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let chosen = choose(transaction.records(), names, all)?;
    let gone = |node: &&NodeRecord| journal.device(&node.names.node_id).is_none();
    if let Some(node) = chosen.iter().find(gone) {
        return Err(Exit::refused(format!(
            "{} is not in the controller's journal, so it would be suspended again at once; nothing was written. Bring the \
             journal back first, or leave this node out",
            node.names.hostname
        )));
    }
    for node in &chosen {
        transaction.add(now(), Entry::Resumed { node: node.names.clone() })?;
    }
    transaction.commit()?;
    Ok(format!("{} may go on\n", counted(u64::try_from(chosen.len()).unwrap_or(u64::MAX), "node")))
}

pub(super) fn trusted(config: &Config, records: &Records) -> Result<Journal, Exit> {
    let journal = authority::read(config)?;
    authority::continues(&journal, records.mark())?;
    Ok(journal)
}

/// `accept-journal`: takes the journal as it is, after its generation was typed.
pub(super) fn accept_journal(config: &Config, generation: Option<u64>) -> Result<String, Exit> {
    let (home, mut ledger) = open(config)?;
    let journal = authority::read(config)?;
    let (to, records) = (mark_of(&journal), ledger.records());
    if authority::continues(&journal, records.mark()).is_ok() {
        return Ok(format!(
            "generation {} continues what was seen before; there is nothing to accept\n",
            journal.generation
        ));
    }
    let missing = records.nodes().filter(|n| n.barred_at.is_none() && journal.device(&n.names.node_id).is_none());
    let missing: Vec<&str> = missing.map(|node| node.names.hostname.as_str()).collect();
    let mut shown = format!("from  {}\nto    {}\n", told(records.mark()), told(Some(&to)));
    if !missing.is_empty() {
        let _ = writeln!(shown, "nodes of the ledger that it does not have: {}", missing.join(" "));
    }
    let back: Vec<Hostname> = records.barred_of(&journal).map(|record| record.names.hostname.clone()).collect();
    if !back.is_empty() {
        let _ = writeln!(
            shown,
            "nodes that it has again and whose keys stay barred (the controller refuses them; remove them there again: \
             luciactl remove NODE): {}",
            listed(&back)
        );
    }
    say(&shown);
    match generation.map_or_else(|| typed("Type the generation to accept it: "), |given| Ok(given.to_string()))? {
        given if given == to.generation.to_string() => {}
        _ => return Err(Exit::refused(format!("that is not {}; nothing was accepted", to.generation))),
    }
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    transaction.add(now(), Entry::JournalAccepted(to))?;
    transaction.commit()?;
    Ok(format!("accepted generation {}; the worker goes on from it\n", to.generation))
}

fn told(mark: Option<&Mark>) -> String {
    mark.map_or_else(
        || "nothing".to_owned(),
        |mark| format!("generation {}, event {}, chain {}", mark.generation, mark.last_event_id, mark.chain_head),
    )
}

/// A line from standard input.
pub(super) fn typed(prompt: &str) -> Result<String, Exit> {
    say(prompt);
    // A prompt that nobody sees is no reason to stop.
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// `release-lapse`: shows how long a node was gone, and lets it renew after its code was typed.
pub(super) fn release_lapse(config: &Config, name: &str, code: Option<&str>) -> Result<String, Exit> {
    let (home, mut ledger) = open(config)?;
    let journal = trusted(config, ledger.records())?;
    let at = now();
    let node = ledger.records().called(name).filter(|node| node.barred_at.is_none()).cloned();
    let Some(node) = node else {
        return Err(Exit::refused(format!("{name:?} is no node of the ledger; nothing was released")));
    };
    let Some((serial, not_after)) = node.leaf.clone() else {
        return Err(Exit::refused(format!(
            "{} never had a certificate; there is nothing to release",
            node.names.hostname
        )));
    };
    let gone = at.since(not_after);
    if gone <= config.max_lapse {
        return Ok(format!("{} renews by itself: it is within max-lapse\n", node.names.hostname));
    }
    say(&evidence(&node, journal.device(&node.names.node_id), at, not_after));
    let want = node.names.fingerprint.verification_code();
    let prompt = "Type the code on the machine's own screen (lucia-node-agent status) to let it renew: ";
    let given = code.map_or_else(|| typed(prompt), |code| Ok(code.to_owned()))?;
    if given.parse::<VerificationCode>().ok().as_ref() != Some(&want) {
        return Err(Exit::refused("that is not this node's code; nothing was released"));
    }
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let (hostname, entry) = (node.names.hostname.clone(), Entry::LapseReleased { node: node.names, serial });
    transaction.add(at, entry)?;
    transaction.commit()?;
    Ok(format!("released: {hostname} may renew within the next 24 hours\n"))
}

/// What speaks for and against a node being the machine it was. All but the ledger's own is the controller's word.
fn evidence(node: &NodeRecord, device: Option<&DeviceRow>, at: UnixTime, not_after: UnixTime) -> String {
    let unknown = || "unknown".to_owned();
    let days = at.since(not_after).as_secs() / 86_400;
    let [first, second] = node.names.fingerprint.rows();
    let mut rows = vec![
        ("node", format!("{} {}", node.names.hostname, node.names.node_id)),
        ("fingerprint", first),
        ("", second),
        ("certificate ended", format!("{not_after}, {} ago", counted(days, "day"))),
        ("certificates so far", node.issued.to_string()),
        ("address then", node.address.map_or_else(unknown, |address| address.to_string())),
    ];
    match device {
        None => rows.push(("in the journal", "no".to_owned())),
        Some(device) => {
            rows.push(("address now", device.address.to_string()));
            let frozen = device.frozen.iter().flat_map(|frozen| &frozen.holders);
            let holders = frozen.chain(device.kept.iter().map(|kept| &kept.holder));
            for holder in holders {
                let boot = holder.boot_id.as_ref().map_or_else(unknown, ToString::to_string);
                rows.push(("seen", format!("boot {boot} at {} since {}", holder.address, holder.first_seen_at)));
            }
        }
    }
    rows.iter().fold(String::new(), |mut out, (name, value)| {
        let _ = writeln!(out, "{name:<20} {}", shown(value));
        out
    })
}

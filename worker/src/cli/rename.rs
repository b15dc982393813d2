//! `rename`: a person on the worker's host says that a node of the ledger may have the name that the journal gives it.

use lucia_daemon::clock::now;
use lucia_daemon::exit::Exit;
use lucia_proto::base::names::Hostname;

use super::acts::trusted;
use super::hold::hold;
use crate::chain;
use crate::config::Config;
use crate::decide::free;
use crate::home::Home;
use crate::ledger::{By, Entry, Ledger};

/// Renames the node that the ledger has as `old`; the journal must say `new` of it. Gives the sentence to print.
pub(super) fn rename(config: &Config, old: &str, new: &str) -> Result<String, Exit> {
    let usage = |error| Exit::usage(format!("NEW is not {error}"));
    let new: Hostname = new.parse().map_err(usage)?;
    let home = Home::open(config)?;
    let mut ledger = Ledger::load(&home.dir)?;
    let journal = trusted(config, ledger.records())?;
    let at = now();
    let mut transaction = ledger.begin(&home.dir, hold(&home)?)?;
    let records = transaction.records();
    let Some(node) = records.called(old) else {
        return Err(Exit::refused(format!("{old:?} is no node of the ledger; nothing was renamed. See `pending`")));
    };
    let (id, from) = (&node.names.node_id, &node.names.hostname);
    if *from == new {
        return Ok(format!("node {id} is {new} already; nothing was written\n"));
    }
    if node.barred_at.is_some() || node.suspended.is_some() {
        return Err(Exit::refused(format!(
            "{from} was removed by the controller; nothing was renamed. See `status`, and `resume` if it was not meant"
        )));
    }
    let approved = journal.device(id).and_then(|device| device.hostname.as_ref());
    if approved != Some(&new) {
        return Err(Exit::refused(format!(
            "the controller's journal has {} for this node and not {new}, so nothing was renamed; on the controller's host \
             first: luciactl rename {from} {new}",
            approved.map_or("no name", Hostname::as_str)
        )));
    }
    free(config, records, id, &new, None, at)
        .map_err(|error| Exit::refused(format!("nothing was renamed: {}", chain(&error))))?;
    let said = format!(
        "renamed: node {id} is {new} from now on; {from} stays its own until its last certificate under that name has ended\n"
    );
    let entry = Entry::Renamed { node: node.names.clone(), new, by: By::Operator };
    transaction.add(at, entry).and_then(|()| transaction.commit())?;
    Ok(said)
}

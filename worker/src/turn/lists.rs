//! The lists that the worker signs from its ledger, published beside bundle and roster (design.md O8): when the ledger
//! says something else, and once an hour, so that their time says how old they are.

use lucia_proto::base::limits::{LIST_ENTRIES_MAX, LIST_FILE_MAX, LIST_INTERVAL};
use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::{BARRED_FILE, NAMES_FILE};
use lucia_proto::orders::lists::{List, ListEntry, NamedNode, SignedList, VerifiedList};
use lucia_proto::pki::key::Fingerprint;

use super::error::TurnError;
use super::pass::Pass;
use super::summary::Summary;
use crate::files::file;
use crate::ledger::Records;
use crate::owner_queue::OwnerQueue;

/// What was published last.
#[derive(Debug, Default)]
pub(super) struct Lists {
    barred: Option<Sheet>,
    names: Option<Sheet>,
}

/// One list as it was published.
#[derive(Debug)]
struct Sheet {
    bytes: Vec<u8>,
    number: u64,
    time: UnixTime,
    /// Lines that the ledger had.
    lines: u64,
}

impl Sheet {
    fn is_due(&self, now: UnixTime) -> bool {
        // A clock that was put back must not let a list stand for long.
        now < self.time || now.since(self.time) >= LIST_INTERVAL
    }
}

/// All keys that the ledger bars.
fn barred(records: &Records) -> Vec<Fingerprint> {
    let barred = records.nodes().filter(|node| node.barred_at.is_some());
    let mut keys: Vec<Fingerprint> = barred.map(|node| node.names.fingerprint).collect();
    keys.sort_unstable();
    keys
}

/// What the nodes are called whose keys are not barred.
fn names(records: &Records) -> Vec<NamedNode> {
    let named = records.nodes().filter(|node| node.barred_at.is_none());
    let named = named.map(|node| NamedNode { id: node.names.node_id.clone(), hostname: node.names.hostname.clone() });
    named.collect()
}

impl Pass<'_> {
    /// Publishes both lists where they are due.
    pub(super) fn lists(
        &mut self,
        owners: &OwnerQueue,
        lists: &mut Lists,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        self.list(owners, (BARRED_FILE, barred), &mut lists.barred, summary)?;
        self.list(owners, (NAMES_FILE, names), &mut lists.names, summary)
    }

    fn list<E: ListEntry + PartialEq>(
        &mut self,
        owners: &OwnerQueue,
        (name, entries): (&str, fn(&Records) -> Vec<E>),
        last: &mut Option<Sheet>,
        summary: &mut Summary,
    ) -> Result<(), TurnError> {
        let (records, name) = (self.transaction.records(), file(name));
        let (lines, now, identity) = (records.lines(), self.now, self.identity);
        let lies = owners.ours(&name, LIST_FILE_MAX);
        let stands = |sheet: &Sheet| Some(&sheet.bytes) == lies.as_ref() && sheet.lines == lines && !sheet.is_due(now);
        if last.as_ref().is_some_and(stands) {
            return Ok(());
        }
        let entries = entries(records);
        if entries.len() > LIST_ENTRIES_MAX {
            // A ledger of before this limit. A part of the list would let in whom it leaves out.
            let text = format!(
                "{} of the ledger would have {} entries and has room for {LIST_ENTRIES_MAX}, so it is not signed any more; \
                 begin a new fleet (lucia-enrollment-worker init)",
                E::WHAT,
                entries.len()
            );
            self.owner_remark(name.as_str(), &text);
            summary.problems.push(text);
            return Ok(());
        }
        // What lies there may be an older copy of ours, put back with the controller's directory.
        let fleet = identity.root.sha256();
        let found: Option<VerifiedList<E>> = lies.as_deref().and_then(|bytes| {
            SignedList::from_bytes(bytes).and_then(|signed| signed.verify(&identity.bundle, &fleet)).ok()
        });
        let found = found.zip(lies).map(|(list, bytes)| {
            let List { number, time, .. } = *list.list();
            (Sheet { bytes, number, time, lines }, list)
        });
        let floor = last.as_ref().map_or(0, |last| last.number);
        let highest = found.as_ref().map_or(floor, |(sheet, _)| sheet.number.max(floor));
        if let Some((sheet, list)) = found
            && list.list().entries == entries
            && sheet.number >= floor
            && !sheet.is_due(now)
        {
            *last = Some(sheet);
            return Ok(());
        }
        // By the clock, so that it rises also where worker or controller were restored from an older copy.
        let number = now.secs().max(highest.saturating_add(1));
        let list = List { fleet, number, time: now, entries };
        let signed = SignedList::sign(&list, &identity.worker_key).map_err(TurnError::List)?;
        let bytes = signed.to_bytes().map_err(TurnError::List)?;
        *last = Some(Sheet { bytes: bytes.clone(), number, time: now, lines });
        self.draft_owner(owners, name, bytes);
        Ok(())
    }
}

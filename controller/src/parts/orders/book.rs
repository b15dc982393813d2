//! Every order there is, and its file.

use std::collections::BTreeMap;

use lucia_proto::orders::{Draft, OrderId, SignedOrder};
use lucia_proto::pki::key::VerificationCode;

use super::progress::Entry;
use crate::refusal::Refusal;
use crate::store::DraftsError;
use crate::store::drafts::{DraftFiles, DraftRow};

/// Every order there is, and its file.
pub(super) struct OrderBook {
    files: DraftFiles,
    entries: BTreeMap<OrderId, Entry>,
    codes: BTreeMap<String, OrderId>,
}

impl OrderBook {
    pub(super) fn open(files: DraftFiles) -> Result<Self, DraftsError> {
        let mut orders = Self { files, entries: BTreeMap::new(), codes: BTreeMap::new() };
        for row in orders.files.load()? {
            // The file was read whole before.
            if let Some(entry) = entry(row) {
                orders.keep(entry);
            }
        }
        Ok(orders)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(super) fn get(&self, id: &OrderId) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub(super) fn of_code(&self, code: &VerificationCode) -> Option<&Entry> {
        self.entries.get(self.codes.get(code.as_str())?)
    }

    /// Gives a code to another order, as a collision would.
    #[cfg(test)]
    pub(super) fn claim(&mut self, code: &VerificationCode, id: OrderId) {
        self.codes.insert(code.as_str().to_owned(), id);
    }

    fn keep(&mut self, entry: Entry) {
        self.codes.insert(entry.id.code().as_str().to_owned(), entry.id);
        self.entries.insert(entry.id, entry);
    }

    /// The disk first, then memory.
    pub(super) fn write(&mut self, entry: Entry) -> Result<(), Refusal> {
        self.files.write(&entry.id, &entry.row).map_err(Refusal::persistence)?;
        self.keep(entry);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &OrderId) -> Result<(), Refusal> {
        self.files.remove(id).map_err(Refusal::persistence)?;
        self.entries.remove(id);
        self.codes.remove(id.code().as_str());
        Ok(())
    }

    /// Bytes that all of them take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.entries.values().map(|entry| entry.row.draft.intent_json.len() + entry.row.draft.body.len()).sum()
    }
}

/// A draft that is read whole; nothing for what is none.
pub(super) fn entry(row: DraftRow) -> Option<Entry> {
    let read = row.draft.read().ok()?;
    let (intent, body) = (read.intent().clone(), read.body().clone());
    Some(Entry { id: OrderId::of(&row.draft.intent_json), intent, body, row })
}

/// The order as it travels.
pub(super) fn signed(entry: &Entry) -> SignedOrder {
    let Draft { intent_json, body } = entry.row.draft.clone();
    SignedOrder { intent_json, body, signatures: entry.row.signatures.clone() }
}

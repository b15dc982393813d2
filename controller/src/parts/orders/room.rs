//! Room for one order more: what may leave for it, and whose unsigned drafts are too many.
//!
//! Nothing that somebody still needs leaves for what anybody may hand in without a signature. Needed is what waits, and
//! of each subject the last order that was given: from its revision the next one counts on, and what it says holds.

use std::collections::{BTreeMap, BTreeSet};

use lucia_proto::base::bounded::Label;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{
    DRAFTS_BYTES_MAX, DRAFTS_MAX, DRAFTS_UNSIGNED_PER_PERSON_MAX, ORDERS_PER_OWNER_MAX, OWNERS_MAX,
};
use lucia_proto::orders::owner::OwnerId;
use lucia_proto::orders::{OrderId, Terms};

use super::book::OrderBook;
use super::progress::Entry;
use crate::refusal::Refusal;

// Everybody of a full roster, and root and the controller's own user on the socket: room is left for what was signed.
const _: () = assert!((OWNERS_MAX + 2) * DRAFTS_UNSIGNED_PER_PERSON_MAX <= DRAFTS_MAX - DRAFTS_MAX / 8);

impl OrderBook {
    /// Makes room for one more of `bytes` in the name of `owner` that `by` hands in.
    ///
    /// # Errors
    /// `registry_full`, with nothing changed that anybody needs.
    pub(super) fn make_room(
        &mut self,
        by: &Label,
        owner: &OwnerId,
        bytes: usize,
        is_ended: impl Fn(&Entry) -> bool,
        is_there: impl Fn(&NodeId) -> bool,
    ) -> Result<(), Refusal> {
        let is_given = |entry: &&Entry| entry.row.signed_at.is_some() && entry.intent.owner == *owner;
        if self.all().filter(is_given).filter(|entry| !is_ended(entry)).count() >= ORDERS_PER_OWNER_MAX {
            let message = format!(
                "{ORDERS_PER_OWNER_MAX} orders of this owner wait to be carried out, as many as may; drop some first \
                 (luciactl drafts)."
            );
            return Err(Refusal::new(Code::RegistryFull, message));
        }
        self.make_room_of(by, &is_ended)?;
        while self.all().count() >= DRAFTS_MAX || self.bytes() + bytes > DRAFTS_BYTES_MAX {
            let Some(leaves) = self.leaves(&is_ended, &is_there) else {
                let message = "As many orders wait as may; sign or drop some first (luciactl drafts).";
                return Err(Refusal::new(Code::RegistryFull, message));
            };
            self.remove(&leaves)?;
        }
        Ok(())
    }

    /// Of one person so many may wait for a signature; those that ran out leave first.
    fn make_room_of(&mut self, by: &Label, is_ended: impl Fn(&Entry) -> bool) -> Result<(), Refusal> {
        let mut own: Vec<(bool, &Entry)> = self
            .all()
            .filter(|entry| entry.row.signed_at.is_none() && entry.row.drafted_by == *by)
            .map(|entry| (is_ended(entry), entry))
            .collect();
        let Some(over) = (own.len() + 1).checked_sub(DRAFTS_UNSIGNED_PER_PERSON_MAX) else { return Ok(()) };
        own.retain(|(ended, _)| *ended);
        own.sort_by_key(|(_, entry)| (entry.row.at, entry.id));
        if own.len() < over {
            let message = format!(
                "{by} handed in {DRAFTS_UNSIGNED_PER_PERSON_MAX} orders that nobody signed; sign or drop some of them first \
                 (luciactl sign --list, luciactl drop CODE)."
            );
            return Err(Refusal::new(Code::RegistryFull, message));
        }
        let leave: Vec<OrderId> = own.iter().take(over).map(|(_, entry)| entry.id).collect();
        leave.iter().try_for_each(|id| self.remove(id))
    }

    /// What is missed least: drafts that ran out, then what was carried out or refused, the oldest first. The last orders
    /// about subjects leave when nothing else is left, of the owner who has most of them, so that nobody's push out another's.
    fn leaves(&self, is_ended: impl Fn(&Entry) -> bool, is_there: impl Fn(&NodeId) -> bool) -> Option<OrderId> {
        let mut ended: Vec<&Entry> = self.all().filter(|entry| is_ended(entry)).collect();
        ended.sort_by_key(|entry| (entry.row.signed_at.is_some(), entry.row.at, entry.id));
        if let Some(entry) = ended.iter().find(|entry| !self.is_last(entry, &is_there)) {
            return Some(entry.id);
        }
        let mut of: BTreeMap<&OwnerId, usize> = BTreeMap::new();
        ended.iter().for_each(|entry| *of.entry(&entry.intent.owner).or_default() += 1);
        let most = of.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner)?;
        ended.iter().find(|entry| entry.intent.owner == *most).map(|entry| entry.id)
    }

    /// Whether it was given, and no later one about its subject is for each of its nodes that are there.
    fn is_last(&self, entry: &Entry, is_there: impl Fn(&NodeId) -> bool) -> bool {
        if entry.row.signed_at.is_none() || matches!(entry.intent.terms, Terms::Once { .. }) {
            return false;
        }
        let mut nodes: BTreeSet<&NodeId> = entry.intent.nodes.iter().filter(|node| is_there(node)).collect();
        for later in self.all().filter(|later| later.row.signed_at.is_some() && entry.is_before(later)) {
            later.intent.nodes.iter().for_each(|node| {
                nodes.remove(node);
            });
        }
        !nodes.is_empty()
    }
}

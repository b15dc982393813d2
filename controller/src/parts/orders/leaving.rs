//! Signatures of people who may order no more, under orders for which those of the others are enough.
//!
//! Whoever carries an order out refuses it whole when one signature under it counts no more, and so it must: it cannot tell
//! a person who left from one who never was. So the controller hands such a signature out no longer. What is left without
//! it is an order like any other, or none.

use lucia_proto::base::time::UnixTime;
use lucia_proto::files::owner_queue::Outcome;
use lucia_proto::orders::OrderCode;
use lucia_proto::orders::roster::VerifiedRoster;

use super::Orders;
use super::drafts::is_enough;
use super::progress::{Entry, in_force};
use crate::lock::lock;
use crate::refusal::Refusal;

/// Whether it was refused for a signature of somebody who may order no more.
fn is_of_leaver(outcome: &Outcome) -> bool {
    let codes = [OrderCode::OwnerUnknown, OrderCode::NotAnOwner, OrderCode::KeyUnknown];
    outcome.refused.is_some_and(|code| codes.contains(&code))
}

/// The order without the signatures that count no more, if there are any and the others are enough; of a draft always,
/// since others may sign it yet. Whoever refused it for one of those is asked anew.
pub(super) fn without_leavers(entry: &Entry, roster: &VerifiedRoster, now: UnixTime) -> Option<Entry> {
    let mut next = entry.clone();
    next.row.signatures.retain(|signature| in_force(std::slice::from_ref(signature), roster).is_ok());
    if next.row.signatures.len() == entry.row.signatures.len() || entry.row.controller.is_some() || entry.is_over(now) {
        return None;
    }
    if entry.row.signed_at.is_none() {
        return Some(next);
    }
    if !is_enough(&next, roster) {
        return None;
    }
    next.row.nodes.retain(|outcome| !is_of_leaver(outcome));
    if next.row.worker.as_ref().is_some_and(is_of_leaver) {
        next.row.former = next.row.worker.take();
    }
    Some(next)
}

impl Orders {
    /// Takes signatures that count no more from under what the others' are enough for.
    pub(super) fn drop_leavers(&self, now: UnixTime) -> Result<(), Refusal> {
        let Some(roster) = self.people.verified_roster() else { return Ok(()) };
        let mut orders = lock(&self.book);
        // One of which nothing becomes any more keeps the names of all who signed it.
        let goes_on = |next: &Entry| !next.is_ended(now, |node| self.fleet.is_there(node));
        let left = orders.all().filter_map(|entry| without_leavers(entry, &roster, now)).filter(goes_on);
        let left: Vec<Entry> = left.collect();
        let is_news = !left.is_empty();
        let mut all = Ok(());
        for entry in left {
            let id = entry.id;
            // First from where the worker finds it as it was signed before: the next tick asks it anew.
            all = self.withdraw_order(&id).and_then(|()| orders.write(entry));
            if all.is_err() {
                break;
            }
            tracing::info!(intent = %id, "an order goes on without the signature of somebody who may order no more");
        }
        if is_news {
            self.index_orders(&orders);
        }
        all
    }
}

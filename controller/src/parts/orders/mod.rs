//! Orders: drafted and signed by people, handed to the worker and to nodes, and what became of each (design.md O2, O4).
//!
//! An order is a file each. What waits for which node is in memory; several controllers would have to share what nodes
//! reported and that is not written yet, and the worker times that they asked for.

mod about;
mod book;
mod carry;
mod drafts;
mod leaving;
mod progress;
mod relay;
mod removed;
mod room;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lucia_proto::base::time::Clock;
use lucia_proto::files::owner_queue::OwnerFile;
use lucia_proto::orders::OrderId;

use super::audit::Audit;
use super::enrollment::Enrollment;
use super::fleet::Fleet;
use super::journal::Keeper;
use super::open_error::OpenError;
use super::people::People;
use super::verifier::Verifier;
use crate::bridge::owners::OwnerQueue;
use crate::lock::lock;
use crate::refusal::Refusal;
use crate::store::drafts::DraftFiles;
use book::OrderBook;
use relay::Relay;

/// Orders and who carries them.
///
/// Locks are taken in this order: `book`, before any lock of the parts below, `asked`; `relay` is the last of all, and held
/// for no write.
pub struct Orders {
    clock: Arc<dyn Clock>,
    verifier: Arc<Verifier>,
    journal: Arc<Keeper>,
    audit: Arc<Audit>,
    fleet: Arc<Fleet>,
    people: Arc<People>,
    enrollment: Arc<Enrollment>,
    queue: Arc<OwnerQueue>,
    book: Mutex<OrderBook>,
    /// Orders that lie in the worker's queue.
    asked: Mutex<BTreeSet<OrderId>>,
    relay: Mutex<Relay>,
}

impl Orders {
    /// Reads every order, and what of them lies in the queue.
    pub(super) fn open(
        (clock, verifier, journal): (Arc<dyn Clock>, Arc<Verifier>, Arc<Keeper>),
        (audit, fleet, people, enrollment): (Arc<Audit>, Arc<Fleet>, Arc<People>, Arc<Enrollment>),
        queue: Arc<OwnerQueue>,
        files: DraftFiles,
    ) -> Result<Self, OpenError> {
        let asked = Mutex::new(settle_requests(&queue).map_err(OpenError::Write)?);
        let book = Mutex::new(OrderBook::open(files).map_err(OpenError::Drafts)?);
        let relay = Mutex::default();
        let orders = Self { clock, verifier, journal, audit, fleet, people, enrollment, queue, book, asked, relay };
        orders.index_orders(&lock(&orders.book));
        Ok(orders)
    }

    /// What time brings about: what nodes and the worker said is written, and what they are to hear is laid out.
    pub(super) fn tick(&self) {
        self.follow_trust();
        self.follow_orders();
    }

    /// What nodes are to have of bundle and roster.
    pub(super) fn follow_trust(&self) {
        let trust = self.people.trust();
        lock(&self.relay).follow(trust);
    }
}

/// Orders that lie in the queue from before the start. Questions go: a node asks again as long as it waits.
fn settle_requests(queue: &OwnerQueue) -> Result<BTreeSet<OrderId>, Refusal> {
    let mut asked = BTreeSet::new();
    for file in queue.requests()? {
        match &file {
            OwnerFile::OrderHead(id) => {
                asked.insert(*id);
            }
            OwnerFile::Freshness(_) => queue.withdraw(&file)?,
            OwnerFile::Application(_) | OwnerFile::AuditHead => {}
        }
    }
    Ok(asked)
}

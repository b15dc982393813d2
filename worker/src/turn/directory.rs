//! The directory's part of a turn: after all else is written, readers are looked at, and what is wrong is told.

use lucia_proto::base::time::UnixTime;
use tracing::{debug, info};

use super::summary::{Summary, problem};
use super::worker::Worker;
use crate::answers;
use crate::directory::readers::{ReaderPlace, WantedReaders};

impl Worker {
    /// Deletes the readers of barred nodes and makes lost ones again, when it is time or something was barred: by this
    /// turn, or by `admit --replaces` and `confirm-removals` beside it.
    pub(super) fn readers(&mut self, summary: &mut Summary, now: UnixTime) {
        let Self { home, ledger, readers, troubles, .. } = self;
        let records = ledger.records();
        let barred = records.nodes().filter(|record| record.barred_at.is_some()).count();
        if readers.is_due(barred, now) {
            let after = readers.goes_on_after(barred).cloned();
            let of = |is_there: bool| records.nodes().filter(move |record| record.barred_at.is_none() == is_there);
            let behind = of(false).chain(of(true)).skip_while(|record| {
                let place = ReaderPlace { is_there: record.barred_at.is_none(), node_id: record.names.node_id.clone() };
                after.as_ref().is_some_and(|after| place <= *after)
            });
            let wanted = behind.filter_map(|record| {
                let node_id = &record.names.node_id;
                if record.barred_at.is_some() {
                    return Some(WantedReaders::Gone(node_id.clone()));
                }
                // A receipt that cannot be read is told of when its node asks.
                let reader = home.receipt(node_id).ok().flatten().as_ref().and_then(answers::reader_of)?;
                Some(WantedReaders::There(node_id.clone(), reader.record))
            });
            match readers.sweep(wanted, barred, now) {
                Ok(0) => {}
                Ok(count) => info!(count, "readers in the directory put right"),
                Err(error) => debug!("readers are looked at later: {error}"),
            }
        }
        match readers.trouble() {
            Some(why) => problem(troubles, summary, "directory", why),
            None if troubles.settle("directory") => info!("the directory answers again"),
            None => {}
        }
        match readers.late() {
            Some(why) => problem(troubles, summary, "directory's time", &why),
            None if troubles.settle("directory's time") => info!("the directory has time for all there is to do"),
            None => {}
        }
    }
}

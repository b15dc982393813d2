//! The directory's part of a turn: after all else is written, readers are looked at, and what is wrong is told.

use lucia_proto::time::UnixTime;
use tracing::{debug, info};

use super::{Summary, Worker, problem};
use crate::answers;
use crate::directory::readers::Wanted;

impl Worker {
    /// Deletes the readers of barred nodes and makes lost ones again, when it is time or something was barred.
    pub(super) fn readers(&mut self, summary: &mut Summary, now: UnixTime) {
        let Self { home, ledger, readers, troubles, .. } = self;
        if readers.is_due(summary.removed > 0, now) {
            let wanted = ledger.records().nodes().filter_map(|record| {
                let node_id = &record.names.node_id;
                if record.barred_at.is_some() {
                    return Some(Wanted::Gone(node_id.clone()));
                }
                // A receipt that cannot be read is told of when its node asks.
                let reader = home.receipt(node_id).ok().flatten().as_ref().and_then(answers::reader_of)?;
                Some(Wanted::There(node_id.clone(), reader.record))
            });
            match readers.sweep(wanted, now) {
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
    }
}

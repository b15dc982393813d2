//! What time brings about, a little at each [`Controller::tick`].

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lucia_proto::ids::NodeId;

use super::{Controller, journal, lock};
use crate::refusal::chain;

/// Time between two looks through the queue for requests that ran out: each reads every request and answer in it.
const QUEUE_LOOK: Duration = Duration::from_secs(60);

/// Records written in one tick: each waits for the disk, and a fleet's heartbeats are not worth a busy one.
const RECORDS_PER_TICK: usize = 8;

impl Controller {
    pub(super) fn do_tick(&self) {
        self.challenges.forget();
        self.write_freezes();
        self.expire();
        self.follow_journal();
        if self.is_queue_due()
            && let Err(refusal) = lock(&self.queue).expire(self.clock.now())
        {
            tracing::warn!(code = refusal.code.as_str(), "requests of the queue that ran out stay: {refusal}");
        }
        self.write_records(RECORDS_PER_TICK);
    }

    /// Writes every record that says more than its file: before the program ends.
    pub(super) fn do_flush(&self) {
        self.write_records(usize::MAX);
    }

    /// Whether a minute has passed since the last look through the queue.
    fn is_queue_due(&self) -> bool {
        let now = self.clock.since_boot();
        let mut last = lock(&self.queue_looked_at);
        let due = last.is_none_or(|at| now >= at + QUEUE_LOOK);
        if due {
            *last = Some(now);
        }
        due
    }

    fn expire(&self) {
        let now = self.clock.now();
        let mut window = lock(&self.window);
        let over = window.is_some_and(|until| until <= self.clock.since_boot());
        let expired = if journal::is_anything_over(&self.keeper.read(), over, now) {
            self.keeper.change(|journal| journal::expire(journal, over, now))
        } else {
            Ok(())
        };
        if self.keeper.read().window_expires_at.is_none() || over {
            *window = None;
        }
        drop(window);
        if let Err(refusal) = expired {
            tracing::error!(code = refusal.code.as_str(), "what ran out is not written: {refusal}");
        }
    }

    /// Lets go of devices that a move took out of the journal.
    pub(super) fn follow_journal(&self) {
        let journal = self.keeper.read();
        // Unchanged journal, unchanged devices.
        if self.followed.swap(journal.generation, Ordering::Relaxed) == journal.generation {
            return;
        }
        let devices: BTreeSet<&NodeId> = journal.devices.iter().map(|device| &device.device_id).collect();
        self.nodes.retain(|id| devices.contains(id));
    }

    /// The next `most` records after the last one written, so that none waits for ever.
    fn write_records(&self, most: usize) {
        let all = self.nodes.all();
        let mut last = lock(&self.last_written);
        let start = last.as_ref().map_or(0, |last| all.partition_point(|(id, _)| id <= last));
        let mut written = 0;
        for (id, node) in all.iter().cycle().skip(start).take(all.len()) {
            if written == most {
                break;
            }
            // The order of locks everywhere: records, then a node.
            let records = lock(&self.records);
            let mut state = lock(&node.state);
            if !state.dirty {
                continue;
            }
            let Some(record) = state.record.clone() else { continue };
            state.dirty = false;
            // The disk may take its time; heartbeats of this node go on meanwhile.
            drop(state);
            if let Err(error) = records.write(&record) {
                lock(&node.state).dirty = true;
                tracing::warn!(node = %id, "a node's last heartbeat is not written: {}", chain(&error));
                break;
            }
            *last = Some(id.clone());
            written += 1;
        }
    }
}

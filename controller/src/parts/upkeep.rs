//! What time brings about, a little at each [`Controller::tick`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::node::enrollment::IdentityRecord;

use super::nodes::Known;
use super::{Controller, journal};
use crate::lock::lock;
use crate::refusal::chain;

/// Time between two looks through the queue for requests that ran out: each reads every request and answer in it.
const QUEUE_LOOK: Duration = Duration::from_secs(60);

/// Records written in one tick: each waits for the disk, and a fleet's heartbeats are not worth a busy one.
const RECORDS_PER_TICK: usize = 8;
/// Records written at once at the end: one after the other, thousands took longer than systemd waits for an end.
const RECORDS_AT_ONCE: usize = 256;
/// Records with a new start that are written before those. Each start names eight former ones, so a controller that was
/// killed tells a machine that restarts all the time from a copy as long as its file is not nine starts old.
const NEW_STARTS_PER_TICK: usize = 32;

impl Controller {
    /// What time brings about: call it every few seconds. Writes what heartbeats left to write, ends what expired,
    /// collects the worker's answers, forgets used challenges.
    pub fn tick(&self) {
        self.challenges.forget();
        if !self.journal.is_ours() {
            return;
        }
        self.write_freezes();
        self.expire();
        self.follow_journal();
        self.follow_owners();
        self.expire_sign_ins();
        self.expire_tokens();
        self.audit.tick();
        if self.is_queue_due()
            && let Err(refusal) = lock(&self.queue).expire(self.clock.now())
        {
            tracing::warn!(code = refusal.code.as_str(), "requests of the queue that ran out stay: {refusal}");
        }
        self.write_new_starts();
        self.write_records(RECORDS_PER_TICK);
    }

    /// Writes what ticks have left to write: for the end of the program, when no call comes any more.
    pub fn flush(&self) {
        // Each batch but the last has that many at least.
        let batches = self.nodes.len().div_ceil(RECORDS_AT_ONCE);
        let _ = (0..batches).all(|_| self.write_records(RECORDS_AT_ONCE));
        self.audit.note_the_last();
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
        let expired = if journal::is_anything_over(&self.journal.read(), over, now) {
            self.journal.change(|journal| journal::expire(journal, over, now))
        } else {
            Ok(())
        };
        if self.journal.read().window_expires_at.is_none() || over {
            *window = None;
        }
        drop(window);
        if let Err(refusal) = expired {
            tracing::error!(code = refusal.code.as_str(), "what ran out is not written: {refusal}");
        }
    }

    /// Lets go of devices that a move took out of the journal.
    pub(super) fn follow_journal(&self) {
        let journal = self.journal.read();
        // Unchanged journal, unchanged devices.
        if self.followed.swap(journal.generation, Ordering::Relaxed) == journal.generation {
            return;
        }
        let devices: BTreeSet<&NodeId> = journal.devices.iter().map(|device| &device.device_id).collect();
        self.nodes.retain(|id| devices.contains(id));
    }

    /// The next `most` records after the last one looked at, so that none waits for ever. Whether they were written.
    fn write_records(&self, most: usize) -> bool {
        let mut last = lock(&self.last_written);
        let (mut due, mut at, mut left) = (Vec::new(), last.clone(), self.nodes.len());
        // A few at a time: copying the list of thousands each second costs more than their records.
        while due.len() < most && left > 0 {
            let next = self.nodes.after(at.as_ref(), most.min(left));
            left -= next.len().max(1);
            at = next.last().map(|(id, _)| id.clone());
            due.extend(next.into_iter().filter(|(_, node)| lock(&node.state).dirty));
        }
        let written = self.write_batch(&due);
        if written {
            *last = at;
        }
        written
    }

    /// Records that tell of a new start, in the order they did.
    fn write_new_starts(&self) {
        let mut waiting = lock(&self.new_starts);
        let some = waiting.len().min(NEW_STARTS_PER_TICK);
        let ids: Vec<NodeId> = waiting.drain(..some).collect();
        drop(waiting);
        let due: Vec<_> = ids.iter().filter_map(|id| Some((id.clone(), self.nodes.get(id)?))).collect();
        due.iter().for_each(|(_, node)| lock(&node.state).first = false);
        if !self.write_batch(&due) {
            due.iter().for_each(|(_, node)| lock(&node.state).first = true);
            let mut waiting = lock(&self.new_starts);
            due.into_iter().rev().for_each(|(id, _)| waiting.push_front(id));
        }
    }

    /// Writes those of these records that say more than their files, with one wait for the disk.
    fn write_batch(&self, nodes: &[(NodeId, Arc<Known>)]) -> bool {
        // The order of locks everywhere: records, then a node.
        let records = lock(&self.records);
        let drafts: Vec<(&Known, IdentityRecord)> = nodes.iter().filter_map(|(_, node)| drafted(node)).collect();
        let (written_of, drafts): (Vec<&Known>, Vec<IdentityRecord>) = drafts.into_iter().unzip();
        // The disk may take its time; heartbeats of these nodes go on meanwhile.
        let Err(error) = records.write_all(&drafts) else { return true };
        written_of.iter().for_each(|node| lock(&node.state).dirty = true);
        let first = drafts.first().map(|record| record.node_id.to_string()).unwrap_or_default();
        let others = drafts.len().saturating_sub(1);
        tracing::warn!(node = %first, others, "last heartbeats of nodes are not written: {}", chain(&error));
        false
    }
}

/// The record of a node, if it says more than its file; it counts as written from here on.
fn drafted(node: &Known) -> Option<(&Known, IdentityRecord)> {
    let mut state = lock(&node.state);
    if !std::mem::replace(&mut state.dirty, false) {
        return None;
    }
    Some((node, state.record.clone()?))
}

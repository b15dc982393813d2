//! Records: what is known of each node without the journal, written a little at each tick.

use std::sync::Arc;

use lucia_proto::base::bounded::PemText;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::CHAIN_PEM_MAX;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::phase::DevicePhase;

use super::Fleet;
use super::nodes::{Known, NodeState};
use crate::bridge::queue::Wanted;
use crate::lock::lock;
use crate::refusal::{Refusal, chain};

/// Records written in one tick: each waits for the disk, and a fleet's heartbeats are not worth a busy one.
const RECORDS_PER_TICK: usize = 8;
/// Records written at once at the end: one after the other, thousands took longer than systemd waits for an end.
const RECORDS_AT_ONCE: usize = 256;
/// Records with a new start that are written before those. Each start names eight former ones, so a controller that was
/// killed tells a machine that restarts all the time from a copy as long as its file is not nine starts old.
const NEW_STARTS_PER_TICK: usize = 32;

impl Fleet {
    /// Writes what a second may write of records.
    pub(crate) fn write_some(&self) {
        self.write_new_starts();
        self.write_records(RECORDS_PER_TICK);
    }

    /// Writes every record that says more than its file: before the program ends.
    pub(crate) fn flush(&self) {
        // Each batch but the last has that many at least.
        let batches = self.nodes.len().div_ceil(RECORDS_AT_ONCE);
        let _ = (0..batches).all(|_| self.write_records(RECORDS_AT_ONCE));
    }

    /// Keeps the certificate that the worker issued on the node's record.
    pub(crate) fn certified(
        &self,
        wanted: &Wanted,
        certificate_pem: PemText<CHAIN_PEM_MAX>,
        certificate_expires_at: UnixTime,
        phase: DevicePhase,
    ) -> Result<(), Refusal> {
        let id = &wanted.node_id;
        let Some(known) = self.nodes.get(id) else { return Err(Refusal::identity(format!("node {id} was removed"))) };
        // The records' lock keeps writes and removals in order; the node's own is not held while the disk takes its
        // time, so that its heartbeats go on meanwhile.
        let records = lock(&self.records);
        let (record, was_dirty) = {
            let mut state = lock(&known.state);
            let former = state.record.as_ref().filter(|record| record.task_id == wanted.task_id);
            if former.is_some_and(|record| record.certificate_pem == certificate_pem) {
                return Ok(());
            }
            let record = IdentityRecord {
                node_id: id.clone(),
                task_id: wanted.task_id.clone(),
                hostname: wanted.hostname.clone(),
                public_key_fingerprint: wanted.fingerprint,
                certificate_expires_at,
                certificate_pem,
                last_seen_at: former.and_then(|record| record.last_seen_at),
                address: former.and_then(|record| record.address),
                last_heartbeat: former.and_then(|record| record.last_heartbeat.clone()),
                lineage: former.map_or_else(|| self.decided(id), |record| record.lineage.clone()),
            };
            (record, std::mem::replace(&mut state.dirty, false))
        };
        if let Err(error) = records.write(&record) {
            lock(&known.state).dirty |= was_dirty;
            return Err(Refusal::persistence(error));
        }
        let mut state = lock(&known.state);
        match &mut state.record {
            // What its heartbeats said meanwhile stays, and is yet to be written.
            Some(current) if current.task_id == record.task_id => {
                current.certificate_expires_at = record.certificate_expires_at;
                current.certificate_pem = record.certificate_pem;
                current.hostname = record.hostname;
            }
            other => {
                *other = Some(record);
                state.dirty = false;
                state.managed = phase == DevicePhase::Managed;
            }
        }
        Ok(())
    }

    /// Forgets that a device ever had a certificate.
    pub(crate) fn forget_record(&self, id: &NodeId) -> Result<(), Refusal> {
        let records = lock(&self.records);
        if let Some(node) = self.nodes.get(id) {
            *lock(&node.state) = NodeState::default();
        }
        records.remove(id).map_err(Refusal::persistence)
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

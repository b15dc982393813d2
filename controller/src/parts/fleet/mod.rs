//! The nodes: who calls, by one verification a call; what each heartbeat says; who of two holds an identity.
//!
//! A record is loaded at the start and written back whole. Several controllers would have to share the chain value that
//! each start was given last (`clones::Thread`): whoever does not know it takes the next heartbeat for a copy's.

mod barred;
mod calls;
mod clones;
mod counts;
mod heartbeat;
mod holders;
mod nodes;
mod records;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::{Clock, UnixTime};
use lucia_proto::files::journal::Journal;
use lucia_proto::node::enrollment::IdentityRecord;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::lists::Barred;
use lucia_proto::pki::key::{Fingerprint, NodePublicKey};

use super::challenges::Challenges;
use super::journal::Keeper;
use super::open_error::OpenError;
use super::verifier::Verifier;
use crate::lock::{lock, read, write};
use crate::store::records::Records;
use nodes::Nodes;

pub(super) use barred::BarredKeys;
pub(super) use calls::check_form;
pub use counts::NodeCounts;
pub(super) use heartbeat::{AcceptedHeartbeat, CallerKind};
pub(super) use nodes::refused_proof;
pub use view::{CertificateFacts, ServerRow};

/// The nodes.
///
/// Locks are taken in this order: `records`, the state of one node, then one of the others, each held for itself.
pub struct Fleet {
    clock: Arc<dyn Clock>,
    challenges: Arc<Challenges>,
    journal: Arc<Keeper>,
    nodes: Nodes,
    records: Mutex<Records>,
    /// The node whose record was written last.
    last_written: Mutex<Option<NodeId>>,
    /// Nodes whose identity is frozen in memory and not in the journal yet.
    to_freeze: Mutex<BTreeSet<NodeId>>,
    /// Nodes that told a new start which their record's file does not have yet, in the order they did.
    new_starts: Mutex<VecDeque<NodeId>>,
    barred: RwLock<BarredKeys>,
    /// Nodes that a signed order ends and that are to hear so: heard although the worker bars their keys.
    leaving: RwLock<BTreeSet<NodeId>>,
    /// The generation of the journal that `nodes` follows.
    followed: AtomicU64,
    heartbeats: AtomicU64,
}

impl Fleet {
    /// Reads the record of each device of the journal.
    pub(super) fn open(
        (clock, challenges, verifier, journal): (Arc<dyn Clock>, Arc<Challenges>, Arc<Verifier>, Arc<Keeper>),
        files: Records,
    ) -> Result<Self, OpenError> {
        let devices = journal.read();
        let nodes = Nodes::new(verifier);
        let mut known = load_records(&files, &devices)?;
        let mut to_freeze = BTreeSet::new();
        for device in &devices.devices {
            let key = NodePublicKey::from_pem(device.public_key_pem.as_str())
                .map_err(|source| OpenError::Key { id: device.device_id.clone(), source })?;
            let record = known.iter().position(|record| record.node_id == device.device_id);
            let mut record = record.map(|at| known.swap_remove(at));
            if let Some(record) = &mut record
                && clones::settle(&mut record.lineage, device.frozen.as_ref(), device.kept.as_ref())
            {
                to_freeze.insert(device.device_id.clone());
            }
            nodes.add(key, record, device.phase == DevicePhase::Managed);
            if let Some(known) = nodes.get(&device.device_id) {
                lock(&known.state).follow_name(Some(device));
            }
        }
        Ok(Self {
            clock,
            challenges,
            journal,
            nodes,
            records: Mutex::new(files),
            last_written: Mutex::default(),
            to_freeze: Mutex::new(to_freeze),
            new_starts: Mutex::default(),
            barred: RwLock::new(BarredKeys::Before(Vec::new())),
            leaving: RwLock::default(),
            followed: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
        })
    }

    /// Whether this node is there, so that an order for it may still come to it.
    pub(super) fn is_there(&self, id: &NodeId) -> bool {
        self.nodes.get(id).is_some()
    }

    /// When this node was heard last.
    pub(super) fn last_seen(&self, id: &NodeId) -> Option<UnixTime> {
        self.nodes.get(id).and_then(|known| lock(&known.state).record.as_ref()?.last_seen_at)
    }

    /// Adds a device that has no certificate yet, unless it is there.
    pub(super) fn add(&self, key: NodePublicKey) {
        self.nodes.add(key, None, false);
    }

    /// Nodes by how they look from here.
    pub(super) fn counts(&self) -> NodeCounts {
        let (now, journal) = (self.clock.now(), self.journal.read());
        let mut counts = NodeCounts::default();
        for device in journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed) {
            if let Some(known) = self.nodes.get(&device.device_id) {
                let refused = self.refuses(&device.device_id);
                counts.add(&lock(&known.state), refused, device.frozen.is_some(), now);
            }
        }
        counts
    }

    /// Forgets a device; a call that is under way finds it without a record.
    pub(super) fn forget(&self, id: &NodeId) {
        self.nodes.forget(id);
    }

    /// Heartbeats accepted since the start.
    pub(super) fn heartbeats(&self) -> u64 {
        self.heartbeats.load(Ordering::Relaxed)
    }

    /// Which keys the worker bars from now on.
    pub(super) fn bar(&self, keys: BarredKeys) {
        *write(&self.barred) = keys;
    }

    /// The list of barred keys that was verified last.
    pub(super) fn barred(&self) -> Option<Arc<Barred>> {
        read(&self.barred).verified()
    }

    /// Which nodes a signed order ends that is not at its own end.
    pub(super) fn set_leaving(&self, leaving: BTreeSet<NodeId>) {
        *write(&self.leaving) = leaving;
    }

    /// Whether the worker bars this key.
    pub(super) fn bars(&self, key: &Fingerprint) -> bool {
        read(&self.barred).has(key)
    }

    /// Whether this node is refused whatever the journal says of it: the worker bars its key, and no order that it is to
    /// hear of ends it just now.
    pub(super) fn refuses(&self, id: &NodeId) -> bool {
        let key = self.nodes.get(id).map(|known| known.key.fingerprint());
        key.is_some_and(|key| self.bars(&key)) && !read(&self.leaving).contains(id)
    }

    /// Whether the next heartbeat of this node, if it is accepted, moves the journal and so waits for the disk.
    pub fn heartbeat_waits(&self, id: &NodeId) -> bool {
        self.nodes.get(id).is_some_and(|known| {
            let state = lock(&known.state);
            state.record.is_some() && (!state.managed || state.renaming().is_some())
        })
    }

    /// Where nodes last called from, as their records say.
    pub fn node_addresses(&self) -> Vec<IpAddr> {
        let nodes = self.nodes.all();
        nodes.iter().filter_map(|(_, node)| lock(&node.state).record.as_ref()?.address).collect()
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
}

/// The records of the journal's devices. One that the journal does not know is what a crash left of a removal; one of
/// another installation is what it left of an approval: neither may be inherited.
fn load_records(files: &Records, journal: &Journal) -> Result<Vec<IdentityRecord>, OpenError> {
    let (mut kept, mut stale) = (Vec::new(), Vec::new());
    for record in files.load().map_err(OpenError::Record)? {
        let known = journal.device(&record.node_id).is_some_and(|device| {
            device.fingerprint == record.public_key_fingerprint
                && device.task_id.as_ref() == Some(&record.task_id)
                && [&device.hostname, &device.former_hostname]
                    .into_iter()
                    .flatten()
                    .any(|name| *name == record.hostname)
        });
        if known { kept.push(record) } else { stale.push(record.node_id) }
    }
    for id in stale {
        tracing::warn!(node = %id, "the record of a removed node is deleted");
        files.remove(&id).map_err(OpenError::Record)?;
    }
    Ok(kept)
}

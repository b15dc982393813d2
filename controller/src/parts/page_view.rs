//! What the page shows beyond what the calls answer: each node with its newest numbers and its last hour's load, its
//! certificate as it was read, the fleet, the roster.

use std::sync::Arc;

use lucia_people::host_api::{NodeLine, OrdersHeld, Sample};
use lucia_people::why::{RefusedOrder, refused_orders};
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::DirectoryReport;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::orders::roster::VerifiedRoster;
use lucia_proto::pki::certificate::{Leaf, LeafRules};

use super::Controller;
use super::view::line;
use crate::lock::lock;
use crate::store::samples::LOADS;

/// A node of the list.
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// What the calls say of it.
    pub line: NodeLine,
    /// Its newest numbers, if they are of the last hour.
    pub sample: Option<Sample>,
    /// Its load over the last hour, oldest first: the mean of each five minutes.
    pub loads: [Option<f64>; LOADS],
    /// How it stands to its directory, at the last heartbeat.
    pub directory: Option<DirectoryReport>,
    /// How it stands to orders.
    pub orders: Option<OrdersHeld>,
    /// Orders for it that were refused.
    pub refused: Vec<RefusedOrder>,
}

/// A node's last certificate, as the worker answered with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Since when it counts.
    pub from: UnixTime,
    /// Until when.
    pub until: UnixTime,
    /// Its number, in hex.
    pub serial: String,
    /// The SHA-256 of it.
    pub sha256: Digest,
}

impl Controller {
    /// Every node by hostname.
    pub fn servers(&self) -> Vec<ServerRow> {
        let now = self.clock.now();
        // The orders first, as everywhere; the newest are those that `why` goes by.
        let mut orders = self.drafts(None).map(|view| refused_orders(&view.drafts)).unwrap_or_default();
        let journal = self.journal.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut servers: Vec<_> = managed
            .filter_map(|device| {
                let refused = orders.remove(&device.device_id).unwrap_or_default();
                let barred = self.refuses(&device.device_id);
                self.with_state(device, |state| {
                    let (sample, loads) = (state.samples.last(now), state.samples.loads(now));
                    let heartbeat = state.record.as_ref().and_then(|record| record.last_heartbeat.as_ref());
                    let report = heartbeat.and_then(|heartbeat| heartbeat.orders.as_ref());
                    Some(ServerRow {
                        line: line(device, state, barred, now)?,
                        sample,
                        loads,
                        directory: heartbeat.and_then(|heartbeat| heartbeat.directory.clone()),
                        orders: report.map(|report| self.held(&device.device_id, report)),
                        refused,
                    })
                })
            })
            .collect();
        servers.sort_by(|a, b| a.line.hostname.cmp(&b.line.hostname));
        self.with_requests(servers.iter_mut().map(|row| &mut row.line), now);
        servers
    }

    /// The certificate of a node; nothing where it has none, or none that is its own.
    pub fn certificate_of(&self, id: &NodeId) -> Option<CertificateFacts> {
        let known = self.nodes.get(id)?;
        let record = lock(&known.state).record.clone()?;
        let rules = LeafRules {
            node_id: &record.node_id,
            hostname: &record.hostname,
            fingerprint: &record.public_key_fingerprint,
        };
        let leaf = Leaf::parse(record.certificate_pem.as_str()).ok()?.check(&rules).ok()?;
        Some(CertificateFacts {
            from: leaf.not_before(),
            until: leaf.not_after(),
            serial: leaf.serial(),
            sha256: leaf.sha256(),
        })
    }

    /// The roster that is held.
    pub fn verified_roster(&self) -> Option<Arc<VerifiedRoster>> {
        self.owners.roster()
    }
}

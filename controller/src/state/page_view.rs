//! What the page shows beyond what the calls answer: each node with its newest numbers, the fleet, the roster.

use std::sync::Arc;

use lucia_proto::digest::Digest;
use lucia_proto::host_api::{NodeLine, Sample};
use lucia_proto::phase::DevicePhase;
use lucia_proto::roster::VerifiedRoster;

use super::Controller;
use super::view::line;

impl Controller {
    /// Every node by hostname, with its newest numbers.
    pub fn servers(&self) -> Vec<(NodeLine, Option<Sample>)> {
        let now = self.clock.now();
        let journal = self.keeper.read();
        let managed = journal.devices.iter().filter(|device| device.phase == DevicePhase::Managed);
        let mut servers: Vec<_> = managed
            .filter_map(|device| {
                self.with_state(device, |state| Some((line(device, state, now)?, state.samples.last(now))))
            })
            .collect();
        servers.sort_by(|(a, _), (b, _)| a.hostname.cmp(&b.hostname));
        servers
    }

    /// The SHA-256 of the root: what orders name the fleet by.
    pub fn fleet(&self) -> Digest {
        self.nodes.root().sha256()
    }

    /// The roster that is held.
    pub fn verified_roster(&self) -> Option<Arc<VerifiedRoster>> {
        self.owners.roster()
    }
}

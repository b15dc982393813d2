//! `release-lapse`: a node that was off for too long may renew.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::body::{Actor, Flow, OrderBody, one_key, told};
use crate::base::bounded::OutOfBounds;
use crate::base::ids::{BootId, NodeId};
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::pki::key::Fingerprint;

/// Body of `release-lapse`. The worker compares name, key and end with its ledger; the rest is shown and not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReleaseLapse {
    /// The node's key, whole.
    pub fingerprint: Fingerprint,
    /// Its name.
    pub hostname: Hostname,
    /// When its last certificate ended.
    pub ended_at: UnixTime,
    /// Where it called from before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_address: Option<IpAddr>,
    /// Where it calls from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Its present boot, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<BootId>,
}

impl OrderBody for ReleaseLapse {
    const WORD: &'static str = "release-lapse";
    const TITLE: &'static str = "Let a lapsed node renew";
    const FLOW: Flow = Flow::Once;
    const ACTORS: &'static [Actor] = &[Actor::Worker];

    fn fits(&self, nodes: &[NodeId], _: Option<&str>) -> Result<(), OutOfBounds> {
        one_key(nodes, &self.fingerprint)
    }

    fn words(&self, lines: &mut Vec<String>) {
        lines.push(format!("Lets {} renew, whose last certificate ended at {}", self.hostname, self.ended_at));
        lines.push(format!("  {}", self.fingerprint));
        lines.push(format!("  called from {} before", told(self.former_address.as_ref())));
        lines.push(format!("  calls from {} now", told(self.address.as_ref())));
        lines.push(format!("  boot {}", told(self.boot_id.as_ref())));
    }

    fn about(&self, _: Option<&Self>) -> String {
        self.hostname.to_string()
    }

    fn hostname(&self) -> Option<&Hostname> {
        Some(&self.hostname)
    }

    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &super::body::OrderSample) -> Self {
        Self {
            fingerprint: of.fingerprint,
            hostname: of.hostname.clone(),
            ended_at: UnixTime::from_secs(of.now.secs() - 40 * 24 * 3600),
            former_address: Some([192, 0, 2, 7].into()),
            address: Some([198, 51, 100, 7].into()),
            boot_id: None,
        }
    }
}

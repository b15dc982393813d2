//! When the worker was told last how far the audit reaches.

use std::time::Duration;

use lucia_proto::base::limits::AUDIT_HEAD_INTERVAL;
use lucia_proto::files::audit_chain::AuditChain;

/// What lies in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandedOver {
    /// What was written, and when. Nothing since the start: what is there may be a former controller's.
    pub(super) last: Option<(AuditChain, Duration)>,
}

impl HandedOver {
    /// Whether it is written now: at the start, and with news a while after the last time.
    pub(super) fn is_due(&self, chain: AuditChain, since_boot: Duration) -> bool {
        self.last.is_none_or(|(written, at)| written != chain && since_boot >= at.saturating_add(AUDIT_HEAD_INTERVAL))
    }
}

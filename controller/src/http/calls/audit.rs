//! What happened, and who did it.

use lucia_people::audit::AuditView;
use lucia_people::host_api::EventsView;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::AUDIT_PER_ANSWER_MAX;
use tokio::sync::watch;

use super::asked::Asked;
use super::query::Wanted;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking, stopped};

/// What came after `after`; with `wait`, not before there is something or that time is over.
pub(super) async fn events(edge: &Edge, asked: &Asked<'_>) -> Result<EventsView, ApiError> {
    let Wanted { after, limit, wait } = Wanted::parse(asked.query())?;
    if !wait.is_zero() {
        let mut changed = edge.shared.parts.journal.events_changed();
        let mut stop = edge.shared.stop.clone();
        // Whatever ends the wait, the answer is what there is: an empty one says "nothing yet".
        tokio::select! {
            () = newer(&mut changed, after) => {}
            () = stopped(&mut stop) => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    blocking(edge, move |parts| Ok(parts.journal.events(after, limit))).await
}

/// Waits until there is an event after `after`; for ever when there never will be one.
async fn newer(changed: &mut watch::Receiver<u64>, after: u64) {
    if changed.wait_for(|newest| *newest > after).await.is_err() {
        std::future::pending().await
    }
}

/// What came after `after`.
pub(super) async fn entries(edge: &Edge, asked: &Asked<'_>) -> Result<AuditView, ApiError> {
    let Wanted { after, limit, wait } = Wanted::parse(asked.query())?;
    if !wait.is_zero() {
        return Err(ApiError::new(Code::InvalidOnboardingRequest, "the audit is asked for with after and limit alone"));
    }
    blocking(edge, move |parts| parts.audit.entries(after, limit.min(AUDIT_PER_ANSWER_MAX))).await
}

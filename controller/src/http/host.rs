//! `/api/host`: what operator and owners see and order, by the same functions.

use std::time::Duration;

use lucia_people::audit::act_of;
use lucia_people::host_api::{
    ApproveForm, CountersView, EVENTS_PER_ANSWER_MAX, EVENTS_WAIT_MAX, KeepForm, OpenWindow, RenameForm, StatusView,
};
use lucia_proto::api::Endpoint;
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::NODES_PER_ANSWER_MAX;
use lucia_proto::base::names::Hostname;
use tokio::sync::watch;

use super::error::ApiError;
use super::{Edge, HttpAnswer, blocking, stopped};
use crate::parts::{AuditedChange, By, Parts, Refusal};

/// A change that `by` asks for by this row, of this device or node if it is about one. It is noted in the same turn: a
/// caller who goes away ends neither.
async fn changing<T, F>(edge: &Edge, by: &By, endpoint: Endpoint, id: Option<&NodeId>, call: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Parts, &str) -> Result<T, Refusal> + Send + 'static,
{
    let (by, id) = (by.clone(), id.cloned());
    let unknown = || ApiError::new(Code::NotFound, "there is nothing at this path");
    let act = AuditedChange::new(act_of(endpoint).ok_or_else(unknown)?, id);
    blocking(edge, move |controller| controller.audit.audited(&by, &act, || call(controller, &by.actor()))).await
}

/// `GET /api/host/onboarding`.
pub(super) async fn onboarding(edge: &Edge) -> Result<HttpAnswer, ApiError> {
    blocking(edge, |controller| Ok(controller.enrollment.onboarding())).await.map(|view| HttpAnswer::ok(&view))
}

/// `POST /api/host/onboarding/window`.
pub(super) async fn open_window(edge: &Edge, form: OpenWindow, by: &By) -> Result<HttpAnswer, ApiError> {
    changing(edge, by, Endpoint::OpenWindow, None, move |controller, actor| {
        controller.enrollment.open_window(form.minutes, actor)
    })
    .await?;
    onboarding(edge).await
}

/// `DELETE /api/host/onboarding/window`.
pub(super) async fn close_window(edge: &Edge, by: &By) -> Result<HttpAnswer, ApiError> {
    changing(edge, by, Endpoint::CloseWindow, None, move |controller, actor| controller.enrollment.close_window(actor))
        .await?;
    onboarding(edge).await
}

/// `POST /api/host/devices/{id}/approve-install`.
pub(super) async fn approve(edge: &Edge, id: &NodeId, form: ApproveForm, by: &By) -> Result<HttpAnswer, ApiError> {
    let approved = id.clone();
    changing(edge, by, Endpoint::Approve, Some(id), move |controller, actor| {
        controller.enrollment.approve(&approved, &form, actor)
    })
    .await?;
    onboarding(edge).await
}

/// `POST /api/host/nodes/{id}/rename`.
pub(super) async fn rename(edge: &Edge, id: &NodeId, form: RenameForm, by: &By) -> Result<HttpAnswer, ApiError> {
    let renamed = id.clone();
    changing(edge, by, Endpoint::Rename, Some(id), move |controller, actor| {
        controller.enrollment.rename(&renamed, &form, actor)
    })
    .await?;
    node(edge, id).await
}

/// `POST /api/host/nodes/{id}/clone/keep`.
pub(super) async fn keep_clone(edge: &Edge, id: &NodeId, form: KeepForm, by: &By) -> Result<HttpAnswer, ApiError> {
    let kept = id.clone();
    changing(edge, by, Endpoint::KeepClone, Some(id), move |controller, actor| {
        controller.fleet.keep_clone(&kept, &form, actor)
    })
    .await?;
    node(edge, id).await
}

/// `reject`, `dismiss`, `restore`, `split` and the removal: a change of one device or node that needs no form.
pub(super) async fn change(
    edge: &Edge,
    endpoint: Endpoint,
    id: &NodeId,
    by: &By,
    change: fn(&Parts, &NodeId, &str) -> Result<(), Refusal>,
) -> Result<HttpAnswer, ApiError> {
    let changed = id.clone();
    changing(edge, by, endpoint, Some(id), move |controller, actor| change(controller, &changed, actor)).await?;
    onboarding(edge).await
}

/// `GET /api/host/status`.
pub(super) async fn status(edge: &Edge) -> Result<HttpAnswer, ApiError> {
    let (worker_available, counters, (_, audit_bytes)) = blocking(edge, |controller| {
        Ok((controller.enrollment.onboarding().worker.ready, controller.counters(), controller.audit.size()))
    })
    .await?;
    Ok(HttpAnswer::ok(&StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: edge.shared.started_at,
        certificate_expires_at: edge.shared.certificate.not_after(),
        worker_available,
        audit_bytes,
        counters: CountersView {
            public_key_operations: counters.public_key_operations,
            heartbeats: counters.heartbeats,
            used_challenges: counters.used_challenges,
            refusals: edge.shared.refusals.totals().into_iter().filter(|(_, count)| *count > 0).collect(),
        },
    }))
}

/// `GET /api/host/nodes`: those whose name comes after `after`, in the order of names.
pub(super) async fn nodes(edge: &Edge, query: Option<&str>) -> Result<HttpAnswer, ApiError> {
    let (after, limit) = part_of_nodes(query.unwrap_or_default())?;
    blocking(edge, move |controller| Ok(controller.nodes_after(after.as_ref(), limit)))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

/// Reads `after=HOSTNAME` and `limit=1..1000`, each once at most.
fn part_of_nodes(query: &str) -> Result<(Option<Hostname>, usize), ApiError> {
    let refused = || {
        let message =
            format!("nodes are asked for with after, a hostname, and limit, 1 to {NODES_PER_ANSWER_MAX}, once each");
        ApiError::new(Code::InvalidOnboardingRequest, &message)
    };
    let (mut after, mut limit) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("after", name)) if after.is_none() => after = Some(name.parse().map_err(|_| refused())?),
            Some(("limit", number)) if limit.is_none() => {
                let plain = number.len() <= 4 && number.bytes().all(|b| b.is_ascii_digit());
                let number = plain.then(|| number.parse().ok()).flatten();
                limit = Some(number.filter(|number| (1..=NODES_PER_ANSWER_MAX).contains(number)).ok_or_else(refused)?);
            }
            _ => return Err(refused()),
        }
    }
    Ok((after, limit.unwrap_or(NODES_PER_ANSWER_MAX)))
}

/// `GET /api/host/nodes/{id}`.
pub(super) async fn node(edge: &Edge, id: &NodeId) -> Result<HttpAnswer, ApiError> {
    let id = id.clone();
    blocking(edge, move |controller| controller.node(&id)).await.map(|view| HttpAnswer::ok(&view))
}

/// `GET /api/host/events`: what came after `after`; with `wait`, not before there is something or that time is over.
pub(super) async fn events(edge: &Edge, query: Option<&str>) -> Result<HttpAnswer, ApiError> {
    let Wanted { after, limit, wait } = Wanted::parse(query.unwrap_or_default())?;
    let controller = &edge.shared.controller;
    if !wait.is_zero() {
        let mut changed = controller.journal.events_changed();
        let mut stop = edge.shared.stop.clone();
        // Whatever ends the wait, the answer is what there is: an empty one says "nothing yet".
        tokio::select! {
            () = newer(&mut changed, after) => {}
            () = stopped(&mut stop) => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    blocking(edge, move |controller| Ok(controller.journal.events(after, limit)))
        .await
        .map(|view| HttpAnswer::ok(&view))
}

/// Waits until there is an event after `after`; for ever when there never will be one.
async fn newer(changed: &mut watch::Receiver<u64>, after: u64) {
    if changed.wait_for(|newest| *newest > after).await.is_err() {
        std::future::pending().await
    }
}

/// What events are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) after: u64,
    pub(super) limit: usize,
    pub(super) wait: Duration,
}

impl Wanted {
    /// Reads `after=N`, `limit=1..500` and `wait=0..25`, each once at most.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let (mut after, mut limit, mut wait) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = Some(value)
                .filter(|text| text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|text| text.parse::<u64>().ok())
                // No number of ours is one that JSON does not keep.
                .filter(|number| *number <= 1 << 53);
            let slot = match name {
                "after" => &mut after,
                "limit" => &mut limit,
                "wait" => &mut wait,
                _ => return Err(refused("a query of after, limit and wait alone")),
            };
            match number {
                Some(number) if slot.is_none() => *slot = Some(number),
                _ => return Err(refused("after, limit and wait once each, as numbers")),
            }
        }
        let limit = usize::try_from(limit.unwrap_or(100)).unwrap_or(usize::MAX);
        if limit == 0 || limit > EVENTS_PER_ANSWER_MAX {
            return Err(refused("limit must be 1 to 500"));
        }
        let wait = Duration::from_secs(wait.unwrap_or(0));
        if wait > EVENTS_WAIT_MAX {
            return Err(refused("wait must be 0 to 25 seconds"));
        }
        Ok(Self { after: after.unwrap_or(0), limit, wait })
    }
}

fn refused(rule: &str) -> ApiError {
    ApiError::new(Code::InvalidOnboardingRequest, &format!("events are asked for with {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AP-9
    #[test]
    fn a_query_for_nodes_is_a_name_and_a_number() {
        let name = |text: &str| text.parse::<Hostname>().unwrap();
        for (query, want) in [
            ("", Some((None, 1000))),
            ("after=web-1", Some((Some(name("web-1")), 1000))),
            ("limit=7&after=web-1", Some((Some(name("web-1")), 7))),
            ("limit=1000", Some((None, 1000))),
            ("limit=1001", None),
            ("limit=0", None),
            ("limit=+7", None),
            ("limit=", None),
            ("limit", None),
            ("limit=7&limit=7", None),
            ("after=", None),
            ("after=WEB", None),
            ("after=a&after=b", None),
            ("wait=1", None),
        ] {
            assert_eq!(part_of_nodes(query).ok(), want, "{query}");
        }
    }

    // spec: HT-13
    #[test]
    fn a_query_for_events_is_three_numbers() {
        let wanted = |after, limit, wait| Some(Wanted { after, limit, wait: Duration::from_secs(wait) });
        for (query, want) in [
            ("", wanted(0, 100, 0)),
            ("after=7", wanted(7, 100, 0)),
            ("wait=25&limit=500&after=0", wanted(0, 500, 25)),
            ("wait=26", None),
            ("limit=0", None),
            ("limit=501", None),
            ("after=-1", None),
            ("after=", None),
            ("after", None),
            ("after=1&after=2", None),
            ("after=9007199254740992", wanted(1 << 53, 100, 0)),
            ("after=9007199254740993", None),
            ("after=99999999999999999999", None),
            ("token=x", None),
            ("AFTER=1", None),
            ("after=%31", None),
        ] {
            assert_eq!(Wanted::parse(query).ok(), want, "{query}");
        }
    }
}

//! Window, waiting machines and nodes.

use lucia_people::agents::AgentsView;
use lucia_people::calls::on;
use lucia_people::host_api::{CountersView, NodeView, NodesView, OnboardingView, StatusView};
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;

use super::asked::{Asked, Asking, changing};
use super::query::part_of_nodes;
use crate::http::error::ApiError;
use crate::http::site::{Edge, blocking};
use crate::parts::{Parts, Refusal};

pub(super) async fn onboarding(edge: &Edge) -> Result<OnboardingView, ApiError> {
    blocking(edge, |parts| Ok(parts.enrollment.onboarding())).await
}

pub(super) async fn open_window(edge: &Edge, asked: &Asked<'_>) -> Result<OnboardingView, ApiError> {
    let form = asked.read::<on::OpenWindow>()?;
    changing(edge, asked, move |parts, actor| parts.enrollment.open_window(form.minutes, actor)).await?;
    onboarding(edge).await
}

pub(super) async fn close_window(edge: &Edge, asked: &Asked<'_>) -> Result<OnboardingView, ApiError> {
    changing(edge, asked, |parts, actor| parts.enrollment.close_window(actor)).await?;
    onboarding(edge).await
}

pub(super) async fn approve(edge: &Edge, asked: &Asked<'_>) -> Result<OnboardingView, ApiError> {
    let (id, form) = (asked.id()?.clone(), asked.read::<on::Approve>()?);
    changing(edge, asked, move |parts, actor| parts.enrollment.approve(&id, &form, actor)).await?;
    onboarding(edge).await
}

/// A change of one device or node that needs no form.
pub(super) async fn change(
    edge: &Edge,
    asked: &Asked<'_>,
    change: fn(&Parts, &NodeId, &str) -> Result<(), Refusal>,
) -> Result<OnboardingView, ApiError> {
    let id = asked.id()?.clone();
    changing(edge, asked, move |parts, actor| change(parts, &id, actor)).await?;
    onboarding(edge).await
}

pub(super) async fn rename(edge: &Edge, asked: &Asked<'_>) -> Result<NodeView, ApiError> {
    let (id, form) = (asked.id()?.clone(), asked.read::<on::Rename>()?);
    changing(edge, asked, move |parts, actor| parts.enrollment.rename(&id, &form, actor)).await?;
    node(edge, asked).await
}

pub(super) async fn keep_clone(edge: &Edge, asked: &Asked<'_>) -> Result<NodeView, ApiError> {
    let (id, form) = (asked.id()?.clone(), asked.read::<on::KeepClone>()?);
    changing(edge, asked, move |parts, actor| parts.fleet.keep_clone(&id, &form, actor)).await?;
    node(edge, asked).await
}

pub(super) async fn status(edge: &Edge) -> Result<StatusView, ApiError> {
    let (worker_available, counters, (_, audit_bytes)) =
        blocking(edge, |parts| Ok((parts.enrollment.worker().ready, parts.counters(), parts.audit.size()))).await?;
    Ok(StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: edge.shared.started_at,
        certificate_expires_at: edge.shared.certificate.not_after(),
        worker_available,
        audit_bytes,
        counters: CountersView {
            refusals: edge.shared.refusals.totals().into_iter().filter(|(_, count)| *count > 0).collect(),
            ..counters
        },
    })
}

/// Those whose name comes after `after`, in the order of names.
pub(super) async fn nodes(edge: &Edge, asked: &Asked<'_>) -> Result<NodesView, ApiError> {
    let (after, limit) = part_of_nodes(asked.query())?;
    blocking(edge, move |parts| Ok(parts.nodes_after(after.as_ref(), limit))).await
}

/// The same of their agents.
pub(super) async fn agents(edge: &Edge, asked: &Asked<'_>) -> Result<AgentsView, ApiError> {
    let (after, limit) = part_of_nodes(asked.query())?;
    blocking(edge, move |parts| Ok(parts.fleet.agents_after(after.as_ref(), limit))).await
}

pub(super) async fn node(edge: &Edge, asked: &Asked<'_>) -> Result<NodeView, ApiError> {
    let id = asked.id()?;
    let of = id.clone();
    blocking(edge, move |parts| parts.node(&of)).await.map_err(|error| match asked.by {
        // Who removed one, and by which order, is of other scopes.
        Asking::Token if error.code == Code::UnknownNode => Refusal::unknown_node(id).into(),
        Asking::Token | Asking::Person(_) | Asking::Stranger(_) => error,
    })
}

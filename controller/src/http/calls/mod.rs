//! From a row of the tables to the one function that answers it: a file a noun.
//!
//! Every row is named: a new one does not compile until somebody decided.

mod asked;
mod audit;
mod fleet;
mod machines;
mod orders;
mod owners;
mod query;
mod sign_in;
mod tokens;

use http::StatusCode;
use http::header::HeaderMap;
use lucia_people::calls::{PeopleCall, on};
use lucia_proto::calls::Endpoint;

use self::asked::{Asked, not_here, whole};
use super::answer::HttpAnswer;
use super::error::ApiError;
use super::page;
use super::route::{RouteTarget, Row};
use super::site::Edge;

pub(super) use self::asked::Asking;

/// Answers a call that was routed.
///
/// # Errors
/// What the call refuses.
pub(super) async fn answer(
    edge: &Edge,
    target: &RouteTarget,
    headers: &HeaderMap,
    body: &[u8],
    by: &Asking,
) -> Result<HttpAnswer, ApiError> {
    let asked = Asked { target, headers, body, by };
    match target.row {
        Row::Node(call) => machine(edge, call, &asked).await,
        Row::People(call) => people(edge, call, &asked).await,
        Row::Page(page) => page::answer(edge, page, target, headers).await,
    }
}

async fn machine(edge: &Edge, call: Endpoint, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    use lucia_proto::calls::on;
    match call {
        Endpoint::BootChallenge => whole::<on::BootChallenge>(machines::boot_challenge(edge, asked)),
        Endpoint::Discover => whole::<on::Discover>(machines::discover(edge, asked).await),
        Endpoint::DeviceChallenge | Endpoint::NodeChallenge => {
            whole::<on::NodeChallenge>(machines::challenge(edge, asked))
        }
        Endpoint::DeviceState => whole::<on::DeviceState>(machines::device_state(edge, asked).await),
        Endpoint::Installation => whole::<on::Installation>(machines::installation(edge, asked).await),
        Endpoint::Grant => whole::<on::Grant>(machines::grant(edge, asked).await),
        Endpoint::Progress => whole::<on::Progress>(machines::progress(edge, asked).await),
        Endpoint::Enroll => machines::enroll(edge, asked).await,
        Endpoint::Heartbeat => whole::<on::Heartbeat>(machines::heartbeat(edge, asked).await),
        Endpoint::Renew => machines::renew(edge, asked).await,
    }
}

async fn people(edge: &Edge, call: PeopleCall, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    match call {
        PeopleCall::Description => Ok(described()),
        PeopleCall::Onboarding => whole::<on::Onboarding>(fleet::onboarding(edge).await),
        PeopleCall::OpenWindow => whole::<on::OpenWindow>(fleet::open_window(edge, asked).await),
        PeopleCall::CloseWindow => whole::<on::CloseWindow>(fleet::close_window(edge, asked).await),
        PeopleCall::Approve => whole::<on::Approve>(fleet::approve(edge, asked).await),
        PeopleCall::Reject => {
            whole::<on::Reject>(fleet::change(edge, asked, |parts, id, actor| parts.enrollment.reject(id, actor)).await)
        }
        PeopleCall::Dismiss => whole::<on::Dismiss>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.dismiss(id, actor)).await,
        ),
        PeopleCall::Restore => whole::<on::Restore>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.restore(id, actor)).await,
        ),
        PeopleCall::Remove => {
            whole::<on::Remove>(fleet::change(edge, asked, |parts, id, actor| parts.enrollment.remove(id, actor)).await)
        }
        PeopleCall::SplitClone => whole::<on::SplitClone>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.split_clone(id, actor)).await,
        ),
        PeopleCall::KeepClone => whole::<on::KeepClone>(fleet::keep_clone(edge, asked).await),
        PeopleCall::Rename => whole::<on::Rename>(fleet::rename(edge, asked).await),
        PeopleCall::Status => whole::<on::Status>(fleet::status(edge).await),
        PeopleCall::Nodes => whole::<on::Nodes>(fleet::nodes(edge, asked).await),
        PeopleCall::Agents => whole::<on::Agents>(fleet::agents(edge, asked).await),
        PeopleCall::Node => whole::<on::Node>(fleet::node(edge, asked).await),
        PeopleCall::Events => whole::<on::Events>(audit::events(edge, asked).await),
        PeopleCall::Audit => whole::<on::Audit>(audit::entries(edge, asked).await),
        PeopleCall::Challenge => whole::<on::Challenge>(owners::challenge(edge, asked)),
        PeopleCall::Apply => whole::<on::Apply>(owners::apply(edge, asked).await),
        PeopleCall::Me => whole::<on::Me>(owners::me(edge, asked)),
        PeopleCall::Roster => whole::<on::Roster>(owners::roster(edge).await),
        PeopleCall::Names => whole::<on::Names>(owners::names(edge).await),
        PeopleCall::Drafts => whole::<on::Drafts>(orders::drafts(edge, asked).await),
        PeopleCall::AddDraft => whole::<on::AddDraft>(orders::add_draft(edge, asked).await),
        PeopleCall::MakeDraft => whole::<on::MakeDraft>(orders::make_draft(edge, asked).await),
        PeopleCall::Draft => whole::<on::Draft>(orders::draft(edge, asked).await),
        PeopleCall::Sign => whole::<on::Sign>(orders::sign(edge, asked).await),
        PeopleCall::DropDraft => whole::<on::DropDraft>(orders::drop_draft(edge, asked).await),
        PeopleCall::SignIn => sign_in::sign_in(edge, asked).await,
        PeopleCall::Sessions => whole::<on::Sessions>(sign_in::sessions(edge, asked).await),
        PeopleCall::EndSessions | PeopleCall::EndSession => sign_in::end(edge, asked).await,
        PeopleCall::AskPasskey => whole::<on::AskPasskey>(sign_in::ask(edge, asked).await),
        PeopleCall::Passkeys => whole::<on::Passkeys>(sign_in::passkeys(edge, asked).await),
        PeopleCall::ApprovePasskey => whole::<on::ApprovePasskey>(sign_in::approve(edge, asked).await),
        PeopleCall::RemovePasskey => whole::<on::RemovePasskey>(sign_in::remove(edge, asked).await),
        PeopleCall::Tokens => whole::<on::Tokens>(tokens::all(edge, asked).await),
        PeopleCall::MakeToken => whole::<on::MakeToken>(tokens::make(edge, asked).await),
        PeopleCall::RemoveToken => whole::<on::RemoveToken>(tokens::remove(edge, asked).await),
        // A stream is no answer that ends: `Edge::answer` begins it.
        PeopleCall::Stream => Err(not_here()),
    }
}

/// The description of every call that people make; how it is made is in `http/openapi`.
pub(super) const DESCRIPTION: &[u8] = include_bytes!("../../../openapi.json");

/// `GET /api/openapi.json`: public, and the same everywhere.
fn described() -> HttpAnswer {
    HttpAnswer { status: StatusCode::OK, body: DESCRIPTION.into(), headers: Vec::new() }
}

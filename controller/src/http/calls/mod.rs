//! From a row of the tables to the one function that answers it: a file a noun.
//!
//! Every row is named: a new one does not compile until somebody decided.

mod audit;
mod fleet;
mod machines;
mod orders;
mod owners;
mod query;
mod sign_in;
mod tokens;

use std::net::IpAddr;

use http::StatusCode;
use http::header::HeaderMap;
use lucia_people::calls::{People, on};
use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
use lucia_proto::calls::{Call, Endpoint};
use lucia_proto::node::report::HeaderProof;
use lucia_proto::pki::key::VerificationCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::route::{RouteTarget, Row};
use super::{Edge, HttpAnswer, blocking, edge, page};
use crate::parts::{AuditedChange, By, Parts, Refusal};

pub(super) use owners::prove;

/// Who makes a call.
pub(super) enum Asking {
    /// Nobody of the roster: a machine, or somebody who is met with.
    Stranger(IpAddr),
    /// The operator, or somebody of the roster.
    Person(By),
    /// A program with an automation token: it knows nobody and changes nothing.
    Token,
}

/// A call whose head, body and caller were judged.
struct Asked<'a> {
    target: &'a RouteTarget,
    headers: &'a HeaderMap,
    body: &'a [u8],
    by: &'a Asking,
}

impl Asked<'_> {
    fn id(&self) -> Result<&NodeId, ApiError> {
        self.target.id()
    }

    fn code(&self) -> Result<&VerificationCode, ApiError> {
        self.target.code()
    }

    fn query(&self) -> &str {
        self.target.query.as_deref().unwrap_or_default()
    }

    fn read<C: Call<Request: DeserializeOwned>>(&self) -> Result<C::Request, ApiError> {
        edge::read::<C>(self.body)
    }

    fn proof(&self) -> Result<HeaderProof, ApiError> {
        edge::proof(self.headers)
    }

    fn by(&self) -> Result<&By, ApiError> {
        match self.by {
            Asking::Person(by) => Ok(by),
            Asking::Stranger(_) | Asking::Token => Err(not_here()),
        }
    }

    fn from(&self) -> Result<IpAddr, ApiError> {
        match self.by {
            Asking::Stranger(from) => Ok(*from),
            Asking::Person(_) | Asking::Token => Err(not_here()),
        }
    }
}

fn not_here() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path").closing()
}

/// A change that somebody asks for by this row, and the note of it in the same turn: a caller who goes away ends neither.
async fn changing<T, F>(edge: &Edge, asked: &Asked<'_>, call: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&Parts, &str) -> Result<T, Refusal> + Send + 'static,
{
    let (by, id) = (asked.by()?.clone(), asked.target.id.clone());
    let act = asked.target.row.person().and_then(|person| person.act).ok_or_else(not_here)?;
    let act = AuditedChange::new(act, id);
    blocking(edge, move |controller| controller.audit.audited(&by, &act, || call(controller, &by.actor()))).await
}

/// The answer of a call, of the type that its row names.
fn whole<C: Call<Answer: Serialize>>(answer: Result<C::Answer, ApiError>) -> Result<HttpAnswer, ApiError> {
    answer.map(|answer| HttpAnswer::ok(&answer))
}

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

async fn people(edge: &Edge, call: People, asked: &Asked<'_>) -> Result<HttpAnswer, ApiError> {
    match call {
        People::Description => Ok(described()),
        People::Onboarding => whole::<on::Onboarding>(fleet::onboarding(edge).await),
        People::OpenWindow => whole::<on::OpenWindow>(fleet::open_window(edge, asked).await),
        People::CloseWindow => whole::<on::CloseWindow>(fleet::close_window(edge, asked).await),
        People::Approve => whole::<on::Approve>(fleet::approve(edge, asked).await),
        People::Reject => {
            whole::<on::Reject>(fleet::change(edge, asked, |parts, id, actor| parts.enrollment.reject(id, actor)).await)
        }
        People::Dismiss => whole::<on::Dismiss>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.dismiss(id, actor)).await,
        ),
        People::Restore => whole::<on::Restore>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.restore(id, actor)).await,
        ),
        People::Remove => {
            whole::<on::Remove>(fleet::change(edge, asked, |parts, id, actor| parts.enrollment.remove(id, actor)).await)
        }
        People::SplitClone => whole::<on::SplitClone>(
            fleet::change(edge, asked, |parts, id, actor| parts.enrollment.split_clone(id, actor)).await,
        ),
        People::KeepClone => whole::<on::KeepClone>(fleet::keep_clone(edge, asked).await),
        People::Rename => whole::<on::Rename>(fleet::rename(edge, asked).await),
        People::Status => whole::<on::Status>(fleet::status(edge).await),
        People::Nodes => whole::<on::Nodes>(fleet::nodes(edge, asked).await),
        People::Node => whole::<on::Node>(fleet::node(edge, asked).await),
        People::Events => whole::<on::Events>(audit::events(edge, asked).await),
        People::Audit => whole::<on::Audit>(audit::entries(edge, asked).await),
        People::Challenge => whole::<on::Challenge>(owners::challenge(edge, asked)),
        People::Apply => whole::<on::Apply>(owners::apply(edge, asked).await),
        People::Roster => whole::<on::Roster>(owners::roster(edge).await),
        People::Names => whole::<on::Names>(owners::names(edge).await),
        People::Drafts => whole::<on::Drafts>(orders::drafts(edge, asked).await),
        People::AddDraft => whole::<on::AddDraft>(orders::add_draft(edge, asked).await),
        People::Draft => whole::<on::Draft>(orders::draft(edge, asked).await),
        People::Sign => whole::<on::Sign>(orders::sign(edge, asked).await),
        People::DropDraft => whole::<on::DropDraft>(orders::drop_draft(edge, asked).await),
        People::SignIn => sign_in::sign_in(edge, asked).await,
        People::Sessions => whole::<on::Sessions>(sign_in::sessions(edge, asked).await),
        People::EndSessions | People::EndSession => sign_in::end(edge, asked).await,
        People::AskPasskey => whole::<on::AskPasskey>(sign_in::ask(edge, asked).await),
        People::Passkeys => whole::<on::Passkeys>(sign_in::passkeys(edge, asked).await),
        People::ApprovePasskey => whole::<on::ApprovePasskey>(sign_in::approve(edge, asked).await),
        People::RemovePasskey => whole::<on::RemovePasskey>(sign_in::remove(edge, asked).await),
        People::Tokens => whole::<on::Tokens>(tokens::all(edge, asked).await),
        People::MakeToken => whole::<on::MakeToken>(tokens::make(edge, asked).await),
        People::RemoveToken => whole::<on::RemoveToken>(tokens::remove(edge, asked).await),
        // A stream is no answer that ends: `Edge::answer` begins it.
        People::Stream => Err(not_here()),
    }
}

/// `GET /api/openapi.json`: public, and the same everywhere.
fn described() -> HttpAnswer {
    HttpAnswer { status: StatusCode::OK, body: super::DESCRIPTION.into(), headers: Vec::new() }
}

//! From a row of the two tables to the one function that answers it.
//!
//! Every row is named: a new one does not compile until somebody decided.

use std::net::IpAddr;

use http::StatusCode;
use http::request::Parts;
use lucia_people::owner_api::{OwnerCaller, OwnerEndpoint};
use lucia_proto::api::{Caller, Endpoint};
use lucia_proto::base::code::Code;
use lucia_proto::node::challenge::Scope;

use super::error::ApiError;
use super::route::{RouteTarget, Row};
use super::{Edge, HttpAnswer, boot, edge, host, node, owners, page, sign_in, token};
use crate::parts::By;

impl Edge {
    /// The table of devices and nodes. Every row is named: a new one does not compile until somebody decided.
    pub(super) async fn dispatch_network(
        &self,
        target: &RouteTarget,
        headers: &http::HeaderMap,
        body: &[u8],
        from: IpAddr,
    ) -> Result<HttpAnswer, ApiError> {
        let endpoint = match target.row {
            Row::Base(endpoint) => endpoint,
            Row::Page(page) => return page::answer(self, page, target, headers).await,
            Row::Owner(OwnerEndpoint::Description) => return Ok(described()),
            Row::Owner(OwnerEndpoint::Challenge) => return Ok(owners::challenge(self, from)),
            Row::Owner(OwnerEndpoint::Apply) => {
                return owners::apply(self, edge::read(OwnerEndpoint::Apply, body)?, from).await;
            }
            Row::Owner(row @ OwnerEndpoint::SignIn) => {
                return sign_in::sign_in(self, edge::read(row, body)?, headers, from).await;
            }
            Row::Owner(row @ OwnerEndpoint::AskPasskey) => {
                return sign_in::ask(self, edge::read(row, body)?, headers, from).await;
            }
            Row::Owner(
                OwnerEndpoint::Roster
                | OwnerEndpoint::Names
                | OwnerEndpoint::Drafts
                | OwnerEndpoint::AddDraft
                | OwnerEndpoint::Draft
                | OwnerEndpoint::Sign
                | OwnerEndpoint::DropDraft
                | OwnerEndpoint::Sessions
                | OwnerEndpoint::EndSessions
                | OwnerEndpoint::EndSession
                | OwnerEndpoint::Passkeys
                | OwnerEndpoint::ApprovePasskey
                | OwnerEndpoint::RemovePasskey
                | OwnerEndpoint::Tokens
                | OwnerEndpoint::MakeToken
                | OwnerEndpoint::RemoveToken
                | OwnerEndpoint::Audit
                | OwnerEndpoint::Stream,
            ) => return Err(not_here()),
        };
        match endpoint {
            Endpoint::BootChallenge => boot::challenge(self, from),
            Endpoint::Discover => boot::discover(self, edge::read(endpoint, body)?, from).await,
            Endpoint::DeviceChallenge | Endpoint::NodeChallenge => Ok(node::challenge(self, target.id()?, from)),
            Endpoint::DeviceState => boot::device_state(self, target.id()?, edge::proof(headers)?, from).await,
            Endpoint::Installation => boot::installation(self, target.id()?, edge::proof(headers)?, from).await,
            Endpoint::Grant => boot::grant(self, target.id()?, edge::read(endpoint, body)?, from).await,
            Endpoint::Progress => boot::progress(self, target.id()?, edge::read(endpoint, body)?, from).await,
            Endpoint::Enroll => boot::enroll(self, target.id()?, edge::read(endpoint, body)?, from).await,
            Endpoint::Heartbeat => node::heartbeat(self, target.id()?, edge::read(endpoint, body)?, from).await,
            Endpoint::Renew => node::renew(self, target.id()?, edge::read(endpoint, body)?, from).await,
            Endpoint::Onboarding
            | Endpoint::OpenWindow
            | Endpoint::CloseWindow
            | Endpoint::Approve
            | Endpoint::Reject
            | Endpoint::Dismiss
            | Endpoint::Restore
            | Endpoint::Status
            | Endpoint::Nodes
            | Endpoint::Node
            | Endpoint::Remove
            | Endpoint::Rename
            | Endpoint::KeepClone
            | Endpoint::SplitClone
            | Endpoint::Events => Err(not_here()),
        }
    }

    /// The tables of the operator and of owners, for whoever was found to be one.
    pub(super) async fn dispatch_host(
        &self,
        target: &RouteTarget,
        parts: &Parts,
        body: &[u8],
        by: &By,
    ) -> Result<HttpAnswer, ApiError> {
        let query = parts.uri.query();
        let endpoint = match target.row {
            Row::Base(endpoint) => endpoint,
            Row::Page(_) => return Err(not_here()),
            Row::Owner(endpoint) => return self.dispatch_owner(endpoint, target, parts, body, by).await,
        };
        match endpoint {
            Endpoint::Onboarding => host::onboarding(self).await,
            Endpoint::OpenWindow => host::open_window(self, edge::read(endpoint, body)?, by).await,
            Endpoint::CloseWindow => host::close_window(self, by).await,
            Endpoint::Approve => host::approve(self, target.id()?, edge::read(endpoint, body)?, by).await,
            Endpoint::Reject => {
                host::change(self, endpoint, target.id()?, by, |parts, id, actor| parts.enrollment.reject(id, actor))
                    .await
            }
            Endpoint::Dismiss => {
                host::change(self, endpoint, target.id()?, by, |parts, id, actor| parts.enrollment.dismiss(id, actor))
                    .await
            }
            Endpoint::Restore => {
                host::change(self, endpoint, target.id()?, by, |parts, id, actor| parts.enrollment.restore(id, actor))
                    .await
            }
            Endpoint::Remove => {
                host::change(self, endpoint, target.id()?, by, |parts, id, actor| parts.enrollment.remove(id, actor))
                    .await
            }
            Endpoint::Rename => host::rename(self, target.id()?, edge::read(endpoint, body)?, by).await,
            Endpoint::KeepClone => host::keep_clone(self, target.id()?, edge::read(endpoint, body)?, by).await,
            Endpoint::SplitClone => {
                host::change(self, endpoint, target.id()?, by, |parts, id, actor| {
                    parts.enrollment.split_clone(id, actor)
                })
                .await
            }
            Endpoint::Status => host::status(self).await,
            Endpoint::Nodes => host::nodes(self, query).await,
            Endpoint::Node => host::node(self, target.id()?).await,
            Endpoint::Events => host::events(self, query).await,
            Endpoint::BootChallenge
            | Endpoint::Discover
            | Endpoint::DeviceChallenge
            | Endpoint::NodeChallenge
            | Endpoint::DeviceState
            | Endpoint::Installation
            | Endpoint::Grant
            | Endpoint::Progress
            | Endpoint::Enroll
            | Endpoint::Heartbeat
            | Endpoint::Renew => Err(not_here()),
        }
    }

    /// What is an owner's alone.
    async fn dispatch_owner(
        &self,
        endpoint: OwnerEndpoint,
        target: &RouteTarget,
        parts: &Parts,
        body: &[u8],
        by: &By,
    ) -> Result<HttpAnswer, ApiError> {
        let (query, headers) = (parts.uri.query(), &parts.headers);
        match endpoint {
            OwnerEndpoint::Description => Ok(described()),
            OwnerEndpoint::Roster => owners::roster(self).await,
            OwnerEndpoint::Names => owners::names(self).await,
            OwnerEndpoint::Drafts => owners::drafts(self, query).await,
            OwnerEndpoint::AddDraft => owners::add_draft(self, edge::read(endpoint, body)?, by).await,
            OwnerEndpoint::Draft => owners::draft(self, target.code()?).await,
            OwnerEndpoint::Sign => owners::sign(self, target.code()?, edge::read(endpoint, body)?, by).await,
            OwnerEndpoint::DropDraft => owners::drop_draft(self, target.code()?, by).await,
            OwnerEndpoint::Audit => owners::audit(self, query).await,
            OwnerEndpoint::Sessions => sign_in::sessions(self, by, headers).await,
            OwnerEndpoint::EndSessions => sign_in::end(self, None, by, headers).await,
            OwnerEndpoint::EndSession => sign_in::end(self, Some(target.code()?), by, headers).await,
            OwnerEndpoint::Passkeys => sign_in::passkeys(self, by).await,
            OwnerEndpoint::ApprovePasskey => sign_in::approve(self, target.code()?, by, headers).await,
            OwnerEndpoint::RemovePasskey => sign_in::remove(self, target.code()?, by).await,
            OwnerEndpoint::Tokens => token::tokens(self, by).await,
            OwnerEndpoint::MakeToken => token::make(self, edge::read(endpoint, body)?, by).await,
            OwnerEndpoint::RemoveToken => token::remove(self, target.code()?, by).await,
            // A stream is no answer that ends: `Edge::answer` begins it.
            OwnerEndpoint::Challenge
            | OwnerEndpoint::SignIn
            | OwnerEndpoint::AskPasskey
            | OwnerEndpoint::Apply
            | OwnerEndpoint::Stream => Err(not_here()),
        }
    }
}

/// `GET /api/openapi.json`: public, and the same everywhere.
fn described() -> HttpAnswer {
    HttpAnswer { status: StatusCode::OK, body: super::DESCRIPTION.into(), headers: Vec::new() }
}

fn not_here() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path").closing()
}

/// Whether a call is a signature over a challenge, so that its answer carries the next one (design.md I2).
pub(super) fn is_signed(row: Row) -> bool {
    match row {
        Row::Base(endpoint) => match endpoint.caller() {
            Caller::Device | Caller::Node => true,
            Caller::WindowOpen => matches!(endpoint, Endpoint::Discover),
            Caller::Anyone => false,
            Caller::Operator => row.role().is_some(),
        },
        Row::Owner(endpoint) => match endpoint.caller() {
            OwnerCaller::Person(_) => true,
            OwnerCaller::Anyone | OwnerCaller::Everybody => false,
        },
        Row::Page(_) => false,
    }
}

/// Whether an accepted call proves that its address is worth a place under a flood. A device proves nothing by being
/// discovered: anybody may be, while the window is open; and nobody by asking to become an owner.
pub(super) fn proves(row: Row) -> bool {
    match row {
        Row::Base(endpoint) => match endpoint.caller() {
            Caller::Node => true,
            Caller::Device => matches!(endpoint, Endpoint::Enroll),
            Caller::Anyone | Caller::WindowOpen => false,
            Caller::Operator => row.role().is_some(),
        },
        Row::Owner(endpoint) => match endpoint.caller() {
            OwnerCaller::Person(_) => true,
            OwnerCaller::Anyone | OwnerCaller::Everybody => false,
        },
        // A document shows what a session lets it; whoever has one calls rows that prove as much.
        Row::Page(_) => false,
    }
}

/// What the challenges of a call over the network are for.
pub(super) fn scope(target: &RouteTarget) -> Scope {
    match target.row {
        Row::Owner(_) | Row::Page(_) => Scope::Owner,
        Row::Base(endpoint) => match endpoint.caller() {
            Caller::Operator => Scope::Owner,
            Caller::Anyone | Caller::WindowOpen | Caller::Device | Caller::Node => {
                target.id.clone().map_or(Scope::Boot, Scope::Node)
            }
        },
    }
}

//! Calls with an automation token: who presents one, what it may look at, and the tokens' own calls.
//!
//! A token leads to [`Looks`] and from there to the answer, past everything that knows who somebody is: what changes
//! anything, or is anybody's own, is nowhere on that way.

use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderMap, header};
use lucia_people::owner_api::OwnerEndpoint;
use lucia_people::token::{TokenForm, TokenScope};
use lucia_proto::api::Endpoint;
use lucia_proto::base::code::Code;
use lucia_proto::orders::owner_proof::OWNER_PROOF_HEADER;
use lucia_proto::pki::key::VerificationCode;

use super::error::ApiError;
use super::route::{RouteTarget, Row};
use super::{Edge, HttpAnswer, blocking, host, owners};
use crate::parts::By;
use crate::refusal::Refusal;

/// A call that a token may make. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Onboarding,
    Status,
    Nodes,
    Node,
    Events,
    Roster,
    Names,
    Drafts,
    Draft,
    Audit,
}

impl Looks {
    /// What a token may make of this row; nothing for all that changes something, ends nowhere, or is somebody's own.
    /// Every row is named: what a new one is somebody decides.
    pub(super) const fn of(row: Row) -> Option<Self> {
        match row {
            Row::Base(Endpoint::Onboarding) => Some(Self::Onboarding),
            Row::Base(Endpoint::Status) => Some(Self::Status),
            Row::Base(Endpoint::Nodes) => Some(Self::Nodes),
            Row::Base(Endpoint::Node) => Some(Self::Node),
            Row::Base(Endpoint::Events) => Some(Self::Events),
            Row::Owner(OwnerEndpoint::Roster) => Some(Self::Roster),
            Row::Owner(OwnerEndpoint::Names) => Some(Self::Names),
            Row::Owner(OwnerEndpoint::Drafts) => Some(Self::Drafts),
            Row::Owner(OwnerEndpoint::Draft) => Some(Self::Draft),
            Row::Owner(OwnerEndpoint::Audit) => Some(Self::Audit),
            Row::Base(
                Endpoint::BootChallenge
                | Endpoint::Discover
                | Endpoint::DeviceChallenge
                | Endpoint::DeviceState
                | Endpoint::Installation
                | Endpoint::Grant
                | Endpoint::Progress
                | Endpoint::Enroll
                | Endpoint::NodeChallenge
                | Endpoint::Heartbeat
                | Endpoint::Renew
                | Endpoint::OpenWindow
                | Endpoint::CloseWindow
                | Endpoint::Approve
                | Endpoint::Reject
                | Endpoint::Dismiss
                | Endpoint::Restore
                | Endpoint::Remove
                | Endpoint::Rename
                | Endpoint::KeepClone
                | Endpoint::SplitClone,
            )
            | Row::Owner(
                OwnerEndpoint::Description
                | OwnerEndpoint::Challenge
                | OwnerEndpoint::Apply
                | OwnerEndpoint::AddDraft
                | OwnerEndpoint::Sign
                | OwnerEndpoint::DropDraft
                | OwnerEndpoint::SignIn
                | OwnerEndpoint::Sessions
                | OwnerEndpoint::EndSessions
                | OwnerEndpoint::EndSession
                | OwnerEndpoint::AskPasskey
                | OwnerEndpoint::Passkeys
                | OwnerEndpoint::ApprovePasskey
                | OwnerEndpoint::RemovePasskey
                | OwnerEndpoint::Tokens
                | OwnerEndpoint::MakeToken
                | OwnerEndpoint::RemoveToken
                | OwnerEndpoint::Stream,
            )
            | Row::Page(_) => None,
        }
    }

    /// The scope it is of.
    pub(super) const fn scope(self) -> TokenScope {
        match self {
            Self::Onboarding => TokenScope::Onboarding,
            Self::Status => TokenScope::Status,
            Self::Nodes | Self::Node | Self::Names => TokenScope::Nodes,
            Self::Events => TokenScope::Events,
            Self::Roster => TokenScope::Owners,
            Self::Drafts | Self::Draft => TokenScope::Orders,
            Self::Audit => TokenScope::Audit,
        }
    }
}

/// Whether a call is one with a token. A proof goes before it, and it goes before a cookie.
pub(super) fn is_presented(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) && !headers.contains_key(OWNER_PROOF_HEADER)
}

/// The token of the one `Authorization` header, where it is of that scheme.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (lines.next(), lines.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Answers a call with a token.
///
/// # Errors
/// As `People::token`; `role_required` for what no token may, or this one may not; what the call refuses.
pub(super) async fn answer(
    edge: &Edge,
    target: &RouteTarget,
    parts: &Parts,
    from: IpAddr,
) -> Result<HttpAnswer, ApiError> {
    let looking = edge.shared.controller.people.token(presented(&parts.headers), from)?;
    let refused = |message: &str| {
        ApiError::new(Code::RoleRequired, message).log(format!("the token {} may not: {message}", looking.name))
    };
    let looks = Looks::of(target.row).ok_or_else(|| refused("no token does this; it takes an owner"))?;
    let scope = looks.scope();
    if !looking.scopes.have(scope) {
        return Err(refused(&format!("this token has no scope {scope}")));
    }
    let query = parts.uri.query();
    match looks {
        Looks::Onboarding => host::onboarding(edge).await,
        Looks::Status => host::status(edge).await,
        Looks::Nodes => host::nodes(edge, query).await,
        Looks::Node => {
            let id = target.id()?;
            // Who removed one, and by which order, is of other scopes.
            let plain = |error: ApiError| {
                if error.code == Code::UnknownNode { Refusal::unknown_node(id).into() } else { error }
            };
            host::node(edge, id).await.map_err(plain)
        }
        Looks::Events => host::events(edge, query).await,
        Looks::Roster => owners::roster(edge).await,
        Looks::Names => owners::names(edge).await,
        Looks::Drafts => owners::drafts(edge, query).await,
        Looks::Draft => owners::draft(edge, target.code()?).await,
        Looks::Audit => owners::audit(edge, query).await,
    }
}

/// `GET /api/host/tokens`.
pub(super) async fn tokens(edge: &Edge, by: &By) -> Result<HttpAnswer, ApiError> {
    let by = by.clone();
    blocking(edge, move |controller| Ok(controller.people.tokens(&by))).await.map(|view| HttpAnswer::ok(&view))
}

/// `POST /api/host/tokens`.
pub(super) async fn make(edge: &Edge, form: TokenForm, by: &By) -> Result<HttpAnswer, ApiError> {
    let by = by.clone();
    blocking(edge, move |controller| controller.people.make_token(form, &by)).await.map(|made| HttpAnswer::ok(&made))
}

/// `DELETE /api/host/tokens/{code}`; the answer is what is left.
pub(super) async fn remove(edge: &Edge, code: &VerificationCode, by: &By) -> Result<HttpAnswer, ApiError> {
    let (who, code) = (by.clone(), code.clone());
    blocking(edge, move |controller| controller.people.remove_token(&code, &who)).await?;
    tokens(edge, by).await
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AP-22
    // spec: CO-401
    #[test]
    fn a_token_looks_at_what_changes_nothing_and_is_nobodys_own() {
        for row in Row::all() {
            let Some(looks) = Looks::of(row) else { continue };
            assert_eq!((row.method(), row.role().is_some()), ("GET", true), "{row:?}");
            let own = ["sessions", "passkeys", "tokens", "stream"];
            assert!(own.iter().all(|word| !row.path().contains(word)), "{row:?}");
            assert!(TokenScope::ALL.contains(&looks.scope()), "{row:?}");
        }
        // Each scope is for something, but the one that only stored tokens have.
        for scope in TokenScope::ALL {
            let opens = Row::all().any(|row| Looks::of(row).is_some_and(|looks| looks.scope() == *scope));
            assert_eq!(opens, *scope != TokenScope::SshKeys, "{scope}");
        }
    }

    // spec: AP-23
    #[test]
    fn a_token_stands_in_one_header_of_one_scheme() {
        let of = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, line.parse().unwrap());
            }
            presented(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["Bearer t1.x"]).as_deref(), Some("t1.x"));
        assert_eq!(of(&["bearer t1.x"]).as_deref(), Some("t1.x"));
        for lines in [vec![], vec!["Basic t1.x"], vec!["t1.x"], vec!["Bearer"], vec!["Bearer a", "Bearer b"]] {
            assert_eq!(of(&lines), None, "{lines:?}");
        }
        let mut both = HeaderMap::new();
        both.insert(header::AUTHORIZATION, "Bearer t1.x".parse().unwrap());
        assert!(is_presented(&both));
        both.insert(OWNER_PROOF_HEADER, "x".parse().unwrap());
        assert!(!is_presented(&both), "a proof goes before it");
    }
}

//! The calls that people make: the operator over the controller's Unix socket, who is asked for nothing there, and people of the
//! roster over TLS. What follows from a row is nowhere written again: routes, roles, tokens' scopes, the API's description.

use lucia_proto::base::acts::Act;
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{
    AUDIT_PER_ANSWER_MAX, BODY_MAX, HOST_BODY_MAX, NODES_PER_ANSWER_MAX, SIGN_IN_MAX, SIGNED_INTENT_MAX,
};
use lucia_proto::calls;
use lucia_proto::calls::Query;
use lucia_proto::node::challenge;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::{self, application};

use serde::{Deserialize, Serialize};

use crate::token::TokenScope;
use crate::{agents, audit, host_api, owner_api, sign_in, token};

/// Who may make a call of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Anyone who reaches the port, a few times a minute: the answer tells nothing.
    Anyone,
    /// Anyone who reaches port or socket: the answer is the same everywhere, and public.
    Everybody,
    /// Somebody of the roster, by proof or by a session of the page; and the operator.
    Person(Person),
}

/// What a call asks of somebody of the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    /// At least this role.
    pub role: Role,
    /// What it takes beyond a session.
    pub takes: Takes,
    /// The scope of a token that may make it: nothing for what changes something, never ends, or is somebody's own.
    pub scope: Option<TokenScope>,
    /// What the audit calls it; nothing for one that only reads.
    pub act: Option<Act>,
}

/// What a call takes beyond a session, which proves presence and not the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: its role is enough.
    Session,
    /// The owner key, by this command: it bars a key for good, or opens something for longer than a session.
    Key(&'static str),
    /// A proof, and nothing is said to a session.
    Proof,
}

impl Who {
    /// Reads: a viewer may, and a token of this scope.
    const fn reads(scope: Option<TokenScope>) -> Self {
        Self::Person(Person { role: Role::Viewer, takes: Session, scope, act: None })
    }

    /// Changes what is one's own: a viewer may.
    const fn own(act: Act, takes: Takes) -> Self {
        Self::Person(Person { role: Role::Viewer, takes, scope: None, act: Some(act) })
    }

    /// Changes something of the fleet.
    const fn changes(act: Act, takes: Takes) -> Self {
        Self::Person(Person { role: Role::Owner, takes, scope: None, act: Some(act) })
    }
}

use Takes::{Key, Proof, Session};
use TokenScope as Scope;
use Who::{Anyone, Everybody};

/// [`host_api::EVENTS_WAIT_MAX`].
const EVENTS_WAIT_SECONDS: u64 = host_api::EVENTS_WAIT_MAX.as_secs();

/// An answer that goes on: Server-Sent Events.
#[derive(Clone, Copy, Debug)]
pub enum Events {}

/// An answer that is a document of OpenAPI.
#[derive(Clone, Copy, Debug)]
pub enum Document {}

/// Answer to the call `Me`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallerView {
    /// Who asks.
    pub actor: audit::AuditActor,
    /// What the roster lets them do; absent for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// By what they proved who they are; absent for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<audit::AuditVia>,
}

calls! {
    /// Every call of people.
    PeopleCall by Who;

    /// Window, devices and tasks.
    Onboarding: "GET" "/api/host/onboarding", Who::reads(Some(Scope::Onboarding)), 0, () => host_api::OnboardingView;
    /// Opens the discovery window.
    OpenWindow: "POST" "/api/host/onboarding/window", Who::changes(Act::WindowOpened, Session), HOST_BODY_MAX, host_api::OpenWindow => host_api::OnboardingView, [Code::PersistenceFailed];
    /// Closes the discovery window.
    CloseWindow: "DELETE" "/api/host/onboarding/window", Who::changes(Act::WindowClosed, Session), 0, () => host_api::OnboardingView, [Code::PersistenceFailed];
    /// Approves an installation.
    Approve: "POST" "/api/host/devices/{id}/approve-install", Who::changes(Act::Approved, Session), HOST_BODY_MAX, host_api::ApproveForm => host_api::OnboardingView, [Code::InvalidOnboardingRequest, Code::DeviceNotFound, Code::NotPending, Code::KeyBarred, Code::DiscoveryExpired, Code::IneligibleDisk, Code::OwnersSign, Code::HostnameInUse, Code::RegistryFull, Code::PersistenceFailed];
    /// Rejects a discovered device.
    Reject: "POST" "/api/host/devices/{id}/reject", Who::changes(Act::Rejected, Session), 0, () => host_api::OnboardingView, [Code::DeviceNotFound, Code::NotPending, Code::NotRejected, Code::PersistenceFailed];
    /// Takes a rejected or failed device off the list.
    Dismiss: "POST" "/api/host/devices/{id}/dismiss", Who::changes(Act::Dismissed, Session), 0, () => host_api::OnboardingView, [Code::DeviceNotFound, Code::NotPending, Code::NotRejected, Code::PersistenceFailed];
    /// Puts a rejected device back on the list.
    Restore: "POST" "/api/host/devices/{id}/restore", Who::changes(Act::Restored, Session), 0, () => host_api::OnboardingView, [Code::DeviceNotFound, Code::NotPending, Code::NotRejected, Code::PersistenceFailed];
    /// The controller itself: version, start, certificate, what it counted.
    Status: "GET" "/api/host/status", Who::reads(Some(Scope::Status)), 0, () => host_api::StatusView;
    /// Nodes by name, a line each, after `?after=HOSTNAME`, at most 1000 an answer.
    Nodes: "GET" "/api/host/nodes" ? [Query::AfterName, Query::Limit(NODES_PER_ANSWER_MAX, NODES_PER_ANSWER_MAX)], Who::reads(Some(Scope::Nodes)), 0, () => host_api::NodesView, [Code::InvalidOnboardingRequest];
    /// What the nodes' agents are, carry out and allow, a line each by name; parts as those of `Nodes`.
    Agents: "GET" "/api/host/agents" ? [Query::AfterName, Query::Limit(NODES_PER_ANSWER_MAX, NODES_PER_ANSWER_MAX)], Who::reads(Some(Scope::Nodes)), 0, () => agents::AgentsView, [Code::InvalidOnboardingRequest];
    /// One node with the last hour of samples.
    Node: "GET" "/api/host/nodes/{id}", Who::reads(Some(Scope::Nodes)), 0, () => host_api::NodeView, [Code::UnknownNode];
    /// Removes a node or device for good.
    Remove: "DELETE" "/api/host/nodes/{id}", Who::changes(Act::Removed, Key("luciactl remove NODE")), 0, () => host_api::OnboardingView, [Code::UnknownNode, Code::PersistenceFailed];
    /// Gives a node the name that its machine calls itself by.
    Rename: "POST" "/api/host/nodes/{id}/rename", Who::changes(Act::Renamed, Session), HOST_BODY_MAX, host_api::RenameForm => host_api::NodeView, [Code::InvalidOnboardingRequest, Code::UnknownNode, Code::HostnameInUse, Code::PersistenceFailed];
    /// Keeps one holder of a frozen identity.
    KeepClone: "POST" "/api/host/nodes/{id}/clone/keep", Who::changes(Act::CloneKept, Key("luciactl clone keep NODE --start ID")), HOST_BODY_MAX, host_api::KeepForm => host_api::NodeView, [Code::InvalidOnboardingRequest, Code::UnknownNode, Code::NotFrozen, Code::PersistenceFailed];
    /// Keeps none: removes a frozen identity for good.
    SplitClone: "POST" "/api/host/nodes/{id}/clone/split", Who::changes(Act::CloneSplit, Key("luciactl clone split NODE")), 0, () => host_api::OnboardingView, [Code::UnknownNode, Code::NotFrozen, Code::PersistenceFailed];
    /// Events, after `?after=N`, at most 500 an answer.
    Events: "GET" "/api/host/events" ? [Query::AfterNumber, Query::Limit(host_api::EVENTS_PER_ANSWER_MAX, 100), Query::Wait(EVENTS_WAIT_SECONDS)], Who::reads(Some(Scope::Events)), 0, () => host_api::EventsView, [Code::InvalidOnboardingRequest];
    /// What people call the controller by, as a document of OpenAPI.
    Description: "GET" "/api/openapi.json", Everybody, 0, () => Document;
    /// A challenge of scope `owner`.
    Challenge: "GET" "/api/host/challenge", Anyone, 0, () => challenge::Challenge;
    /// Somebody asks to become an owner.
    Apply: "POST" "/api/host/owners/applications", Anyone, HOST_BODY_MAX, application::Application => owner_api::Applied, [Code::InvalidOnboardingRequest, Code::BadKey, Code::RegistryFull, Code::TooManyRequests, Code::PersistenceFailed];
    /// Who this call is made as: a program finds out whether its proof is right.
    Me: "GET" "/api/host/me", Who::reads(None), 0, () => CallerView;
    /// The roster, as the worker signed it.
    Roster: "GET" "/api/host/roster", Who::reads(Some(Scope::Owners)), 0, () => owner_api::RosterView;
    /// What the worker's nodes are called, as the worker signed it.
    Names: "GET" "/api/host/names", Who::reads(Some(Scope::Nodes)), 0, () => owner_api::NamesView;
    /// Drafts that wait for a signature or for who carries them out, and what became of the last ones.
    Drafts: "GET" "/api/host/orders" ? [Query::AfterCode], Who::reads(Some(Scope::Orders)), 0, () => owner_api::DraftsView, [Code::InvalidOnboardingRequest, Code::DraftNotFound];
    /// Hands in a draft.
    AddDraft: "POST" "/api/host/orders", Who::changes(Act::DraftAdded, Session), BODY_MAX, orders::Draft => owner_api::DraftView, [Code::InvalidOnboardingRequest, Code::IntentRefused, Code::NoRoster, Code::UnknownNode, Code::HostnameInUse, Code::VerificationCodeCollision, Code::RegistryFull, Code::PersistenceFailed];
    /// Makes a draft of the caller's own: the page sends what is meant, and signs what comes back.
    MakeDraft: "POST" "/api/host/drafts", Who::changes(Act::DraftAdded, Session), BODY_MAX, owner_api::DraftForm => owner_api::DraftView, [Code::InvalidOnboardingRequest, Code::IntentRefused, Code::NoRoster, Code::UnknownNode, Code::HostnameInUse, Code::VerificationCodeCollision, Code::RegistryFull, Code::PersistenceFailed];
    /// One draft, to be read and signed.
    Draft: "GET" "/api/host/orders/{code}", Who::reads(Some(Scope::Orders)), 0, () => owner_api::DraftView, [Code::DraftNotFound];
    /// Hands in a signature under it.
    Sign: "POST" "/api/host/orders/{code}/signatures", Who::changes(Act::IntentSigned, Session), HOST_BODY_MAX * 2, orders::OrderSignature => owner_api::DraftView, [Code::IntentRefused, Code::NoRoster, Code::DraftNotFound, Code::RegistryFull, Code::PersistenceFailed];
    /// Throws a draft away that nobody was handed, or that nobody carries out any more.
    DropDraft: "DELETE" "/api/host/orders/{code}", Who::changes(Act::DraftDropped, Session), 0, () => owner_api::DraftsView, [Code::IntentRefused, Code::DraftNotFound, Code::PersistenceFailed];
    /// Signs in to the page with a passkey.
    SignIn: "POST" "/api/host/sessions", Anyone, SIGN_IN_MAX, sign_in::SignIn => sign_in::SignedIn, [Code::ActorRequired, Code::ChallengeRefused, Code::TooManyRequests];
    /// One's own sessions of the page; the operator sees all.
    Sessions: "GET" "/api/host/sessions", Who::reads(None), 0, () => sign_in::SessionsView;
    /// Ends all of them.
    EndSessions: "DELETE" "/api/host/sessions", Who::own(Act::SessionEnded, Session), 0, () => sign_in::SessionsView;
    /// Ends one of them.
    EndSession: "DELETE" "/api/host/sessions/{code}", Who::own(Act::SessionEnded, Session), 0, () => sign_in::SessionsView, [Code::SessionNotFound];
    /// Hands in a passkey for signing in; it signs nobody in before it is confirmed.
    AskPasskey: "POST" "/api/host/passkeys", Anyone, HOST_BODY_MAX, sign_in::PasskeyForm => sign_in::PasskeyAsked, [Code::BadKey, Code::ActorRequired, Code::RegistryFull, Code::TooManyRequests];
    /// One's own passkeys for signing in; the operator sees all.
    Passkeys: "GET" "/api/host/passkeys", Who::reads(None), 0, () => sign_in::PasskeysView;
    /// Confirms one with an owner key, and only so: it signs in whoever confirmed it.
    ApprovePasskey: "POST" "/api/host/passkeys/{code}", Who::own(Act::PasskeyConfirmed, Proof), 0, () => sign_in::PasskeyView, [Code::BadKey, Code::InvalidOnboardingRequest, Code::PasskeyNotFound, Code::PersistenceFailed];
    /// Removes one, and ends its sessions.
    RemovePasskey: "DELETE" "/api/host/passkeys/{code}", Who::own(Act::PasskeyRemoved, Session), 0, () => sign_in::PasskeysView, [Code::PasskeyNotFound, Code::PersistenceFailed];
    /// One's own automation tokens; the operator sees all.
    Tokens: "GET" "/api/host/tokens", Who::reads(None), 0, () => token::TokensView;
    /// Makes one with the owner key, and shows it once.
    MakeToken: "POST" "/api/host/tokens", Who::changes(Act::TokenMade, Key("luciactl token add NAME --scope SCOPE --days N")), HOST_BODY_MAX, token::TokenForm => token::TokenMade, [Code::InvalidOnboardingRequest, Code::PersistenceFailed];
    /// Removes one.
    RemoveToken: "DELETE" "/api/host/tokens/{code}", Who::own(Act::TokenRemoved, Session), 0, () => token::TokensView, [Code::TokenNotFound, Code::PersistenceFailed];
    /// The audit, after `?after=N`, at most 500 lines an answer.
    Audit: "GET" "/api/host/audit" ? [Query::AfterNumber, Query::Limit(AUDIT_PER_ANSWER_MAX, 100)], Who::reads(Some(Scope::Audit)), 0, () => audit::AuditView, [Code::InvalidOnboardingRequest, Code::PersistenceFailed];
    /// Nodes and events as they change: Server-Sent Events.
    Stream: "GET" "/api/host/stream", Who::reads(None), 0, () => Events;
}

// A draft fits into the body that carries it, and what it becomes into one answer.
const _: () = assert!(BODY_MAX >= SIGNED_INTENT_MAX);

impl PeopleCall {
    /// What it asks of somebody of the roster; nothing for what strangers call.
    #[must_use]
    pub const fn person(self) -> Option<Person> {
        match self.caller() {
            Who::Person(person) => Some(person),
            Anyone | Everybody => None,
        }
    }

    /// The role it asks for; nothing for what strangers call.
    #[must_use]
    pub const fn role(self) -> Option<Role> {
        match self.person() {
            Some(person) => Some(person.role),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucia_proto::calls::Endpoint;
    use lucia_proto::pki::key::VerificationCode;

    // spec: OW-3
    // spec: AU-2
    #[test]
    fn no_row_stands_twice_and_each_change_is_an_owners() {
        let mut seen = std::collections::BTreeSet::new();
        for row in PeopleCall::ALL {
            assert!(seen.insert((row.method(), row.path())), "{row:?}");
            assert!(Endpoint::ALL.iter().all(|other| (other.method(), other.path()) != (row.method(), row.path())));
            assert!(row.method() == "POST" || row.body_max() == 0, "{row:?}");
            assert_eq!(row.path().starts_with("/api/host/"), row.caller() != Everybody, "{row:?}");
            match row.caller() {
                Everybody => assert_eq!(row, &PeopleCall::Description),
                Anyone => {
                    assert!(matches!(
                        row,
                        PeopleCall::Challenge | PeopleCall::Apply | PeopleCall::SignIn | PeopleCall::AskPasskey
                    ))
                }
                Who::Person(Person { role, takes, scope, act }) => {
                    // What is one's own a viewer may change too.
                    let own = matches!(
                        row,
                        PeopleCall::EndSessions
                            | PeopleCall::EndSession
                            | PeopleCall::ApprovePasskey
                            | PeopleCall::RemovePasskey
                            | PeopleCall::RemoveToken
                    );
                    let reads = row.method() == "GET";
                    assert_eq!(role == Role::Viewer, own || reads, "{row:?}");
                    // What changes something is in the audit, and no token does it.
                    assert_eq!(act.is_none(), reads, "{row:?}");
                    assert!(reads || scope.is_none(), "{row:?}");
                    assert!(takes == Session || !reads, "{row:?}");
                }
            }
        }
        let code: VerificationCode = "1a2b-3c4d-5e6f".parse().unwrap();
        assert_eq!(PeopleCall::Sign.path_for(&code), "/api/host/orders/1a2b-3c4d-5e6f/signatures");
    }
}

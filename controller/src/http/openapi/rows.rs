//! What each call that people make takes and answers. Every row is named: a new one does not compile until somebody says.

use lucia_people::host_api::{EVENTS_PER_ANSWER_MAX, EVENTS_WAIT_MAX};
use lucia_people::owner_api::{OwnerCaller, OwnerEndpoint};
use lucia_proto::api::{Caller, Endpoint};
use lucia_proto::base::code::Code;
use lucia_proto::base::limits::{AUDIT_PER_ANSWER_MAX, NODES_PER_ANSWER_MAX};
use serde_json::{Value, json};

use super::super::route::Row;

/// What a call answers with.
pub(super) enum Gives {
    /// JSON of this type.
    Type(&'static str),
    /// Server-Sent Events.
    Events,
    /// A document of OpenAPI.
    Description,
}

/// A call of people.
pub(super) struct Call {
    /// The type of its body.
    pub(super) takes: Option<&'static str>,
    /// What it answers with.
    pub(super) gives: Gives,
    /// Why it may be refused, beyond what any call may be refused for.
    pub(super) codes: &'static [Code],
}

/// Whether people make this call, and not devices or nodes; documents of the page are no calls.
pub(super) fn is_of_people(row: Row) -> bool {
    match row {
        Row::Base(endpoint) => endpoint.caller() == Caller::Operator,
        Row::Owner(_) => true,
        Row::Page(_) => false,
    }
}

const WRITES: &[Code] = &[Code::PersistenceFailed];
const DEVICE: &[Code] = &[Code::DeviceNotFound, Code::NotPending, Code::NotRejected, Code::PersistenceFailed];
const PASSKEY: &[Code] = &[Code::PasskeyNotFound, Code::PersistenceFailed];

/// What there is to say of a call.
pub(super) fn call(row: Row) -> Call {
    let of = |takes, gives, codes| Call { takes, gives: Gives::Type(gives), codes };
    match row {
        Row::Base(endpoint) => match endpoint {
            Endpoint::Onboarding => of(None, "OnboardingView", &[]),
            Endpoint::OpenWindow => of(Some("OpenWindow"), "OnboardingView", WRITES),
            Endpoint::CloseWindow => of(None, "OnboardingView", WRITES),
            Endpoint::Approve => of(
                Some("ApproveForm"),
                "OnboardingView",
                &[
                    Code::InvalidOnboardingRequest,
                    Code::DeviceNotFound,
                    Code::NotPending,
                    Code::KeyBarred,
                    Code::DiscoveryExpired,
                    Code::IneligibleDisk,
                    // In a session, for an approval in a node's place.
                    Code::OwnersSign,
                    Code::HostnameInUse,
                    Code::RegistryFull,
                    Code::PersistenceFailed,
                ],
            ),
            Endpoint::Reject | Endpoint::Dismiss | Endpoint::Restore => of(None, "OnboardingView", DEVICE),
            Endpoint::Status => of(None, "StatusView", &[]),
            Endpoint::Nodes => of(None, "NodesView", &[Code::InvalidOnboardingRequest]),
            Endpoint::Node => of(None, "NodeView", &[Code::UnknownNode]),
            Endpoint::Remove => of(None, "OnboardingView", &[Code::UnknownNode, Code::PersistenceFailed]),
            Endpoint::Rename => of(
                Some("RenameForm"),
                "NodeView",
                &[Code::InvalidOnboardingRequest, Code::UnknownNode, Code::HostnameInUse, Code::PersistenceFailed],
            ),
            Endpoint::KeepClone => of(
                Some("KeepForm"),
                "NodeView",
                &[Code::InvalidOnboardingRequest, Code::UnknownNode, Code::NotFrozen, Code::PersistenceFailed],
            ),
            Endpoint::SplitClone => {
                of(None, "OnboardingView", &[Code::UnknownNode, Code::NotFrozen, Code::PersistenceFailed])
            }
            Endpoint::Events => of(None, "EventsView", &[Code::InvalidOnboardingRequest]),
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
            | Endpoint::Renew => panic!("{endpoint:?} is no call of people"),
        },
        Row::Owner(endpoint) => match endpoint {
            OwnerEndpoint::Description => Call { takes: None, gives: Gives::Description, codes: &[] },
            OwnerEndpoint::Challenge => of(None, "Challenge", &[]),
            OwnerEndpoint::Apply => of(
                Some("Application"),
                "Applied",
                &[
                    Code::InvalidOnboardingRequest,
                    Code::BadKey,
                    Code::RegistryFull,
                    Code::TooManyRequests,
                    Code::PersistenceFailed,
                ],
            ),
            OwnerEndpoint::Roster => of(None, "RosterView", &[]),
            OwnerEndpoint::Names => of(None, "NamesView", &[]),
            OwnerEndpoint::Drafts => of(None, "DraftsView", &[Code::InvalidOnboardingRequest, Code::DraftNotFound]),
            OwnerEndpoint::AddDraft => of(
                Some("Draft"),
                "DraftView",
                &[
                    Code::InvalidOnboardingRequest,
                    Code::IntentRefused,
                    Code::NoRoster,
                    Code::UnknownNode,
                    Code::VerificationCodeCollision,
                    Code::RegistryFull,
                    Code::PersistenceFailed,
                ],
            ),
            OwnerEndpoint::Draft => of(None, "DraftView", &[Code::DraftNotFound]),
            OwnerEndpoint::Sign => of(
                Some("OrderSignature"),
                "DraftView",
                &[
                    Code::IntentRefused,
                    Code::NoRoster,
                    Code::DraftNotFound,
                    Code::RegistryFull,
                    Code::PersistenceFailed,
                ],
            ),
            OwnerEndpoint::DropDraft => {
                of(None, "DraftsView", &[Code::IntentRefused, Code::DraftNotFound, Code::PersistenceFailed])
            }
            OwnerEndpoint::SignIn => {
                of(Some("SignIn"), "SignedIn", &[Code::ActorRequired, Code::ChallengeRefused, Code::TooManyRequests])
            }
            OwnerEndpoint::Sessions | OwnerEndpoint::EndSessions => of(None, "SessionsView", &[]),
            OwnerEndpoint::EndSession => of(None, "SessionsView", &[Code::SessionNotFound]),
            OwnerEndpoint::AskPasskey => of(
                Some("PasskeyForm"),
                "PasskeyAsked",
                &[Code::BadKey, Code::ActorRequired, Code::RegistryFull, Code::TooManyRequests],
            ),
            OwnerEndpoint::Passkeys => of(None, "PasskeysView", &[]),
            OwnerEndpoint::ApprovePasskey => of(
                None,
                "PasskeyView",
                &[Code::BadKey, Code::InvalidOnboardingRequest, Code::PasskeyNotFound, Code::PersistenceFailed],
            ),
            OwnerEndpoint::RemovePasskey => of(None, "PasskeysView", PASSKEY),
            OwnerEndpoint::Tokens => of(None, "TokensView", &[]),
            OwnerEndpoint::MakeToken => {
                of(Some("TokenForm"), "TokenMade", &[Code::InvalidOnboardingRequest, Code::PersistenceFailed])
            }
            OwnerEndpoint::RemoveToken => of(None, "TokensView", &[Code::TokenNotFound, Code::PersistenceFailed]),
            OwnerEndpoint::Audit => of(None, "AuditView", &[Code::InvalidOnboardingRequest, Code::PersistenceFailed]),
            OwnerEndpoint::Stream => Call { takes: None, gives: Gives::Events, codes: &[] },
        },
        Row::Page(_) => panic!("a document of the page is no call"),
    }
}

/// What any call may be refused for, whoever makes it.
pub(super) fn common(row: Row) -> Vec<Code> {
    let mut codes = vec![
        Code::InvalidRequest,
        Code::NetworkNotAllowed,
        Code::NotFound,
        Code::RequestTimeout,
        Code::BodyTooLarge,
        Code::HeadersTooLarge,
        Code::Busy,
    ];
    if row.body_max() > 0 {
        codes.extend([Code::InvalidBody, Code::UnsupportedContent]);
    }
    let of_people = [Code::ActorRequired, Code::ChallengeRefused, Code::TooManyRequests, Code::RoleRequired];
    match row {
        Row::Base(_) => codes.extend(of_people),
        Row::Owner(endpoint) => match endpoint.caller() {
            OwnerCaller::Person(_) => codes.extend(of_people),
            // Over the socket it is not there, and its path may be.
            OwnerCaller::Anyone => codes.push(Code::MethodNotAllowed),
            OwnerCaller::Everybody => {}
        },
        Row::Page(_) => {}
    }
    codes
}

/// What may follow the path.
pub(super) fn query(row: Row) -> Vec<Value> {
    let number = |name: &str, words: &str, least: u64, most: u64, default: u64| {
        json!({
            "name": name, "in": "query", "required": false, "description": words,
            "schema": {"type": "integer", "minimum": least, "maximum": most, "default": default},
        })
    };
    let most = |limit: usize| u64::try_from(limit).unwrap();
    let after = || number("after", "Only what has a higher number.", 0, 1 << 53, 0);
    let limit = |limit: usize| number("limit", "As many at most.", 1, most(limit), 100);
    match row {
        Row::Base(Endpoint::Events) => vec![
            after(),
            limit(EVENTS_PER_ANSWER_MAX),
            number("wait", "Seconds to wait for the first one.", 0, EVENTS_WAIT_MAX.as_secs(), 0),
        ],
        Row::Base(Endpoint::Nodes) => vec![
            json!({
                "name": "after", "in": "query", "required": false, "description": "Only those of a later name.",
                "schema": {"$ref": "#/components/schemas/Hostname"},
            }),
            number("limit", "As many at most.", 1, most(NODES_PER_ANSWER_MAX), most(NODES_PER_ANSWER_MAX)),
        ],
        Row::Owner(OwnerEndpoint::Audit) => vec![after(), limit(AUDIT_PER_ANSWER_MAX)],
        Row::Owner(OwnerEndpoint::Drafts) => vec![json!({
            "name": "after", "in": "query", "required": false,
            "description": "Only those older than the one of this code.",
            "schema": {"$ref": "#/components/schemas/VerificationCode"},
        })],
        row => {
            assert!(!row.is_queried(), "{row:?} takes a query that is not described");
            Vec::new()
        }
    }
}

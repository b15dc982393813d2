//! What owners call besides the operator's routes of [`lucia_proto::api`]: how they are met, what they draft and sign.
//!
//! One table, as [`lucia_proto::api::Endpoint`] is, which the controller joins to its own when it serves owners over TLS.

mod drafts;

use serde::{Deserialize, Serialize};

use lucia_proto::api::{Caller, Endpoint};
use lucia_proto::base::limits::{BODY_MAX, HOST_BODY_MAX, SIGN_IN_MAX, SIGNED_INTENT_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::endpoints;
use lucia_proto::orders::lists::SignedNames;
use lucia_proto::orders::owner::Role;
use lucia_proto::orders::roster::SignedRoster;
use lucia_proto::pki::bundle::SignedBundle;
use lucia_proto::pki::key::VerificationCode;

pub use drafts::{DraftLine, DraftState, DraftView, DraftsView, GoneNode};

/// Who may call one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerCaller {
    /// Anyone who reaches the port, a few times a minute: the answer tells nothing.
    Anyone,
    /// Anyone who reaches port or socket: the answer is the same everywhere, and public.
    Everybody,
    /// Somebody of the roster with at least this role, by proof or by a session of the page.
    Person(Role),
}

endpoints! {
    /// Every call that is an owner's alone.
    OwnerEndpoint, called by OwnerCaller;

    /// What people call the controller by, as a document of OpenAPI.
    Description: "GET" "/api/openapi.json", 0, OwnerCaller::Everybody;
    /// A challenge of scope `owner`.
    Challenge: "GET" "/api/host/challenge", 0, OwnerCaller::Anyone;
    /// Somebody asks to become an owner.
    Apply: "POST" "/api/host/owners/applications", HOST_BODY_MAX, OwnerCaller::Anyone;
    /// The roster, as the worker signed it.
    Roster: "GET" "/api/host/roster", 0, OwnerCaller::Person(Role::Viewer);
    /// What the worker's nodes are called, as the worker signed it.
    Names: "GET" "/api/host/names", 0, OwnerCaller::Person(Role::Viewer);
    /// Drafts that wait for a signature or for who carries them out, and what became of the last ones.
    Drafts: "GET" "/api/host/intents", 0, OwnerCaller::Person(Role::Viewer);
    /// Hands in a draft.
    AddDraft: "POST" "/api/host/intents", BODY_MAX, OwnerCaller::Person(Role::Owner);
    /// One draft, to be read and signed.
    Draft: "GET" "/api/host/intents/{code}", 0, OwnerCaller::Person(Role::Viewer);
    /// Hands in a signature under it.
    Sign: "POST" "/api/host/intents/{code}/signatures", HOST_BODY_MAX * 2, OwnerCaller::Person(Role::Owner);
    /// Throws a draft away that nobody was handed, or that nobody carries out any more.
    DropDraft: "DELETE" "/api/host/intents/{code}", 0, OwnerCaller::Person(Role::Owner);
    /// Signs in to the page with a passkey.
    SignIn: "POST" "/api/host/sessions", SIGN_IN_MAX, OwnerCaller::Anyone;
    /// One's own sessions of the page; the operator sees all.
    Sessions: "GET" "/api/host/sessions", 0, OwnerCaller::Person(Role::Viewer);
    /// Ends all of them.
    EndSessions: "DELETE" "/api/host/sessions", 0, OwnerCaller::Person(Role::Viewer);
    /// Ends one of them.
    EndSession: "DELETE" "/api/host/sessions/{code}", 0, OwnerCaller::Person(Role::Viewer);
    /// Hands in a passkey for signing in; it signs nobody in before it is confirmed.
    AskPasskey: "POST" "/api/host/passkeys", HOST_BODY_MAX, OwnerCaller::Anyone;
    /// One's own passkeys for signing in; the operator sees all.
    Passkeys: "GET" "/api/host/passkeys", 0, OwnerCaller::Person(Role::Viewer);
    /// Confirms one with an owner key, and only so: it signs in whoever confirmed it.
    ApprovePasskey: "POST" "/api/host/passkeys/{code}", 0, OwnerCaller::Person(Role::Viewer);
    /// Removes one, and ends its sessions.
    RemovePasskey: "DELETE" "/api/host/passkeys/{code}", 0, OwnerCaller::Person(Role::Viewer);
    /// One's own automation tokens; the operator sees all.
    Tokens: "GET" "/api/host/tokens", 0, OwnerCaller::Person(Role::Viewer);
    /// Makes one with the owner key, and shows it once.
    MakeToken: "POST" "/api/host/tokens", HOST_BODY_MAX, OwnerCaller::Person(Role::Owner);
    /// Removes one.
    RemoveToken: "DELETE" "/api/host/tokens/{code}", 0, OwnerCaller::Person(Role::Viewer);
    /// The audit, after `?after=N`, at most 500 lines an answer.
    Audit: "GET" "/api/host/audit", 0, OwnerCaller::Person(Role::Viewer);
    /// Nodes and events as they change: Server-Sent Events.
    Stream: "GET" "/api/host/stream", 0, OwnerCaller::Person(Role::Viewer);
}

// A draft fits into the body that carries it, and what it becomes into one answer.
const _: () = assert!(BODY_MAX >= SIGNED_INTENT_MAX);

impl OwnerEndpoint {
    /// The path with `code` in its place.
    #[must_use]
    pub fn path_for(self, code: &VerificationCode) -> String {
        self.path().replace("{code}", code.as_str())
    }
}

/// The role that an operator's route asks of somebody of the roster who calls it over TLS: looking is a viewer's,
/// anything else an owner's. `None` for what is no operator's route.
#[must_use]
pub fn role_for(endpoint: Endpoint) -> Option<Role> {
    match endpoint.caller() {
        Caller::Operator if endpoint.method() == "GET" => Some(Role::Viewer),
        Caller::Operator => Some(Role::Owner),
        Caller::Anyone | Caller::WindowOpen | Caller::Device | Caller::Node => None,
    }
}

/// Answer to [`OwnerEndpoint::Apply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Applied {
    /// What to compare on the worker's host; who asked computes it anew.
    pub verification_code: VerificationCode,
    /// Until when it waits there.
    pub expires_at: UnixTime,
}

/// Answer to [`OwnerEndpoint::Roster`]. Whoever reads it checks the signature, as a node does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RosterView {
    /// Absent while the fleet has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roster: Option<SignedRoster>,
    /// The bundle whose workers sign it; absent while the controller has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SignedBundle>,
}

/// Answer to [`OwnerEndpoint::Names`]. Whoever reads it checks the signature: the controller only carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NamesView {
    /// Absent while the worker has published none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<SignedNames>,
    /// The bundle whose workers sign it; absent while the controller has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<SignedBundle>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: OW-3
    #[test]
    fn no_row_stands_twice_and_each_change_is_an_owners() {
        let mut seen = std::collections::BTreeSet::new();
        for row in OwnerEndpoint::ALL {
            assert!(seen.insert((row.method(), row.path())), "{row:?}");
            assert!(Endpoint::ALL.iter().all(|other| (other.method(), other.path()) != (row.method(), row.path())));
            assert!(row.method() == "POST" || row.body_max() == 0, "{row:?}");
            assert_eq!(row.path().starts_with("/api/host/"), row.caller() != OwnerCaller::Everybody, "{row:?}");
            match row.caller() {
                OwnerCaller::Everybody => assert_eq!(row, &OwnerEndpoint::Description),
                OwnerCaller::Anyone => assert!(matches!(
                    row,
                    OwnerEndpoint::Challenge | OwnerEndpoint::Apply | OwnerEndpoint::SignIn | OwnerEndpoint::AskPasskey
                )),
                OwnerCaller::Person(role) => {
                    // What is one's own a viewer may change too.
                    let own = matches!(
                        row,
                        OwnerEndpoint::EndSessions
                            | OwnerEndpoint::EndSession
                            | OwnerEndpoint::ApprovePasskey
                            | OwnerEndpoint::RemovePasskey
                            | OwnerEndpoint::RemoveToken
                    );
                    assert_eq!(role == Role::Viewer, own || row.method() == "GET", "{row:?}");
                }
            }
        }
        for row in Endpoint::ALL {
            let want = match (row.path().starts_with("/api/host/"), row.method()) {
                (false, _) => None,
                (true, "GET") => Some(Role::Viewer),
                (true, _) => Some(Role::Owner),
            };
            assert_eq!(role_for(*row), want, "{row:?}");
        }
        let code = "1a2b-3c4d-5e6f".parse().unwrap();
        assert_eq!(OwnerEndpoint::Sign.path_for(&code), "/api/host/intents/1a2b-3c4d-5e6f/signatures");
    }
}

//! The closed list of refusals that travel, each with its status and what it makes an agent do.
//!
//! Design.md I5: no answer of any kind makes an agent delete a key or a certificate, so no
//! [`AgentAction`] can say so.

use serde::{Deserialize, Serialize};

/// What a refusal makes an agent do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAction {
    /// Sign the same report over the challenge that came with the refusal, once; then back off.
    SignAgain,
    /// Try later, with growing pauses; nobody needs to act.
    BackOff,
    /// Try later; a person has to act first, and `why` says who and what.
    AwaitPerson,
    /// Try ever more rarely, down to once an hour, for good; `why` says that the identity is refused.
    Hourly,
    /// The agent itself is wrong: log it, tell it in `why`, try later with growing pauses.
    Report,
}

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident = $text:literal, $status:literal, $action:ident;)*) => {
        /// Why a call was refused. The texts are contract: they never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$meta])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The text that travels.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status it travels with.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// What it makes an agent do.
            #[must_use]
            pub const fn agent_action(self) -> AgentAction {
                match self { $(Self::$name => AgentAction::$action,)* }
            }
        }
    };
}

codes! {
    /// Not the JSON this call takes.
    InvalidBody = "invalid_body", 400, Report;
    /// The request is not well-formed HTTP.
    InvalidRequest = "invalid_request", 400, Report;
    /// The public key is not a P-256 key in its one form.
    BadKey = "bad_key", 400, Report;
    /// Of an unsigned SSH key: no key of a kind that nodes take. In audits from before 2026-12 alone.
    InvalidSshKey = "invalid_ssh_key", 400, Report;
    /// A value of an owner's or operator's call is refused; the message names it.
    InvalidOnboardingRequest = "invalid_onboarding_request", 400, Report;
    /// The challenge is unknown, used, too old, or of another scope or address.
    ChallengeRefused = "challenge_refused", 401, SignAgain;
    /// The identity is refused: unknown, removed, wrong key or wrong certificate. One and the same.
    NodeIdentityInvalid = "node_identity_invalid", 403, Hourly;
    /// Nobody of the roster asks: no proof, an unknown key, a wrong one, or another request. One and the same.
    ActorRequired = "actor_required", 403, Report;
    /// Whoever asks is of the roster and may look only, or has a token that may not look at this.
    RoleRequired = "role_required", 403, Report;
    /// The caller's address is not in `allowed-networks`.
    NetworkNotAllowed = "network_not_allowed", 403, BackOff;
    /// No such path.
    NotFound = "not_found", 404, Report;
    /// The operator named a device that is not there.
    DeviceNotFound = "device_not_found", 404, Report;
    /// The operator named a node that is not there.
    UnknownNode = "unknown_node", 404, Report;
    /// Of an unsigned SSH key: the account has none. In audits from before 2026-12 alone.
    SshKeyNotFound = "ssh_key_not_found", 404, Report;
    /// There is no such draft.
    DraftNotFound = "draft_not_found", 404, Report;
    /// There is no such passkey, none that waits, or none of this person.
    PasskeyNotFound = "passkey_not_found", 404, Report;
    /// There is no such session of this person.
    SessionNotFound = "session_not_found", 404, Report;
    /// There is no such automation token of this person.
    TokenNotFound = "token_not_found", 404, Report;
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405, Report;
    /// The request took too long to arrive.
    RequestTimeout = "request_timeout", 408, BackOff;
    /// The discovery window is closed.
    AdmissionClosed = "admission_closed", 409, AwaitPerson;
    /// This key is a managed node already.
    ManagedDevice = "managed_device", 409, AwaitPerson;
    /// The discovery is older than half an hour: discover again.
    DiscoveryExpired = "discovery_expired", 409, AwaitPerson;
    /// Another device has the same verification code.
    VerificationCodeCollision = "verification_code_collision", 409, AwaitPerson;
    /// The device does not wait for an approval.
    NotPending = "not_pending", 409, AwaitPerson;
    /// The disk is not in the inventory, is removable or read-only.
    IneligibleDisk = "ineligible_disk", 409, AwaitPerson;
    /// Another device or node has this hostname.
    HostnameInUse = "hostname_in_use", 409, AwaitPerson;
    /// The worker bars this key: its node was removed.
    KeyBarred = "key_barred", 409, AwaitPerson;
    /// Nobody approved this device yet.
    NotApproved = "not_approved", 409, AwaitPerson;
    /// The approval was for another inventory or disk.
    ApprovalMismatch = "approval_mismatch", 409, AwaitPerson;
    /// The grant was given to another request.
    GrantConsumed = "grant_consumed", 409, AwaitPerson;
    /// The request id was used with other values.
    RequestReused = "request_reused", 409, Report;
    /// There is no grant.
    NotGranted = "not_granted", 409, AwaitPerson;
    /// This phase cannot follow the present one.
    InvalidTransition = "invalid_transition", 409, Report;
    /// The installation is not at its end yet.
    EnrollmentNotReady = "enrollment_not_ready", 409, BackOff;
    /// The request differs from the approved task or from an earlier request.
    EnrollmentMismatch = "enrollment_mismatch", 409, AwaitPerson;
    /// The installation took longer than its grant allows.
    EnrollmentExpired = "enrollment_expired", 409, AwaitPerson;
    /// The device is not a managed node.
    NotManaged = "not_managed", 409, AwaitPerson;
    /// The device was not rejected.
    NotRejected = "not_rejected", 409, AwaitPerson;
    /// The node's identity is not frozen.
    NotFrozen = "not_frozen", 409, AwaitPerson;
    /// Of an unsigned SSH key: the account has it already. In audits from before 2026-12 alone.
    DuplicateSshKey = "duplicate_ssh_key", 409, AwaitPerson;
    /// Of an unsigned SSH key: the account has as many as it may. In audits from before 2026-12 alone.
    TooManySshKeys = "too_many_ssh_keys", 409, AwaitPerson;
    /// Of an unsigned SSH key: all together would not fit. In audits from before 2026-12 alone.
    SshKeyListFull = "ssh_key_list_full", 409, AwaitPerson;
    /// The intent or the signature under it is refused; the message says which code of intents and what cures it.
    IntentRefused = "intent_refused", 409, AwaitPerson;
    /// The fleet has owners, and this is what one of them signs.
    OwnersSign = "owners_sign", 409, AwaitPerson;
    /// The fleet has no roster yet, or the controller does not have it.
    NoRoster = "no_roster", 409, AwaitPerson;
    /// The body is longer than this call takes.
    BodyTooLarge = "body_too_large", 413, Report;
    /// The body has a content coding or type that this call does not take.
    UnsupportedContent = "unsupported_content", 415, Report;
    /// Too many calls; `Retry-After` says when.
    TooManyRequests = "too_many_requests", 429, BackOff;
    /// The headers are longer than allowed.
    HeadersTooLarge = "headers_too_large", 431, Report;
    /// The journal holds as many devices or tasks as its settings allow.
    RegistryFull = "registry_full", 503, AwaitPerson;
    /// The journal cannot be written: the controller refuses every change until it is restarted.
    PersistenceFailed = "persistence_failed", 503, BackOff;
    /// The enrollment worker was not heard from for 45 seconds.
    NodeWorkerUnavailable = "node_worker_unavailable", 503, BackOff;
    /// The enrollment worker refused; its reason is in the message.
    NodeEnrollmentFailed = "node_enrollment_failed", 503, AwaitPerson;
    /// The controller has as many connections as it takes, or is stopping.
    Busy = "busy", 503, BackOff;
}

/// Body of every refusal: `{"error":{"code","message","type"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// The one member.
    pub error: ErrorText,
}

/// A refusal for the peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorText {
    /// The contract.
    pub code: Code,
    /// For people; may change.
    pub message: String,
    /// Which side of the interface refused.
    #[serde(rename = "type")]
    pub kind: ErrorKind,
}

/// Which side of the interface refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// `/api/boot`.
    DiscoveryError,
    /// `/api/nodes`.
    NodeError,
    /// `/api/host`, and the caller can cure it.
    InvalidRequestError,
    /// `/api/host`, and the caller cannot.
    ServerError,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: AG-1
    #[test]
    fn every_code_has_one_text_and_a_refusing_status() {
        let mut texts = std::collections::BTreeSet::new();
        for code in Code::ALL {
            assert!(texts.insert(code.as_str()), "{code:?}");
            assert!((400..600).contains(&code.status()), "{code:?}");
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.as_str()));
        }
    }

    // spec: PR-8
    #[test]
    fn an_identity_failure_is_one_code() {
        let hourly: Vec<_> = Code::ALL.iter().filter(|code| code.agent_action() == AgentAction::Hourly).collect();
        assert_eq!(hourly, [&Code::NodeIdentityInvalid]);
        let again: Vec<_> = Code::ALL.iter().filter(|code| code.agent_action() == AgentAction::SignAgain).collect();
        assert_eq!(again, [&Code::ChallengeRefused]);
    }
}

//! What cures a failed call, in one line each: for `why`, `status` and the log.

use lucia_proto::code::{AgentAction, Code};

use super::CallError;

/// What a person can do, or that nothing needs to be done.
#[must_use]
pub const fn of(error: &CallError) -> &'static str {
    match error {
        CallError::Unreachable(source) => source.cure(),
        CallError::Stranger { .. } => {
            "look for a proxy or another server at the controller's address; key and certificate are kept"
        }
        CallError::Refused { code, .. } => of_code(*code),
        CallError::BadAnswer { .. } => "check that agent and controller have versions that belong together",
        CallError::Unsigned(_) | CallError::NoCertificate => "report this mistake of the agent, with its log",
    }
}

const fn of_code(code: Code) -> &'static str {
    match code {
        Code::ChallengeRefused => "nothing; if it stays, the way to the controller changes this machine's address",
        Code::NodeIdentityInvalid => {
            "compare `luciactl nodes` with this node: if it was removed on purpose stop the agent, else discover it anew"
        }
        Code::NetworkNotAllowed => "add this machine's network to allowed-networks of the controller",
        Code::AdmissionClosed => "open the window: `luciactl window open --minutes 30` on the controller",
        Code::ManagedDevice => {
            "this key is a managed node already; remove the node first if it is to be installed anew"
        }
        Code::DiscoveryExpired => "run `lucia-node-agent discover` again",
        Code::VerificationCodeCollision => "reject the other device, or make this machine a new key",
        Code::NotApproved | Code::NotPending => "approve this machine: `luciactl onboarding`, then `luciactl approve`",
        Code::ApprovalMismatch => "the machine changed since it was approved; discover it and approve it again",
        Code::GrantConsumed | Code::NotGranted | Code::EnrollmentExpired | Code::RequestReused => {
            "the installation must be approved anew: discover this machine and approve it again"
        }
        Code::EnrollmentMismatch => "compare hostname and key with `luciactl onboarding`; if they differ install anew",
        Code::HostnameInUse => "approve this machine under another name",
        Code::IneligibleDisk => "approve this machine with a disk that is fixed and writable",
        Code::RegistryFull => "raise the controller's limit of devices, or remove old ones",
        Code::PersistenceFailed => "look at the controller's log and disk (`lucia-controller doctor`)",
        Code::NodeWorkerUnavailable => "start the enrollment worker (`lucia-enrollment-worker status`)",
        Code::NodeEnrollmentFailed => "look at `lucia-enrollment-worker pending` on the worker's host",
        Code::EnrollmentNotReady => "nothing; the installation is not at its end yet",
        Code::Busy | Code::TooManyRequests | Code::RequestTimeout => "nothing; it is tried again",
        code => match code.agent_action() {
            AgentAction::Report => "check that agent and controller have versions that belong together",
            AgentAction::AwaitPerson => "look at `luciactl onboarding` on the controller",
            _ => "nothing; it is tried again",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_cure() {
        for code in Code::ALL {
            assert!(!of_code(*code).is_empty());
        }
        let stranger = CallError::Stranger { status: 407, retry_after: None };
        assert!(stranger.to_string().contains("something other than the controller answered"));
        assert!(of(&stranger).contains("proxy"));
    }
}

//! What cures a failed call, in one line each: for `why`, `status` and the log.

use lucia_proto::base::code::{AgentAction, Code};

use super::CallError;
use super::proxy::ProxyError;
use super::transport::TransportError;
use crate::host::status::Reason;

/// What a person can do, or that nothing needs to be done.
#[must_use]
pub const fn of(error: &CallError) -> &'static str {
    match error {
        CallError::Unreachable(source) => source.cure(),
        CallError::Stranger { .. } => "look for a proxy or another server at the controller's address; the key is kept",
        CallError::Refused { code, .. } => of_code(*code),
        CallError::BadAnswer { .. } => "check that agent and controller have versions that belong together",
        CallError::Unsigned(_) | CallError::NoCertificate => "report this mistake of the agent, with its log",
    }
}

/// What kind of failure it is, where that decides what counts of several.
#[must_use]
pub const fn reason(error: &CallError) -> Option<Reason> {
    match error {
        CallError::Unreachable(TransportError::Clock { .. } | TransportError::Proxy(_, ProxyError::Clock(_))) => {
            Some(Reason::Clock)
        }
        CallError::Refused { code: Code::NodeIdentityInvalid, .. } => Some(Reason::Identity),
        CallError::Refused { code: Code::NodeEnrollmentFailed, .. } => Some(Reason::Worker),
        _ => None,
    }
}

const fn of_code(code: Code) -> &'static str {
    match code {
        Code::ChallengeRefused => "nothing; if it stays, the way to the controller changes this machine's address",
        Code::NodeIdentityInvalid => {
            "keep key and certificate: the controller never says why, and it may heal. An owner sees the reason: `luciactl why NAME`, \
             and `luciactl events` where the name is gone. Suspended by the worker: `lucia-enrollment-worker resume NAME`. A \
             controller that was put back to before it knew this node: bring its newer journal back. Only where the reason is that \
             an owner removed the node, split it off as a copy (`luciactl clone`) or had another machine replace it, this key never \
             counts again: `lucia-node-agent rekey` and a new approval bring the machine back, and if it was meant to go stop the \
             agent"
        }
        Code::NetworkNotAllowed => "add this machine's network to allowed-networks of the controller",
        Code::AdmissionClosed => "open the window: `luciactl window open --minutes 30` on the controller",
        Code::ManagedDevice => "this key is a managed node already; remove the node first to install it anew",
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

    /// The refusal is one and the same for every reason (design.md I5), so the cure names them all, and where it is seen which.
    // spec: AO-95
    #[test]
    fn a_refused_identity_names_each_reason_there_may_be_and_who_sees_which() {
        let cure = of_code(Code::NodeIdentityInvalid);
        let rekey = "lucia-node-agent rekey";
        let resume = "lucia-enrollment-worker resume";
        for part in ["luciactl why", "luciactl events", "luciactl clone", rekey, resume] {
            assert!(cure.contains(part), "{part}: {cure}");
        }
        // What heals comes first, and a new key only for what never heals.
        let place = |part| cure.find(part).unwrap();
        assert!(place(resume) < place(rekey) && place("journal") < place(rekey), "{cure}");
    }

    #[test]
    fn every_refusal_has_a_cure() {
        for code in Code::ALL {
            assert!(!of_code(*code).is_empty());
        }
        let stranger = CallError::Stranger { status: 407, retry_after: None };
        assert!(stranger.to_string().contains("407") && of(&stranger).contains("proxy"));
    }
}

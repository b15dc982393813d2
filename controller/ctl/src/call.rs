//! Why a call was not answered as it should be, and what cures that.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use lucia_proto::base::code::{Code, ErrorBody};
use lucia_proto::base::text::shown;
use lucia_proto::pki::key::VerificationCode;

use crate::files::name;
use crate::problem::{CONFIG, Ending, FAILED, UNAVAILABLE, problems};

problems! {
    /// Why there is no answer.
    pub(crate) enum CallError {
        NoSocket(path: PathBuf, err: io::Error) = "", UNAVAILABLE, ["no controller answers on {} ({err})", name(path)],
            ["{}", no_socket(err)];
        Closed = "", UNAVAILABLE, ["the controller closed the connection: on its socket it takes calls from root and from its own user only"];
        Unreachable(to: String, err: io::Error) = "", UNAVAILABLE, ["no controller answers at {to} ({err})"],
            ["is it running, and is the context's address right?"];
        Stranger(to: String, name: String) = "server_unverified", FAILED,
            ["who answers at {to} does not prove to be {name} by this context's root, so nothing was sent"],
            ["compare the root with the one on the worker's host, and the name with the controller's"];
        Clock(to: String) = "", FAILED, ["the certificate of {to} is not valid at this machine's time, so nothing was sent"],
            ["set the clock, or look at luciactl status there"];
        Root(why: String) = "", CONFIG, ["TLS cannot be set up with this context's root and controller ({why})"],
            ["run luciactl login again"];
        Silent = "", UNAVAILABLE, ["the controller did not answer in time"], ["its log may say why"];
        Strange(why: String) = "answer_invalid", FAILED, ["the controller's answer is not understood ({})", shown(why)],
            ["is luciactl of the same version?"];
        Refused(body: ErrorBody) = body.error.code.as_str(), FAILED,
            ["{} ({})", shown(&body.error.message), body.error.code.as_str()], ["{}", refused(body.error.code)];
    }
}

/// What cures a socket that is not there, is left over, or is not ours.
fn no_socket(err: &io::Error) -> &'static str {
    match err.kind() {
        io::ErrorKind::NotFound => {
            "on the controller's host: systemctl start lucia-controller; on your own machine: luciactl login, which makes \
             you an owner and this machine's context"
        }
        io::ErrorKind::PermissionDenied => "be root or the controller's user: sudo luciactl ...",
        _ => "start it: systemctl start lucia-controller; its log says why it ended",
    }
}

/// What cures a refusal where the controller's own words may not say it.
fn refused(code: Code) -> &'static str {
    match code {
        Code::ActorRequired => {
            "The roster does not have this key. Run luciactl login again and have it approved on the worker's host; if \
             it was approved, wait until the controller has the roster."
        }
        Code::RoleRequired => "Ask an owner (luciactl owners), or whoever runs the worker to make you one.",
        Code::NoRoster => "The first owner is approved on the worker's host: lucia-enrollment-worker owner pending.",
        Code::DraftNotFound => "luciactl drafts shows the orders there are.",
        Code::PasskeyNotFound => "luciactl passkey list shows those that are confirmed.",
        Code::SessionNotFound => "luciactl session list shows those there are.",
        _ => "",
    }
}

/// An answer that is none.
pub(crate) fn strange(error: &dyn Display) -> CallError {
    CallError::Strange(error.to_string())
}

impl CallError {
    /// The code of a refusal.
    pub(crate) const fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(body) => Some(body.error.code),
            _ => None,
        }
    }

    /// How far an order came whose signature was to be handed in by this call.
    pub(crate) fn ending(&self, code: &VerificationCode) -> Ending {
        let code = code.clone();
        match self {
            Self::Refused(_) => Ending::NotTaken(code),
            Self::NoSocket(..) | Self::Stranger(..) | Self::Clock(_) | Self::Root(_) => Ending::Unsent(code),
            // Nobody took the connection: it cannot have been sent. One that ended later may have carried it.
            Self::Unreachable(_, err) if err.kind() == io::ErrorKind::ConnectionRefused => Ending::Unsent(code),
            Self::Unreachable(..) | Self::Closed | Self::Silent | Self::Strange(_) => Ending::Unanswered(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-91
    #[test]
    fn a_call_that_failed_says_whether_the_signature_can_have_arrived() {
        let code: VerificationCode = "1a2b-3c4d-5e6f".parse().unwrap();
        let to = || "controller.test".to_owned();
        let unreachable = |kind: io::ErrorKind| CallError::Unreachable(to(), kind.into());
        let refused = r#"{"error":{"code":"intent_refused","message":"no","type":"invalid_request_error"}}"#;
        let refused = lucia_proto::base::json::from_str(refused, 4096, 4).unwrap();
        for (error, want) in [
            (CallError::Refused(refused), Ending::NotTaken(code.clone())),
            (CallError::NoSocket("/s".into(), io::ErrorKind::NotFound.into()), Ending::Unsent(code.clone())),
            (CallError::Stranger(to(), to()), Ending::Unsent(code.clone())),
            (CallError::Clock(to()), Ending::Unsent(code.clone())),
            (CallError::Root(String::new()), Ending::Unsent(code.clone())),
            (unreachable(io::ErrorKind::ConnectionRefused), Ending::Unsent(code.clone())),
            (unreachable(io::ErrorKind::ConnectionReset), Ending::Unanswered(code.clone())),
            (CallError::Closed, Ending::Unanswered(code.clone())),
            (CallError::Silent, Ending::Unanswered(code.clone())),
            (CallError::Strange(String::new()), Ending::Unanswered(code.clone())),
        ] {
            assert_eq!(error.ending(&code), want, "{error:?}");
            // Each has to be signed again, and says with which command.
            let failure = crate::problem::Failure::from(error).ended(want);
            assert!(
                failure.is_signed() && failure.cure().unwrap().contains("luciactl sign 1a2b-3c4d-5e6f"),
                "{failure:?}"
            );
        }
        let unsigned = crate::problem::Failure::from(CallError::Closed).unsigned();
        assert!(!unsigned.is_signed() && unsigned.cure().is_none());
    }
}

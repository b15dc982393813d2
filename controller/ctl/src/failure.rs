//! Why a verb did not do its work, in a sentence that says what cures it, and the exit code that goes with it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lucia_proto::base::ids::StartId;
use lucia_proto::base::text::shown;
use lucia_proto::pki::key::{Fingerprint, VerificationCode};
use thiserror::Error;

use crate::audit::AuditProblem;
use crate::client::CallError;
use crate::codes;
use crate::context::ContextError;
use crate::login::LoginError;
use crate::nodes_named::NodesProblem;
use crate::order::OrderError;
use crate::owner_key::OwnerKeyError;
use crate::roster::RosterProblem;
use crate::session::RootError;
use crate::sign::SignError;

/// It was not asked properly.
pub(crate) const USAGE: u8 = 64;
/// Nobody answers.
const UNAVAILABLE: u8 = 69;
/// What lies on this machine cannot be used.
const CONFIG: u8 = 78;

/// Why a verb did not do its work.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The controller did not do it.
    #[error("{0}")]
    Call(CallError),
    /// No such device.
    #[error("no device has the code {0}; luciactl onboarding shows those there are")]
    NoDevice(VerificationCode),
    /// No such node.
    #[error("no node or device is {}; luciactl nodes and luciactl onboarding show those there are", shown(.0))]
    NoNode(String),
    /// No such order.
    #[error("no order has the code {0}; luciactl drafts shows those there are")]
    NoOrder(VerificationCode),
    /// An order that is not thrown away.
    #[error("nothing was dropped: the order {code} {why}")]
    Kept {
        /// Which.
        code: VerificationCode,
        /// Why.
        why: &'static str,
    },
    /// No such token.
    #[error("you have no token {}; luciactl token list shows those there are", shown(.0))]
    NoToken(String),
    /// More than one is called so.
    #[error("more than one token is {}; say the code that luciactl token list shows", shown(.0))]
    TokensAlike(String),
    /// A scope stands twice.
    #[error("--scope: each scope once")]
    ScopesTwice,
    /// The fingerprint is another one.
    #[error(
        "the fingerprint is not this device's, so nothing was approved.\n  given       {}\n              {}\n  device has  {}\n              \
         {}\n\
         Look at the machine's own screen: if it shows the given one, another machine pretends to be it.",
        .given.rows()[0], .given.rows()[1], .found.rows()[0], .found.rows()[1]
    )]
    OtherFingerprint {
        /// As typed.
        given: Fingerprint,
        /// As the controller has it.
        found: Fingerprint,
    },
    /// What is typed is no fingerprint.
    #[error("that is no fingerprint: it is 64 hex digits, in two rows; nothing was done")]
    NoFingerprint,
    /// It was not given, and nobody can type it.
    #[error(
        "the whole fingerprint is needed, as the machine's own screen shows it: --fingerprint HEX, or a terminal to type it on"
    )]
    SayFingerprint,
    /// There is nothing to decide.
    #[error("the identity of {} is not frozen: it was not seen twice, so there is nothing to decide", shown(.0))]
    NotFrozen(String),
    /// Nobody has this start.
    #[error("no holder of {} has the start {start}; luciactl node {} shows those there are", shown(.node), shown(.node))]
    NoHolder {
        /// Which node.
        node: String,
        /// As typed.
        start: StartId,
    },
    /// The file holds no key that nodes take.
    #[error("{}: {why}", shown(&.file.to_string_lossy()))]
    KeyFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The controller would refuse the approval.
    #[error("nothing was approved: {0}")]
    NotApproved(String),
    /// The question was answered otherwise.
    #[error("not confirmed, nothing was done")]
    NotConfirmed,
    /// There is nobody to ask.
    #[error("this needs a confirmation and there is no terminal to ask on: add --yes")]
    NobodyToAsk,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The manual cannot be laid.
    #[error("cannot write the manual's pages into {} ({err}); is it a directory that you may write?", shown(&.directory.to_string_lossy()))]
    Pages {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        err: io::Error,
    },
    /// Only an owner can.
    #[error("{0} needs an owner's key: luciactl login makes one and a context, --context NAME uses another context")]
    OwnersOnly(&'static str),
    /// The contexts.
    #[error("{0}")]
    Context(ContextError),
    /// A root file.
    #[error("{0}")]
    Root(RootError),
    /// The owner key.
    #[error("{0}")]
    Key(OwnerKeyError),
    /// Nothing that may be signed.
    #[error("{0}")]
    Sign(SignError),
    /// What the nodes of an order are called.
    #[error("{0}")]
    Nodes(NodesProblem),
    /// The roster.
    #[error("{0}")]
    Roster(RosterProblem),
    /// The place in the roster.
    #[error("{0}")]
    Login(LoginError),
    /// The audit.
    #[error("{0}")]
    Audit(AuditProblem),
    /// What is to be ordered.
    #[error("{0}")]
    Order(OrderError),
    /// An order that was shown, and how far it came.
    #[error("{failure}\n{ending}")]
    Shown {
        /// What went wrong.
        failure: Box<Failure>,
        /// How far.
        ending: Ending,
    },
    /// The runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

/// How far an order came that failed after it was shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Ending {
    /// There is no signature.
    #[error("Nothing was signed.")]
    Unsigned,
    /// There is one, and it is here.
    #[error("It is signed, but not sent: run luciactl sign {0} again.")]
    Unsent(VerificationCode),
    /// There is one, and nobody answered to it.
    #[error("It is signed, but whether it arrived is not known: run luciactl sign {0} again, which says so if it did.")]
    Unanswered(VerificationCode),
    /// The controller said no to it.
    #[error("It is signed, but the controller did not take the signature. Once that is cured: luciactl sign {0}")]
    NotTaken(VerificationCode),
}

impl Ending {
    /// After a signature under the order of this code was to be handed in.
    pub(crate) fn of(error: &CallError, code: &VerificationCode) -> Self {
        match error {
            CallError::Refused(_) => Self::NotTaken(code.clone()),
            CallError::NoSocket { .. } | CallError::Stranger { .. } | CallError::Clock { .. } | CallError::Root(_) => {
                Self::Unsent(code.clone())
            }
            // Nobody took the connection: it cannot have been sent. One that ended later may have carried it.
            CallError::Unreachable { err, .. } if err.kind() == io::ErrorKind::ConnectionRefused => {
                Self::Unsent(code.clone())
            }
            CallError::Unreachable { .. } | CallError::Closed | CallError::Silent | CallError::Strange(_) => {
                Self::Unanswered(code.clone())
            }
        }
    }
}

impl Failure {
    /// The sentence for the person.
    pub(crate) fn sentence(&self) -> String {
        self.to_string()
    }

    /// The word for programs: the controller's own code where it refused, else one of ours.
    pub(crate) fn code(&self) -> &'static str {
        let own = match self {
            Self::Shown { failure, .. } => Some(failure.code()),
            Self::NoDevice(_) | Self::NoNode(_) | Self::NoOrder(_) | Self::NoToken(_) | Self::NoHolder { .. } => {
                Some("not_found")
            }
            Self::NotConfirmed => Some("not_confirmed"),
            Self::NotApproved(_) => Some("not_approved"),
            Self::NotFrozen(_) => Some("not_frozen"),
            Self::Kept { .. } => Some("cannot_drop"),
            Self::OtherFingerprint { .. } => Some("fingerprint_mismatch"),
            Self::NoFingerprint => Some("fingerprint_invalid"),
            Self::Call(error) => codes::call(error),
            Self::Context(error) => codes::context(error),
            Self::Root(error) => codes::root(error),
            Self::Key(error) => codes::key(error),
            Self::Sign(error) => codes::sign(error),
            Self::Nodes(error) => codes::nodes(error),
            Self::Roster(error) => codes::roster(error),
            Self::Login(error) => codes::login(error),
            Self::Audit(error) => codes::audit(error),
            Self::Order(error) => codes::order(error),
            _ => None,
        };
        own.unwrap_or_else(|| match self.exit().0 {
            USAGE => "usage",
            UNAVAILABLE => "unreachable",
            CONFIG => "config",
            _ => "failed",
        })
    }

    /// The same, of an order that was shown and is not signed.
    pub(crate) fn unsigned(self) -> Self {
        match self {
            // They say so by themselves.
            Self::Sign(_) | Self::Order(_) | Self::NotConfirmed | Self::Shown { .. } => self,
            failure => Self::Shown { failure: Box::new(failure), ending: Ending::Unsigned },
        }
    }

    /// Whether there is a signature of the order that this was about.
    pub(crate) const fn is_signed(&self) -> bool {
        matches!(self, Self::Shown { ending: Ending::Unsent(_) | Ending::Unanswered(_) | Ending::NotTaken(_), .. })
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Shown { failure, .. } => failure.exit(),
            Self::Call(
                CallError::NoSocket { .. } | CallError::Unreachable { .. } | CallError::Closed | CallError::Silent,
            ) => Exit(UNAVAILABLE),
            Self::NobodyToAsk | Self::SayFingerprint | Self::OwnersOnly(_) | Self::ScopesTwice => Exit(USAGE),
            Self::Sign(SignError::TypeAdmission(_))
            | Self::Nodes(
                NodesProblem::NobodyKnows(_) | NodesProblem::OtherName { .. } | NodesProblem::ControllersWord { .. },
            ) => Exit(USAGE),
            Self::Context(ContextError::Unknown(_) | ContextError::NoneInUse | ContextError::Taken(_)) => Exit(USAGE),
            Self::Context(_) | Self::Root(_) | Self::Call(CallError::Root(_)) => Exit(CONFIG),
            Self::Key(OwnerKeyError::File(_) | OwnerKeyError::Missing(_) | OwnerKeyError::NotKey(_)) => Exit(CONFIG),
            Self::Key(OwnerKeyError::Passphrase(_) | OwnerKeyError::WrongPassphrase(_) | OwnerKeyError::Make(_))
            | Self::Call(
                CallError::Strange(_) | CallError::Refused(_) | CallError::Stranger { .. } | CallError::Clock { .. },
            )
            | Self::Sign(_)
            | Self::Nodes(_)
            | Self::Roster(_)
            | Self::Login(_)
            | Self::Audit(_)
            | Self::Order(_)
            | Self::NoDevice(_)
            | Self::NoOrder(_)
            | Self::Kept { .. }
            | Self::NoNode(_)
            | Self::NoFingerprint
            | Self::NoToken(_)
            | Self::TokensAlike(_)
            | Self::NotFrozen(_)
            | Self::NoHolder { .. }
            | Self::KeyFile { .. }
            | Self::OtherFingerprint { .. }
            | Self::NotConfirmed
            | Self::NotApproved(_)
            | Self::Output(_)
            | Self::Pages { .. }
            | Self::Start(_) => Exit(1),
        }
    }
}

/// An exit code.
pub(crate) struct Exit(u8);

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Each part has its own errors; here they are one.
macro_rules! from {
    ($($error:ident => $variant:ident),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    CallError => Call,
    ContextError => Context,
    RootError => Root,
    OwnerKeyError => Key,
    SignError => Sign,
    RosterProblem => Roster,
    LoginError => Login,
    AuditProblem => Audit,
    OrderError => Order,
    NodesProblem => Nodes,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: LC-91
    #[test]
    fn a_call_that_failed_says_whether_the_signature_can_have_arrived() {
        let code: VerificationCode = "1a2b-3c4d-5e6f".parse().unwrap();
        let to = || "controller.test".to_owned();
        let unreachable = |kind: io::ErrorKind| CallError::Unreachable { to: to(), err: kind.into() };
        let refused = r#"{"error":{"code":"intent_refused","message":"no","type":"invalid_request_error"}}"#;
        let refused = lucia_proto::base::json::from_str(refused, 4096, 4).unwrap();
        for (error, want) in [
            (CallError::Refused(refused), Ending::NotTaken(code.clone())),
            (
                CallError::NoSocket { path: "/s".into(), err: io::ErrorKind::NotFound.into() },
                Ending::Unsent(code.clone()),
            ),
            (CallError::Stranger { to: to(), name: to() }, Ending::Unsent(code.clone())),
            (CallError::Clock { to: to() }, Ending::Unsent(code.clone())),
            (CallError::Root(String::new()), Ending::Unsent(code.clone())),
            (unreachable(io::ErrorKind::ConnectionRefused), Ending::Unsent(code.clone())),
            (unreachable(io::ErrorKind::ConnectionReset), Ending::Unanswered(code.clone())),
            (CallError::Closed, Ending::Unanswered(code.clone())),
            (CallError::Silent, Ending::Unanswered(code.clone())),
            (CallError::Strange(String::new()), Ending::Unanswered(code.clone())),
        ] {
            assert_eq!(Ending::of(&error, &code), want, "{error:?}");
            // Each has to be signed again, and says with which command.
            assert!(want.to_string().contains("luciactl sign 1a2b-3c4d-5e6f"), "{want}");
        }
        assert!(!Ending::Unsigned.to_string().contains("luciactl sign"));
    }
}

//! A refusal has two texts: one for the peer, one for the log; and a code that is contract.

use lucia_proto::base::code::Code;
use lucia_proto::base::ids::NodeId;
pub(crate) use lucia_proto::base::text::chain;
use thiserror::Error as ThisError;

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("{log}")]
pub struct Refusal {
    /// The contract.
    pub code: Code,
    /// For the peer.
    pub message: String,
    /// For the log; never leaves this machine.
    pub log: String,
}

impl Refusal {
    /// A refusal whose reason the peer may know.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, log: message.clone(), message }
    }

    /// A refusal whose true reason is for the log alone.
    pub(crate) fn logged(code: Code, message: impl Into<String>, log: impl Into<String>) -> Self {
        Self { code, message: message.into(), log: log.into() }
    }

    /// Every identity failure: one code, one message (design.md I5).
    pub(crate) fn identity(log: impl Into<String>) -> Self {
        Self::logged(Code::NodeIdentityInvalid, "This identity is not accepted.", log)
    }

    /// Everyone who is nobody of the roster: one code, one message.
    pub(crate) fn actor(log: impl Into<String>) -> Self {
        let message = "This call is for people of the roster; sign it with an owner key of it (luciactl login).";
        Self::logged(Code::ActorRequired, message, log)
    }

    /// Nothing more is told of a node that is not there.
    pub(crate) fn unknown_node(id: &NodeId) -> Self {
        Self::new(Code::UnknownNode, format!("There is no node {id}."))
    }

    /// Every challenge that cannot be used.
    pub(crate) fn challenge(log: impl Into<String>) -> Self {
        Self::logged(Code::ChallengeRefused, "Sign again over the challenge in Lucia-Challenge.", log)
    }

    /// The system gives no random bytes.
    pub(crate) fn no_randomness(error: getrandom::Error) -> Self {
        Self::logged(Code::Busy, "The controller has no random bytes.", error.to_string())
    }

    /// The disk.
    pub(crate) fn persistence(error: impl std::error::Error) -> Self {
        let message = "The controller cannot write its state; its log says why.";
        Self::logged(Code::PersistenceFailed, message, chain(&error))
    }
}

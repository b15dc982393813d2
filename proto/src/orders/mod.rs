//! Orders that an owner signs and that who carries them out checks (design.md O2).
//!
//! An [`OrderHead`] is the signed head: kind, fleet, owner, the nodes by name, and the hash of a [`Body`]. Its owner signs
//! `lucia-intent-v1\n` and the very text that travels. A one-shot kind is carried out once, within a day; a state kind
//! says how a subject is from now on, and its revision rises. Nothing of an order is used before [`SignedOrder::check`]
//! made a [`VerifiedOrder`] of it, and nothing is carried out before [`OrderMemory::remember`] made an [`Order`] of
//! that and the memory was stored.
//!
//! The order of reading: `body`, a kind, this table, `head`, `kind`, `policy`, `signed`, `passkey`, `check`, `memory`, `words`.

pub mod application;
pub mod exchange;
pub mod freshness;
pub mod lists;
pub mod owner;
pub mod owner_proof;
pub mod roster;
pub mod ssh_key;

mod account_keys;
mod admit;
mod body;
mod check;
mod clone_decision;
mod head;
mod kind;
mod memory;
mod passkey;
mod policy;
mod refusal;
mod release_lapse;
mod remove_identity;
mod rename;
mod signed;
#[cfg(test)]
mod tests;
mod verified;
mod words;

use serde::{Deserialize, Serialize};

use crate::base::bounded::{Label, OutOfBounds};
use crate::base::ids::NodeId;
use crate::base::json::{self, JsonError};
use crate::base::limits::{JSON_DEPTH_MAX, ORDER_BODY_MAX};
use crate::base::names::Hostname;
use crate::pki::key::Fingerprint;

pub use account_keys::{LabelledKey, NotPlain, PlainSshKey, SshKeys};
pub use admit::Admit;
#[cfg(any(test, feature = "test-support"))]
pub use body::OrderSample;
pub use body::{Actor, Effect, Flow, OrderBody, visible};
pub use check::Checker;
pub use clone_decision::{CloneDecision, Decision};
pub use head::{BadSubject, ORDER_HEAD, OrderHead, OrderId, Subject, Terms};
pub use kind::{BadLaterKind, LaterKind, PageKinds};
pub use memory::{Order, OrderMemory};
pub use passkey::{Assertion, AssertionError, challenge as passkey_challenge, verify_over};
pub use policy::{OpenPolicy, OrderPolicy, Rule};
pub use refusal::{OrderCode, OrderRefusal};
pub use release_lapse::ReleaseLapse;
pub use remove_identity::RemoveIdentity;
pub use rename::RenameNode;
pub use signed::{Draft, DraftError, OrderSignature, ReadDraft, SignedOrder};
pub use verified::VerifiedOrder;
pub use words::words;

/// The table of kinds.
macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident: $body:ty;)*) => {
        /// What an order asks. A closed list: what is not on it is refused before anything else is looked at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum OrderKind { $($(#[$doc])* $name,)* }

        impl OrderKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word that is signed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => <$body>::WORD,)* }
            }

            /// What lists call it.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => <$body>::TITLE,)* }
            }

            /// Whether it says how something is from now on, with a revision that rises. Else it is done once, within a day.
            #[must_use]
            pub const fn is_state(self) -> bool {
                matches!(match self { $(Self::$name => <$body>::FLOW,)* }, Flow::State)
            }

            /// Who acts on it; anybody else refuses it.
            #[must_use]
            pub const fn actors(self) -> &'static [Actor] {
                match self { $(Self::$name => <$body>::ACTORS,)* }
            }

            /// The kind of this word.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
            }
        }

        /// A body of its kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body { $($(#[$doc])* $name($body),)* }

        impl Body {
            /// Reads the body of an order of `kind`.
            ///
            /// # Errors
            /// When it is longer than 32 KiB or not strict JSON of that kind's shape.
            pub fn parse(kind: OrderKind, text: &str) -> Result<Self, JsonError> {
                Ok(match kind {
                    $(OrderKind::$name => Self::$name(json::from_str(text, ORDER_BODY_MAX, JSON_DEPTH_MAX)?),)*
                })
            }

            /// The text that is hashed and travels.
            ///
            /// # Errors
            /// Never for values of this type.
            pub fn to_text(&self) -> Result<String, JsonError> {
                match self { $(Self::$name(body) => json::to_string(body),)* }
            }

            /// The kind whose body it is.
            #[must_use]
            pub const fn kind(&self) -> OrderKind {
                match self { $(Self::$name(_) => OrderKind::$name,)* }
            }

            /// See [`OrderBody::hostname`].
            #[must_use]
            pub fn hostname(&self) -> Option<&Hostname> {
                match self { $(Self::$name(body) => body.hostname(),)* }
            }

            /// See [`OrderBody::new_key`].
            #[must_use]
            pub fn new_key(&self) -> Option<&Fingerprint> {
                match self { $(Self::$name(body) => body.new_key(),)* }
            }

            /// See [`OrderBody::effect`].
            #[must_use]
            pub fn effect(&self) -> Effect<'_> {
                match self { $(Self::$name(body) => body.effect(),)* }
            }

            /// See [`OrderBody::about`]; cut where it is long, since what is signed is read in [`words`].
            #[must_use]
            pub fn about(&self, before: Option<&Self>) -> Option<Label> {
                Label::fitted(&match self {
                    $(Self::$name(body) => body.about(before.and_then(|before| match before {
                        Self::$name(before) => Some(before),
                        #[allow(unreachable_patterns, reason = "a table may have one row")]
                        _ => None,
                    })),)*
                })
            }

            /// See [`OrderBody::before_the_first`].
            #[must_use]
            pub fn before_the_first(&self) -> Option<Self> {
                match self { $(Self::$name(body) => body.before_the_first().map(Self::$name),)* }
            }

            fn hides_text(&self) -> bool {
                match self { $(Self::$name(body) => body.hides_text(),)* }
            }

            fn fits(&self, nodes: &[NodeId], subject: Option<&str>) -> Result<(), OutOfBounds> {
                match self { $(Self::$name(body) => body.fits(nodes, subject),)* }
            }

            fn words(&self, lines: &mut Vec<String>) {
                match self { $(Self::$name(body) => body.words(lines),)* }
            }

            /// A good one of this kind, for tests.
            #[cfg(any(test, feature = "test-support"))]
            #[must_use]
            pub fn sample(kind: OrderKind, of: &OrderSample) -> Self {
                match kind { $(OrderKind::$name => Self::$name(<$body>::sample(of)),)* }
            }
        }
    };
}

orders! {
    /// A machine's key becomes a node of this name.
    Admit: Admit;
    /// From now on an account has these SSH keys and no others.
    SshKey: SshKeys;
    /// A node that was off for too long may renew.
    ReleaseLapse: ReleaseLapse;
    /// What becomes of an identity that was seen twice.
    CloneDecision: CloneDecision;
    /// A node wipes what it has of the fleet and is a plain machine again.
    RemoveIdentity: RemoveIdentity;
    /// A node gets the name that its machine calls itself by.
    Rename: RenameNode;
}

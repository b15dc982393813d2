//! Why an order is not carried out: a closed list of codes, each with what cures it.
//!
//! The code travels: a node reports it, the page and `why` show it with its cure. The words of a refusal may change, a
//! code never does.

use serde::{Deserialize, Serialize};

use super::OrderKind;
use super::body::Actor;
use super::passkey::AssertionError;
use crate::base::bounded::OutOfBounds;
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::json::JsonError;
use crate::base::names::Hostname;
use crate::base::time::UnixTime;
use crate::orders::owner::{OwnerId, OwnerName};

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident = $text:literal, $cure:literal;)*) => {
        /// Why an order was refused. The texts are contract: they never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum OrderCode {
            $($(#[$meta])* #[serde(rename = $text)] $name,)*
        }

        impl OrderCode {
            /// Every code, in the order of the check.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The text that travels.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What a person can do about it.
            #[must_use]
            pub const fn cure(self) -> &'static str {
                match self { $(Self::$name => $cure,)* }
            }
        }
    };
}

codes! {
    /// It is no intent of a kind and shape that is known here.
    Malformed = "malformed", "draft it anew; if that does not help, bring both ends to one version";
    /// Somebody else carries out intents of this kind.
    KindElsewhere = "kind_elsewhere", "nothing here: it is carried out by somebody else";
    /// The policy of the node or of the roster forbids the kind.
    KindForbidden = "kind_forbidden",
        "allow the kind on that node (lucia-node-agent policy allow KIND), or in the roster's policy on the worker's host, then \
         draft it again";
    /// The policy asks for a second owner.
    SecondOwnerNeeded = "second_owner_needed", "let another owner sign the same draft: luciactl sign CODE";
    /// It is for another fleet.
    OtherFleet = "other_fleet", "draft it in the fleet it is meant for";
    /// It does not name this node.
    NotNamed = "not_named", "draft it anew and name this node";
    /// Who signed is not in the roster, or who orders did not sign.
    OwnerUnknown = "owner_unknown",
        "ask for a place in the roster (luciactl login), have it approved on the worker's host, then sign anew";
    /// Who signed may look, and not order.
    NotAnOwner = "not_an_owner", "let an owner sign it; a viewer's signature is none";
    /// The key that signed is not one of that owner's for this.
    KeyUnknown = "key_unknown", "sign with a key that the roster has for you: luciactl owners shows them";
    /// OrderHeads of this kind are not signed on the page.
    PageNotAllowed = "page_not_allowed", "sign it on your own machine: luciactl sign CODE";
    /// The signature is not that key's under this intent.
    SignatureInvalid = "signature_invalid", "sign it anew; if it fails again somebody changed it on its way";
    /// No answer of the worker, under 24 hours old, says how late it is.
    NoFreshness = "no_freshness",
        "wait for the next answer; if none comes look at lucia-enrollment-worker status and at the controller";
    /// The worker speaks of a newer bundle than the one held here.
    BundleBehind = "bundle_behind", "wait: the newer bundle comes with the worker's next answer";
    /// The worker speaks of a newer roster than the one held here.
    RosterBehind = "roster_behind", "wait for the next heartbeat; if it stays somebody withholds the roster";
    /// It was made later than it is now.
    NotYet = "not_yet", "set the clock of the machine that drafted it, then draft it anew";
    /// Its time is over.
    Expired = "expired", "draft and sign it anew; it has to arrive within its time";
    /// The body is not the one whose hash was signed.
    BodyMismatch = "body_mismatch", "draft and sign it anew; somebody changed what goes with it";
    /// The name its owner read is not this node's.
    NameDiffers = "name_differs", "look up what this node is called now, then draft it anew";
    /// It was signed before this memory of orders began.
    BeforeMemory = "before_memory", "sign it anew: what was carried out before is not known here any more";
    /// It was carried out.
    AlreadyDone = "already_done", "nothing: it was carried out; to do it once more draft it anew";
    /// It holds already.
    AlreadyHeld = "already_held", "nothing: this revision holds already";
    /// A later revision holds.
    OlderRevision = "older_revision", "nothing, if the later one is meant; else draft it anew with the next revision";
    /// Another order of the same revision holds.
    RevisionConflict = "revision_conflict", "two owners drafted at once: draft it anew with the next revision";
    /// The revision is far beyond the one that holds.
    RevisionLeap = "revision_leap", "draft it anew with the next revision after the one that holds";
    /// As many orders are remembered as there may be.
    MemoryFull = "memory_full", "wait until orders of the last 24 hours have run out, then sign it anew";
    /// All of it is right, but what is known here stands in its way: a name that is taken, a node that is gone.
    NotPossible = "not_possible", "read what stands in its way in the log of who refused it, put that right or decide anew, and sign that";
}

impl OrderCode {
    /// Whether there is nothing to do and nothing to tell: the same order came again.
    #[must_use]
    pub const fn is_repeat(self) -> bool {
        matches!(self, Self::AlreadyDone | Self::AlreadyHeld)
    }

    /// Whether an owner gave the order, and what stood in its way may be gone at another time. Of an order that is done once
    /// that is remembered: it is refused for good, and its owner gives another one.
    #[must_use]
    pub const fn is_remembered(self) -> bool {
        matches!(self, Self::KindForbidden | Self::NameDiffers | Self::NotPossible)
    }

    /// Whether a later order about the same took its place, which is nothing to cure.
    #[must_use]
    pub const fn is_overtaken(self) -> bool {
        matches!(self, Self::OlderRevision)
    }
}

/// Why an order was refused, with what it was about. For logs and `why`; the code is for others.
#[derive(Debug, thiserror::Error)]
pub enum OrderRefusal {
    /// See [`OrderCode::Malformed`].
    #[error("the intent is malformed")]
    Malformed(#[source] JsonError),
    /// See [`OrderCode::Malformed`]: head and body do not fit together.
    #[error("the intent is malformed")]
    DoesNotFit(#[source] OutOfBounds),
    /// See [`OrderCode::Malformed`]: none or too many signatures.
    #[error("the intent has {count} signatures; 1 or 2 are taken")]
    Signatures {
        /// How many it has.
        count: usize,
    },
    /// See [`OrderCode::KindElsewhere`].
    #[error("{} is not carried out by {}", .kind.as_str(), .actor.as_str())]
    KindElsewhere {
        /// The intent's kind.
        kind: OrderKind,
        /// Who was to carry it out.
        actor: Actor,
    },
    /// See [`OrderCode::KindForbidden`].
    #[error("policy forbids {}", .0.as_str())]
    KindForbidden(OrderKind),
    /// See [`OrderCode::SecondOwnerNeeded`].
    #[error("policy asks for two owners' signatures under {}", .0.as_str())]
    SecondOwnerNeeded(OrderKind),
    /// See [`OrderCode::OtherFleet`].
    #[error("the intent is for the fleet of root {0}")]
    OtherFleet(Digest),
    /// See [`OrderCode::NotNamed`].
    #[error("the intent does not name node {0}")]
    NotNamed(NodeId),
    /// See [`OrderCode::OwnerUnknown`].
    #[error("owner {0} is not in the roster, or did not sign")]
    OwnerUnknown(OwnerId),
    /// See [`OrderCode::NotAnOwner`].
    #[error("{0} is a viewer")]
    NotAnOwner(OwnerName),
    /// See [`OrderCode::KeyUnknown`].
    #[error("the key that signed is not one of {0}'s for this")]
    KeyUnknown(OwnerName),
    /// See [`OrderCode::PageNotAllowed`].
    #[error("{} is not signed on the page", .0.as_str())]
    PageNotAllowed(OrderKind),
    /// See [`OrderCode::SignatureInvalid`].
    #[error("{0}'s signature under the intent does not verify")]
    SignatureInvalid(OwnerName),
    /// See [`OrderCode::SignatureInvalid`]: of a passkey.
    #[error("{owner}'s passkey did not sign the intent")]
    Assertion {
        /// Whose.
        owner: OwnerName,
        /// What is wrong with it.
        #[source]
        source: AssertionError,
    },
    /// See [`OrderCode::NoFreshness`].
    #[error("no answer of the worker under 24 hours old says how late it is")]
    NoFreshness,
    /// See [`OrderCode::BundleBehind`].
    #[error("the worker speaks of bundle {current}; {held} is held here")]
    BundleBehind {
        /// The version held here.
        held: u64,
        /// The version the worker has.
        current: u64,
    },
    /// See [`OrderCode::RosterBehind`].
    #[error("the worker speaks of roster {current}; {held} is held here")]
    RosterBehind {
        /// The version held here.
        held: u64,
        /// The version the worker has.
        current: u64,
    },
    /// See [`OrderCode::NotYet`].
    #[error("the intent was issued at {issued_at}; it is {now}")]
    NotYet {
        /// The intent's own time.
        issued_at: UnixTime,
        /// How late it is.
        now: UnixTime,
    },
    /// See [`OrderCode::Expired`].
    #[error("the intent counted until {not_after}; it is {now}")]
    Expired {
        /// Its last second.
        not_after: UnixTime,
        /// How late it is.
        now: UnixTime,
    },
    /// See [`OrderCode::BodyMismatch`].
    #[error("the body is not the one that was signed")]
    BodyMismatch,
    /// See [`OrderCode::NameDiffers`].
    #[error("the intent speaks of {signed}; the node is called {found}")]
    NameDiffers {
        /// The name its owner read.
        signed: Hostname,
        /// The node's name.
        found: Hostname,
    },
    /// See [`OrderCode::BeforeMemory`].
    #[error("the intent was issued before {0}, when this memory of orders began")]
    BeforeMemory(UnixTime),
    /// See [`OrderCode::AlreadyDone`].
    #[error("the intent was carried out already")]
    AlreadyDone,
    /// It was refused before, with this code.
    #[error("the intent was refused before ({}) and is not looked at again; draft it anew", .0.as_str())]
    RefusedBefore(OrderCode),
    /// See [`OrderCode::AlreadyHeld`].
    #[error("the intent holds already")]
    AlreadyHeld,
    /// See [`OrderCode::OlderRevision`].
    #[error("revision {offered} is older than {held}, which holds")]
    OlderRevision {
        /// The revision that holds.
        held: u64,
        /// The intent's.
        offered: u64,
    },
    /// See [`OrderCode::RevisionConflict`].
    #[error("another order of revision {0} holds")]
    RevisionConflict(u64),
    /// See [`OrderCode::RevisionLeap`].
    #[error("revision {offered} is too far beyond {held}, which holds")]
    RevisionLeap {
        /// The revision that holds; 0 where there is none.
        held: u64,
        /// The intent's.
        offered: u64,
    },
    /// See [`OrderCode::MemoryFull`].
    #[error("as many orders are remembered as there may be")]
    MemoryFull,
}

impl OrderRefusal {
    /// The code that travels.
    #[must_use]
    pub const fn code(&self) -> OrderCode {
        match self {
            Self::Malformed(_) | Self::DoesNotFit(_) | Self::Signatures { .. } => OrderCode::Malformed,
            Self::KindElsewhere { .. } => OrderCode::KindElsewhere,
            Self::KindForbidden(_) => OrderCode::KindForbidden,
            Self::SecondOwnerNeeded(_) => OrderCode::SecondOwnerNeeded,
            Self::OtherFleet(_) => OrderCode::OtherFleet,
            Self::NotNamed(_) => OrderCode::NotNamed,
            Self::OwnerUnknown(_) => OrderCode::OwnerUnknown,
            Self::NotAnOwner(_) => OrderCode::NotAnOwner,
            Self::KeyUnknown(_) => OrderCode::KeyUnknown,
            Self::PageNotAllowed(_) => OrderCode::PageNotAllowed,
            Self::SignatureInvalid(_) | Self::Assertion { .. } => OrderCode::SignatureInvalid,
            Self::NoFreshness => OrderCode::NoFreshness,
            Self::BundleBehind { .. } => OrderCode::BundleBehind,
            Self::RosterBehind { .. } => OrderCode::RosterBehind,
            Self::NotYet { .. } => OrderCode::NotYet,
            Self::Expired { .. } => OrderCode::Expired,
            Self::BodyMismatch => OrderCode::BodyMismatch,
            Self::NameDiffers { .. } => OrderCode::NameDiffers,
            Self::BeforeMemory(_) => OrderCode::BeforeMemory,
            Self::AlreadyDone => OrderCode::AlreadyDone,
            Self::RefusedBefore(code) => *code,
            Self::AlreadyHeld => OrderCode::AlreadyHeld,
            Self::OlderRevision { .. } => OrderCode::OlderRevision,
            Self::RevisionConflict(_) => OrderCode::RevisionConflict,
            Self::RevisionLeap { .. } => OrderCode::RevisionLeap,
            Self::MemoryFull => OrderCode::MemoryFull,
        }
    }
}

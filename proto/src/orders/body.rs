//! What a kind of order is: the trait that each body implements, in a file of its own.
//!
//! A kind's file needs this one and never the table of kinds, [`super`].

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::bounded::OutOfBounds;
use crate::base::ids::{NodeId, StartId};
use crate::base::names::Hostname;
use crate::base::text::{is_printable, shown};
use crate::pki::key::Fingerprint;

/// Who acts on an order, and therefore checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The node that the intent names.
    Node,
    /// The enrollment worker.
    Worker,
    /// The controller, for what it keeps itself: it is not believed by the two others.
    Controller,
}

impl Actor {
    /// As a refusal names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "a node",
            Self::Worker => "the enrollment worker",
            Self::Controller => "the controller",
        }
    }
}

/// Whether an order is done once, within a day, or says how something is from now on, with a revision that rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Carried out once.
    Once,
    /// Holds until a later revision.
    State,
}

/// What becomes of an identity by an order, besides what its node does: the controller goes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Nothing.
    None,
    /// Of an identity that was seen twice, the instance with this start stays.
    Keeps(Option<&'a StartId>),
    /// Of an identity that was seen twice none stays: its key is barred, and its machines keep what they have.
    Ends,
    /// The identity goes, and its machine wipes what it has of the fleet.
    Wipes,
    /// This other node's key is barred.
    Replaces(&'a NodeId),
    /// The node has this name from here on, if its machine calls itself so.
    Renames(&'a Hostname),
}

impl Effect<'_> {
    /// Whether the identity of the node goes.
    #[must_use]
    pub const fn is_an_end(self) -> bool {
        matches!(self, Self::Ends | Self::Wipes)
    }

    /// Whether it decides about an identity that was seen twice.
    #[must_use]
    pub const fn is_about_instances(self) -> bool {
        matches!(self, Self::Keeps(_) | Self::Ends)
    }
}

/// The body of a kind of order: signed by its hash, one shape, strict JSON.
pub trait OrderBody: Serialize + DeserializeOwned {
    /// The word that is signed.
    const WORD: &'static str;
    /// What lists call it.
    const TITLE: &'static str;
    /// Once, or a state.
    const FLOW: Flow;
    /// Who carries it out; anybody else refuses it.
    const ACTORS: &'static [Actor];

    /// Whether it speaks of the same as its head, of these nodes and, for a state, this subject.
    ///
    /// # Errors
    /// The first member that does not fit.
    fn fits(&self, nodes: &[NodeId], subject: Option<&str>) -> Result<(), OutOfBounds>;

    /// All that is signed, for a person.
    fn words(&self, lines: &mut Vec<String>);

    /// What it is about, in a few words that tell it from its neighbours in a list. `before` is the order of this subject
    /// that was given before, if it is known.
    fn about(&self, before: Option<&Self>) -> String;

    /// What held before the first order of its subject.
    fn before_the_first(&self) -> Option<Self> {
        None
    }

    /// The name of the one node it is about: what its owner read, so it has to be true where it is carried out.
    fn hostname(&self) -> Option<&Hostname> {
        None
    }

    /// The key that becomes a node by it: a person compares it with the machine's own screen.
    fn new_key(&self) -> Option<&Fingerprint> {
        None
    }

    /// What becomes of an identity by it.
    fn effect(&self) -> Effect<'_> {
        Effect::None
    }

    /// Whether a label has characters that must not be shown. Older orders may have them; a new one may not.
    fn hides_text(&self) -> bool {
        false
    }

    /// A good one for tests.
    #[cfg(any(test, feature = "test-support"))]
    fn sample(of: &OrderSample) -> Self;
}

/// Whom a test's body is about.
#[cfg(any(test, feature = "test-support"))]
#[derive(Clone, Debug)]
pub struct OrderSample {
    /// The node's name.
    pub hostname: Hostname,
    /// Its key.
    pub fingerprint: Fingerprint,
    /// Now.
    pub now: crate::base::time::UnixTime,
}

#[cfg(any(test, feature = "test-support"))]
impl OrderSample {
    /// A text of a test, as its type.
    #[must_use]
    pub fn text<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| unreachable!("a text of a test: {text}"))
    }
}

pub(super) fn one_node(nodes: &[NodeId]) -> Result<(), OutOfBounds> {
    ensure(nodes.len() == 1, "nodes", "exactly one")
}

pub(super) fn one_key(nodes: &[NodeId], fingerprint: &Fingerprint) -> Result<(), OutOfBounds> {
    one_node(nodes)?;
    ensure(nodes.first() == Some(&fingerprint.node_id()), "fingerprint", "the key of the node that is named")
}

pub(super) fn ensure(holds: bool, field: &'static str, rule: &'static str) -> Result<(), OutOfBounds> {
    if holds { Ok(()) } else { Err(OutOfBounds { field, rule }) }
}

/// Text of several lines, each marked: `| ` before a line that is shown as it is, `! ` before one in which characters
/// were made visible as `\u{..}`, backslashes among them, so that no two texts look alike. Every line end is a line, so
/// nothing of the text is left out.
#[must_use]
pub fn visible(text: &str) -> Vec<String> {
    let line = |line: &str| {
        if is_printable(line) { format!("| {line}") } else { format!("! {}", shown(&line.replace('\\', "\\u{5c}"))) }
    };
    text.split('\n').map(line).collect()
}

/// What somebody told, or that nobody did.
pub(super) fn told<T: std::fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "an unknown one".to_owned(), ToString::to_string)
}

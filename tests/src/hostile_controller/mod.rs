//! A controller that is wholly hostile: it has all that an honest one has, its files and the key of its endpoint, and
//! answers as it likes (threats.md actor C).
//!
//! [`Tape`] is what it recorded, [`Trick`] what it does to an answer, [`tricks`] all it knows. Neither knows of a
//! network: a story twists answers in memory, [`serve`] twists those of a real controller over TLS with its own key.
//! [`Stolen`] is the disk of a controller that is no more, and [`Thief`] a process of the attacker's own in its place.

mod serve;
mod stolen;
mod thief;
mod tricks;

use std::fmt;

use hyper::body::Bytes;
use hyper::header::HeaderValue;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::time::UnixTime;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::{NEXT_CHALLENGE_HEADER, NextChallenge};
use lucia_proto::test_support::{TestCa, TestNode};

pub use serve::{Hostile, serve};
pub use stolen::{Stolen, now, until};
pub use thief::{Plan, Thief};
pub use tricks::{answers, tricks};

/// An answer as it goes over the wire.
pub type Reply = hyper::Response<Bytes>;

/// What becomes of an answer.
#[derive(Debug)]
pub enum Deed {
    /// This is answered.
    Say(Reply),
    /// Of this answer so many bytes of its body arrive, then the connection ends.
    Cut(Reply, usize),
    /// Nothing is ever answered.
    Withhold,
}

/// One call and its honest answer.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which call.
    pub call: Endpoint,
    /// Whose.
    pub node: NodeId,
    /// What the honest controller said.
    pub reply: Reply,
}

/// Calls that are remembered.
const LONGEST: usize = 4096;

/// All calls so far, in their order.
#[derive(Debug, Default)]
pub struct Tape(Vec<Recorded>);

impl Tape {
    /// Records one more.
    pub fn record(&mut self, call: Endpoint, node: &NodeId, reply: &Reply) {
        self.0.push(Recorded { call, node: node.clone(), reply: reply.clone() });
        // The first and the last are what it takes; a story of years in between is not kept.
        if self.0.len() > LONGEST {
            self.0.drain(LONGEST / 4..LONGEST / 2);
        }
    }

    /// Those of a call of this node, the oldest first.
    pub fn own(&self, call: Endpoint, node: &NodeId) -> impl DoubleEndedIterator<Item = &Recorded> {
        self.0.iter().filter(move |recorded| recorded.call == call && recorded.node == *node)
    }

    /// Those of a call of any other node.
    pub fn others(&self, call: Endpoint, node: &NodeId) -> impl DoubleEndedIterator<Item = &Recorded> {
        self.0.iter().filter(move |recorded| recorded.call == call && recorded.node != *node)
    }

    /// All of this node.
    pub fn of(&self, node: &NodeId) -> impl DoubleEndedIterator<Item = &Recorded> {
        self.0.iter().filter(move |recorded| recorded.node == *node)
    }
}

/// What a trick works with.
pub struct Moment<'a> {
    /// The call.
    pub call: Endpoint,
    /// Who calls.
    pub node: &'a NodeId,
    /// What an honest controller says to it.
    pub honest: Reply,
    /// What was said so far, without this.
    pub tape: &'a Tape,
    /// The true time.
    pub now: UnixTime,
}

/// Turns a moment into a deed.
type Turn = Box<dyn FnMut(Moment<'_>) -> Deed + Send>;

/// One way to be hostile, kept up for as long as a story likes.
pub struct Trick {
    /// What it is called in a report.
    pub name: String,
    turn: Turn,
}

impl Trick {
    /// A trick of this name.
    pub fn new(name: impl Into<String>, turn: impl FnMut(Moment<'_>) -> Deed + Send + 'static) -> Self {
        Self { name: name.into(), turn: Box::new(turn) }
    }

    /// A trick with the honest answers of these calls; all others stay honest.
    pub fn on(
        name: impl Into<String>,
        calls: &'static [Endpoint],
        mut turn: impl FnMut(Moment<'_>) -> Deed + Send + 'static,
    ) -> Self {
        Self::new(
            name,
            move |moment| if calls.contains(&moment.call) { turn(moment) } else { Deed::Say(moment.honest) },
        )
    }

    /// What it makes of this moment.
    pub fn twist(&mut self, moment: Moment<'_>) -> Deed {
        (self.turn)(moment)
    }
}

impl fmt::Debug for Trick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trick").field(&self.name).finish()
    }
}

/// What was stolen with the controller, and what was not: the CA here is the fleet's own, so that forged answers are
/// wrong in one part alone.
#[derive(Debug)]
pub struct Loot<'a> {
    /// The fleet's CA.
    pub ca: &'a TestCa,
    /// The node that is lied to.
    pub node: &'a TestNode,
    /// When it begins.
    pub now: UnixTime,
}

/// A JSON answer.
fn json(status: u16, body: impl Into<Bytes>) -> Reply {
    let mut reply = Reply::new(body.into());
    *reply.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    reply.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    reply
}

/// The same answer with another body.
fn with_body(reply: &Reply, body: impl Into<Bytes>) -> Reply {
    let mut out = reply.clone();
    *out.body_mut() = body.into();
    out
}

/// The same answer with another value of a header.
fn with_header(reply: &Reply, name: &'static str, value: &str) -> Reply {
    let mut out = reply.clone();
    if let Ok(value) = HeaderValue::from_str(value) {
        out.headers_mut().insert(name, value);
    }
    out
}

/// The challenge that an answer brings along.
#[must_use]
pub fn next_challenge(reply: &Reply) -> Option<NextChallenge> {
    NextChallenge::from_header(reply.headers().get(NEXT_CHALLENGE_HEADER)?.to_str().ok()?).ok()
}

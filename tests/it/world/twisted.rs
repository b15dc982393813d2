//! A controller that has turned: between the real one and the wire, it answers as it likes.

use lucia_agent::client::retry::retry_after;
use lucia_agent::client::transport::{Response, TransportError};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::ANSWER_MAX;
use lucia_proto::calls::Endpoint;
use lucia_proto::node::challenge::NEXT_CHALLENGE_HEADER;
use lucia_tests::hostile_controller::{Deed, Moment, Reply, Tape, Trick};

use super::World;

/// What it recorded, what it does, and how often it did.
#[derive(Default)]
pub(super) struct Twist {
    tape: Tape,
    trick: Option<Trick>,
    count: usize,
}

impl World {
    /// From now on the controller does this to every answer; nothing without one.
    pub(crate) fn play(&self, trick: Option<Trick>) {
        let mut twist = self.0.twist.borrow_mut();
        (twist.trick, twist.count) = (trick, 0);
    }

    /// Answers since the last `play`.
    pub(crate) fn played(&self) -> usize {
        self.0.twist.borrow().count
    }

    /// What becomes of an honest answer.
    pub(super) fn twist(&self, call: Endpoint, node: &NodeId, honest: Reply) -> Deed {
        let twist = &mut *self.0.twist.borrow_mut();
        twist.count += 1;
        let moment = Moment { call, node, honest: honest.clone(), tape: &twist.tape, now: self.now() };
        let deed = twist.trick.as_mut().map_or_else(|| Deed::Say(honest.clone()), |trick| trick.twist(moment));
        twist.tape.record(call, node, &honest);
        deed
    }
}

/// An answer as the agent's own transport hands it on.
pub(super) fn response(reply: Reply) -> Result<Response, TransportError> {
    let (head, body) = reply.into_parts();
    if body.len() > ANSWER_MAX {
        return Err(TransportError::TooLarge);
    }
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    Ok(Response {
        status: head.status.as_u16(),
        json: text("content-type").is_some_and(|text| text == "application/json"),
        next_challenge: text(NEXT_CHALLENGE_HEADER).map(str::to_owned),
        retry_after: text("retry-after").and_then(retry_after),
        body: body.to_vec(),
    })
}

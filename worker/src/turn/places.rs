//! Whose turn it is in the owners' queue.

use lucia_proto::base::ids::NodeId;
use lucia_proto::orders::OrderId;

use crate::orders::kept::ORDERS_A_TURN;
use crate::owner_queue::OwnerScan;
use crate::queue::{ENTRIES_A_TURN, next_after};

/// Which question and which order was looked at last.
#[derive(Debug, Default)]
pub(super) struct Places {
    question: Option<NodeId>,
    intent: Option<OrderId>,
}

/// What a turn looks at of the owners' queue.
#[derive(Debug, Default)]
pub(super) struct OwnerFiles {
    pub(super) questions: Vec<NodeId>,
    pub(super) intents: Vec<OrderId>,
    /// Whether the controller says how far its audit reaches.
    pub(super) audit: bool,
}

impl Places {
    /// Whose turn it is: those that were not looked at for longest.
    pub(super) fn next(&mut self, scan: &OwnerScan) -> OwnerFiles {
        let questions = next_after(&scan.questions, self.question.as_ref(), ENTRIES_A_TURN);
        let intents = next_after(&scan.intents, self.intent.as_ref(), ORDERS_A_TURN);
        (self.question, self.intent) = (questions.last().cloned(), intents.last().copied());
        OwnerFiles { questions, intents, audit: scan.audit }
    }
}

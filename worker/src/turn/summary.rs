//! What a turn did.

use serde::Serialize;

use tracing::warn;

use crate::remarks::Remarks;

/// Where a turn may die between two of its durable steps; the steps themselves have names of their own.
pub const CRASH_POINTS: [&str; 5] =
    ["worker/reader", "worker/signed", "worker/receipts", "worker/recorded", "worker/cleaned"];

/// What a turn did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether nodes can get certificates.
    pub ready: bool,
    /// Leaves signed.
    pub issued: usize,
    /// Requests answered with the live leaf.
    pub reused: usize,
    /// Requests refused.
    pub refused: usize,
    /// Requests that wait for `admit`.
    pub awaiting: usize,
    /// Requests that wait until the hour has room for them.
    pub limited: usize,
    /// Nodes suspended since the journal removed them.
    pub suspended: usize,
    /// Nodes whose key was barred since the journal removed them.
    pub removed: usize,
    /// Owners' orders carried out.
    pub ordered: usize,
    /// Owners' orders refused, and told so for the first time.
    pub orders_refused: usize,
    /// Whether the endpoint's certificate was signed.
    pub endpoint: bool,
    /// Whether another turn should follow at once.
    pub more: bool,
    /// Whether nothing was done, because another command has the ledger for a moment.
    #[serde(skip)]
    pub busy: bool,
    /// What is wrong, one sentence each, with the cure.
    pub problems: Vec<String>,
}

impl Summary {
    /// Adds a later turn of the same sweep: counts add up, the last word on the rest is the later one's.
    pub fn add(&mut self, later: Self) {
        self.issued += later.issued;
        self.reused += later.reused;
        self.refused += later.refused;
        self.awaiting += later.awaiting;
        self.limited += later.limited;
        self.suspended += later.suspended;
        self.removed += later.removed;
        self.ordered += later.ordered;
        self.orders_refused += later.orders_refused;
        self.endpoint |= later.endpoint;
        (self.ready, self.more, self.problems) = (later.ready, later.more, later.problems);
    }

    /// For people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { issued, reused, refused, awaiting, limited, suspended, removed, ordered, orders_refused, .. } = self;
        let mut out = format!(
            "issued {issued}, answered again {reused}, refused {refused}, awaiting admission {awaiting}, over the limits \
             {limited}, suspended {suspended}, removed {removed}, orders carried out {ordered}, orders refused \
             {orders_refused}\n"
        );
        for problem in &self.problems {
            out.push_str("! ");
            out.push_str(problem);
            out.push('\n');
        }
        out
    }
}

pub(super) fn problem(troubles: &mut Remarks, summary: &mut Summary, about: &str, text: &str) {
    if troubles.is_new(about, text) {
        warn!("{text}");
    }
    summary.problems.push(text.to_owned());
}

//! What a node makes of each kind of order (design.md O2). Whether an order is an owner's is decided before, in
//! [`crate::owners`].
//!
//! | module | holds |
//! |---|---|
//! | [`carry`] | the trait of a kind, and what an order can leave to do |
//! | [`record`] | `orders.json`: states in force, and one-shot orders that leave something to do |
//! | [`remove_identity`] | the way back to a plain machine |

pub mod carry;
pub mod clone_decision;
pub mod record;
pub mod remove_identity;
mod rename;
mod ssh_key;

use lucia_proto::orders::{Actor, Body, OrderRefusal};

use self::carry::{Act, Carry as _, Facts, InForce, NotDone};
use self::record::Record;

/// The table of who carries a kind out: this node, or somebody else.
macro_rules! carried {
    ($($kind:ident)*; elsewhere $($other:ident)*) => {
        /// See [`carry::Carry::plan`].
        ///
        /// # Errors
        /// When the order is not to be carried out here.
        pub fn plan(body: &Body, facts: &Facts<'_>) -> Result<Option<Act>, NotDone> {
            match body {
                $(Body::$kind(body) => body.plan(facts),)*
                $(Body::$other(_))|* => {
                    Err(OrderRefusal::KindElsewhere { kind: body.kind(), actor: Actor::Node }.into())
                }
            }
        }

        fn run(body: Body, to: &mut InForce) {
            match body {
                $(Body::$kind(body) => body.run(to),)*
                $(Body::$other(_))|* => {}
            }
        }
    };
}

carried! { SshKey CloneDecision RemoveIdentity Rename; elsewhere Admit ReleaseLapse }

/// What the loops go by. Of an order that cannot be read any more, what it gave stays as it is on the disk.
#[must_use]
pub fn in_force(record: &Record) -> InForce {
    let mut all = InForce { keys: crate::keys::OrderedKeys::none() };
    all.keys.is_partial = record.is_after_loss();
    for state in record.states() {
        match state {
            Ok(body) => run(body, &mut all),
            Err(id) => {
                tracing::error!("order {} in orders.json is damaged; sign its next revision", id.code());
                all.keys.is_partial = true;
            }
        }
    }
    all
}

//! Stories on the facade: a machine, a fake worker that answers files, one clock.

pub(crate) mod bench;

mod certificates;
mod challenges;
mod durability;
mod enrolment;
mod keys;
mod phases;
mod races;
mod room;

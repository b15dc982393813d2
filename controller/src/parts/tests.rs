//! Stories on the parts: a machine, a fake worker that answers files, one clock.

pub(crate) mod bench;

mod agents;
mod audit;
mod certificates;
mod challenges;
mod drafting;
mod durability;
mod each;
mod enrolment;
mod join;
mod keys;
mod lists;
pub(crate) mod owners;
mod phases;
mod races;
mod relay;
mod rename;
mod replace;
mod room;
mod sign_in;
mod sources;
mod tokens;
mod upkeep;

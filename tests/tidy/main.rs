//! The architecture as tests: one module a rule. What a review would have to remember stands here.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a rule that cannot read the tree has to fail, and says why"
)]

mod circles;
mod docs;
mod inversions;
mod layers;
mod lints;
mod sizes;
mod spec;
mod tree;
mod vectors;

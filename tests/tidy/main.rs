//! The architecture as tests: one module a rule. What a review would have to remember stands here.

mod docs;
mod layers;
mod lints;
mod sizes;
mod spec;
mod tree;
mod vectors;

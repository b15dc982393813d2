//! What only people see of a fleet: the views of page and `luciactl`, the words for what they show, audit lines, tokens and
//! sign-in. No agent links it.
//!
//! Like the crate below it, this one does no I/O and has no clock: bytes and times go in, typed values or refusals come out.

#![warn(missing_docs)]

pub mod agents;
pub mod audit;
pub mod calls;
pub mod host_api;
pub mod owner_api;
pub mod sign_in;
pub mod token;
pub mod why;
pub mod words;

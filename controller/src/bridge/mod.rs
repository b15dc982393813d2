//! The files between this controller and the enrollment worker (wire-facts 3.5, design.md W6).
//!
//! The controller writes requests and removals and reads answers; it can mint nothing. An answer counts when it lies in
//! the worker's own directory, is the worker's own file, and acknowledges the very bytes of the request.

pub(crate) mod owners;
pub(crate) mod queue;
pub(crate) mod worker;

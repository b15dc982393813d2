//! Files that two programs read.

pub mod audit_chain;
pub mod journal;
pub mod owner_queue;
pub mod worker_status;

//! The controller: checks fingerprints, proofs and certificates, and can mint neither.

pub mod bridge;
pub mod config;
pub mod state;
pub mod store;

//! What travels between the programs of Lucia Nodes, or is read by two of them.
//!
//! The protocol on one page (`managed-nodes.md`, design.md part 4):
//!
//! 1. A machine makes a P-256 key ([`pki::key::NodeKey`]). The SHA-256 of its public key is the
//!    [`pki::key::Fingerprint`]; the first 32 hex digits of that are the [`base::ids::NodeId`].
//! 2. The controller hands out a [`node::challenge::Challenge`]: nothing is stored for it.
//! 3. The machine signs `lucia-discovery-v1\n{challengeId}\n{nonce}\n{reportJson}` and sends the
//!    text it signed as a [`node::report::Proof`].
//! 4. The controller turns it into a [`node::report::Verified`] report, or refuses with a [`base::code::Code`].
//! 5. A certificate comes from the enrollment worker alone, over files in a shared directory:
//!    `node::enrollment` has their shapes, `files::journal` what both read, `node::answer` what the worker signs.
//! 6. Who may order is in the worker-signed [`orders::roster`]. An owner signs an order ([`orders`]); whoever it names checks it against
//!    roster, policy and the time of [`orders::freshness`], remembers it, and only then carries it out. An owner's request to the
//!    controller is signed too ([`orders::owner_proof`]), and is no order.
//!
//! This crate does no I/O, has no clock, no threads and no runtime: bytes and times go in, typed
//! values or refusals come out.

#![warn(missing_docs)]

pub mod base;
pub mod files;
pub mod node;
pub mod orders;
pub mod pki;

pub mod calls;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;

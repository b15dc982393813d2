//! What travels between the programs of Lucia Nodes, or is read by two of them.
//!
//! The protocol on one page (`managed-nodes.md`, design.md part 4):
//!
//! 1. A machine makes a P-256 key ([`key::NodeKey`]). The SHA-256 of its public key is the
//!    [`key::Fingerprint`]; the first 32 hex digits of that are the [`ids::NodeId`].
//! 2. The controller hands out a [`challenge::Challenge`]: nothing is stored for it.
//! 3. The machine signs `lucia-discovery-v1\n{challengeId}\n{nonce}\n{reportJson}` and sends the
//!    text it signed as a [`report::Proof`].
//! 4. The controller turns it into a [`report::Verified`] report, or refuses with a [`code::Code`].
//! 5. A certificate comes from the enrollment worker alone, over files in a shared directory:
//!    `enrollment` has their shapes, `journal` what both read, `answer` what the worker signs.
//! 6. Who may order is in the worker-signed [`roster`]. An owner signs an [`intent`]; whoever it names checks it against
//!    roster, policy and the time of [`freshness`], remembers it, and only then carries it out. An owner's request to the
//!    controller is signed too ([`owner_proof`]), and is no order.
//!
//! This crate does no I/O, has no clock, no threads and no runtime: bytes and times go in, typed
//! values or refusals come out.

#![warn(missing_docs)]

pub mod answer;
pub mod api;
pub mod audit;
pub mod bounded;
pub mod bundle;
pub mod certificate;
pub mod chain;
pub mod challenge;
pub mod code;
pub mod csr;
pub mod digest;
pub mod directory;
pub mod endpoint_names;
pub mod enrollment;
pub mod feature;
pub mod freshness;
pub mod heartbeat;
pub mod host_api;
pub mod ids;
pub mod intent;
pub mod inventory;
pub mod journal;
pub mod json;
pub mod key;
pub mod limits;
pub mod lists;
pub mod names;
pub mod orders;
pub mod owner;
pub mod owner_api;
pub mod owner_proof;
pub mod owner_queue;
pub mod pem;
pub mod phase;
pub mod release;
pub mod report;
pub mod roster;
pub mod sealed;
pub mod sign_in;
pub mod signed;
pub mod ssh_key;
pub mod taken;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod text;
pub mod time;
pub mod token;
pub mod why;
pub mod words;
pub mod worker_status;

mod der;
mod general_names;
mod x509;

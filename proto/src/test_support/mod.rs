//! For tests of this workspace: fixed keys, a CA that makes any certificate, and the hostile inputs of threats.md
//! group C, so that agent, controller and worker run the same group.
//!
//! Certificates are put together from DER here, by other code than a program issues them with: a mistake in one is
//! seen by the other, and a hostile one can break any rule.
#![cfg(any(test, feature = "test-support"))]

mod ca;
mod hostile;
mod hostile_csr;
mod hostile_intents;
#[cfg(test)]
mod order_vectors;
mod orders;
mod spec;
#[cfg(test)]
mod vectors;

use zeroize::Zeroizing;

pub use ca::{TestCa, TestNode};
pub use hostile::{Hostile, hostile_answers, hostile_leaves, judge_leaf};
pub use hostile_csr::hostile_csrs;
pub use hostile_intents::{HostileOrder, hostile_intents};
pub use orders::{OrderWorld, TestOwner, assertion};
pub use spec::{CertificateSpec, CsrSpec};

use crate::base::json::{JsonError, JsonErrorKind};
use crate::pki::key::NodeKey;

/// The same key for the same number, which is not 0.
#[must_use]
pub fn key(number: u8) -> NodeKey {
    NodeKey::from_random(&Zeroizing::new([number; 32])).unwrap_or_else(|| unreachable!("1 to 254 give keys"))
}

/// Where a text is wrong and in which way, like `disks[0].path: Refused`: what stays when the sentence changes.
#[must_use]
pub fn fault(error: &JsonError) -> String {
    let field = match error.kind() {
        // A rule of the whole begins its words with the field that breaks it.
        JsonErrorKind::Refused(words) if error.path().is_empty() => words.split(':').next().unwrap_or_default(),
        _ => error.path(),
    };
    let kind = format!("{:?}", error.kind());
    format!("{field}: {}", kind.split(['(', ' ']).next().unwrap_or_default())
}

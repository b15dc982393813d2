//! Who signs leaves, behind one trait, and the check every leaf passes before it is used or stored.

mod contract;
mod embedded;
mod issuing;
mod pauses;
mod server;
mod step;

use lucia_durable::PrivateDir;
use lucia_proto::base::limits::{LEAF_BACKDATE, LEAF_LIFETIME};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::certificate::{CertificateError, Leaf, LeafRules};
use lucia_proto::pki::chain::{self, Root, Usage};
use lucia_proto::pki::csr::CheckedCsr;

use crate::config::Config;
use crate::files::{self};

use contract::blocks;
pub use contract::{Ca, CaError, Issued, Issuing, PemChain, ServerLeaf, Trust};
pub(crate) use embedded::new_key;
pub use embedded::{Authority, Embedded, make_issuing, make_root};
pub use pauses::Pauses;
pub use server::{ServerCsr, ServerCsrError};
pub use step::{KEY_FILE, StepCa, StepError};

/// Has a CA sign a node's leaf and checks what came back.
///
/// # Errors
/// [`CaError`]; a leaf that breaks a rule is never returned.
pub fn issue(
    ca: &dyn Ca,
    root: &Root,
    csr: &CheckedCsr,
    rules: &LeafRules<'_>,
    now: UnixTime,
) -> Result<Issued, CaError> {
    if now > ca.not_after() {
        return Err(CaError::Ended { not_after: ca.not_after() });
    }
    let PemChain { leaf, issuers } = ca.sign_node(csr, rules.hostname, rules.node_id, now)?;
    let pem = format!("{leaf}{issuers}");
    let read = |text: &str| Leaf::parse(text).and_then(|leaf| leaf.check(rules));
    let leaf = match ca.trust() {
        Trust::Own => read(&leaf).map_err(CaError::Rules)?,
        Trust::Foreign => {
            let leaf = read(&pem).map_err(|error| told_apart(error, &pem))?;
            if leaf.not_after() > ca.not_after() {
                return Err(CaError::Outlives { not_after: ca.not_after() });
            }
            let lifetime = leaf.not_after().since(leaf.not_before());
            // A node renews while six days remain: a shorter leaf would be renewed all the time. The last ones of an
            // issuing CA are as short as its own rest.
            let wanted = LEAF_LIFETIME.min(ca.not_after().since(now)).saturating_sub(LEAF_BACKDATE);
            if lifetime < wanted {
                return Err(CaError::Lifetime { hours: lifetime.as_secs() / 3600 });
            }
            chain::verify(&leaf, std::slice::from_ref(root), now, Usage::Client).map_err(CaError::Chain)?;
            if blocks(&pem).get(1).map(Vec::as_slice) != Some(ca.issuing().der()) {
                return Err(CaError::WrongIssuer);
            }
            leaf
        }
    };
    Ok(Issued::new(&leaf, pem))
}

/// The rules that a misconfigured CA breaks have words of their own.
fn told_apart(error: CertificateError, chain: &str) -> CaError {
    match error {
        CertificateError::Field { field: "subjectPublicKey", .. } => CaError::WrongKey,
        CertificateError::Field { field: field @ ("subject" | "subjectAltName"), .. } => CaError::WrongName { field },
        CertificateError::Field { field: "validity", .. } => CaError::Lifetime { hours: issuing::hours(chain) },
        error => CaError::Rules(error),
    }
}

/// The CA of these settings, and the issuing CA it signs with. Asks nobody yet.
///
/// # Errors
/// A file of it is missing or wrong.
pub fn open(config: &Config, dir: &PrivateDir, root: &Root) -> Result<Box<dyn Ca + Send>, CaError> {
    let issuing = files::text(dir, "issuing.pem").map_err(CaError::File)?;
    Ok(match &config.step_ca {
        None => Box::new(Embedded::open(&issuing, &files::text(dir, "issuing.key").map_err(CaError::File)?)?),
        Some(site) => Box::new(StepCa::open(site.clone(), dir, root, Issuing::read(&issuing)?)?),
    })
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

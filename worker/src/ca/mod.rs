//! Who signs leaves, behind one trait, and the check every leaf passes before it is used or stored.

mod embedded;

use lucia_proto::certificate::{CertificateError, CheckedLeaf, Leaf, LeafRules};
use lucia_proto::chain::{self, ChainError, Root, Usage};
use lucia_proto::csr::{CheckedCsr, CheckedEndpointCsr};
use lucia_proto::ids::NodeId;
use lucia_proto::names::Hostname;
use lucia_proto::time::UnixTime;
use thiserror::Error;

pub(crate) use embedded::new_key;
pub use embedded::{Authority, Embedded, make_issuing, make_root};

/// A certificate authority that issues leaves for this fleet.
pub trait Ca {
    /// A node's leaf and its intermediates.
    ///
    /// # Errors
    /// The CA refused or could not be reached.
    fn sign_node(
        &self,
        csr: &CheckedCsr,
        hostname: &Hostname,
        node_id: &NodeId,
        now: UnixTime,
    ) -> Result<PemChain, CaError>;

    /// The endpoint's leaf and its intermediates.
    ///
    /// # Errors
    /// As [`Ca::sign_node`].
    fn sign_endpoint(&self, csr: &CheckedEndpointCsr, now: UnixTime) -> Result<EndpointLeaf, CaError>;

    /// Last second this CA can issue for.
    fn not_after(&self) -> UnixTime;

    /// Whether what it returns was signed by somebody else.
    fn trust(&self) -> Trust;
}

/// How far a CA's own word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed by this process a moment ago, with a key and a certificate that were checked against the root at the
    /// start. The rules of a leaf are checked on the leaf alone: verifying its two signatures again would cost 2 V, and
    /// reading the issuing CA again 0.3 V, where the whole way from CSR to leaf has 2.2 V (issue "Figures").
    Own,
    /// Another program's answer: rules and chain, in full.
    Foreign,
}

/// What a CA returns, not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemChain {
    /// The leaf.
    pub leaf: String,
    /// Its intermediates, in order.
    pub issuers: String,
}

/// A leaf that was checked against the rules of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Leaf and intermediates, PEM.
    pub pem: String,
    /// Serial number in lower-case hex.
    pub serial: String,
    /// Last second of the leaf.
    pub not_after: UnixTime,
}

impl Issued {
    /// A checked leaf and the chain it came with.
    #[must_use]
    pub fn new(leaf: &CheckedLeaf, pem: String) -> Self {
        Self { pem, serial: leaf.serial(), not_after: leaf.not_after() }
    }
}

/// The endpoint's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLeaf {
    /// Leaf and intermediates.
    pub pem: String,
    /// Serial number in lower-case hex.
    pub serial: String,
    /// Last second of the leaf.
    pub not_after: UnixTime,
}

/// Why there is no leaf.
#[derive(Debug, Error)]
pub enum CaError {
    /// The issuing CA's key is not one, or not of its certificate.
    #[error("the issuing CA's key is not the one of its certificate")]
    Key,
    /// The issuing CA's certificate cannot be read.
    #[error("the issuing CA's certificate cannot be read")]
    Issuing,
    /// The issuing CA has ended.
    #[error("the issuing CA was valid until {not_after}; make a new one with the root's key")]
    Ended {
        /// Its last second.
        not_after: UnixTime,
    },
    /// No random bytes.
    #[error("the system gave no random bytes")]
    Random,
    /// The certificate could not be put together.
    #[error("the certificate could not be signed")]
    Sign(#[source] rcgen::Error),
    /// The CA returned a leaf that breaks a rule; it was thrown away.
    #[error("the CA returned a certificate that is not this node's leaf; it was thrown away")]
    Rules(#[source] CertificateError),
    /// The CA returned a leaf that does not chain to our root; it was thrown away.
    #[error("the CA returned a certificate that does not chain to the root; it was thrown away")]
    Chain(#[source] ChainError),
    /// The CA returned an endpoint certificate that breaks a rule; it was thrown away.
    #[error("the {field} of the endpoint certificate is not what it must be; it was thrown away")]
    Endpoint {
        /// The part, in the words of RFC 5280.
        field: &'static str,
    },
}

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
    let read = |text: &str| Leaf::parse(text).and_then(|leaf| leaf.check(rules)).map_err(CaError::Rules);
    let leaf = match ca.trust() {
        Trust::Own => read(&leaf)?,
        Trust::Foreign => {
            let leaf = read(&pem)?;
            chain::verify(&leaf, std::slice::from_ref(root), now, Usage::Client).map_err(CaError::Chain)?;
            leaf
        }
    };
    Ok(Issued::new(&leaf, pem))
}

#[cfg(test)]
mod tests;

//! What a CA does for this fleet, and what it returns.

use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{CHAIN_CERTIFICATES_MAX, CHAIN_PEM_MAX};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::pem;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::certificate::{CertificateError, CheckedLeaf};
use lucia_proto::pki::chain::ChainError;
use lucia_proto::pki::csr::CheckedCsr;
use thiserror::Error;
use x509_cert::Certificate;
use x509_cert::der::{DecodePem as _, Encode as _};

use super::server::ServerCsr;
use super::step::StepError;
use crate::files::FileError;

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

    /// A server's leaf and its intermediates: of the endpoint, or of the directory. It never outlives the issuing CA.
    ///
    /// # Errors
    /// As [`Ca::sign_node`].
    fn sign_server(&self, csr: &ServerCsr, lifetime: Duration, now: UnixTime) -> Result<ServerLeaf, CaError>;

    /// Last second this CA can issue for.
    fn not_after(&self) -> UnixTime;

    /// The issuing CA, which the bundle must name.
    fn issuing(&self) -> &Issuing;

    /// Who signs, for people, and that it answers where it is somebody else.
    ///
    /// # Errors
    /// It does not.
    fn health(&self) -> Result<String, CaError>;

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

/// A server's certificate: the endpoint's, or the directory's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLeaf {
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
    /// A file of it cannot be read.
    #[error("a file of the issuing CA cannot be had")]
    File(#[source] FileError),
    /// No random bytes.
    #[error("the system gave no random bytes")]
    Random,
    /// The certificate could not be put together.
    #[error("the certificate could not be signed")]
    Sign(#[source] rcgen::Error),
    /// step-ca signed nothing.
    #[error(transparent)]
    Step(#[from] StepError),
    /// It failed, or refused, a short while ago.
    #[error("the CA is asked again at {at}; {before}")]
    Waits {
        /// When.
        at: UnixTime,
        /// What it failed with.
        before: String,
    },
    /// It had its questions of this turn.
    #[error("the CA is asked in the next turn")]
    NextTurn,
    /// The CA returned a leaf that breaks a rule; it was thrown away.
    #[error("the CA returned a certificate that is not this node's; it was rejected")]
    Rules(#[source] CertificateError),
    /// The CA returned a leaf with another key; it was thrown away.
    #[error("the CA returned a certificate with another key than the one that asked; it was thrown away")]
    WrongKey,
    /// The CA returned a leaf with other names; it was thrown away.
    #[error(
        "the CA returned a certificate with another {field} than was asked for; it was thrown away. See its template"
    )]
    WrongName {
        /// `subject` or `subjectAltName`.
        field: &'static str,
    },
    /// The CA returned a leaf of another lifetime; it was thrown away.
    #[error(
        "the CA returned a certificate of {hours} h; it was thrown away. Let its provisioner give what is asked for: \
         maxTLSCertDuration 168h"
    )]
    Lifetime {
        /// Its whole hours.
        hours: u64,
    },
    /// The CA returned a leaf that outlives its issuing CA; it was thrown away.
    #[error(
        "the CA returned a certificate that ends after its issuing CA does ({not_after}); it was rejected. Make a new \
         issuing CA, or correct the clock of the CA's host"
    )]
    Outlives {
        /// The last second of the issuing CA.
        not_after: UnixTime,
    },
    /// The CA returned a leaf that does not chain to our root; it was thrown away.
    #[error("the CA returned a certificate that does not chain to the root; it was thrown away")]
    Chain(#[source] ChainError),
    /// The CA returned a leaf of another issuing CA than the bundle names; it was thrown away.
    #[error(
        "the CA returned a certificate of another issuing CA than ca/issuing.pem; it was thrown away. If step-ca has a \
         new intermediate, the bundle must name it first"
    )]
    WrongIssuer,
    /// The CA returned a server's certificate that breaks a rule; it was thrown away.
    #[error("the {field} of the server's certificate is not what it must be; it was thrown away")]
    Server {
        /// The part, in the words of RFC 5280.
        field: &'static str,
    },
}

/// The issuing CA, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuing {
    /// Its certificate.
    pub(super) pem: String,
    /// The last second it can issue for.
    pub(super) not_after: UnixTime,
    pub(super) der: Vec<u8>,
    pub(super) subject: Vec<u8>,
    pub(super) spki: Vec<u8>,
}

impl Issuing {
    /// Reads its certificate. That the root signed it is for the bundle to say.
    ///
    /// # Errors
    /// [`CaError::Issuing`].
    pub fn read(pem: &str) -> Result<Self, CaError> {
        let certificate = Certificate::from_pem(pem).map_err(|_| CaError::Issuing)?;
        let tbs = certificate.tbs_certificate();
        Ok(Self {
            pem: pem.to_owned(),
            not_after: UnixTime::from_secs(tbs.validity().not_after.to_unix_duration().as_secs()),
            der: certificate.to_der().map_err(|_| CaError::Issuing)?,
            subject: tbs.subject().to_der().map_err(|_| CaError::Issuing)?,
            spki: tbs.subject_public_key_info().to_der().map_err(|_| CaError::Issuing)?,
        })
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The last second it can issue for.
    #[must_use]
    pub fn not_after(&self) -> UnixTime {
        self.not_after
    }
}

pub(super) fn blocks(chain: &str) -> Vec<Vec<u8>> {
    pem::many(chain, "CERTIFICATE", CHAIN_PEM_MAX, CHAIN_CERTIFICATES_MAX).unwrap_or_default()
}

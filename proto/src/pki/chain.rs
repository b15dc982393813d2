//! The path from a leaf to the private root, at a given time (design.md I7).
//!
//! Paths are built by rustls-webpki, held to ECDSA P-256 with SHA-256 and to the at most three intermediates a
//! chain may bring. On top of it every certificate between must be an authority that may sign certificates
//! (webpki leaves keyUsage alone), and the root's own lifetime and path length count as well.
//!
//! Two proofs come out. [`VerifiedChain`]: valid now, until its [`VerifiedChain::not_after`].
//! [`LapsedChain`]: was valid when it was issued; it lets its node renew and nothing else, so it is another type.

use std::time::Duration;

use pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::base::digest::Digest;
use crate::base::limits::{LAPSED_CHAIN_OFFSET, ROOT_PEM_MAX};
use crate::base::pem;
use crate::base::time::UnixTime;
use crate::pki::certificate::{CertificateError, CheckedLeaf};
use crate::pki::key::NodePublicKey;
use crate::pki::x509::{LABEL, Parsed};

/// The only signature a certificate may carry.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[webpki::ring::ECDSA_P256_SHA256];

/// What the leaf is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To prove the node to the controller.
    Client,
    /// To serve others besides; the leaf must say so.
    Server,
}

/// Why there is no path.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The leaf came without the authority that issued it.
    #[error("the chain has {count} certificate(s); the certificate and its issuing CA are needed")]
    TooShort {
        /// Certificates that arrived.
        count: usize,
    },
    /// A certificate of the path is not valid yet.
    #[error("a certificate of the chain is not valid before {not_before}")]
    NotYetValid {
        /// When it will be.
        not_before: UnixTime,
    },
    /// A certificate of the path is over.
    #[error("a certificate of the chain was valid until {not_after}")]
    Expired {
        /// Its last second.
        not_after: UnixTime,
    },
    /// A certificate above the leaf may not issue.
    #[error("a certificate above the first is not an authority")]
    Issuer(#[source] CertificateError),
    /// The leaf is not for this usage.
    #[error("the certificate is not for use as a server")]
    Usage,
    /// The root allows fewer authorities below it than the path has.
    #[error("the path is longer than the root allows, or does not go through an issuing CA")]
    PathLength,
    /// No root was given.
    #[error("there is no root to build a chain to")]
    NoRoot,
    /// No path that keeps RFC 5280's rules.
    #[error("no valid path to the root")]
    Path(#[source] webpki::Error),
}

impl ChainError {
    /// A short name of what was wrong, for logs and tables.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::TooShort { .. } => "too short",
            Self::NotYetValid { .. } => "not yet valid",
            Self::Expired { .. } => "expired",
            Self::Issuer(_) => "issuer",
            Self::Usage => "usage",
            Self::PathLength => "path length",
            Self::NoRoot => "no root",
            Self::Path(_) => "path",
        }
    }
}

/// A private root: a self-signed authority with a P-256 key. Only [`Root::from_pem`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    certificate: Parsed,
    key: NodePublicKey,
    path_length: Option<u8>,
}

impl Root {
    /// Reads one PEM block and checks that it is an authority which signed itself. Its lifetime is not looked at
    /// here, but whenever a chain is built to it.
    ///
    /// # Errors
    /// Not that; the error names the part.
    pub fn from_pem(text: &str) -> Result<Self, CertificateError> {
        let der = pem::one(text, LABEL, ROOT_PEM_MAX).map_err(CertificateError::Pem)?;
        let certificate = Parsed::read(der, 0)?;
        let path_length = certificate.check_authority()?;
        let key = certificate.key()?;
        if !certificate.is_signed_by(&certificate) {
            return Err(CertificateError::Signature { index: 0 });
        }
        Ok(Self { certificate, key, path_length })
    }

    /// The root as one PEM block.
    #[must_use]
    pub fn pem(&self) -> String {
        pem::encode(self.certificate.der(), LABEL)
    }

    /// The root, DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.certificate.der()
    }

    /// SHA-256 of the root's DER: the fleet it is the root of.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        Digest::of(self.der())
    }

    /// The root's key.
    #[must_use]
    pub fn public_key(&self) -> &NodePublicKey {
        &self.key
    }

    /// First second it is valid.
    #[must_use]
    pub fn not_before(&self) -> UnixTime {
        self.certificate.not_before()
    }

    /// Last second it is valid.
    #[must_use]
    pub fn not_after(&self) -> UnixTime {
        self.certificate.not_after()
    }

    /// Checks that a certificate is an authority other than the root, signed by the root itself.
    pub(crate) fn check_issuing(&self, text: &str, index: usize) -> Result<Parsed, CertificateError> {
        let der = pem::one(text, LABEL, ROOT_PEM_MAX).map_err(CertificateError::Pem)?;
        let issuing = Parsed::read(der, index)?;
        issuing.check_authority()?;
        if issuing.der() == self.der() || !issuing.is_signed_by(&self.certificate) {
            return Err(CertificateError::Signature { index });
        }
        Ok(issuing)
    }
}

/// Proof that a leaf chained to a root at a time, and when that will end. Only [`verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedChain {
    leaf: Digest,
    not_after: UnixTime,
}

impl VerifiedChain {
    /// The earliest end of any certificate of the path: the verdict is good until then, and no longer.
    #[must_use]
    pub fn not_after(&self) -> UnixTime {
        self.not_after
    }

    /// SHA-256 of the DER of the leaf this is about.
    #[must_use]
    pub fn leaf_sha256(&self) -> Digest {
        self.leaf
    }
}

/// Proof that a leaf chained to a root when it was issued: it may renew. Only [`verify_lapsed`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LapsedChain {
    leaf: Digest,
}

impl LapsedChain {
    /// SHA-256 of the DER of the leaf this is about.
    #[must_use]
    pub fn leaf_sha256(&self) -> Digest {
        self.leaf
    }
}

/// Builds the path of `leaf` to one of `roots` as it is at `at`.
///
/// # Errors
/// No path; a leaf or path that is over, or has not begun, is told apart from a wrong one.
pub fn verify(leaf: &CheckedLeaf, roots: &[Root], at: UnixTime, usage: Usage) -> Result<VerifiedChain, ChainError> {
    let not_after = path(leaf, roots, at, usage)?;
    Ok(VerifiedChain { leaf: leaf.sha256(), not_after })
}

/// Builds the path of `leaf` as it was one minute after it was issued, whatever has ended since.
///
/// # Errors
/// As [`verify`]; a leaf that has not begun at `now` is refused.
pub fn verify_lapsed(leaf: &CheckedLeaf, roots: &[Root], now: UnixTime) -> Result<LapsedChain, ChainError> {
    if now < leaf.not_before() {
        return Err(ChainError::NotYetValid { not_before: leaf.not_before() });
    }
    path(leaf, roots, leaf.not_before().plus(LAPSED_CHAIN_OFFSET), Usage::Client)?;
    Ok(LapsedChain { leaf: leaf.sha256() })
}

/// The earliest end of the certificates of the first path there is.
fn path(leaf: &CheckedLeaf, roots: &[Root], at: UnixTime, usage: Usage) -> Result<UnixTime, ChainError> {
    let issuers = leaf.issuers();
    if issuers.is_empty() {
        return Err(ChainError::TooShort { count: 1 });
    }
    within(at, leaf.not_before(), leaf.not_after())?;
    let key_usage = match usage {
        Usage::Client => KeyUsage::client_auth(),
        Usage::Server if leaf.has_server_auth() => KeyUsage::server_auth(),
        Usage::Server => return Err(ChainError::Usage),
    };
    for issuer in issuers {
        issuer.check_authority().map_err(ChainError::Issuer)?;
    }
    let mut refused = ChainError::NoRoot;
    for root in roots {
        match path_to(leaf, root, at, key_usage) {
            Ok(not_after) => return Ok(not_after),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn path_to(leaf: &CheckedLeaf, root: &Root, at: UnixTime, usage: KeyUsage) -> Result<UnixTime, ChainError> {
    within(at, root.not_before(), root.not_after())?;
    let leaf_der = CertificateDer::from(leaf.leaf().der());
    let root_der = CertificateDer::from(root.der());
    let issuers: Vec<CertificateDer<'_>> =
        leaf.issuers().iter().map(|issuer| CertificateDer::from(issuer.der())).collect();
    let end_entity = EndEntityCert::try_from(&leaf_der).map_err(ChainError::Path)?;
    let anchors = [anchor_from_trusted_cert(&root_der).map_err(ChainError::Path)?];
    let at = pki_types::UnixTime::since_unix_epoch(Duration::from_secs(at.secs()));
    let path =
        end_entity.verify_for_usage(ALGORITHMS, &anchors, &issuers, at, usage, None, None).map_err(from_webpki)?;
    let mut not_after = leaf.not_after().min(root.not_after());
    let mut between = 0_u8;
    for issuer in path.intermediate_certificates() {
        let der = issuer.der();
        let end = leaf.issuers().iter().find(|known| known.der() == der.as_ref()).map(Parsed::not_after);
        not_after = not_after.min(end.unwrap_or(UnixTime::EPOCH));
        between = between.saturating_add(1);
    }
    // webpki looks at the path length of every authority but the root.
    if between == 0 || root.path_length.is_some_and(|allowed| between > allowed) {
        return Err(ChainError::PathLength);
    }
    Ok(not_after)
}

fn within(at: UnixTime, not_before: UnixTime, not_after: UnixTime) -> Result<(), ChainError> {
    if at < not_before {
        Err(ChainError::NotYetValid { not_before })
    } else if at > not_after {
        Err(ChainError::Expired { not_after })
    } else {
        Ok(())
    }
}

fn from_webpki(error: webpki::Error) -> ChainError {
    match error {
        webpki::Error::CertExpired { not_after, .. } => {
            ChainError::Expired { not_after: UnixTime::from_secs(not_after.as_secs()) }
        }
        webpki::Error::CertNotValidYet { not_before, .. } => {
            ChainError::NotYetValid { not_before: UnixTime::from_secs(not_before.as_secs()) }
        }
        other => ChainError::Path(other),
    }
}

#[cfg(test)]
mod tests;

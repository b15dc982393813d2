//! TLS towards the fleet's own servers: its root is trusted and nothing else, whatever this machine trusts.

use std::io;
use std::sync::Arc;

use lucia_proto::pki::chain::Root;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// Settings that trust `root` alone, without resumption.
///
/// # Errors
/// When rustls refuses the root.
pub fn trusting(root: &Root) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root.der().to_vec()))?;
    trusting_these(roots)
}

/// As [`trusting`], and for HTTP/1.1.
///
/// # Errors
/// As [`trusting`].
pub fn trusting_for_http(root: &Root) -> Result<ClientConfig, rustls::Error> {
    let mut config = trusting(root)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Settings that trust these certificates alone, without resumption.
///
/// # Errors
/// Of rustls; no build of ours gives one.
pub fn trusting_these(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Why there is no TLS with somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The certificate is not theirs, or not of an authority that is believed.
    Certificate,
    /// It is, but not now.
    Time,
    /// What they speak is not TLS, or none of ours, or they refused with an alert.
    Protocol,
    /// The connection itself.
    Connection,
}

/// Judges an error of a TLS stream.
#[must_use]
pub fn failure(error: &io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => Failure::Time,
        Some(rustls::Error::InvalidCertificate(_)) => Failure::Certificate,
        Some(_) => Failure::Protocol,
        None => Failure::Connection,
    }
}

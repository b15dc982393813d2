//! Why there is no TLS with somebody, be it the controller or a proxy.

use std::io;

use rustls::CertificateError;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
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
pub(super) fn failure(error: &io::Error) -> Failure {
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

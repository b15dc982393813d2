//! Why a certificate was refused.

use crate::base::pem;

/// Why a certificate was refused. `index` is its place in the chain: 0 is the leaf.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Too long, too many, or not strict PEM blocks of the right label.
    #[error("the certificates are not strict PEM within the limits")]
    Pem(#[source] pem::PemError),
    /// Not DER, or bytes after its end.
    #[error("certificate {index} is not DER")]
    Der {
        /// Place in the chain.
        index: usize,
        /// What the parser met.
        #[source]
        source: x509_cert::der::Error,
    },
    /// It can be read, but is not the one encoding of what it says.
    #[error("certificate {index} is not in canonical DER")]
    NotCanonical {
        /// Place in the chain.
        index: usize,
    },
    /// A part is not what the rules say.
    #[error("the {field} of certificate {index} is not what it must be")]
    Field {
        /// Place in the chain.
        index: usize,
        /// The part, in the words of RFC 5280.
        field: &'static str,
    },
    /// An authority that must be signed by a certain other one is not.
    #[error("certificate {index} is not signed by its authority")]
    Signature {
        /// Place in the chain or list.
        index: usize,
    },
}

impl CertificateError {
    /// A short name of what was wrong, for logs and tables.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Pem(_) => "pem",
            Self::Der { .. } => "der",
            Self::NotCanonical { .. } => "canonical",
            Self::Field { field, .. } => field,
            Self::Signature { .. } => "signature",
        }
    }
}

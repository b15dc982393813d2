//! Keys and certificates, and what a worker signs with its key.

pub mod bundle;
pub mod certificate;
mod certificate_error;
pub mod chain;
pub mod csr;
pub mod endpoint_names;
pub(crate) mod general_names;
pub mod key;
pub mod release;
pub mod sealed;
pub mod signed;
pub mod taken;
pub(crate) mod x509;

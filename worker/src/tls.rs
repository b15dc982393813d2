//! TLS towards the fleet's own servers: its root is trusted and nothing else, whatever this machine trusts.

use std::sync::Arc;

use lucia_proto::pki::chain::Root;
use rustls::{ClientConfig, RootCertStore};

/// Settings that trust the fleet's root alone.
///
/// # Errors
/// The root is of no use for TLS.
pub(crate) fn trusting(root: &Root) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(root.der().to_vec().into())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(tls))
}

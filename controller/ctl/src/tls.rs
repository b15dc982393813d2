//! TLS to whoever proves to be the controller by the context's root, and by nothing else.
//!
//! The machine's own trust store has no say, and neither have `HTTPS_PROXY` and its like; no redirect is followed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lucia_daemon::reach::{Reach, Unreached};
use lucia_daemon::tls::{Failure, failure, trusting_for_http};
use lucia_proto::orders::owner::PageOrigin;
use lucia_proto::pki::chain::Root;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::call::CallError;

/// To have a connection and its handshake, over all addresses.
const CONNECT: Duration = Duration::from_secs(10);

/// One controller, by address, name and root.
pub(crate) struct Tls {
    host: String,
    port: u16,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl Tls {
    /// Settings that believe `root` alone.
    ///
    /// # Errors
    /// When rustls takes the root or the name for none.
    pub(crate) fn new(controller: &PageOrigin, root: &Root) -> Result<Self, CallError> {
        let unusable = |error: &dyn std::fmt::Display| CallError::Root(error.to_string());
        let host = controller.rp_id().to_owned();
        let port = controller.as_str().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(443);
        let config = trusting_for_http(root).map_err(|error| unusable(&error))?;
        let name = ServerName::try_from(host.clone()).map_err(|error| unusable(&error))?;
        Ok(Self { host, port, name, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The `Host` header.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// A connection to whoever proved who they are.
    ///
    /// # Errors
    /// When nobody answers, or somebody else does.
    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>, CallError> {
        let connect = async |_, tcp| self.connector.connect(self.name.clone(), tcp).await;
        let connected = Reach::new(&self.host, self.port).connect(CONNECT, connect).await;
        connected.map_err(|failure| match failure {
            Unreached::Late => self.unreachable(io::ErrorKind::TimedOut.into()),
            Unreached::Name(source) | Unreached::Closed { source, .. } => self.unreachable(source),
            Unreached::Unusable { error, .. } => self.refused(error),
        })
    }

    fn unreachable(&self, err: io::Error) -> CallError {
        CallError::Unreachable(self.authority(), err)
    }

    fn refused(&self, error: io::Error) -> CallError {
        match failure(&error) {
            Failure::Time => CallError::Clock(self.authority()),
            Failure::Certificate => CallError::Stranger(self.authority(), self.host.clone()),
            Failure::Protocol | Failure::Connection => self.unreachable(error),
        }
    }
}

//! step-ca as issuing CA (design.md W2): its `/1.0/sign`, with a one-time token of a JWK provisioner.
//!
//! The fleet's root is step-ca's own, and its TLS certificate must chain to it. Each question is a connection of its own
//! with a time limit. What comes back is somebody else's word: [`super::issue`] and [`super::server_leaf`] check all of
//! it before it is used.

mod error;
mod jwk;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use lucia_daemon::reach::{Reach, Unreached};
use lucia_daemon::tls;
use lucia_durable::PrivateDir;
use lucia_proto::base::digest::Digest;
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::LEAF_LIFETIME;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::pem;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::chain::Root;
use lucia_proto::pki::csr::CheckedCsr;
use lucia_proto::pki::endpoint_names::EndpointName;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use error::StepError;

use super::contract::{Ca, CaError, Issuing, PemChain, ServerLeaf, Trust};
use super::issuing::server_leaf;
use super::server::ServerCsr;
use crate::config::StepCaConfig;
use crate::files::{FileError, text};
use jwk::{Claims, ProvisionerKey};

/// The provisioner's key, in `ca` of the worker's own directory.
pub const KEY_FILE: &str = "provisioner.jwk";
/// Signs.
const SIGN: &str = "/1.0/sign";
/// Says that it is well.
const HEALTH: &str = "/health";
/// For how long step-ca is waited for.
const LIMITS: Limits = Limits { connect: Duration::from_secs(4), whole: Duration::from_secs(8) };
/// Longest answer: a chain is a few kB.
const ANSWER_MAX: usize = 128 * 1024;
/// Of what step-ca says of a refusal.
const SAID_MAX: usize = 256;

/// For how long a question may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Until TCP and TLS are there.
    connect: Duration,
    /// From its first packet to its last.
    whole: Duration,
}

/// step-ca, as it is asked.
pub struct StepCa {
    site: StepCaConfig,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    key: ProvisionerKey,
    root: Digest,
    issuing: Issuing,
    limits: Limits,
}

/// The question. Member names are those of step-ca.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StepQuestion<'a> {
    csr: &'a str,
    ott: &'a str,
    /// Seconds from step-ca's own clock on, so that two clocks need not agree.
    not_after: String,
}

/// The answer; what else is in it is left aside.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepAnswer {
    crt: String,
    ca: String,
    #[serde(default)]
    cert_chain: Vec<String>,
}

/// A refusal.
#[derive(Deserialize)]
struct StepRefusal {
    message: String,
}

impl StepCa {
    /// Makes ready to ask; connects to nothing yet.
    ///
    /// # Errors
    /// The provisioner's key or the root cannot be used.
    pub fn open(site: StepCaConfig, dir: &PrivateDir, root: &Root, issuing: Issuing) -> Result<Self, StepError> {
        let jwk = text(dir, KEY_FILE).map_err(|error| match error {
            FileError::Missing { path } => StepError::Key { path },
            error => StepError::KeyFile(error),
        })?;
        let key = ProvisionerKey::read(&jwk)
            .ok_or_else(|| StepError::Key { path: dir.path_of(&crate::files::file(KEY_FILE)) })?;
        let name = match &site.host {
            EndpointName::Ip(address) => ServerName::from(*address),
            EndpointName::Dns(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|_| StepError::Strange { to: site.authority(), what: "no name for TLS".to_owned() })?,
        };
        let tls = tls::trusting_for_http(root).map(Arc::new).map_err(StepError::Tls)?;
        Ok(Self { site, name, tls, key, root: root.sha256(), issuing, limits: LIMITS })
    }

    /// Has a CSR signed whose subject and names are these.
    fn sign(
        &self,
        csr: &str,
        subject: &str,
        names: &[String],
        lifetime: Duration,
        now: UnixTime,
    ) -> Result<PemChain, CaError> {
        let mut jti = [0; 16];
        getrandom::fill(&mut jti).map_err(|_| CaError::Random)?;
        let audience = format!("https://{}{SIGN}", self.site.authority());
        let (iss, aud) = (self.site.provisioner.as_str(), audience.as_str());
        let claims = Claims { iss, aud, sub: subject, sans: names, sha: &self.root };
        let strange = |what: &str| StepError::Strange { to: self.site.authority(), what: what.to_owned() };
        let ott = self.key.token(&claims, jti, now).ok_or_else(|| strange("no token could be made for it"))?;
        let lasts = lifetime.min(self.issuing.not_after.since(now)).as_secs();
        let question = StepQuestion { csr, ott: &ott, not_after: format!("{lasts}s") };
        let body = serde_json::to_vec(&question).map_err(|_| strange("no question could be made for it"))?;
        let (status, body) = self.ask(Request::post(SIGN), body)?;
        Ok(self.read(status, &body)?)
    }

    /// One question, one answer, whatever it is.
    fn ask(&self, request: Builder, body: Vec<u8>) -> Result<(StatusCode, Bytes), StepError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(StepError::Runtime)?;
        // Made inside, where the runtime's clock is.
        let answer =
            runtime.block_on(async { tokio::time::timeout(self.limits.whole, self.exchange(request, body)).await });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        answer.unwrap_or_else(|_| Err(self.slow(self.limits.whole)))
    }

    fn slow(&self, limit: Duration) -> StepError {
        StepError::Slow { limit, to: self.site.authority() }
    }

    async fn exchange(&self, request: Builder, body: Vec<u8>) -> Result<(StatusCode, Bytes), StepError> {
        let to = self.site.authority();
        let strange = |error: &dyn std::error::Error| StepError::Strange { to: to.clone(), what: crate::chain(error) };
        let connected = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connected)).await.map_err(|e| strange(&e))?;
        // Ends with the runtime; what it ends with shows in the answer.
        let _driver = tokio::spawn(connection);
        let request = request
            .header(HOST, &to)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| strange(&e))?;
        let answer = sender.send_request(request).await.map_err(|e| strange(&e))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let what = format!("an answer of over {} kB", ANSWER_MAX / 1024);
                return StepError::Strange { to: to.clone(), what };
            }
            strange(error.as_ref())
        })?;
        Ok((status, body.to_bytes()))
    }

    async fn connect(&self) -> Result<tokio_rustls::client::TlsStream<TcpStream>, StepError> {
        let to = self.site.authority();
        let host = match &self.site.host {
            EndpointName::Ip(address) => address.to_string(),
            EndpointName::Dns(name) => name.as_str().to_owned(),
        };
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        let connect = async |_, tcp| tls.connect(self.name.clone(), tcp).await;
        let connected = Reach::new(host, self.site.port).connect(self.limits.connect, connect).await;
        connected.map_err(|failure| match failure {
            Unreached::Late => self.slow(self.limits.connect),
            Unreached::Name(source) | Unreached::Closed { source, .. } => StepError::Unreachable { to, source },
            Unreached::Unusable { error, .. } if is_certificate(&error) => StepError::Stranger { to, source: error },
            Unreached::Unusable { error, .. } => StepError::Unreachable { to, source: error },
        })
    }

    /// What an answer says: a chain, or which of several ways of saying no.
    fn read(&self, status: StatusCode, body: &[u8]) -> Result<PemChain, StepError> {
        let said = || {
            let message =
                serde_json::from_slice::<StepRefusal>(body).map(|refusal| refusal.message).unwrap_or_default();
            let said = if message.is_empty() { "without a reason".to_owned() } else { message };
            shown(&said.chars().take(SAID_MAX).collect::<String>()).to_string()
        };
        let number = status.as_u16();
        if status.is_client_error() {
            return Err(StepError::Refused { status: number, said: said() });
        }
        if status.is_server_error() {
            return Err(StepError::Failed { status: number, said: said() });
        }
        let strange = |what: String| StepError::Strange { to: self.site.authority(), what };
        if status != StatusCode::CREATED {
            return Err(strange(format!("it answered with {number}")));
        }
        let answer: StepAnswer =
            serde_json::from_slice(body).map_err(|error| strange(format!("its answer is no certificate: {error}")))?;
        Ok(match answer.cert_chain.split_first() {
            Some((leaf, issuers)) => PemChain { leaf: leaf.clone(), issuers: issuers.concat() },
            None => PemChain { leaf: answer.crt, issuers: answer.ca },
        })
    }
}

impl Ca for StepCa {
    fn sign_node(
        &self,
        csr: &CheckedCsr,
        hostname: &Hostname,
        node_id: &NodeId,
        now: UnixTime,
    ) -> Result<PemChain, CaError> {
        let text = pem::encode(csr.der(), super::server::LABEL);
        self.sign(&text, node_id.as_str(), &[hostname.to_string()], LEAF_LIFETIME, now)
    }

    fn sign_server(&self, csr: &ServerCsr, lifetime: Duration, now: UnixTime) -> Result<ServerLeaf, CaError> {
        let names: Vec<String> = csr.names().iter().map(ToString::to_string).collect();
        let chain = self.sign(csr.pem(), &csr.names().first().to_string(), &names, lifetime, now)?;
        server_leaf(&chain, csr, &self.issuing, lifetime, now)
    }

    fn not_after(&self) -> UnixTime {
        self.issuing.not_after
    }

    fn issuing(&self) -> &Issuing {
        &self.issuing
    }

    fn health(&self) -> Result<String, CaError> {
        let to = self.site.authority();
        let (status, _) = self.ask(Request::get(HEALTH), Vec::new())?;
        match status {
            StatusCode::OK => Ok(format!("step-ca at {to}, answers")),
            _ => Err(StepError::Failed {
                status: status.as_u16(),
                said: format!("{HEALTH} does not say that it is well"),
            }
            .into()),
        }
    }

    fn trust(&self) -> Trust {
        Trust::Foreign
    }
}

/// Whether TLS failed over the certificate, and not over the connection.
fn is_certificate(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

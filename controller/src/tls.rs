//! The endpoint's own key and certificate (design.md W2), and the TLS rules of the listener.
//!
//! The controller makes the key and asks; the enrollment worker signs, anew every day. What the worker answers, or
//! what a person puts into `tls/endpoint.pem`, is used from the next handshake on, without a restart. An expired
//! certificate stops nothing here: nodes refuse it, and the operator's socket goes on working.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, RwLock};

use lucia_durable::{DirError, DirRules, FileName, FileRules, Loaded, PrivateDir, ReadError, WriteError, crash_point};
use lucia_proto::base::limits::{CHAIN_CERTIFICATES_MAX, CHAIN_PEM_MAX};
use lucia_proto::base::pem::{self, PemError};
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::csr;
use lucia_proto::pki::endpoint_names::{EndpointName, EndpointNames};
use lucia_proto::pki::key::{KeyError, NodeKey};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::lock::{read, write};
use crate::refusal::chain;

/// Mode of both files.
const MODE: u32 = 0o600;
/// A key in PEM: 241 characters in truth.
const KEY_PEM_MAX: u64 = 1024;

/// Why there is no key or certificate to serve with.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The directory `tls`.
    #[error("the directory of the endpoint's key cannot be used")]
    Dir(#[source] DirError),
    /// A file in it.
    #[error("the endpoint's key or certificate cannot be read")]
    Read(#[source] ReadError),
    /// A file in it.
    #[error("the endpoint's key or certificate cannot be written")]
    Write(#[source] WriteError),
    /// The key file holds something else.
    #[error("{path} is not a private key; move it away and a new one is made")]
    Key {
        /// The path.
        path: String,
        /// What is wrong.
        #[source]
        source: KeyError,
    },
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
    /// The certificate is not PEM.
    #[error("the endpoint's certificate is not a chain in PEM")]
    Pem(#[source] PemError),
    /// The certificate is of another key, or not one at all.
    #[error("the endpoint's certificate is not one of the endpoint's key")]
    Certificate,
    /// TLS itself.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// The certificate that is served, whichever it is at the moment.
pub struct EndpointCertificate {
    dir: PrivateDir,
    file: FileName,
    names: EndpointNames,
    key: NodeKey,
    csr: String,
    signing: Arc<dyn rustls::sign::SigningKey>,
    current: RwLock<Option<Current>>,
}

struct Current {
    pem: String,
    certified: Arc<CertifiedKey>,
    not_after: UnixTime,
    /// Whether all names of the settings are among its own.
    ours: bool,
}

impl Current {
    /// The names of the settings count before a later end: a name that was added must be served whatever the former
    /// certificate's end.
    const fn worth(&self) -> (bool, UnixTime) {
        (self.ours, self.not_after)
    }
}

impl EndpointCertificate {
    /// Reads the key, or makes it on the first start, and takes the certificate if there is a usable one.
    ///
    /// # Errors
    /// A key that cannot be used stops the start, since a new one would be another endpoint. A certificate that
    /// cannot be used does not: the worker signs another.
    pub fn open(state_dir: &Path, names: EndpointNames) -> Result<Self, TlsError> {
        let dir = PrivateDir::create(&state_dir.join("tls"), DirRules::private()).map_err(TlsError::Dir)?;
        let key = load_key(&dir)?;
        let pkcs8 = key.to_pem().map_err(|source| TlsError::Key { path: "the key in memory".to_owned(), source })?;
        let der = pem::one(&pkcs8, "PRIVATE KEY", usize::MAX).map_err(TlsError::Pem)?;
        let signing =
            ring::sign::any_ecdsa_type(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der))).map_err(TlsError::Tls)?;
        let csr = csr::endpoint_build(&names, &key);
        let endpoint = Self { dir, file: name("endpoint.pem"), names, key, csr, signing, current: RwLock::new(None) };
        if let Err(error) = endpoint.reload() {
            tracing::warn!("the endpoint's certificate file is not used: {}", chain(&error));
        }
        Ok(endpoint)
    }

    /// The request the worker signs: always the same for the same key and names.
    #[must_use]
    pub fn csr(&self) -> &str {
        &self.csr
    }

    /// When the served certificate ends; nothing while there is none.
    #[must_use]
    pub fn not_after(&self) -> Option<UnixTime> {
        read(&self.current).as_ref().map(|current| current.not_after)
    }

    /// Serves what `endpoint.pem` holds, if that is something new. Says whether it was.
    ///
    /// # Errors
    /// The file cannot be used; what is served stays.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let max = u64::try_from(CHAIN_PEM_MAX).unwrap_or(u64::MAX);
        match self.dir.read(&self.file, max, FileRules::private()).map_err(TlsError::Read)? {
            Loaded::Missing => Ok(false),
            Loaded::Found(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| TlsError::Certificate)?;
                if self.serves(&text) {
                    return Ok(false);
                }
                let current = self.certified(text)?;
                self.serve(current);
                Ok(true)
            }
        }
    }

    /// Keeps the worker's answer and serves it. Says whether it was a new one.
    ///
    /// # Errors
    /// It is not a certificate of our key, or cannot be written; what is served stays.
    pub fn take(&self, chain: &str) -> Result<bool, TlsError> {
        if self.serves(chain) {
            return Ok(false);
        }
        let current = self.certified(chain.to_owned())?;
        let served = read(&self.current).as_ref().map(Current::worth);
        if served.is_some_and(|served| current.worth() <= served) {
            // An older answer than what a person put in place, or than a former answer: nothing to gain.
            return Ok(false);
        }
        crash_point!("controller/endpoint-answered", self.dir.path())
            .map_err(|crashed| TlsError::Write(WriteError::Crashed { path: self.dir.path_of(&self.file), crashed }))?;
        self.dir.replace(&self.file, chain.as_bytes(), MODE).map_err(TlsError::Write)?;
        self.serve(current);
        Ok(true)
    }

    fn serves(&self, pem: &str) -> bool {
        let current = read(&self.current);
        current.as_ref().is_some_and(|current| current.pem == pem)
    }

    fn serve(&self, current: Current) {
        *write(&self.current) = Some(current);
    }

    fn is_for_our_names(&self, leaf: &x509_cert::Certificate) -> bool {
        let Ok(Some((_, found))) = leaf.tbs_certificate().get_extension::<SubjectAltName>() else { return false };
        self.names.iter().all(|ours| {
            found.0.iter().any(|name| match (ours, name) {
                (EndpointName::Dns(ours), GeneralName::DnsName(name)) => ours.as_str() == name.as_str(),
                (EndpointName::Ip(IpAddr::V4(ours)), GeneralName::IpAddress(name)) => name.as_bytes() == ours.octets(),
                (EndpointName::Ip(IpAddr::V6(ours)), GeneralName::IpAddress(name)) => name.as_bytes() == ours.octets(),
                _ => false,
            })
        })
    }

    fn certified(&self, chain: String) -> Result<Current, TlsError> {
        let ders = pem::many(&chain, "CERTIFICATE", CHAIN_PEM_MAX, CHAIN_CERTIFICATES_MAX).map_err(TlsError::Pem)?;
        let leaf = ders.first().ok_or(TlsError::Certificate)?;
        let leaf = x509_cert::Certificate::from_der(leaf).map_err(|_| TlsError::Certificate)?;
        let not_after = leaf.tbs_certificate().validity().not_after.to_unix_duration().as_secs();
        let ours = self.is_for_our_names(&leaf);
        let certificates = ders.into_iter().map(CertificateDer::from).collect();
        let certified = CertifiedKey::new(certificates, Arc::clone(&self.signing));
        certified.keys_match().map_err(|_| TlsError::Certificate)?;
        Ok(Current { pem: chain, certified: Arc::new(certified), not_after: UnixTime::from_secs(not_after), ours })
    }
}

impl fmt::Debug for EndpointCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointCertificate").field("key", self.key.public()).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for EndpointCertificate {
    /// The certificate, unless the client asks for a name that is not ours (threats.md H-10).
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(asked) = hello.server_name()
            && !self.names.iter().any(|name| matches!(name, EndpointName::Dns(name) if name.as_str() == asked))
        {
            return None;
        }
        let current = read(&self.current);
        current.as_ref().map(|current| Arc::clone(&current.certified))
    }
}

fn load_key(dir: &PrivateDir) -> Result<NodeKey, TlsError> {
    let file = name("endpoint.key");
    let wrong = |source| TlsError::Key { path: dir.path_of(&file).display().to_string(), source };
    if let Loaded::Found(bytes) = dir.read(&file, KEY_PEM_MAX, FileRules::private()).map_err(TlsError::Read)? {
        let text = zeroize::Zeroizing::new(bytes);
        let text = std::str::from_utf8(&text).map_err(|_| wrong(KeyError::NotPrivateKey))?;
        return NodeKey::from_pem(text).map_err(wrong);
    }
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    let key = loop {
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| TlsError::Random)?;
        if let Some(key) = NodeKey::from_random(&bytes) {
            break key;
        }
    };
    let text = key.to_pem().map_err(wrong)?;
    dir.create_new(&file, text.as_bytes(), MODE).map_err(TlsError::Write)?;
    Ok(key)
}

/// A name that is a constant of this file.
fn name(text: &'static str) -> FileName {
    FileName::new(text).unwrap_or_else(|_| unreachable!("a constant of this file"))
}

/// The rules of the listener: TLS 1.2 and 1.3, HTTP/1.1 alone, no tickets and no session to resume, so that each
/// connection is a whole handshake and nothing of a former one can be replayed.
///
/// # Errors
/// [`TlsError::Tls`], which no build of ours gives.
pub fn server_config(certificate: Arc<EndpointCertificate>) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a worker answers to `endpoint`'s request, ending with the year `year` begins.
    fn signed(endpoint: &EndpointCertificate, year: i32) -> String {
        let mut csr = rcgen::CertificateSigningRequestParams::from_pem(endpoint.csr()).unwrap();
        csr.params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::Issuer::new(rcgen::CertificateParams::default(), key);
        csr.signed_by(&issuer).unwrap().pem()
    }

    fn names(texts: &[&str]) -> EndpointNames {
        EndpointNames::new(texts.iter().map(|text| EndpointName::parse(text).unwrap()).collect()).unwrap()
    }

    // spec: HT-200
    #[test]
    fn a_name_that_was_added_is_served_at_once_whatever_the_former_end() {
        let dir = nix::unistd::mkdtemp(&std::env::temp_dir().join("lucia-tls-XXXXXX")).unwrap();
        let before = ["controller.test", "192.0.2.7"];
        let after = ["controller.test", "192.0.2.7", "2001:db8::7", "other.test"];
        let endpoint = EndpointCertificate::open(&dir, names(&before)).unwrap();
        assert!(endpoint.take(&signed(&endpoint, 2090)).unwrap());
        assert!(!endpoint.take(&signed(&endpoint, 2089)).unwrap(), "an older answer for the same names");
        let former = signed(&endpoint, 2095);

        let endpoint = EndpointCertificate::open(&dir, names(&after)).unwrap();
        assert!(endpoint.take(&signed(&endpoint, 2030)).unwrap());
        let asked = UnixTime::from_secs(1_893_456_000);
        assert_eq!(endpoint.not_after(), Some(asked), "2030-01-01");
        assert!(!endpoint.take(&former).unwrap(), "an answer for the names before, with a later end");
        assert_eq!(endpoint.not_after(), Some(asked));

        // A name that was taken away is one more than asked for, and the certificate may go on to its end.
        let endpoint = EndpointCertificate::open(&dir, names(&before)).unwrap();
        assert!(!endpoint.take(&signed(&endpoint, 2029)).unwrap());
        assert!(endpoint.take(&signed(&endpoint, 2031)).unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

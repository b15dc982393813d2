//! The CA inside the worker (design.md W2): an issuing CA under a root whose key is needed only to make it.

use std::time::Duration;

use lucia_proto::base::ids::NodeId;
use lucia_proto::base::limits::{LEAF_BACKDATE, LEAF_LIFETIME};
use lucia_proto::base::names::Hostname;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::csr::CheckedCsr;
use lucia_proto::pki::endpoint_names::EndpointName;
use lucia_proto::pki::key::{NodeKey, NodePublicKey};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::contract::{Ca, CaError, Issuing, PemChain, ServerLeaf, Trust};
use super::issuing::check_server;
use super::server::ServerCsr;

/// 20 years of 365.25 days.
const ROOT_LIFETIME: Duration = Duration::from_secs(7305 * 24 * 3600);
/// Two years.
const ISSUING_LIFETIME: Duration = Duration::from_secs(731 * 24 * 3600);
/// Where the point begins in the DER of a P-256 public key.
const POINT_AT: usize = 26;

/// The issuing CA and its key.
pub struct Embedded {
    issuer: Issuer<'static, KeyPair>,
    issuing: Issuing,
}

/// A new authority: its key, and its certificate in PEM.
#[derive(Debug)]
pub struct Authority {
    /// Its key.
    pub key: NodeKey,
    /// Its certificate.
    pub pem: String,
}

/// A public key as rcgen wants it.
struct Subject<'a>(&'a NodePublicKey);

impl PublicKeyData for Subject<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.der().get(POINT_AT..).unwrap_or_default()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// A new root, valid from `now` for 20 years.
///
/// # Errors
/// No random bytes, or the certificate cannot be signed.
pub fn make_root(now: UnixTime) -> Result<Authority, CaError> {
    let key = new_key()?;
    let mut params = authority("Lucia Nodes root", now, ROOT_LIFETIME)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    let signer = signer(&key)?;
    let pem = params.self_signed(&signer).map_err(CaError::Sign)?.pem();
    Ok(Authority { key, pem })
}

/// A new issuing CA, signed by the root, valid from `now` for two years.
///
/// # Errors
/// As [`make_root`].
pub fn make_issuing(root: &Authority, now: UnixTime) -> Result<Authority, CaError> {
    let key = new_key()?;
    let issuer = Issuer::from_ca_cert_pem(&root.pem, signer(&root.key)?).map_err(CaError::Sign)?;
    // The year of its birth keeps two issuing CAs of one root apart.
    let year = now.to_string().chars().take(4).collect::<String>();
    let mut params = authority(&format!("Lucia Nodes issuing CA {year}"), now, ISSUING_LIFETIME)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let pem = params.signed_by(&Subject(key.public()), &issuer).map_err(CaError::Sign)?.pem();
    Ok(Authority { key, pem })
}

/// A new random key.
///
/// # Errors
/// [`CaError::Random`].
pub(crate) fn new_key() -> Result<NodeKey, CaError> {
    loop {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| CaError::Random)?;
        if let Some(key) = NodeKey::from_random(&bytes) {
            return Ok(key);
        }
    }
}

fn signer(key: &NodeKey) -> Result<KeyPair, CaError> {
    let pem = key.to_pem().map_err(|_| CaError::Key)?;
    KeyPair::from_pem(&pem).map_err(CaError::Sign)
}

fn authority(name: &str, now: UnixTime, lifetime: Duration) -> Result<CertificateParams, CaError> {
    let from = now.minus(LEAF_BACKDATE);
    let mut params = parameters(name, from, from.plus(lifetime))?;
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// A common name in UTF-8, a lifetime, a random serial number, and nothing else.
fn parameters(common_name: &str, from: UnixTime, to: UnixTime) -> Result<CertificateParams, CaError> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(|_| CaError::Random)?;
    // Positive, and always 16 bytes.
    let [first, ..] = &mut serial;
    *first = (*first & 0x3f) | 0x40;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = date(from);
    params.not_after = date(to);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn date(at: UnixTime) -> OffsetDateTime {
    let secs = i64::try_from(at.secs()).unwrap_or(i64::MAX);
    // Every UnixTime is before the year 10000, which this type can hold.
    OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn dns(name: &str) -> Result<SanType, CaError> {
    Ok(SanType::DnsName(name.try_into().map_err(CaError::Sign)?))
}

impl Embedded {
    /// Puts the issuing CA together from its certificate and key.
    ///
    /// # Errors
    /// [`CaError::Issuing`], [`CaError::Key`]. That the root signed it is for the bundle to say.
    pub fn open(pem: &str, key_pem: &str) -> Result<Self, CaError> {
        let issuing = Issuing::read(pem)?;
        let key = KeyPair::from_pem(key_pem).map_err(|_| CaError::Key)?;
        if key.subject_public_key_info() != issuing.spki() {
            return Err(CaError::Key);
        }
        let issuer = Issuer::from_ca_cert_pem(pem, key).map_err(CaError::Sign)?;
        Ok(Self { issuer, issuing })
    }

    fn leaf(
        &self,
        key: &NodePublicKey,
        common_name: &str,
        names: Vec<SanType>,
        usage: ExtendedKeyUsagePurpose,
        (from, to): (UnixTime, UnixTime),
    ) -> Result<rcgen::Certificate, CaError> {
        let mut params = parameters(common_name, from, to)?;
        params.subject_alt_names = names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.signed_by(&Subject(key), &self.issuer).map_err(CaError::Sign)
    }
}

impl Ca for Embedded {
    fn sign_node(
        &self,
        csr: &CheckedCsr,
        hostname: &Hostname,
        node_id: &NodeId,
        now: UnixTime,
    ) -> Result<PemChain, CaError> {
        let names = vec![dns(hostname.as_str())?];
        let (from, usage) = (now.minus(LEAF_BACKDATE), ExtendedKeyUsagePurpose::ClientAuth);
        let to = from.plus(LEAF_LIFETIME).min(self.issuing.not_after);
        let leaf = self.leaf(csr.public_key(), node_id.as_str(), names, usage, (from, to))?;
        Ok(PemChain { leaf: leaf.pem(), issuers: self.issuing.pem.clone() })
    }

    fn sign_server(&self, csr: &ServerCsr, lifetime: Duration, now: UnixTime) -> Result<ServerLeaf, CaError> {
        if now > self.issuing.not_after {
            return Err(CaError::Ended { not_after: self.issuing.not_after });
        }
        let names = csr.names().iter().map(|name| match name {
            EndpointName::Dns(name) => dns(name.as_str()),
            EndpointName::Ip(address) => Ok(SanType::IpAddress(*address)),
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let common_name = csr.names().first().to_string();
        let from = now.minus(LEAF_BACKDATE);
        let to = from.plus(lifetime).min(self.issuing.not_after);
        let leaf = self.leaf(csr.key(), &common_name, names, ExtendedKeyUsagePurpose::ServerAuth, (from, to))?;
        let (serial, not_after) = check_server(leaf.der(), csr)?;
        Ok(ServerLeaf { pem: format!("{}{}", leaf.pem(), self.issuing.pem), serial, not_after })
    }

    fn not_after(&self) -> UnixTime {
        self.issuing.not_after
    }

    fn issuing(&self) -> &Issuing {
        &self.issuing
    }

    fn health(&self) -> Result<String, CaError> {
        Ok("embedded".to_owned())
    }

    fn trust(&self) -> Trust {
        Trust::Own
    }
}

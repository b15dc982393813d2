//! The issuing CA's certificate, and what it must have signed for a server.

use std::time::Duration;

use lucia_proto::base::limits::LEAF_BACKDATE;
use lucia_proto::base::time::UnixTime;
use lucia_proto::pki::key::NodePublicKey;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::ExtendedKeyUsage;

use super::contract::{CaError, Issuing, PemChain, ServerLeaf, blocks};
use super::server::ServerCsr;

/// `subjectAltName`.
const SUBJECT_ALT_NAME: &str = "2.5.29.17";
/// `extKeyUsage`.
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
/// `serverAuth`.
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

impl Issuing {
    /// Its certificate, DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its key, DER.
    pub(super) fn spki(&self) -> &[u8] {
        &self.spki
    }
}

/// A server's leaf that another program signed: with the key and the names of the request and no others, for servers, for
/// no longer than was asked, by this issuing CA and no other.
pub(super) fn server_leaf(
    chain: &PemChain,
    csr: &ServerCsr,
    issuing: &Issuing,
    lifetime: Duration,
    now: UnixTime,
) -> Result<ServerLeaf, CaError> {
    let wrong = |field| CaError::Server { field };
    let pem = format!("{}{}", chain.leaf, chain.issuers);
    let blocks = blocks(&pem);
    let (leaf, issuers) = blocks.split_first().ok_or_else(|| wrong("encoding"))?;
    let (serial, not_after) = check_server(leaf, csr)?;
    let certificate = Certificate::from_der(leaf).map_err(|_| wrong("encoding"))?;
    let tbs = certificate.tbs_certificate();
    let not_before = UnixTime::from_secs(tbs.validity().not_before.to_unix_duration().as_secs());
    if not_before > now.plus(LEAF_BACKDATE) || not_after < now || not_after > now.plus(lifetime).plus(LEAF_BACKDATE) {
        return Err(wrong("validity"));
    }
    let extensions = tbs.extensions().map(Vec::as_slice).unwrap_or_default();
    let usage = extensions.iter().find(|extension| extension.extn_id.to_string() == EXTENDED_KEY_USAGE);
    let usage = usage.and_then(|found| ExtendedKeyUsage::from_der(found.extn_value.as_bytes()).ok());
    if !usage.is_some_and(|usage| usage.0.contains(&SERVER_AUTH)) {
        return Err(wrong("extKeyUsage"));
    }
    let is_ours = issuers.first().is_some_and(|der| *der == issuing.der)
        && tbs.issuer().to_der().is_ok_and(|name| name == issuing.subject);
    let key = NodePublicKey::from_der(&issuing.spki).map_err(|_| CaError::Issuing)?;
    let is_signed = match (tbs.to_der(), certificate.signature().as_bytes()) {
        (Ok(text), Some(signature)) => key.verify_der(&text, signature).is_ok(),
        _ => false,
    };
    if is_ours && is_signed { Ok(ServerLeaf { pem, serial, not_after }) } else { Err(CaError::WrongIssuer) }
}

/// Whole hours between the two ends of a leaf; none where it cannot be read or its end comes first.
pub(super) fn hours(chain: &str) -> u64 {
    let leaf = blocks(chain).first().and_then(|der| Certificate::from_der(der).ok());
    let secs = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs();
    leaf.map_or(0, |leaf| {
        let validity = leaf.tbs_certificate().validity();
        secs(&validity.not_after).saturating_sub(secs(&validity.not_before)) / 3600
    })
}

/// Reads a server's leaf back: its key and names are those of the request, and no other.
pub(super) fn check_server(der: &[u8], csr: &ServerCsr) -> Result<(String, UnixTime), CaError> {
    let wrong = |field| CaError::Server { field };
    let leaf = Certificate::from_der(der).map_err(|_| wrong("encoding"))?;
    let tbs = leaf.tbs_certificate();
    let key = tbs.subject_public_key_info().to_der().map_err(|_| wrong("subjectPublicKey"))?;
    if key != csr.key().der() {
        return Err(wrong("subjectPublicKey"));
    }
    let extensions = tbs.extensions().map(Vec::as_slice).unwrap_or_default();
    let names = extensions.iter().find(|extension| extension.extn_id.to_string() == SUBJECT_ALT_NAME);
    if !names.is_some_and(|extension| csr.are_names(extension.extn_value.as_bytes())) {
        return Err(wrong("subjectAltName"));
    }
    let serial = tbs.serial_number().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((serial, UnixTime::from_secs(tbs.validity().not_after.to_unix_duration().as_secs())))
}

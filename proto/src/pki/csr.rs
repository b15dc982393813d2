//! Certificate requests, checked against the one form they may have (design.md W5).
//!
//! A node's request is a template with three holes: node id, hostname, key. [`build`] fills it; [`check`] splits
//! what arrived, fills the template itself and compares each part whole, as bytes. So nothing can hide in an
//! attribute, a second name or an odd string type: what is not the template is refused naming the field. The
//! controller's endpoint request ([`endpoint_build`], [`endpoint_check`]) is the same with its configured names.
//!
//! The costly check, the request's own signature, comes last.

use crate::base::der::{
    CONTEXT_0, EXTENSION_REQUEST, INTEGER, OID, SET, SUBJECT_ALT_NAME, UTF8_STRING, bit_string, common_name,
    constructed, content, ecdsa_with_sha256, extension, parts, sequence, tlv,
};
use crate::base::digest::Digest;
use crate::base::ids::NodeId;
use crate::base::limits::CSR_PEM_MAX;
use crate::base::names::Hostname;
use crate::base::pem;
use crate::pki::endpoint_names::EndpointNames;
use crate::pki::general_names;
use crate::pki::key::{Fingerprint, NodeKey, NodePublicKey};

/// The label of a request's PEM block.
pub(crate) const LABEL: &str = "CERTIFICATE REQUEST";

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum CsrError {
    /// Too long, or not one strict PEM block of the right label.
    #[error("the CSR is not one strict PEM block")]
    Pem(#[source] pem::PemError),
    /// Not DER, or bytes after its end.
    #[error("the CSR is not DER")]
    Der(#[source] x509_cert::der::Error),
    /// A part differs from the template.
    #[error("the CSR's {field} is not what it must be for this node")]
    Field {
        /// The part, in the words of RFC 2986.
        field: &'static str,
    },
    /// All parts are right, but the holder of the key did not sign them.
    #[error("the CSR's own signature does not verify")]
    Signature,
}

impl CsrError {
    /// A short name of what was wrong, for logs and tables.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Pem(_) => "pem",
            Self::Der(_) => "der",
            Self::Field { field } => field,
            Self::Signature => "signature",
        }
    }
}

/// A request that is the template, for the key it names, signed by that key. Only a check in this module makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedCsr {
    der: Vec<u8>,
    public_key: NodePublicKey,
}

impl CheckedCsr {
    /// The request, DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of the DER: what an answer names the request by.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// The key that asks and signed.
    #[must_use]
    pub fn public_key(&self) -> &NodePublicKey {
        &self.public_key
    }
}

/// An endpoint's request: its names are exactly the configured ones. Only [`endpoint_check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedEndpointCsr {
    csr: CheckedCsr,
    names: EndpointNames,
}

impl CheckedEndpointCsr {
    /// The request itself.
    #[must_use]
    pub fn csr(&self) -> &CheckedCsr {
        &self.csr
    }

    /// The names it asks for: those it was checked against.
    #[must_use]
    pub fn names(&self) -> &EndpointNames {
        &self.names
    }
}

/// The request of a node, PEM. The same arguments give the same bytes: the signature is deterministic.
#[must_use]
pub fn build(node_id: &NodeId, hostname: &Hostname, key: &NodeKey) -> String {
    let names = general_names::one_dns(hostname.as_str());
    Template::new(node_id.as_str(), key.public(), &names).signed_by(key)
}

/// The request of the controller's endpoint, PEM: CN is the first name, the names are all of them.
#[must_use]
pub fn endpoint_build(names: &EndpointNames, key: &NodeKey) -> String {
    Template::new(&names.first().to_string(), key.public(), &names.general_names()).signed_by(key)
}

/// Checks a node's request against what it must be for this node id, hostname and key.
///
/// # Errors
/// The first part that differs, cheap parts first; see [`CsrError`].
pub fn check(
    text: &str,
    node_id: &NodeId,
    hostname: &Hostname,
    fingerprint: &Fingerprint,
) -> Result<CheckedCsr, CsrError> {
    let parsed = Parsed::read(text)?;
    if parsed.public_key.fingerprint() != *fingerprint {
        return Err(CsrError::Field { field: "subjectPublicKey" });
    }
    parsed.compare(node_id.as_str(), &general_names::one_dns(hostname.as_str()))
}

/// Checks the controller's own request against the names in the worker's configuration, whatever its key.
///
/// # Errors
/// As [`check`].
pub fn endpoint_check(text: &str, names: &EndpointNames) -> Result<CheckedEndpointCsr, CsrError> {
    let csr = Parsed::read(text)?.compare(&names.first().to_string(), &names.general_names())?;
    Ok(CheckedEndpointCsr { csr, names: names.clone() })
}

/// The parts of a `CertificationRequestInfo`, each a whole DER value.
struct Template {
    version: Vec<u8>,
    subject: Vec<u8>,
    key: Vec<u8>,
    attributes: Vec<u8>,
}

impl Template {
    fn new(common_name_text: &str, key: &NodePublicKey, general_names: &[u8]) -> Self {
        let extensions = sequence(&[&extension(SUBJECT_ALT_NAME, false, general_names)]);
        let request = sequence(&[&tlv(OID, EXTENSION_REQUEST), &constructed(SET, &[&extensions])]);
        Self {
            version: tlv(INTEGER, &[0]),
            subject: common_name(UTF8_STRING, common_name_text),
            key: key.der().to_vec(),
            attributes: constructed(CONTEXT_0, &[&request]),
        }
    }

    fn signed_by(&self, key: &NodeKey) -> String {
        let info = sequence(&[&self.version, &self.subject, &self.key, &self.attributes]);
        let signature = key.sign_der(&info);
        pem::encode(&sequence(&[&info, &ecdsa_with_sha256(), &bit_string(&signature)]), LABEL)
    }
}

/// A request in its parts, of which only the key has been read.
struct Parsed {
    der: Vec<u8>,
    public_key: NodePublicKey,
}

/// Exactly `N` parts of a value, or the name of the value.
fn split<'a, const N: usize>(whole: &'a [u8], field: &'static str) -> Result<[&'a [u8]; N], CsrError> {
    parts(whole).map_err(CsrError::Der)?.try_into().map_err(|_| CsrError::Field { field })
}

impl Parsed {
    fn read(text: &str) -> Result<Self, CsrError> {
        let der = pem::one(text, LABEL, CSR_PEM_MAX).map_err(CsrError::Pem)?;
        let [info, _, _] = split(&der, "structure")?;
        let [_, _, key, _] = split(info, "structure")?;
        let public_key = NodePublicKey::from_der(key).map_err(|_| CsrError::Field { field: "subjectPublicKey" })?;
        Ok(Self { der, public_key })
    }

    fn compare(self, common_name_text: &str, general_names: &[u8]) -> Result<CheckedCsr, CsrError> {
        let template = Template::new(common_name_text, &self.public_key, general_names);
        let [info, algorithm, signature] = split(&self.der, "structure")?;
        let [version, subject, key, attributes] = split(info, "structure")?;
        for (field, got, want) in [
            ("version", version, &template.version),
            ("subject", subject, &template.subject),
            ("subjectPublicKey", key, &template.key),
            ("signatureAlgorithm", algorithm, &ecdsa_with_sha256()),
        ] {
            if got != want.as_slice() {
                return Err(CsrError::Field { field });
            }
        }
        if attributes != template.attributes {
            return Err(CsrError::Field { field: attribute_field(attributes) });
        }
        // The outer headers are the one thing not compared yet: rebuilding proves there was no other tag in them.
        if self.der != sequence(&[&sequence(&[version, subject, key, attributes]), algorithm, signature]) {
            return Err(CsrError::Field { field: "structure" });
        }
        match content(crate::base::der::BIT_STRING, signature) {
            Some([0, bytes @ ..]) => self.public_key.verify_der(info, bytes).map_err(|_| CsrError::Signature)?,
            _ => return Err(CsrError::Field { field: "signature" }),
        }
        Ok(CheckedCsr { der: self.der, public_key: self.public_key })
    }
}

/// Which part of the attributes differs, for the log: they are known not to be the template's.
fn attribute_field(attributes: &[u8]) -> &'static str {
    let only = |whole| match parts(whole).as_deref() {
        Ok([one]) => Some(*one),
        _ => None,
    };
    let Some(attribute) = content(CONTEXT_0, attributes).and_then(|_| only(attributes)) else { return "attributes" };
    let values = match parts(attribute).as_deref() {
        Ok([oid, values]) if content(OID, oid) == Some(EXTENSION_REQUEST) => *values,
        _ => return "attributes",
    };
    let Some(extension) = only(values).and_then(only) else { return "extensions" };
    match parts(extension).as_deref() {
        Ok([oid, ..]) if content(OID, oid) == Some(SUBJECT_ALT_NAME) => "subjectAltName",
        _ => "extensions",
    }
}

#[cfg(test)]
mod tests;
